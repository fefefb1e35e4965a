"""Placement of point labels without overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import custodes.plots.alt as alt
import custodes.plots.theme as theme

LETTER, LINE = 6.7, 14.5
"""Mean width of a character of 12-point text, and height of a line, in pixels."""

DISTANCES = (6.0, 16.0, 30.0, 48.0, 70.0, 95.0)
"""Distance in pixels between a point and its label; a line connects them."""

CUT, HIDDEN, UNREADABLE = 100.0, 4.0, 20.0
"""Costs of a label's position relative to a pixel of distance from its point (1): a pixel outside the plot, a square
pixel of overlap with a point, and with another label."""

WIDTHS = {"narrow": (285.0,), "wide": (600.0, 940.0)}
"""Widths of the plot for which labels are placed: on a phone, and at page width."""

NARROW = 480
"""Minimum plot width in pixels at which the label positions of the wide plot are used."""

# Candidates: right of the point first, then left, above, below, and the corners.
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
    """Offsets from each point to the centre of its label, in pixels: (n, 2), valid for plots of all `widths`.

    `places` (n, 2) are fractions of the width from the left, after subtracting `pad` on both sides, and of `height`
    from the top. The points `named` get, in this order, the nearest free position or the one with the least overlap.
    Every other point gets the position that it would have as the only further label. The result is deterministic.

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
    """Label positions as columns of the drawn rows: `named`, and the offsets of `beside` for narrow and wide plots, or
    for one `width`.
    """
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
    """Point labels with lines to the points: rows with the `COLUMNS` for which the expression `is_labelled` holds, at
    the encodings `spot` (x, y); the chosen one is bold.
    """
    labelled = base.transform_filter(f"isValid(datum.dx_wide) && ({is_labelled})")
    dx, dy = (f"(width < {NARROW} ? datum.{axis}_narrow : datum.{axis}_wide)" for axis in ("dx", "dy"))
    ends = {"x2Offset": alt.expr(f"clamp(0, {dx} - datum.half, {dx} + datum.half)")}
    ends |= {"y2Offset": alt.expr(f"clamp(0, {dy} - {LINE / 2}, {dy} + {LINE / 2})")}
    words = {"xOffset": alt.expr(dx), "yOffset": alt.expr(dy), "fontWeight": alt.expr(_bold(text))}
    line = labelled.mark_rule(color=theme.GREY, strokeWidth=1, opacity=1, aria=False, **ends)
    names = labelled.encode(**spot, text=alt.Text(f"{text}:N"))
    return [
        line.encode(**spot, x2=spot["x"].shorthand.partition(":")[0], y2=spot["y"].shorthand.partition(":")[0]),
        names.mark_text(**words, style="halo", aria=False),
        names.mark_text(**words),
    ]


CHOSEN = "chosen"
"""Parameter of a figure with the metric chosen by the reader, if any."""


def is_chosen(text: str) -> str:
    """Expression: the row belongs to the chosen metric, of any aspect."""
    return f"(datum.{text} === {CHOSEN} || indexof(datum.{text}, {CHOSEN} + ':') === 0)"


def choosing(chart: Any, metric: str = "") -> Any:
    """The chart with a parameter for the metric that is always labelled; the page sets it."""
    return chart.add_params(alt.param(name=CHOSEN, value=metric))


def extremes(values: NDArray[np.float64], many: int) -> list[int]:
    """Positions of the highest and lowest values, the most extreme first, without missing values.

    >>> extremes(np.array([0.2, np.nan, 0.9, 0.5]), 1)
    [2, 0]
    """
    order = [int(i) for i in np.argsort(values, kind="stable") if np.isfinite(values[i])]
    return [i for ends in zip(order[::-1][:many], order[:many], strict=True) for i in ends]


def _bold(text: str) -> str:
    return f"{is_chosen(text)} ? 'bold' : 'normal'"


def _overlap(boxes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Area of overlap of each box (left, top, right, bottom) with all others."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(axis=2).sum(axis=1))


def apart(values: NDArray[np.float64], *, gap: float) -> NDArray[np.float64]:
    """Values closest to the given ones (least squares), in the same order, at least `gap` apart: (n,) -> (n,).

    >>> apart(np.array([5.0, 1.0, 1.0]), gap=2.0).tolist()
    [5.0, 0.0, 2.0]
    """
    order = np.argsort(values, kind="stable")
    shift = gap * np.arange(len(values))
    blocks: list[tuple[float, int]] = []  # mean position and length of adjacent groups of labels
    for value in values[order] - shift:
        mean, length = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, many = blocks.pop()
            mean, length = (before * many + mean * length) / (many + length), many + length
        blocks.append((mean, length))
    positions = np.empty(len(values))
    positions[order] = np.concatenate([np.full(length, mean) for mean, length in blocks] or [shift]) + shift
    return positions
