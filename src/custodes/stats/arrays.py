"""What all arithmetic shares: the kinds of arrays, and work in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Signs = NDArray[np.int8]

CHUNK = 1_000_000
"""Elements of a temporary array."""


def chunks(n: int, size: int) -> Iterator[slice]:
    """Slices of n things, so many at a time as a temporary array with `size` elements a thing may hold.

    >>> list(chunks(5, CHUNK // 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, CHUNK // max(1, size))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))
