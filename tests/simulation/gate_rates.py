"""Error rates and opening rates of a gate, on simulated studies with known truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.random import Generator

from custodes.evaluate.agreement.statistic import Sample
from custodes.evaluate.gate.rules import GateRule, estimate_rule
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats import bootstrap
from custodes.stats.arrays import Floats
from custodes.stats.intervals import Inference, simultaneous_intervals
from tests.simulation.interval_coverage import comparison_of

ALPHA = 0.05
ASPECTS = 2
PEOPLE = 0.6  # error of the mean human rating, which is rounded and so has ties
ICC = 0.3  # intraclass correlation of the outputs of one document
ALIKE = 0.5  # correlation of an output's qualities in the two aspects
SIZED = ("spa", "acc_eq")
"""Statistics that depend on the number of items, through human sampling error or the fit of a tie threshold."""
LARGE = 20_000  # items for each computation of the true values


@dataclass(frozen=True)
class World:
    """Design of a study with `items` in clusters (1: independent), and `systems` with normal means of standard
    deviation `spread`.

    The new metric has error `new`, the old one `old`, with the proportion `common` in common. `taste` is each metric's
    bias for systems, in units of `spread`.
    """

    items: int
    cluster: int = 1
    systems: int = 5
    spread: float = 0.5
    new: float = 1.0
    old: float = 1.0
    common: float = 0.5
    taste: float = 0.0

    def draw(self, rng: Generator, items: int) -> list[RaterComparison]:
        """Draw one comparison per aspect, of humans with the metrics m0 (new) and m1 (old)."""
        fixed = np.random.default_rng(self.systems).normal(size=(3, ASPECTS, 1, self.systems)) * self.spread
        effects, tastes = fixed[0], self.taste * fixed[1:]
        units = np.arange(items) // self.cluster
        shape = (1 + ASPECTS + 1 + 2 * ASPECTS, items, self.systems)
        shared, *rest = rng.normal(size=shape)
        separate, common_noise, metric_noise = (
            rest[:ASPECTS],
            rest[ASPECTS],
            np.reshape(rest[ASPECTS + 1 :], (ASPECTS, 2, items, -1)),
        )
        if self.cluster > 1:
            within = rng.normal(size=(1 + ASPECTS, units[-1] + 1, self.systems))[:, units]
            mixed = [np.sqrt(ICC) * w + np.sqrt(1 - ICC) * o for w, o in zip(within, (shared, *separate), strict=True)]
            shared, separate = mixed[0], mixed[1:]
        size = np.array([self.new, self.old])[:, None, None]
        results = []
        for k in range(ASPECTS):
            quality = effects[k] + np.sqrt(ALIKE) * shared + np.sqrt(1 - ALIKE) * separate[k]
            human = np.round(quality + PEOPLE * rng.normal(size=quality.shape))
            errors = np.sqrt(self.common) * common_noise + np.sqrt(1 - self.common) * metric_noise[k]
            results.append(comparison_of(human, quality + tastes[:, k] + size * errors, units))
        return results

    def study(self, rng: Generator) -> list[RaterComparison]:
        """Draw a study with `items` items."""
        return self.draw(rng, self.items)


VALUE = (GateRule(text="", statistic="kendall_item", threshold=0.0),)
OTHER = (GateRule(text="", statistic="kendall_item", threshold=0.0, against="m1"),)
SEVERAL = (
    *VALUE,
    *OTHER,
    GateRule(text="", statistic="sample_accuracy", threshold=0.0),
    GateRule(text="", statistic="sample_accuracy", threshold=0.0, against="m1"),
)
SYSTEMS = (
    GateRule(text="", statistic="pairwise_accuracy", threshold=0.0),
    GateRule(text="", statistic="kendall_system", threshold=0.0),
    GateRule(text="", statistic="spa", threshold=0.0),
)
SYSTEMS_OTHER = (
    GateRule(text="", statistic="pairwise_accuracy", threshold=0.0, against="m1"),
    GateRule(text="", statistic="kendall_system", threshold=0.0, against="m1"),
    GateRule(text="", statistic="spa", threshold=0.0, against="m1"),
)


@cache
def truth(world: World, rules: tuple[GateRule, ...], aspects: int, parts: int = 10) -> Floats:
    """True values (aspects * rules,), as the median of large studies; NaN for statistics that depend on the size."""
    rng = np.random.default_rng(99)
    results = []
    for _ in range(parts):
        for part in world.draw(rng, LARGE)[:aspects]:
            ones = np.ones((1, part.design.n_units))
            sample = Sample(comparison=part, times=ones, flips=np.ones((0, part.design.n_units), np.int8))
            entries = [
                None if rule.statistic in SIZED else estimate_rule(rule, "m0", sample).estimate for rule in rules
            ]
            results += [np.nan if value is None else value.value for value in entries]
    return np.median(np.reshape(results, (parts, -1)), axis=0)


def tested(
    comparisons: Sequence[RaterComparison], rules: Sequence[GateRule], *, resamples: int, rng: Generator
) -> tuple[Inference, float]:
    """Simultaneous intervals of a gate's rules for all aspects, which have the same clusters."""
    n_units = comparisons[0].design.n_units
    times = bootstrap.bootstrap_weights(n_units, resamples, rng)
    flips = bootstrap.sign_flips(n_units, 200, rng)
    samples = [Sample(comparison=comparison, times=times, flips=flips) for comparison in comparisons]
    estimates = [estimate_rule(rule, "m0", sample).estimate for sample in samples for rule in rules]
    return simultaneous_intervals(estimates, [0.0] * len(estimates), confidence=1 - ALPHA)


@dataclass(frozen=True)
class Rates:
    """Rates over studies in which every true value equals its threshold.

    `any`: some rule holds or fails; `fail`: some rule fails; `one_holds`, `one_fails`: the largest rate of a single
    rule; `open`: all rules hold if every true value is above its threshold by a slack; `level`: mean level of the
    intervals; `untold`: proportion of rules without an interval.
    """

    any: float
    fail: float
    one_holds: float
    one_fails: float
    open: tuple[float, ...]
    level: float
    untold: float


def rates(
    world: World,
    rules: tuple[GateRule, ...],
    *,
    aspects: int,
    studies: int,
    resamples: int = 300,
    slacks: Sequence[float] = (),
) -> Rates:
    """Simulate rates. Statistics that depend on the size have their mean over studies as the true value."""
    rng = np.random.default_rng([world.items, world.cluster, len(rules), aspects])
    results = [tested(world.study(rng)[:aspects], rules, resamples=resamples, rng=rng) for _ in range(studies)]
    estimate, low, high = (
        np.array([getattr(intervals, name) for intervals, _ in results]) for name in ("estimate", "low", "high")
    )
    at = truth(world, rules, aspects)
    at = np.where(np.isnan(at), estimate.mean(axis=0), at)
    holds, fails = low > at, high < at
    return Rates(
        any=float((holds | fails).any(axis=1).mean()),
        fail=float(fails.any(axis=1).mean()),
        one_holds=float(holds.mean(axis=0).max()),
        one_fails=float(fails.mean(axis=0).max()),
        open=tuple(float((low > at - slack).all(axis=1).mean()) for slack in slacks),
        level=float(np.mean([level for _, level in results])),
        untold=float(np.isnan(low).mean()),
    )


Tasteful = partial(World, systems=8, taste=0.8)
SLACKS = (0.02, 0.05, 0.1)
CELLS = (
    ("one requirement", World, VALUE, 1),
    ("not worse than another", World, OTHER, 1),
    ("both, by two statistics, two aspects", World, SEVERAL, 2),
    ("over systems", Tasteful, SYSTEMS, 1),
    ("over systems, not worse", Tasteful, SYSTEMS_OTHER, 1),
)


SMALL = {
    "20 items, 3 systems": World(items=20, systems=3, new=0.15, old=0.4),
    "50 items, 2 systems": World(items=50, systems=2, new=0.15, old=0.4),
    "30 items, 6 systems": World(items=30, systems=6, new=0.3, taste=0.8),
    "20 documents, 3 systems": World(items=200, cluster=10, systems=3, new=0.2, old=3.0),
}
"""Few items and accurate metrics, whose values are near their bound and far from normal."""
OF_SMALL = ("sample_accuracy", "kendall_item", "acc_eq", "pearson_global")
