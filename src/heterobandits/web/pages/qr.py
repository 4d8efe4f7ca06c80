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


def is_unreachable_base(base: str) -> bool:
    """Whether other machines cannot reach a server at this address.

    >>> is_unreachable_base("http://[::1]:8765"), is_unreachable_base("https://park.example.org")
    (True, False)
    """
    return is_loopback(urlsplit(base).hostname or "")
