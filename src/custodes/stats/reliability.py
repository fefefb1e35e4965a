"""Reliability of annotators: Krippendorff's alpha, intraclass correlation, and annotators as clusters."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.arrays import Bools, Floats, Ints, unit_of
from custodes.stats.ratios import ratio

Scale = Literal["nominal", "ordinal"]

FEWEST_ANNOTATORS = 10
"""Minimum number of annotators of a pair for an interval. With fewer, the interval would describe only these few."""

MOST_BLOCKS = 50
"""Maximum number of blocks of annotators in a jackknife."""

_SAME = 1e-12  # relative rounding error


def pair_coincidences(table: NDArray[Any]) -> Floats:
    """Coincidence matrices (..., k, k) of two codings of the same things, from their joint counts (..., k, k)."""
    return np.asarray(table + np.swapaxes(table, -1, -2), dtype=np.float64)


def coincidences(labels: AnnotatorLabels, *, units: Ints, n_units: int) -> Floats:
    """Coincidence matrices of labels, summed over the tasks of each unit: units (tasks,) -> (units, labels, labels).

    Each of the m labels of a task is paired with the m - 1 other labels of the task. The m - 1 pairs of a label have a
    total weight of 1. Tasks with one label are ignored.
    """
    votes_by_task, n_votes_of_task = labels.votes, labels.n_votes
    pair_weight_of_task = np.where(n_votes_of_task > 1, 1 / np.maximum(n_votes_of_task - 1, 1), 0.0)
    coincidence_matrices = np.zeros((n_units, labels.n_labels, labels.n_labels))
    for first_label in range(labels.n_labels):
        for second_label in range(first_label + 1):
            pair_sum_of_task = (
                votes_by_task[:, first_label]
                * (votes_by_task[:, second_label] - (first_label == second_label))
                * pair_weight_of_task
            )
            coincidence_matrices[:, first_label, second_label] = coincidence_matrices[:, second_label, first_label] = (
                np.bincount(units, weights=pair_sum_of_task, minlength=n_units)
            )
    return coincidence_matrices


def alpha(coincidences: NDArray[Any], *, scale: Scale) -> Floats:
    """Krippendorff's alpha, 1 - observed disagreement / expected disagreement, from coincidences (..., k, k).

    On the ordinal scale, the labels must be in order. Alpha is NaN if all labels are equal, or without coincidences.

    >>> alpha(pair_coincidences(np.array([[40, 10], [10, 40]])), scale="nominal").round(3).item()
    0.602

    References
    ----------
    Krippendorff 1970; 2019, "Content Analysis", chapter 12 (coincidences; differences of nominal and ordinal data).
    """
    coincidence_counts = np.asarray(coincidences, dtype=np.float64)
    label_totals = coincidence_counts.sum(axis=-1)
    if scale == "nominal":
        squared_differences = 1 - np.eye(coincidence_counts.shape[-1])
    else:  # number of labels between two labels, plus half of the number of each
        middle_ranks = np.cumsum(label_totals, axis=-1) - label_totals / 2
        squared_differences = (middle_ranks[..., :, np.newaxis] - middle_ranks[..., np.newaxis, :]) ** 2
    observed_disagreement = (coincidence_counts * squared_differences).sum(axis=(-1, -2))
    label_total_products = label_totals[..., :, np.newaxis] * label_totals[..., np.newaxis, :]
    expected_disagreement = ratio(
        (label_total_products * squared_differences).sum(axis=(-1, -2)), label_totals.sum(axis=-1) - 1
    )
    return np.asarray(1 - ratio(observed_disagreement, expected_disagreement))


def moments(task: Ints, value: Floats, *, units: Ints, n_units: int) -> Floats:
    """Sums over the tasks of each unit for `interval_alpha`: task, value (n,), units (tasks,) -> (units, 4)."""
    standard_scores = value - value.mean() if len(value) else value
    score_sd = np.sqrt((standard_scores**2).mean()) if len(value) else 0.0
    standard_scores = standard_scores / score_sd if score_sd > 0 else standard_scores
    n_ratings_of_task, score_sum_of_task, score_square_sum_of_task = (
        np.bincount(task, weights=summands, minlength=len(units))
        for summands in (np.ones(len(task)), standard_scores, standard_scores**2)
    )
    squared_differences_of_task = (
        2 * (n_ratings_of_task * score_square_sum_of_task - score_sum_of_task**2) / np.maximum(n_ratings_of_task - 1, 1)
    )
    task_sums = (
        np.where(n_ratings_of_task > 1, sum_of_task, 0.0)
        for sum_of_task in (squared_differences_of_task, n_ratings_of_task, score_sum_of_task, score_square_sum_of_task)
    )
    return np.stack([np.bincount(units, weights=sum_of_task, minlength=n_units) for sum_of_task in task_sums], axis=1)


def interval_alpha(moments: NDArray[Any]) -> Floats:
    """Krippendorff's alpha for numeric ratings, with squared differences, from sums of `moments`: (..., 4) -> (...).

    >>> two = moments(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 3.0, 3.0]), units=np.array([0, 1]), n_units=2)
    >>> interval_alpha(two.sum(axis=0)).item()
    1.0

    References
    ----------
    Krippendorff 2019, chapter 12 (interval data).
    """
    observed_differences, n_ratings, value_sum, square_sum = np.moveaxis(np.asarray(moments, dtype=np.float64), -1, 0)
    expected_differences = ratio(2 * (n_ratings * square_sum - value_sum**2), n_ratings - 1)
    return np.asarray(
        1 - ratio(observed_differences, np.where(expected_differences > 1e-9 * n_ratings, expected_differences, 0.0))
    )


def gini(counts: Ints) -> float:
    """Gini coefficient of the numbers of answers of annotators.

    The coefficient is 0 if all numbers are equal, near 1 if one annotator gave all answers, and NaN without answers.

    >>> gini(np.array([5, 5, 5, 5])), gini(np.array([0, 0, 0, 20]))
    (0.0, 0.75)

    References
    ----------
    Gini 1912, by the mean absolute difference.
    """
    sorted_answer_counts = np.sort(np.asarray(counts, dtype=np.float64))
    n_annotators, n_answers = len(sorted_answer_counts), sorted_answer_counts.sum()
    return (
        float(
            (2 * np.arange(1, n_annotators + 1) - n_annotators - 1) @ sorted_answer_counts / (n_annotators * n_answers)
        )
        if n_answers
        else float("nan")
    )


def effective_number(counts: Ints) -> float:
    """Effective number of annotators: the squared sum of counts divided by the sum of squared counts; NaN without
    answers.

    >>> effective_number(np.array([5, 5, 5, 5])), effective_number(np.array([8, 1, 1]))
    (4.0, 1.5151515151515151)

    References
    ----------
    Kish 1965.
    """
    n_answers_of_annotator = np.asarray(counts, dtype=np.float64)
    return (
        float(n_answers_of_annotator.sum() ** 2 / (n_answers_of_annotator**2).sum())
        if n_answers_of_annotator.any()
        else float("nan")
    )


class Taste(NamedTuple):
    """Intraclass correlation of the answers of annotators; NaN if undefined.

    `icc` is the correlation of two answers by the same annotator to different items of a group, minus the correlation
    of two answers by different annotators. `error` is the standard error of `icc` over annotators. The standard error
    requires at least two annotators who answered twice in a group. `answers_per_annotator` is the mean number of
    answers of an annotator in a group, weighted by answers. `effect` is the design effect of proportions of answers.
    """

    icc: float
    error: float
    answers_per_annotator: float
    effect: float


def taste(group: Ints, item: Ints, worker: Ints, value: Floats) -> Taste:
    """Intraclass correlation within annotators, from arrays (n,) with one answer per annotator and item of a group.

    The correlation compares two mean products of answers to different items: products of answers by the same annotator,
    and products of answers by different annotators. So shared items do not matter. The standard error is a jackknife
    over annotators, in at most `MOST_BLOCKS` blocks.

    >>> worker, item = np.repeat(np.arange(4), 5), np.arange(20)
    >>> result = taste(np.zeros(20, dtype=int), item, worker, np.repeat([1.0, -1.0, 1.0, -1.0], 5))
    >>> round(result.icc, 9), result.answers_per_annotator
    (1.0, 5.0)

    References
    ----------
    Ours, a moment estimator; Kish 1965 for the design effect 1 + (k - 1) rho.
    """
    icc = _icc(group, item, worker, value, np.ones(len(value), dtype=np.bool_))
    distinct_annotators, annotator_index_of_answer = np.unique(worker, return_inverse=True)
    n_blocks = min(len(distinct_annotators), MOST_BLOCKS)
    icc_without_block = np.array(
        [
            _icc(group, item, worker, value, annotator_index_of_answer % n_blocks != block_number)
            for block_number in range(n_blocks)
        ]
    )
    is_error_defined = np.isfinite(icc_without_block).all() and n_blocks > 1
    standard_error = (
        float(np.sqrt((n_blocks - 1) / n_blocks * ((icc_without_block - icc_without_block.mean()) ** 2).sum()))
        if is_error_defined
        else float("nan")
    )
    _, n_answers_of_annotator = np.unique(np.stack([group, worker]), axis=1, return_counts=True)
    mean_answers_per_annotator = (
        float((n_answers_of_annotator**2).sum() / n_answers_of_annotator.sum())
        if len(n_answers_of_annotator)
        else float("nan")
    )
    return Taste(
        icc,
        standard_error,
        mean_answers_per_annotator,
        1 + (mean_answers_per_annotator - 1) * max(icc, 0.0) if np.isfinite(icc) else float("nan"),
    )


def _icc(group: Ints, item: Ints, worker: Ints, value: Floats, is_used_answer: Bools) -> float:
    item, worker, value = item[is_used_answer], worker[is_used_answer], value[is_used_answer]
    _, group_of_answer = np.unique(group[is_used_answer], return_inverse=True)
    n_groups = int(group_of_answer.max(initial=-1)) + 1

    def sum_by_group(values: Floats) -> Floats:
        return np.bincount(group_of_answer, weights=values, minlength=n_groups).astype(np.float64)

    n_answers_of_group = sum_by_group(np.ones(len(value)))
    # Answers are centred on the mean of the group. Otherwise, products would depend on this mean if some items have
    # more answers than others.
    deviation_from_group_mean = value - (sum_by_group(value) / np.maximum(n_answers_of_group, 1))[group_of_answer]
    # 0 instead of the rounding error of equal answers
    value = np.where(np.abs(deviation_from_group_mean) <= _SAME * np.abs(value), 0.0, deviation_from_group_mean)
    value = value / unit_of(value)

    def sum_cells(worker_or_item: Ints) -> tuple[Ints, Ints, Floats, Floats]:
        """The group of each cell of answers, the cell of each answer, and two sums over the cells of each group: the
        sum of squared totals and the sum of squared sizes."""
        n_codes = int(worker_or_item.max(initial=0)) + 1
        cell_codes, cell_of_answer = np.unique(group_of_answer * n_codes + worker_or_item, return_inverse=True)
        group_of_cell, value_sum_of_cell, n_answers_of_cell = (
            cell_codes // n_codes,
            np.bincount(cell_of_answer, weights=value),
            np.bincount(cell_of_answer, minlength=len(cell_codes)),
        )
        square_sums_by_group = (
            np.bincount(group_of_cell, weights=sums_or_counts**2.0, minlength=n_groups)
            for sums_or_counts in (value_sum_of_cell, n_answers_of_cell)
        )
        return group_of_cell, cell_of_answer, *square_sums_by_group

    value_sum_of_group, value_square_sum_of_group = sum_by_group(value), sum_by_group(value**2)
    group_of_cell, cell_of_answer, square_sum_of_worker_cells, n_pairs_within_worker = sum_cells(worker)
    _, _, square_sum_of_item_cells, n_pairs_within_item = sum_cells(item)
    n_unrelated_pairs = n_answers_of_group**2 - n_pairs_within_worker - n_pairs_within_item + n_answers_of_group
    mean_unrelated_product = ratio(
        value_sum_of_group**2 - square_sum_of_worker_cells - square_sum_of_item_cells + value_square_sum_of_group,
        n_unrelated_pairs,
    )
    # Weights: number of answers minus one, so that the most active annotators do not dominate.
    n_answers_of_cell = np.bincount(cell_of_answer, minlength=len(group_of_cell))
    weighted_product_of_cell = ratio(
        np.bincount(cell_of_answer, weights=value) ** 2 - np.bincount(cell_of_answer, weights=value**2),
        n_answers_of_cell,
    )
    is_used_cell = (n_answers_of_cell > 1) & (n_unrelated_pairs[group_of_cell] > 0)
    weight_of_cell, expected_product_of_cell = (
        (n_answers_of_cell - 1)[is_used_cell],
        mean_unrelated_product[group_of_cell][is_used_cell],
    )
    excess_product_sum = (
        weighted_product_of_cell[is_used_cell].sum() - (weight_of_cell * expected_product_of_cell).sum()
    )
    largest_excess_product_sum = (
        weight_of_cell
        * (
            (value_square_sum_of_group / np.maximum(n_answers_of_group, 1))[group_of_cell][is_used_cell]
            - expected_product_of_cell
        )
    ).sum()
    return (
        float(np.clip(excess_product_sum / largest_excess_product_sum, -1.0, 1.0))
        if largest_excess_product_sum > _SAME * weight_of_cell.sum()
        else float("nan")
    )


class ClusteredMargins(NamedTuple):
    """Margins of pairs (pairs,), with bounds and the two-sided p-value of "no difference".

    `people` is the number of annotators of each pair, and `effective` is their effective number. Bounds and p-value are
    NaN with fewer annotators than `FEWEST_ANNOTATORS`.
    """

    margin: Floats
    low: Floats
    high: Floats
    p: Floats
    people: Ints
    effective: Floats


def clustered_margins(pair: Ints, worker: Ints, value: Floats, *, pairs: int, confidence: float) -> ClusteredMargins:
    """Mean preferences with standard errors clustered by annotator.

    The variance is that of sums over annotators, times G / (G - 1) for G annotators. The degrees of freedom of t are
    the effective number of annotators minus one, so that a few very active annotators do not count as many annotators.
    The result is valid for a sample of fixed size.

    Parameters
    ----------
    pair, worker : arrays of int of shape (n,)
        The pair of systems and the annotator of each answer, from 0.
    value : array of shape (n,)
        1, 0 or -1 for the first system of the pair.
    pairs : int
        Number of pairs.
    confidence : float
        Level of the intervals.

    Returns
    -------
    ClusteredMargins

    References
    ----------
    Liang and Zeger 1986; Kish 1965 and Carter, Schnepel and Steigerwald 2017 for the effective number.

    Examples
    --------
    >>> worker = np.repeat(np.arange(12), 5)
    >>> value = np.where(worker < 9, 1.0, -1.0)
    >>> result = clustered_margins(np.zeros(60, dtype=int), worker, value, pairs=1, confidence=0.95)
    >>> result.margin.tolist(), result.people.tolist(), result.low.round(2).tolist(), result.high.round(2).tolist()
    ([0.5], [12], [-0.07], [1.0])
    """
    from scipy.special import stdtr, stdtrit

    pair_and_worker_of_cell, cell_of_answer = np.unique(np.stack([pair, worker]), axis=1, return_inverse=True)
    cell_of_answer = cell_of_answer.reshape(-1)
    n_answers_of_cell = np.bincount(cell_of_answer, minlength=pair_and_worker_of_cell.shape[1]).astype(np.float64)
    value_sum_of_cell = np.bincount(cell_of_answer, weights=value, minlength=pair_and_worker_of_cell.shape[1])

    def sum_by_pair(cell_values: NDArray[Any]) -> Floats:
        return np.bincount(pair_and_worker_of_cell[0], weights=cell_values, minlength=pairs).astype(np.float64)

    n_answers_of_pair, n_annotators_of_pair = (
        sum_by_pair(n_answers_of_cell),
        np.bincount(pair_and_worker_of_cell[0], minlength=pairs),
    )
    margins, effective_n_annotators = (
        ratio(sum_by_pair(value_sum_of_cell), n_answers_of_pair),
        ratio(n_answers_of_pair**2, sum_by_pair(n_answers_of_cell**2)),
    )
    squared_residual_sums = sum_by_pair(
        (value_sum_of_cell - n_answers_of_cell * margins[pair_and_worker_of_cell[0]]) ** 2
    )
    standard_error = np.sqrt(
        ratio(squared_residual_sums * n_annotators_of_pair, n_annotators_of_pair - 1.0)
    ) / np.maximum(n_answers_of_pair, 1)
    has_enough_annotators = (n_annotators_of_pair >= FEWEST_ANNOTATORS) & (effective_n_annotators > 1)
    degrees_of_freedom = np.where(has_enough_annotators, effective_n_annotators - 1, 1.0)
    half_width = stdtrit(degrees_of_freedom, (1 + confidence) / 2) * standard_error
    with np.errstate(divide="ignore", invalid="ignore"):
        t_statistics = np.where(margins == 0, 0.0, np.abs(margins) / standard_error)
    unmasked_bounds_and_p = (
        np.clip(margins - half_width, -1, 1),
        np.clip(margins + half_width, -1, 1),
        2 * stdtr(degrees_of_freedom, -t_statistics),
    )
    low, high, p_values = (
        np.where(has_enough_annotators, pair_values, np.nan) for pair_values in unmasked_bounds_and_p
    )
    return ClusteredMargins(margins, low, high, p_values, n_annotators_of_pair, effective_n_annotators)
