"""What a waiting person sees on the terminal: that kernels are compiled, and how far a run is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def shown_progress(title: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A callback that moves a bar on stderr; None, and no bar, if that is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    console = Console(stderr=True)
    compile_visibly(console)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def compile_visibly(console: Console) -> None:
    """Compile the kernels under a note, if this machine has not done so yet."""
    from heterobandits.simulation import compile_kernels, kernels_cached

    if not kernels_cached():
        with console.status("compiling for this machine, once (about ten seconds)"):
            compile_kernels()
