"""Where the names of points stand, so that they hide neither each other nor a point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LETTER, LINE, AWAY = 5.6, 12.0, 7.0
"""Pixels: mean width of a letter in 10-point text, height of a line, distance of a name from its point."""

# Right of the point first, then left, above, below, and the corners.
_SIDES = np.array([(1, 0), (-1, 0), (0, -1), (0, 1), (1, -0.8), (1, 0.8), (-1, -0.8), (-1, 0.8)])


def placed(
    points: NDArray[np.float64], named: Sequence[int], texts: Sequence[str], *, width: float
) -> NDArray[np.float64]:
    """Centres of the texts of the points `named`, in pixels as `points` (n, 2): (len(named), 2).

    Each takes the first free side of its point, or the one with the least overlap; texts end within 0 and `width` where
    a side allows.

    >>> placed(np.array([[50.0, 50.0], [70.0, 50.0]]), [0], ["abcd"], width=200)[0].tolist()  # left of it
    [31.8, 50.0]
    """
    taken = [np.array([x - 4, y - 4, x + 4, y + 4]) for x, y in points]
    centres = np.empty((len(named), 2))
    for k, (i, text) in enumerate(zip(named, texts, strict=True)):
        half = np.array([LETTER * len(text), LINE]) / 2
        options = points[i] + _SIDES * np.where(np.abs(_SIDES) < 1, LINE, half + AWAY)
        boxes = np.concatenate([options - half, options + half], axis=1)
        others = np.stack([box for j, box in enumerate(taken) if j != i] or [np.full(4, np.inf)])
        outside = np.maximum(0, -boxes[:, 0]) + np.maximum(0, boxes[:, 2] - width)
        best = int(np.argmin(_overlap(boxes, others) + LINE * outside))
        centres[k] = options[best]
        taken.append(boxes[best])
    return centres


def _overlap(boxes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Area that each box (left, top, right, bottom) shares with all the others together."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(axis=2).sum(axis=1))


def apart(values: NDArray[np.float64], *, gap: float) -> NDArray[np.float64]:
    """The nearest values (least squares) in the same order that are at least `gap` apart: (n,) -> (n,).

    >>> apart(np.array([5.0, 1.0, 1.0]), gap=2.0).tolist()
    [5.0, 0.0, 2.0]
    """
    order = np.argsort(values, kind="stable")
    shift = gap * np.arange(len(values))
    blocks: list[tuple[float, int]] = []  # mean and length of runs that touch
    for value in values[order] - shift:
        mean, length = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, many = blocks.pop()
            mean, length = (before * many + mean * length) / (many + length), many + length
        blocks.append((mean, length))
    made = np.empty(len(values))
    made[order] = np.concatenate([np.full(length, mean) for mean, length in blocks] or [shift]) + shift
    return made
