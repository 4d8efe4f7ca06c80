"""Links as QR codes, and whether a phone can follow them."""

from urllib.parse import urlsplit

import segno
from markupsafe import Markup

from heterobandits.web.auth import is_loopback

QR_QUIET_MODULES = 4  # modules of white around a code, as the standard wants


def render_qr(text: str) -> Markup:
    """A QR code of a text as SVG, black on white wherever it stands; where a higher correction fits as well, it has that."""
    code = segno.make(text, error="m", micro=False)
    return Markup(
        code.svg_inline(
            border=QR_QUIET_MODULES, light="#fff", omitsize=True, svgclass=None, lineclass=None
        )
    )


def render_terminal_qr(text: str, *, coloured: bool) -> str:
    """The same in letters of half height, light ones where the code is white; coloured, whatever the terminal's colours are."""
    rows = [list(row) for row in segno.make(text, error="l", micro=False).matrix_iter(border=2)]
    rows += [[0] * len(rows[0])] * (len(rows) % 2)
    blocks = ("█", "▀", "▄", " ")  # by what is dark: nothing, below, above, both
    lines = (
        "".join(blocks[2 * above + below] for above, below in zip(upper, lower, strict=True))
        for upper, lower in zip(rows[::2], rows[1::2], strict=True)
    )
    begin, end = ("\x1b[38;5;231;48;5;16m", "\x1b[0m") if coloured else ("", "")
    return "\n".join(f"{begin}{line}{end}" for line in lines)


def is_unreachable_base(base: str) -> bool:
    """Whether other machines cannot reach a server at this address.

    >>> is_unreachable_base("http://[::1]:8765"), is_unreachable_base("https://park.example.org")
    (True, False)
    """
    return is_loopback(urlsplit(base).hostname or "")
