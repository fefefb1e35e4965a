"""Number of human labels needed for an estimate, and the optimal allocation of human labels to the judge's labels."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from custodes.stats.arrays import Floats, Ints, bisect_condition
from custodes.stats.rates.posterior import LabelCounts, joint_posterior
from custodes.stats.ratios import ratio

DRAWS = 4096
"""Number of posterior draws; the relative error of the width of an interval is then about 2 %."""

ASSUMED_LABELS = 2.0
"""Weight of the assumed rate of a stratum: the number of human labels that would have the same weight."""


MOST = 1e12
STEPS = 100
"""Number of steps of the search for the total number of labels, which is at most `MOST`."""


def stratum_rates(label_counts: Floats, assumed_rates: Floats) -> Floats:
    """Return the rate (strata,) of positive human labels in each stratum.

    The arguments are counts (strata, 2) of negative and positive labels, and assumed rates (strata,). An assumed rate
    has the weight of two labels.

    >>> stratum_rates(np.array([[18.0, 2.0], [0.0, 0.0]]), np.array([0.1, 0.9])).round(3).tolist()
    [0.1, 0.9]
    """
    return np.asarray(
        (label_counts[:, 1] + ASSUMED_LABELS * assumed_rates) / (label_counts.sum(axis=1) + ASSUMED_LABELS)
    )


def rate_shares(stratum_shares: Floats, rates: Floats) -> Floats:
    """Return the optimal proportions of labels (strata,) for estimating the corrected rate (Neyman's allocation).

    Parameters
    ----------
    stratum_shares : array of shape (strata,)
        Proportion of outputs in each stratum.
    rates : array of shape (strata,)
        Rate of positive human labels in each stratum.

    References
    ----------
    Neyman 1934; Cochran 1977, section 5.5.

    Examples
    --------
    >>> rate_shares(np.array([0.5, 0.5]), np.array([0.5, 0.9])).round(3).tolist()
    [0.625, 0.375]
    """
    weights = stratum_shares * np.sqrt(rates * (1 - rates))
    return np.nan_to_num(ratio(weights, weights.sum()), nan=1 / len(weights))


def error_rate_shares(stratum_shares: Floats, rates: Floats, *, positive: bool) -> Floats:
    """Return the optimal proportions of labels (strata,) for estimating the judge's TPR (`positive`) or TNR.

    The judge has two labels, of which the second is positive. The optimum follows from the derivatives of the TPR or
    TNR with respect to the rate of each stratum.

    >>> error_rate_shares(np.array([0.2, 0.8]), np.array([0.1, 0.9]), positive=False).round(3).tolist()
    [0.1, 0.9]
    """
    label_proportions = stratum_shares * (rates if positive else 1 - rates)
    return rate_shares(label_proportions[::-1] * stratum_shares, rates)


def expected_posterior(label_shares: Floats, rates: Floats, n_outputs: Ints, n_labels: float) -> Floats:
    """Return the posterior draws (draws, strata, labels) that are expected with `n_labels` human labels.

    Parameters
    ----------
    label_shares, rates : arrays of shape (strata,)
        Proportion of the human labels in each stratum, and rate of positive human labels in each stratum.
    n_outputs : int array of shape (strata,)
        Number of outputs with a label of the judge.
    n_labels : float
        Number of human labels.
    """
    n_labelled_of_stratum = np.minimum(label_shares * n_labels, n_outputs)
    expected_counts = LabelCounts(
        n_labelled_of_stratum[:, np.newaxis] * np.stack([1 - rates, rates], axis=1), n_outputs.astype(np.float64)
    )
    return joint_posterior(expected_counts, sampling="by-judge", rng=np.random.default_rng(0), n_draws=DRAWS)[1:]


def fewest_labels(uncertainty: Callable[[float], float], max_uncertainty: float, *, max_n_labels: int) -> int | None:
    """Return the smallest number of labels for which `uncertainty` (decreasing) is at most `max_uncertainty`.

    The result is None if even `max_n_labels` labels are not enough.

    >>> fewest_labels(lambda n: 1 / n, 0.1, max_n_labels=50)
    10
    """
    if uncertainty(max_n_labels) > max_uncertainty:
        return None
    return bisect_left(range(max_n_labels), True, key=lambda n: n > 0 and uncertainty(n) <= max_uncertainty)


def allocation(
    label_shares: Floats, *, n_labelled: Ints, n_available: Ints, n_to_add: int, least_per_stratum: int
) -> Ints:
    """Return the number of outputs to label next in each stratum.

    Parameters
    ----------
    label_shares : array of shape (strata,)
        Optimal proportion of all labels in each stratum.
    n_labelled, n_available : int arrays of shape (strata,)
        Numbers of outputs with a human label and without a human label.
    n_to_add : int
        Number of labels to add. If fewer outputs are available, all are labelled.
    least_per_stratum : int
        Minimum number of labels of each stratum, if the stratum has enough outputs.

    Returns
    -------
    int array of shape (strata,)

    Examples
    --------
    >>> allocation(
    ...     np.array([0.8, 0.2]),
    ...     n_labelled=np.array([0, 40]),
    ...     n_available=np.array([500, 500]),
    ...     n_to_add=60,
    ...     least_per_stratum=5,
    ... ).tolist()
    [60, 0]
    """
    n_to_add = int(min(n_to_add, n_available.sum()))
    least_n_added_labels = np.clip(least_per_stratum - n_labelled, 0, n_available)
    if least_n_added_labels.sum() >= n_to_add:  # the minimum numbers use up all labels
        return _round_to_sum(least_n_added_labels * (n_to_add / max(least_n_added_labels.sum(), 1)), n_to_add)

    def labels_to_add(n_total_labels: float) -> Floats:
        return np.clip(n_total_labels * np.nan_to_num(label_shares) - n_labelled, least_n_added_labels, n_available)

    n_total_labels = bisect_condition(
        lambda n_total_labels: labels_to_add(n_total_labels).sum() < n_to_add, 0.0, MOST, steps=STEPS
    )
    n_added_labels = labels_to_add(n_total_labels)
    n_remaining_labels = n_to_add - n_added_labels.sum()
    if n_remaining_labels > 0.5:  # the remaining labels go to strata whose optimal proportion is 0
        n_added_labels += (n_available - n_added_labels) * n_remaining_labels / (n_available - n_added_labels).sum()
    return _round_to_sum(n_added_labels, n_to_add)


def _round_to_sum(values: Floats, total: int) -> Ints:
    """Return values rounded to integers with sum `total`; the values with the largest remainders are rounded up."""
    rounded_values = np.floor(values + 1e-9).astype(np.int64)
    remainder_order = np.argsort(rounded_values - values, kind="stable")
    rounded_values[remainder_order[: max(0, total - int(rounded_values.sum()))]] += 1
    return rounded_values
