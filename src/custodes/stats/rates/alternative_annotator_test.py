"""The alternative annotator test: may a judge replace an annotator?"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.ratios import mean_of_defined, ratio
from custodes.stats.sign_test import adjust

FEWEST_OUTPUTS = 30
"""Minimum number of outputs that an annotator must have labelled for the test, as published."""

FEWEST_ANNOTATORS = 3
"""Minimum number of annotators for the test, as published."""


def advantages(judge: Floats, annotators: Floats, *, ordered: bool) -> tuple[Floats, Floats]:
    """Return whether the judge or the annotator is closer to the remaining annotators, for each annotator and output.

    Parameters
    ----------
    judge : array of shape (n,)
        Codes of labels, or numbers; NaN means no label.
    annotators : array of shape (annotators, n)
        Labels of each annotator, in the same form.
    ordered : bool
        If true, closeness is the negative root mean square error; otherwise it is the proportion of equal labels.

    Returns
    -------
    tuple of array
        Two arrays (annotators, n), NaN if there is no comparison. The first is 1 if the judge is at least as close to
        the remaining annotators as this annotator is. The second is 1 if this annotator is at least as close as the
        judge is.

    Examples
    --------
    >>> annotators = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, np.nan]])
    >>> advantages(np.array([1.0, 1.0]), annotators, ordered=False)[0].tolist()
    [[1.0, 0.0], [1.0, 0.0], [1.0, nan]]

    References
    ----------
    Calderon, Reichart and Dror 2025 (ACL), section 3.
    """
    has_label = ~np.isnan(annotators)
    labels_or_zero = np.where(has_label, annotators, 0.0)

    def closeness(rated_labels: Floats) -> Floats:
        """Return the closeness (annotators, n) of values to the labels of all annotators except the annotator of the
        row."""
        distances_to_labels = (
            (rated_labels[:, np.newaxis] - labels_or_zero) ** 2
            if ordered
            else rated_labels[:, np.newaxis] != labels_or_zero
        )
        is_other_label = has_label & ~np.eye(len(annotators), dtype=bool)[:, :, np.newaxis]
        mean_distances = ratio((distances_to_labels * is_other_label).sum(axis=1), is_other_label.sum(axis=1))
        return np.asarray(-np.sqrt(mean_distances) if ordered else -mean_distances)

    judge_margin = closeness(np.broadcast_to(judge, annotators.shape)) - closeness(annotators)
    is_compared_output = has_label & ~np.isnan(judge_margin) & ~np.isnan(judge)
    return (
        np.where(is_compared_output, judge_margin >= -1e-9, np.nan),
        np.where(is_compared_output, judge_margin <= 1e-9, np.nan),
    )


class Replacement(NamedTuple):
    """Results for each annotator (annotators,) and for the judge; NaN if an annotator has too few outputs.

    Attributes
    ----------
    n : int array
        Number of outputs compared.
    advantage : array
        Proportion of outputs on which the judge is at least as close to the remaining annotators as the annotator is.
    difference : array
        `advantage` minus the proportion of outputs on which the annotator is at least as close as the judge.
    p : array
        Adjusted p-value (Benjamini and Yekutieli) of 'the annotator is better by epsilon or more'.
    winning_rate : float
        Proportion of annotators for whom this hypothesis is rejected.
    advantage_probability : float
        Mean of `advantage` over annotators.
    error : float
        Clustered standard error of `advantage_probability`.
    """

    n: Ints
    advantage: Floats
    difference: Floats
    p: Floats
    winning_rate: float
    advantage_probability: float
    error: float


def replacement(
    judge: Floats,
    annotators: Floats,
    *,
    ordered: bool,
    epsilon: float,
    units: Ints,
    level: float = 0.05,
) -> Replacement:
    """Return the result of the alternative annotator test, with outputs or clusters of outputs as sampling units.

    For each annotator with at least 30 outputs, a one-sided t-test is made of the hypothesis 'the annotator is
    closer to the remaining annotators than the judge is, by `epsilon` or more'. The p-values are adjusted for the
    number of annotators.

    Parameters
    ----------
    judge : array of shape (n,)
    annotators : array of shape (annotators, n)
    ordered : bool
        See `advantages`.
    epsilon : float
        Margin by which a judge may be worse because it costs less: .2 if the annotators are experts, .15 if they are
        trained annotators, .1 if they are crowd workers.
    units : int array of shape (n,)
        Cluster of each output. If every output is a separate cluster, this is the published test.
    level : float, default .05
        Level at which a hypothesis is rejected.

    Returns
    -------
    Replacement

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 200)
    >>> annotators = np.where(rng.random((3, 200)) < 0.8, truth, 1 - truth).astype(float)
    >>> test = replacement(truth.astype(float), annotators, ordered=False, epsilon=0.1, units=np.arange(200))
    >>> test.winning_rate
    1.0

    References
    ----------
    Calderon, Reichart and Dror 2025 (ACL); Benjamini and Yekutieli 2001; Liang and Zeger 1986 (clusters).
    """
    from scipy.special import stdtr

    judge_advantages, annotator_advantages = advantages(judge, annotators, ordered=ordered)
    is_compared_output = ~np.isnan(judge_advantages)
    n_compared_outputs = is_compared_output.sum(axis=1)
    is_tested_annotator = n_compared_outputs >= FEWEST_OUTPUTS
    advantage_differences = annotator_advantages - judge_advantages
    mean_differences = mean_of_defined(advantage_differences)
    sum_by_cluster = partial(unit_sums, units=units, n_units=int(units.max(initial=-1)) + 1)
    difference_deviation_sums = sum_by_cluster(
        np.where(is_compared_output, advantage_differences - mean_differences[:, np.newaxis], 0.0)
    )
    n_clusters_of_annotator = (sum_by_cluster(is_compared_output) > 0).sum(axis=1)
    standard_errors = np.sqrt(
        (difference_deviation_sums**2).sum(axis=1) * ratio(n_clusters_of_annotator, n_clusters_of_annotator - 1)
    ) / np.maximum(n_compared_outputs, 1)
    p_values = stdtr(np.maximum(n_clusters_of_annotator - 1, 1), ratio(mean_differences - epsilon, standard_errors))
    p_values[(standard_errors == 0) & (mean_differences < epsilon)] = 0.0
    p_values = np.where(is_tested_annotator, np.nan_to_num(p_values, nan=1.0), np.nan)
    harmonic_sum = (1 / np.arange(1, is_tested_annotator.sum() + 1)).sum()
    adjusted_p_values = np.minimum(adjust(p_values, correction="bh") * harmonic_sum, 1.0)
    advantage_of_annotator = np.where(is_tested_annotator, mean_of_defined(judge_advantages), np.nan)
    is_tested_output = is_compared_output & is_tested_annotator[:, np.newaxis]
    advantage_deviations = np.where(is_tested_output, judge_advantages - advantage_of_annotator[:, np.newaxis], 0.0)
    mean_deviation_of_output = (advantage_deviations / np.maximum(n_compared_outputs, 1)[:, np.newaxis]).sum(
        axis=0
    ) / max(is_tested_annotator.sum(), 1)
    n_tested_clusters = int((sum_by_cluster(is_tested_output.any(axis=0)) > 0).sum())
    return Replacement(
        n=n_compared_outputs,
        advantage=advantage_of_annotator,
        difference=np.where(is_tested_annotator, -mean_differences, np.nan),
        p=adjusted_p_values,
        winning_rate=float(mean_of_defined(np.where(is_tested_annotator, adjusted_p_values <= level, np.nan))),
        advantage_probability=float(mean_of_defined(advantage_of_annotator)),
        error=float(
            np.sqrt((sum_by_cluster(mean_deviation_of_output) ** 2).sum() * n_tested_clusters / (n_tested_clusters - 1))
        )
        if n_tested_clusters > 1
        else np.nan,
    )
