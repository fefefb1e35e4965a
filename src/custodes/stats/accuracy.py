"""Accuracy over pairs of systems: of system scores (pairwise accuracy), and of p-values (soft pairwise accuracy).

Common arrays: human (items, systems), metrics (metrics, items, systems), NaN = not rated; units (items,) the resampling
unit of each item; weights (B, units) the bootstrap weights of units; item_weights (items,) the weights of items. Only
outputs rated by both the annotators and the metric count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints, chunks
from custodes.stats.bootstrap import same_outputs, unit_sums, weighted_sums
from custodes.stats.correlation import system_counts
from custodes.stats.ratios import ratio

_CACHE = 4  # divisor of the size of temporary arrays, so that they fit the cache
_SAME = 1e-12  # relative rounding error


def pairwise_accuracy(means_human: Floats, means_metrics: Floats, *, pairs: Bools) -> Floats:
    """Proportion of system pairs that both means order equally: two (B, metrics, systems) -> (B, metrics).

    `pairs` (metrics, systems, systems): which pairs of systems can be compared. An exact tie agrees only with an exact
    tie. Pairs with a NaN are left out; NaN without pairs.

    >>> pairs = np.ones((1, 3, 3), dtype=bool)
    >>> pairwise_accuracy(np.array([[[1.0, 2, 3]]]), np.array([[[1.0, 3, 2]]]), pairs=pairs).round(3).tolist()
    [[0.667]]

    Source: Kocmi et al. 2021 ("To Ship or Not to Ship"), Accuracy.
    """
    counts = system_counts(means_human, means_metrics, pairs=pairs)
    tied = counts.pairs - counts.untied_x - counts.untied_y + counts.untied
    return ratio((counts.concordance + counts.untied) / 2 + tied, counts.pairs)


def spa(
    human: Floats,
    metrics: Floats,
    *,
    units: Ints,
    weights: NDArray[Any],
    flips: NDArray[np.int8],
    item_weights: Floats | None = None,
) -> Floats:
    """Soft pairwise accuracy, 1 - mean over system pairs of |p(human) - p(metric)| -> (B, metrics).

    p is the one-sided p-value of the hypothesis that the first system of the pair (in the given order) is better. Row 0
    of the weights, the data, uses the paired permutation test: the proportion of sign flips (K, units), the same for
    annotators and all metrics, with a difference of at least the observed one; a flip swaps both systems in a whole
    unit. The other rows use the normal p-value of the mean difference over its standard error clustered by unit, with
    G/(G-1), which estimates the same without permutations within resamples. A pair without common items, or with a
    single unit in a resample, is left out; NaN without pairs.

    >>> human, metric = np.array([[2.0, 1], [3, 1]]), np.array([[[0.2, 0.1], [0.1, 0.2]]])
    >>> flips = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=np.int8)
    >>> spa(human, metric, units=np.arange(2), weights=np.ones((1, 2)), flips=flips).tolist()
    [[0.5]]

    Source: Thompson, Mathur, Deutsch and Khayrallah 2024; "at least" as in the authors' code.
    """
    pairs = np.stack(np.triu_indices(human.shape[1], k=1))
    lost, n = np.zeros((2, len(weights), len(metrics)))
    share = 1.0 if item_weights is None else item_weights
    longest = max(len(weights), len(flips), len(human))
    for rows, rated in same_outputs(human, metrics):
        both = np.zeros(human.shape, dtype=bool)
        both.flat[rated] = True
        for a, b in (pairs[:, part] for part in chunks(pairs.shape[1], longest)):
            counted = (both[:, a] & both[:, b]).T * share

            def p_of(scores: Floats, a: Ints = a, b: Ints = b, counted: Any = counted, both: Bools = both) -> Floats:
                differences = _differences(scores, both, a, b) * share
                return _p_values(differences, counted, units=units, weights=weights, flips=flips)

            p_human = p_of(human)[:, np.newaxis]
            for some in (rows[chunk] for chunk in chunks(len(rows), _CACHE * len(a) * longest)):
                gap = np.abs(p_of(metrics[some]) - p_human)
                lost[:, some] += np.nansum(gap, axis=-1)
                n[:, some] += np.count_nonzero(~np.isnan(gap), axis=-1)
    return np.asarray(1 - ratio(lost, n))


def _differences(scores: Floats, both: Bools, a: Ints, b: Ints) -> Floats:
    """Score of system a minus score of system b, 0 for items without both systems and for rounding errors: (..., items,
    systems) -> (..., pairs, items)."""
    scores = np.where(both, scores, 0.0)
    largest = np.abs(scores).max(axis=(-1, -2), keepdims=True)
    difference = np.where(both[:, a] & both[:, b], scores[..., a] - scores[..., b], 0.0)
    return np.where(np.abs(difference) <= _SAME * largest, 0.0, difference).swapaxes(-1, -2)


def _p_values(
    differences: Floats, shared: NDArray[Any], *, units: Ints, weights: Floats, flips: NDArray[np.int8]
) -> Floats:
    """One-sided p-values (B, ..., pairs) of differences (..., pairs, items); shared items count (pairs, items)."""
    from scipy.special import ndtr

    n_units = weights.shape[1]
    d = unit_sums(differences, units=units, n_units=n_units)
    n = unit_sums(shared, units=units, n_units=n_units)
    extra = (slice(None), *(np.newaxis,) * (d.ndim - 2))  # aligns (B, pairs) with (B, ..., pairs)
    total, spread = weighted_sums(weights, d), weighted_sums(weights, d * d)
    if n.size and (n == n.flat[0]).all() and n.flat[0] > 0:  # all units are the same for all pairs
        clusters = weights.sum(axis=1)[extra][..., np.newaxis]
        with np.errstate(invalid="ignore", divide="ignore"):
            spread -= total * total * (1 / clusters)
    else:
        clusters = weighted_sums(weights, n > 0)[extra]
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / weighted_sums(weights, n)[extra]
            spread -= 2 * mean * weighted_sums(weights, n * d) - mean**2 * weighted_sums(weights, n * n)[extra]
    # Values that vary by no more than rounding error count as constant; this is checked only for few candidates.
    size = unit_sums(np.abs(differences), units=units, n_units=n_units)
    rough = spread <= _SAME * weights.max() * (size * size).sum(axis=-1)
    doubtful = rough.any(axis=0)
    doubtful_size = size[doubtful]
    still = spread[:, doubtful] <= _SAME * weighted_sums(weights, doubtful_size * doubtful_size)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread *= clusters / (clusters - 1)
        p = np.divide(total, np.sqrt(spread, out=spread), out=spread)
        ndtr(np.negative(p, out=p), out=p)
    if still.any():  # no flip reaches a positive difference, every flip reaches a zero difference
        p[:, doubtful] = np.where(
            still, total[:, doubtful] <= _SAME * weighted_sums(weights, doubtful_size), p[:, doubtful]
        )
    np.copyto(p, np.nan, where=clusters <= 1)
    observed = total[0] - _SAME * (size @ weights[0]).reshape(d.shape[:-1])
    reached = weighted_sums(flips, d * weights[0]) >= observed
    p[0] = np.where(clusters[0] > 0, np.count_nonzero(reached, axis=0) / len(flips), np.nan)
    return p
