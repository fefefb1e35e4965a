"""PairCounts: outcomes of people and metrics, counted by pair of systems."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from custodes.data.comparisons import Comparisons
from custodes.data.notes import Note
from custodes.data.origin import Origin
from custodes.stats.arrays import read_only
from custodes.stats.clusters import outcomes

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class PairCounts:
    """What favoritism, sample accuracy, sign tests and the mixture model need, and nothing more.

    `paired` (pairs, metrics, 3, 3) [human, metric]; `metric_only` and `human_only` (pairs, metrics, 3); order win, tie,
    loss of system_a. Additive over items. `origin`: how they were counted, where a table was counted; `notes`: what was
    left out then.
    """

    paired: Counts
    metric_only: Counts
    human_only: Counts
    system_a: tuple[str, ...]
    system_b: tuple[str, ...]
    metrics: tuple[str, ...]
    origin: Origin = field(default_factory=Origin)
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        shape = (len(self.system_a), len(self.metrics))
        assert self.paired.shape == (*shape, 3, 3)
        assert self.metric_only.shape == self.human_only.shape == (*shape, 3)
        read_only(self)

    @classmethod
    def of_tables(
        cls, tables: Counts, *, system_a: tuple[str, ...], system_b: tuple[str, ...], metrics: tuple[str, ...]
    ) -> PairCounts:
        """From (pairs, metrics, 4, 4) [human, metric], the last of each: absent."""
        return cls(
            paired=tables[:, :, :3, :3].copy(),
            metric_only=tables[:, :, 3, :3].copy(),
            human_only=tables[:, :, :3, 3].copy(),
            system_a=system_a,
            system_b=system_b,
            metrics=metrics,
        )

    def __add__(self, other: PairCounts) -> PairCounts:
        """Counts over both sets of items (same pairs and metrics)."""
        assert (self.system_a, self.system_b, self.metrics) == (other.system_a, other.system_b, other.metrics)
        return PairCounts(
            paired=self.paired + other.paired,
            metric_only=self.metric_only + other.metric_only,
            human_only=self.human_only + other.human_only,
            system_a=self.system_a,
            system_b=self.system_b,
            metrics=self.metrics,
        )

    @property
    def human(self) -> Counts:
        """(pairs, 3): people's own outcome, over all items they rated."""
        if not self.metrics:
            return np.zeros((len(self.system_a), 3), dtype=np.int64)
        return np.asarray((self.paired.sum(axis=3) + self.human_only)[:, 0])

    @property
    def metric(self) -> Counts:
        """(pairs, metrics, 3): each metric's own outcome, over all items it rated."""
        return np.asarray(self.paired.sum(axis=2) + self.metric_only)


def pair_counts(comparisons: Comparisons) -> PairCounts:
    """Count the outcomes of the first rater (people) against those of every other one."""
    n_pairs = len(comparisons.pairs)
    tables = np.empty((n_pairs, len(comparisons.raters) - 1, 4, 4), dtype=np.int64)
    for m in range(1, len(comparisons.raters)):
        joint = comparisons.joint(0, m)
        human, metric = outcomes(joint.signs)
        cell = (joint.pair * 4 + human) * 4 + metric
        tables[:, m - 1] = np.bincount(cell, minlength=16 * n_pairs).reshape(n_pairs, 4, 4)
    return PairCounts.of_tables(
        tables, system_a=comparisons.system_a, system_b=comparisons.system_b, metrics=comparisons.raters[1:]
    )
