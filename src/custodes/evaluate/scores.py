"""Scores for an aspect, stored only for items that have scores, and expanded to all items on demand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from custodes.data.comparisons import MOST_CELLS
from custodes.errors import InputError
from custodes.stats.arrays import Floats, read_only


@dataclass(frozen=True, kw_only=True)
class ItemScores:
    """Scores of the k items that have scores.

    `items` (k,) are the positions of these items among all `n_items` items, in ascending order. `persons` (annotators,
    k, systems) are the scores of annotators, `human` (k, systems) is the mean over annotators, and `metrics` (metrics,
    k, systems) are the scores of metrics. Scores are NaN if not rated.
    """

    items: NDArray[np.int64]
    n_items: int
    persons: Floats
    human: Floats
    metrics: Floats

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def all_items(cls, *, persons: Floats, human: Floats, metrics: Floats) -> ItemScores:
        """Return the scores of a study in which every item has scores."""
        return cls(items=np.arange(len(human)), n_items=len(human), persons=persons, human=human, metrics=metrics)

    def spread(self, values: Floats) -> Floats:
        """Return values (..., k, systems) expanded to all items, (..., items, systems); NaN for items without scores.

        Raises `InputError` if the expanded values do not fit into memory, for example with millions of verdicts on
        hundreds of systems.
        """
        if len(self.items) == self.n_items:
            return values
        shape = (*values.shape[:-2], self.n_items, values.shape[-1])
        if 8 * np.prod(shape, dtype=np.float64) > MOST_CELLS:
            raise InputError(
                f"{self.n_items} items x {shape[-1]} systems do not fit into memory for a question about "
                "scores. Select fewer, or use leaderboard, favoritism, ranking or correction, which "
                "read only comparisons"
            )
        full = np.full(shape, np.nan)
        full[..., self.items, :] = values
        return read_only(full)

    def on(self, items: NDArray[np.intp]) -> ItemScores:
        """Return the scores of the items at these positions, which are in ascending order."""
        _, rows, place = np.intersect1d(self.items, items, return_indices=True)
        return replace(
            self,
            items=place,
            n_items=len(items),
            persons=self.persons[:, rows],
            human=self.human[rows],
            metrics=self.metrics[:, rows],
        )
