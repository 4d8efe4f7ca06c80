"""What `reproduce` and `compare` share: a long run under a bar, then its summary for a program or a person."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import typer

TrialsOption = Annotated[
    int | None, typer.Option(help="As many trials in every experiment.", show_default=False)
]


class Made(Protocol):
    """What comes of such a run."""

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


AnyMade = TypeVar("AnyMade", bound=Made)


def run_and_tell(
    run: Callable[..., AnyMade],
    policies: Iterable[str],
    tell: Callable[[AnyMade], None],
    format: str,
    quiet: bool,
) -> AnyMade:
    """Run under a bar; then print JSON, or what `tell` has for a person and where to look."""
    from heterobandits.cli.progress import shown_share

    with shown_share(policies, quiet) as (show, note):
        made = run(show=show, note=note)
    if format == "json":
        print(json.dumps(made.summary()))
        return made
    if made.quick:
        print("quick run: few trials, take no verdict from it")
    tell(made)
    print(f"{made.page} after {made.seconds:.0f} s")
    return made
