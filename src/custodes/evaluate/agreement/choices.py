"""Proportion of comparisons on which annotators and metrics have the same preference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.data.comparisons import JointPreferences
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.evaluate.slices import Ratios
from custodes.memory import check_memory, count_resample_values
from custodes.stats.arrays import Bools, Floats, Ints, chunks, equal_positions
from custodes.stats.bootstrap import weighted_sums
from custodes.stats.equal_clusters import sums_of
from custodes.stats.ratios import ratio


def are_choices(comparison: RaterComparison) -> bool:
    """Whether only preferences can be compared.

    This holds if no output has scores of both annotators and metrics, and if the file has no system-level scores.
    """
    scores = comparison.scores
    has_scored_outputs = (np.isfinite(scores.human) & np.isfinite(scores.metrics)).any()
    has_system_scores = np.isfinite(comparison.human_system).any() or np.isfinite(comparison.metric_system).any()
    return not has_scored_outputs and not has_system_scores


def resampled_groups(
    comparison: RaterComparison, resamples: int, rng: np.random.Generator
) -> tuple[Ints, NDArray[np.unsignedinteger[Any]]]:
    """Resample groups of clusters with equal preferences.

    Returns
    -------
    columns : array of int of shape (clusters,)
        For the first cluster of each group, the number of the group; for every other cluster, -1.
    times : array of shape (1 + B, groups)
        Bootstrap weights of the groups; row 0 is the data.
    """
    cluster_cells = comparison.cells
    columns = np.full(comparison.design.n_units, -1)
    columns[cluster_cells.cluster] = cluster_cells.group
    check_memory("resamples", resamples, count_resample_values(resamples, len(cluster_cells.number) / 2))
    n_drawn = resamples if cluster_cells.number.sum() > 1 else 0
    weights = np.empty((1 + n_drawn, len(cluster_cells.number)), dtype=np.uint32)
    for row_slice, group_counts in cluster_cells.iter_weights(n_drawn, rng, size=len(cluster_cells.number)):
        weights[row_slice] = group_counts.T
    return columns, weights


class Choices:
    """Agreement of human and metric preferences in every resample.

    `times` (1 + B, columns) are bootstrap weights; row 0 is the data. `column` (clusters,) is the column of each
    cluster in `times`. It is -1 for a cluster whose preferences equal those of an earlier cluster; the column of the
    earlier cluster represents both. If `column` is None, every cluster has a separate column.
    """

    def __init__(self, comparison: RaterComparison, times: NDArray[Any], column: Ints | None = None) -> None:
        self._comparison, self._times = comparison, times
        self._column = np.arange(comparison.design.n_units) if column is None else column

    def n(self, metric: int) -> int:
        """Number of comparisons that both the annotators and the metric rated."""
        return len(shared_comparisons(self._comparison, metric).pair)

    @property
    def pairs(self) -> Bools:
        """(metrics, pairs): whether annotators and metric both rated a comparison of the pair of systems."""
        is_compared = np.zeros((len(self._comparison.metrics), len(self._comparison.design.pairs)), dtype=bool)
        for metric_index, is_compared_pair in enumerate(is_compared):
            is_compared_pair[shared_comparisons(self._comparison, metric_index).pair] = True
        return is_compared

    @property
    def sample_accuracy(self) -> Floats:
        """(1 + B, metrics): the proportion of comparisons with equal human and metric preferences."""
        n, n_equal, *_ = self._totals
        return ratio(n_equal, n)

    @property
    def tie_rates(self) -> tuple[Floats, Floats]:
        """The proportion of ties of the annotators and of each metric; both arrays are (1 + B, metrics)."""
        n, _, n_human_ties, n_metric_ties = self._totals
        return ratio(n_human_ties, n), ratio(n_metric_ties, n)

    @property
    def system_accuracy(self) -> Floats:
        """(1 + B, metrics): the proportion of pairs of systems whose human and metric margin have the same sign."""
        return self._margins[0]

    @property
    def net_wins(self) -> tuple[Floats, Floats]:
        """Wins minus losses per comparison, by the annotators and by each metric: arrays (1 + B, metrics, systems)."""
        return self._margins[1:]

    def _weighted_comparisons(self, metric_index: int) -> tuple[JointPreferences, Ints, Floats]:
        """The comparisons rated by annotators and metric, with the column in `times` and the weight of each one."""
        comparison, rated_comparisons = self._comparison, shared_comparisons(self._comparison, metric_index)
        times_columns = self._column[comparison.design.units[rated_comparisons.item]]
        if (times_columns < 0).any():
            is_represented = times_columns >= 0
            rated_comparisons, times_columns = (
                JointPreferences(
                    rated_comparisons.pair[is_represented],
                    rated_comparisons.item[is_represented],
                    rated_comparisons.signs[:, is_represented],
                ),
                times_columns[is_represented],
            )
        item_weights = comparison.design.item_weights
        return (
            rated_comparisons,
            times_columns,
            np.ones(len(rated_comparisons.pair)) if item_weights is None else item_weights[rated_comparisons.item],
        )

    @cached_property
    def _totals(self) -> Floats:
        """(4, 1 + B, metrics): total weights of all comparisons, equal preferences, human ties and metric ties."""
        category_sums = np.empty((4, len(self._comparison.metrics), self._times.shape[1]))
        for metric_index in range(category_sums.shape[1]):
            rated_comparisons, times_columns, item_weights = self._weighted_comparisons(metric_index)
            human_signs, metric_signs = rated_comparisons.signs
            for sums_of_category, is_counted in zip(
                category_sums,
                (human_signs == human_signs, human_signs == metric_signs, human_signs == 0, metric_signs == 0),
                strict=True,
            ):
                sums_of_category[metric_index] = np.bincount(
                    times_columns, item_weights * is_counted, minlength=category_sums.shape[2]
                )
        return np.moveaxis(weighted_sums(self._times, category_sums), 1, 0)

    @cached_property
    def _margins(self) -> tuple[Floats, Floats, Floats]:
        """System accuracy (1 + B, metrics), net wins by annotators (1 + B, metrics, systems) and net wins by metric."""
        from scipy.sparse import csr_array

        comparison, n_times, n_metrics = self._comparison, len(self._times), len(self._comparison.metrics)
        n_pairs, n_systems = len(comparison.design.pairs), len(comparison.systems)
        accuracy = np.empty((n_times, n_metrics))
        human_net_wins, metric_net_wins = np.empty((2, n_times, n_metrics, n_systems))
        system_index, pair_index = comparison.design.pairs.T.ravel(), np.tile(np.arange(n_pairs), 2)
        membership = csr_array((np.ones(2 * n_pairs), (system_index, pair_index)), shape=(n_systems, n_pairs))
        win_signs = csr_array((np.repeat([1.0, -1.0], n_pairs), (system_index, pair_index)), shape=(n_systems, n_pairs))
        sum_sizes = {"n_cells": n_pairs, "n_kinds": self._times.shape[1]}
        for metric_group in equal_grounds(grounds_of(comparison)):
            sum_metric_signs = []
            for metric_index in metric_group:
                rated_comparisons, times_columns, item_weights = self._weighted_comparisons(metric_index)
                sum_metric_signs.append(
                    sums_of(
                        rated_comparisons.pair, times_columns, item_weights * rated_comparisons.signs[1], **sum_sizes
                    )
                )
            # All metrics of the group have the same human preferences; those of the last metric are used.
            count_comparisons = sums_of(rated_comparisons.pair, times_columns, item_weights, **sum_sizes)
            sum_human_signs = sums_of(
                rated_comparisons.pair, times_columns, item_weights * rated_comparisons.signs[0], **sum_sizes
            )
            for resample_block in chunks(n_times, 4 * (n_pairs + self._times.shape[1])):
                weights = np.ascontiguousarray(self._times[resample_block].T, dtype=np.float64)
                n, human_margins = count_comparisons(weights), sum_human_signs(weights)
                is_compared, n_compared = n > 0, membership @ n
                block_net_wins, n_compared_pairs, human_signs = (
                    ratio(win_signs @ human_margins, n_compared).T,
                    is_compared.sum(axis=0),
                    np.sign(human_margins),
                )
                for metric_index, sum_signs in zip(metric_group, sum_metric_signs, strict=True):
                    metric_margins = sum_signs(weights)
                    n_equal = ((human_signs == np.sign(metric_margins)) & is_compared).sum(axis=0)
                    accuracy[resample_block, metric_index] = ratio(n_equal, n_compared_pairs)
                    human_net_wins[resample_block, metric_index] = block_net_wins
                    metric_net_wins[resample_block, metric_index] = ratio(win_signs @ metric_margins, n_compared).T
        return accuracy, human_net_wins, metric_net_wins


def shared_comparisons(comparison: RaterComparison, metric: int) -> JointPreferences:
    """The comparisons rated by both the annotators and a metric."""
    joint_preferences = comparison.preferences.joint(0, 1 + metric)
    is_shared = joint_preferences.is_rated_by_all
    return (
        joint_preferences
        if is_shared.all()
        else JointPreferences(
            joint_preferences.pair[is_shared], joint_preferences.item[is_shared], joint_preferences.signs[:, is_shared]
        )
    )


def equal_preferences(comparison: RaterComparison) -> Ratios:
    """Return the sample accuracy of each metric as a ratio of two sums over items."""
    design, n_items = comparison.design, len(comparison.items)
    weights = np.ones(n_items) if design.item_weights is None else design.item_weights
    item_sums = np.zeros((2, len(comparison.metrics), n_items))
    for metric_index in range(len(comparison.metrics)):
        rated_comparisons = shared_comparisons(comparison, metric_index)
        human_signs, metric_signs = rated_comparisons.signs
        for category_sums, is_counted in zip(
            item_sums, (human_signs == metric_signs, human_signs == human_signs), strict=True
        ):
            category_sums[metric_index] = weights * np.bincount(rated_comparisons.item, is_counted, minlength=n_items)
    return Ratios(
        labels=[(name, "sample_accuracy") for name in comparison.metrics],
        numerator=item_sums[0],
        denominator=item_sums[1],
        units=design.units,
    )


def chosen_items(comparison: RaterComparison) -> Bools:
    """(metrics, items): whether annotators and metric both compared the same two outputs of the item."""
    is_compared = np.zeros((len(comparison.metrics), len(comparison.items)), dtype=bool)
    for metric_index, is_compared_item in enumerate(is_compared):
        is_compared_item[shared_comparisons(comparison, metric_index).item] = True
    return is_compared


class Ground(NamedTuple):
    """Outputs and comparisons rated by both the annotators and a metric.

    `scored` (items, systems) marks the scored outputs, or is None if only preferences can be compared. `keys` are the
    keys of the comparisons, as in `Comparisons`, in ascending order.
    """

    scored: Bools | None
    keys: Ints

    @property
    def any(self) -> bool:
        """Whether there is at least one output or comparison."""
        return bool(len(self.keys)) or (self.scored is not None and bool(self.scored.any()))

    def shared_with(self, other: Ground) -> Ground:
        """Return the outputs and comparisons rated by the annotators, this metric and another metric."""
        is_scored = None if self.scored is None or other.scored is None else self.scored & other.scored
        has_same_keys = self.keys is other.keys or np.array_equal(self.keys, other.keys)
        return Ground(
            is_scored, self.keys if has_same_keys else np.intersect1d(self.keys, other.keys, assume_unique=True)
        )


def grounds_of(comparison: RaterComparison) -> list[Ground]:
    """Outputs and comparisons that the annotators share with each metric."""
    keys = []
    for metric_index in range(len(comparison.metrics)):
        rated_comparisons = shared_comparisons(comparison, metric_index)
        keys.append(rated_comparisons.pair * len(comparison.items) + rated_comparisons.item)
    scored_masks = [None] * len(keys) if are_choices(comparison) else list(comparison.has_both_scores)
    return [Ground(*fields) for fields in zip(scored_masks, keys, strict=True)]


def equal_grounds(shared_sets: Sequence[Ground]) -> list[NDArray[np.intp]]:
    """Return groups of metrics (positions) that share the same outputs and comparisons with the annotators."""
    return equal_positions(
        (b"" if shared_set.scored is None else np.packbits(shared_set.scored).tobytes(), shared_set.keys.tobytes())
        for shared_set in shared_sets
    )
