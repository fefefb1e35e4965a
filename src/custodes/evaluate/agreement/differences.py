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

from custodes.answers.tables import AT_THRESHOLD
from custodes.evaluate.agreement.choices import are_choices, compared_count, equal_grounds, grounds_of
from custodes.evaluate.agreement.statistic import Sample, Statistic
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats import bootstrap, multiple_testing
from custodes.stats.arrays import Bools, Floats, chunks, equal_positions, round_for_sorting, table_sums
from custodes.stats.graphs import letters

NO_INTERVAL = "no interval"
MOST_BLOCKS = 400
"""Maximum number of jackknife blocks. With at most this many clusters, each cluster is a block."""

COMPARED = tuple(name for name, statistic in STATISTICS.items() if statistic.compared)
"""Statistics by which metrics are compared by default."""
ORDERING, CHOOSING, SINGLE = "kendall_item", "sample_accuracy", "pearson_global"
"""Statistics that rank metrics. `CHOOSING` is used if `ORDERING` is undefined, or if there are only two systems, and
`SINGLE` if there is one system."""

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
    def from_sample(cls, sample: Sample, *, n_flips: int, confidence: float, alpha: float) -> Tester:
        """Return the settings of tests with at least `n_flips` sign flips. With a single cluster, there are no sign
        flips."""
        n_blocks = min(sample.comparison.design.n_units, MOST_BLOCKS)
        return cls(
            sample=sample,
            left_out=bootstrap.with_point(1 - np.eye(n_blocks)),
            block=np.arange(sample.comparison.design.n_units) % MOST_BLOCKS,
            flips=multiple_testing.Flips.from_block_count(n_blocks, n_flips),
            confidence=confidence,
            alpha=alpha,
        )

    @cached_property
    def bootstrap_sample(self) -> Sample:
        """The sample with bootstrap weights from a fixed seed. A sample that has `columns` is returned unchanged."""
        if self.sample.columns is not None:
            return self.sample
        return replace(
            self.sample,
            times=self.sample.comparison.design.draw_weights(
                len(self.sample.times) - 1, np.random.default_rng(multiple_testing.STREAM), dtype=np.uint8
            ),
        )

    @cached_property
    def jackknife_sample(self) -> Sample:
        """The sample with jackknife weights, which leave out one block of clusters at a time."""
        return self.leave_blocks_out(self.sample.comparison)

    def leave_blocks_out(self, comparison: RaterComparison) -> Sample:
        """Return the sample of a comparison with the same items, with jackknife weights and with blocks as clusters."""
        design = comparison.design
        return replace(
            self.sample,
            comparison=replace(
                comparison,
                design=replace(
                    design, units=self.block[design.units], clusters=tuple(map(str, range(self.left_out.shape[1])))
                ),
            ),
            times=self.left_out,
            columns=None,
            redraws_levels=False,
        )

    def marked_item_weights(self, is_marked: Bools) -> Floats:
        """Total weight of the marked items of a block, for each row of `is_marked` (k, items): (blocks, k)."""
        design = self.sample.comparison.design
        marked_row_indices, marked_item_indices = np.nonzero(is_marked)
        return table_sums(
            self.block[design.units[marked_item_indices]],
            marked_row_indices,
            shape=(len(self.left_out) - 1, len(is_marked)),
            weights=design.weights[marked_item_indices],
        ).astype(np.float64)

    def sign_flip_tests(self, jackknife_values: Floats, block_weights: Floats) -> multiple_testing.Family:
        """Return sign-flip tests of a family of k statistics with `jackknife_values` (1 + blocks, k).

        `block_weights` (blocks, k) are the total weights of the items of a block that a statistic uses."""
        return multiple_testing.flip_tests(
            jackknife_values[0],
            jackknife_values[1:],
            block_sizes=block_weights,
            flips=self.flips,
            confidence=self.confidence,
            alpha=self.alpha,
        )


def chance_tests(tester: Tester, statistic_name: str) -> multiple_testing.Family:
    """Return the tests of every metric against the chance level of a statistic."""
    statistic = STATISTICS[statistic_name]
    return tester.sign_flip_tests(
        statistic.compute(tester.jackknife_sample) - statistic.chance_of(tester.jackknife_sample),
        tester.marked_item_weights(used_item_mask(statistic, tester.sample)),
    )


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
    def from_tester(cls, tester: Tester, statistic_names: Sequence[str]) -> Differences:
        """Return the differences in these statistics. A difference is undefined if the statistic is undefined for a
        metric of the pair."""
        metric_pairs = np.stack(np.triu_indices(len(tester.sample.comparison.metrics), 1), axis=1)
        n_comparisons_of_pair = np.zeros(len(metric_pairs), dtype=np.int64)
        pair_groups = list(_on_common_ground(tester, metric_pairs))
        for pair_group in pair_groups:
            n_comparisons_of_pair[pair_group.pair_positions] = compared_count(pair_group.bootstrap_sample.comparison, 0)
        return cls(
            pairs=metric_pairs,
            n=n_comparisons_of_pair,
            tests={
                statistic_name: _difference_tests(tester, statistic_name, pair_groups, len(metric_pairs))
                for statistic_name in statistic_names
            },
        )

    def order(self, statistic_name: str, metric_values: Floats) -> NDArray[np.intp]:
        """Return the positions of the metrics from best to worst.

        If all metrics rated the same outputs, the metrics are sorted by `metric_values` (metrics,). Otherwise, metrics
        are sorted by scores that are fitted to the differences of all pairs by least squares. The fit removes the
        advantage of metrics that rated easier outputs. Metrics without a value are left out.
        """
        defined_metric_indices = np.flatnonzero(np.isfinite(metric_values))
        pair_differences = (
            self.tests[statistic_name].estimate if statistic_name in self.tests else np.full(len(self.pairs), np.nan)
        )
        is_tested_pair = np.isfinite(pair_differences)
        fitted_metric_values = np.where(np.isfinite(metric_values), metric_values, 0.0)
        if is_tested_pair.any():
            first_metrics, second_metrics = self.pairs[is_tested_pair].T
            residuals = pair_differences[is_tested_pair] - (
                fitted_metric_values[first_metrics] - fitted_metric_values[second_metrics]
            )
            if np.abs(residuals).max() > _SAME:
                # Normal equations, because a matrix (pairs, metrics) would be large with hundreds of metrics.
                adjacency, residual_matrix = np.zeros((2, len(metric_values), len(metric_values)))
                adjacency[first_metrics, second_metrics] = adjacency[second_metrics, first_metrics] = 1.0
                residual_matrix[first_metrics, second_metrics] = residuals
                laplacian = np.diag(adjacency.sum(axis=0)) - adjacency
                residual_sums = (residual_matrix - residual_matrix.T).sum(axis=1)
                fitted_metric_values = fitted_metric_values + np.linalg.lstsq(laplacian, residual_sums, rcond=1e-10)[0]
        return defined_metric_indices[
            np.argsort(-round_for_sorting(fitted_metric_values[defined_metric_indices]), kind="stable")
        ]

    def better(self, statistic_name: str, alpha: float) -> Bools | None:
        """Whether the metric of the row is significantly better than the metric of the column, (metrics, metrics).

        All pairs are tested jointly at level `alpha`. The result is None if there are no tests.
        """
        test_family = self.tests.get(statistic_name)
        if test_family is None or not np.isfinite(test_family.p_adjusted).any():
            return None
        n_metrics = int(self.pairs.max()) + 1
        is_row_metric_better = np.zeros((n_metrics, n_metrics), dtype=bool)
        first_metrics, second_metrics = self.pairs.T
        is_significant_pair, is_first_better = test_family.significant(alpha), test_family.estimate > 0
        is_row_metric_better[first_metrics, second_metrics] = is_significant_pair & is_first_better
        is_row_metric_better[second_metrics, first_metrics] = is_significant_pair & ~is_first_better
        return is_row_metric_better


def difference_columns(metrics: Sequence[str], differences: Differences) -> dict[str, Any]:
    """Return the columns of the table `comparisons`."""
    first_metric_names, second_metric_names = np.array(metrics)[differences.pairs].T
    columns_of_statistics = [
        {
            "metric_a": first_metric_names,
            "metric_b": second_metric_names,
            "statistic": np.full(len(first_metric_names), statistic_name),
            "n": differences.n,
            "difference": test_family.estimate,
            # A difference of two values cannot exceed the range of the statistic.
            "difference_low": np.maximum(test_family.low, -np.ptp(STATISTICS[statistic_name].bounds)),
            "difference_high": np.minimum(test_family.high, np.ptp(STATISTICS[statistic_name].bounds)),
            "p_adjusted": test_family.p_adjusted,
            "note": np.select(
                [test_family.at_threshold, np.isfinite(test_family.p_value) & np.isnan(test_family.low)],
                [AT_THRESHOLD, NO_INTERVAL],
                default="",
            ),
        }
        for statistic_name, test_family in differences.tests.items()
    ]
    return (
        {
            column_name: np.concatenate(
                [columns_of_statistic[column_name] for columns_of_statistic in columns_of_statistics]
            )
            for column_name in columns_of_statistics[0]
        }
        if columns_of_statistics
        else {}
    )


def difference(
    statistic: Statistic, sample: Sample, first_metrics: NDArray[np.intp], second_metrics: NDArray[np.intp]
) -> tuple[Floats, Bools]:
    """Return the differences (1 + B, pairs) of metrics that rated the same outputs, and a mask of the items used.

    The mask is (pairs, items), or (1, items) if all pairs use the same items.
    """
    if statistic.per_item:
        # An item counts only where the statistic is defined for both metrics.
        item_values = sample.per_item(statistic.per_item)
        item_differences = item_values[first_metrics] - item_values[second_metrics]
        return sample.item_mean(item_differences), np.isfinite(item_differences)
    draws = statistic.compute(sample)
    return draws[:, first_metrics] - draws[:, second_metrics], _rated_item_mask(sample.comparison)[:1]


@dataclass(frozen=True, kw_only=True)
class _PairGroup:
    """Pairs of metrics that are compared on the same set of outputs.

    `pair_positions` are the positions of these pairs among all pairs, in ascending order. `first_metrics` and
    `second_metrics` are the positions of the two metrics in the comparison. `bootstrap_sample` and `jackknife_sample`
    are the bootstrap and the jackknife resamples of the comparison.
    """

    pair_positions: NDArray[np.intp]
    first_metrics: NDArray[np.intp]
    second_metrics: NDArray[np.intp]
    bootstrap_sample: Sample
    jackknife_sample: Sample


def _difference_tests(
    tester: Tester, statistic_name: str, pair_groups: Sequence[_PairGroup], n_pairs: int
) -> multiple_testing.Family:
    """Return the tests of all pairs by one statistic. Resamples are computed in parts, because the resamples of all
    pairs may exceed the memory."""
    statistic = STATISTICS[statistic_name]
    # Jackknife samples lack the error of annotators' severity, so statistics over systems use bootstrap resamples.
    if statistic.smooth and (statistic.population is None or tester.sample.comparison.scores.levels is None):
        jackknife_values = np.full((len(tester.left_out), n_pairs), np.nan)
        block_weights = np.zeros((len(tester.left_out) - 1, n_pairs))
        for pair_group in pair_groups:
            for pair_slice in chunks(
                len(pair_group.pair_positions), 4 * len(tester.block) if statistic.per_item else 0
            ):
                jackknife_values[:, pair_group.pair_positions[pair_slice]], is_used_item = difference(
                    statistic,
                    pair_group.jackknife_sample,
                    pair_group.first_metrics[pair_slice],
                    pair_group.second_metrics[pair_slice],
                )
                block_weights[:, pair_group.pair_positions[pair_slice]] = tester.marked_item_weights(is_used_item)
        return tester.sign_flip_tests(jackknife_values, block_weights)
    statistic_draws_of_groups = [statistic.compute(pair_group.bootstrap_sample).T for pair_group in pair_groups]
    # Rows of the two metrics in the joined values.
    first_metric_row_of_pair, second_metric_row_of_pair = np.empty((2, n_pairs), dtype=np.intp)
    for pair_group, start_row in zip(
        pair_groups, np.cumsum([0, *map(len, statistic_draws_of_groups)])[:-1], strict=True
    ):
        first_metric_row_of_pair[pair_group.pair_positions] = start_row + pair_group.first_metrics
        second_metric_row_of_pair[pair_group.pair_positions] = start_row + pair_group.second_metrics
    statistic_draws = np.concatenate([np.empty((0, len(tester.sample.times))), *statistic_draws_of_groups])
    design = tester.sample.comparison.design
    return multiple_testing.bootstrap_tests(
        lambda pair_indices: (
            statistic_draws[first_metric_row_of_pair[pair_indices]]
            - statistic_draws[second_metric_row_of_pair[pair_indices]]
        ),
        (n_pairs, statistic_draws.shape[1]),
        n_units=design.n_units,
        n_effective_units=design.n_effective_units,
        confidence=tester.confidence,
        alpha=tester.alpha,
    )


def _on_common_ground(tester: Tester, metric_pairs: NDArray[np.intp]) -> Iterator[_PairGroup]:
    """Yield the pairs of metrics (pairs, 2) in groups that share the same outputs with the annotators."""
    comparison = tester.sample.comparison
    grounds_of_metrics = grounds_of(comparison)
    group_of_metric = np.zeros(len(grounds_of_metrics), dtype=np.int64)
    for group_index, metrics_of_group in enumerate(equal_grounds(grounds_of_metrics)):
        group_of_metric[metrics_of_group] = group_index
    for pair_positions in equal_positions(map(tuple, np.sort(group_of_metric[metric_pairs], axis=1).tolist())):
        first_metrics, second_metrics = metric_pairs[pair_positions].T
        metric_positions = np.unique(metric_pairs[pair_positions])
        shared_comparison = comparison.only(
            metric_positions,
            **grounds_of_metrics[first_metrics[0]].shared_with(grounds_of_metrics[second_metrics[0]])._asdict(),
        )
        yield _PairGroup(
            pair_positions=pair_positions,
            first_metrics=np.searchsorted(metric_positions, first_metrics),
            second_metrics=np.searchsorted(metric_positions, second_metrics),
            bootstrap_sample=replace(tester.bootstrap_sample, comparison=shared_comparison),
            jackknife_sample=tester.leave_blocks_out(shared_comparison),
        )


def used_item_mask(statistic: Statistic, sample: Sample) -> Bools:
    """Whether the statistic of each metric depends on the item, (metrics, items)."""
    if statistic.per_item:
        return np.isfinite(sample.per_item(statistic.per_item))
    return _rated_item_mask(sample.comparison)


def _rated_item_mask(comparison: RaterComparison) -> Bools:
    """Whether annotators and metric both rated an output or a comparison of the item, (metrics, items)."""
    rated_item_masks = np.zeros((len(comparison.metrics), len(comparison.items)), dtype=bool)
    if not are_choices(comparison):
        rated_item_masks = np.asarray(comparison.has_both_scores.any(axis=2))
    for metric_index, is_rated_item in enumerate(rated_item_masks):
        is_rated_item[comparison.shared(metric_index).item] = True
    return rated_item_masks


def ranking_statistic(
    values_of_statistic: dict[str, Floats], n_systems: int, statistic_names: Sequence[str] = ()
) -> str:
    """Return the name of the statistic that ranks metrics; row 0 of `values_of_statistic[name]` has the estimates.

    The first of `statistic_names` (names chosen by the user) that is defined for a metric is used, or else Kendall's
    tau. With two systems, each item has one pair, and Kendall's tau within an item is only a sign. Sample accuracy is
    then used instead. With one system, Pearson's correlation over outputs is used.
    """
    if n_systems == 1 and not statistic_names:
        return SINGLE
    for statistic_name in statistic_names:
        if np.isfinite(values_of_statistic[statistic_name][0]).any():
            return statistic_name
    is_choosing_defined, is_ordering_defined = (
        np.isfinite(values_of_statistic[statistic_name][0]) for statistic_name in (CHOOSING, ORDERING)
    )
    return (
        ORDERING
        if n_systems > 2 and is_choosing_defined.any() and is_ordering_defined[is_choosing_defined].all()
        else CHOOSING
    )


def standing_columns(
    tester: Tester, values_of_statistic: dict[str, Floats], differences: Differences
) -> dict[str, Any]:
    """Return the columns of the table `standing`, with the best metric first."""
    comparison, alpha = tester.sample.comparison, tester.alpha
    ranking_statistic_name = ranking_statistic(
        values_of_statistic,
        len(comparison.systems),
        () if tuple(differences.tests) == COMPARED else tuple(differences.tests),
    )
    statistic = STATISTICS[ranking_statistic_name]
    estimates, low, high = statistic.with_interval(
        "value", tester.sample, values_of_statistic[ranking_statistic_name], tester.confidence
    ).values()
    metric_order = differences.order(ranking_statistic_name, estimates)
    tests_of_chance = chance_tests(tester, ranking_statistic_name)
    is_row_metric_better = differences.better(ranking_statistic_name, alpha)
    # Systems are not resampled, so there is no test of a statistic over systems against its chance level.
    has_chance_test = statistic.smooth and statistic.population is None
    differs_from_chance = tests_of_chance.significant(alpha) & has_chance_test
    side_labels = np.select(
        [differs_from_chance & (tests_of_chance.estimate > 0), differs_from_chance & (tests_of_chance.estimate < 0)],
        ["above", "below"],
        "unclear",
    )
    significance_letters: list[str | None] = [None] * len(metric_order)
    may_be_best: list[bool | None] = [None] * len(metric_order)
    if is_row_metric_better is not None:
        letters_of_metric = letters(is_row_metric_better | is_row_metric_better.T, metric_order.tolist())
        significance_letters = [letters_of_metric[metric_index] for metric_index in metric_order]
        may_be_best = np.asarray(~is_row_metric_better.any(axis=0))[metric_order].tolist()
    return {
        "metric": [comparison.metrics[metric_index] for metric_index in metric_order],
        "statistic": ranking_statistic_name,
        "value": estimates[metric_order],
        "value_low": low[metric_order],
        "value_high": high[metric_order],
        "chance": statistic.chance_of(tester.jackknife_sample)[0][metric_order],
        "p_chance": tests_of_chance.p_adjusted[metric_order] if has_chance_test else None,
        "side": side_labels[metric_order].tolist(),
        "group": significance_letters,
        "may_be_best": may_be_best,
    }
