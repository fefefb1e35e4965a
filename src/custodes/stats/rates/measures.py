"""Agreement of a judge's labels with human labels; the axes of each table are (..., judge's label, human label)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from custodes.stats.arrays import Floats
from custodes.stats.favi_score import sample_accuracy
from custodes.stats.ratios import mean_of_defined, ratio
from custodes.stats.reliability import alpha, pair_coincidences


def sensitivity(table: Floats) -> Floats:
    """Return the TPR (sensitivity, recall), P(judge's label positive | human label positive): tables (..., 2, 2)."""
    return ratio(table[..., 1, 1], table[..., :, 1].sum(axis=-1))


def specificity(table: Floats) -> Floats:
    """Return the TNR (specificity), P(judge's label negative | human label negative): tables (..., 2, 2)."""
    return ratio(table[..., 0, 0], table[..., :, 0].sum(axis=-1))


def balanced_accuracy(table: Floats) -> Floats:
    """Return the mean recall over the human labels that occur, for tables (..., k, k)."""
    return mean_of_defined(ratio(np.diagonal(table, axis1=-2, axis2=-1), table.sum(axis=-2)))


def f1(table: Floats) -> Floats:
    """Return the F1 of the positive label or, with more than two labels, the mean F1 over the labels that occur.

    Tables have shape (..., k, k).
    """
    f1_of_label = ratio(2 * np.diagonal(table, axis1=-2, axis2=-1), table.sum(axis=-1) + table.sum(axis=-2))
    return f1_of_label[..., 1] if table.shape[-1] == 2 else mean_of_defined(f1_of_label)


def mcc(table: Floats) -> Floats:
    """Return the Matthews correlation coefficient for tables (..., k, k); NaN if a rater uses only one label.

    >>> mcc(np.array([[40.0, 10.0], [10.0, 40.0]])).round(3).item()
    0.6

    References
    ----------
    Matthews 1975; Gorodkin 2004 (several labels).
    """
    n_outputs, n_equal_labels = table.sum(axis=(-2, -1)), np.trace(table, axis1=-2, axis2=-1)
    judge_label_counts, human_label_counts = table.sum(axis=-1), table.sum(axis=-2)
    variance_product = (n_outputs**2 - (judge_label_counts**2).sum(axis=-1)) * (
        n_outputs**2 - (human_label_counts**2).sum(axis=-1)
    )
    return ratio(
        n_equal_labels * n_outputs - (judge_label_counts * human_label_counts).sum(axis=-1),
        np.sqrt(np.maximum(variance_product, 0.0)),
    )


def kappa(table: Floats, *, ordered: bool = False) -> Floats:
    """Return Cohen's kappa for tables (..., k, k), with quadratic weights of disagreements if labels are ordered.

    Kappa is NaN if judge and annotators always give the same single label.

    >>> kappa(np.array([[40.0, 10.0], [10.0, 40.0]])).round(3).item()
    0.6

    References
    ----------
    Cohen 1960, 1968.
    """
    label_distances = np.subtract.outer(np.arange(table.shape[-1]), np.arange(table.shape[-1]))
    disagreement_weights = label_distances**2 if ordered else label_distances != 0
    expected_table = ratio(
        table.sum(axis=-1)[..., :, None] * table.sum(axis=-2)[..., None, :], table.sum(axis=(-2, -1), keepdims=True)
    )
    return 1 - ratio(
        (disagreement_weights * table).sum(axis=(-2, -1)), (disagreement_weights * expected_table).sum(axis=(-2, -1))
    )


def ac1(table: Floats) -> Floats:
    """Return Gwet's AC1 for tables (..., k, k).

    >>> ac1(np.array([[90.0, 5.0], [5.0, 0.0]])).round(3).item()
    0.89

    References
    ----------
    Gwet 2008.
    """
    n_outputs, n_distinct_labels = table.sum(axis=(-2, -1)), table.shape[-1]
    label_shares = ratio(table.sum(axis=-1) + table.sum(axis=-2), 2 * n_outputs[..., None])
    chance_agreement = (label_shares * (1 - label_shares)).sum(axis=-1) / (n_distinct_labels - 1)
    return ratio(sample_accuracy(table) - chance_agreement, 1 - chance_agreement)


def krippendorff(table: Floats, n_outputs: float, *, ordered: bool) -> Floats:
    """Return Krippendorff's alpha for tables (..., k, k) of proportions; `n_outputs` outputs have both labels."""
    return alpha(pair_coincidences(table) * n_outputs, scale="ordinal" if ordered else "nominal")


BINARY: Mapping[str, Callable[[Floats], Floats]] = {
    "tpr": sensitivity,
    "tnr": specificity,
    "ppv": lambda table: sensitivity(table.swapaxes(-1, -2)),
    "npv": lambda table: specificity(table.swapaxes(-1, -2)),
}
"""Measures for two labels, of which the second is positive: TPR, TNR, PPV (precision) and NPV."""

GENERAL: Mapping[str, Callable[[Floats], Floats]] = {
    "accuracy": sample_accuracy,
    "balanced_accuracy": balanced_accuracy,
    "f1": f1,
    "mcc": mcc,
    "ac1": ac1,
}
"""Measures for two or more labels, except kappa and alpha, which depend on whether labels are ordered."""
