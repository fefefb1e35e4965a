"""What Kendall's tau counts, by units of outputs: concordance of two units, and pairs that do not tie.

Common arrays: people (outputs,), metrics (metrics, outputs) without NaN; share and units (outputs,): how often an
output counts, and its unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.agreement import levels
from custodes.stats.agreement.counted import kendall_parts
from custodes.stats.agreement.levels import Levels, some_resamples
from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.bootstrap import unit_sums

_CONSTANT = 1e-12  # a share of untied pairs below this is rounding
_CELLS = 4_000_000  # of a table of a unit's values, which takes less time than counting


class UnitPairs:
    """Outputs in the order of their units, and where metrics place them: counts of the pairs of two units.

    >>> people, metrics, units = np.array([1.0, 2, 3]), np.array([[1.0, 3, 2]]), np.array([0, 0, 1])
    >>> own = UnitPairs(people, metrics, np.ones(3), units=units, n_units=2)
    >>> own.with_unit(0, np.arange(1)).tolist()  # of its outputs among themselves, and with the other unit
    [[2.0, 0.0]]
    """

    def __init__(self, people: Floats, metrics: Floats, share: Floats, *, units: Ints, n_units: int) -> None:
        order = np.argsort(units, kind="stable")
        self.n_units, self.n = n_units, len(units)
        self.present, self.start = np.unique(units[order], return_index=True)
        self.people = np.unique(people[order], return_inverse=True)[1]
        codes = np.array([np.unique(own[order], return_inverse=True)[1] for own in metrics]).reshape(-1, self.n)
        self.metrics, self.n_levels = codes, int(codes.max(initial=0)) + 1
        self.share = share[order]
        self.alike = bool((share == 1).all())

    def with_unit(self, unit: int, rows: Ints, parts: Floats | None = None, *, later: bool = False) -> Floats:
        """Concordant minus discordant pairs of one unit's outputs with those of every unit: (rows, units), of some
        metrics; with `parts` (rows, 2) times those untied in people and in the metric added. `later`: units from this
        one on, and 0 for those before it.

        From tables of all places between and at the unit's own values, where it has few, else by counting.
        """
        inside = self._inside(unit)
        place, height = self._people(inside)
        width = 2 * min(inside.stop - inside.start, self.n_levels) + 1
        known = int(np.searchsorted(self.present, unit)) if later else 0
        since = int(self.start[known]) if later else 0
        parts = np.zeros((len(rows), 2)) if parts is None else parts
        made = np.zeros((len(rows), self.n_units))
        for some in chunks(len(rows), max(self.n, self.n_levels, height * width)):
            if height * width > _CELLS:
                agreed = np.array(
                    [self._counted(inside, *own)[since:] for own in zip(rows[some], parts[some], strict=True)]
                )
            else:
                agreed = self._looked_up(inside, rows[some], parts[some], place, height, width, since)
            if not self.alike:
                agreed *= self.share[since:]
            made[some, self.present[known:]] = np.add.reduceat(agreed, self.start[known:] - since, axis=1)
        return made

    def _counted(self, inside: slice, row: int, parts: Floats) -> Floats:
        """(outputs,): what each output has with the unit, of one metric."""
        share = np.zeros(self.n)
        share[inside] = self.share[inside]
        return np.asarray(np.array([1.0, *parts]) @ kendall_parts(self.people, self.metrics[row], share)[1] / 2)

    def _looked_up(
        self, inside: slice, rows: Ints, parts: Floats, place: NDArray[np.int32], height: int, width: int, since: int
    ) -> Floats:
        """(rows, outputs from `since` on): the same of some metrics by tables (rows, height, width)."""
        n, first = len(rows), np.arange(len(rows), dtype=np.int32)[:, np.newaxis]
        level = self.metrics[rows] + first * self.n_levels
        own = np.zeros((n, self.n_levels), dtype=np.int32)
        own.reshape(-1)[level[:, inside]] = 1
        at = np.cumsum(own, axis=1, dtype=np.int32)
        at *= 2
        at -= own
        at += first * np.int32(height * width)
        cell = at.reshape(-1).take(level[:, since:])
        cell += place[since:] * np.int32(width)
        mine = cell[:, inside.start - since : inside.stop - since]
        held = np.broadcast_to(self.share[inside], mine.shape)
        counts = np.bincount(mine.reshape(-1), held.reshape(-1), n * height * width).reshape(n, height, width)
        table = _more_than_less(_more_than_less(counts, axis=1), axis=2)
        if parts.any():
            total = self.share[inside].sum()
            table += parts[:, 0, np.newaxis, np.newaxis] * (total - counts.sum(axis=2, keepdims=True))
            table += parts[:, 1, np.newaxis, np.newaxis] * (total - counts.sum(axis=1, keepdims=True))
        return np.asarray(table.reshape(-1).take(cell))

    def _inside(self, unit: int) -> slice:
        at = int(np.searchsorted(self.present, unit))
        return slice(int(self.start[at]), int(self.start[at + 1]) if at + 1 < len(self.start) else self.n)

    def _people(self, inside: slice) -> tuple[NDArray[np.int32], int]:
        """Where people place all outputs among those of a unit, and how many places there are."""
        own = np.bincount(self.people[inside], minlength=int(self.people.max()) + 1) > 0
        upto = np.cumsum(own, dtype=np.int32)
        return (2 * upto - own)[self.people].astype(np.int32), 2 * int(upto[-1]) + 1


def untied(sides: list[Floats], share: Floats, *, units: Ints, weights: NDArray[Any]) -> Floats:
    """Ordered pairs that do not tie in each of some `sides` (outputs,), in every resample: (B, sides); NaN where all
    tie."""
    result = np.empty((len(weights), len(sides)))
    if len(share) > levels.MANY:
        parted = [_tied(own) for own in sides]
        lone = [
            np.where(alone, share**2, 0.0) for alone, _, _ in parted
        ]  # a level of one output is drawn with its unit
        per_unit = unit_sums(np.stack(lone), units=units, n_units=weights.shape[1])
        for b, drawn in enumerate(weights):
            times = share * drawn[units]
            sizes = (np.bincount(codes, times[place]) for _, place, codes in parted)
            squares = per_unit @ np.asarray(drawn, dtype=np.float64) ** 2 + [size @ size for size in sizes]
            result[b] = _apart(times.sum() ** 2, squares)
        return result
    orders = [Levels(own) for own in sides]
    for some in some_resamples(len(weights)):
        drawn = np.ascontiguousarray(weights[some].T, dtype=np.float64)
        times = drawn[units] * share[:, np.newaxis]
        pairs = times.sum(axis=0) ** 2
        for k, order in enumerate(orders):
            tied = order.of_tied(order.those_tied(times))
            result[some, k] = _apart(pairs, order.powers(drawn, tied, share=share, units=units, power=2))
    return result


def _tied(values: Floats) -> tuple[NDArray[np.bool_], NDArray[np.intp], NDArray[np.intp]]:
    """Which outputs (outputs,) have a value of their own, and where the others stand, with the levels of these."""
    _, level, size = np.unique(values, return_inverse=True, return_counts=True)
    alone = size[level] == 1
    place = np.flatnonzero(~alone)
    return alone, place, np.unique(level[place], return_inverse=True)[1]


def _apart(pairs: Floats, tied: Floats) -> Floats:
    return np.where(pairs - tied > _CONSTANT * pairs, pairs - tied, np.nan)


def _more_than_less(counts: NDArray[Any], *, axis: int) -> Floats:
    """What is lower along an axis minus what is higher."""
    made = np.cumsum(counts, axis=axis)
    total = made.take([-1], axis=axis)
    made *= 2
    made -= counts
    made -= total
    return np.asarray(made)
