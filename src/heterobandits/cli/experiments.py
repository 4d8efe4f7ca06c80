"""What `reproduce` and `compare` share: a long run behind a progress bar, then its summary."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import typer

TrialsOption = Annotated[
    int | None, typer.Option(help="As many trials in every experiment.", show_default=False)
]


class LongRun(Protocol):
    """The result of such a run."""

    @property
    def quick(self) -> bool:
        """Whether it was a quick run."""

    @property
    def seconds(self) -> float:
        """How long it took."""

    @property
    def page(self) -> Path:
        """What to open."""

    def summary(self) -> dict[str, Any]:
        """The same for a program."""


AnyLongRun = TypeVar("AnyLongRun", bound=LongRun)


def run_and_print(
    run: Callable[..., AnyLongRun],
    policies: Iterable[str],
    tell: Callable[[AnyLongRun], None],
    format: str,
    quiet: bool,
) -> AnyLongRun:
    """Run behind a progress bar; then print JSON, or `tell`'s summary and where to look."""
    from heterobandits.cli.progress import show_share_and_notes

    with show_share_and_notes(policies, quiet) as (show, note):
        made = run(show=show, note=note)
    if format == "json":
        print(json.dumps(made.summary()))
        return made
    if made.quick:
        print("quick run: few trials, take no verdict from it")
    tell(made)
    print(f"{made.page} after {made.seconds:.0f} s")
    return made
