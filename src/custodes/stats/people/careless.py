"""Between which ends the margins of people who look lie: from how far second opinions agree with first ones.

An answer is the label T of its comparison (1, 0, -1) with the chance `care`, which differs between people, and else a
guess that knows nothing of it. Sides are drawn by lot, so that guesses favour no system, and a margin as it is seen is
mean care times the true one. Two answers y, z to one comparison tell the mean: with A the mean of y z, B the share of
answers that are no tie, C the share of comparisons where neither is one, A = care^2 t and C - B^2 = care^2 t (1 - t),
with t the share of labels that are no tie; so care = A / sqrt(A - C + B^2).

People who look may disagree, too: then there is no such label, and this care is too small. How much of disagreement is
honest cannot be told from answers alone. So a margin over this care is the far end of where that of people who look
lies, and the margin as seen, which careless answers bring nearer to 0, the near one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.resampling.resample import student_quantile

FEWEST = 30
"""Comparisons with two answers below which nothing is said of care."""


class Careless(NamedTuple):
    """`margin` (pairs,) as it would be if all disagreement were carelessness; `low`, `high`: between these lies that of
    people who look. `care`: the mean chance that an answer looked, by the same supposition, and the lower end of its
    interval. NaN where that cannot be told. `doubled`: comparisons with several answers."""

    margin: Floats
    low: Floats
    high: Floats
    care: float
    care_low: float
    doubled: int


def without_careless(
    sign: Floats,
    *,
    task: Ints,
    person: Ints,
    pair: Ints,
    unit: Ints,
    primary: Floats,
    confidence: float,
) -> Careless:
    """Margins of pairs if all disagreement were carelessness, and between which ends those of people who look lie.

    Of n answers: `sign` (n,) 1, 0 or -1 for the first system; `task` (n,) the comparison, `person`, `unit` the cluster
    of its item; `primary` (n,) 1 where it counts for the margin, 0 for a second opinion. `pair` (tasks,). From `low` to
    `high` is what either interval holds: that of the margin as seen (with one answer more for each side), and Fieller's
    of the corrected one, both by items and people. The end far from 0 is NaN where care might be 0 for all that is
    known, and everything with fewer than 30 comparisons of several answers or two people.

    Source: ours, by moments; Bonett and Price 2012; Fieller 1954; errors by two ways of clustering, Cameron, Gelbach
    and Miller 2011.

    >>> y = np.array([1.0, 1, -1, -1, 1, 1, 1, 1] * 10)
    >>> rows = np.arange(80)
    >>> made = without_careless(
    ...     y, task=rows // 2, person=rows % 7, pair=np.zeros(40, dtype=int), unit=rows // 2,
    ...     primary=(rows % 2 == 0) * 1.0, confidence=0.95,
    ... )
    >>> made.care, made.margin.tolist()
    (1.0, [0.5])
    """
    n_pairs = int(pair.max(initial=-1)) + 1
    asked = np.bincount(task, minlength=len(pair)).astype(np.float64)
    several = asked > 1
    nothing = np.full(n_pairs, np.nan)
    doubled = int(several.sum())
    if doubled < FEWEST or len(np.unique(person)) < 2:
        return Careless(nothing, nothing, nothing, np.nan, np.nan, doubled)
    # Of each comparison with several answers: products of two of them, on average
    pairs_of = np.where(several, asked * (asked - 1), 1.0)
    total = np.bincount(task, sign, len(pair))
    untied = np.bincount(task, sign**2, len(pair))
    product = ((total**2 - untied) / pairs_of)[several]
    both = ((untied**2 - untied) / pairs_of)[several]
    share = (untied / np.maximum(asked, 1))[several]
    a, b, c = product.mean(), share.mean(), both.mean()
    inside = a - c + b**2
    if a <= 0 or inside <= 0:
        return Careless(nothing, nothing, nothing, np.nan, np.nan, doubled)
    root = np.sqrt(inside)
    of_root = ((product - a) - (both - c) + 2 * b * (share - b)) / (2 * root) / doubled
    of_product = (product - a) / doubled

    # What each answer adds to the errors of root and A: that of its comparison, in like parts
    place = np.full(len(pair), -1)
    place[several] = np.arange(doubled)
    at = place[task]
    inner = at >= 0
    part = np.where(inner, 1 / asked[task], 0.0)
    root_error = np.where(inner, of_root[at], 0.0) * part
    product_error = np.where(inner, of_product[at], 0.0) * part
    quantile = student_quantile(confidence, min(len(np.unique(unit)), len(np.unique(person))))
    by = unit, person, np.unique(unit * (person.max() + 1) + person, return_inverse=True)[1]

    margins, lows, highs = nothing.copy(), nothing.copy(), nothing.copy()
    for own in range(n_pairs):
        counted = primary * (pair[task] == own)
        if not counted.sum():
            continue
        seen = (counted @ sign) / counted.sum()
        near = _as_seen(sign, counted, by, quantile)
        errors = np.stack([root * counted * (sign - seen) / counted.sum() + seen * root_error, product_error])
        far = _fieller(seen * root, a, _covariance(errors, by), quantile)
        margins[own] = seen * max(root / a, 1.0)
        lows[own], highs[own] = _outer(near, far)
    margins, lows, highs = (np.clip(own, -1.0, 1.0) for own in (margins, lows, highs))
    low, _ = _fieller(a, root, _covariance(np.stack([product_error, root_error]), by), quantile)
    return Careless(margins, lows, highs, float(min(a / root, 1.0)), float(np.clip(low, 0.0, 1.0)), doubled)


def _as_seen(sign: Floats, counted: Floats, by: tuple[Ints, Ints, Ints], quantile: float) -> tuple[float, float]:
    """The interval of the mean sign of the counted answers, with one answer more for each side: ten answers that are
    all alike leave more than one point."""
    n = counted.sum() + 2
    mean = (counted @ sign) / n
    errors = counted * (sign - mean) / n
    variance = _covariance(errors[np.newaxis], by)[0, 0] + ((1 - mean) ** 2 + (1 + mean) ** 2) / n**2
    reach = quantile * float(np.sqrt(variance))
    return mean - reach, mean + reach


def _outer(near: tuple[float, float], far: tuple[float, float]) -> tuple[float, float]:
    """From the lowest to the highest of two intervals; where the second has no ends only what the first says of the
    side of 0."""
    if np.isfinite(far).all():
        return min(near[0], far[0]), max(near[1], far[1])
    return (near[0] if near[0] > 0 else np.nan), (near[1] if near[1] < 0 else np.nan)


def _covariance(errors: Floats, by: tuple[Ints, Ints, Ints]) -> Floats:
    """Of sums of errors (k, n), where answers to one item and answers of one person go together: (k, k). `by`: the
    cluster of its item, the person, and the two together, (n,) each."""

    def summed(by: Ints) -> Floats:
        both = np.stack([np.bincount(by, own) for own in errors])
        return np.asarray(both @ both.T)

    by_unit, by_person, by_both = map(summed, by)
    made = by_unit + by_person - by_both
    # Two ways of clustering may leave less than one of them alone
    larger = by_unit if np.trace(by_unit) > np.trace(by_person) else by_person
    return made if np.linalg.eigvalsh(made)[0] > 0 and np.trace(made) > np.trace(larger) else larger


def _fieller(above: float, below: float, covariance: Floats, quantile: float) -> tuple[float, float]:
    """The ends of above / below: all ratios r with |above - r below| within `quantile` errors; NaN where that is not
    an interval."""
    v = quantile**2 * covariance
    square = below**2 - v[1, 1]
    middle = above * below - v[0, 1]
    rest = above**2 - v[0, 0]
    inside = middle**2 - square * rest
    if square <= 0 or inside < 0:
        return np.nan, np.nan
    reach = float(np.sqrt(inside))
    return (middle - reach) / square, (middle + reach) / square
