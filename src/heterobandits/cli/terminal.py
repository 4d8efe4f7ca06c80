"""Printing for a person: tables and lines that show names as they are, without markup."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def new_console(to_stderr: bool = False) -> "Console":
    """A console that shows brackets and colons as they are."""
    from rich.console import Console

    return Console(stderr=to_stderr, markup=False, emoji=False, highlight=False)


def print_item(item: "RenderableType") -> None:
    """Print a table, or a text with styles, on stdout."""
    new_console().print(item)
