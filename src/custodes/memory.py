"""Refuse what would not fit in memory before it is tried: the system would end the process without a message."""

from __future__ import annotations

import os

from custodes.errors import OptionError

_NUMBERS = 1000
"""That a resample takes beside how often it holds each cluster: the statistics of all raters, of several aspects at
once. On the demo (seven metrics, three aspects) it is 3000 in agreement and less elsewhere."""

SHARE = 0.8
"""Of the machine's memory that may be taken."""


def memory() -> float:
    """Bytes of the machine; without end where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not on every system
        return float("inf")


def fits(needed: float) -> bool:
    """Whether so many bytes may be taken."""
    return needed <= SHARE * memory()


def of_resamples(resamples: int, units: float = 0.0) -> float:
    """Numbers of eight bytes that resamples take, each with how often it holds every one of so many `units`."""
    return (1 + resamples) * (units + _NUMBERS)


def check_memory(name: str, value: int, numbers: float) -> None:
    """Raise OptionError where `name`=`value` asks for so many `numbers` of eight bytes that they cannot be kept.

    >>> check_memory("resamples", 1000, 1e6)
    """
    needed, there = 8 * numbers, memory()
    if not fits(needed):
        raise OptionError(
            f"{name}={value}: takes about {needed / 1e9:.0f} GB of memory, and this machine has {there / 1e9:.0f} GB;"
            " ask for fewer"
        )
