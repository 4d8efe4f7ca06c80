"""This machine: the cores and the memory that a computation may use."""

import os
import sys


def count_cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_memory_bytes() -> int:
    """The machine's memory in bytes; practically unlimited where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def render_bytes(size: int) -> str:
    """A number of bytes as a person reads it.

    >>> render_bytes(1500), render_bytes(40 * 10**15)
    ('1.5 kB', '40 PB')
    """
    units = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")
    power = min((len(str(size)) - 1) // 3, len(units) - 1)
    return f"{size / 1000**power:,.3g} {units[power]}"
