"""The key that tokens of links are made with, so that a link can be printed again: it is kept beside the database, never in it.

    token = hb_{campaign}_{link}_{base64url(HMAC-SHA256(key, "{campaign}/{link}"))}

The log has only the hash of a token. So whoever has a copy of the database opens nothing, and without the key all links go on
opening; they just cannot be printed again. An SQLite file has its key in a file beside it; elsewhere a variable has it.
"""

import base64
import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from heterobandits.campaigns.storage.database import NEW_FILE_MODE, address_of_database
from heterobandits.errors import InvalidInput

LINK_KEY_VARIABLE = "HETEROBANDITS_LINK_KEY"
LINK_KEY_BYTES = 32  # random bytes of a key
LINK_KEY_MIN_LETTERS = 32  # letters of a key that somebody made up
LINK_KEY_SUFFIX = ".key"
OTHERS_MODE = 0o077  # what others than the owner of a file may do with it


class LinkKeys:
    """The key of a database. It is read each time: whoever deletes the file has another one from then on."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    @classmethod
    def beside(cls, database: str | Path) -> "LinkKeys":
        """The key of this database; one that is not a file has none but in the variable."""
        where = address_of_database(database)
        if not isinstance(where, Path):
            return cls(None)
        real = where.resolve()
        return cls(real.with_name(real.name + LINK_KEY_SUFFIX))

    def find(self) -> bytes | None:
        """The key, if there is one."""
        stated = os.environ.get(LINK_KEY_VARIABLE)
        if stated:
            return _check_key(stated.strip(), LINK_KEY_VARIABLE)
        if self.path is None:
            return None
        try:
            text = self.path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
        return text.encode() if len(text) >= LINK_KEY_MIN_LETTERS else None

    def settle(self) -> bytes | None:
        """The key, which is made now if there is none; None where it cannot be kept. Of several that make one the first decides."""
        found = self.find()
        if found is None and self.path is not None:
            with suppress(OSError):
                _write_new_key(self.path)
            found = self.find()
        return found

    @property
    def lack(self) -> str | None:
        """Why links cannot be printed again, for whoever can mend it; None if there is a key, or will be with the next link."""
        if self.find() is not None:
            return None
        if self.path is None:
            return f"the server needs {LINK_KEY_VARIABLE}, a text of {LINK_KEY_MIN_LETTERS} letters or more that is hard to guess"
        if self.path.exists():
            return f"{self.path.name}, beside the database, is not readable or not whole"
        if not os.access(self.path.parent, os.W_OK):
            return "the folder of the database cannot be written to"
        return None

    @property
    def warning(self) -> str | None:
        """What is wrong with the file that has the key: others may read it."""
        if os.environ.get(LINK_KEY_VARIABLE) or self.path is None:
            return None
        try:
            mode = self.path.stat().st_mode
        except OSError:
            return None
        if not mode & OTHERS_MODE:
            return None
        return f"others can read {self.path}, and with it make the tokens of links: chmod 600 {self.path}"


def _check_key(text: str, name: str) -> bytes:
    """A key that somebody has stated."""
    if len(text) < LINK_KEY_MIN_LETTERS or not text.isascii() or not text.isprintable():
        raise InvalidInput(
            f"{name} has {len(text)} letters: at least {LINK_KEY_MIN_LETTERS} that are hard to guess, in ASCII"
        )
    return text.encode()


def _write_new_key(path: Path) -> None:
    """Write a new key to a file that is not there yet: whole, or not at all, and never in place of another's."""
    text = base64.urlsafe_b64encode(secrets.token_bytes(LINK_KEY_BYTES)).decode().rstrip("=")
    aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    file = os.open(aside, flags, NEW_FILE_MODE)
    try:
        with open(file, "w", encoding="ascii") as page:
            page.write(f"{text}\n")
            page.flush()
            os.fsync(page.fileno())
        os.link(aside, path)
    finally:
        aside.unlink()


def token_of_link(campaign: str, link: str, key: bytes | None) -> str:
    """The token of a link by this key; without one it is random, and nobody can make it again.

    >>> token_of_link("d3e05ea50000", "0123456789ab", b"k" * 32)
    'hb_d3e05ea50000_0123456789ab_klZTDhLpllqzgNXKBW4b72gR2XGum8myzYAOnbFmzmM'
    """
    if key is None:
        secret = secrets.token_bytes(LINK_KEY_BYTES)
    else:
        secret = hmac.digest(key, f"{campaign}/{link}".encode(), hashlib.sha256)
    return f"hb_{campaign}_{link}_{base64.urlsafe_b64encode(secret).decode().rstrip('=')}"
