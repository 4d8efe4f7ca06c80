"""An HTML page, taken apart."""

import re
from collections import Counter

from bs4 import BeautifulSoup

VOID = frozenset({"meta", "br", "img", "hr", "input", "link"})
END = re.compile(r"</([\w-]+)\s*>|<([\w-]+)(?:\s[^<>]*)?/>")


def ends(source):
    """The elements that end, in their order; those that have no content do not count."""
    return [name for name in map("".join, END.findall(source)) if name not in VOID]


def words_of(text):
    """The text as a page shows it: spaces and line ends are one space."""
    return " ".join(text.split())


def value_of(field):
    """What a browser has in a field that nobody has touched."""
    if field.name == "textarea":
        return field.get_text().removeprefix("\n")
    if field.name == "select":
        return (field.select_one("option[selected]") or field.select_one("option"))["value"]
    return field.get("value", "")


class Page:
    """What a page says and refers to, what its fields hold, and what stands beside them; its tags are balanced, its ids unique."""

    def __init__(self, source):
        self.source = source
        self.soup = BeautifulSoup(source, "html.parser")
        assert ends(source) == ends(str(self.soup)), "tags are not balanced"
        elements = self.soup.find_all(True)
        self.tags = Counter(element.name for element in elements)
        ids = Counter(element["id"] for element in elements if "id" in element.attrs)
        assert set(ids.values()) <= {1}, f"ids are not unique: {ids.most_common(2)}"
        self.ids = ids.keys()
        self.references = [
            value
            for element in elements
            for name, value in element.attrs.items()
            if name in ("src", "href", "srcset", "data")
        ]

    def all(self, selector):
        """The elements that a selector of CSS is about."""
        return self.soup.select(selector)

    def element(self, key):
        """The element with this id."""
        return self.soup.find(id=key)

    @property
    def text(self):
        """All that it says."""
        return words_of(self.soup.get_text(" "))

    def part(self, key):
        """What the element with this id says."""
        return words_of(self.element(key).get_text())

    @property
    def fields(self):
        """What is in every field, by its name."""
        return {
            field["name"]: value_of(field) for field in self.all("input, textarea, select[name]")
        }

    @property
    def values(self):
        """What is in every field, by its id."""
        return {
            field["id"]: value_of(field)
            for field in self.all("input[id], textarea[id], select[id]")
        }

    @property
    def checked(self):
        """The names and values of what is ticked."""
        return {(field["name"], field["value"]) for field in self.all("input[checked]")}

    @property
    def opened(self):
        """The ids of what is unfolded."""
        return {element.get("id") for element in self.all("details[open]")}

    def beside(self, form, field):
        """What is said to be wrong beside a field that points to it."""
        described = self.element(f"{form}-{field}")
        assert described["aria-invalid"] == "true"
        assert f"wrong-{field}" in described["aria-describedby"].split()
        return self.part(f"wrong-{field}")
