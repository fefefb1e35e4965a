"""Does a person choose by the side? An exact test of the orders that were dealt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, Signs
from custodes.stats.ratios import ratio

MOST_EXACT = 1000
"""Answers of a person up to which the distribution is computed; beyond, the normal one with its correction."""


class Sides(NamedTuple):
    """Of each person (workers,): `decided` answers, the `share` of them for what was shown first (NaN: none), `p_value`
    of that (NaN where the orders tell nothing)."""

    decided: Ints
    share: Floats
    p_value: Floats


def sides(worker: Ints, pair: Ints, sign: Signs, order: NDArray[np.int8], *, n_workers: int) -> Sides:
    """Test who chooses by the side: long arrays (n,) of decided answers with a known order.

    `sign` is 1 where a pair's first system was chosen, else -1; `order` 1 where that system was shown first, else -1.
    If a person does not look at the side, and orders were dealt at random within a pair, each choice is the first shown
    with the share of the pair's orders that put it first. So the number of such choices is a sum of unlike coins; the
    two-sided p-value is the chance of a number that is no likelier. Where every pair of systems was shown in one order
    only, nothing can be told.

    >>> n = 20
    >>> rows = np.zeros(n, dtype=int), np.zeros(n, dtype=int), np.tile([1, -1], 10), np.tile([1, -1], 10)
    >>> made = sides(*rows, n_workers=1)  # always the first
    >>> made.share.item(), f"{made.p_value.item():.7f}"
    (1.0, '0.0000019')

    Source: the exact binomial test; Poisson 1837 for coins that are not alike.
    """
    n_pairs = int(pair.max(initial=-1)) + 1
    shown, asked = (np.bincount(pair, weights=own, minlength=n_pairs) for own in (order > 0, np.ones(len(pair))))
    first_shown = ratio(shown, asked)[pair]
    chance = np.where(sign > 0, first_shown, 1 - first_shown)
    first = sign == order
    decided = np.bincount(worker, minlength=n_workers)
    share = ratio(np.bincount(worker, weights=first, minlength=n_workers), decided)
    telling = (chance > 0) & (chance < 1)
    p_value = np.full(n_workers, np.nan)
    order_of = np.argsort(worker[telling], kind="stable")
    own, odds, chosen = worker[telling][order_of], chance[telling][order_of], first[telling][order_of]
    starts = np.searchsorted(own, np.arange(n_workers + 1))
    for w in np.flatnonzero(np.diff(starts)):
        rows = slice(starts[w], starts[w + 1])
        p_value[w] = _two_sided(np.sort(odds[rows]), int(chosen[rows].sum()))
    return Sides(decided, share, p_value)


def _two_sided(odds: Floats, seen: int) -> float:
    """The chance of a number of heads that is no likelier than the one seen, of coins with these odds (n,)."""
    if len(odds) > MOST_EXACT:
        from scipy.special import ndtr

        far = max(0.0, abs(seen - odds.sum()) - 0.5)
        return float(2 * ndtr(-far / np.sqrt((odds * (1 - odds)).sum())))
    chances = np.ones(1)
    for own in odds:
        chances = np.append(chances * (1 - own), 0.0) + np.append(0.0, chances * own)
    return float(min(1.0, chances[chances <= chances[seen] * (1 + 1e-9)].sum()))
