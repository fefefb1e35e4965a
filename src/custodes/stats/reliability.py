"""Reliability of annotators: Krippendorff's alpha, intraclass correlation, and annotators as clusters."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.arrays import Bools, Floats, Ints, unit_of
from custodes.stats.ratios import ratio

Scale = Literal["nominal", "ordinal"]

FEWEST_ANNOTATORS = 10
"""Minimum number of annotators of a pair for an interval. With fewer, the interval would describe only these few."""

MOST_BLOCKS = 50
"""Maximum number of blocks of annotators in a jackknife."""

_SAME = 1e-12  # relative rounding error


def of_two(table: NDArray[Any]) -> Floats:
    """Coincidence matrices (..., k, k) of two codings of the same things, from their joint counts (..., k, k)."""
    return np.asarray(table + np.swapaxes(table, -1, -2), dtype=np.float64)


def coincidences(labels: AnnotatorLabels, *, units: Ints, n_units: int) -> Floats:
    """Coincidence matrices of labels, summed over the tasks of each unit: units (tasks,) -> (units, labels, labels).

    Each of the m labels of a task is paired with the m - 1 other labels of the task. These pairs have a total weight of
    1. Tasks with one label are ignored.
    """
    votes, n = labels.votes, labels.n_votes
    share = np.where(n > 1, 1 / np.maximum(n - 1, 1), 0.0)
    result = np.zeros((n_units, labels.n_labels, labels.n_labels))
    for one in range(labels.n_labels):
        for other in range(one + 1):
            pairs = votes[:, one] * (votes[:, other] - (one == other)) * share
            result[:, one, other] = result[:, other, one] = np.bincount(units, weights=pairs, minlength=n_units)
    return result


def alpha(coincidences: NDArray[Any], *, scale: Scale) -> Floats:
    """Krippendorff's alpha, 1 - observed disagreement / expected disagreement, from coincidences (..., k, k).

    On the ordinal scale, the labels must be in order. Alpha is NaN if all labels are equal, or without coincidences.

    >>> alpha(of_two(np.array([[40, 10], [10, 40]])), scale="nominal").round(3).item()
    0.602

    References
    ----------
    Krippendorff 1970; 2019, "Content Analysis", chapter 12 (coincidences; differences of nominal and ordinal data).
    """
    counts = np.asarray(coincidences, dtype=np.float64)
    by_label = counts.sum(axis=-1)
    if scale == "nominal":
        difference = 1 - np.eye(counts.shape[-1])
    else:  # number of labels between two labels, plus half of the number of each
        middle = np.cumsum(by_label, axis=-1) - by_label / 2
        difference = (middle[..., :, np.newaxis] - middle[..., np.newaxis, :]) ** 2
    observed = (counts * difference).sum(axis=(-1, -2))
    products = by_label[..., :, np.newaxis] * by_label[..., np.newaxis, :]
    expected = ratio((products * difference).sum(axis=(-1, -2)), by_label.sum(axis=-1) - 1)
    return np.asarray(1 - ratio(observed, expected))


def moments(task: Ints, value: Floats, *, units: Ints, n_units: int) -> Floats:
    """Sums over the tasks of each unit for `interval_alpha`: task, value (n,), units (tasks,) -> (units, 4)."""
    scores = value - value.mean() if len(value) else value
    deviation = np.sqrt((scores**2).mean()) if len(value) else 0.0
    scores = scores / deviation if deviation > 0 else scores
    number, total, square = (
        np.bincount(task, weights=values, minlength=len(units)) for values in (np.ones(len(task)), scores, scores**2)
    )
    within = 2 * (number * square - total**2) / np.maximum(number - 1, 1)
    parts = (np.where(number > 1, part, 0.0) for part in (within, number, total, square))
    return np.stack([np.bincount(units, weights=part, minlength=n_units) for part in parts], axis=1)


def interval_alpha(moments: NDArray[Any]) -> Floats:
    """Krippendorff's alpha for numeric ratings, with squared differences, from sums of `moments`: (..., 4) -> (...).

    >>> two = moments(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 3.0, 3.0]), units=np.array([0, 1]), n_units=2)
    >>> interval_alpha(two.sum(axis=0)).item()
    1.0

    References
    ----------
    Krippendorff 2019, chapter 12 (interval data).
    """
    within, number, total, square = np.moveaxis(np.asarray(moments, dtype=np.float64), -1, 0)
    expected = ratio(2 * (number * square - total**2), number - 1)
    return np.asarray(1 - ratio(within, np.where(expected > 1e-9 * number, expected, 0.0)))


def gini(counts: Ints) -> float:
    """Gini coefficient of the numbers of answers of annotators.

    It is 0 if all numbers are equal, near 1 if one annotator gave all answers, and NaN without answers.

    >>> gini(np.array([5, 5, 5, 5])), gini(np.array([0, 0, 0, 20]))
    (0.0, 0.75)

    References
    ----------
    Gini 1912, by the mean absolute difference.
    """
    ordered = np.sort(np.asarray(counts, dtype=np.float64))
    n, total = len(ordered), ordered.sum()
    return float((2 * np.arange(1, n + 1) - n - 1) @ ordered / (n * total)) if total else float("nan")


def effective_number(counts: Ints) -> float:
    """Effective number of annotators: the squared sum of counts divided by the sum of squared counts; NaN without
    answers.

    >>> effective_number(np.array([5, 5, 5, 5])), effective_number(np.array([8, 1, 1]))
    (4.0, 1.5151515151515151)

    References
    ----------
    Kish 1965.
    """
    values = np.asarray(counts, dtype=np.float64)
    return float(values.sum() ** 2 / (values**2).sum()) if values.any() else float("nan")


class Taste(NamedTuple):
    """Intraclass correlation of the answers of annotators; NaN if undefined.

    `icc` is the correlation of two answers by the same annotator to different items of a group, minus the correlation
    of two answers by different annotators. `error` is the standard error of `icc` over annotators. It requires at least
    two annotators who answered twice in a group. `answers_per_annotator` is the mean number of answers of an annotator
    in a group, weighted by answers. `effect` is the design effect of proportions of answers.
    """

    icc: float
    error: float
    answers_per_annotator: float
    effect: float


def taste(group: Ints, item: Ints, worker: Ints, value: Floats) -> Taste:
    """Intraclass correlation within annotators, from arrays (n,) with one answer per annotator and item of a group.

    The correlation compares two mean products of answers to different items: products of answers by the same annotator,
    and products of answers by different annotators. So shared items do not matter. The standard error is a jackknife
    over annotators, in at most `MOST_BLOCKS` blocks.

    >>> worker, item = np.repeat(np.arange(4), 5), np.arange(20)
    >>> result = taste(np.zeros(20, dtype=int), item, worker, np.repeat([1.0, -1.0, 1.0, -1.0], 5))
    >>> round(result.icc, 9), result.answers_per_annotator
    (1.0, 5.0)

    References
    ----------
    Ours, a moment estimator; Kish 1965 for the design effect 1 + (k - 1) rho.
    """
    icc = _icc(group, item, worker, value, np.ones(len(value), dtype=np.bool_))
    present, place = np.unique(worker, return_inverse=True)
    n = min(len(present), MOST_BLOCKS)
    left = np.array([_icc(group, item, worker, value, place % n != block) for block in range(n)])
    defined = np.isfinite(left).all() and n > 1
    error = float(np.sqrt((n - 1) / n * ((left - left.mean()) ** 2).sum())) if defined else float("nan")
    _, number = np.unique(np.stack([group, worker]), axis=1, return_counts=True)
    mean_answers = float((number**2).sum() / number.sum()) if len(number) else float("nan")
    return Taste(icc, error, mean_answers, 1 + (mean_answers - 1) * max(icc, 0.0) if np.isfinite(icc) else float("nan"))


def _icc(group: Ints, item: Ints, worker: Ints, value: Floats, used: Bools) -> float:
    item, worker, value = item[used], worker[used], value[used]
    _, place = np.unique(group[used], return_inverse=True)
    n_groups = int(place.max(initial=-1)) + 1

    def sums(values: Floats) -> Floats:
        return np.bincount(place, weights=values, minlength=n_groups).astype(np.float64)

    n = sums(np.ones(len(value)))
    # Centred on the group: otherwise products would depend on the level if items are shared unevenly.
    centred = value - (sums(value) / np.maximum(n, 1))[place]
    value = np.where(np.abs(centred) <= _SAME * np.abs(value), 0.0, centred)  # rounding error of equal answers
    value = value / unit_of(value)

    def cells(within: Ints) -> tuple[Ints, Ints, Floats, Floats]:
        """The group of each cell of answers, the cell of each answer, and two sums over the cells of each group: of
        squared totals, and of squared sizes."""
        width = int(within.max(initial=0)) + 1
        keys, at = np.unique(place * width + within, return_inverse=True)
        of_group, total, number = keys // width, np.bincount(at, weights=value), np.bincount(at, minlength=len(keys))
        squares = (
            np.bincount(of_group, weights=sums_or_counts**2.0, minlength=n_groups) for sums_or_counts in (total, number)
        )
        return of_group, at, *squares

    total, square = sums(value), sums(value**2)
    of_worker, at, same, same_n = cells(worker)
    _, _, shared, shared_n = cells(item)
    others_n = n**2 - same_n - shared_n + n
    between = ratio(total**2 - same - shared + square, others_n)
    # Weights: number of answers minus one, so that the most active annotators do not dominate.
    number = np.bincount(at, minlength=len(of_worker))
    product = ratio(np.bincount(at, weights=value) ** 2 - np.bincount(at, weights=value**2), number)
    used = (number > 1) & (others_n[of_worker] > 0)
    weight, middle = (number - 1)[used], between[of_worker][used]
    above = product[used].sum() - (weight * middle).sum()
    spread = (weight * ((square / np.maximum(n, 1))[of_worker][used] - middle)).sum()
    return float(np.clip(above / spread, -1.0, 1.0)) if spread > _SAME * weight.sum() else float("nan")


class ClusteredMargins(NamedTuple):
    """Margins of pairs (pairs,), with bounds and the two-sided p-value of "no difference".

    `people` is the number of annotators of each pair, and `effective` is their effective number. Bounds and p-value are
    NaN with fewer annotators than `FEWEST_ANNOTATORS`.
    """

    margin: Floats
    low: Floats
    high: Floats
    p: Floats
    people: Ints
    effective: Floats


def clustered_margins(pair: Ints, worker: Ints, value: Floats, *, pairs: int, confidence: float) -> ClusteredMargins:
    """Mean preferences with standard errors clustered by annotator.

    The variance is that of sums over annotators, times G / (G - 1) for G annotators. The degrees of freedom of t are
    the effective number of annotators minus one, so that a few very active annotators do not count as many. The result
    is valid for a sample of fixed size.

    Parameters
    ----------
    pair, worker : arrays of int of shape (n,)
        The pair of systems and the annotator of each answer, from 0.
    value : array of shape (n,)
        1, 0 or -1 for the first system of the pair.
    pairs : int
        Number of pairs.
    confidence : float
        Level of the intervals.

    Returns
    -------
    ClusteredMargins

    References
    ----------
    Liang and Zeger 1986; Kish 1965 and Carter, Schnepel and Steigerwald 2017 for the effective number.

    Examples
    --------
    >>> worker = np.repeat(np.arange(12), 5)
    >>> value = np.where(worker < 9, 1.0, -1.0)
    >>> result = clustered_margins(np.zeros(60, dtype=int), worker, value, pairs=1, confidence=0.95)
    >>> result.margin.tolist(), result.people.tolist(), result.low.round(2).tolist(), result.high.round(2).tolist()
    ([0.5], [12], [-0.07], [1.0])
    """
    from scipy.special import stdtr, stdtrit

    cells, where = np.unique(np.stack([pair, worker]), axis=1, return_inverse=True)
    where = where.reshape(-1)
    number = np.bincount(where, minlength=cells.shape[1]).astype(np.float64)
    total = np.bincount(where, weights=value, minlength=cells.shape[1])

    def by_pair(values: NDArray[Any]) -> Floats:
        return np.bincount(cells[0], weights=values, minlength=pairs).astype(np.float64)

    n, people = by_pair(number), np.bincount(cells[0], minlength=pairs)
    margin, effective = ratio(by_pair(total), n), ratio(n**2, by_pair(number**2))
    squares = by_pair((total - number * margin[cells[0]]) ** 2)
    error = np.sqrt(ratio(squares * people, people - 1.0)) / np.maximum(n, 1)
    enough = (people >= FEWEST_ANNOTATORS) & (effective > 1)
    freedom = np.where(enough, effective - 1, 1.0)
    reach = stdtrit(freedom, (1 + confidence) / 2) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(margin == 0, 0.0, np.abs(margin) / error)
    bounds_and_p = np.clip(margin - reach, -1, 1), np.clip(margin + reach, -1, 1), 2 * stdtr(freedom, -t)
    low, high, p = (np.where(enough, values, np.nan) for values in bounds_and_p)
    return ClusteredMargins(margin, low, high, p, people, effective)
