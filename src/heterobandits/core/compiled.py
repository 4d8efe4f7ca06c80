"""How the kernels are compiled and cached: once per machine, and never from an old source.

Numba's own cache watches only the file a function stands in. A kernel that calls a rule in
another file would go on running the old rule after an edit there. Here the cache of every
kernel is stamped with a digest of all of `core/`, so any edit compiles all kernels anew.

Kernels allocate nothing and hand back nothing but numbers, so numba need not count who holds an array:
it would at every call, with an atomic addition, and threads would wait for each other's counters.
An allocation is then an error when the kernel is compiled.

With NUMBA_DISABLE_JIT=1 nothing is compiled: every kernel is the Python function it is written as, and
divides by zero without a warning, as the compiled one does in lanes whose result is not looked at.
"""

import hashlib
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
from numba import config, njit
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher
from numba.core.types import FunctionType, WrapperAddressProtocol
from numba.core.typing.typeof import typeof_impl
from numba.experimental import function_type  # noqa: F401, so that numba knows the type of a Kernel


def source_digest():
    """SHA-256 over the names and contents of all files of this folder."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


SOURCE_DIGEST = source_digest()
ONE_AT_A_TIME = threading.RLock()


class KernelCache(FunctionCache):
    """A compilation cache that is fresh or unused: stale, unreadable and unwritable all mean "compile"."""

    def __init__(self, py_func):
        super().__init__(py_func)
        self._cache_file._source_stamp = SOURCE_DIGEST

    def _index_key(self, sig, codegen):
        """What tells compiled code apart.

        Numba would pickle the functions in a closure, which gives other bytes in every process. Here a
        function has all of them in its name, and their sources are in the stamp.
        """
        return sig, codegen.magic_tuple(), self._py_func.__qualname__

    def has_any(self):
        """Whether compiled code of this function lies there, for any arguments."""
        try:
            return bool(self._cache_file._load_index())
        except Exception:  # unreadable means not there
            return False

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


OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}  # as said above
NO_WAY_IN = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class Inner(CPUDispatcher):
    """A kernel that kernels alone can call."""

    def __call__(self, *arguments):
        """Python finds no way in."""
        raise TypeError(
            f"{self.__name__} is called by kernels alone: call one of them, or compiled({self.__name__}.py_func)"
        )


def compiled(function):
    """Compile `function` without the interpreter lock, with IEEE division, cached per machine."""
    if config.DISABLE_JIT:
        return np.errstate(divide="ignore", invalid="ignore")(function)
    return cached(njit(**OPTIONS)(function))


def inner(function):
    """The same for a function that Python never calls: what takes its arguments apart often takes longer to
    compile than what is done with them."""
    if config.DISABLE_JIT:
        return compiled(function)
    return cached(Inner(function, targetoptions={"nopython": True, **OPTIONS, **NO_WAY_IN}))


def approximate(function):
    """The same for one whose result is known to be off by a bit: sums may be taken in any order."""
    if config.DISABLE_JIT:
        return compiled(function)
    options = {**OPTIONS, **NO_WAY_IN, "fastmath": {"reassoc", "contract"}}
    return cached(Inner(function, targetoptions={"nopython": True, **options}))


def cached(dispatcher):
    """Keep what is compiled for the next process."""
    with suppress(RuntimeError):  # no folder can be written to: compile in every process
        dispatcher._cache = KernelCache(dispatcher.py_func)
    return dispatcher


def inlined(function):
    """Compile `function` into its callers: the small equations, called once per lane."""
    return njit(**OPTIONS, inline="always")(function)


def is_ready(function):
    """Whether a kernel is compiled, here or in this machine's cache, for any arguments; or need not be."""
    if config.DISABLE_JIT:
        return True
    dispatcher = getattr(function, "dispatcher", function)
    cache = dispatcher._cache
    return bool(dispatcher.signatures) or (isinstance(cache, KernelCache) and cache.has_any())


class Kernel(WrapperAddressProtocol):
    """A compiled function of one signature that can be handed to another compiled function.

    That one calls it by its address, and is itself compiled once, not once for each.
    """

    def __init__(self, dispatcher, signature):
        self.dispatcher = dispatcher
        self.type = FunctionType(signature)
        self._signature = signature
        self._address = None

    def __call__(self, *arguments):
        """Call it from Python."""
        self.compile()
        return self.dispatcher(*arguments)

    def signature(self):
        """The numba signature."""
        return self._signature

    def compile(self):
        """Compile it, or load it from this machine's cache; for its signature and no other."""
        with ONE_AT_A_TIME:  # or a second thread would find it neither compiled nor to be compiled
            if not self.dispatcher.signatures:
                self.dispatcher.compile(self._signature.args)
                self.dispatcher.disable_compile()

    def __wrapper_address__(self):
        """Where the compiled code lies; part of numba's protocol."""
        if self._address is None:
            self.compile()
            code = self.dispatcher.get_compile_result(self._signature)
            name = code.fndesc.llvm_cfunc_wrapper_name
            self._address = code.library.get_pointer_to_function(name)
        return self._address


@typeof_impl.register(Kernel)
def type_of_kernel(one, context):
    """Its numba type, as it was made once: numba would make it anew in every call."""
    return one.type


def kernel(function, signature, note=""):
    """`function` compiled for `signature`, to be handed to other kernels; `note` tells apart those for several.

    A factory makes many functions of one name. Code from the cache and code compiled in this process
    would then bear the same symbol, and one kernel would run in another's place: the functions in
    its closure become part of its name.
    """
    inner = (cell.cell_contents for cell in function.__closure__ or ())
    names = ", ".join(getattr(part, "py_func", part).__qualname__ for part in inner)
    function.__qualname__ = f"{function.__qualname__}({names}){note}"
    dispatcher = compiled(function)
    return dispatcher if config.DISABLE_JIT else Kernel(dispatcher, signature)
