"""BattleCounts: how often each pair of systems won, tied and lost, as people and every metric say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from custodes.data.notes import Note
from custodes.data.origin import Origin
from custodes.data.pairs import PairCounts
from custodes.stats.arrays import require

HUMAN = "human"
SCHEMA = {
    "rater": pl.String,
    "system_a": pl.String,
    "system_b": pl.String,
    "order": pl.Float64,
    "wins": pl.Int64,
    "ties": pl.Int64,
    "losses": pl.Int64,
}


@dataclass(frozen=True, kw_only=True)
class BattleCounts:
    """What a leaderboard needs of battles and, where people and metrics judged, what favoritism, ranking and correction
    need (`pairs`, of the same verdicts; None without people or without metrics).

    `frame` has a row for each rater ('human': people together), pair (system_a < system_b) and `order` (1 where
    system_a was shown first, -1 where system_b was, 0 unknown or both): `wins`, `ties` and `losses` of system_a.
    `items`: how many items a rater's battles are of; a rater that is not there: unknown. `origin`: how it was counted.
    """

    frame: pl.DataFrame
    items: Mapping[str, int]
    notes: tuple[Note, ...] = ()
    pairs: PairCounts | None = None
    origin: Origin = field(default_factory=Origin)

    def __post_init__(self) -> None:
        require(dict(self.frame.schema) == SCHEMA, f"columns {dict(self.frame.schema)}: must be {SCHEMA}")

    @property
    def raters(self) -> tuple[str, ...]:
        """Who judged, people first."""
        return tuple(sorted(self.frame["rater"].unique(), key=lambda name: (name != HUMAN, name)))

    @property
    def systems(self) -> tuple[str, ...]:
        """Who fought, in the order of their names."""
        return tuple(sorted({*self.frame["system_a"], *self.frame["system_b"]}))

    @classmethod
    def of_pairs(cls, counts: PairCounts) -> BattleCounts:
        """The same of counts of pairs, which know neither orders nor items.

        >>> none, only = np.zeros((1, 1, 3, 3), dtype=np.int64), np.array([[[2, 0, 1]]])
        >>> names = {"system_a": ("A",), "system_b": ("B",), "metrics": ("judge",)}
        >>> counts = PairCounts(paired=none, metric_only=only, human_only=0 * only, **names)
        >>> BattleCounts.of_pairs(counts).frame.row(0)
        ('judge', 'A', 'B', 0.0, 2, 0, 1)
        """
        outcomes = {HUMAN: counts.human, **{name: counts.metric[:, i] for i, name in enumerate(counts.metrics)}}
        frames = []
        for rater, own in outcomes.items():
            met = np.flatnonzero(own.sum(axis=1))
            frames.append(
                pl.DataFrame(
                    {
                        "rater": [rater] * len(met),
                        "system_a": [counts.system_a[i] for i in met],
                        "system_b": [counts.system_b[i] for i in met],
                        "order": np.zeros(len(met)),
                        **{name: own[met, k] for k, name in enumerate(("wins", "ties", "losses"))},
                    },
                    schema=SCHEMA,
                )
            )
        return cls(frame=pl.concat(frames), items={})
