"""Accuracy over pairs of systems, from system scores (pairwise accuracy) or from p-values (soft pairwise accuracy).

Several functions share these arrays. `human` (items, systems) and `metrics` (metrics, items, systems) are ratings, NaN
if not rated. `units` (items,) is the resampling unit of each item, and `weights` (B, units) are the bootstrap weights
of the units. `item_weights` (items,) are the weights of the items. An output counts only if both the annotators and the
metric rated it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints, chunks
from custodes.stats.bootstrap import group_by_outputs, unit_sums, weighted_sums
from custodes.stats.correlation import system_counts
from custodes.stats.ratios import ratio

_CACHE = 4  # divisor of the size of temporary arrays, so that they fit the cache
_SAME = 1e-12  # relative rounding error


def pairwise_accuracy(means_human: Floats, means_metrics: Floats, *, pairs: Bools) -> Floats:
    """Proportion of system pairs that human and metric means put in the same order, (B, metrics).

    The means are arrays (B, metrics, systems). `pairs` (metrics, systems, systems) marks the pairs of systems that can
    be compared. A pair on which the human means or the metric means tie exactly is correct only if both tie exactly.
    Pairs with a NaN are left out. The result is NaN if no pair remains.

    >>> pairs = np.ones((1, 3, 3), dtype=bool)
    >>> pairwise_accuracy(np.array([[[1.0, 2, 3]]]), np.array([[[1.0, 3, 2]]]), pairs=pairs).round(3).tolist()
    [[0.667]]

    Source: Kocmi et al. 2021 ("To Ship or Not to Ship"), Accuracy.
    """
    counts = system_counts(means_human, means_metrics, pairs=pairs)
    n_tied = counts.pairs - counts.untied_x - counts.untied_y + counts.untied
    return ratio((counts.concordance + counts.untied) / 2 + n_tied, counts.pairs)


def spa(
    human: Floats,
    metrics: Floats,
    *,
    units: Ints,
    weights: NDArray[Any],
    flips: NDArray[np.int8],
    item_weights: Floats | None = None,
) -> Floats:
    """Soft pairwise accuracy (B, metrics): 1 - the mean over system pairs of |p(human) - p(metric)|.

    p is a one-sided p-value: it tests equality against the alternative that the first system of the pair (in the given
    order) is better. Row 0 of `weights` is the data. In this row, p is from the paired permutation test: the proportion
    of sign flips (K, units) with a difference of at least the observed one. A flip swaps the two systems of a pair in
    some units, in all items of such a unit. The flips are the same for the annotators and all metrics. In the other
    rows, p is the normal p-value of the mean difference divided by its standard error. The variance is clustered by
    unit and multiplied by G / (G - 1) for G units. This p-value estimates the same quantity as the permutation test,
    but needs no permutations within resamples. A pair without common items is left out, and so is a pair with a single
    unit in a resample. The result is NaN if no pair remains.

    >>> human, metric = np.array([[2.0, 1], [3, 1]]), np.array([[[0.2, 0.1], [0.1, 0.2]]])
    >>> flips = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=np.int8)
    >>> spa(human, metric, units=np.arange(2), weights=np.ones((1, 2)), flips=flips).tolist()
    [[0.5]]

    Source: Thompson, Mathur, Deutsch and Khayrallah 2024; "at least" as in the authors' code.
    """
    pairs = np.stack(np.triu_indices(human.shape[1], k=1))
    distance_sums, n_pairs = np.zeros((2, len(weights), len(metrics)))
    item_weights_or_one = 1.0 if item_weights is None else item_weights
    longest_axis = max(len(weights), len(flips), len(human))
    for metric_indices, rated_outputs in group_by_outputs(human, metrics):
        is_rated_by_both = np.zeros(human.shape, dtype=bool)
        is_rated_by_both.flat[rated_outputs] = True
        for a, b in (pairs[:, pair_chunk] for pair_chunk in chunks(pairs.shape[1], longest_axis)):
            pair_weights = (is_rated_by_both[:, a] & is_rated_by_both[:, b]).T * item_weights_or_one

            def compute_p_values(
                scores: Floats,
                a: Ints = a,
                b: Ints = b,
                pair_weights: Any = pair_weights,
                is_rated_by_both: Bools = is_rated_by_both,
            ) -> Floats:
                differences = _differences(scores, is_rated_by_both, a, b) * item_weights_or_one
                return _p_values(differences, pair_weights, units=units, weights=weights, flips=flips)

            p_human = compute_p_values(human)[:, np.newaxis]
            for metric_rows in (
                metric_indices[chunk] for chunk in chunks(len(metric_indices), _CACHE * len(a) * longest_axis)
            ):
                p_distance = np.abs(compute_p_values(metrics[metric_rows]) - p_human)
                distance_sums[:, metric_rows] += np.nansum(p_distance, axis=-1)
                n_pairs[:, metric_rows] += np.count_nonzero(~np.isnan(p_distance), axis=-1)
    return np.asarray(1 - ratio(distance_sums, n_pairs))


def _differences(scores: Floats, is_rated_by_both: Bools, a: Ints, b: Ints) -> Floats:
    """Score of system a minus score of system b: (..., items, systems) -> (..., pairs, items). A difference is 0 if the
    item lacks one of the systems, or if the difference is rounding error."""
    scores = np.where(is_rated_by_both, scores, 0.0)
    largest_score = np.abs(scores).max(axis=(-1, -2), keepdims=True)
    difference = np.where(is_rated_by_both[:, a] & is_rated_by_both[:, b], scores[..., a] - scores[..., b], 0.0)
    return np.where(np.abs(difference) <= _SAME * largest_score, 0.0, difference).swapaxes(-1, -2)


def _p_values(
    differences: Floats, pair_weights: NDArray[Any], *, units: Ints, weights: Floats, flips: NDArray[np.int8]
) -> Floats:
    """One-sided p-values (B, ..., pairs) of differences (..., pairs, items). `pair_weights` (pairs, items) is the
    weight of each item that has both systems of the pair, else 0."""
    from scipy.special import ndtr

    n_units = weights.shape[1]
    unit_differences = unit_sums(differences, units=units, n_units=n_units)
    unit_weights = unit_sums(pair_weights, units=units, n_units=n_units)
    pair_axes = (slice(None), *(np.newaxis,) * (unit_differences.ndim - 2))  # aligns (B, pairs) with (B, ..., pairs)
    difference_sums, variance = (
        weighted_sums(weights, unit_differences),
        weighted_sums(weights, unit_differences * unit_differences),
    )
    if (
        unit_weights.size and (unit_weights == unit_weights.flat[0]).all() and unit_weights.flat[0] > 0
    ):  # all units have the same weight for all pairs
        n_clusters = weights.sum(axis=1)[pair_axes][..., np.newaxis]
        with np.errstate(invalid="ignore", divide="ignore"):
            variance -= difference_sums * difference_sums * (1 / n_clusters)
    else:
        n_clusters = weighted_sums(weights, unit_weights > 0)[pair_axes]
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = difference_sums / weighted_sums(weights, unit_weights)[pair_axes]
            variance -= (
                2 * mean * weighted_sums(weights, unit_weights * unit_differences)
                - mean**2 * weighted_sums(weights, unit_weights * unit_weights)[pair_axes]
            )
    # Values that vary by no more than rounding error count as constant; this is checked only for few candidates.
    absolute_differences = unit_sums(np.abs(differences), units=units, n_units=n_units)
    is_near_rounding = variance <= _SAME * weights.max() * (absolute_differences * absolute_differences).sum(axis=-1)
    is_doubtful = is_near_rounding.any(axis=0)
    doubtful_differences = absolute_differences[is_doubtful]
    is_constant = variance[:, is_doubtful] <= _SAME * weighted_sums(
        weights, doubtful_differences * doubtful_differences
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        variance *= n_clusters / (n_clusters - 1)
        p = np.divide(difference_sums, np.sqrt(variance, out=variance), out=variance)
        ndtr(np.negative(p, out=p), out=p)
    if is_constant.any():  # without variation, p is 0 for a positive difference, otherwise 1
        p[:, is_doubtful] = np.where(
            is_constant,
            difference_sums[:, is_doubtful] <= _SAME * weighted_sums(weights, doubtful_differences),
            p[:, is_doubtful],
        )
    np.copyto(p, np.nan, where=n_clusters <= 1)
    threshold = difference_sums[0] - _SAME * (absolute_differences @ weights[0]).reshape(unit_differences.shape[:-1])
    is_flip_as_large = weighted_sums(flips, unit_differences * weights[0]) >= threshold
    p[0] = np.where(n_clusters[0] > 0, np.count_nonzero(is_flip_as_large, axis=0) / len(flips), np.nan)
    return p
