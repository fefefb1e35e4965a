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

The three costs are for each pixel outside the plot, for each square pixel of overlap with a point, and for each square
pixel of overlap with another label.
"""

WIDTHS = {"narrow": (285.0,), "wide": (600.0, 940.0)}
"""Widths in pixels for which labels are placed: widths of a plot on a phone, and at page width."""

NARROW = 480
"""Minimum plot width in pixels at which the label positions of the wide plot are used."""

# Candidates: right of the point first, then left, above, below, and the corners.
_SIDES = np.array([(1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)], dtype=np.float64)


def place_labels(
    relative_positions: NDArray[np.float64],
    texts: Sequence[str],
    labelled_indices: Sequence[int],
    *,
    widths: Sequence[float],
    height: float,
    pad: float = 0.0,
) -> NDArray[np.float64]:
    """Offsets (n, 2) in pixels from each point to the centre of its label. The offsets suit plots of all `widths`.

    `relative_positions` (n, 2) are fractions of the width from the left (without `pad` on both sides), and fractions of
    `height` from the top. Labels of the points `labelled_indices` are placed in this order, each at the nearest free
    position, or at the position with the least overlap. Every other point gets an offset for the case that only this
    point is labelled in addition. The result is deterministic.

    >>> points = np.array([[0.25, 0.5], [0.35, 0.5]])
    >>> place_labels(points, ["abcd", ""], [0], widths=[200], height=100)[0].tolist()  # left
    [-19.4, 0.0]
    """
    label_offsets = np.zeros((len(relative_positions), 2))
    pixel_positions_by_width = [relative_positions * (width - 2 * pad, height) + (pad, 0) for width in widths]
    placed_indices: list[int] = []
    for point_index in [*labelled_indices, *sorted(set(range(len(relative_positions))) - set(labelled_indices))]:
        half_sizes = (
            np.array([[LETTER * len(texts[label_index]), LINE] for label_index in [point_index, *placed_indices]]) / 2
        )
        candidate_offsets = np.concatenate([_SIDES * (half_sizes[0] + distance) for distance in DISTANCES])
        candidate_costs = np.repeat(DISTANCES, len(_SIDES))
        for pixel_positions, width in zip(pixel_positions_by_width, widths, strict=True):
            candidate_boxes = _boxes(pixel_positions[point_index] + candidate_offsets, half_sizes[0])
            label_boxes = _boxes(pixel_positions[placed_indices] + label_offsets[placed_indices], half_sizes[1:])
            mark_boxes = _boxes(np.delete(pixel_positions, point_index, axis=0), 4)
            pixels_outside = np.maximum(0, -candidate_boxes[:, :2]).sum(axis=1) + np.maximum(
                0, candidate_boxes[:, 2:] - (width, height)
            ).sum(axis=1)
            candidate_costs = candidate_costs + CUT * pixels_outside + HIDDEN * _overlap(candidate_boxes, mark_boxes)
            candidate_costs = candidate_costs + UNREADABLE * _overlap(candidate_boxes, label_boxes)
        label_offsets[point_index] = candidate_offsets[np.argmin(candidate_costs)]
        if point_index in labelled_indices:
            placed_indices.append(point_index)
    return label_offsets


def _boxes(centres: NDArray[np.float64], half_sizes: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Boxes (n, 4): left, top, right, bottom."""
    return np.concatenate([centres - half_sizes, centres + half_sizes], axis=1)


def columns(
    relative_positions: NDArray[np.float64],
    texts: Sequence[str],
    labelled_indices: Sequence[int],
    *,
    height: float,
    width: float | None,
    pad: float = 0.0,
) -> dict[str, pl.Series]:
    """Columns with the positions of labels, to be added to the rows of a figure.

    The column `named` states whether a row is labelled. The offsets come from `place_labels`, for narrow and for wide
    plots, or for one `width`.
    """
    values_of_column = {
        "named": np.isin(np.arange(len(texts)), labelled_indices),
        "half": LETTER / 2 * np.array([len(label_text) for label_text in texts]),
    }
    for width_kind, default_widths in WIDTHS.items():
        values_of_column[f"dx_{width_kind}"], values_of_column[f"dy_{width_kind}"] = (
            place_labels(
                relative_positions,
                texts,
                labelled_indices,
                widths=default_widths if width is None else (width,),
                height=height,
                pad=pad,
            )
            .round(1)
            .T
        )
    return {column_name: pl.Series(column_values) for column_name, column_values in values_of_column.items()}


COLUMNS = ("named", "half", *(f"{axis}_{kind}" for kind in WIDTHS for axis in ("dx", "dy")))


def layers(base_chart: Any, field_name: str, is_labelled_expression: str, **position_channels: Any) -> list[Any]:
    """Layers with labels of points and with lines from labels to points.

    Rows must have the `COLUMNS`. A row is labelled if `is_labelled_expression` is true. `position_channels` has the
    encodings x and y of the points. The label of the chosen metric is bold.
    """
    labelled_chart = base_chart.transform_filter(f"isValid(datum.dx_wide) && ({is_labelled_expression})")
    dx_expression, dy_expression = (
        f"(width < {NARROW} ? datum.{offset_name}_narrow : datum.{offset_name}_wide)" for offset_name in ("dx", "dy")
    )
    text_options = {
        "xOffset": alt.expr(dx_expression),
        "yOffset": alt.expr(dy_expression),
        "fontWeight": alt.expr(f"{is_chosen(field_name)} ? 'bold' : 'normal'"),
    }
    label_chart = labelled_chart.encode(**position_channels, text=alt.Text(f"{field_name}:N"))
    return [
        labelled_chart.mark_rule(
            color=theme.GREY,
            strokeWidth=1,
            opacity=1,
            aria=False,
            x2Offset=alt.expr(f"clamp(0, {dx_expression} - datum.half, {dx_expression} + datum.half)"),
            y2Offset=alt.expr(f"clamp(0, {dy_expression} - {LINE / 2}, {dy_expression} + {LINE / 2})"),
        ).encode(
            **position_channels,
            x2=alt.X2(position_channels["x"].shorthand.partition(":")[0]),
            y2=alt.Y2(position_channels["y"].shorthand.partition(":")[0]),
        ),
        label_chart.mark_text(**text_options, style="halo", aria=False),
        label_chart.mark_text(**text_options),
    ]


CHOSEN = "chosen"
"""Name of the parameter of a figure that contains the metric chosen by the reader, or an empty text."""


def is_chosen(field_name: str) -> str:
    """An expression that is true if the row belongs to the chosen metric, whatever the aspect of the metric."""
    return f"(datum.{field_name} === {CHOSEN} || indexof(datum.{field_name}, {CHOSEN} + ':') === 0)"


def metric_parameter(metric: str = "") -> Any:
    """The parameter of a chart for the metric that is always labelled. The page sets this parameter."""
    return alt.param(name=CHOSEN, value=metric).param


def extremes(values: NDArray[np.float64], n_extremes: int) -> list[int]:
    """Positions of the `n_extremes` highest and lowest values, the most extreme first, without missing values.

    >>> extremes(np.array([0.2, np.nan, 0.9, 0.5]), 1)
    [2, 0]
    """
    sorted_indices = np.argsort(values, kind="stable")[: np.isfinite(values).sum()]  # NaN is last
    return np.stack([sorted_indices[::-1][:n_extremes], sorted_indices[:n_extremes]], axis=1).ravel().tolist()


def _overlap(boxes: NDArray[np.float64], other_boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Total area of overlap of each box (left, top, right, bottom) with `other_boxes`."""
    overlap_upper_left = np.maximum(boxes[:, None, :2], other_boxes[None, :, :2])
    overlap_lower_right = np.minimum(boxes[:, None, 2:], other_boxes[None, :, 2:])
    return np.asarray(np.clip(overlap_lower_right - overlap_upper_left, 0, None).prod(axis=2).sum(axis=1))


def separate_positions(target_positions: NDArray[np.float64], *, gap: float) -> NDArray[np.float64]:
    """The positions (n,) closest to the values (n,) by least squares, in the same order and at least `gap` apart.

    >>> separate_positions(np.array([5.0, 1.0, 1.0]), gap=2.0).tolist()
    [5.0, 0.0, 2.0]
    """
    from scipy.optimize import isotonic_regression

    sorted_indices = np.argsort(target_positions, kind="stable")
    gap_offsets = gap * np.arange(len(target_positions))
    separated_positions = np.empty(len(target_positions))
    # The positions minus the gaps are not decreasing, so the closest ones are an isotonic regression.
    separated_positions[sorted_indices] = (
        isotonic_regression(target_positions[sorted_indices] - gap_offsets).x + gap_offsets
    )
    return separated_positions
