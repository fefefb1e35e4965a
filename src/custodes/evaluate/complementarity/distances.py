"""Distances between the rankings of all raters in every resample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.data.notes import noted
from custodes.errors import listed
from custodes.evaluate.rater_scores import METRIC, RaterScores
from custodes.progress import Progress
from custodes.stats import bootstrap, intervals, rank_distance
from custodes.stats.arrays import Floats
from custodes.stats.ratios import ratio
from custodes.stats.system_scores import weighted_item_mean

Level = Literal["system", "utterance"]
KINDS = ("human-human", "human-metric", "metric-metric")
KEPT = 50
"""Number of resamples for which the distances of all pairs are stored, to compute the stability of communities."""

BLOCK = 2_000_000
"""Maximum number of distances or influence values in memory at the same time."""


@dataclass(frozen=True, kw_only=True)
class Rankings:
    """The rankings of the raters.

    At level 'system', the systems are ranked within each item. At level 'utterance', the items are ranked within each
    system. In the code, the ranked systems (or items) are `things`, and the items (or systems) within which they are
    ranked are `units`. A rater without any ranking counts as constant.
    """

    who: RaterScores
    level: Level

    @classmethod
    def of(cls, who: RaterScores, level: Level) -> Rankings:
        """Return the rankings of the raters. A rater with equal scores for all things of every unit is excluded."""
        rankings = cls(who=who, level=level)
        rated = np.isfinite(rankings.values)
        low, high = (np.where(rated, rankings.values, end) for end in (np.inf, -np.inf))
        flat = ~(low.min(axis=2) < high.max(axis=2)).any(axis=1)
        stuck = tuple(who.names[i] for i in np.flatnonzero(flat & who.varies))
        if not stuck:
            return rankings
        reason = f"rates all {rankings.thing}s of every {rankings.unit} equally"
        message = f"{listed(stuck)}: excluded, because the rater {reason} (scores differ only between {rankings.unit}s)"
        fewer = replace(
            who,
            scores=np.where(flat[:, None, None], np.nan, who.scores),
            constant=who.constant + stuck,
            left_out=(*who.left_out, *((name, reason) for name in stuck)),
            notes=(*who.notes, *noted(("constant-rater", len(stuck), message))),
        )
        return cls(who=fewer, level=level)

    @cached_property
    def values(self) -> Floats:
        """(raters, units, things): the scores that are ranked."""
        scores = self.who.scores
        return scores if self.level == "system" else np.ascontiguousarray(np.swapaxes(scores, 1, 2))

    @cached_property
    def pairs(self) -> NDArray[np.intp]:
        """(2, pairs): the positions of the two raters of each pair."""
        return np.stack(np.triu_indices(len(self.who.names), 1))

    @cached_property
    def kind(self) -> NDArray[np.intp]:
        """(pairs,): the kind of each pair, as a position in `KINDS`."""
        return np.asarray((np.array(self.who.kinds) == METRIC)[self.pairs].sum(axis=0))

    @property
    def unit(self) -> str:
        """Name of the unit within which things are ranked."""
        return "item" if self.level == "system" else "system"

    @property
    def thing(self) -> str:
        """Name of the ranked things."""
        return "system" if self.level == "system" else "item"

    def blocks(self, draws: int) -> list[slice]:
        """Return blocks of pairs that are small enough for the memory with this number of resamples."""
        step = max(1, BLOCK // max(*self.values.shape[1:], draws))
        return [slice(start, start + step) for start in range(0, len(self.kind), step)]

    def mean(self, distances: Floats, times: Floats) -> Floats:
        """(1 + B, pairs): weighted means of distances (pairs, units); the weights are of clusters or of systems."""
        design, n = self.who.design, distances.shape[1]
        if self.level == "utterance":
            return weighted_item_mean(distances, units=np.zeros(n, dtype=int), weights=times[:1, :1])
        return weighted_item_mean(distances, units=design.units, weights=times, item_weights=design.item_weights)

    def square(self, values: Floats) -> Floats:
        """Return values (..., pairs) as a symmetric matrix (..., raters, raters) with a zero diagonal."""
        matrix = np.zeros((*values.shape[:-1], *2 * self.values.shape[:1]))
        matrix[..., self.pairs[0], self.pairs[1]] = values
        return matrix + np.swapaxes(matrix, -1, -2)


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Distances in every resample; row 0 is the estimate.

    `kinds` (1 + B, 3) are averages by kind of pair. `raters` (1 + B, raters, 2) are the averages of each rater with
    annotators and with metrics. `kept` (1 + some resamples, pairs) are the distances of all pairs. `columns` has the
    mean distance of each pair with bounds, and the number `n` of rankings.
    """

    columns: dict[str, NDArray[Any]]
    kinds: Floats
    raters: Floats
    kept: Floats

    @classmethod
    def of(
        cls, rankings: Rankings, rule: rank_distance.Rule, times: Floats, confidence: float, progress: Progress
    ) -> Distances:
        """Return the distances of all pairs of raters; `times` (1 + B, clusters) are bootstrap weights of clusters."""
        columns, samples, n_units = [], [], rankings.who.design.n_units
        n, (first, second) = len(rankings.values), rankings.pairs
        human = np.array(rankings.who.kinds) != METRIC
        groups = (rankings.kind, *(len(KINDS) + 2 * a + ~human[b] for a, b in ((first, second), (second, first))))
        sums = np.zeros((2, len(times), len(KINDS) + 2 * n))
        blocks = rankings.blocks(len(times))
        for part in progress(blocks, total=len(blocks), desc="complementarity"):
            values, draws = _draws(rankings, part, rule, times)
            ends = with_interval("complementarity", draws, confidence, clusters=n_units, bounds=intervals.SHARE)
            columns.append({**ends, "n": np.isfinite(values).sum(axis=1)})
            samples.append(draws[: 1 + KEPT])
            sums += defined_sums(draws, [group[part] for group in groups], sums.shape[-1])
        mean = ratio(*sums)
        return cls(
            columns={name: np.concatenate([block[name] for block in columns]) for name in columns[0]},
            kinds=mean[:, : len(KINDS)],
            raters=mean[:, len(KINDS) :].reshape(-1, n, 2),
            kept=np.concatenate(samples, axis=1),
        )


def _draws(rankings: Rankings, part: slice, rule: rank_distance.Rule, times: Floats) -> tuple[Floats, Floats]:
    """Return the distances (pairs, units), and the mean distances in every resample (1 + B, pairs)."""
    if rankings.level == "system":
        distances = rank_distance.rank_distances(rankings.values, *rankings.pairs[:, part], rule=rule)
        return distances, rankings.mean(distances, times)
    distances, influence = rank_distance.rank_distance_influence(rankings.values, *rankings.pairs[:, part], rule=rule)
    design = rankings.who.design
    by_unit = bootstrap.unit_sums(influence, units=design.units, n_units=design.n_units)
    return distances, np.clip(rankings.mean(distances, times) + (times - 1) @ by_unit.T, 0.0, 1.0)


def defined_sums(values: Floats, groupings: Sequence[NDArray[np.intp]], n_groups: int) -> Floats:
    """(2, ..., groups): sum and number of the defined values (..., pairs) in each group of all groupings."""
    defined = np.isfinite(values)
    both = np.stack([np.where(defined, values, 0.0), defined])
    return np.asarray(sum(bootstrap.unit_sums(both, units=groups, n_units=n_groups) for groups in groupings))
