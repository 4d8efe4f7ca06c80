"""What the pages have in common: one HTML file that opens offline, prints, and reads on a phone."""

import base64
from collections.abc import Iterable, Sequence
from html import escape

STYLE = """
:root { --ink: #1c2430; --soft: #5b6675; --line: #d9dee5; --pass: #14713d; --fail: #b3261e; --unclear: #8a5a00; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink); background: #fff;
  margin: 0 auto; max-width: 72rem; padding: 1rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
p { max-width: 46rem; }
.soft, figcaption, td small { color: var(--soft); }
.quick { background: #fff4d6; border: 1px solid #e7c35a; padding: .5rem .75rem; border-radius: .4rem; }
.verdict { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; padding: 0; list-style: none; }
.verdict li { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem; min-width: 9rem; flex: 1; }
.verdict b { display: block; font-size: 1.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.n { white-space: nowrap; }
.mark { font-weight: 600; white-space: nowrap; }
.pass, .match, .yes { color: var(--pass); } .fail, .mismatch, .no { color: var(--fail); } .unclear, .tied { color: var(--unclear); }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 1rem; }
figure { margin: 0; break-inside: avoid; } figure img { width: 100%; height: auto; }
figcaption { font-size: .85rem; }
pre { overflow-x: auto; background: #f5f7f9; padding: .75rem; border-radius: .4rem; font-size: .8rem; }
@media (max-width: 40rem) {
  body { padding: .75rem; }
  table.claims thead { display: none; }
  table.claims tr { display: block; border-bottom: 1px solid var(--line); padding: .5rem 0; }
  table.claims td { display: block; border: 0; padding: .1rem 0; }
}
@media print { body { max-width: none; font-size: 10pt; } .scroll { overflow: visible; } tr { break-inside: avoid; } }
"""

MARKS = {"pass": "✓ pass", "fail": "✗ fail", "unclear": "? unclear", "match": "✓ match", "tied": "≈ tied", "mismatch": "✗ mismatch"}  # fmt: skip


def page(title: str, parts: Iterable[str]) -> str:
    """A whole page of these parts."""
    head = (
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
    )
    return "\n".join((*head, *parts, "</html>"))


def boxes(items: Iterable[tuple[str, str]]) -> str:
    """The numbers that fit on one screen, each with a few words."""
    shown = "".join(f"<li><b>{escape(number)}</b>{escape(text)}</li>" for number, text in items)
    return f"<ul class='verdict'>{shown}</ul>"


def mark(verdict: str) -> str:
    """A verdict in its colour."""
    return f"<span class='mark {verdict}'>{MARKS[verdict]}</span>"


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[int] = (), kind: str = ""
) -> str:
    """An HTML table; the columns in `numeric` are set to the right."""
    right = set(numeric)

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if i in right else ''}>{text}</{tag}>" for i, text in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f"<div class='scroll'><table class='{kind}'><thead><tr>{cells('th', head)}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def figure(title: str, caption: str, svg: str) -> str:
    """A figure with its caption, from its SVG text."""
    data = base64.b64encode(svg.encode()).decode()
    return (
        f"<figure><img alt='{escape(title, quote=True)}' src='data:image/svg+xml;base64,{data}'>"
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )
