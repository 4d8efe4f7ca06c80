"""How the kernels are compiled and cached: once per machine, and never from an old source.

Numba's own cache watches only the file a function stands in. A kernel that calls a rule in
another file would go on running the old rule after an edit there. Here the cache of every
kernel is stamped with a digest of all of `core/`, so any edit compiles all kernels anew.
"""

import hashlib
from contextlib import suppress
from pathlib import Path

from numba import njit
from numba.core.caching import FunctionCache


def source_digest():
    """SHA-256 over the names and contents of all files of this folder."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


SOURCE_DIGEST = source_digest()


class KernelCache(FunctionCache):
    """A compilation cache that is fresh or unused: stale, unreadable and unwritable all mean "compile"."""

    def __init__(self, py_func):
        super().__init__(py_func)
        self._cache_file._source_stamp = SOURCE_DIGEST

    def load_overload(self, sig, target_context):
        """The compiled code for a signature, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a truncated or foreign file can fail in any way while unpickling
            return None

    def save_overload(self, sig, data):
        """Keep compiled code for the next process, if that can be done."""
        try:
            super().save_overload(sig, data)
        except Exception:  # a full disk, or an index nobody can read: compiled code still runs
            self.disable()


def compiled(function):
    """Compile `function` without the interpreter lock, with IEEE division, cached per machine."""
    dispatcher = njit(nogil=True, error_model="numpy")(function)
    with suppress(RuntimeError):  # no folder can be written to: compile in every process
        dispatcher._cache = KernelCache(function)
    return dispatcher


def inlined(function):
    """Compile `function` into its callers: the small equations, called once per lane."""
    return njit(nogil=True, error_model="numpy", inline="always")(function)
