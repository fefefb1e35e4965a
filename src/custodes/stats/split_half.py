"""Split-half agreement of annotators, and the largest agreement with the mean of the annotators that a predictor can
reach."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.correlation import kendall
from custodes.stats.ratios import mean_of_defined

Half = NDArray[np.intp]

_TRUTHS = 20_000  # number of simulated outputs over all splits, large enough that their noise averages out
_FEWEST_TRUTHS = 4000
_GRID = np.sin(np.pi / 2 * np.linspace(0, 1, 17)) ** 2  # reliabilities; tau is steep at both ends
_COARSE = 4  # step between the reliabilities that are always simulated


def halves(n: int, *, most: int, rng: np.random.Generator) -> list[tuple[Half, Half]]:
    """Splits of n annotators into two halves, the smaller half first: all splits, or `most` random splits if there are
    more.

    With more than 12 annotators, the splits are always random.

    >>> [(a.tolist(), b.tolist()) for a, b in halves(3, most=10, rng=np.random.default_rng(0))]
    [([0], [1, 2]), ([1], [0, 2]), ([2], [0, 1])]
    """
    first_halves = [np.array(first_half) for first_half in combinations(range(n), n // 2)] if n <= 12 else []
    if n % 2 == 0:  # the second half of the list holds the complements of the first
        first_halves = first_halves[: len(first_halves) // 2]
    if not first_halves or len(first_halves) > most:
        first_halves = [np.sort(rng.permutation(n)[: n // 2]) for _ in range(most)]
    return [(first_half, np.setdiff1d(np.arange(n), first_half)) for first_half in first_halves]


def attainable_tau(
    tau: NDArray[Any], ratings: NDArray[Any], splits: Sequence[tuple[Half, Half]], *, rng: np.random.Generator
) -> Floats:
    """Kendall's tau-b between a predictor that knows the true scores and the mean of all annotators.

    `ratings` (annotators, outputs) are ratings, NaN if not rated. `tau` (...) is the tau-b between the means of two
    halves of the annotators, averaged over the `splits`. In the model, an annotator adds a normal error to the true
    score. The sum of true score and error is cut into the annotator's rating scale such that each rating has its
    observed frequency. All annotators have the same error variance. It is chosen such that simulated halves, with the
    missing values of the data, agree as much as `tau`, to about .01. Tied ratings limit the attainable tau-b. If most
    ratings are equal, the attainable tau-b can even be lower for annotators who agree better. The result is NaN if
    `tau` is NaN, or if no half varies. The result is 0 if `tau` is not positive.

    >>> rng = np.random.default_rng(0)
    >>> ratings, splits = np.array([[0.0, 1.0], [0.0, 1.0]]), [(np.array([0]), np.array([1]))]
    >>> attainable_tau(np.array([1.0, 0.0]), ratings, splits, rng=rng).round(2).tolist()  # two ratings: root of 1/2
    [0.71, 0.0]

    Source: the threshold model, Pearson 1900; Spearman 1910 and Brown 1910 for the reliability of means; Kendall 1945.
    """
    split_tau_by_reliability, truth_tau_by_reliability = _simulate_tau(ratings, splits, rng, tau[np.isfinite(tau)])
    if np.isnan(split_tau_by_reliability[-1] + truth_tau_by_reliability[-1]):
        return np.full_like(tau, np.nan)
    # Near 0, tau is proportional to the reliability, and the attainable tau-b is proportional to the root of tau.
    attainable_values = np.interp(
        np.sqrt(np.maximum(np.nan_to_num(tau), 0.0)), np.sqrt(split_tau_by_reliability), truth_tau_by_reliability
    )
    return np.where(np.isnan(tau), np.nan, attainable_values)


def _simulate_tau(
    ratings: Floats, splits: Sequence[tuple[Half, Half]], rng: np.random.Generator, tau: Floats
) -> tuple[Floats, Floats]:
    """Two simulated values of tau-b at increasing reliabilities of one annotator: between two halves, and between the
    true scores and the mean of all annotators. Within the range of `tau` (n,), values of tau-b between two halves,
    every reliability of the grid is simulated."""
    from scipy.special import ndtr, ndtri

    n_truths = max(_FEWEST_TRUTHS, _TRUTHS // len(splits))
    is_rated_truth = ~np.isnan(ratings[:, rng.integers(ratings.shape[1], size=n_truths)])
    true_scores = ndtri((rng.permutation(n_truths) + 0.5) / n_truths)
    # Errors are made exactly uncorrelated with the true scores and each other, which reduces noise.
    orthogonal_basis, triangular_factor = np.linalg.qr(
        np.column_stack([true_scores, rng.normal(size=is_rated_truth.T.shape)])
    )
    rating_errors = (orthogonal_basis * np.sign(np.diag(triangular_factor)) * np.sqrt(n_truths)).T[1:]
    sorted_ratings, n_ratings_of_annotator = np.sort(ratings, axis=1), np.sum(~np.isnan(ratings), axis=1, keepdims=True)
    # both halves of each split, then all annotators
    group_masks = np.array(
        [np.isin(np.arange(len(ratings)), group) for group in [*chain.from_iterable(splits), np.arange(len(ratings))]],
        dtype=np.float64,
    )
    n_ratings_of_group = group_masks @ is_rated_truth

    def simulate(reliability: float) -> tuple[float, float]:
        percentiles = ndtr(np.sqrt(reliability) * true_scores + np.sqrt(1 - reliability) * rating_errors)
        rating_indices = np.clip(
            (percentiles * n_ratings_of_annotator).astype(np.intp), 0, np.maximum(n_ratings_of_annotator - 1, 0)
        )
        simulated_ratings = np.where(is_rated_truth, np.take_along_axis(sorted_ratings, rating_indices, axis=1), 0.0)
        group_means = group_masks @ simulated_ratings / np.where(n_ratings_of_group > 0, n_ratings_of_group, np.nan)
        return (
            float(mean_of_defined(kendall(group_means[:-1:2], group_means[1::2]))),
            kendall(true_scores, group_means[-1]).item(),
        )

    # At reliability 0, both curves are 0 except for noise, which is nearly the same at the next reliability.
    noise = np.array(simulate(0.0))

    def simulate_grid(grid_indices: Ints) -> dict[int, Floats]:
        return {index: simulate(_GRID[index]) - (1 - _GRID[index]) * noise for index in grid_indices.tolist()}

    coarse_indices = np.arange(0, len(_GRID), _COARSE)
    tau_by_index = simulate_grid(coarse_indices[1:]) | {0: np.zeros(2)}
    coarse_tau = np.maximum.accumulate([tau_by_index[index][0] for index in coarse_indices.tolist()])
    first, last = np.searchsorted(coarse_tau, [tau.min(initial=coarse_tau[-1]), tau.max(initial=0.0)])
    range_indices = np.arange(coarse_indices[max(first - 1, 0)], coarse_indices[: last + 1][-1])
    tau_by_index |= simulate_grid(np.setdiff1d(range_indices, coarse_indices))
    split_tau, truth_tau = np.array([tau_by_index[index] for index in sorted(tau_by_index)]).T
    return np.maximum.accumulate(split_tau), truth_tau
