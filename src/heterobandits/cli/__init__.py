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

try:
    from typing import TextIO

    from heterobandits.cli import interrupts
except KeyboardInterrupt:  # Ctrl-C in the first moment: nothing has begun
    sys.exit(130)

UNPRINTED = 1
BAD_INPUT = 2
MOST_LETTERS = 300  # of a word in a message: a number may have thousands of digits


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    with interrupts.at_once():
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - or notes would go to stdout
        if sys.stdout is None:
            sys.exit(_complain("stdout is closed: there is nowhere to print to", UNPRINTED))
        for stream in (sys.stdout, sys.stderr):
            if isinstance(
                stream, io.TextIOWrapper
            ):  # a letter it does not have is no reason to fail
                stream.reconfigure(errors="backslashreplace")
        sys.exit(_run(arguments or sys.argv[1:] or ["--help"]))


def _run(arguments: list[str]) -> int:
    """The exit code of a command."""
    try:
        from heterobandits.cli.commands import run_command

        code = run_command(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = interrupts.INTERRUPTED
    except Exception as error:
        code = interrupts.INTERRUPTED if interrupts.asked() else _explain(error)
    if code == interrupts.INTERRUPTED:
        _say(interrupts.MESSAGE)
    return code


def _explain(error: Exception) -> int:
    """Say what went wrong, if it is nothing unforeseen, and give back the exit code."""
    if isinstance(error, MemoryError):
        return _complain("there is not enough memory for this", BAD_INPUT)
    if isinstance(error, OSError):
        _abandon(sys.stdout)
        if isinstance(error, BrokenPipeError):  # whoever reads it has gone and knows
            return UNPRINTED
        what = error.filename or "the output cannot be printed"
        return _complain(f"{what}: {error.strerror or error}", UNPRINTED)
    from heterobandits.errors import InvalidInput  # it takes a while

    if isinstance(error, InvalidInput):
        return _complain(str(error), BAD_INPUT)
    raise error


def _complain(message: str, code: int) -> int:
    """Print a message as one line, and give back the exit code."""
    words = (w if len(w) <= MOST_LETTERS else w[:MOST_LETTERS] + "..." for w in message.split())
    _say("heterobandits: " + " ".join(words))
    return code


def _say(line: str) -> None:
    """Print a line on stderr, if it can be."""
    try:
        print(line, file=sys.stderr)
    except OSError:
        _abandon(sys.stderr)


def _abandon(stream: TextIO) -> None:
    """Let what is left in a stream that cannot be written to go nowhere, or Python would try once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
