"""A pair's margin with people as the sample: what another choice of people as many might have said."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.ratios import ratio

FEWEST_PEOPLE = 10
"""With fewer people a result speaks of them alone."""


class Clustered(NamedTuple):
    """Of each pair (pairs,): its `margin`, `low` to `high`, the two-sided p-value of "no difference", how many `people`
    answered, and how many with like shares they amount to (`effective`). Interval and p are NaN with fewer people than
    `FEWEST_PEOPLE`."""

    margin: Floats
    low: Floats
    high: Floats
    p: Floats
    people: Ints
    effective: Floats


def clustered(pair: Ints, worker: Ints, value: Floats, *, pairs: int, confidence: float) -> Clustered:
    """Mean preferences whose errors are alike within people: long arrays (n,) of answers -> (pairs,).

    `value` is 1, 0 or -1 for a pair's first system. The variance is that of sums over people, times G / (G - 1); t has
    as many degrees of freedom as the effective number of people, less one, so that a few who did most of the work count
    as a few. A sample fixed beforehand is taken for granted: after looks the decision is what holds.

    >>> worker = np.repeat(np.arange(12), 5)
    >>> made = clustered(np.zeros(60, dtype=int), worker, np.where(worker < 9, 1.0, -1.0), pairs=1, confidence=0.95)
    >>> made.margin.tolist(), made.people.tolist(), made.low.round(2).tolist(), made.high.round(2).tolist()
    ([0.5], [12], [-0.07], [1.0])

    Source: Liang and Zeger 1986; Kish 1965 and Carter, Schnepel and Steigerwald 2017 for the effective number.
    """
    from scipy.special import stdtr, stdtrit

    rows, where = np.unique(np.stack([pair, worker]), axis=1, return_inverse=True)
    where = where.reshape(-1)
    number = np.bincount(where, minlength=rows.shape[1]).astype(np.float64)
    total = np.bincount(where, weights=value, minlength=rows.shape[1])

    def by_pair(own: Floats | Ints) -> Floats:
        return np.asarray(np.bincount(rows[0], weights=own, minlength=pairs), dtype=np.float64)

    n, people = by_pair(number), np.bincount(rows[0], minlength=pairs)
    margin = ratio(by_pair(total), n)
    effective = ratio(n**2, by_pair(number**2))
    squares = by_pair((total - number * margin[rows[0]]) ** 2)
    error = np.sqrt(ratio(squares * people, people - 1.0)) / np.maximum(n, 1)
    enough = (people >= FEWEST_PEOPLE) & (effective > 1)
    freedom = np.where(enough, effective - 1, 1.0)
    reach = stdtrit(freedom, (1 + confidence) / 2) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(margin == 0, 0.0, np.abs(margin) / error)
    low, high, p = (
        np.where(enough, own, np.nan)
        for own in (np.clip(margin - reach, -1, 1), np.clip(margin + reach, -1, 1), 2 * stdtr(freedom, -t))
    )
    return Clustered(margin, low, high, p, people, effective)
