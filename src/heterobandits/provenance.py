"""What produced some numbers: the versions that can change them, and the machine."""

import hashlib
import os
import platform
import sysconfig
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module, metadata, resources
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

PACKAGE_FOLDER = Path(str(resources.files("heterobandits")))  # wherever in it this module stands


@cache  # looking for it takes a while
def version_of(package: str) -> str:
    """The installed version of a package; if it is only on the path, its own statement or "unknown"."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(import_module(package), "__version__", "unknown"))


def versions_in_use() -> dict[str, str]:
    """The versions of everything that can change a number."""
    found = {name: version_of(name) for name in ("heterobandits", "numpy", "numba")}
    return {"python": platform.python_version(), **found}


def fingerprint(function: Callable[..., Any]) -> str:
    """A short text that identifies a function by its code, the values bound to it and the module variables it reads.

    Functions that it calls by name are followed, and modules of one's own are told apart by their sources; what is
    installed, such as numpy, is known by its name alone.
    """
    return hashlib.sha256(repr(_traits_of(function, ())).encode()).hexdigest()[:16]


def _traits_of(value: Any, within: tuple[int, ...]) -> Any:
    """What a value is made of, as texts and lists that are the same in every process."""
    if id(value) in within:  # a function that holds itself
        return "itself"

    def parts(*values: Any) -> list[Any]:
        return [type(value).__name__, *(_traits_of(v, (*within, id(value))) for v in values)]

    match value:
        case FunctionType():
            if is_installed(getattr(value.__code__, "co_filename", "")) and within:
                return [value.__module__, value.__qualname__]
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            read = {
                n: value.__globals__[n]
                for n in names_in_code(value.__code__)
                if n in value.__globals__
            }
            return parts(value.__code__, value.__defaults__, value.__kwdefaults__, *cells, read)
        case ModuleType():
            file = getattr(value, "__file__", None)
            if file is None or is_installed(file):
                return value.__name__
            return [value.__name__, hashlib.sha256(Path(file).read_bytes()).hexdigest()]
        case type():
            return [value.__module__, value.__qualname__]
        case CodeType():
            return parts(value.co_code, value.co_names, value.co_varnames, *value.co_consts)
        case MethodType():
            return parts(value.__func__, value.__self__)
        case partial():
            return parts(value.func, value.args, value.keywords)
        case tuple() | list():
            return parts(*value)
        case dict():
            return parts(*value.items())
        case set() | frozenset():
            return sorted(map(repr, value))
    if isinstance(getattr(value, "py_func", None), FunctionType):  # compiled by numba
        return parts(value.py_func)
    if hasattr(value, "tobytes"):  # an array, whose text leaves out its middle
        return parts(value.tobytes())
    if getattr(type(value), "__repr__", None) is object.__repr__:  # its text is its place in memory
        return parts(
            type(value).__call__ if callable(value) else None, getattr(value, "__dict__", None)
        )
    return repr(value)


def names_in_code(code: CodeType) -> list[str]:
    """The names that code looks up, nested code included."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return sorted({*code.co_names, *(name for part in inner for name in names_in_code(part))})


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to a package that is installed."""
    folders = {str(Path(path).resolve()) for path in sysconfig.get_paths().values()}
    path = str(Path(file).resolve())
    within = (
        path.startswith(folder + os.sep) for folder in (*folders, str(PACKAGE_FOLDER.resolve()))
    )
    return file.startswith("<frozen") or any(within)


def digest_of_sources(root: Path = PACKAGE_FOLDER) -> str:
    """A digest of the names and contents of all modules and templates in a folder, however deep they stand."""
    digest = hashlib.sha256()
    for path in sorted([*root.rglob("*.py"), *root.rglob("*.html")]):
        name = path.relative_to(root).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def describe_machine() -> dict[str, Any]:
    """The machine that computed the numbers; it changes how long that takes, not the numbers."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
    }
