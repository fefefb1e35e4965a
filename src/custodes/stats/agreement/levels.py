"""Outputs in the order of one rater's values, for sums over them in many resamples at once.

Arrays have a row for each output or level and a column for each resample: whole rows are added, so no resample takes a
step of its own in Python.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from custodes.stats.arrays import CHUNK, Floats, Ints, chunks

_WIDTH = 128  # resamples at a time: rows long enough for the processor, few enough for its cache
_MEMORY = 8 * CHUNK  # elements of an array, where outputs are so many that this is fewer resamples
_STEPS = 16  # of a running sum that are taken one after the other, for all blocks of the order together


class Levels:
    """The distinct values (levels) of outputs, from the lowest up. Most are of one output where a score has digits;
    only those of several take sums.

    `place` (_STEPS, blocks) is where each level is found in the rows that `sums` takes: that order, a column of it
    after the other, is the order of values.
    """

    def __init__(self, values: Floats) -> None:
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        size = np.diff(np.append(first, len(values)))
        self.alone = order[first[size == 1]]
        several = np.flatnonzero(size > 1)
        several = several[np.argsort(size[several], kind="stable")]
        sizes, self.count = np.unique(size[several], return_counts=True)
        self.sizes = sizes.tolist()
        start = np.repeat(first[several] - np.cumsum(size[several]) + size[several], size[several])
        self.tied = order[start + np.arange(len(start))]  # level by level, those of the fewest first
        place = np.full(-(-len(size) // _STEPS) * _STEPS, len(values))  # a row of zeros
        place[: len(size)] = order[first]
        place[several] = len(values) + 1 + np.arange(len(several))
        self.place = np.ascontiguousarray(place.reshape(-1, _STEPS).T)
        level = np.empty(len(values), dtype=np.intp)
        level[order] = np.repeat(np.arange(len(size)), size)
        self.level = level % _STEPS * self.place.shape[1] + level // _STEPS

    def of_tied(self, rows: Floats) -> Floats:
        """Rows of the `tied` outputs added up by level: (tied, B) -> (levels of several outputs, B).

        Levels of one size at a time: `np.add.reduceat` along the first axis takes several times as long.
        """
        made = np.empty((int(self.count.sum()), rows.shape[1]))
        row = level = 0
        for size, count in zip(self.sizes, self.count, strict=True):
            own = rows[row : row + size * count].reshape(count, size, -1)
            np.add.reduce(own, axis=1, out=made[level : level + count])
            row, level = row + size * count, level + count
        return made

    def by_level(self, rows: Rows, tied: Floats, out: Floats) -> Floats:
        """(_STEPS, blocks, B) of all outputs' rows and the sums of those that tie, in the order of `place`."""
        rows.tied[: len(tied)] = tied
        made = out[: self.place.size].reshape(*self.place.shape, -1)
        return np.take(rows.all, self.place, axis=0, out=made, mode="clip")

    def powers(self, drawn: Floats, tied: Floats, *, share: Floats, units: Ints, power: int) -> Floats:
        """(B,): what levels weigh to a whole power, added up; `drawn` (units, B), `tied` sums of drawn shares."""
        alone = np.bincount(units[self.alone], share[self.alone] ** power, minlength=len(drawn))
        return np.asarray(alone @ _power(drawn, power) + _power(tied, power).sum(axis=0))


class Rows:
    """Rows of outputs (outputs, B), one of zeros, and room for sums of those that tie."""

    def __init__(self, outputs: Floats) -> None:
        n = len(outputs)
        self.all = np.zeros((n + 1 + n // 2, outputs.shape[1]))
        self.all[:n] = outputs
        self.outputs, self.tied = self.all[:n], self.all[n + 1 :]


def some_resamples(n_resamples: int, n_outputs: int) -> Iterator[slice]:
    """Resamples that are taken at a time."""
    return chunks(n_resamples, max(CHUNK // _WIDTH, n_outputs * CHUNK // _MEMORY))


def room(n_outputs: int, n_resamples: int) -> Floats:
    """For `Levels.by_level` of any rater of these outputs."""
    return np.empty((-(-n_outputs // _STEPS) * _STEPS, n_resamples))


def running(by_level: Floats) -> Floats:
    """Make rows of `Levels.by_level` their running sums, in place.

    NumPy adds up along the first axis an element at a time; here whole rows are added.

    >>> rows = np.ones((16, 2, 1))
    >>> running(rows)[[0, 1, 15]].squeeze().tolist()
    [[1.0, 17.0], [2.0, 18.0], [16.0, 32.0]]
    """
    for k in range(1, len(by_level)):
        by_level[k] += by_level[k - 1]
    ends = by_level[-1].copy()
    for block in range(1, len(ends)):
        ends[block] += ends[block - 1]
    by_level[:, 1:] += ends[:-1]
    return by_level


def _power(values: Floats, power: int) -> Floats:
    """By products: a power of floats takes ten times as long."""
    made = values
    for _ in range(power - 1):
        made = made * values
    return made
