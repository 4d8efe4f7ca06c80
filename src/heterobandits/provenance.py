"""What numbers were made with: the versions that can change them, and the machine."""

import os
import platform
from importlib import import_module, metadata
from pathlib import Path
from typing import Any


def version(package: str) -> str:
    """The version of a package as installed; what it says itself, or "unknown", where it only lies in the path."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(import_module(package), "__version__", "unknown"))


def versions() -> dict[str, str]:
    """The versions of everything that can change a number."""
    found = {name: version(name) for name in ("heterobandits", "numpy", "numba")}
    return {"python": platform.python_version(), **found}


def machine() -> dict[str, Any]:
    """What the numbers were computed on; it changes how long that takes, not what comes out."""
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
