"""Scores of systems from outputs rated by two raters, adjusted for the difficulty of the rated items.

Several functions share these arrays. `scores` (raters, items, systems) are ratings. `rated` (items, systems) marks the
cells that count, which are the same for all raters. `units` (items,) is the resampling unit of each item, and `weights`
(B, units) are the bootstrap weights of the units. `item_weights` (items,) are the weights of the items.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints, chunks
from custodes.stats.bootstrap import unit_sums, weighted_sums
from custodes.stats.graphs import closure
from custodes.stats.ratios import ratio

_GRID = 40  # bits of a score after rounding
_SAME = 1e-12  # relative rounding error


def is_complete(rated: Bools) -> bool:
    """Whether every item has either all systems or none, so that means are not biased. Systems without any cell are
    ignored.

    >>> is_complete(np.array([[True, True], [False, False]])), is_complete(np.array([[True, True], [True, False]]))
    (True, False)
    """
    rated_columns = rated[:, rated.any(axis=0)]
    return bool((rated_columns.all(axis=1) | ~rated_columns.any(axis=1)).all())


def common_items(rated: Bools) -> Bools:
    """Whether two different systems have an item in common: (systems, systems).

    >>> common_items(np.array([[True, True, False], [False, False, True]])).tolist()
    [[False, True, False], [True, False, False], [False, False, False]]
    """
    rated_indicators = rated.astype(np.float64)
    return np.asarray((rated_indicators.T @ rated_indicators > 0) & ~np.eye(rated.shape[1], dtype=bool))


def blocks_of(is_connected: Bools) -> NDArray[np.int64]:
    """Block of each system, as a number: (..., systems).

    `is_connected` (..., systems, systems) marks pairs of systems. Systems that a chain of connected pairs links are in
    one block.

    >>> blocks_of(np.array([[False, True, False], [True, False, False], [False, False, False]])).tolist()
    [0, 0, 2]
    """
    return np.asarray(closure(is_connected | np.eye(is_connected.shape[-1], dtype=bool)).argmax(axis=-1))


def weighted_item_mean(
    values: Floats, *, units: Ints, weights: NDArray[Any], item_weights: Floats | None = None
) -> Floats:
    """Means of values (..., items) over items in every resample: (B, ...).

    Items whose value is NaN are left out. A mean is NaN if all its items are left out.

    >>> weighted_item_mean(np.array([[1.0, 3.0, np.nan]]), units=np.arange(3), weights=np.ones((1, 3))).tolist()
    [[2.0]]
    """
    is_defined_value = ~np.isnan(values)
    values_and_mask = np.stack([np.where(is_defined_value, values, 0.0), is_defined_value])
    sums_by_unit = unit_sums(
        values_and_mask if item_weights is None else values_and_mask * item_weights,
        units=units,
        n_units=weights.shape[1],
    )
    return ratio(*np.moveaxis(weighted_sums(weights, sums_by_unit), 1, 0))


def system_means(scores: Floats, *, units: Ints, weights: NDArray[Any], item_weights: Floats | None = None) -> Floats:
    """Mean scores of every system by every rater in every resample: scores (raters, items, systems) -> (B, raters,
    systems).

    A mean is NaN if the system has no rating in the resample. Means are rounded to about twelve digits, so that systems
    with equal means tie exactly for any order of summation.

    >>> system_means(np.array([[[1.0, 2], [3, np.nan]]]), units=np.arange(2), weights=np.ones((1, 2))).tolist()
    [[[2.0, 2.0]]]
    """
    means = weighted_item_mean(scores.swapaxes(-1, -2), units=units, weights=weights, item_weights=item_weights)
    largest_score_of_rater = np.abs(np.where(np.isnan(scores), 0.0, scores)).max(axis=(1, 2), initial=0.0)
    # a power of two, so that rounding is exact
    rounding_unit_of_rater = np.exp2(np.frexp(largest_score_of_rater)[1] - _GRID)[:, np.newaxis]
    return np.asarray(np.rint(means / rounding_unit_of_rater) * rounding_unit_of_rater)


def system_fit(
    scores: Floats, rated: Bools, *, units: Ints, weights: NDArray[Any], item_weights: Floats | None
) -> Floats:
    """Score of every system by every rater, in every resample: (B, raters, systems).

    If each item has all systems, scores are means over items. Otherwise scores are fitted by least squares with effects
    of items and systems. The score of a system is its effect plus the mean item effect. A system with difficult items
    is therefore not under-rated, provided that other systems also have these items. Scores of systems that are not
    connected by common items are not comparable. A score is NaN if the system has no cell in the resample. Scores are
    rounded to about twelve digits, so that equal scores tie exactly.

    >>> scores = np.array([[[1.0, 2], [5, np.nan], [np.nan, 8]]])  # one easy, one hard, one harder item
    >>> fit = system_fit(scores, np.isfinite(scores[0]), units=np.arange(3), weights=np.ones((1, 3)), item_weights=None)
    >>> np.diff(fit).round(6).tolist()  # both systems have only the first item in common
    [[[1.0]]]

    Source: Yates 1933, two-way tables with missing cells.
    """
    if is_complete(rated):
        return system_means(np.where(rated, scores, np.nan), units=units, weights=weights, item_weights=item_weights)
    item_weights_or_one = np.ones(len(rated)) if item_weights is None else item_weights
    cell_weights = rated * item_weights_or_one[:, np.newaxis]
    n_systems_of_item = np.maximum(rated.sum(axis=1), 1)
    scale_of_rater = np.abs(np.where(rated, scores, 0.0)).max(axis=(1, 2), keepdims=True, initial=0.0)
    scale_of_rater[scale_of_rater == 0] = 1.0
    scaled_scores = np.where(rated, scores, 0.0) / scale_of_rater
    mean_score_of_item = scaled_scores.sum(axis=2) / n_systems_of_item
    # Normal equations after eliminating the items' effects: a Laplacian of the graph of common items.
    laplacian_of_item = -np.einsum("ia,ib->iab", cell_weights / n_systems_of_item[:, np.newaxis], rated)
    diagonals = np.einsum("iaa->ia", laplacian_of_item)  # a view
    diagonals += cell_weights
    weighted_deviations = cell_weights * (scaled_scores - mean_score_of_item[..., np.newaxis])
    rated_item_weights = rated.any(axis=1) * item_weights_or_one
    laplacian_of_unit, deviations_of_unit, item_means_of_unit, shares_of_unit, weight_of_unit, cell_weights_of_unit = (
        unit_sums(values_of_item, units=units, n_units=weights.shape[1])
        for values_of_item in (
            np.moveaxis(laplacian_of_item, 0, -1),
            weighted_deviations.swapaxes(1, 2),
            rated_item_weights * mean_score_of_item,
            rated_item_weights / n_systems_of_item * rated.T,
            rated_item_weights,
            cell_weights.T,
        )
    )
    fitted_scores = np.empty((len(weights), len(scores), rated.shape[1]))
    for resample_slice in chunks(len(weights), rated.shape[1] ** 2 + rated.shape[1] * len(scores)):
        sum_units = partial(weighted_sums, weights[resample_slice])
        system_effects = np.einsum(
            "bst,brt->brs", _inverse(sum_units(laplacian_of_unit)), sum_units(deviations_of_unit)
        )
        item_effect_sums = sum_units(item_means_of_unit) - np.einsum(
            "bs,brs->br", sum_units(shares_of_unit), system_effects
        )
        mean_item_effects = ratio(item_effect_sums, sum_units(weight_of_unit)[:, np.newaxis])
        is_rated_system = sum_units(cell_weights_of_unit) > 0
        fitted_scores[resample_slice] = np.where(
            is_rated_system[:, np.newaxis], system_effects + mean_item_effects[..., np.newaxis], np.nan
        )
    return np.asarray(np.rint(fitted_scores * 2.0**_GRID) / 2.0**_GRID * scale_of_rater[..., 0])


def _inverse(laplacians: Floats) -> Floats:
    """Inverses (B, systems, systems) of Laplacians. In each block of connected systems, the effects sum to 0."""
    largest_entries = np.maximum(np.abs(laplacians).max(axis=(1, 2), keepdims=True), 1e-300)
    laplacians = laplacians / largest_entries
    block_of_system = blocks_of(laplacians < -_SAME)
    is_same_block = block_of_system[:, :, np.newaxis] == block_of_system[:, np.newaxis]
    level_projections = is_same_block / is_same_block.sum(axis=2, keepdims=True)
    return np.asarray((np.linalg.inv(laplacians + level_projections) - level_projections) / largest_entries)
