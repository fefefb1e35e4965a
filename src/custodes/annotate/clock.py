"""Time as a study knows it: the wall's for what is written down, a steady one for leases."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Clock:
    """`wall()` in seconds since the epoch, which may be set back; `steady()`, which is not."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
