"""Sums over pairs of outputs, by output. Agreement coefficients and the influence of outputs are computed from the sums
over pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.bootstrap import unit_sums
from custodes.stats.correlation import concordance
from custodes.stats.learning.objective import Objective, ordered_pairs
from custodes.stats.ranks import SortedRows

_FEW = 8  # below this proportion of the outputs, 1 / 8, comparing rows with all outputs is faster than sorting


def pair_sums(
    kind: Objective,
    human_scores: Floats,
    predicted_scores: Floats,
    rows: NDArray[np.intp],
    item_of_output: Ints,
    labels: Sequence[Ints],
) -> tuple[Floats, Floats, Floats]:
    """Sums over the pairs of some outputs with all outputs: q = 1 + 2 m sums, from which an agreement coefficient is
    computed.

    Let g be the difference between two outputs, or its sign for 'kendall'. The first sum is over g^2 of the human
    scores. For each prediction, two sums follow: over the product of the human g and the predicted g, and over g^2 of
    the prediction. For 'accuracy', the first sum is the number of pairs of one item without a human tie. Each of the
    two sums of a prediction is the number of these pairs that are predicted in the human order.

    Parameters
    ----------
    kind
        The coefficient.
    human_scores, predicted_scores
        Scores (n,) and predictions (m, n), finite.
    rows
        The outputs (rows,) to compare with all outputs.
    item_of_output
        The item of each output (n,). Each item lies in one unit and has at most one output of each system.
    labels
        Labels of each output (n,): its unit, and its system.

    Returns
    -------
    :
        The sums (q, rows) of each of the rows over its pairs with all outputs; the sums (q, n) of each output over its
        pairs with the rows; and the sums (labels, q, rows) of each of the rows over the outputs with the same label.

    Examples
    --------
    >>> scores, predictions, item = np.array([1.0, 2, 3]), np.array([[1.0, 3, 2]]), np.zeros(3, int)
    >>> row_sums, *_ = pair_sums("kendall", scores, predictions, np.arange(3), item, (np.arange(3), np.arange(3)))
    >>> row_sums.tolist()
    [[2.0, 2.0, 2.0], [2.0, 0.0, 0.0], [2.0, 2.0, 2.0]]
    """
    n_outputs, human_and_predicted_scores = len(human_scores), np.vstack([human_scores, predicted_scores])
    if kind == "kendall" and _FEW * len(rows) < n_outputs:
        return _sum_pair_signs(human_and_predicted_scores, rows, labels)
    sum_function_of_kind: dict[Objective, Callable[[Floats, Ints, Floats], Floats]] = {
        "kendall": _sign_sums,
        "spearman": _difference_sums,
        "pearson": _difference_sums,
        "accuracy": partial(_order_sums, item_of_output),
    }
    compute_sums = sum_function_of_kind[kind]
    single_label, equal_weights = np.zeros(n_outputs, dtype=np.intp), np.ones(n_outputs)
    row_sums, *same_label_sums = (
        compute_sums(human_and_predicted_scores, label_of_output, equal_weights)[:, rows]
        for label_of_output in (single_label, *labels)
    )
    if len(rows) == n_outputs:
        return row_sums, row_sums, np.stack(same_label_sums)
    row_count_of_output = np.bincount(rows, minlength=n_outputs).astype(np.float64)
    column_sums = compute_sums(human_and_predicted_scores, single_label, row_count_of_output)
    return row_sums, column_sums, np.stack(same_label_sums)


def _sum_pair_signs(
    human_and_predicted_scores: Floats, rows: NDArray[np.intp], labels: Sequence[Ints]
) -> tuple[Floats, Floats, Floats]:
    """The result of `pair_sums` for scores (1 + m, n), computed from the signs of the differences of all pairs. Small
    integers are exact in single precision."""
    n_outputs, n_sums = human_and_predicted_scores.shape[1], 2 * len(human_and_predicted_scores) - 1
    row_sums, column_sums = np.empty((n_sums, len(rows))), np.zeros((n_sums, n_outputs))
    same_label_sums = np.empty((len(labels), n_sums, len(rows)))
    for row_slice in chunks(len(rows), 2 * n_outputs):
        block_rows = rows[row_slice]
        human_signs, *predicted_signs = (
            np.sign(scores[block_rows, np.newaxis] - scores).astype(np.float32) for scores in human_and_predicted_scores
        )
        sign_products = [human_signs * human_signs]
        for signs in predicted_signs:
            sign_products += [human_signs * signs, signs * signs]
        has_same_label = [
            (label_of_output[block_rows, np.newaxis] == label_of_output).astype(np.float32)
            for label_of_output in labels
        ]
        for sum_index, sign_product in enumerate(sign_products):
            row_sums[sum_index, row_slice] = sign_product.sum(axis=1, dtype=np.float64)
            column_sums[sum_index] += sign_product.sum(axis=0, dtype=np.float64)
            same_label_sums[:, sum_index, row_slice] = [
                np.einsum("rn,rn->r", sign_product, same_label_mask) for same_label_mask in has_same_label
            ]
    return row_sums, column_sums, same_label_sums


def _sign_sums(human_and_predicted_scores: Floats, label_of_output: Ints, output_weights: Floats) -> Floats:
    """Sums of signs over the outputs with the same label, weighted by `output_weights` (n,): (1 + m, n) -> (1 + 2 m,
    n)."""
    n_outputs = human_and_predicted_scores.shape[1]
    rank_codes = np.stack(
        [np.unique(scores_of_rater, return_inverse=True)[1] for scores_of_rater in human_and_predicted_scores]
    )
    rank_codes += n_outputs * label_of_output  # two outputs with different labels are then always concordant
    weight_of_label = np.bincount(label_of_output, output_weights)
    label_weight_of_output = weight_of_label[label_of_output]
    sign_sums = np.empty((2 * len(human_and_predicted_scores) - 1, n_outputs))
    sign_sums[::2] = label_weight_of_output - SortedRows.from_values(rank_codes).tie_counts(output_weights)
    sign_sums[1::2] = concordance(rank_codes[1:], rank_codes[:1], weights=output_weights) - (
        weight_of_label.sum() - label_weight_of_output
    )
    return sign_sums


def _difference_sums(human_and_predicted_scores: Floats, label_of_output: Ints, output_weights: Floats) -> Floats:
    """Sums of differences instead of signs, in closed form.

    The sum of (a_i - a_j)(b_i - b_j) over j is n a_i b_i - a_i sum(b) - b_i sum(a) + sum(ab).
    """
    human_and_predicted_scores = human_and_predicted_scores - human_and_predicted_scores.mean(axis=1, keepdims=True)

    def sum_by_label(summands: Floats) -> Floats:
        return unit_sums(summands * output_weights, units=label_of_output, n_units=int(label_of_output.max()) + 1)[
            ..., label_of_output
        ]

    label_weight_of_output, label_score_sum_of_output, human_scores = (
        sum_by_label(np.ones(len(label_of_output))),
        sum_by_label(human_and_predicted_scores),
        human_and_predicted_scores[0],
    )
    difference_sums = np.empty((2 * len(human_and_predicted_scores) - 1, len(label_of_output)))
    difference_sums[::2] = (
        label_weight_of_output * human_and_predicted_scores**2
        - 2 * human_and_predicted_scores * label_score_sum_of_output
        + sum_by_label(human_and_predicted_scores**2)
    )
    difference_sums[1::2] = (
        label_weight_of_output * human_scores * human_and_predicted_scores
        - human_scores * label_score_sum_of_output
        - human_and_predicted_scores * label_score_sum_of_output[0]
        + sum_by_label(human_scores * human_and_predicted_scores)
    )[1:]
    return difference_sums


def _order_sums(
    item_of_output: Ints, human_and_predicted_scores: Floats, label_of_output: Ints, output_weights: Floats
) -> Floats:
    """Weighted numbers of pairs of outputs with the same item and label, instead of sums of signs; see `pair_sums`."""
    n_labels, n_outputs = int(label_of_output.max()) + 1, len(label_of_output)
    human_scores, predicted_scores = human_and_predicted_scores[0], human_and_predicted_scores[1:]
    better_outputs, worse_outputs = ordered_pairs(human_scores, item_of_output * n_labels + label_of_output)
    is_correct_prediction = predicted_scores[:, better_outputs] > predicted_scores[:, worse_outputs]
    unweighted_summands = np.vstack([np.ones(len(better_outputs)), np.repeat(is_correct_prediction, 2, axis=0)])
    return unit_sums(
        unweighted_summands * output_weights[worse_outputs], units=better_outputs, n_units=n_outputs
    ) + unit_sums(unweighted_summands * output_weights[better_outputs], units=worse_outputs, n_units=n_outputs)
