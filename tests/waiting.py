"""Waiting for other processes and threads: the bound ends a test that hangs, and no test needs a fast machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 300.0
"""Seconds until something that must happen counts as hung."""


def until(condition: Callable[[], T | None]) -> T:
    """The first true value of `condition`, which is called again and again; AssertionError after `PATIENCE`.

    OSError counts as not yet: a file, a process or a server may not be there.
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
