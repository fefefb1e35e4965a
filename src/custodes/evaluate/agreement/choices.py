"""Proportion of comparisons on which annotators and metrics have the same preference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.evaluate.rater_comparison import RaterComparison
from custodes.evaluate.slices import Ratios
from custodes.memory import check_memory, count_resample_values
from custodes.stats.arrays import Bools, Floats, Ints, equal_positions


def are_choices(comparison: RaterComparison) -> bool:
    """Whether only preferences can be compared.

    The result is true if no output has scores of both annotators and metrics, and if the file has no system-level
    scores.
    """
    item_scores = comparison.scores
    has_any_scored_output = (np.isfinite(item_scores.human) & np.isfinite(item_scores.metrics)).any()
    has_any_system_score = np.isfinite(comparison.human_system).any() or np.isfinite(comparison.metric_system).any()
    return not has_any_scored_output and not has_any_system_score


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
    preference_cells = comparison.cells
    group_of_cluster = np.full(comparison.design.n_units, -1)
    group_of_cluster[preference_cells.cluster] = preference_cells.group
    check_memory("resamples", resamples, count_resample_values(resamples, len(preference_cells.number) / 2))
    n_resamples = resamples if preference_cells.number.sum() > 1 else 0
    group_weights = np.empty((1 + n_resamples, len(preference_cells.number)), dtype=np.uint32)
    for resample_slice, block_weights in preference_cells.iter_weights(
        n_resamples, rng, size=len(preference_cells.number)
    ):
        group_weights[resample_slice] = block_weights.T
    return group_of_cluster, group_weights


def category_sums(comparison: RaterComparison, column_of_item: Ints, n_columns: int) -> Floats:
    """(4, metrics, columns): weights of all shared comparisons, equal preferences, human ties and metric ties.

    `column_of_item` (items,) is a position for each item. Items with position -1 are left out.
    """
    category_weights = np.empty((4, len(comparison.metrics), n_columns))
    for metric_index in range(len(comparison.metrics)):
        shared_preferences = comparison.shared(metric_index)
        column_of_comparison = column_of_item[shared_preferences.item]
        is_used = column_of_comparison >= 0
        comparison_weights = comparison.design.weights[shared_preferences.item[is_used]]
        human_signs, metric_signs = shared_preferences.signs[:, is_used]
        for category_index, is_in_category in enumerate(
            (human_signs == human_signs, human_signs == metric_signs, human_signs == 0, metric_signs == 0)
        ):
            category_weights[category_index, metric_index] = np.bincount(
                column_of_comparison[is_used], comparison_weights * is_in_category, minlength=n_columns
            )
    return category_weights


def equal_preferences(comparison: RaterComparison) -> Ratios:
    """Return the sample accuracy of each metric as a ratio of two sums over items."""
    n_items = len(comparison.items)
    shared_weights, equal_weights, *_ = category_sums(comparison, np.arange(n_items), n_items)
    return Ratios(
        labels=[(metric, "sample_accuracy") for metric in comparison.metrics],
        numerator=equal_weights,
        denominator=shared_weights,
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
        is_scored_output = None if self.scored is None or other.scored is None else self.scored & other.scored
        has_same_keys = self.keys is other.keys or np.array_equal(self.keys, other.keys)
        return Ground(
            is_scored_output, self.keys if has_same_keys else np.intersect1d(self.keys, other.keys, assume_unique=True)
        )


def grounds_of(comparison: RaterComparison) -> list[Ground]:
    """Outputs and comparisons that the annotators share with each metric."""
    shared_preferences_of_metrics = (comparison.shared(metric) for metric in range(len(comparison.metrics)))
    comparison_keys_of_metric = [
        shared_preferences.pair * len(comparison.items) + shared_preferences.item
        for shared_preferences in shared_preferences_of_metrics
    ]
    scored_masks = (
        [None] * len(comparison_keys_of_metric) if are_choices(comparison) else list(comparison.has_both_scores)
    )
    return [Ground(*mask_and_keys) for mask_and_keys in zip(scored_masks, comparison_keys_of_metric, strict=True)]


def equal_grounds(grounds: Sequence[Ground]) -> list[NDArray[np.intp]]:
    """Return groups of metrics (positions) that share the same outputs and comparisons with the annotators."""
    return equal_positions(
        (b"" if ground.scored is None else np.packbits(ground.scored).tobytes(), ground.keys.tobytes())
        for ground in grounds
    )
