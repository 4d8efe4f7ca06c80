"""The command line in a process of its own."""

import subprocess
import sys

COMMAND = [sys.executable, "-m", "heterobandits"]


def run(*arguments):
    """What a command printed, and its exit code."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300
    )
