"""Do two metrics agree with people equally well? Swap whole units between them and see how often chance does as well.

Scores are standardised over the tested outputs before swapping, or the swap itself would change the scale: on raw
scales the test rejects a true null in 1.3 % of cases and finds a planted difference half the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.resampling.resample import permutation_p, unit_sums

CHUNK_CELLS = 1_000_000


def swap_mean(over: Floats, under: Floats, *, units: Ints, flips: NDArray[Any], first: Ints, second: Ints) -> Floats:
    """p-values (pairs,) for a statistic sum(over) / sum(under), both (metrics, items), additive over items.

    Under the null the two metrics of a pair may exchange all they have on a unit. `flips` (n, units) of +-1 are shared
    by all pairs; `first`, `second` (pairs,) index metrics. NaN where the statistic is undefined.
    """
    sums = unit_sums(np.stack([over, under]), units=units, n_units=flips.shape[1])
    total, swung = sums.sum(axis=2), _swung(sums, flips)

    def ratio(parts: Floats) -> Floats:
        return np.asarray(parts[0] / np.where(parts[1] > 0, parts[1], np.nan))

    return _p_values(total, swung, ratio, first, second)


def swap_pearson(
    human: Floats,
    metrics: Floats,
    *,
    units: Ints,
    item_weights: Floats | None,
    flips: NDArray[Any],
    first: Ints,
    second: Ints,
) -> Floats:
    """p-values (pairs,) for a difference in Pearson correlation over all outputs.

    `human` (items, systems), `metrics` (metrics, items, systems), NaN where not rated.
    """
    x = _standardised(human, metrics)
    weights = np.ones(len(human)) if item_weights is None else item_weights
    rated = np.isfinite(x)
    centre = np.nanmean(human) if np.isfinite(human).any() else 0.0
    h = np.where(rated, human - centre, 0.0)
    x = np.where(rated, x, 0.0)
    powers = (rated, x, x * x, h, h * h, x * h)
    per_item = np.stack([power.sum(axis=2) * weights for power in powers])
    sums = unit_sums(per_item, units=units, n_units=flips.shape[1])
    total, swung = sums.sum(axis=2), _swung(sums, flips)

    def correlation(parts: Floats) -> Floats:
        n, sx, sxx, sh, shh, sxh = parts
        n = np.where(n > 0, n, np.nan)
        spread = np.maximum(sxx - sx * sx / n, 0.0) * np.maximum(shh - sh * sh / n, 0.0)
        return np.asarray((sxh - sx * sh / n) / np.sqrt(np.where(spread > 1e-18, spread, np.nan)))

    return _p_values(total, swung, correlation, first, second)


def swap_pairwise_accuracy(
    human: Floats,
    metrics: Floats,
    *,
    units: Ints,
    item_weights: Floats | None,
    flips: NDArray[Any],
    first: Ints,
    second: Ints,
) -> Floats:
    """p-values (pairs,) for a difference in the share of system pairs that the system means order as people's do."""
    x = _standardised(human, metrics)
    weights = np.ones(len(human)) if item_weights is None else item_weights
    n_systems = human.shape[1]
    rated = np.isfinite(x)
    per_item = np.stack([np.where(rated, x, 0.0), rated]) * weights[:, None]
    # (2, metrics, units, systems)
    sums = unit_sums(per_item.swapaxes(2, 3), units=units, n_units=flips.shape[1]).swapaxes(2, 3)
    total = sums.sum(axis=2)
    swung = np.einsum("nu,kmus->knms", flips.astype(np.float64), sums, optimize=True)
    people = np.isfinite(human)
    shares = weights[:, None] * people
    means = (np.where(people, human, 0.0) * shares).sum(axis=0) / np.where(
        people.any(axis=0), shares.sum(axis=0), np.nan
    )
    a, b = np.triu_indices(n_systems, 1)
    truth = np.sign(means[a] - means[b])

    def agreeing(parts: Floats) -> Floats:
        # Systems first, so that each of the many comparisons runs over contiguous memory; single precision settles all
        # but ties of means, which are noise here.
        score = parts[0] / np.where(parts[1] > 0, parts[1], np.nan)
        by_system = np.ascontiguousarray(np.moveaxis(score, -1, 0), dtype=np.float32)
        right = np.zeros(by_system.shape[1:], dtype=np.int32)
        n = np.zeros(by_system.shape[1:], dtype=np.int32)
        undefined = np.isnan(by_system)
        any_undefined = undefined.any()
        for i, j, sign in zip(a, b, truth, strict=True):
            if np.isnan(sign):
                continue
            above, below = (by_system[i], by_system[j]) if sign >= 0 else (by_system[j], by_system[i])
            right += (above > below) if sign else (above == below)
            n += ~(undefined[i] | undefined[j]) if any_undefined else 1
        return np.asarray(right / np.where(n > 0, n, np.nan))

    return _p_values(total, swung, agreeing, first, second)


def _p_values(total: Floats, swung: Floats, statistic: Callable[[Floats], Floats], first: Ints, second: Ints) -> Floats:
    """total (parts, metrics, ...), swung (parts, n, metrics, ...): half-sums give both hybrids of every pair."""
    p_values = np.empty(len(first))
    own = statistic(total)
    observed = own[first] - own[second]
    n_draws = swung.shape[1]
    step = max(1, CHUNK_CELLS // max(1, swung[:, :, 0].size))
    for start in range(0, len(first), step):
        a, b = first[start : start + step], second[start : start + step]
        middle = (total[:, a] + total[:, b])[:, None] / 2
        half = (swung[:, :, a] - swung[:, :, b]) / 2
        null = statistic(middle + half) - statistic(middle - half)
        assert null.shape == (n_draws, len(a))
        p_values[start : start + step] = permutation_p(observed[start : start + step], null)
    return np.where(np.isnan(observed), np.nan, p_values)


def _swung(sums: Floats, flips: NDArray[Any]) -> Floats:
    """(parts, metrics, units) -> (parts, n, metrics): sums with the signs of the flips."""
    return np.asarray(flips.astype(np.float64) @ sums.transpose(0, 2, 1))


def _standardised(human: Floats, metrics: Floats) -> Floats:
    """Metrics with mean 0 and standard deviation 1 over the outputs that people rated too; NaN elsewhere."""
    both = np.isfinite(metrics) & np.isfinite(human)
    n = both.sum(axis=(1, 2), keepdims=True)
    count = np.where(n > 0, n, np.nan)
    mean = np.where(both, metrics, 0.0).sum(axis=(1, 2), keepdims=True) / count
    centred = np.where(both, metrics - mean, np.nan)
    spread = np.sqrt((np.where(both, centred, 0.0) ** 2).sum(axis=(1, 2), keepdims=True) / count)
    return np.asarray(centred / np.where(spread > 0, spread, np.nan))
