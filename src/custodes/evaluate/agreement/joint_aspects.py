"""Joint computation over aspects:

statistics of a metric with the same scores in several aspects are computed only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from custodes.evaluate.agreement.statistic import Sample, Statistic
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats.arrays import Floats


class JointAspects:
    """Aspects in which the annotators rated the same outputs, so that resamples can be shared.

    The first request for a statistic computes it for all these aspects, for metrics with equal scores in all of them.
    """

    def __init__(self, first: RaterComparison) -> None:
        self._aspects, self._found, self._lock = [first], dict[str, Floats](), Lock()

    def takes(self, comparison: RaterComparison) -> bool:
        """Add an aspect if it has the same outputs and clusters; return whether it was added."""
        matches = _are_alike(self._aspects[0], comparison)
        self._aspects += [comparison] * matches
        return matches

    def compute(self, statistic: Statistic, sample: Sample) -> Floats:
        """(1 + B, metrics): a statistic of one of these aspects; all their samples have the same resamples and
        flips."""
        if statistic.of_people is None or not self._same.size:
            return statistic.compute(sample)
        comparison = sample.comparison
        aspect = next(k for k, other in enumerate(self._aspects) if other is comparison)
        same = self._same[aspect]
        with self._lock:
            if statistic.name not in self._found:
                people = np.stack([other.human for other in self._aspects])
                self._found[statistic.name] = statistic.of_people(sample, people, comparison.metric_scores[same])
        values = np.empty((len(sample.times), len(comparison.metrics)))
        values[:, same] = self._found[statistic.name][aspect]
        rest = np.setdiff1d(np.arange(len(comparison.metrics)), same)
        if len(rest):
            values[:, rest] = statistic.of_people(sample, comparison.human, comparison.metric_scores[rest])
        return values

    @cached_property
    def _same(self) -> NDArray[np.intp]:
        """(aspects, k): positions of the metrics that share outputs with annotators and have equal scores in all
        aspects."""
        first, *others = self._aspects
        places = [{name: m for m, name in enumerate(comparison.metrics)} for comparison in self._aspects]
        rated = np.isfinite(first.scores.human)
        same = [
            [place[name] for place in places]
            for name, scores in zip(first.metrics, first.scores.metrics, strict=True)
            if others and (rated & np.isfinite(scores)).any() and all(name in place for place in places)
            if all(
                np.array_equal(scores, other.scores.metrics[place[name]], equal_nan=True)
                for other, place in zip(others, places[1:], strict=True)
            )
        ]
        return np.array(same, dtype=np.intp).reshape(-1, len(places)).T


def joint_aspects(comparisons: Sequence[RaterComparison]) -> list[JointAspects]:
    """For each aspect, the group of aspects computed jointly with it."""
    groups: list[JointAspects] = []
    result = []
    for comparison in comparisons:
        group = next((candidate for candidate in groups if candidate.takes(comparison)), None)
        if group is None:
            groups.append(group := JointAspects(comparison))
        result.append(group)
    return result


def _are_alike(one: RaterComparison, other: RaterComparison) -> bool:
    return (
        (one.items, one.systems) == (other.items, other.systems)
        and np.array_equal(one.design.units, other.design.units)
        and np.array_equal(one.scores.items, other.scores.items)
        and np.array_equal(np.isfinite(one.scores.human), np.isfinite(other.scores.human))
    )
