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
from custodes.stats.ranks import SortedRows, mid_ranks

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

    Let g be the difference between two outputs, its sign for 'kendall', or the difference of ranks for 'spearman'. The
    first sum is over g^2 of the human scores. For each prediction, two sums follow: over the product of the human g and
    the predicted g, and over g^2 of the prediction. For 'accuracy', the first sum is the number of pairs of one item
    without a human tie. Each of the two sums of a prediction is the number of these pairs that are predicted in the
    human order.

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
        The sums (q, rows) of each row over its pairs with all outputs; the sums (q, n) of each output over its pairs
        with the rows; and the sums (labels, q, rows) of each row over the outputs with the same label.

    Examples
    --------
    >>> scores, predictions, item = np.array([1.0, 2, 3]), np.array([[1.0, 3, 2]]), np.zeros(3, int)
    >>> row_sums, *_ = pair_sums("kendall", scores, predictions, np.arange(3), item, (np.arange(3), np.arange(3)))
    >>> row_sums.tolist()
    [[2.0, 2.0, 2.0], [2.0, 0.0, 0.0], [2.0, 2.0, 2.0]]
    """
    scores = np.vstack([human_scores, predicted_scores])
    if kind == "spearman":
        scores = mid_ranks(scores)
    if kind == "kendall" and _FEW * len(rows) < len(human_scores):
        return _sum_pair_signs(scores, rows, labels)
    sum_function_of_kind: dict[Objective, Callable[[Floats, Ints, Floats], Floats]] = {
        "kendall": _sign_sums,
        "spearman": _difference_sums,
        "pearson": _difference_sums,
        "accuracy": partial(_order_sums, item_of_output),
    }
    compute_sums = sum_function_of_kind[kind]
    single_label, equal_weights = np.zeros(len(human_scores), dtype=np.intp), np.ones(len(human_scores))
    row_sums, *same_label_sums = (
        compute_sums(scores, label_of_output, equal_weights)[:, rows] for label_of_output in (single_label, *labels)
    )
    row_counts = np.bincount(rows, minlength=len(human_scores)).astype(np.float64)
    return row_sums, compute_sums(scores, single_label, row_counts), np.stack(same_label_sums)


def _sum_pair_signs(
    scores: Floats, output_indices: NDArray[np.intp], labels: Sequence[Ints]
) -> tuple[Floats, Floats, Floats]:
    """The result of `pair_sums` for scores (1 + m, n), computed from the signs of the differences of all pairs. Small
    integers are exact in single precision."""
    n_sign_products, labels_of_outputs = 2 * len(scores) - 1, np.stack(labels)
    row_sums, column_sums = (
        np.empty((n_sign_products, len(output_indices))),
        np.zeros((n_sign_products, scores.shape[1])),
    )
    same_label_sums = np.empty((len(labels), *row_sums.shape))
    for row_slice in chunks(len(output_indices), n_sign_products * scores.shape[1]):
        signs = np.sign(scores[:, output_indices[row_slice], np.newaxis] - scores[:, np.newaxis]).astype(np.float32)
        sign_products = np.empty((n_sign_products, *signs.shape[1:]), dtype=np.float32)
        sign_products[::2], sign_products[1::2] = signs * signs, signs[0] * signs[1:]
        row_sums[:, row_slice] = sign_products.sum(axis=2)
        column_sums += sign_products.sum(axis=1)
        has_same_label = labels_of_outputs[:, output_indices[row_slice], np.newaxis] == labels_of_outputs[:, np.newaxis]
        same_label_sums[:, :, row_slice] = [
            np.vecdot(sign_products, mask) for mask in has_same_label.astype(np.float32)
        ]
    return row_sums, column_sums, same_label_sums


def _sign_sums(human_and_predicted_scores: Floats, label_of_output: Ints, output_weights: Floats) -> Floats:
    """Sums of signs over the outputs with the same label, weighted by `output_weights` (n,): (1 + m, n) -> (1 + 2 m,
    n)."""
    rank_codes = np.stack([np.unique(scores, return_inverse=True)[1] for scores in human_and_predicted_scores])
    rank_codes += rank_codes.shape[1] * label_of_output  # two outputs with different labels are then always concordant
    weight_of_label = np.bincount(label_of_output, output_weights)
    label_weights = weight_of_label[label_of_output]
    sign_sums = np.empty((2 * len(rank_codes) - 1, len(label_weights)))
    sign_sums[::2] = label_weights - SortedRows.from_values(rank_codes).tie_counts(output_weights)
    n_between_labels = weight_of_label.sum() - label_weights
    sign_sums[1::2] = concordance(rank_codes[1:], rank_codes[:1], weights=output_weights) - n_between_labels
    return sign_sums


def _difference_sums(human_and_predicted_scores: Floats, label_of_output: Ints, output_weights: Floats) -> Floats:
    """Sums of differences instead of signs, in closed form.

    The sum of (a_i - a_j)(b_i - b_j) over j is n a_i b_i - a_i sum(b) - b_i sum(a) + sum(ab).
    """
    scores = human_and_predicted_scores - human_and_predicted_scores.mean(axis=1, keepdims=True)

    def sum_by_label(summands: Floats) -> Floats:
        sums_of_labels = unit_sums(summands * output_weights, units=label_of_output, n_units=label_of_output.max() + 1)
        return sums_of_labels[..., label_of_output]

    n_same, score_sums, human = sum_by_label(np.ones(scores.shape[1])), sum_by_label(scores), scores[0]
    difference_sums = np.empty((2 * len(scores) - 1, scores.shape[1]))
    difference_sums[::2] = n_same * scores**2 - 2 * scores * score_sums + sum_by_label(scores**2)
    difference_sums[1::2] = (
        n_same * human * scores - human * score_sums - scores * score_sums[0] + sum_by_label(human * scores)
    )[1:]
    return difference_sums


def _order_sums(
    item_of_output: Ints, human_and_predicted_scores: Floats, label_of_output: Ints, output_weights: Floats
) -> Floats:
    """Weighted numbers of pairs of outputs with the same item and label, instead of sums of signs; see `pair_sums`."""
    human_scores, predicted_scores = human_and_predicted_scores[0], human_and_predicted_scores[1:]
    pairs = ordered_pairs(human_scores, item_of_output * (label_of_output.max() + 1) + label_of_output)
    is_correct_prediction = np.greater(*(predicted_scores[:, outputs] for outputs in pairs))
    summands = np.vstack([np.ones(len(pairs[0])), np.repeat(is_correct_prediction, 2, axis=0)])
    return sum(
        (
            unit_sums(summands * output_weights[others], units=outputs, n_units=len(label_of_output))
            for outputs, others in (pairs, pairs[::-1])
        ),
        start=np.zeros(()),
    )
