"""Bounded waiting for other processes and threads, without assumptions on the speed of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 300.0
"""Seconds until an expected event counts as missing."""


def until(condition: Callable[[], T | None]) -> T:
    """Return the first true value of `condition`, which is polled; raise AssertionError after `PATIENCE` seconds.

    OSError counts as not yet true, because a file, process or server may not exist yet.
    """
    end, problem = time.monotonic() + PATIENCE, None
    while time.monotonic() < end:
        try:
            if value := condition():
                return value
        except OSError as error:
            problem = error
        time.sleep(0.02)
    raise AssertionError("it did not happen") from problem
