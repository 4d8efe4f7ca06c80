"""What a waiting person sees on the terminal: that kernels are compiled, and how far a run is."""

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
def shown_progress(
    title: str, policies: "Iterable[str | Policy]", quiet: bool
) -> Iterator[Callable[[int, int], None]]:
    """A callback, with what is done and all there is, that moves a bar and sees to interrupts."""
    with shown_share(policies, quiet) as (show, _):
        yield lambda done, total: show(title, done / total)


@contextmanager
def shown_share(
    policies: "Iterable[str | Policy]", quiet: bool
) -> Iterator[tuple[Callable[[str, float], None], Callable[[str], None]]]:
    """Two callbacks: what is running and the share of all work done move a bar; a note is a line of its own.

    From here on Ctrl-C is an exception, and the first callback sees that none gets lost.
    """
    check = interrupts.raised()

    def note(text: str) -> None:
        if not quiet:
            print(f"heterobandits: {text}", file=sys.stderr)

    with _bar(policies, quiet) as bar:
        task = None if bar is None else bar.add_task("", total=1.0)

        def show(title: str, share: float) -> None:
            check()
            if bar is not None and task is not None:
                bar.update(task, completed=share, description=title)

        yield show, note


@contextmanager
def _bar(policies: "Iterable[str | Policy]", quiet: bool) -> Iterator[Progress | None]:
    """A bar on stderr, after compiling under a note; none if that is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    console = terminal.console(to_stderr=True)
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
    from heterobandits.policies.policy import checked_policies
    from heterobandits.simulation.engine import compile_kernels, kernels_cached

    entries = checked_policies(policies)
    if not kernels_cached(entries):
        with console.status("compiling for this machine, once (up to a minute)"):
            compile_kernels(entries)
