"""The command line: thin commands that parse, call the library and print.

Results go to stdout; notes go to stderr, and progress too, but only to a terminal. Exit code 0 is
fine, 1 says that the output could not be printed (or that the paper is contradicted, where that
was asked), 2 is bad input with one line on stderr, 130 is an interrupt.

Whatever happens to the streams or by Ctrl-C, from the first import on, ends in a line or in silence:
all that is heavy is imported under `main`'s protection.
"""

import io
import os
import sys

from heterobandits.cli.exit_codes import EXIT_BAD_INPUT, EXIT_FAILURE, EXIT_INTERRUPTED

try:
    from typing import TextIO

    from heterobandits.cli import interrupts
except KeyboardInterrupt:  # Ctrl-C in the first moment: nothing has begun
    sys.exit(130)

MESSAGE_WORD_MAX_LETTERS = 300  # of a word in a message: a number may have thousands of digits


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    with interrupts.exit_on_interrupts_within():
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - or notes would go to stdout
        if sys.stdout is None:
            sys.exit(_print_error("stdout is closed: there is nowhere to print to", EXIT_FAILURE))
        for stream in (sys.stdout, sys.stderr):
            if isinstance(
                stream, io.TextIOWrapper
            ):  # a letter it does not have is no reason to fail
                stream.reconfigure(errors="backslashreplace")
        sys.exit(_exit_code_of(arguments or sys.argv[1:] or ["--help"]))


def _exit_code_of(arguments: list[str]) -> int:
    """The exit code of a command."""
    try:
        from heterobandits.cli.commands import run_command

        code = run_command(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except Exception as error:
        code = EXIT_INTERRUPTED if interrupts.has_interrupt() else _explain_error(error)
    if code == EXIT_INTERRUPTED:
        _print_to_stderr(interrupts.INTERRUPT_MESSAGE)
    return code


def _explain_error(error: Exception) -> int:
    """Print what went wrong, unless it was unforeseen, and return the exit code."""
    if isinstance(error, MemoryError):
        return _print_error("there is not enough memory for this", EXIT_BAD_INPUT)
    if isinstance(error, OSError):
        _discard_stream(sys.stdout)
        if isinstance(error, BrokenPipeError):  # whoever reads it has gone and knows
            return EXIT_FAILURE
        what = error.filename or "the output cannot be printed"
        return _print_error(f"{what}: {error.strerror or error}", EXIT_FAILURE)
    from heterobandits.errors import InvalidInput  # it takes a while

    if isinstance(error, InvalidInput):
        return _print_error(str(error), EXIT_BAD_INPUT)
    raise error


def _print_error(message: str, code: int) -> int:
    """Print a message as one line, and return the exit code."""
    words = (
        w if len(w) <= MESSAGE_WORD_MAX_LETTERS else w[:MESSAGE_WORD_MAX_LETTERS] + "..."
        for w in message.split()
    )
    _print_to_stderr("heterobandits: " + " ".join(words))
    return code


def _print_to_stderr(line: str) -> None:
    """Print a line on stderr if possible."""
    try:
        print(line, file=sys.stderr)
    except OSError:
        _discard_stream(sys.stderr)


def _discard_stream(stream: TextIO) -> None:
    """Discard what is left in a stream that cannot be written to; Python would try once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
