"""The estimator `ppi`: prediction-powered inference (PPI++) from few human labels and many metric labels."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import Counts, Estimate, Estimator
from custodes.stats.ratios import ratio

_SIGN = np.array([1, 0, -1])  # win, tie, loss
_NORMAL_FROM = 50  # minimum number of labels for normal quantiles
_WORST_ERROR = 2  # the error if the metric's label is `win` and the human label is `loss`
_NOISE = 1e-12  # smaller variances of the labels -1, 0, 1 are rounding errors


def ppi_margin(counts: Counts) -> tuple[Floats, Floats, Floats]:
    """Return the PPI++ estimate of the margin for tables (...), its standard error, and the degrees of freedom of its
    t quantiles, all (...). The estimate is not clipped to [-1, 1]. Infinite degrees of freedom mean the normal
    distribution.

    Labels are +1, 0, -1. The metric's labels of all items predict the human labels with the power-tuning weight lambda,
    and the paired items correct the bias of this prediction (rectifier). Without metric-only items, the estimate is the
    mean of the human labels. Items with a human label but no metric label give a second, independent estimate, whose
    variance is computed from all human labels. The two estimates are combined with inverse-variance weights.

    If the rectified labels do not vary at all, their variance cannot be estimated. Then a further item with the largest
    possible error is assumed, so that a few equal labels do not lead to a decision. With fewer than 50 human labels,
    the degrees of freedom of t quantiles are the number of labels - 1. The margin is NaN without human labels; the
    error is NaN with fewer than two human labels.

    >>> margin, error, freedom = ppi_margin(
    ...     Counts(np.array([[30, 5, 5], [5, 15, 5], [4, 6, 25]]), np.array([400, 200, 400]), np.zeros(3))
    ... )
    >>> round(float(margin), 3), round(float(error), 3), float(freedom)
    (0.029, 0.07, inf)

    Source: Angelopoulos, Duchi and Zrnic 2023, "PPI++", Section 6 (power tuning) for the mean.
    """
    paired_counts, metric_only_counts, human_only_counts = (
        np.asarray(count_table, dtype=np.float64) for count_table in counts
    )
    paired_human_counts, paired_metric_counts = paired_counts.sum(axis=-1), paired_counts.sum(axis=-2)
    n_paired, n_metric_only, n_human_only = (
        paired_human_counts.sum(axis=-1),
        metric_only_counts.sum(axis=-1),
        human_only_counts.sum(axis=-1),
    )

    mean_paired_human_label, mean_paired_metric_label, mean_metric_only_label = (
        _mean_label(paired_human_counts),
        _mean_label(paired_metric_counts),
        _mean_label(metric_only_counts),
    )
    label_product_sum = np.einsum("...hm,h,m->...", paired_counts, _SIGN, _SIGN)
    label_covariance = ratio(label_product_sum, n_paired) - mean_paired_human_label * mean_paired_metric_label
    all_metric_counts = paired_metric_counts + metric_only_counts
    n_metric_labels = n_paired + n_metric_only
    metric_label_variance = _label_variance(all_metric_counts) * ratio(n_metric_labels, n_metric_labels - 1)
    # lambda as in ppi_py, clipped to [0, 1]; 0 if there are no metric-only items or the metric's labels do not vary
    power_tuning_weight = ratio(label_covariance, (1 + ratio(n_paired, n_metric_only)) * metric_label_variance)
    power_tuning_weight = np.where(
        (n_metric_only > 0) & (metric_label_variance > _NOISE), np.clip(power_tuning_weight, 0, 1), 0.0
    )

    rectified_label_variance = (
        _label_variance(paired_human_counts)
        - 2 * power_tuning_weight * label_covariance
        + power_tuning_weight**2 * _label_variance(paired_metric_counts)
    )
    weighted_metric_only_mean_variance = np.where(
        power_tuning_weight > 0, power_tuning_weight**2 * ratio(_label_variance(metric_only_counts), n_metric_only), 0.0
    )
    ppi_estimate_variance = (
        ratio(_positive_variance(rectified_label_variance, n_paired), n_paired) + weighted_metric_only_mean_variance
    )
    ppi_estimate = mean_paired_human_label + np.where(
        power_tuning_weight > 0, power_tuning_weight * (mean_metric_only_label - mean_paired_metric_label), 0.0
    )

    n_human_labels = n_paired + n_human_only
    human_only_mean_variance = ratio(
        _positive_variance(_label_variance(paired_human_counts + human_only_counts), n_human_labels), n_human_only
    )
    ppi_estimate_weight = np.where(
        n_human_only == 0,
        1.0,
        np.where(n_paired == 0, 0.0, human_only_mean_variance / (human_only_mean_variance + ppi_estimate_variance)),
    )
    return (
        _blend(ppi_estimate_weight, ppi_estimate, _mean_label(human_only_counts)),
        np.where(
            n_human_labels > 1,
            np.sqrt(
                _blend(
                    ppi_estimate_weight**2,
                    ppi_estimate_variance,
                    human_only_mean_variance,
                    second_weight=(1 - ppi_estimate_weight) ** 2,
                )
            ),
            np.nan,
        ),
        np.where(n_human_labels < _NORMAL_FROM, n_human_labels - 1, np.inf),
    )


def _blend(
    first_weight: Floats, first_term: Floats, second_term: Floats, second_weight: Floats | None = None
) -> Floats:
    """Return the weighted sum of two terms; `second_weight` is 1 - `first_weight` by default. A term of weight 0 may be
    undefined."""
    weight_of_second = 1 - first_weight if second_weight is None else second_weight
    return np.where(first_weight > 0, first_weight * first_term, 0.0) + np.where(
        weight_of_second > 0, weight_of_second * second_term, 0.0
    )


def _positive_variance(variance: Floats, n_labels: Floats) -> Floats:
    """Return the variance of n labels; if all labels are equal, one more label with the largest error is assumed."""
    return np.where(variance > _NOISE, variance, ratio(np.full_like(n_labels, _WORST_ERROR**2), n_labels))


def _mean_label(outcome_counts: Floats) -> Floats:
    return ratio(outcome_counts @ _SIGN, outcome_counts.sum(axis=-1))


def _label_variance(outcome_counts: Floats) -> Floats:
    return ratio(outcome_counts @ _SIGN**2, outcome_counts.sum(axis=-1)) - _mean_label(outcome_counts) ** 2


PPI = Estimator(
    name="ppi",
    estimate=lambda counts, confidence, **_: Estimate.from_student_t(*ppi_margin(counts), confidence=confidence),
    point=lambda counts: ppi_margin(counts)[0],
)
