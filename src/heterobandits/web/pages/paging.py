"""Long lists in pages of a few dozen, each at an address of its own: no page draws more than somebody looks at."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from heterobandits.web.request_fields import Form

PAGE_MAX_ENTRIES = 50  # of a list, on a page
PAGE_SPARE_ENTRIES = 10  # that are not put on a page of their own

Entry = TypeVar("Entry")


class ListPage(NamedTuple, Generic[Entry]):
    """Some entries of a list, from which on and up to which, counted from 1, of how many; and where its other pages begin."""

    entries: list[Entry]
    first: int
    last: int
    total: int
    before: int | None
    after: int | None


def page_of(
    entries: Sequence[Entry], first: int | None, most: int = PAGE_MAX_ENTRIES
) -> ListPage[Entry]:
    """The page of a list that begins at an entry; the first page if no such entry is there.

    >>> page_of("abcdefg", 4, most=2)._replace(entries=[])
    ListPage(entries=[], first=3, last=4, total=7, before=1, after=5)
    >>> page_of("abc", 99).first
    1
    """  # fmt: skip
    count = len(entries)
    begin = 0 if first is None or not 1 <= first <= count else (first - 1) // most * most
    end = min(begin + most, count)
    if begin == 0 and count <= most + min(PAGE_SPARE_ENTRIES, most // 2):
        end = count
    return ListPage(
        entries=list(entries[begin:end]),
        first=begin + 1,
        last=end,
        total=count,
        before=begin - most + 1 if begin else None,
        after=end + 1 if end < count else None,
    )


def first_entry_in(form: Form, name: str) -> int | None:
    """Where the page begins that an address asks for; None if it says nothing that can be meant."""
    text = form.text(name)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
