"""Differences of metrics, every pair on what people and both rated, and what can be told of all pairs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.evaluate.agreement.statistic import Sample, Statistic, alike
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.comparison import Comparison
from custodes.stats.arrays import Bools, Floats
from custodes.stats.resampling import resample, stepdown

MOST_BLOCKS = 400
"""Clusters are left out one at a time up to so many, else in so many blocks."""

_SAME = 1e-9  # rounding of statistics of the order of 1


@dataclass(frozen=True, kw_only=True)
class Tester:
    """What the tests of one aspect share: the `sample` of bootstrap resamples; `left_out` (1 + blocks, clusters), the
    data and the data without each block of clusters; the `block` of each cluster; `flips` (n, blocks) of +-1."""

    sample: Sample
    left_out: Floats
    block: NDArray[np.intp]
    flips: NDArray[np.int8]
    confidence: float

    @classmethod
    def of(cls, sample: Sample, *, n: int, confidence: float, rng: np.random.Generator) -> Tester:
        """With n flips; none where there is one cluster only."""
        n_units = sample.comparison.design.n_units
        weights, block = stepdown.without_block(n_units, most=MOST_BLOCKS)
        return cls(
            sample=sample,
            left_out=resample.with_point(weights),
            block=block,
            flips=resample.sign_flips(len(weights), n if n_units > 1 else 0, rng),
            confidence=confidence,
        )

    @cached_property
    def without(self) -> Sample:
        """The same sample with a block of clusters left out each time."""
        return replace(self.sample, times=self.left_out)

    def has(self, items: Bools) -> Bools:
        """(k, items) -> (blocks, k): whether a block of clusters has any of some items."""
        held = np.zeros((len(self.left_out) - 1, len(items)), dtype=bool)
        rows, item = np.nonzero(items)
        held[self.block[self.sample.comparison.design.units[item]], rows] = True
        return held

    def flipped(self, draws: Floats, present: Bools) -> stepdown.Family:
        """Tests of a family of `draws` (1 + blocks, k) with blocks left out."""
        return stepdown.flip_tests(draws[0], draws[1:], present=present, flips=self.flips, confidence=self.confidence)


def chance_tests(tester: Tester, name: str) -> stepdown.Family:
    """All metrics by a statistic: is it what guessing gets?"""
    statistic, comparison = STATISTICS[name], tester.sample.comparison
    above = statistic.compute(tester.without) - statistic.chance_of(tester.without)
    return tester.flipped(above, tester.has(counted(statistic, comparison)))


@dataclass(frozen=True, kw_only=True)
class Differences:
    """Every pair of metrics: `pairs` (pairs, 2) are their positions, `n` (pairs,) the comparisons of outputs that
    people and both have, `tests` a family by each statistic, of the first metric minus the second."""

    pairs: NDArray[np.intp]
    n: NDArray[np.int64]
    tests: Mapping[str, stepdown.Family]

    @classmethod
    def of(cls, tester: Tester, names: Sequence[str]) -> Differences:
        """By these statistics. A statistic that is undefined for one of two metrics makes no difference of them."""
        comparison = tester.sample.comparison
        n_metrics = len(comparison.metrics)
        pairs = np.stack(np.triu_indices(n_metrics, 1), axis=1)
        place = np.zeros((n_metrics, n_metrics), dtype=np.intp)
        place[pairs[:, 0], pairs[:, 1]] = np.arange(len(pairs))
        smooth = {name: STATISTICS[name].smooth for name in names}
        times = {True: tester.left_out, False: tester.sample.times}
        draws = {name: np.full((len(times[own]), len(pairs)), np.nan) for name, own in smooth.items()}
        n = np.zeros(len(pairs), dtype=np.int64)
        present = {name: np.zeros((len(tester.left_out) - 1, len(pairs)), dtype=bool) for name in names}
        for some, sub in _on_common_ground(comparison):
            a, b = _between(some)
            if not len(a):
                continue
            first, second = sub.place[a], sub.place[b]
            at = place[np.minimum(a, b), np.maximum(a, b)]
            sign = np.where(a < b, 1.0, -1.0)
            n[at] = sub.comparison.rated[0].sum()
            samples = {own: replace(tester.sample, comparison=sub.comparison, times=times[own]) for own in times}
            for name, own in smooth.items():
                made, items = difference(STATISTICS[name], samples[own], first, second)
                present[name][:, at] = tester.has(items)
                draws[name][:, at] = sign * made
        return cls(
            pairs=pairs,
            n=n,
            tests={
                name: tester.flipped(made, present[name])
                if smooth[name]
                else stepdown.bootstrap_tests(made, n_units=comparison.design.n_units, confidence=tester.confidence)
                for name, made in draws.items()
            },
        )

    def order(self, name: str, values: Floats) -> NDArray[np.intp]:
        """The metrics from the best: by scores whose differences fit best to those of all pairs by a statistic.

        Where all metrics rated the same, these are the `values` (metrics,) themselves. Where they did not, a metric
        does not gain by having rated what is easy. Metrics without a value have no place.
        """
        known = np.flatnonzero(np.isfinite(values))
        difference = self.tests[name].estimate if name in self.tests else np.full(len(self.pairs), np.nan)
        told = np.isfinite(difference)
        level = np.where(np.isfinite(values), values, 0.0)
        if told.any():
            rows = np.arange(told.sum())
            design = np.zeros((len(rows), len(values)))
            design[rows, self.pairs[told, 0]], design[rows, self.pairs[told, 1]] = 1.0, -1.0
            rest = difference[told] - design @ level
            if np.abs(rest).max() > _SAME:
                level = level + np.linalg.lstsq(design, rest, rcond=None)[0]
        return known[np.argsort(-level[known], kind="stable")]

    def better(self, name: str, alpha: float) -> Bools | None:
        """(metrics, metrics): whether the first is better than the second, over all pairs at level `alpha`; None where
        nothing was tested."""
        tests = self.tests.get(name)
        if tests is None or not np.isfinite(tests.p_adjusted).any():
            return None
        n = int(self.pairs.max()) + 1
        found = np.zeros((n, n), dtype=bool)
        clear = tests.p_adjusted <= alpha
        for (a, b), difference in zip(self.pairs[clear], tests.estimate[clear], strict=True):
            found[(a, b) if difference > 0 else (b, a)] = True
        return found


def difference(
    statistic: Statistic, sample: Sample, first: NDArray[np.intp], second: NDArray[np.intp]
) -> tuple[Floats, Bools]:
    """(1 + B, pairs): by how much some metrics are ahead of others, where all of them rated the same outputs; and
    whether an item counts in it, (pairs, items), or (1, items) where that is the same of all pairs."""
    comparison = sample.comparison
    if statistic.per_item:
        # Undefined for one of the two, an item says nothing of which is better.
        within = statistic.per_item(comparison)
        gap = within[first] - within[second]
        return sample.item_mean(gap), np.isfinite(gap)
    values = statistic.compute(sample)
    return values[:, first] - values[:, second], _items(comparison.scored[:1], comparison.rated[:1])


@dataclass(frozen=True, kw_only=True)
class _Shared:
    """A comparison of some metrics on what all of them rated, and where each metric of the whole one is in it."""

    comparison: Comparison
    place: NDArray[np.intp]


def _on_common_ground(comparison: Comparison) -> Any:
    """The metrics that rated the same, and every two such groups together on what both rated."""
    scored, rated = comparison.scored, comparison.rated
    groups = alike(scored, rated)
    for i, one in enumerate(groups):
        for other in groups[i:]:
            both = one if other is one else np.concatenate([one, other])
            shared = comparison.only(
                both, scored=scored[one[0]] & scored[other[0]], rated=rated[one[0]] & rated[other[0]]
            )
            place = np.zeros(len(comparison.metrics), dtype=np.intp)
            place[both] = np.arange(len(both))
            yield (one, other), _Shared(comparison=shared, place=place)


def _between(groups: tuple[NDArray[np.intp], NDArray[np.intp]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The pairs of a metric of the one and a metric of the other group, each once."""
    one, other = groups
    if one is other:
        i, j = np.triu_indices(len(one), 1)
        return one[i], one[j]
    return np.repeat(one, len(other)), np.tile(other, len(one))


def counted(statistic: Statistic, comparison: Comparison) -> Bools:
    """(metrics, items): whether an item counts in a statistic of each metric."""
    if statistic.per_item:
        return np.isfinite(statistic.per_item(comparison))
    return _items(comparison.scored, comparison.rated)


def _items(scored: Bools, rated: Bools) -> Bools:
    """(metrics, items): whether anything of an item counts."""
    return np.asarray(scored.any(axis=2) | rated.any(axis=1))
