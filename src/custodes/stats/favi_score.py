"""The Favi-Score: which system do the errors of a metric favour? (von Däniken et al. 2024, "Favi-Score".)"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import chunks
from custodes.stats.correction.estimator import DistinctTables
from custodes.stats.ratios import ratio

_SIGN = np.array([1, 0, -1])  # win, tie, loss

ERROR_COST = _SIGN[np.newaxis, :] - _SIGN[:, np.newaxis]
"""How far an error shifts the outcome towards the first system, by preference [human, metric]. The Favi-Score paper
calls this cost W (Definition 8)."""
ERROR_COST.setflags(write=False)

SIZES = (0.0, 2.0)
"""Smallest and largest |favi|."""

_PRIOR = 1 / 6  # one pseudo-count in total over the six error cells; a uniform prior would dominate a few errors

_DRAWS_PER_BLOCK = 4_000_000
"""Number of draws of a cell for a block of tables. An array of these draws has 16 MB in single precision; about eight
such arrays exist. The number is a constant and does not depend on `CHUNK`, because another number would give other
random draws."""


class FaviPosterior(NamedTuple):
    """Interval of the Favi-Score, and the probability that metric and human margins have opposite signs, (...) each."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    flip_probability: NDArray[np.float64]


def errors(counts: NDArray[Any]) -> NDArray[Any]:
    """Number of comparisons in which metric and annotators differ: counts (..., 3, 3) -> (...).

    >>> int(errors(np.array([[5, 1, 0], [0, 2, 0], [1, 0, 3]])))
    2
    """
    return np.asarray(np.einsum("...hm,hm->...", counts, (ERROR_COST != 0).astype(np.int64)))


def sample_accuracy(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Proportion of comparisons in which metric and annotators agree: counts (..., 3, 3) -> (...); NaN without
    comparisons.

    >>> float(sample_accuracy(np.array([[360, 180, 60], [20, 40, 40], [90, 90, 120]])))
    0.52

    Source: von Däniken et al. 2024, trace(C) / n.
    """
    return ratio(np.einsum("...hh->...", counts), counts.sum(axis=(-2, -1)))


def favi_score(counts: NDArray[Any]) -> NDArray[np.float64]:
    """The Favi-Score in [-2, 2], positive if errors favour the first system: counts (..., 3, 3) -> (...).

    The score is NaN if the metric makes no errors, because favoritism is a property of errors.

    >>> float(favi_score(np.array([[90, 10, 0], [0, 100, 0], [10, 0, 90]])))
    0.5

    Source: von Däniken et al. 2024, Definition 9 (counts are [human, metric], order win, tie, loss).
    """
    return ratio(np.einsum("...hm,hm->...", counts, ERROR_COST), errors(counts))


def favi_posterior(counts: NDArray[Any], *, confidence: float, draws: int, rng: np.random.Generator) -> FaviPosterior:
    """Credible interval of the Favi-Score, and the probability of opposite margins, from counts (..., 3, 3).

    The prior is 1/6 per cell, so the proportions of the six error cells have the posterior Dirichlet(errors + 1/6). The
    interval is equal-tailed and extended to contain the estimate. The interval is NaN without errors or draws.
    `flip_probability` is the posterior probability that the metric margin and the human margin have opposite signs; it
    is NaN without comparisons or draws. Swapping the two systems mirrors the interval exactly. Equal tables get equal
    results, and the order of tables has no effect. All tables use the same draws. Each result has the right posterior,
    but the Monte Carlo errors of different tables are dependent.

    >>> low, high, flip = favi_posterior(
    ...     np.array([[90, 10, 0], [0, 100, 0], [10, 0, 90]]), confidence=0.95, draws=1000, rng=np.random.default_rng(0)
    ... )
    >>> bool(-0.2 < low < 0.5 < high < 1.2)
    True

    Source: developed for custodes; the Favi-Score paper mentions in its section Robustness that the score has no
    measure of uncertainty.
    """
    if not draws:
        return FaviPosterior(*np.full((3, *counts.shape[:-2]), np.nan))
    flat_tables = counts.reshape(-1, 9)
    # A table and its mirror image use the same draws.
    distinct_tables, is_symmetric_table, distinct_index_of_table, is_swapped_table = DistinctTables.from_tables(
        flat_tables, flat_tables[:, ::-1], shape=flat_tables.shape[:1]
    )
    n_tables_per_block = max(1, _DRAWS_PER_BLOCK // draws)
    bounds_and_flips_of_blocks = [
        _posterior(distinct_tables[start : start + n_tables_per_block], confidence=confidence, draws=draws, rng=rng)
        for start in range(0, len(distinct_tables), n_tables_per_block)
    ]
    low, high, flip_probability = np.concatenate([np.empty((3, 0)), *bounds_and_flips_of_blocks], axis=1)

    # For a table that is its own mirror image, both tails estimate the same number.
    half_width = (high - low) / 2
    low, high, flip_probability = (
        values[distinct_index_of_table]
        for values in (
            np.where(is_symmetric_table, -half_width, low),
            np.where(is_symmetric_table, half_width, high),
            flip_probability,
        )
    )
    favi_estimates = favi_score(flat_tables.reshape(-1, 3, 3))  # without errors, NaN also in the bounds below
    bounds_and_flips = (
        np.minimum(np.where(is_swapped_table, -high, low), favi_estimates),
        np.maximum(np.where(is_swapped_table, -low, high), favi_estimates),
        np.where(flat_tables.sum(axis=1) > 0, flip_probability, np.nan),
    )
    return FaviPosterior(*np.reshape(bounds_and_flips, (3, *counts.shape[:-2])))


def _posterior(
    flat_tables: NDArray[Any], *, confidence: float, draws: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Lower and upper quantile of the Favi-Score, and probability of opposite margins, for tables (n, 9): (3, n)."""
    error_cells = [(int(human), int(metric)) for human, metric in np.argwhere(ERROR_COST)]
    # Gamma draws per distinct count instead of per table: few items have few distinct counts.
    distinct_counts_and_index_of_cell = {
        cell: np.unique(flat_tables[:, 3 * cell[0] + cell[1]], return_inverse=True)
        for cell in (*error_cells, (0, 0), (2, 2))
    }
    gamma_draws_of_cell = {
        cell: rng.standard_gamma(
            (distinct_counts + _PRIOR)[:, np.newaxis], size=(len(distinct_counts), draws), dtype=np.float32
        )
        for cell, (distinct_counts, _) in distinct_counts_and_index_of_cell.items()
    }
    bounds_and_flips = np.empty((3, len(flat_tables)))
    for table_slice in chunks(len(flat_tables), 4 * draws):  # of a size that fits the cache

        def gather_cell_draws(cell: tuple[int, int], table_slice: slice = table_slice) -> NDArray[np.float32]:
            return np.asarray(gamma_draws_of_cell[cell][distinct_counts_and_index_of_cell[cell][1][table_slice]])

        human_margin_draws, metric_margin_draws, error_total_draws = np.zeros(
            (3, table_slice.stop - table_slice.start, draws), dtype=np.float32
        )
        for human_outcome, metric_outcome in error_cells:
            cell_draws = gather_cell_draws((human_outcome, metric_outcome))
            error_total_draws += cell_draws
            human_margin_draws += int(_SIGN[human_outcome]) * cell_draws
            metric_margin_draws += int(_SIGN[metric_outcome]) * cell_draws
        # From the error cells only (Lemma 1; the diagonal cancels), since large diagonals would cause rounding errors.
        favi_draws = (metric_margin_draws - human_margin_draws) / error_total_draws
        # Sorted before quantile, because its partition takes several times as long as a vectorised sort.
        favi_draws.sort(axis=1)
        bounds_and_flips[:2, table_slice] = np.quantile(
            favi_draws, [(1 - confidence) / 2, (1 + confidence) / 2], axis=1, overwrite_input=True
        )
        diagonal_margin_draws = gather_cell_draws((0, 0)) - gather_cell_draws((2, 2))
        bounds_and_flips[2, table_slice] = (
            (human_margin_draws + diagonal_margin_draws > 0) != (metric_margin_draws + diagonal_margin_draws > 0)
        ).mean(axis=1)
    return bounds_and_flips
