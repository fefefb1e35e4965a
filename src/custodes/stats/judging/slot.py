"""Does a judge prefer what is shown first? The test of the margin of the first slot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats
from custodes.stats.clusters import few_clusters
from custodes.stats.ratios import ratio

NOTHING = 1e-12  # of sums of squares: rounding


class Tested(NamedTuple):
    """An estimate of what should be 0 with its interval and p-value, (...) each; NaN where it cannot be told."""

    estimate: Floats
    low: Floats
    high: Floats
    p_value: Floats


def slot_test(sums: Floats, sizes: Floats, *, wider: Floats, confidence: float) -> Tested:
    """Is sums / sizes 0? Both (k, units): what each cluster adds to numerator and denominator.

    If it is 0 either sign of what a cluster adds is as likely. So the score is divided by the root of its squares, as
    in a sign test by clusters, with the factor of `few_clusters`; `wider` (k,) is what else the variance is multiplied
    by. The interval holds the values that the same test does not reject. NaN where nothing is known; with not one
    cluster on either side p is 1 and there is no interval.

    >>> made = slot_test(np.ones((1, 9)), 2 * np.ones((1, 9)), wider=np.ones(1), confidence=0.95)
    >>> made.estimate.item(), round(made.p_value.item(), 4)
    (0.5, 0.0039)

    Source: ours; the score form of a variance by clusters (Cameron, Gelbach and Miller 2008 impose the null likewise).
    """
    from scipy.special import ndtr, ndtri

    total, size = sums.sum(axis=-1), sizes.sum(axis=-1)
    squares, crossed, own = (np.einsum("ku,ku->k", a, b) for a, b in ((sums, sums), (sums, sizes), (sizes, sizes)))
    factor = wider * few_clusters((np.abs(sums) > NOTHING).sum(axis=-1))
    estimate = ratio(total, size)
    z = np.abs(total) / np.sqrt(np.maximum(squares * factor, NOTHING))
    p_value = np.where(np.isnan(estimate), np.nan, np.where(squares > NOTHING, 2 * ndtr(-z), 1.0))
    # (total - b size)^2 = limit * sum of (sums - b sizes)^2
    limit = float(ndtri((1 + confidence) / 2)) ** 2 * factor
    a, b, c = size**2 - limit * own, total * size - limit * crossed, total**2 - limit * squares
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = (np.where(a > 0, (b + side * root) / a, side * np.inf) for side in (-1, 1))
    unknown = np.isnan(estimate) | (squares <= NOTHING)
    return Tested(estimate, np.where(unknown, np.nan, low), np.where(unknown, np.nan, high), p_value)
