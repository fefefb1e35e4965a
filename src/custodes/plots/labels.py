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
"""Mean width of a character and height of a line of 12-point text, in pixels."""

DISTANCES = (6.0, 16.0, 30.0, 48.0, 70.0, 95.0)
"""Possible distances in pixels between a point and its label. A line connects the point and the label."""

CUT, HIDDEN, UNREADABLE = 100.0, 4.0, 20.0
"""Costs of the position of a label, relative to the cost of 1 for a pixel of distance between the label and its point.

They are the costs of a pixel outside the plot, of a square pixel of overlap with a point, and of a square pixel of
overlap with another label.
"""

WIDTHS = {"narrow": (285.0,), "wide": (600.0, 940.0)}
"""Widths in pixels for which labels are placed: widths of a plot on a phone, and at page width."""

NARROW = 480
"""Minimum plot width in pixels at which the label positions of the wide plot are used."""

# Candidates: right of the point first, then left, above, below, and the corners.
_SIDES = np.array([(1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)], dtype=np.float64)


def place_labels(
    point_positions: NDArray[np.float64],
    texts: Sequence[str],
    labelled_indices: Sequence[int],
    *,
    widths: Sequence[float],
    height: float,
    pad: float = 0.0,
) -> NDArray[np.float64]:
    """Offsets (n, 2) in pixels from each point to the centre of its label, which suit plots of all `widths`.

    `point_positions` (n, 2) are fractions of the width from the left (without `pad` on both sides), and fractions of
    `height` from the top. Labels of the points `labelled_indices` are placed in this order, each at the nearest
    free position, or at the position with the least overlap. Every other point gets an offset that suits its label
    if this label alone is added. The result is deterministic.

    >>> points = np.array([[0.25, 0.5], [0.35, 0.5]])
    >>> place_labels(points, ["abcd", ""], [0], widths=[200], height=100)[0].tolist()  # left
    [-19.4, 0.0]
    """
    offsets = np.zeros((len(point_positions), 2))
    points = [point_positions * (width - 2 * pad, height) + (pad, 0) for width in widths]
    all_mark_boxes = [np.concatenate([plot_positions - 4, plot_positions + 4], axis=1) for plot_positions in points]
    occupied_boxes: list[list[NDArray[np.float64]]] = [[] for _ in widths]
    order = [*labelled_indices, *sorted(set(range(len(point_positions))) - set(labelled_indices))]
    for i in order:
        half_size = np.array([LETTER * len(texts[i]), LINE]) / 2
        candidate_offsets = np.concatenate([_SIDES * (half_size + distance) for distance in DISTANCES])
        cost = np.repeat(DISTANCES, len(_SIDES))
        boxes = [
            np.concatenate(
                [plot_positions[i] + candidate_offsets - half_size, plot_positions[i] + candidate_offsets + half_size],
                axis=1,
            )
            for plot_positions in points
        ]
        for box, mark_boxes, placed_boxes, width in zip(boxes, all_mark_boxes, occupied_boxes, widths, strict=True):
            outside = np.maximum(0, -box[:, :2]).sum(axis=1) + np.maximum(0, box[:, 2:] - (width, height)).sum(axis=1)
            cost = cost + CUT * outside + HIDDEN * _overlap(box, np.delete(mark_boxes, i, axis=0))
            cost = cost + UNREADABLE * _overlap(box, np.array(placed_boxes).reshape(-1, 4))
        best_candidate = int(np.argmin(cost))
        offsets[i] = candidate_offsets[best_candidate]
        if i in labelled_indices:
            for box, placed_boxes in zip(boxes, occupied_boxes, strict=True):
                placed_boxes.append(box[best_candidate])
    return offsets


def columns(
    point_positions: NDArray[np.float64],
    texts: Sequence[str],
    labelled_indices: Sequence[int],
    *,
    height: float,
    width: float | None,
    pad: float = 0.0,
) -> dict[str, pl.Series]:
    """Columns with the positions of labels, to be added to the rows of a figure.

    The column `named` states whether a row is labelled. The offsets are those of `place_labels` for narrow and for wide
    plots, or for one `width`.
    """
    columns_of_labels = {
        "named": np.isin(np.arange(len(texts)), labelled_indices),
        "half": LETTER / 2 * np.array([len(text) for text in texts]),
    }
    for kind, widths in WIDTHS.items():
        label_widths = widths if width is None else (width,)
        offsets = place_labels(point_positions, texts, labelled_indices, widths=label_widths, height=height, pad=pad)
        columns_of_labels |= {f"dx_{kind}": offsets[:, 0].round(1), f"dy_{kind}": offsets[:, 1].round(1)}
    return {name: pl.Series(values) for name, values in columns_of_labels.items()}


COLUMNS = ("named", "half", *(f"{axis}_{kind}" for kind in WIDTHS for axis in ("dx", "dy")))


def layers(base: Any, text: str, is_labelled: str, **spot: Any) -> list[Any]:
    """Layers with labels of points and with lines from labels to points.

    Rows must have the `COLUMNS`. A row is labelled if the expression `is_labelled` is true. `spot` has the encodings x
    and y of the points. The label of the chosen metric is bold.
    """
    labelled_points = base.transform_filter(f"isValid(datum.dx_wide) && ({is_labelled})")
    dx, dy = (f"(width < {NARROW} ? datum.{axis}_narrow : datum.{axis}_wide)" for axis in ("dx", "dy"))
    line_ends = {"x2Offset": alt.expr(f"clamp(0, {dx} - datum.half, {dx} + datum.half)")}
    line_ends |= {"y2Offset": alt.expr(f"clamp(0, {dy} - {LINE / 2}, {dy} + {LINE / 2})")}
    text_channels = {"xOffset": alt.expr(dx), "yOffset": alt.expr(dy), "fontWeight": alt.expr(_bold(text))}
    line = labelled_points.mark_rule(color=theme.GREY, strokeWidth=1, opacity=1, aria=False, **line_ends)
    names = labelled_points.encode(**spot, text=alt.Text(f"{text}:N"))
    return [
        line.encode(**spot, x2=spot["x"].shorthand.partition(":")[0], y2=spot["y"].shorthand.partition(":")[0]),
        names.mark_text(**text_channels, style="halo", aria=False),
        names.mark_text(**text_channels),
    ]


CHOSEN = "chosen"
"""Name of the parameter of a figure that contains the metric chosen by the reader, or an empty text."""


def is_chosen(text: str) -> str:
    """An expression that is true if the row belongs to the chosen metric, whatever the aspect of the metric."""
    return f"(datum.{text} === {CHOSEN} || indexof(datum.{text}, {CHOSEN} + ':') === 0)"


def metric_parameter(metric: str = "") -> Any:
    """The parameter of a chart for the metric that is always labelled. The page sets this parameter."""
    return alt.param(name=CHOSEN, value=metric).param


def extremes(values: NDArray[np.float64], n_extremes: int) -> list[int]:
    """Positions of the `n_extremes` highest and lowest values, the most extreme first, without missing values.

    >>> extremes(np.array([0.2, np.nan, 0.9, 0.5]), 1)
    [2, 0]
    """
    order = [int(i) for i in np.argsort(values, kind="stable") if np.isfinite(values[i])]
    return [i for index_pair in zip(order[::-1][:n_extremes], order[:n_extremes], strict=True) for i in index_pair]


def _bold(text: str) -> str:
    return f"{is_chosen(text)} ? 'bold' : 'normal'"


def _overlap(boxes: NDArray[np.float64], other_boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Total area of overlap of each box (left, top, right, bottom) with `other_boxes`."""
    low = np.maximum(boxes[:, None, :2], other_boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], other_boxes[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(axis=2).sum(axis=1))


def separate_positions(values: NDArray[np.float64], *, gap: float) -> NDArray[np.float64]:
    """The positions (n,) closest to the values (n,) by least squares, in the same order and at least `gap` apart.

    >>> separate_positions(np.array([5.0, 1.0, 1.0]), gap=2.0).tolist()
    [5.0, 0.0, 2.0]
    """
    order = np.argsort(values, kind="stable")
    offsets = gap * np.arange(len(values))
    blocks: list[tuple[float, int]] = []  # mean position and length of adjacent groups of labels
    for value in values[order] - offsets:
        block_mean, n_in_block = float(value), 1
        while blocks and blocks[-1][0] > block_mean:
            previous_mean, previous_length = blocks.pop()
            block_mean, n_in_block = (
                (previous_mean * previous_length + block_mean * n_in_block) / (previous_length + n_in_block),
                previous_length + n_in_block,
            )
        blocks.append((block_mean, n_in_block))
    positions = np.empty(len(values))
    positions[order] = (
        np.concatenate([np.full(n_in_block, block_mean) for block_mean, n_in_block in blocks] or [offsets]) + offsets
    )
    return positions
