"""Argument values for fuzz tests of public functions."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

NAN = float("nan")


BAD: list[Any] = [
    *(None, True, -1, 0, 1, 1.5, NAN, float("inf"), 1e308, 5e-324, 10**12, 10**20, 10**400, 1j),
    *("", "x", "m1", "none", "nan", "1e400", "[", "!m1", "*", "a\nb\x1b[2J", "\x00", b"x", "x" * 100),
    *([], [1], ["x"], [None], [[1, 2], [3]], {}, {"a": 1}, {1: "a"}, {"x": NAN}, set(), {"x"}, range(3)),
    *(np.float64("nan"), np.int64(3), np.bool_(True), np.array([1, 2]), np.array(["a"])),
    *(pl.DataFrame({"a": [1]}), pl.Series([1.0]), Decimal(2), Decimal("NaN"), object(), int, print, Path("x")),
]
"""Values that most arguments reject."""
