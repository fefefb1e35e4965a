"""The estimator `inversion`: solve (mixture matrix) @ (human outcome) = (metric outcome) for the human outcome."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import chunks
from custodes.stats.correction.estimator import Counts, Estimate, Estimator
from custodes.stats.correction.poststratified import poststratified_margin

_PRIOR = 1 / 9  # one pseudo-annotation in total, over the nine cells of the paired table
_PRIOR_ALONE = 1 / 3  # one pseudo-annotation in total, over three cells
_DRAWS = 1000
_SINGULAR = 1e-12  # a smaller determinant is rounding error


def inversion_margin(counts: Counts, *, confidence: float, rng: np.random.Generator, **_: object) -> Estimate:
    """Return the margin of p in mu p = q, clipped to [-1, 1], for tables (...).

    q are the probabilities of the metric's labels. The matrix mu holds these probabilities given the human label and is
    estimated from the paired items. The column of mu for a preference that annotators never gave is uniform. The margin
    is a mean of three parts, each weighted by its number of items: the human margin of the paired items, the solution
    for the metric-only items, and the human margin of the human-only items.

    The interval and theta come from Bayesian-bootstrap draws with a prior of 1/9 for each paired cell and 1/3 for each
    metric-only or human-only cell. The interval is wide if mu is close to singular. Equal tables get equal results, and
    swapping the systems gives exactly the mirrored result. The margin is NaN if mu is singular or there are no
    annotations. Without annotations, the interval is [-1, 1] and theta is 1/2, whatever the metric's ratings.

    >>> counts = Counts(np.array([[32, 4, 4], [5, 10, 5], [4, 4, 32]]), np.array([450, 200, 350]), np.zeros(3))
    >>> result = inversion_margin(counts, confidence=0.95, rng=np.random.default_rng(0))
    >>> mu = (counts.paired / counts.paired.sum(axis=1, keepdims=True)).T
    >>> p = np.linalg.solve(mu, counts.metric / 1100)
    >>> bool(np.isclose(result.margin, p[0] - p[2]))
    True

    Source: Deriu et al. 2023, Section 3.2: the mixture p~ = mu p, here solved for p. The interval is ours.
    """
    distinct_tables = counts.distinct_tables()
    tables = distinct_tables.rows
    margin, margin_low, margin_high, win_probability = np.empty((4, len(tables)))
    for table_slice in chunks(len(tables), _DRAWS):
        margin[table_slice] = _solve_margin(_tables_as_draw(tables[table_slice]), tables[table_slice])[:, 0]
        # a draw with a singular matrix does not determine the margin and is set to 0
        margin_draws = np.nan_to_num(
            _solve_margin(_draw_gamma_cells(tables[table_slice], rng), tables[table_slice]).astype(np.float32)
        )
        margin_low[table_slice], margin_high[table_slice] = np.quantile(
            margin_draws, ((1 - confidence) / 2, (1 + confidence) / 2), axis=1
        )
        win_probability[table_slice] = (margin_draws > 0).mean(axis=1) + (margin_draws == 0).mean(axis=1) / 2

    has_no_annotations = tables[:, :9].sum(axis=1) + tables[:, 12:].sum(axis=1) == 0
    margin_low[has_no_annotations], margin_high[has_no_annotations], win_probability[has_no_annotations] = (
        -1.0,
        1.0,
        0.5,
    )
    # For a table that is its own mirror image, both tails estimate the same number.
    return distinct_tables.expand_estimate(
        Estimate.from_margin(margin, margin_low, margin_high, win_probability).symmetrise(distinct_tables.even)
    )


def _tables_as_draw(tables: NDArray[Any]) -> NDArray[Any]:
    """Return tables (n, 15) in the form of one draw (15, n, 1); the row of a preference that annotators never gave is
    uniform."""
    cell_counts = tables.astype(np.float64)
    paired_counts = cell_counts[:, :9].reshape(-1, 3, 3)
    # so small that the row of the channel is defined but the outcome does not change
    paired_counts[paired_counts.sum(axis=2) == 0] = 1e-300
    return cell_counts.T[:, :, np.newaxis]


def _draw_gamma_cells(tables: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Return gamma draws (15, n, draws) for the cells of tables (n, 15).

    Equal counts of a cell share their draws. Sharing saves time, because with few items there are few distinct counts.
    """
    gamma_draws = np.empty((15, len(tables), _DRAWS), dtype=np.float32)
    for cell_index, cell_counts in enumerate(tables.T):
        distinct_counts, distinct_count_indices = np.unique(cell_counts, return_inverse=True)
        pseudo_count = _PRIOR if cell_index < 9 else _PRIOR_ALONE
        gamma_draws[cell_index] = rng.standard_gamma(
            (distinct_counts + pseudo_count)[:, np.newaxis], (len(distinct_counts), _DRAWS), np.float32
        )[distinct_count_indices]
    return gamma_draws


def _solve_margin(cell_draws: NDArray[Any], tables: NDArray[Any]) -> NDArray[Any]:
    """Return the clipped margin (n, draws), given cells (15, n, draws) that were drawn for tables (n, 15).

    If a draw does not determine the margin, the result is NaN.
    """
    n_paired, n_metric_only, n_human_only = (
        tables[:, cell_range].sum(axis=1)[:, np.newaxis] for cell_range in (slice(9), slice(9, 12), slice(12, 15))
    )
    n_metric_only = np.where(n_paired > 0, n_metric_only, 0)  # without paired items the channel is unknown
    metric_only_draws, human_only_draws = cell_draws[9:12], cell_draws[12:]
    paired_human_totals = [
        cell_draws[first_cell_index] + cell_draws[first_cell_index + 1] + cell_draws[first_cell_index + 2]
        for first_cell_index in (0, 3, 6)
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        # rows of the channel, (3 metric, n, draws) each
        win_channel, tie_channel, loss_channel = (
            cell_draws[first_cell_index : first_cell_index + 3] / human_total
            for first_cell_index, human_total in zip((0, 3, 6), paired_human_totals, strict=True)
        )
        # Cramer's rule gives the vector g with channel @ g = (1, 0, -1); g is then applied to the metric's outcome.
        determinant = _triple_product(tie_channel, loss_channel, win_channel)
        determinant[np.abs(determinant) < _SINGULAR] = np.nan
        corrected_margin = (
            _triple_product(tie_channel, win_channel + loss_channel, metric_only_draws)
            / determinant
            / (metric_only_draws[0] + metric_only_draws[1] + metric_only_draws[2])
        )
        counts_and_margins = (
            (
                n_paired,
                (paired_human_totals[0] - paired_human_totals[2])
                / (paired_human_totals[0] + paired_human_totals[1] + paired_human_totals[2]),
            ),
            (n_metric_only, corrected_margin),
            (
                n_human_only,
                (human_only_draws[0] - human_only_draws[2])
                / (human_only_draws[0] + human_only_draws[1] + human_only_draws[2]),
            ),
        )
        margin = sum(
            np.where(
                n_annotations_of_part > 0,
                (n_annotations_of_part / (n_paired + n_metric_only + n_human_only)) * margin_of_part,
                0.0,
            )
            for n_annotations_of_part, margin_of_part in counts_and_margins
        )
    return np.where(n_paired + n_human_only > 0, np.clip(margin, -1, 1), np.nan)


def _triple_product(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
    """Return (a x b) . c over the first axis, which has length 3; several times faster than `np.cross`."""
    return np.asarray(
        (a[1] * b[2] - a[2] * b[1]) * c[0] + (a[2] * b[0] - a[0] * b[2]) * c[1] + (a[0] * b[1] - a[1] * b[0]) * c[2]
    )


INVERSION = Estimator(
    name="inversion",
    label="Inversion",
    doc="Solves the metric's confusion matrix for the human outcome probabilities; the intervals are wide.",
    estimate=inversion_margin,
    # approximates the margin, and is defined where the inversion is singular
    point=poststratified_margin,
)
