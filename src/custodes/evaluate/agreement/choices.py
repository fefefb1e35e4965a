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

    The result is true if no output has scores of both annotators and metrics, and if the file has no system-level
    scores.
    """
    item_scores = comparison.scores
    return not (np.isfinite(item_scores.human) & np.isfinite(item_scores.metrics)).any() and not (
        np.isfinite(comparison.human_system).any() or np.isfinite(comparison.metric_system).any()
    )


def compared_count(comparison: RaterComparison, metric_index: int) -> int:
    """Return the number of comparisons that annotators and metric share, or of shared outputs if there is one
    system."""
    if len(comparison.systems) == 1:
        return int(comparison.has_both_scores[metric_index].sum())
    return len(comparison.shared(metric_index).pair)


def resampled_groups(
    comparison: RaterComparison, resamples: int, rng: np.random.Generator
) -> tuple[Ints, NDArray[np.unsignedinteger[Any]]]:
    """Resample groups of clusters with equal preferences.

    Returns
    -------
    group_of_cluster : array of int of shape (clusters,)
        Number of the group for the first cluster of each group, and -1 for every other cluster.
    group_weights : array of shape (1 + B, groups)
        Bootstrap weights of the groups; row 0 is the data.
    """
    cluster_cells = comparison.cells
    group_of_cluster = np.full(comparison.design.n_units, -1)
    group_of_cluster[cluster_cells.cluster] = cluster_cells.group
    check_memory("resamples", resamples, count_resample_values(resamples, len(cluster_cells.number) / 2))
    n_resamples = resamples if cluster_cells.number.sum() > 1 else 0
    group_weights = np.empty((1 + n_resamples, len(cluster_cells.number)), dtype=np.uint32)
    for resample_slice, slice_weights in cluster_cells.iter_weights(
        n_resamples, rng, size_per_resample=len(cluster_cells.number)
    ):
        group_weights[resample_slice] = slice_weights.T
    return group_of_cluster, group_weights


def weighted_comparisons(
    comparison: RaterComparison, column_of_item: Ints, metric_index: int
) -> tuple[Ints, Signs, Ints, Floats]:
    """The pairs and the signs (2, n) of the comparisons rated by annotators and metric, with the column and the weight
    of each comparison.

    `column_of_item` (items,) is a position for each item. Items with position -1 are left out.
    """
    shared_preferences = comparison.shared(metric_index)
    column_of_comparison = column_of_item[shared_preferences.item]
    mask_or_slice: Any = slice(None) if (column_of_comparison >= 0).all() else column_of_comparison >= 0
    return (
        shared_preferences.pair[mask_or_slice],
        shared_preferences.signs[:, mask_or_slice],
        column_of_comparison[mask_or_slice],
        comparison.design.weights[shared_preferences.item[mask_or_slice]],
    )


def category_sums(comparison: RaterComparison, column_of_item: Ints, n_columns: int) -> Floats:
    """Total weights of all shared comparisons, equal preferences, human ties and metric ties: (4, metrics, columns)."""
    weight_sums = np.empty((4, len(comparison.metrics), n_columns))
    for metric_index in range(len(comparison.metrics)):
        _, (human_signs, metric_signs), column_of_comparison, comparison_weights = weighted_comparisons(
            comparison, column_of_item, metric_index
        )
        for sum_index, is_counted in enumerate(
            (human_signs == human_signs, human_signs == metric_signs, human_signs == 0, metric_signs == 0)
        ):
            weight_sums[sum_index, metric_index] = np.bincount(
                column_of_comparison, comparison_weights * is_counted, minlength=n_columns
            )
    return weight_sums


class PreferenceMargins(NamedTuple):
    """Margins of systems in every resample, from preferences.

    `accuracy` (1 + B, metrics) is the proportion of pairs of systems whose human and metric margin have the same sign.
    `human` and `metrics` (1 + B, metrics, systems) are wins minus losses per comparison.
    """

    accuracy: Floats
    human: Floats
    metrics: Floats


def margins(comparison: RaterComparison, bootstrap_weights: NDArray[Any], column_of_item: Ints) -> PreferenceMargins:
    """Return the margins for `bootstrap_weights` (1 + B, columns); an item has the weight of its column."""
    from scipy.sparse import csr_array

    n_samples, n_metrics = len(bootstrap_weights), len(comparison.metrics)
    n_pairs, n_systems = len(comparison.design.pairs), len(comparison.systems)
    pairwise_accuracy = np.empty((n_samples, n_metrics))
    human_net_win_rates, metric_net_win_rates = np.empty((2, n_samples, n_metrics, n_systems))
    win_sign_matrix = csr_array(
        (np.repeat([1.0, -1.0], n_pairs), (comparison.design.pairs.T.ravel(), np.tile(np.arange(n_pairs), 2))),
        shape=(n_systems, n_pairs),
    )
    sum_options = {"n_cells": n_pairs, "n_groups": bootstrap_weights.shape[1]}
    for metric_indices in equal_grounds(grounds_of(comparison)):
        sum_functions_of_metrics = []
        for metric_index in metric_indices:
            pair_of_comparison, (human_signs, metric_signs), column_of_comparison, comparison_weights = (
                weighted_comparisons(comparison, column_of_item, metric_index)
            )
            sum_functions_of_metrics.append(
                sums_of(pair_of_comparison, column_of_comparison, comparison_weights * metric_signs, **sum_options)
            )
        # All metrics of the group share the same human preferences, so the rows of the last metric are used for all
        # metrics.
        count_comparisons = sums_of(pair_of_comparison, column_of_comparison, comparison_weights, **sum_options)
        sum_human_signs = sums_of(
            pair_of_comparison, column_of_comparison, comparison_weights * human_signs, **sum_options
        )
        for resample_slice in chunks(n_samples, 4 * (n_pairs + bootstrap_weights.shape[1])):
            slice_weights = np.ascontiguousarray(bootstrap_weights[resample_slice].T, dtype=np.float64)
            n_comparisons_of_pair, human_margins = count_comparisons(slice_weights), sum_human_signs(slice_weights)
            is_compared_pair, n_comparisons_of_system = (
                n_comparisons_of_pair > 0,
                abs(win_sign_matrix) @ n_comparisons_of_pair,
            )
            human_slice_net_win_rates = ratio(win_sign_matrix @ human_margins, n_comparisons_of_system).T
            n_compared_pairs, human_margin_signs = is_compared_pair.sum(axis=0), np.sign(human_margins)
            for metric_index, sum_metric_signs in zip(metric_indices, sum_functions_of_metrics, strict=True):
                metric_margins = sum_metric_signs(slice_weights)
                pairwise_accuracy[resample_slice, metric_index] = ratio(
                    ((human_margin_signs == np.sign(metric_margins)) & is_compared_pair).sum(axis=0), n_compared_pairs
                )
                human_net_win_rates[resample_slice, metric_index] = human_slice_net_win_rates
                metric_net_win_rates[resample_slice, metric_index] = ratio(
                    win_sign_matrix @ metric_margins, n_comparisons_of_system
                ).T
    return PreferenceMargins(pairwise_accuracy, human_net_win_rates, metric_net_win_rates)


def equal_preferences(comparison: RaterComparison) -> Ratios:
    """Return the sample accuracy of each metric as a ratio of two sums over items."""
    n_items = len(comparison.items)
    shared_comparison_weights, equal_preference_weights, *_ = category_sums(comparison, np.arange(n_items), n_items)
    return Ratios(
        labels=[(metric, "sample_accuracy") for metric in comparison.metrics],
        numerator=equal_preference_weights,
        denominator=shared_comparison_weights,
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
        has_same_keys = self.keys is other.keys or np.array_equal(self.keys, other.keys)
        return Ground(
            None if self.scored is None or other.scored is None else self.scored & other.scored,
            self.keys if has_same_keys else np.intersect1d(self.keys, other.keys, assume_unique=True),
        )


def grounds_of(comparison: RaterComparison) -> list[Ground]:
    """Outputs and comparisons that the annotators share with each metric."""
    comparison_keys_of_metric = [
        shared_preferences.pair * len(comparison.items) + shared_preferences.item
        for shared_preferences in (comparison.shared(metric_index) for metric_index in range(len(comparison.metrics)))
    ]
    if are_choices(comparison):
        return [Ground(None, comparison_keys) for comparison_keys in comparison_keys_of_metric]
    return list(map(Ground, comparison.has_both_scores, comparison_keys_of_metric))


def equal_grounds(grounds: Sequence[Ground]) -> list[NDArray[np.intp]]:
    """Return groups of metrics (positions) that share the same outputs and comparisons with the annotators."""
    return equal_positions(
        (b"" if ground.scored is None else np.packbits(ground.scored).tobytes(), ground.keys.tobytes())
        for ground in grounds
    )
