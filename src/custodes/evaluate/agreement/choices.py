"""Proportion of comparisons on which annotators and metrics have the same preference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.evaluate.rater_comparison import RaterComparison
from custodes.evaluate.slices import Ratios
from custodes.memory import check_memory, count_resample_values
from custodes.stats.arrays import Bools, Floats, Ints, Signs, chunks, equal_positions
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


def weighted_comparisons(
    comparison: RaterComparison, column_of_item: Ints, metric: int
) -> tuple[Ints, Signs, Ints, Floats]:
    """The pairs and the signs (2, n) of the comparisons rated by annotators and metric, with columns and weights.

    `column_of_item` (items,) is a position for each item. Items with position -1 are left out.
    """
    shared = comparison.shared(metric)
    columns = column_of_item[shared.item]
    is_used: Any = slice(None) if (columns >= 0).all() else columns >= 0
    weights = comparison.design.weights[shared.item[is_used]]
    return shared.pair[is_used], shared.signs[:, is_used], columns[is_used], weights


def category_sums(comparison: RaterComparison, column_of_item: Ints, n_columns: int) -> Floats:
    """(4, metrics, columns): weights of all shared comparisons, equal preferences, human ties and metric ties."""
    sums = np.empty((4, len(comparison.metrics), n_columns))
    for metric in range(len(comparison.metrics)):
        _, (human, of_metric), columns, weights = weighted_comparisons(comparison, column_of_item, metric)
        for category, is_counted in enumerate((human == human, human == of_metric, human == 0, of_metric == 0)):
            sums[category, metric] = np.bincount(columns, weights * is_counted, minlength=n_columns)
    return sums


class PreferenceMargins(NamedTuple):
    """Margins of systems in every resample, from preferences.

    `accuracy` (1 + B, metrics) is the proportion of pairs of systems whose human and metric margin have the same sign.
    `human` and `metrics` (1 + B, metrics, systems) are wins minus losses per comparison.
    """

    accuracy: Floats
    human: Floats
    metrics: Floats


def margins(comparison: RaterComparison, times: NDArray[Any], column_of_item: Ints) -> PreferenceMargins:
    """Return the margins for the bootstrap weights `times` (1 + B, columns); an item has the weight of its column."""
    from scipy.sparse import csr_array

    n_times, n_metrics = len(times), len(comparison.metrics)
    n_pairs, n_systems = len(comparison.design.pairs), len(comparison.systems)
    accuracy = np.empty((n_times, n_metrics))
    human_net_wins, metric_net_wins = np.empty((2, n_times, n_metrics, n_systems))
    system_index, pair_index = comparison.design.pairs.T.ravel(), np.tile(np.arange(n_pairs), 2)
    membership = csr_array((np.ones(2 * n_pairs), (system_index, pair_index)), shape=(n_systems, n_pairs))
    win_signs = csr_array((np.repeat([1.0, -1.0], n_pairs), (system_index, pair_index)), shape=(n_systems, n_pairs))
    sum_sizes = {"n_cells": n_pairs, "n_kinds": times.shape[1]}
    for metric_group in equal_grounds(grounds_of(comparison)):
        sum_metric_signs = []
        for metric in metric_group:
            pair, (human, of_metric), columns, item_weights = weighted_comparisons(comparison, column_of_item, metric)
            sum_metric_signs.append(sums_of(pair, columns, item_weights * of_metric, **sum_sizes))
        # All metrics of the group have the same human preferences; those of the last metric are used.
        count_comparisons = sums_of(pair, columns, item_weights, **sum_sizes)
        sum_human_signs = sums_of(pair, columns, item_weights * human, **sum_sizes)
        for resample_block in chunks(n_times, 4 * (n_pairs + times.shape[1])):
            weights = np.ascontiguousarray(times[resample_block].T, dtype=np.float64)
            n, human_margins = count_comparisons(weights), sum_human_signs(weights)
            is_compared, n_compared = n > 0, membership @ n
            block_net_wins, n_compared_pairs, human_signs = (
                ratio(win_signs @ human_margins, n_compared).T,
                is_compared.sum(axis=0),
                np.sign(human_margins),
            )
            for metric, sum_signs in zip(metric_group, sum_metric_signs, strict=True):
                metric_margins = sum_signs(weights)
                n_equal = ((human_signs == np.sign(metric_margins)) & is_compared).sum(axis=0)
                accuracy[resample_block, metric] = ratio(n_equal, n_compared_pairs)
                human_net_wins[resample_block, metric] = block_net_wins
                metric_net_wins[resample_block, metric] = ratio(win_signs @ metric_margins, n_compared).T
    return PreferenceMargins(accuracy, human_net_wins, metric_net_wins)


def equal_preferences(comparison: RaterComparison) -> Ratios:
    """Return the sample accuracy of each metric as a ratio of two sums over items."""
    n_items = len(comparison.items)
    n_shared, n_equal, *_ = category_sums(comparison, np.arange(n_items), n_items)
    return Ratios(
        labels=[(name, "sample_accuracy") for name in comparison.metrics],
        numerator=n_equal,
        denominator=n_shared,
        units=comparison.design.units,
    )


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
    shared_preferences = (comparison.shared(metric) for metric in range(len(comparison.metrics)))
    keys = [shared.pair * len(comparison.items) + shared.item for shared in shared_preferences]
    scored_masks = [None] * len(keys) if are_choices(comparison) else list(comparison.has_both_scores)
    return [Ground(*fields) for fields in zip(scored_masks, keys, strict=True)]


def equal_grounds(shared_sets: Sequence[Ground]) -> list[NDArray[np.intp]]:
    """Return groups of metrics (positions) that share the same outputs and comparisons with the annotators."""
    return equal_positions(
        (b"" if shared_set.scored is None else np.packbits(shared_set.scored).tobytes(), shared_set.keys.tobytes())
        for shared_set in shared_sets
    )
