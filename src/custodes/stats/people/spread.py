"""Of how many people answers speak: how evenly work is spread, and how alike one person's answers are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, unit_of
from custodes.stats.ratios import ratio

MOST_BLOCKS = 50
"""Of people, left out in turn."""


def gini(counts: Ints) -> float:
    """How unevenly work is spread: 0 all alike, near 1 all by one; NaN for nobody.

    >>> gini(np.array([5, 5, 5, 5])), gini(np.array([0, 0, 0, 20]))
    (0.0, 0.75)

    Source: Gini 1912, by the mean absolute difference.
    """
    ordered = np.sort(np.asarray(counts, dtype=np.float64))
    n, total = len(ordered), ordered.sum()
    return float((2 * np.arange(1, n + 1) - n - 1) @ ordered / (n * total)) if total else float("nan")


def effective_number(counts: Ints) -> float:
    """How many people who do like shares of the work they amount to; NaN for nobody.

    >>> effective_number(np.array([5, 5, 5, 5])), effective_number(np.array([8, 1, 1]))
    (4.0, 1.5151515151515151)

    Source: Kish 1965: the squared sum over the sum of squares.
    """
    own = np.asarray(counts, dtype=np.float64)
    return float(own.sum() ** 2 / (own**2).sum()) if own.any() else float("nan")


_SAME = 1e-12  # relative: the same number computed in another way


class Taste(NamedTuple):
    """`icc`: the correlation of two answers of one person on different items of a group, beyond that of two people;
    `error`, its standard error over people; `alike` the mean number of answers that an answer's person gave in its
    group; `effect`, the design effect: by how much variances of shares of answers are larger than of as many people.
    NaN where nobody answered twice in a group, or one person only did."""

    icc: float
    error: float
    alike: float
    effect: float


def taste(group: Ints, item: Ints, worker: Ints, value: Floats) -> Taste:
    """Whether people differ in taste: long arrays (n,), a person answers an item of a group once.

    By means of products of answers: same person and other item, other person and other item. So it does not matter
    which items people share. The error is a jackknife over people, in at most `MOST_BLOCKS` blocks.

    >>> worker, item = np.repeat(np.arange(4), 5), np.arange(20)
    >>> made = taste(np.zeros(20, dtype=int), item, worker, np.repeat([1.0, -1.0, 1.0, -1.0], 5))
    >>> round(made.icc, 9), made.alike
    (1.0, 5.0)

    Source: ours, a moment estimator; Kish 1965 for the design effect 1 + (k - 1) rho.
    """
    everybody = np.ones(len(value), dtype=np.bool_)
    icc = _icc(group, item, worker, value, everybody)
    present, place = np.unique(worker, return_inverse=True)
    n_blocks = min(len(present), MOST_BLOCKS)
    left = np.array([_icc(group, item, worker, value, place % n_blocks != block) for block in range(n_blocks)])
    known = np.isfinite(left).all() and n_blocks > 1
    error = float(np.sqrt((n_blocks - 1) / n_blocks * ((left - left.mean()) ** 2).sum())) if known else float("nan")
    _, many = np.unique(np.stack([group, worker]), axis=1, return_counts=True)
    alike = float((many**2).sum() / many.sum()) if len(many) else float("nan")
    return Taste(icc, error, alike, 1 + (alike - 1) * max(icc, 0.0) if np.isfinite(icc) else float("nan"))


def _icc(group: Ints, item: Ints, worker: Ints, value: Floats, used: Bools) -> float:
    group, item, worker, value = group[used], item[used], worker[used], value[used]
    _, place = np.unique(group, return_inverse=True)
    n_groups = int(place.max(initial=-1)) + 1
    # Around the mean of the group: products of answers would depend on the level where people share items unevenly.
    level = np.bincount(place, weights=value, minlength=n_groups) / np.maximum(
        np.bincount(place, minlength=n_groups), 1
    )
    centred = value - level[place]
    value = np.where(np.abs(centred) <= _SAME * np.abs(value), 0.0, centred)  # of equal answers only rounding is left
    value = value / unit_of(value)

    def sums(values: Floats) -> Floats:
        return np.asarray(np.bincount(place, weights=values, minlength=n_groups), dtype=np.float64)

    def squares(within: Ints) -> tuple[Floats, Floats]:
        """Per group: sums of squared sums over what is alike, and of squared numbers."""
        own, at = np.unique(np.stack([place, within]), axis=1, return_inverse=True)
        total = np.bincount(at, weights=value, minlength=own.shape[1]) ** 2
        number = np.bincount(at, minlength=own.shape[1]).astype(np.float64) ** 2
        made = (np.bincount(own[0], weights=part, minlength=n_groups) for part in (total, number))
        return tuple(made)  # type: ignore[return-value]

    n, total, square = sums(np.ones(len(value))), sums(value), sums(value**2)
    (same, same_n), (shared, shared_n) = squares(worker), squares(item)
    two, two_n = total**2 - same - shared + square, n**2 - same_n - shared_n + n
    between = ratio(two, two_n)
    # Each person by their answers but one: who gave most does not drown all others.
    own, at = np.unique(np.stack([place, worker]), axis=1, return_inverse=True)
    many = np.bincount(at, minlength=own.shape[1])
    product = ratio(np.bincount(at, weights=value) ** 2 - np.bincount(at, weights=value**2), many)
    known = (many > 1) & (two_n[own[0]] > 0)
    weight = (many - 1)[known]
    if not known.any():
        return float("nan")
    middle = between[own[0]][known]
    above = product[known].sum() - (weight * middle).sum()
    spread = (weight * ((square / np.maximum(n, 1))[own[0]][known] - middle)).sum()
    return float(np.clip(above / spread, -1.0, 1.0)) if spread > _SAME * weight.sum() else float("nan")
