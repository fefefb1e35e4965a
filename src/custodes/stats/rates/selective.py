"""Selective judging: which judgements may replace a human label, and a test that gives an alarm if the judgements get
worse.

A judgement is accepted if the judge's confidence reaches a threshold. Annotators label the outputs whose judgements are
not accepted.
"""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints

SPARE = 3
"""Number of disagreements that the first tested threshold may have and still pass the test.

The sequence ends at the first threshold that fails. With a value of 0, a single disagreement among the most confident
judgements could end the sequence: in simulations, the accepted proportion was lower by up to .2.
"""

RISES = (0.05, 0.1)
"""Alternative hypotheses of the alarm.

For each number r, the hypothesis is that the probability of disagreement rises from the accepted value p to
p + (1 - p) r.
"""

START_EVERY = 25
"""In the hypotheses of the alarm, a rise of the disagreement may begin at moments that are this number of labels
apart."""

LARGEST_LOG = 700.0

MOST_PROBABILITIES = 24
"""Maximum number of distinct inclusion probabilities by which strata are divided.

If there are more, inclusion probabilities are only used as weights.
"""


def upper_bound(n_wrong: Floats, n_cases: Floats, *, confidence: float) -> Floats:
    """Return the one-sided upper bound (...) of a proportion (Clopper and Pearson), given `n_wrong` of `n_cases` (...).

    >>> float(upper_bound(np.array(3.0), np.array(76.0), confidence=0.95).round(4))
    0.0989

    References
    ----------
    Clopper and Pearson 1934.
    """
    from scipy.special import betaincinv

    has_agreement = np.asarray(n_wrong < n_cases)
    return np.where(
        has_agreement, betaincinv(n_wrong + 1, np.where(has_agreement, n_cases - n_wrong, 1.0), confidence), 1.0
    )


def fixed_sequence(
    n_wrong: Floats, n_labelled: Floats, *, max_disagreement: float, confidence: float
) -> tuple[Bools, int]:
    """Test nested sets of judgements in a fixed sequence that begins with the most confident judgements.

    Parameters
    ----------
    n_wrong, n_labelled : arrays of shape (thresholds,)
        Numbers of disagreements with human labels, and of labelled judgements, at or above each threshold.
    max_disagreement : float
        Largest acceptable rate of disagreement.
    confidence : float
        Minimum probability that the true rate of disagreement at the chosen threshold is at most `max_disagreement`.

    Returns
    -------
    tuple
        Whether each threshold was tested, and the position of the last threshold that passed (-1 if none passed).

    Examples
    --------
    >>> n = np.array([50.0, 100.0, 150.0, 200.0])
    >>> tested, last = fixed_sequence(np.array([0.0, 3.0, 14.0, 20.0]), n, max_disagreement=0.1, confidence=0.95)
    >>> tested.tolist(), last
    ([False, True, True, False], 1)

    References
    ----------
    Angelopoulos et al. 2025 (learn then test); Jung, Brahman and Choi 2025, arXiv 2407.18370.
    """
    is_eligible_threshold = (
        upper_bound(np.full(len(n_labelled), float(SPARE)), n_labelled, confidence=confidence) <= max_disagreement
    )
    is_failed_threshold = is_eligible_threshold & (
        upper_bound(n_wrong, n_labelled, confidence=confidence) > max_disagreement
    )
    is_tested_threshold = is_eligible_threshold & (np.cumsum(is_failed_threshold) - is_failed_threshold == 0)
    return is_tested_threshold, int(np.flatnonzero(is_tested_threshold & ~is_failed_threshold).max(initial=-1))


def e_values(is_wrong: Bools, *, max_disagreement: float) -> Floats:
    """Return an e-process (n,) against the hypothesis that the probability of disagreement is at most
    `max_disagreement`.

    `is_wrong` (n,) is in order of time. If the hypothesis is true, the probability that the e-process ever reaches 1 /
    a is at most a (Ville's inequality). The e-process is a mixture of likelihood ratios over `RISES` and over the
    moments at which a rise begins.

    >>> e_values(np.zeros(3, dtype=bool), max_disagreement=0.1).round(2).tolist()
    [0.96, 0.93, 0.9]

    References
    ----------
    Ville 1939; Ramdas et al. 2023, "Game-theoretic statistics and safe anytime-valid inference".
    """
    alternative_rates = max_disagreement + (1 - max_disagreement) * np.array(RISES)
    log_likelihood_ratios = np.where(
        is_wrong[:, np.newaxis],
        np.log(alternative_rates / max_disagreement),
        np.log((1 - alternative_rates) / (1 - max_disagreement)),
    )
    cumulative_log_likelihood_ratios = np.concatenate(
        [np.zeros((1, len(RISES))), np.cumsum(log_likelihood_ratios, axis=0)]
    )
    e_process = np.zeros(len(is_wrong))
    for component_index, start_position in enumerate(range(0, len(is_wrong), START_EVERY)):
        mean_likelihood_ratios = np.exp(
            np.minimum(
                cumulative_log_likelihood_ratios[start_position + 1 :]
                - cumulative_log_likelihood_ratios[start_position],
                LARGEST_LOG,
            )
        ).mean(axis=1)
        e_process[start_position:] += mean_likelihood_ratios / ((component_index + 1) * (component_index + 2))
    return e_process + 1 / (np.arange(len(is_wrong)) // START_EVERY + 2)  # plus the weight of later rises


def error_rates(n_wrong: Floats, n_labelled: Floats) -> Floats:
    """Return smoothed rates of disagreement (labels, classes), given counts by judge's label and class of confidence.

    In the model, the odds of disagreement are the product of two factors: one depends on the judge's label, the other
    on the class of confidence. The factors of classes decrease with the confidence; the last class has the highest
    confidence.

    >>> error_rates(np.array([[4.0, 1.0], [8.0, 1.0]]), np.full((2, 2), 20.0)).round(2).tolist()
    [[0.22, 0.04], [0.36, 0.07]]
    """
    from scipy.optimize import isotonic_regression
    from scipy.special import expit, logit

    overall_rate = (n_wrong.sum() + 0.5) / (n_labelled.sum() + 1)
    rate_by_label, rate_by_confidence_class = (
        (n_wrong.sum(axis=axis) + overall_rate) / (n_labelled.sum(axis=axis) + 1) for axis in (1, 0)
    )
    monotone_rates = isotonic_regression(
        rate_by_confidence_class, weights=n_labelled.sum(axis=0) + 1, increasing=False
    ).x
    return np.asarray(expit(logit(rate_by_label)[:, np.newaxis] + logit(monotone_rates) - logit(overall_rate)))


def designed_strata(stratum: Ints, inclusion_weights: Floats, is_labelled: Bools, *, min_n_labelled: int) -> Ints:
    """Return strata (n,) that are divided by inclusion probability, if there are few distinct probabilities.

    All arguments have shape (n,). Neighbouring probabilities are merged until each part of a stratum has at least
    `min_n_labelled` human labels.

    >>> weight = np.repeat([1.0, 20.0], [20, 40])
    >>> designed_strata(np.zeros(60, dtype=int), weight, weight == 1, min_n_labelled=10).tolist() == [0] * 60
    True
    >>> labelled = (weight == 1) | (np.arange(60) < 30)
    >>> designed_strata(np.zeros(60, dtype=int), weight, labelled, min_n_labelled=10).tolist() == [1] * 20 + [0] * 40
    True
    """
    if not 1 < len(np.unique(inclusion_weights)) <= MOST_PROBABILITIES:
        return stratum
    divided_strata, n_divided_strata = np.zeros_like(stratum), 0
    for stratum_number in np.unique(stratum):
        stratum_row_indices = np.flatnonzero(stratum == stratum_number)
        distinct_negative_weights, weight_index_of_row = np.unique(
            -inclusion_weights[stratum_row_indices], return_inverse=True
        )
        n_labelled_of_weight = np.bincount(
            weight_index_of_row, weights=is_labelled[stratum_row_indices], minlength=len(distinct_negative_weights)
        )
        part_of_weight, n_labelled_in_part = np.zeros(len(distinct_negative_weights), dtype=np.intp), 0.0
        for distinct_weight_index in range(1, len(distinct_negative_weights)):
            n_labelled_in_part += n_labelled_of_weight[distinct_weight_index - 1]
            is_complete_part = (
                n_labelled_in_part >= min_n_labelled
                and n_labelled_of_weight[distinct_weight_index:].sum() >= min_n_labelled
            )
            part_of_weight[distinct_weight_index] = part_of_weight[distinct_weight_index - 1] + is_complete_part
            n_labelled_in_part = 0.0 if is_complete_part else n_labelled_in_part
        divided_strata[stratum_row_indices] = n_divided_strata + part_of_weight[weight_index_of_row]
        n_divided_strata += int(part_of_weight.max(initial=0)) + 1
    return divided_strata
