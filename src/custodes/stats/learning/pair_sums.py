"""Sums over pairs of outputs by output: the parts of a coefficient of agreement, and the influence of an output."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.correlation import concordance, tied_with
from custodes.stats.learning.objective import Objective


class PairSums(NamedTuple):
    """Of some outputs (rows) against all n: the sum over all others of each of them (q, rows), the sum over those some
    of all outputs (q, n), and the sums over the others of the same unit and of the same system (2, q, rows)."""

    row: Floats
    column: Floats
    inside: Floats


def pair_sums(
    kind: Objective, people: Floats, said: Floats, rows: NDArray[np.intp], item: Ints, labels: tuple[Ints, Ints]
) -> PairSums:
    """Sum what agreement is made of over the pairs of some outputs with all: q = 1 + 2 m.

    people (n,), said (m, n), rows of n, item (n,), labels: the unit and the system (n,) of each; an item lies in one
    unit, and has a system once. With g the gap between two outputs, or its sign (`kendall`; `accuracy`, which compares
    outputs of one item only), summed are g² of people, then of each prediction the product of both g (`accuracy`:
    whether it is positive) and its g².

    >>> made = pair_sums("kendall", np.array([1.0, 2, 3]), np.array([[1.0, 3, 2]]), np.arange(3), np.zeros(3, int),
    ...     (np.arange(3), np.arange(3)))
    >>> made.row.tolist()
    [[2.0, 2.0, 2.0], [2.0, 0.0, 0.0], [2.0, 2.0, 2.0]]
    """
    if kind == "accuracy":
        return _within_items(people, said, rows, item)
    if kind == "kendall":
        parts = [_counted(people, own, rows, labels) for own in said]
    else:
        parts = [_multiplied(people, own, rows, labels) for own in said]
    # People's own part is the same beside every prediction.
    kept = [[1, 0, 2], *([[0, 2]] * (len(parts) - 1))]
    joined = (
        np.concatenate([side[..., which, :] for side, which in zip(sides, kept, strict=True)], axis=-2)
        for sides in zip(*parts, strict=True)
    )
    return PairSums(*joined)


def _counted(people: Floats, said: Floats, rows: NDArray[np.intp], labels: tuple[Ints, Ints]) -> PairSums:
    """Signs: concordance, untied in the human scores, untied in the prediction."""
    n, sides = len(people), (people, said)

    def counts(labels: Ints, mass: Floats | None = None) -> Floats:
        """Of the pairs of one label: outputs of different labels are moved apart on both sides, so all concordant."""
        codes = (np.unique(side, return_inverse=True)[1].reshape(1, n) + n * labels for side in sides)
        x, y = codes
        total = np.bincount(labels, mass)
        inside = total[labels]
        untied = (inside - tied_with(values, weights=mass)[0] for values in (x, y))
        return np.stack([concordance(x, y, weights=mass)[0] - (total.sum() - inside), *untied])

    one, some = np.zeros(n, dtype=np.intp), np.bincount(rows, minlength=n).astype(np.float64)
    whole = counts(one)
    column = whole if len(rows) == n else counts(one, some)
    return PairSums(whole[:, rows], column, np.stack([counts(label)[:, rows] for label in labels]))


def _multiplied(people: Floats, said: Floats, rows: NDArray[np.intp], labels: tuple[Ints, Ints]) -> PairSums:
    """Gaps, in closed form: the sum of (a_i - a_j)(b_i - b_j) over j is n a_i b_i - a_i sum(b) - b_i sum(a) + sum(ab),
    within each label."""
    a, b = people - people.mean(), said - said.mean()

    def sums(label: Ints, share: Floats) -> Floats:
        def total(values: Floats) -> Floats:
            return np.asarray(np.bincount(label, values * share)[label], dtype=np.float64)

        n = total(np.ones(len(share)))
        pairs = ((a, b), (a, a), (b, b))
        return np.stack([n * x * y - x * total(y) - y * total(x) + total(x * y) for x, y in pairs])

    one, everyone = np.zeros(len(a), dtype=np.intp), np.ones(len(a))
    some = np.bincount(rows, minlength=len(a)).astype(np.float64)
    inside = np.stack([sums(label, everyone)[:, rows] for label in labels])
    return PairSums(sums(one, everyone)[:, rows], sums(one, some), inside)


def _within_items(people: Floats, said: Floats, rows: NDArray[np.intp], item: Ints) -> PairSums:
    """Signs within items: all pairs of an item lie in its unit, and none in one system."""
    order = np.argsort(item, kind="stable")
    ordered, n = item[order], len(people)
    some = np.bincount(rows, minlength=n).astype(np.float64)
    whole, column = np.zeros((2, 1 + 2 * len(said), n))
    for offset in range(1, int(np.bincount(item).max())):
        near = np.flatnonzero(ordered[offset:] == ordered[:-offset])
        first, second = order[near], order[near + offset]
        wanted = np.sign(people[first] - people[second])
        given = np.sign(said[:, first] - said[:, second])
        both = np.stack([wanted * given > 0, given**2], axis=1).reshape(-1, len(near))
        values = np.vstack([wanted[np.newaxis] ** 2, both])
        for one, other in ((first, second), (second, first)):
            whole[:, one] += values  # an output is once in `one`
            column[:, one] += values * some[other]
    row = whole[:, rows]
    return PairSums(row, column, np.stack([row, np.zeros_like(row)]))
