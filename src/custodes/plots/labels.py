"""Where the names of points stand, so that they hide neither each other nor a point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import custodes.plots.alt as alt
import custodes.plots.theme as theme

LETTER, LINE = 6.7, 14.5
"""Pixels: mean width of a letter in 12-point text, height of a line."""

DISTANCES = (6.0, 16.0, 30.0, 48.0, 70.0, 95.0)
"""Pixels between a point and its name; a line joins them."""

CUT, HIDDEN, UNREADABLE = 100.0, 4.0, 20.0
"""What a pixel beyond the plot costs, a square pixel of a point behind the name, and of another name, where a pixel
further from the point costs 1."""

WIDTHS = {"narrow": (285.0,), "wide": (600.0, 940.0)}
"""Where a picture is as wide as the page: the widths of the plot that its names are placed for, on a phone and else."""

NARROW = 480
"""Pixels of the plot from which on names stand as in a wide one."""

# Right of the point first, then left, above, below, and the corners.
_SIDES = np.array([(1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)], dtype=np.float64)


def beside(
    places: NDArray[np.float64],
    texts: Sequence[str],
    named: Sequence[int],
    *,
    widths: Sequence[float],
    height: float,
    pad: float = 0.0,
) -> NDArray[np.float64]:
    """From each point to the middle of its name, in pixels: (n, 2), the same for plots of all `widths`.

    `places` (n, 2) are shares of the width from the left, less `pad` at both sides, and of `height` from the top. The
    points `named` take the free
    place that is nearest, or the one with the least overlap, each after those before it; every other point gets the
    place that it would take beside them. The same input gives the same places.

    >>> beside(np.array([[0.25, 0.5], [0.35, 0.5]]), ["abcd", ""], [0], widths=[200], height=100)[0].tolist()  # left
    [-19.4, 0.0]
    """
    offsets = np.zeros((len(places), 2))
    points = [places * (width - 2 * pad, height) + (pad, 0) for width in widths]
    marks = [np.concatenate([at - 4, at + 4], axis=1) for at in points]
    taken: list[list[NDArray[np.float64]]] = [[] for _ in widths]
    order = [*named, *sorted(set(range(len(places))) - set(named))]
    for i in order:
        half = np.array([LETTER * len(texts[i]), LINE]) / 2
        tried = np.concatenate([_SIDES * (half + away) for away in DISTANCES])
        cost = np.repeat(DISTANCES, len(_SIDES))
        boxes = [np.concatenate([at[i] + tried - half, at[i] + tried + half], axis=1) for at in points]
        for box, dots, names, width in zip(boxes, marks, taken, widths, strict=True):
            outside = np.maximum(0, -box[:, :2]).sum(axis=1) + np.maximum(0, box[:, 2:] - (width, height)).sum(axis=1)
            cost = cost + CUT * outside + HIDDEN * _overlap(box, np.delete(dots, i, axis=0))
            cost = cost + UNREADABLE * _overlap(box, np.array(names).reshape(-1, 4))
        best = int(np.argmin(cost))
        offsets[i] = tried[best]
        if i in named:
            for box, names in zip(boxes, taken, strict=True):
                names.append(box[best])
    return offsets


def columns(
    places: NDArray[np.float64],
    texts: Sequence[str],
    named: Sequence[int],
    *,
    height: float,
    width: float | None,
    pad: float = 0.0,
) -> dict[str, pl.Series]:
    """Where names stand as columns of the rows that are drawn: `named`, and what `beside` says of narrow plots and of
    wide ones, or of the one `width`."""
    columns_of_labels = {
        "named": np.isin(np.arange(len(texts)), named),
        "half": LETTER / 2 * np.array([len(text) for text in texts]),
    }
    for kind, widths in WIDTHS.items():
        label_widths = widths if width is None else (width,)
        offsets = beside(places, texts, named, widths=label_widths, height=height, pad=pad)
        columns_of_labels |= {f"dx_{kind}": offsets[:, 0].round(1), f"dy_{kind}": offsets[:, 1].round(1)}
    return {name: pl.Series(values) for name, values in columns_of_labels.items()}


COLUMNS = ("named", "half", *(f"{axis}_{kind}" for kind in WIDTHS for axis in ("dx", "dy")))


def layers(base: Any, text: str, is_labelled: str, **spot: Any) -> list[Any]:
    """Names of points with lines to them: rows with the `COLUMNS`, drawn where the expression `shown` holds, at the
    encodings `spot` (x, y); the chosen one is bold."""
    labelled = base.transform_filter(f"isValid(datum.dx_wide) && ({is_labelled})")
    dx, dy = (f"(width < {NARROW} ? datum.{axis}_narrow : datum.{axis}_wide)" for axis in ("dx", "dy"))
    ends = {"x2Offset": alt.expr(f"clamp(0, {dx} - datum.half, {dx} + datum.half)")}
    ends |= {"y2Offset": alt.expr(f"clamp(0, {dy} - {LINE / 2}, {dy} + {LINE / 2})")}
    words = {"xOffset": alt.expr(dx), "yOffset": alt.expr(dy), "fontWeight": alt.expr(_bold(text))}
    line = labelled.mark_rule(color=theme.GREY, strokeWidth=1, opacity=1, aria=False, **ends)
    names = labelled.encode(**spot, text=f"{text}:N")
    return [
        line.encode(**spot, x2=spot["x"].shorthand.partition(":")[0], y2=spot["y"].shorthand.partition(":")[0]),
        names.mark_text(**words, style="halo", aria=False),
        names.mark_text(**words),
    ]


CHOSEN = "chosen"
"""The parameter of a picture that holds the metric of the reader's choice, or none."""


def is_chosen(text: str) -> str:
    """The expression: this row is about the chosen metric, of whatever aspect."""
    return f"(datum.{text} === {CHOSEN} || indexof(datum.{text}, {CHOSEN} + ':') === 0)"


def choosing(chart: Any, metric: str = "") -> Any:
    """The chart with the metric that it names whatever else it names; the page fills in the reader's."""
    return chart.add_params(alt.param(name=CHOSEN, value=metric))


def extremes(values: NDArray[np.float64], many: int) -> list[int]:
    """The rows with the highest and with the lowest values, the most extreme first; those without are none.

    >>> extremes(np.array([0.2, np.nan, 0.9, 0.5]), 1)
    [2, 0]
    """
    order = [int(i) for i in np.argsort(values, kind="stable") if np.isfinite(values[i])]
    return [i for ends in zip(order[::-1][:many], order[:many], strict=True) for i in ends]


def _bold(text: str) -> str:
    return f"{is_chosen(text)} ? 'bold' : 'normal'"


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
    positions = np.empty(len(values))
    positions[order] = np.concatenate([np.full(length, mean) for mean, length in blocks] or [shift]) + shift
    return positions
