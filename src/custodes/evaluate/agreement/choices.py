"""What people and metrics chose, from rows: where most pairs were not compared on most items, and nobody gave scores.

The numbers of `stats.agreement.accuracy`, whose arrays of all pairs x items would not fit, from what both chose alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.data.rows import SparsePreferences
from custodes.evaluate.comparison import Comparison
from custodes.memory import check_memory, of_resamples
from custodes.stats import ABSENT
from custodes.stats.agreement import accuracy
from custodes.stats.agreement.correlation import weighted_item_mean
from custodes.stats.arrays import Bools, Floats, Ints, Signs, chunks
from custodes.stats.ratios import ratio
from custodes.stats.resampling.kinds import codes_of, kinds_of, redrawn


def are_choices(comparison: Comparison) -> bool:
    """Whether nothing but choices can be compared, and these are rows."""
    if not isinstance(comparison.preferences, SparsePreferences):
        return False
    scores = comparison.scores
    outputs = (np.isfinite(scores.human) & np.isfinite(scores.metrics)).any()
    systems = np.isfinite(comparison.human_system).any() or np.isfinite(comparison.metric_system).any()
    return not outputs and not systems


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Clusters of which the same is known are drawn together: `place` (clusters,) is the place of its kind for the
    first cluster of each, -1 for the others; `number` (kinds,) how many there are."""

    place: Ints
    number: Ints

    @classmethod
    def of(cls, comparison: Comparison) -> Heads:
        """The kinds of clusters of a comparison, by what was chosen of which pair."""
        units, n_units = comparison.design.units, comparison.design.n_units
        rows = comparison.preferences.rows(*range(1 + len(comparison.metrics)))
        kinds = kinds_of(codes_of(rows.pair, rows.signs), units[rows.item], n_units=n_units)
        place = np.full(n_units, -1)
        place[units[rows.item][kinds.rows]] = kinds.kind
        return cls(place=place, number=kinds.number)

    def drawn(self, resamples: int, rng: np.random.Generator) -> NDArray[np.uint32]:
        """(1 + B, kinds): how often each is there, the data first."""
        check_memory("resamples", resamples, of_resamples(resamples, len(self.number) / 2))
        n_drawn = resamples if self.number.sum() > 1 else 0
        times = np.empty((1 + n_drawn, len(self.number)), dtype=np.uint32)
        for block, own in redrawn(self.number, n_drawn, rng, size=len(self.number)):
            times[block] = own.T
        return times


class Choices:
    """How alike people and metrics choose, in every resample `times` (1 + B, clusters), from all pairs x items."""

    def __init__(self, comparison: Comparison, times: NDArray[Any]) -> None:
        self._comparison, self._times = comparison, times

    def _by(self, statistic: Callable[..., Any]) -> Any:
        own = self._comparison
        options = {"units": own.design.units, "weights": self._times, "item_weights": own.design.item_weights}
        return statistic(own.human_signs, own.metric_signs, **options)

    def n(self, metric: int) -> int:
        """On how many comparisons people and a metric both chose."""
        return int(self._comparison.rated[metric].sum())

    @property
    def pairs(self) -> Bools:
        """(metrics, pairs): of which people and metric both chose."""
        return np.asarray(self._comparison.rated.any(axis=2))

    @property
    def sample_accuracy(self) -> Floats:
        """(1 + B, metrics): the share of equal choices."""
        return np.asarray(self._by(accuracy.sample_accuracy))

    @property
    def system_accuracy(self) -> Floats:
        """(1 + B, metrics): the share of pairs whose margins have the same sign."""
        return np.asarray(self._by(accuracy.system_accuracy))

    @property
    def net_wins(self) -> tuple[Floats, Floats]:
        """(1 + B, metrics, systems) each: wins minus losses, per comparison, by people and by each metric."""
        people, metrics = self._by(accuracy.net_wins)
        return people, metrics

    @property
    def tied(self) -> tuple[Floats, Floats]:
        """(1 + B, metrics) each: the share of ties by people and by each metric."""
        own = self._comparison
        rated = own.rated
        tied = (rated & (own.human_signs == 0)), (rated & (own.metric_signs == 0))
        per_item = np.stack([np.where(rated.any(axis=1), ties.sum(axis=1), np.nan) for ties in (*tied, rated)])
        means = weighted_item_mean(
            per_item, units=own.design.units, weights=self._times, item_weights=own.design.item_weights
        )
        people, metric, n = np.moveaxis(means, 1, 0)
        return ratio(people, n), ratio(metric, n)


class RowChoices(Choices):
    """The same from rows; `column` (clusters,) is where each cluster stands in `times`, -1 where another stands for
    it."""

    def __init__(self, comparison: Comparison, times: NDArray[Any], column: Ints) -> None:
        super().__init__(comparison, times)
        self._column = column

    @cached_property
    def _made(self) -> dict[str, Floats]:
        each = [self._of_metric(m) for m in range(len(self._comparison.metrics))]
        return {name: np.stack([own[name] for own in each], axis=1) for name in each[0]}

    def n(self, metric: int) -> int:
        """On how many comparisons people and a metric both chose."""
        return len(chosen(self._comparison, metric)[0])

    @property
    def pairs(self) -> Bools:
        """(metrics, pairs): of which people and metric both chose."""
        found = np.zeros((len(self._comparison.metrics), len(self._comparison.preferences.system_a)), dtype=bool)
        for metric, own in enumerate(found):
            own[chosen(self._comparison, metric)[0]] = True
        return found

    @property
    def sample_accuracy(self) -> Floats:
        """(1 + B, metrics): the share of equal choices."""
        return self._made["alike"]

    @property
    def system_accuracy(self) -> Floats:
        """(1 + B, metrics): the share of pairs whose margins have the same sign."""
        return self._made["margins_alike"]

    @property
    def net_wins(self) -> tuple[Floats, Floats]:
        """(1 + B, metrics, systems) each: wins minus losses, per comparison, by people and by each metric."""
        return self._made["people_net"], self._made["metric_net"]

    @property
    def tied(self) -> tuple[Floats, Floats]:
        """(1 + B, metrics) each: the share of ties by people and by each metric."""
        return self._made["people_tied"], self._made["metric_tied"]

    def _of_metric(self, metric: int) -> dict[str, Floats]:
        """Each statistic of a metric, (1 + B,), or (1 + B, systems)."""
        from scipy.sparse import csr_array

        own = self._comparison
        pair, item, human, said = chosen(own, metric)
        column = self._column[own.design.units[item]]
        here = column >= 0
        pair, item, human, said, column = pair[here], item[here], human[here], said[here], column[here]
        n_pairs, n_systems, n_times = len(own.preferences.system_a), len(own.systems), len(self._times)
        weight = np.ones(len(pair)) if own.design.item_weights is None else own.design.item_weights[item]

        def sums(values: NDArray[Any]) -> Callable[[Floats], Floats]:
            matrix = csr_array((weight * values, (pair, column)), shape=(n_pairs, self._times.shape[1]))
            return lambda times: np.asarray(matrix @ times)

        kinds = {"n": human == human, "alike": human == said, "people_tied": human == 0, "metric_tied": said == 0}
        counted = {name: sums(values) for name, values in kinds.items()}
        margins = [sums(human), sums(said)]
        first, second = own.design.pairs.T
        side = csr_array(
            (np.repeat([1.0, -1.0], n_pairs), (np.concatenate([first, second]), np.tile(np.arange(n_pairs), 2))),
            shape=(n_systems, n_pairs),
        )
        made = {name: np.empty(n_times) for name in (*list(kinds)[1:], "margins_alike")}
        made |= {name: np.empty((n_times, n_systems)) for name in ("people_net", "metric_net")}
        for block in chunks(n_times, 4 * (n_pairs + self._times.shape[1])):
            times = np.ascontiguousarray(self._times[block].T, dtype=np.float64)
            number = {name: of(times) for name, of in counted.items()}
            n = number["n"]
            for name in list(kinds)[1:]:
                made[name][block] = ratio(number[name].sum(axis=0), n.sum(axis=0))
            people, metrics = (of(times) for of in margins)
            there = n > 0
            agree = ((np.sign(people) == np.sign(metrics)) & there).sum(axis=0)
            made["margins_alike"][block] = ratio(agree, there.sum(axis=0))
            fought = abs(side) @ n
            for name, margin in (("people_net", people), ("metric_net", metrics)):
                made[name][block] = ratio(side @ margin, fought).T
        return made


def chosen(comparison: Comparison, metric: int) -> tuple[Ints, Ints, Signs, Signs]:
    """Pair, item, people's sign and a metric's where both have one: (n,) each."""
    rows = comparison.preferences.rows(0, 1 + metric)
    both = (rows.signs != ABSENT).all(axis=0)
    human, own = rows.signs[:, both]
    return rows.pair[both], rows.item[both], human, own


def chosen_items(comparison: Comparison) -> Bools:
    """(metrics, items): whether people and the metric both chose on an item."""
    found = np.zeros((len(comparison.metrics), len(comparison.items)), dtype=bool)
    for metric, own in enumerate(found):
        own[chosen(comparison, metric)[1]] = True
    return found


def chosen_keys(comparison: Comparison) -> list[Ints]:
    """Of each metric the keys of `SparsePreferences` on which people and it both chose, ascending."""
    each = (chosen(comparison, metric)[:2] for metric in range(len(comparison.metrics)))
    return [pair * len(comparison.items) + item for pair, item in each]


def alike_keys(keys: Sequence[Ints]) -> list[NDArray[np.intp]]:
    """Metrics that chose on the same, together."""
    groups: dict[bytes, list[int]] = {}
    for metric, own in enumerate(keys):
        groups.setdefault(own.tobytes(), []).append(metric)
    return [np.array(metrics) for metrics in groups.values()]


def only_keys(comparison: Comparison, metrics: NDArray[np.intp], keys: Sequence[Ints]) -> Comparison:
    """Some metrics on what is among all of these keys."""
    known, own = keys[0], comparison.preferences
    assert isinstance(own, SparsePreferences)
    for other in keys[1:]:
        known = np.intersect1d(known, other, assume_unique=True)
    raters = [0, *(1 + metrics).tolist()]
    kept = [np.isin(own.keys[r], known, assume_unique=True) for r in raters]
    names = tuple(comparison.metrics[m] for m in metrics.tolist())
    return replace(
        comparison,
        metrics=names,
        scores=replace(comparison.scores, metrics=comparison.scores.metrics[metrics]),
        metric_system=comparison.metric_system[metrics],
        preferences=replace(
            own,
            keys=tuple(own.keys[r][there] for r, there in zip(raters, kept, strict=True)),
            said=tuple(own.said[r][there] for r, there in zip(raters, kept, strict=True)),
            raters=(own.raters[0], *names),
        ),
        epsilon=comparison.epsilon[metrics],
    )
