"""Paired tests of all pairs of metrics, tests against the chance level, and the ranking of the metrics.

The test of a pair uses the outputs rated by the annotators and both metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.evaluate.agreement.choices import are_choices, equal_grounds, grounds_of
from custodes.evaluate.agreement.statistic import Sample, Statistic
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats import bootstrap, multiple_testing
from custodes.stats.arrays import Bools, Floats, Ints, chunks, equal_positions, round_for_sorting
from custodes.stats.graphs import letters

MOST_BLOCKS = 400
"""Maximum number of jackknife blocks. With at most this many clusters, each cluster is a block."""

ORDERING, CHOOSING = "kendall_item", "sample_accuracy"
"""Statistics that rank metrics. `CHOOSING` is used if `ORDERING` is undefined, or if there are only two systems."""

_SAME = 1e-9  # rounding error of statistics between -1 and 1


@dataclass(frozen=True, kw_only=True)
class Tester:
    """Settings that all tests of one aspect share.

    `sample` holds the bootstrap resamples. `left_out` (1 + blocks, blocks) are jackknife weights: row 0 is the data,
    and each further row leaves out one block. `block` is the block of each cluster, `flips` are sign flips of the
    blocks, and `alpha` is the family-wise level.
    """

    sample: Sample
    left_out: Floats
    block: NDArray[np.intp]
    flips: multiple_testing.Flips
    confidence: float
    alpha: float

    @classmethod
    def from_sample(cls, sample: Sample, *, n: int, confidence: float, alpha: float) -> Tester:
        """Return the settings of tests with at least n sign flips. With a single cluster, there are no sign flips."""
        n_units = sample.comparison.design.n_units
        n_blocks, block = bootstrap.blocks_of_units(n_units, most=MOST_BLOCKS)
        return cls(
            sample=sample,
            left_out=bootstrap.with_point(1 - np.eye(n_blocks)),
            block=block,
            flips=multiple_testing.Flips.from_block_count(n_blocks, n),
            confidence=confidence,
            alpha=alpha,
        )

    @cached_property
    def bootstrap_sample(self) -> Sample:
        """The sample with bootstrap weights from a fixed seed. A sample that has `columns` is returned unchanged."""
        design, n = self.sample.comparison.design, len(self.sample.times) - 1
        if self.sample.columns is not None:
            return self.sample
        return replace(self.sample, times=design.draw_byte_weights(n, np.random.default_rng(multiple_testing.STREAM)))

    @cached_property
    def jackknife_sample(self) -> Sample:
        """The sample with jackknife weights, which leave out one block of clusters at a time."""
        return self.leave_blocks_out(self.sample.comparison)

    def leave_blocks_out(self, comparison: RaterComparison) -> Sample:
        """Return the sample of a comparison of the same items, with jackknife weights and with blocks as clusters."""
        design, n_blocks = comparison.design, self.left_out.shape[1]
        if n_blocks < design.n_units:
            names = tuple(map(str, range(n_blocks)))
            comparison = replace(comparison, design=replace(design, units=self.block[design.units], clusters=names))
        return replace(self.sample, comparison=comparison, times=self.left_out, columns=None)

    def has_marked_items(self, is_marked: Bools) -> Bools:
        """(blocks, k): whether a block contains an item that a row of `is_marked` (k, items) marks."""
        block_has_item = np.zeros((len(self.left_out) - 1, len(is_marked)), dtype=bool)
        row_index, item_index = np.nonzero(is_marked)
        block_has_item[self.block[self.sample.comparison.design.units[item_index]], row_index] = True
        return block_has_item

    def sign_flip_tests(
        self, jackknife_values: Floats, block_has_data: Bools, pairs: tuple[Ints, Ints] | None = None
    ) -> multiple_testing.Family:
        """Return sign-flip tests of a family of k statistics with `jackknife_values` (1 + blocks, k).

        `block_has_data` (blocks, k) tells whether a block has data for a statistic.
        If `pairs` is given, the tests are of differences between the statistics, see `flip_tests`."""
        return multiple_testing.flip_tests(
            jackknife_values[0],
            jackknife_values[1:],
            present=block_has_data,
            flips=self.flips,
            confidence=self.confidence,
            alpha=self.alpha,
            pairs=pairs,
        )


def chance_tests(tester: Tester, name: str) -> multiple_testing.Family:
    """Return the tests of every metric against the chance level of a statistic."""
    statistic = STATISTICS[name]
    above_chance = statistic.compute(tester.jackknife_sample) - statistic.chance_of(tester.jackknife_sample)
    return tester.sign_flip_tests(above_chance, tester.has_marked_items(used_item_mask(statistic, tester.sample)))


@dataclass(frozen=True, kw_only=True)
class Differences:
    """Differences between two metrics in each statistic, for all pairs of metrics.

    `pairs` (pairs, 2) are the positions of the two metrics. `n` (pairs,) are the numbers of comparisons rated by the
    annotators and both metrics. `tests` has a family of tests for each statistic. A difference is the value of the
    first metric minus the value of the second metric.
    """

    pairs: NDArray[np.intp]
    n: NDArray[np.int64]
    tests: Mapping[str, multiple_testing.Family]

    @classmethod
    def from_tester(cls, tester: Tester, names: Sequence[str]) -> Differences:
        """Return the differences in the statistics `names`. A difference is undefined if the statistic is undefined for
        a metric of the pair."""
        comparison = tester.sample.comparison
        pairs = np.stack(np.triu_indices(len(comparison.metrics), 1), axis=1)
        n = np.zeros(len(pairs), dtype=np.int64)
        pair_groups = list(_on_common_ground(tester, pairs))
        for pair_group in pair_groups:
            n[pair_group.at] = len(pair_group.drawn.comparison.shared(0).pair)
        return cls(pairs=pairs, n=n, tests={name: _family(tester, name, pair_groups, len(pairs)) for name in names})

    def order(self, name: str, values: Floats) -> NDArray[np.intp]:
        """Return the positions of the metrics from best to worst.

        If all metrics rated the same outputs, the metrics are sorted by `values` (metrics,). Otherwise they are sorted
        by scores that are fitted to the differences of all pairs by least squares. The fit removes the advantage of
        metrics that rated easier outputs. Metrics without a value are left out.
        """
        defined_metrics = np.flatnonzero(np.isfinite(values))
        pair_differences = self.tests[name].estimate if name in self.tests else np.full(len(self.pairs), np.nan)
        is_tested = np.isfinite(pair_differences)
        fitted_values = np.where(np.isfinite(values), values, 0.0)
        if is_tested.any():
            first, second = self.pairs[is_tested].T
            residuals = pair_differences[is_tested] - (fitted_values[first] - fitted_values[second])
            if np.abs(residuals).max() > _SAME:
                laplacian, residual_sums = np.zeros((len(values), len(values))), np.zeros(len(values))
                laplacian[first, second] = laplacian[second, first] = -1.0  # normal equations: a Laplacian
                np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
                np.add.at(residual_sums, first, residuals)
                np.subtract.at(residual_sums, second, residuals)
                fitted_values = fitted_values + np.linalg.lstsq(laplacian, residual_sums, rcond=1e-10)[0]
        return defined_metrics[np.argsort(-round_for_sorting(fitted_values[defined_metrics]), kind="stable")]

    def better(self, name: str, alpha: float) -> Bools | None:
        """(metrics, metrics): whether the metric of the row is significantly better than the metric of the column.

        All pairs are tested jointly at level `alpha`. The result is None if there are no tests.
        """
        tests = self.tests.get(name)
        if tests is None or not np.isfinite(tests.p_adjusted).any():
            return None
        n_metrics = int(self.pairs.max()) + 1
        is_better = np.zeros((n_metrics, n_metrics), dtype=bool)
        is_significant = tests.significant(alpha)
        winner_and_loser = np.where(
            tests.estimate[is_significant, np.newaxis] > 0, self.pairs[is_significant], self.pairs[is_significant, ::-1]
        )
        is_better[winner_and_loser[:, 0], winner_and_loser[:, 1]] = True
        return is_better


def difference(
    statistic: Statistic, sample: Sample, first: NDArray[np.intp], second: NDArray[np.intp]
) -> tuple[Floats, Bools]:
    """Return the differences (1 + B, pairs) of metrics that rated the same outputs, and a mask of the items used.

    The mask is (pairs, items), or (1, items) if all pairs use the same items.
    """
    comparison = sample.comparison
    if statistic.per_item:
        # An item counts only where the statistic is defined for both metrics.
        item_values = sample.per_item(statistic.name, statistic.per_item)
        item_differences = item_values[first] - item_values[second]
        return sample.item_mean(item_differences), np.isfinite(item_differences)
    values = statistic.compute(sample)
    return values[:, first] - values[:, second], _rated_item_mask(comparison, 1)


@dataclass(frozen=True, kw_only=True)
class _Ground:
    """Pairs of metrics that are compared on the same set of outputs.

    `at` are the positions of these pairs among all pairs, in ascending order. `first` and `second` are the positions of
    the two metrics in the comparison. `drawn` are bootstrap resamples and `without` jackknife resamples of the
    comparison.
    """

    at: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    drawn: Sample
    without: Sample


def _family(tester: Tester, name: str, pair_groups: Sequence[_Ground], n_pairs: int) -> multiple_testing.Family:
    """Return the tests of all pairs by one statistic. Resamples are computed in parts, because the resamples of all
    pairs may exceed the memory."""
    statistic = STATISTICS[name]
    if statistic.smooth and not statistic.per_item and len(pair_groups) == 1:
        (pair_group,) = pair_groups
        block_has_items = tester.has_marked_items(_rated_item_mask(pair_group.drawn.comparison, 1))
        return tester.sign_flip_tests(
            statistic.compute(pair_group.without), block_has_items, (pair_group.first, pair_group.second)
        )
    if statistic.smooth:
        jackknife_values = np.full((len(tester.left_out), n_pairs), np.nan)
        block_has_items = np.zeros((len(tester.left_out) - 1, n_pairs), dtype=bool)
        for pair_group in pair_groups:
            n_group = len(pair_group.at)
            for pairs in chunks(n_group, 4 * len(tester.block)) if statistic.per_item else [slice(n_group)]:
                jackknife_values[:, pair_group.at[pairs]], is_used_item = difference(
                    statistic, pair_group.without, pair_group.first[pairs], pair_group.second[pairs]
                )
                block_has_items[:, pair_group.at[pairs]] = tester.has_marked_items(is_used_item)
        return tester.sign_flip_tests(jackknife_values, block_has_items)
    values_by_group = [np.ascontiguousarray(statistic.compute(pair_group.drawn).T) for pair_group in pair_groups]
    n_draws = len(tester.sample.times)

    def draw_differences(pair_indices: Ints) -> Floats:
        bootstrap_differences = np.full((len(pair_indices), n_draws), np.nan)
        for pair_group, values in zip(pair_groups, values_by_group, strict=True):
            insertion_positions = np.minimum(np.searchsorted(pair_group.at, pair_indices), len(pair_group.at) - 1)
            found_rows = np.flatnonzero(pair_group.at[insertion_positions] == pair_indices)
            positions_in_group = insertion_positions[found_rows]
            bootstrap_differences[found_rows] = (
                values[pair_group.first[positions_in_group]] - values[pair_group.second[positions_in_group]]
            )
        return bootstrap_differences

    return multiple_testing.bootstrap_tests(
        draw_differences,
        (n_pairs, n_draws),
        n_units=tester.sample.comparison.design.n_units,
        confidence=tester.confidence,
        alpha=tester.alpha,
    )


def _on_common_ground(tester: Tester, pairs: Ints) -> Iterator[_Ground]:
    """Yield the pairs of metrics (pairs, 2) in groups that share the same outputs with the annotators."""
    comparison = tester.sample.comparison
    shared_sets = grounds_of(comparison)
    group_of_metric = np.zeros(len(shared_sets), dtype=np.int64)
    for group, metrics in enumerate(equal_grounds(shared_sets)):
        group_of_metric[metrics] = group
    groups_of_pair = np.sort(group_of_metric[pairs], axis=1)
    for at in equal_positions(map(tuple, groups_of_pair.tolist())):
        first, second = pairs[at].T
        if not group_of_metric.any():
            yield _Ground(
                at=at, first=first, second=second, drawn=tester.bootstrap_sample, without=tester.jackknife_sample
            )
            continue
        metrics = np.unique(pairs[at])
        shared_set = shared_sets[first[0]].shared_with(shared_sets[second[0]])
        shared_comparison = comparison.only(metrics, **shared_set._asdict())
        yield _Ground(
            at=at,
            first=np.searchsorted(metrics, first),
            second=np.searchsorted(metrics, second),
            drawn=replace(tester.bootstrap_sample, comparison=shared_comparison),
            without=tester.leave_blocks_out(shared_comparison),
        )


def used_item_mask(statistic: Statistic, sample: Sample) -> Bools:
    """(metrics, items): whether the statistic of each metric depends on the item."""
    if statistic.per_item:
        return np.isfinite(sample.per_item(statistic.name, statistic.per_item))
    return _rated_item_mask(sample.comparison)


def _rated_item_mask(comparison: RaterComparison, n_metrics: int | None = None) -> Bools:
    """(metrics, items): whether annotators and metric both rated an output or a comparison of the item.

    If `n_metrics` is given, the mask is only for this number of metrics.
    """
    n = len(comparison.metrics) if n_metrics is None else n_metrics
    is_rated = np.zeros((n, len(comparison.items)), dtype=bool)
    if not are_choices(comparison):
        is_rated = np.asarray(comparison.has_both_scores[:n].any(axis=2))
    for metric, is_rated_item in enumerate(is_rated):
        is_rated_item[comparison.shared(metric).item] = True
    return is_rated


def ranking_statistic(values_of_statistic: dict[str, Floats], n_systems: int) -> str:
    """Return the name of the statistic that ranks metrics; row 0 of each value has the estimates.

    With two systems, each item has one pair, and Kendall's tau within an item is only a sign. Sample accuracy is then
    used instead.
    """
    has_ordering = np.isfinite(values_of_statistic[ORDERING][0][np.isfinite(values_of_statistic[CHOOSING][0])])
    return ORDERING if n_systems > 2 and len(has_ordering) and has_ordering.all() else CHOOSING


def standing_columns(
    tester: Tester, values_of_statistic: dict[str, Floats], differences: Differences, *, confidence: float, alpha: float
) -> dict[str, Any]:
    """Return the columns of the table `standing`, with the best metric first."""
    comparison = tester.sample.comparison
    statistic_name = ranking_statistic(values_of_statistic, len(comparison.systems))
    value, low, high = (
        STATISTICS[statistic_name]
        .with_interval("value", tester.sample, values_of_statistic[statistic_name], confidence)
        .values()
    )
    order = differences.order(statistic_name, value)
    tests_of_chance = chance_tests(tester, statistic_name)
    is_better = differences.better(statistic_name, alpha)
    is_significant = tests_of_chance.significant(alpha)
    direction = np.select(
        [is_significant & (tests_of_chance.estimate > 0), is_significant & (tests_of_chance.estimate < 0)],
        ["above", "below"],
        "unclear",
    )
    group_letters = None if is_better is None else letters(is_better | is_better.T, order.tolist())
    is_beaten = None if is_better is None else np.asarray(is_better.any(axis=0))
    return {
        "metric": [comparison.metrics[i] for i in order],
        "statistic": statistic_name,
        "value": value[order],
        "value_low": low[order],
        "value_high": high[order],
        "chance": STATISTICS[statistic_name].chance_of(tester.jackknife_sample)[0][order],
        "p_chance": tests_of_chance.p_adjusted[order],
        "side": direction[order].tolist(),
        "group": [None if group_letters is None else group_letters[i] for i in order],
        "may_be_best": [None if is_beaten is None else not is_beaten[i] for i in order],
    }
