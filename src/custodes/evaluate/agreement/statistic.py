"""A statistic of agreement is a value: its name, what it says, what guessing gets, and how it is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import Column, score, with_interval
from custodes.evaluate.agreement.choices import Choices, are_choices
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats import bootstrap, calibrated_accuracy, intervals
from custodes.stats.arrays import Bools, Floats, Ints, equal_positions, read_only
from custodes.stats.population import population_values
from custodes.stats.system_scores import common_items, system_fit, weighted_item_mean

FEWEST = 4
"""Clusters from which Student's intervals hold the truth often enough; see docs/explanation/statistics/intervals.md."""

PERMUTATIONS = 1000
"""Flips behind every test of two systems in soft pairwise accuracy."""


def drawn_flips(rng: np.random.Generator) -> Callable[[RaterComparison], NDArray[np.int8]]:
    """Flips (`PERMUTATIONS`, clusters) of a comparison, the same in every question and whatever else is drawn from the
    generator."""
    seed = int(rng.spawn(1)[0].integers(2**63))
    return lambda comparison: bootstrap.sign_flips(comparison.design.n_units, PERMUTATIONS, np.random.default_rng(seed))


@dataclass(frozen=True, kw_only=True)
class SystemScores:
    """`people` and `metrics` (1 + B, metrics, systems), people's being those to which each metric is compared; `pairs`
    (metrics, systems, systems) says which systems can be: they have an item in common, or the file gives scores."""

    people: Floats
    metrics: Floats
    pairs: Bools

    def __post_init__(self) -> None:
        read_only(self)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A comparison in every resample: `times` (1 + B, clusters) how often each cluster is there, the data first, as
    `bootstrap.weighted_sums` takes them; `flips` (n, clusters) of +-1, shared by all permutation tests over systems;
    `columns` (clusters,) the place of each cluster in `times`, -1 where another one stands for it, if only choices can
    be compared (see `resampled_groups`), else None; `memo` what was computed from arrays whatever the resamples, with
    these arrays."""

    comparison: RaterComparison
    times: NDArray[Any]
    flips: NDArray[np.int8]
    columns: Ints | None = None
    memo: dict[str, tuple[tuple[object, ...], Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        read_only(self)

    def per_item(self, name: str, compute: Callable[[RaterComparison], Floats]) -> Floats:
        """What `compute` finds of the scores of the comparison, (metrics, items); NaN where there are only choices."""
        if are_choices(self.comparison):
            return np.full((len(self.comparison.metrics), len(self.comparison.items)), np.nan)
        values: Floats = self._once(name, lambda: read_only(compute(self.comparison)), self.comparison.metric_scores)
        return values

    def _once(self, name: str, compute: Callable[[], Any], *of: object) -> Any:
        """What `compute` finds of these arrays: once, also for samples that replace this one's resamples."""
        arrays, value = self.memo.get(name, ((), None))
        if len(arrays) != len(of) or any(one is not other for one, other in zip(arrays, of, strict=True)):
            value = compute()
            self.memo[name] = of, value
        return value

    @cached_property
    def system_scores(self) -> SystemScores:
        """Scores of systems by people and by every metric, from the cells that both rated, or the file's own.

        Where the file gives a score for the system by one of the two, the other one's cells need not be shared. A
        system-level score of the file is resampled by the shift of the same rater's score over items.
        """
        comparison = self.comparison
        if are_choices(comparison):
            unknown = np.full((len(self.times), *comparison.metric_system.shape), np.nan)
            return SystemScores(people=unknown, metrics=unknown, pairs=both(comparison.metric_system > np.inf))
        rated, scores = np.isfinite(comparison.human), np.isfinite(comparison.metric_scores)
        from_file = np.isfinite(comparison.human_system), np.isfinite(comparison.metric_system)
        of_people = rated & (scores | from_file[1][:, np.newaxis])
        of_metrics = scores & (rated | from_file[0])
        joined = [
            np.stack([common_items(cells) for cells in masks]) | both(has_score)
            for masks, has_score in ((of_people, from_file[0]), (of_metrics, from_file[1]))
        ]
        people, metrics = np.empty((2, len(self.times), *from_file[1].shape))
        for rows in alike(of_people, of_metrics):
            pair = of_people[rows[0]], of_metrics[rows[0]]
            sides = (
                (comparison.human[np.newaxis], comparison.human_system[np.newaxis]),
                (comparison.metric_scores[rows], comparison.metric_system[rows]),
            )
            if (pair[0] == pair[1]).all():  # one fit for all
                fitted = self._fitted(*map(np.concatenate, zip(*sides, strict=True)), cells=pair[0])
                people[:, rows], metrics[:, rows] = fitted[:, :1], fitted[:, 1:]
            else:
                people[:, rows], metrics[:, rows] = (
                    self._fitted(*side, cells=cells) for side, cells in zip(sides, pair, strict=True)
                )
        return SystemScores(people=people, metrics=metrics, pairs=joined[0] & joined[1])

    def _fitted(self, scores: Floats, from_file: Floats, *, cells: Bools) -> Floats:
        """(1 + B, raters, systems) from some cells (items, systems), or the scores of the file (raters, systems)."""
        design = self.comparison.design
        fitted = system_fit(scores, cells, units=design.units, weights=self.times, item_weights=design.item_weights)
        return np.where(np.isfinite(from_file), from_file + np.nan_to_num(fitted - fitted[:1], nan=0.0), fitted)

    def item_mean(self, per_item: Floats) -> Floats:
        """(1 + B, k): the means over items of (k, items), where defined."""
        design = self.comparison.design
        return weighted_item_mean(per_item, units=design.units, weights=self.times, item_weights=design.item_weights)

    @cached_property
    def population_scores(self) -> tuple[Floats, Floats]:
        """(B, metrics, systems) each: what the scores of systems may be with very many items, by people and metric."""
        scores = self.system_scores
        return read_only(population_values(scores.people, scores.metrics, n_units=self.comparison.design.n_units))

    @cached_property
    def choices(self) -> Choices:
        """How alike people and metrics choose."""
        return Choices(self.comparison, self.times, self.columns)

    @cached_property
    def population_wins(self) -> tuple[Floats, Floats]:
        """(B, metrics, systems) each: what the wins minus losses of systems may be with very many items."""
        return read_only(population_values(*self.choices.net_wins, n_units=self.comparison.design.n_units))

    @cached_property
    def acc_eq(self) -> tuple[Floats, Floats]:
        """The accuracy with calibrated ties, and the threshold of each metric that gives it: (1 + B, metrics) each."""
        comparison, design = self.comparison, self.comparison.design
        scores = comparison.metric_scores
        events = self._once(
            "acc_eq",
            lambda: calibrated_accuracy.events(
                comparison.human,
                scores,
                human_tie=comparison.human_tie,
                units=design.units,
                n_units=self.times.shape[1],
                item_weights=design.item_weights,
            ),
            scores,
            design.units,
        )
        return calibrated_accuracy.calibrated(events, self.times)


def both(condition: Bools) -> Bools:
    """(..., systems) -> (..., systems, systems): whether it is so of both."""
    return np.asarray(condition[..., np.newaxis] & condition[..., np.newaxis, :])


def alike(*masks: Bools) -> list[NDArray[np.intp]]:
    """Rows that are equal in all masks (rows, ...), together."""
    return equal_positions(b"".join(np.packbits(mask).tobytes() for mask in rows) for rows in zip(*masks, strict=True))


def of_outputs(compute: Callable[[Sample], Floats]) -> Callable[[Sample], Floats]:
    """The same for a statistic of scores of outputs: undefined, and nothing is computed, where no metric shares any
    with people. Of verdicts on a hundred systems even their absence would fill the memory, pair by pair."""

    def computed(sample: Sample) -> Floats:
        scores = sample.comparison.scores
        if (np.isfinite(scores.human) & np.isfinite(scores.metrics)).any():
            return compute(sample)
        return np.full((len(sample.times), len(scores.metrics)), np.nan)

    return computed


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """`compute` gives (1 + B, metrics) of a sample; `of_people`, where people of several aspects take less time
    together, is the same with scores of people (..., items, systems) and of metrics in the place of its own, and gives
    (..., 1 + B, metrics).
    `chance` is what a metric that knows nothing gets, also (1 + B, metrics) of a sample where that depends on ties
    (None: not said). `smooth`: one cluster more or less changes it a little; then differences are tested by flips of
    what each cluster contributes, else by the bootstrap. `compared` ones are tested unless others are named.
    `essential` ones are shown first, `best` is their better end; without one metrics are not compared. `per_item` gives
    (metrics, items) of a comparison, for a mean over items: two metrics are then compared on the items where both are
    defined.

    Its interval is Student's from resamples, within `bounds`, and speaks of other items, as many as these. Where
    resamples are no guide to the value with very many items, `population` draws that, (B, metrics), and its percentiles
    are taken. With fewer clusters than `fewest` it held the truth in under 85 % of some simulated studies."""

    name: str
    label: str
    doc: str
    compute: Callable[[Sample], Floats]
    of_people: Callable[[Sample, Floats, Floats], Floats] | None = None
    per_item: Callable[[RaterComparison], Floats] | None = None
    bounds: intervals.Bounds = intervals.ANY
    fewest: int = FEWEST
    population: Callable[[Sample], Floats] | None = None
    chance: float | Callable[[Sample], Floats] | None = None
    smooth: bool = True
    compared: bool = False
    essential: bool = False
    best: Literal["high", ""] = "high"

    @property
    def column(self) -> Column:
        """The column that it fills."""
        return score(self.name, self.doc, self.label, interval=True, essential=self.essential, best=self.best)

    def with_interval(self, name: str, sample: Sample, draws: Floats, confidence: float) -> dict[str, Floats]:
        """The estimate, row 0 of `draws` as computed, as a column of this name, with the ends of its interval."""
        n_units = sample.comparison.design.n_units
        if self.population is None:
            return with_interval(name, draws, confidence, clusters=n_units, bounds=self.bounds)
        low, high = intervals.expanded_interval(
            draws[0], self.population(sample), confidence=confidence, n_units=n_units, bounds=self.bounds
        )
        return {name: draws[0], f"{name}_low": low, f"{name}_high": high}

    @property
    def chance_column(self) -> Column | None:
        """The column of what guessing gets, where that is not one number for all."""
        doc = f"`{self.name}` at the chance level, with equally many ties"
        return score(f"{self.name}_chance", doc, essential=False) if callable(self.chance) else None

    def chance_of(self, sample: Sample) -> Floats:
        """(1 + B, metrics): what guessing gets, NaN where that is not said."""
        if callable(self.chance):
            return self.chance(sample)
        n_metrics = len(sample.comparison.metrics)
        return np.full((len(sample.times), n_metrics), np.nan if self.chance is None else self.chance)
