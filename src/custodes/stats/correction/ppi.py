"""The estimator `ppi`: prediction-powered inference (PPI++) from few human labels and many metric labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import Counts, Estimate, Estimator
from custodes.stats.ratios import ratio

_SIGN = np.array([1, 0, -1])  # win, tie, loss
_NORMAL_FROM = 50  # minimum number of labels for normal quantiles
_WORST_ERROR = 2  # the error if the metric's label is `win` and the human label is `loss`
_NOISE = 1e-12  # smaller variances of the labels -1, 0, 1 are rounding errors


class Margin(NamedTuple):
    """A margin p_win - p_loss (...), its standard error, and the degrees of freedom of its t quantiles (inf: normal).

    The error is NaN if there are fewer than two labels.
    """

    margin: Floats
    error: Floats
    freedom: Floats


def ppi_margin(counts: Counts) -> Margin:
    """Return the PPI++ estimate of the margin for tables (...), not clipped to [-1, 1].

    Labels are +1, 0, -1. The metric's labels of all items predict the human labels with the power-tuning weight lambda,
    and the paired items correct the bias of this prediction (rectifier). Without metric-only items, the estimate is the
    mean of the human labels. Human labels of items without metric labels give a second, independent estimate, whose
    variance is computed from all human labels. Both estimates are combined with inverse-variance weights.

    If the rectified labels do not vary at all, their variance cannot be estimated. One more item with the largest error
    is then assumed, so that a few equal labels do not lead to a decision. With fewer than 50 human labels, the degrees
    of freedom of t quantiles are the number of labels - 1. The margin is NaN without human labels; the error is NaN
    with fewer than two human labels.

    >>> margin, error, freedom = ppi_margin(
    ...     Counts(np.array([[30, 5, 5], [5, 15, 5], [4, 6, 25]]), np.array([400, 200, 400]), np.zeros(3))
    ... )
    >>> round(float(margin), 3), round(float(error), 3), float(freedom)
    (0.029, 0.07, inf)

    Source: Angelopoulos, Duchi and Zrnic 2023, "PPI++", Section 6 (power tuning) for the mean.
    """
    paired, metric_only, human_only = (np.asarray(c, dtype=np.float64) for c in counts)
    human, metric = paired.sum(axis=-1), paired.sum(axis=-2)
    n, many, alone = human.sum(axis=-1), metric_only.sum(axis=-1), human_only.sum(axis=-1)

    human_mean, metric_mean, other_mean = _mean(human), _mean(metric), _mean(metric_only)
    products = np.einsum("...hm,h,m->...", paired, _SIGN, _SIGN)
    covariance = ratio(products, n) - human_mean * metric_mean
    everything = metric + metric_only
    total = n + many
    spread = _variance(everything) * ratio(total, total - 1)
    # lambda as in ppi_py, clipped to [0, 1]; 0 if there are no metric-only items or the metric's labels do not vary
    tuned = ratio(covariance, (1 + ratio(n, many)) * spread)
    tuned = np.where((many > 0) & (spread > _NOISE), np.clip(tuned, 0, 1), 0.0)

    rectified = _variance(human) - 2 * tuned * covariance + tuned**2 * _variance(metric)
    imputed = np.where(tuned > 0, tuned**2 * ratio(_variance(metric_only), many), 0.0)
    variance = ratio(_label_variance(rectified, n), n) + imputed
    margin = human_mean + np.where(tuned > 0, tuned * (other_mean - metric_mean), 0.0)

    labels = n + alone
    own_variance = ratio(_label_variance(_variance(human + human_only), labels), alone)
    share = np.where(alone == 0, 1.0, np.where(n == 0, 0.0, own_variance / (own_variance + variance)))
    return Margin(
        margin=_blend(share, margin, _mean(human_only)),
        error=np.where(labels > 1, np.sqrt(_blend(share**2, variance, own_variance, other=(1 - share) ** 2)), np.nan),
        freedom=np.where(labels < _NORMAL_FROM, labels - 1, np.inf),
    )


def _blend(share: Floats, first: Floats, second: Floats, other: Floats | None = None) -> Floats:
    """Return share * first + other * second; `other` is 1 - share by default. A term of weight 0 may be undefined."""
    rest = 1 - share if other is None else other
    return np.where(share > 0, share * first, 0.0) + np.where(rest > 0, rest * second, 0.0)


def _label_variance(variance: Floats, n: Floats) -> Floats:
    """Return the variance of n labels; if all labels are equal, one more label with the largest error is assumed."""
    return np.where(variance > _NOISE, variance, ratio(np.full_like(n, _WORST_ERROR**2), n))


def _mean(outcome: Floats) -> Floats:
    return ratio(outcome @ _SIGN, outcome.sum(axis=-1))


def _variance(outcome: Floats) -> Floats:
    return ratio(outcome @ _SIGN**2, outcome.sum(axis=-1)) - _mean(outcome) ** 2


PPI = Estimator(
    name="ppi",
    label="PPI++",
    doc="Human margin, adjusted by metric labels of items without human labels (PPI++; Angelopoulos et al. 2023).",
    estimate=lambda counts, confidence, **_: Estimate.from_student_t(*ppi_margin(counts), confidence=confidence),
    point=lambda counts: ppi_margin(counts).margin,
)
