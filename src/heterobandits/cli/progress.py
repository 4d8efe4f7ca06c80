"""What a waiting person sees on the terminal: that kernels are being compiled, and how far a run is."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from heterobandits.cli import interrupts, terminal

if TYPE_CHECKING:
    from heterobandits.policies.policy import Policy


@contextmanager
def show_progress(
    title: str, policies: "Iterable[str | Policy]", quiet: bool
) -> Iterator[Callable[[int, int], None]]:
    """A callback for the work done and the total: it moves a progress bar, and raises interrupts."""
    with show_share_and_notes(policies, quiet) as (show, _):
        yield lambda done, total: show(title, done / total)


@contextmanager
def show_share_and_notes(
    policies: "Iterable[str | Policy]", quiet: bool
) -> Iterator[tuple[Callable[[str, float], None], Callable[[str], None]]]:
    """Two callbacks: what is running and the share of all work done move a bar; a note is a line of its own.

    From here on Ctrl-C is an exception, and the first callback sees that none gets lost.
    """
    check = interrupts.raise_on_interrupts()

    def note(text: str) -> None:
        if not quiet:
            print(f"heterobandits: {text}", file=sys.stderr)

    with _progress_bar(policies, quiet) as bar:
        task = None if bar is None else bar.add_task("", total=1.0)

        def show(title: str, share: float) -> None:
            check()
            if bar is not None and task is not None:
                bar.update(task, completed=share, description=title)

        yield show, note


@contextmanager
def _progress_bar(policies: "Iterable[str | Policy]", quiet: bool) -> Iterator[Progress | None]:
    """A progress bar on stderr, after compiling under a note; None if that is not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    console = terminal.new_console(to_stderr=True)
    compile_visibly(policies, console)
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield bar


def compile_visibly(policies: "Iterable[str | Policy]", console: Console) -> None:
    """Compile what these policies need under a note, if this machine has not done so yet."""
    from heterobandits.policies.policy import parse_policies
    from heterobandits.simulation.engine import compile_kernels, has_compiled_kernels

    entries = parse_policies(policies)
    if not has_compiled_kernels(entries):
        with console.status("compiling for this machine, once (up to a minute)"):
            compile_kernels(entries)
