"""Prints an interpreter for each Python that pyproject.toml allows, of those on the path and in pyenv, the oldest first."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

NEWEST = 30  # Python 3.30 is far


def version(interpreter):
    """(3, 11) and so on; None if it does not run."""
    code = "import sys; print(*sys.version_info[:2])"
    done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=False)
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else None


project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
oldest = tuple(map(int, re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"]).groups()))
pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
on_path = [shutil.which(f"python3.{minor}") for minor in range(oldest[1], NEWEST)]
found = {}
for interpreter in (*on_path, *sorted(map(str, pyenv.glob("versions/3.*/bin/python3")))):
    if interpreter is not None and (number := version(interpreter)) and number >= oldest:
        found.setdefault(number, interpreter)
print(*(found[number] for number in sorted(found)), sep="\n")
