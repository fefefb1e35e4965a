"""Committees of judges: correlation of their errors, and accuracy of majority votes of subsets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, Signs, chunks
from custodes.stats.bootstrap import unit_sums, weighted_sums
from custodes.stats.ratios import ratio

ALL_SUBSETS = 8
"""Up to this number of judges, all subsets are tried. With more, the best subset is extended step by step."""
LONGEST = 9


def correct(verdicts: Signs, people: Signs) -> Floats:
    """Correctness of each verdict: verdicts (..., n), human verdicts (n,) -> (..., n).

    A verdict is half correct if it is a tie and the human verdict is not, or the reverse.

    >>> correct(np.array([1, 0, -1], dtype=np.int8), np.array([1, 1, 1], dtype=np.int8)).tolist()
    [1.0, 0.5, 0.0]
    """
    return np.asarray(1 - np.abs(verdicts.astype(np.float64) - people) / 2)


def error_correlation(errors: Floats, *, units: Ints, weights: Floats) -> Floats:
    """Mean correlation between the errors of two judges: errors (judges, n), units (n,), weights (R, units) -> (R,).

    Pairs in which a judge's errors do not vary are left out. The result is NaN if no pair remains.
    """
    n = weights.shape[1]
    sums = weighted_sums(weights, unit_sums(np.concatenate([errors, errors**2]), units=units, n_units=n))
    number = weighted_sums(weights, unit_sums(np.ones((1, errors.shape[1])), units=units, n_units=n))
    mean, square = (weighted_sum / number for weighted_sum in np.split(sums, 2, axis=1))
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    total = np.zeros((2, len(weights)))
    for i, one in enumerate(errors[:-1]):
        for chunk in chunks(len(errors) - i - 1, max(len(one), len(weights))):
            other_judges = slice(i + 1 + chunk.start, i + 1 + chunk.stop)
            product_sums = weighted_sums(weights, unit_sums(one * errors[other_judges], units=units, n_units=n))
            scale = spread[:, [i]] * spread[:, other_judges]
            covariance = product_sums / number - mean[:, [i]] * mean[:, other_judges]
            defined = scale > 1e-12  # a judge without errors has no correlation
            total += np.where(defined, ratio(covariance, scale), 0.0).sum(axis=1), defined.sum(axis=1)
    return ratio(*total)


def effective_size(judges: int, correlation: NDArray[Any]) -> Floats:
    """Effective number of judges with independent errors, for k = `judges` judges and an error correlation (...).

    The number exceeds k if errors compensate each other. It is NaN for a correlation of -1 / (k - 1) or less, where it
    is unbounded.

    >>> effective_size(6, np.array([-0.1, 0.0, 1.0, -0.2])).tolist()
    [12.0, 6.0, 1.0, nan]

    Source: Kish 1965 (effective sample size): k / (1 + (k - 1) rho).
    """
    share = 1 + (judges - 1) * np.asarray(correlation, dtype=np.float64)
    return ratio(np.asarray(judges, dtype=np.float64), np.where(share > 1e-9, share, np.nan))


def best_subset(verdicts: Signs, people: Signs) -> tuple[int, ...]:
    """Judges whose majority vote has the highest accuracy, from verdicts (judges, n) and human verdicts (n,).

    If several sets of judges are equally accurate, the smallest set is returned.

    >>> truth = np.array([1, 1, -1, 1], dtype=np.int8)
    >>> poor = truth * np.array([[1, 1, 1, -1], [1, 1, -1, 1], [-1, 1, 1, 1]], dtype=np.int8)
    >>> best_subset(poor, truth)
    (0, 1, 2)
    """
    judges = range(len(verdicts))
    if len(verdicts) > ALL_SUBSETS:
        return _greedy_committee(verdicts, people)
    subsets = [subset for size in range(1, len(verdicts) + 1) for subset in combinations(judges, size)]
    right = [correct(majority(verdicts[list(subset)]), people).mean() for subset in subsets]
    return subsets[int(np.argmax(np.round(right, 12)))]


def _greedy_committee(verdicts: Signs, people: Signs) -> tuple[int, ...]:
    chosen: list[int] = []
    total = np.zeros(verdicts.shape[1], dtype=np.int8)
    path: list[tuple[float, tuple[int, ...]]] = []
    while len(chosen) < min(LONGEST, len(verdicts)):
        right = correct(majority(np.broadcast_arrays(total, verdicts)), people).mean(axis=1).round(12)
        right[chosen] = -1.0
        chosen.append(int(right.argmax()))
        total = total + verdicts[chosen[-1]]
        path.append((float(right.max()), tuple(sorted(chosen))))
    return max(path, key=lambda step: step[0])[1]


def majority(verdicts: Signs | Sequence[Signs]) -> Signs:
    """Majority vote: the side that more judges prefer, or a tie if there is none: (judges, ...) -> (...).

    >>> majority(np.array([[1, 1], [1, 0], [-1, -1]])).tolist()
    [1, 0]
    """
    return np.asarray(np.sign(np.sum(verdicts, axis=0, dtype=np.int64)), dtype=np.int8)


def held_out_correctness(verdicts: Signs, people: Signs, *, fold: Ints) -> tuple[Floats, Floats]:
    """Correctness of the best subset of judges and of the best single judge, (n,) each.

    verdicts (judges, n), people (n,), fold (n,). The subset and the judge for a fold are selected on all other folds.
    So the difference between subset and judge has no selection bias.
    """
    subset_is_right, judge_is_right = np.full((2, people.size), np.nan)
    for k in np.unique(fold):
        out = fold == k
        train = verdicts[:, ~out], people[~out]
        best = int(correct(*train).mean(axis=1).round(12).argmax())
        subset_is_right[out] = correct(majority(verdicts[list(best_subset(*train))][:, out]), people[out])
        judge_is_right[out] = correct(verdicts[best, out], people[out])
    return subset_is_right, judge_is_right
