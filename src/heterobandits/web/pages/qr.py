"""Links as QR codes, and whether a phone can follow them."""

from urllib.parse import urlsplit

import segno
from markupsafe import Markup

from heterobandits.web.auth import is_loopback

QUIET = 4  # modules of white around a code, as the standard wants


def qr(text: str) -> Markup:
    """A QR code of a text as SVG, black on white wherever it stands; where a higher correction fits as well, it has that."""
    code = segno.make(text, error="m", micro=False)
    return Markup(
        code.svg_inline(border=QUIET, light="#fff", omitsize=True, svgclass=None, lineclass=None)
    )


def stays_here(base: str) -> bool:
    """Whether a server's address leads nowhere from another machine.

    >>> stays_here("http://[::1]:8765"), stays_here("https://park.example.org")
    (True, False)
    """
    return is_loopback(urlsplit(base).hostname or "")
