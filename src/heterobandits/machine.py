"""This machine: the cores and the memory that a computation may use."""

import os
import sys


def available_threads() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """The bytes of memory this machine has; as many as can be counted where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def bytes_in_words(size: int) -> str:
    """A number of bytes as a person reads it.

    >>> bytes_in_words(1500), bytes_in_words(40 * 10**15)
    ('1.5 kB', '40 PB')
    """
    units = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")
    power = min((len(str(size)) - 1) // 3, len(units) - 1)
    return f"{size / 1000**power:,.3g} {units[power]}"
