"""The machine's memory: what would not fit in it is refused before it is tried."""

from __future__ import annotations

import os

SHARE = 0.8
"""Of the machine's memory that may be taken."""


def memory() -> float:
    """Bytes of the machine; without end where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not on every system
        return float("inf")
