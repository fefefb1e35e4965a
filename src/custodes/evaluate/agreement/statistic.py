"""A statistic of agreement is a value: its name, what it says, what guessing gets, and how it is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import Column, score, with_interval
from custodes.evaluate.comparison import Comparison
from custodes.stats.agreement import accuracy, correlation
from custodes.stats.agreement.population import population_values
from custodes.stats.arrays import Floats
from custodes.stats.resampling import resample

Level = Literal["comparison", "system", "item", "output"]
"""What is counted once: a comparison of two outputs, a system, an item, an output."""

FEWEST = 4
"""Clusters from which Student's intervals hold the truth often enough; see docs/explanation/statistics.md."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A comparison in every resample: `times` (1 + B, clusters) how often each cluster is there, the data first;
    `flips` (n, clusters) of +-1, shared by all permutation tests over systems."""

    comparison: Comparison
    times: Floats
    flips: NDArray[np.int8]

    @cached_property
    def system_scores(self) -> tuple[Floats, Floats]:
        """(1 + B, systems) of people and (1 + B, metrics, systems): means over items, or the file's own score.

        A system-level score of the file is resampled by the shift of the mean of the same metric's segment scores.
        """
        comparison, design = self.comparison, self.comparison.design
        both = np.concatenate([comparison.human[None], comparison.metric_scores])
        given = np.concatenate([comparison.human_system[None], comparison.metric_system])
        means = correlation.system_means(both, units=design.units, weights=self.times, item_weights=design.item_weights)
        shift = np.nan_to_num(means - means[:1], nan=0.0)
        scores = np.where(np.isfinite(given), given + shift, means)
        return scores[:, 0], scores[:, 1:]

    @cached_property
    def population_scores(self) -> tuple[Floats, Floats]:
        """(B, metrics, systems) each: what the scores of systems may be with very many items, by people and metric."""
        human, metrics = self.system_scores
        both = np.broadcast_to(human[:, None], metrics.shape), metrics
        return population_values(*both, n_units=self.comparison.design.n_units)

    @cached_property
    def population_wins(self) -> tuple[Floats, Floats]:
        """(B, metrics, systems) each: what the wins minus losses of systems may be with very many items."""
        own, units = self.comparison, self.comparison.design.units
        net = accuracy.net_wins(own.human_signs, own.metric_signs, units=units, weights=self.times)
        return population_values(*net, n_units=own.design.n_units)

    @cached_property
    def acc_eq(self) -> tuple[Floats, Floats]:
        """The accuracy with calibrated ties, and the threshold of each metric that gives it: (1 + B, metrics) each."""
        comparison, design = self.comparison, self.comparison.design
        return accuracy.acc_eq(
            comparison.human,
            comparison.metric_scores,
            human_tie=comparison.human_tie,
            units=design.units,
            weights=self.times,
            item_weights=design.item_weights,
        )


@dataclass(frozen=True, kw_only=True)
class Swaps:
    """A permutation test of pairs of metrics: `flips` (n, clusters) of +-1 say which clusters the two exchange,
    `first` and `second` (pairs,) which metrics."""

    flips: NDArray[np.int8]
    first: NDArray[np.int64]
    second: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """`compute` gives (1 + B, metrics) of a sample. `chance` is what a metric that knows nothing gets, also (metrics,)
    of a comparison where that depends on ties (None: not said). `swap` gives p-values (pairs,) of 'both agree equally
    well' (None: not tested). `essential` statistics are shown first, `best` is their better end.

    Its interval is Student's from resamples, within `bounds`, and speaks of other items, as many as these. Where
    resamples are no guide to the value with very many items, `population` draws that, (B, metrics), and its percentiles
    are taken. With fewer clusters than `fewest` it held the truth in under 85 % of some simulated studies."""

    name: str
    label: str
    doc: str
    level: Level
    compute: Callable[[Sample], Floats]
    bounds: resample.Bounds = resample.ANY
    fewest: int = FEWEST
    population: Callable[[Sample], Floats] | None = None
    chance: float | Callable[[Comparison], Floats] | None = None
    swap: Callable[[Sample, Swaps], Floats] | None = None
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
        low, high = resample.expanded_interval(
            draws[0], self.population(sample), confidence=confidence, n_units=n_units
        )
        return {name: draws[0], f"{name}_low": low, f"{name}_high": high}

    @property
    def chance_column(self) -> Column | None:
        """The column of what guessing gets, where that is not one number for all."""
        doc = f"`{self.name}` of guessing with as many ties"
        return score(f"{self.name}_chance", doc, essential=False) if callable(self.chance) else None

    def chance_of(self, comparison: Comparison) -> Floats:
        """(metrics,): what guessing gets, NaN where that is not said."""
        if callable(self.chance):
            return self.chance(comparison)
        return np.full(len(comparison.metrics), np.nan if self.chance is None else self.chance)
