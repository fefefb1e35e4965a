"""Sums over pairs of outputs, by output. Agreement coefficients and the influence of outputs are computed from these
sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.bootstrap import unit_sums
from custodes.stats.correlation import concordance, tie_counts
from custodes.stats.learning.objective import Objective, ordered_pairs

_FEW = 8  # below this proportion of the outputs, 1 / 8, comparing rows with all outputs is faster than sorting


class PairSums(NamedTuple):
    """Sums for some of the n outputs (the rows), over the pairs of each row with all n outputs.

    `row` (q, rows) are the sums for each of the rows over all outputs. `column` (q, n) are the sums for each output
    over the rows. `inside` (2, q, rows) are the sums for each of the rows over the outputs of the same unit, and over
    the outputs of the same system.
    """

    row: Floats
    column: Floats
    inside: Floats


def pair_sums(
    kind: Objective, human: Floats, predicted: Floats, rows: NDArray[np.intp], item: Ints, labels: tuple[Ints, Ints]
) -> PairSums:
    """Sums over pairs of some outputs with all outputs, from which an agreement coefficient is computed: q = 1 + 2 m
    sums.

    Let g be the difference between two outputs, or its sign for 'kendall'. The first sum is over g^2 of the human
    scores. For each prediction, two sums follow: over the product of the human g and the predicted g, and over g^2 of
    the prediction. For 'accuracy', the first sum is the number of pairs of one item without a human tie. Each of the
    two sums of a prediction is the number of these pairs that are predicted in the human order.

    Parameters
    ----------
    kind
        The coefficient.
    human, predicted
        Scores (n,) and predictions (m, n), finite.
    rows
        The outputs (rows,) to compare with all outputs.
    item
        The item of each output (n,). Each item lies in one unit and has at most one output of each system.
    labels
        The unit and the system of each output (n,).

    Returns
    -------
    :
        The sums by output.

    Examples
    --------
    >>> sums = pair_sums("kendall", np.array([1.0, 2, 3]), np.array([[1.0, 3, 2]]), np.arange(3), np.zeros(3, int),
    ...     (np.arange(3), np.arange(3)))
    >>> sums.row.tolist()
    [[2.0, 2.0, 2.0], [2.0, 0.0, 0.0], [2.0, 2.0, 2.0]]
    """
    if kind == "accuracy":
        return _item_pair_sums(human, predicted, rows, item)
    n, values = len(human), np.vstack([human, predicted])
    if kind == "kendall" and _FEW * len(rows) < n:
        return _sum_pair_signs(values, rows, labels)
    compute_sums = _signs if kind == "kendall" else _difference_sums
    one_label, row_weight = np.zeros(n, dtype=np.intp), np.bincount(rows, minlength=n).astype(np.float64)
    sums_of_all = compute_sums(values, one_label, None)
    column = sums_of_all if len(rows) == n else compute_sums(values, one_label, row_weight)
    return PairSums(
        sums_of_all[:, rows], column, np.stack([compute_sums(values, label, None)[:, rows] for label in labels])
    )


def _sum_pair_signs(values: Floats, rows: NDArray[np.intp], labels: tuple[Ints, Ints]) -> PairSums:
    """Sums from the signs of all pairs, in blocks of outputs, given values (1 + m, n). Small integers are exact in
    single precision."""
    n, n_sums = values.shape[1], 2 * len(values) - 1
    sums = PairSums(np.zeros((n_sums, len(rows))), np.zeros((n_sums, n)), np.zeros((2, n_sums, len(rows))))
    for chunk in chunks(len(rows), 2 * n):
        row_indices = rows[chunk]
        human_signs, *metric_signs = (
            np.sign(scores[row_indices, np.newaxis] - scores).astype(np.float32) for scores in values
        )
        label_matches = [(label[row_indices, np.newaxis] == label).astype(np.float32) for label in labels]
        products = [
            human_signs * human_signs,
            *(product for sign in metric_signs for product in (human_signs * sign, sign * sign)),
        ]
        for q, product in enumerate(products):
            sums.row[q, chunk] = product.sum(axis=1, dtype=np.float64)
            sums.column[q] += product.sum(axis=0, dtype=np.float64)
            sums.inside[:, q, chunk] = [np.einsum("rn,rn->r", product, is_match) for is_match in label_matches]
    return sums


def _signs(values: Floats, label: Ints, output_weights: Floats | None) -> Floats:
    """Sums of signs over the outputs with the same label, weighted by `output_weights` (default 1): (1 + m, n) -> (1 +
    2 m, n)."""
    n = values.shape[1]
    codes = np.stack([np.unique(row, return_inverse=True)[1].reshape(n) for row in values])
    codes += n * label  # two outputs with different labels are then always concordant
    label_weights = np.bincount(label, output_weights)
    weight_of_label = label_weights[label]
    result = np.empty((2 * len(values) - 1, n))
    result[::2] = weight_of_label - tie_counts(codes, weights=output_weights)
    result[1::2] = concordance(codes[1:], codes[:1], weights=output_weights) - (label_weights.sum() - weight_of_label)
    return result


def _difference_sums(values: Floats, label: Ints, output_weights: Floats | None) -> Floats:
    """Sums of differences instead of signs, in closed form.

    The sum of (a_i - a_j)(b_i - b_j) over j is n a_i b_i - a_i sum(b) - b_i sum(a) + sum(ab).
    """
    values = values - values.mean(axis=1, keepdims=True)
    weights_or_one = np.ones(len(label)) if output_weights is None else output_weights

    def sum_by_label(summands: Floats) -> Floats:
        return unit_sums(summands * weights_or_one, units=label, n_units=int(label.max()) + 1)[..., label]

    weight_of_label, value_sums, human = sum_by_label(np.ones(len(label))), sum_by_label(values), values[0]
    result = np.empty((2 * len(values) - 1, len(label)))
    result[::2] = weight_of_label * values**2 - 2 * values * value_sums + sum_by_label(values**2)
    result[1::2] = (
        weight_of_label * human * values - human * value_sums - values * value_sums[0] + sum_by_label(human * values)
    )[1:]
    return result


def _item_pair_sums(human: Floats, predicted: Floats, rows: NDArray[np.intp], item: Ints) -> PairSums:
    """Sums for 'accuracy', over pairs of outputs of one item. Such a pair lies in one unit and never in one system."""
    n, row_weight = len(human), np.bincount(rows, minlength=len(human)).astype(np.float64)
    better, worse = ordered_pairs(human, item)
    is_correct = np.repeat(predicted[:, better] > predicted[:, worse], 2, axis=0)
    values = np.vstack([np.ones(len(better)), is_correct])
    sums_of_all, column_sums = (
        unit_sums(values * output_weights[worse], units=better, n_units=n)
        + unit_sums(values * output_weights[better], units=worse, n_units=n)
        for output_weights in (np.ones(n), row_weight)
    )
    row_sums = sums_of_all[:, rows]
    return PairSums(row_sums, column_sums, np.stack([row_sums, np.zeros_like(row_sums)]))
