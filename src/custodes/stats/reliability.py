"""Krippendorff's alpha of annotators."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.arrays import Floats, Ints, scaled_deviations
from custodes.stats.bootstrap import unit_sums
from custodes.stats.ratios import ratio

Scale = Literal["nominal", "ordinal"]

FEWEST_ANNOTATORS = 10
"""With fewer annotators, results describe only these annotators."""


def pair_coincidences(joint_counts: NDArray[Any]) -> Floats:
    """Coincidence matrices (..., k, k) of two codings of the same things, from their joint counts (..., k, k)."""
    return np.asarray(joint_counts + np.swapaxes(joint_counts, -1, -2))


def coincidences(labels: AnnotatorLabels, *, units: Ints, n_units: int) -> Floats:
    """Coincidence matrices of labels, summed over the tasks of each unit: units (tasks,) -> (units, labels, labels).

    Each of the m labels of a task is paired with the m - 1 other labels of the task. The m - 1 pairs of a label have a
    total weight of 1. Tasks with one label are ignored.
    """
    votes = labels.votes
    pair_weights = np.nan_to_num(ratio(np.ones(len(votes)), labels.n_votes - 1))
    other_votes = votes[:, :, np.newaxis] - np.eye(labels.n_labels)  # [task, label of the others, label]
    pair_sums = votes[:, np.newaxis] * other_votes * pair_weights[:, np.newaxis, np.newaxis]
    return unit_sums(np.moveaxis(pair_sums, 0, -1), units=units, n_units=n_units).transpose(2, 0, 1)


def alpha(coincidences: NDArray[Any], *, scale: Scale) -> Floats:
    """Krippendorff's alpha, 1 - observed disagreement / expected disagreement, from coincidences (..., k, k).

    On the ordinal scale, the labels must be in order. Alpha is NaN if all labels are equal, or without coincidences.

    >>> alpha(pair_coincidences(np.array([[40, 10], [10, 40]])), scale="nominal").round(3).item()
    0.602

    References
    ----------
    Krippendorff 1970; 2019, "Content Analysis", chapter 12 (coincidences; differences of nominal and ordinal data).
    """
    label_totals = coincidences.sum(axis=-1)
    if scale == "nominal":
        squared_differences = 1 - np.eye(coincidences.shape[-1])
    else:  # number of labels between two labels, plus half of the number of each
        middle_ranks = np.cumsum(label_totals, axis=-1) - label_totals / 2
        squared_differences = (middle_ranks[..., :, np.newaxis] - middle_ranks[..., np.newaxis, :]) ** 2
    label_total_products = label_totals[..., :, np.newaxis] * label_totals[..., np.newaxis, :]
    observed_disagreement, disagreement_of_products = (
        (pairs * squared_differences).sum(axis=(-1, -2)) for pairs in (coincidences, label_total_products)
    )
    return np.asarray(1 - ratio(observed_disagreement, ratio(disagreement_of_products, label_totals.sum(axis=-1) - 1)))


def moments(task: Ints, value: Floats, *, units: Ints, n_units: int) -> Floats:
    """Sums over the tasks of each unit for `interval_alpha`: task, value (n,), units (tasks,) -> (units, 4)."""
    scores = scaled_deviations(value)  # alpha does not depend on the unit
    n_ratings_of_task, score_sum_of_task, score_square_sum_of_task = (
        np.bincount(task, weights=summands, minlength=len(units))
        for summands in (np.ones(len(task)), scores, scores**2)
    )
    squared_differences_of_task = (
        2 * (n_ratings_of_task * score_square_sum_of_task - score_sum_of_task**2) / np.maximum(n_ratings_of_task - 1, 1)
    )
    task_sums = np.stack([squared_differences_of_task, n_ratings_of_task, score_sum_of_task, score_square_sum_of_task])
    return unit_sums(task_sums * (n_ratings_of_task > 1), units=units, n_units=n_units).T


def interval_alpha(moments: NDArray[Any]) -> Floats:
    """Krippendorff's alpha for numeric ratings, with squared differences, from sums of `moments`: (..., 4) -> (...).

    >>> two = moments(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 3.0, 3.0]), units=np.array([0, 1]), n_units=2)
    >>> interval_alpha(two.sum(axis=0)).item()
    1.0

    References
    ----------
    Krippendorff 2019, chapter 12 (interval data).
    """
    observed_disagreement, n_ratings, value_sum, square_sum = np.moveaxis(moments, -1, 0)
    expected_disagreement = ratio(2 * (n_ratings * square_sum - value_sum**2), n_ratings - 1)
    return np.asarray(
        1 - ratio(observed_disagreement, np.where(expected_disagreement > 1e-9 * n_ratings, expected_disagreement, 0.0))
    )
