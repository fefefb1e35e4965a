"""Margins as they would be if nobody answered without looking: from how far second opinions agree with first ones.

An answer is the label T of its comparison (1, 0, -1) with the chance `care`, which differs between people, and else a
guess that knows nothing of it. Sides are drawn by lot, so that guesses favour no system, and a margin as it is seen is
mean care times the true one. Two answers y, z to one comparison tell the mean: with A the mean of y z, B the share of
answers that are no tie, C the share of comparisons where neither is one, A = care^2 t and C - B^2 = care^2 t (1 - t),
with t the share of labels that are no tie; so care = A / sqrt(A - C + B^2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.resampling.resample import student_quantile

FEWEST = 30
"""Comparisons with two answers below which nothing is said of care."""


class Careless(NamedTuple):
    """`margin`, `low`, `high` (pairs,) as people would say them who all look; NaN where that cannot be told. `care`
    with its ends: the mean chance that an answer looked. `doubled`: comparisons with several answers."""

    margin: Floats
    low: Floats
    high: Floats
    care: float
    care_low: float
    care_high: float
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
    """Margins of pairs, corrected for careless answers, with Fieller's interval by items and people.

    Of n answers: `sign` (n,) 1, 0 or -1 for the first system; `task` (n,) the comparison, `person`, `unit` the cluster
    of its item; `primary` (n,) 1 where it counts for the margin, 0 for a second opinion. `pair` (tasks,). An end is NaN
    where care might be 0 for all that is known, and everything with fewer than 30 comparisons of several answers or two
    people. Disagreement of careful people counts as carelessness: then corrected margins are too large.

    Source: ours, by moments; Fieller 1954; errors by two ways of clustering, Cameron, Gelbach and Miller 2011.

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
        return Careless(nothing, nothing, nothing, np.nan, np.nan, np.nan, doubled)
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
        return Careless(nothing, nothing, nothing, np.nan, np.nan, np.nan, doubled)
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

    margins, lows, highs = nothing.copy(), nothing.copy(), nothing.copy()
    for own in range(n_pairs):
        counted = primary * (pair[task] == own)
        if not counted.sum():
            continue
        seen = (counted @ sign) / counted.sum()
        errors = np.stack([root * counted * (sign - seen) / counted.sum() + seen * root_error, product_error])
        margins[own] = np.clip(seen * root / a, -1.0, 1.0)
        lows[own], highs[own] = _fieller(seen * root, a, _covariance(errors, task, unit, person), quantile)
    lows, highs = np.clip(lows, -1.0, 1.0), np.clip(highs, -1.0, 1.0)
    low, high = _fieller(a, root, _covariance(np.stack([product_error, root_error]), task, unit, person), quantile)
    return Careless(margins, lows, highs, float(a / root), float(max(low, 0.0)), float(min(high, 1.0)), doubled)


def _covariance(errors: Floats, task: Ints, unit: Ints, person: Ints) -> Floats:
    """Of two sums of errors (2, n), where answers to one item and answers of one person go together: (2, 2)."""

    def summed(by: Ints) -> Floats:
        both = np.stack([np.bincount(by, own) for own in errors])
        return np.asarray(both @ both.T)

    cell = np.unique(np.stack([unit, person]), axis=1, return_inverse=True)[1].ravel()
    by_unit, by_person = summed(unit), summed(person)
    made = by_unit + by_person - summed(cell)
    # Two ways of clustering may leave less than one of them alone
    larger = by_unit if np.trace(by_unit) > np.trace(by_person) else by_person
    return made if np.linalg.eigvalsh(made)[0] > 0 and np.trace(made) > np.trace(larger) / 2 else larger


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
