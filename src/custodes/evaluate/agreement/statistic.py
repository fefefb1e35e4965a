"""Definition of a statistic of agreement: name, description, chance level and computation."""

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
"""Minimum number of clusters for good coverage of t intervals; see docs/explanation/statistics/intervals.md."""

PERMUTATIONS = 1000
"""Sign flips of every test of two systems in soft pairwise accuracy."""


def drawn_flips(rng: np.random.Generator) -> Callable[[RaterComparison], NDArray[np.int8]]:
    """Sign flips (`PERMUTATIONS`, clusters) of a comparison; they do not depend on other draws from the generator."""
    seed = int(rng.spawn(1)[0].integers(2**63))
    return lambda comparison: bootstrap.sign_flips(comparison.design.n_units, PERMUTATIONS, np.random.default_rng(seed))


@dataclass(frozen=True, kw_only=True)
class SystemScores:
    """System scores of the annotators and of the metrics, (1 + B, metrics, systems) each.

    The human scores are those on the outputs shared with each metric. `pairs` (metrics, systems, systems) marks the
    pairs that can be compared: they have a common item, or the file contains their scores.
    """

    people: Floats
    metrics: Floats
    pairs: Bools


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A comparison in every resample.

    `times` (1 + B, clusters) are bootstrap weights, row 0 the data, in the form that `bootstrap.weighted_sums` takes.
    `flips` (n, clusters) are signs +-1, shared by all permutation tests over systems. `columns` (clusters,) is the
    column of each cluster in `times`, -1 for a cluster that another one represents; it is set if only preferences can
    be compared (see `resampled_groups`), else None. `memo` caches values that depend on arrays but not on the
    resamples.
    """

    comparison: RaterComparison
    times: NDArray[Any]
    flips: NDArray[np.int8]
    columns: Ints | None = None
    memo: dict[str, tuple[tuple[object, ...], Any]] = field(default_factory=dict)

    def per_item(self, name: str, compute: Callable[[RaterComparison], Floats]) -> Floats:
        """The value of `compute` for the comparison, (metrics, items); NaN if there are only preferences."""
        if are_choices(self.comparison):
            return np.full((len(self.comparison.metrics), len(self.comparison.items)), np.nan)
        values: Floats = self._once(name, lambda: read_only(compute(self.comparison)), self.comparison.metric_scores)
        return values

    def _once(self, name: str, compute: Callable[[], Any], *of: object) -> Any:
        """The cached value of `compute` for these arrays, also for samples that replace the resamples of this one."""
        arrays, value = self.memo.get(name, ((), None))
        if len(arrays) != len(of) or any(one is not other for one, other in zip(arrays, of, strict=True)):
            value = compute()
            self.memo[name] = of, value
        return value

    @cached_property
    def system_scores(self) -> SystemScores:
        """System scores by the annotators and every metric, from the outputs rated by both or from the file.

        If the file contains a system's score by one of the two, the other's outputs need not be rated by both. A
        system-level score of the file is resampled by adding the change of the rater's mean score over items.
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
            scores_of_people = comparison.human[np.newaxis], comparison.human_system[np.newaxis]
            people[:, rows] = self._fitted(*scores_of_people, cells=of_people[rows[0]])
            scores_of_metrics = comparison.metric_scores[rows], comparison.metric_system[rows]
            metrics[:, rows] = self._fitted(*scores_of_metrics, cells=of_metrics[rows[0]])
        return SystemScores(people=people, metrics=metrics, pairs=joined[0] & joined[1])

    def _fitted(self, scores: Floats, from_file: Floats, *, cells: Bools) -> Floats:
        """(1 + B, raters, systems): means over `cells` (items, systems), or scores of the file (raters, systems)."""
        design = self.comparison.design
        fitted = system_fit(scores, cells, units=design.units, weights=self.times, item_weights=design.item_weights)
        return np.where(np.isfinite(from_file), from_file + np.nan_to_num(fitted - fitted[:1], nan=0.0), fitted)

    def item_mean(self, per_item: Floats) -> Floats:
        """(1 + B, k): means over items of values (k, items), ignoring undefined ones."""
        design = self.comparison.design
        return weighted_item_mean(per_item, units=design.units, weights=self.times, item_weights=design.item_weights)

    @cached_property
    def population_scores(self) -> tuple[Floats, Floats]:
        """(B, metrics, systems) each: simulated system scores with very many items, by annotators and metric."""
        scores = self.system_scores
        return read_only(population_values(scores.people, scores.metrics, n_units=self.comparison.design.n_units))

    @cached_property
    def choices(self) -> Choices:
        """Agreement of human and metric preferences."""
        return Choices(self.comparison, self.times, self.columns)

    @cached_property
    def acc_eq(self) -> tuple[Floats, Floats]:
        """(1 + B, metrics) each: accuracy with calibrated ties, and the tie threshold of each metric that maximises
        it."""
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
    """(..., systems, systems): whether the condition (..., systems) holds for both systems."""
    return np.asarray(condition[..., np.newaxis] & condition[..., np.newaxis, :])


def alike(*masks: Bools) -> list[NDArray[np.intp]]:
    """Positions of rows, grouped by rows that are equal in all masks (rows, ...)."""
    return equal_positions(b"".join(np.packbits(mask).tobytes() for mask in rows) for rows in zip(*masks, strict=True))


def of_outputs(compute: Callable[[Sample], Floats]) -> Callable[[Sample], Floats]:
    """Make a statistic of output scores undefined, without computing it, if no metric shares outputs with annotators.

    For verdicts on a hundred systems, even an array of NaN for each pair would fill the memory.
    """

    def computed(sample: Sample) -> Floats:
        scores = sample.comparison.scores
        if (np.isfinite(scores.human) & np.isfinite(scores.metrics)).any():
            return compute(sample)
        return np.full((len(sample.times), len(scores.metrics)), np.nan)

    return computed


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """A statistic of agreement.

    `compute` returns (1 + B, metrics) for a sample.

    `chance` is the chance level, or a function of a sample that returns (1 + B, metrics) where it depends on ties
    (None: not defined). `smooth`: a single cluster changes the statistic only slightly; differences are then tested
    with sign flips of each cluster's contribution, otherwise with the bootstrap. `compared` statistics are tested by
    default. `essential` ones are displayed first. `best` says whether high or low values are better; without it metrics
    are not compared. `per_item` returns (metrics, items), for a mean over items: two metrics are then compared on the
    items where both are defined.

    The interval is Student's t from the resamples, within `bounds`, for samples of the same number of items. If the
    bootstrap is not valid for the value in a very large sample of items, `population` simulates that value, (B,
    metrics), and percentiles of the simulation are used. With fewer than `fewest` clusters, coverage was below 85 % in
    some simulated studies.
    """

    name: str
    label: str
    doc: str
    compute: Callable[[Sample], Floats]
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
        """The column of the statistic."""
        return score(self.name, self.doc, self.label, interval=True, essential=self.essential, best=self.best)

    def with_interval(self, name: str, sample: Sample, draws: Floats, confidence: float) -> dict[str, Floats]:
        """The estimate, row 0 of `draws`, as a column of this name, with the bounds of its interval."""
        n_units = sample.comparison.design.n_units
        if self.population is None:
            return with_interval(name, draws, confidence, clusters=n_units, bounds=self.bounds)
        low, high = intervals.expanded_interval(
            draws[0], self.population(sample), confidence=confidence, n_units=n_units, bounds=self.bounds
        )
        return {name: draws[0], f"{name}_low": low, f"{name}_high": high}

    @property
    def chance_column(self) -> Column | None:
        """The column of the chance level; None if it is the same number for all metrics."""
        doc = f"`{self.name}` at the chance level, with equally many ties"
        return score(f"{self.name}_chance", doc, essential=False) if callable(self.chance) else None

    def chance_of(self, sample: Sample) -> Floats:
        """(1 + B, metrics): the chance level, NaN where it is not defined."""
        if callable(self.chance):
            return self.chance(sample)
        n_metrics = len(sample.comparison.metrics)
        return np.full((len(sample.times), n_metrics), np.nan if self.chance is None else self.chance)
