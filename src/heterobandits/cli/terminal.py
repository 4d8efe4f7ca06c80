"""What is printed for a person: tables and lines in which a name is a name, and nothing is markup."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def console(to_stderr: bool = False) -> "Console":
    """A console that shows brackets and colons as they are."""
    from rich.console import Console

    return Console(stderr=to_stderr, markup=False, emoji=False, highlight=False)


def show(item: "RenderableType") -> None:
    """Print a table, or a text with styles, on stdout."""
    console().print(item)
