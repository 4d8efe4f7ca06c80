"""An HTML page, taken apart."""

from collections import Counter
from html.parser import HTMLParser


class Page(HTMLParser):
    """Whether tags are balanced, what the page refers to, its alternative texts, and its text."""

    VOID = frozenset({"meta", "br", "img", "hr", "input", "link"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.references, self.alts, self.words = [], Counter(), [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.references += [v for k, v in attributes if k in ("src", "href", "srcset", "data")]
        self.alts += [v for k, v in attributes if k == "alt"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())
