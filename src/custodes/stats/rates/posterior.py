"""The joint distribution of judge's and human labels, from a few human labels and many labels of a judge.

Cells of a table (strata, labels): a stratum holds the outputs with one label of the judge (or with a score in one bin).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.clusters import DesignEffect
from custodes.stats.ratios import ratio

DRAWS = 8192
"""Posterior draws: the Monte Carlo standard error of a bound's level is .002."""

PRIOR = 0.5
"""Pseudo-count of each cell of a Dirichlet distribution (Jeffreys' prior)."""

Sampling = Literal["random", "by-judge", "by-label"]
"""How the outputs with a human label were selected: at random, at random within the judge's labels, or a number of
each human label from elsewhere."""


class LabelCounts(NamedTuple):
    """Counts of one judge: `labelled` (strata, labels) of outputs with a human label, and `total` (strata,) of all
    outputs with a label of the judge. Counts may be fractions (several annotators, weights, clusters)."""

    labelled: Floats
    total: Floats


class JointPosterior(NamedTuple):
    """Proportion of all outputs in each cell: `estimate` (strata, labels) and `draws` (draws, strata, labels)."""

    estimate: Floats
    draws: Floats

    @property
    def values(self) -> Floats:
        """(1 + draws, strata, labels): the estimate, then the draws."""
        return np.concatenate([self.estimate[np.newaxis], self.draws])


def joint_posterior(
    counts: LabelCounts, *, sampling: Sampling, rng: np.random.Generator, draws: int = DRAWS
) -> JointPosterior:
    """Posterior of the joint proportions of judge's and human labels under Jeffreys' prior.

    Parameters
    ----------
    counts : LabelCounts
        Effective counts, (strata, labels) and (strata,).
    sampling : {'random', 'by-judge', 'by-label'}
        'random', 'by-judge': the proportion of each human label within a stratum, times the stratum's proportion of
        all outputs (post-stratification). 'by-label': the judge's labels given the human label, and the prevalence
        that explains the judge's rate (Rogan and Gladen); two strata and two labels only.
    rng : numpy.random.Generator
    draws : int
        Number of posterior draws.

    Returns
    -------
    JointPosterior

    Examples
    --------
    >>> counts = LabelCounts(np.array([[18.0, 2.0], [5.0, 75.0]]), np.array([200.0, 800.0]))
    >>> posterior = joint_posterior(counts, sampling="random", rng=np.random.default_rng(0))
    >>> posterior.estimate.round(3).tolist()
    [[0.18, 0.02], [0.05, 0.75]]
    >>> np.quantile(posterior.draws[:, :, 1].sum(axis=1), [0.025, 0.975]).round(2).tolist()
    [0.71, 0.82]

    References
    ----------
    Holt and Smith 1979 (post-stratification); Jeffreys 1946; Rogan and Gladen 1978; Brown, Cai and DasGupta 2001
    (coverage of Jeffreys' interval).
    """
    labelled, total = counts
    if sampling == "by-label":
        return _by_label(labelled, total, rng, draws)
    n_labels = labelled.shape[1]
    observed = labelled.sum(axis=1, keepdims=True)
    # Without human labels in a stratum every proportion is as probable there.
    within = np.where(observed > 0, ratio(labelled, observed), 1 / n_labels)
    estimate = ratio(total, total.sum())[:, np.newaxis] * within
    shares = _dirichlet(total + PRIOR, rng, draws)
    cells = np.stack([_dirichlet(row + PRIOR, rng, draws) for row in labelled], axis=1)
    return JointPosterior(estimate, shares[:, :, np.newaxis] * cells)


def _by_label(labelled: Floats, total: Floats, rng: np.random.Generator, draws: int) -> JointPosterior:
    """Rogan and Gladen's formula on draws of both error rates and of the judge's rate; stratum 1 is positive."""
    false_positive = _point_and_draws(labelled[1, 0], labelled[0, 0], rng, draws)
    true_positive = _point_and_draws(labelled[1, 1], labelled[0, 1], rng, draws)
    judge_rate = _point_and_draws(total[1], total[0], rng, draws)
    informative = true_positive > false_positive
    gain = np.where(informative, true_positive - false_positive, 1.0)
    prevalence = np.clip((judge_rate - false_positive) / gain, 0.0, 1.0)
    # A judge that is no better than chance leaves the prevalence unknown.
    prevalence = np.where(informative, prevalence, np.append(np.nan, rng.random(draws)))
    cells = np.stack(
        [
            np.stack([(1 - prevalence) * (1 - false_positive), prevalence * (1 - true_positive)], axis=-1),
            np.stack([(1 - prevalence) * false_positive, prevalence * true_positive], axis=-1),
        ],
        axis=1,
    )
    return JointPosterior(cells[0], cells[1:])


def _point_and_draws(successes: float, failures: float, rng: np.random.Generator, draws: int) -> Floats:
    """A proportion (NaN without observations), then its Jeffreys draws."""
    point = ratio(np.array([successes]), np.array([successes + failures]))
    return np.append(point, rng.beta(successes + PRIOR, failures + PRIOR, size=draws))


def _dirichlet(parameters: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """(draws, k); gamma variables, as the parameters may be large."""
    gammas = rng.standard_gamma(np.broadcast_to(parameters, (draws, len(parameters))))
    return np.asarray(gammas / np.maximum(gammas.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))


def rate_influence(
    stratum: Ints, labels: Floats, weights: Floats, counts: LabelCounts, *, column: int
) -> tuple[Floats, Floats]:
    """Influence of each output on the post-stratified rate of a label, and on the rate by human labels alone.

    Parameters
    ----------
    stratum : int array of shape (n,)
        Stratum of each output.
    labels : array of shape (n, labels)
        Human labels as proportions of annotators; a row of NaN: not labelled.
    weights : array of shape (n,)
        Inverse inclusion probability of each output that is labelled, relative to the others.
    counts : LabelCounts
        Sums of the above.
    column : int
        The label whose rate is meant.

    Returns
    -------
    tuple of arrays of shape (n,)
        Influences; their sum of squares is the variance of the estimate where outputs are independent.

    References
    ----------
    Binder 1983 (variance by linearisation).
    """
    has_label = ~np.isnan(labels[:, 0])
    value = np.where(has_label, labels[:, column], 0.0)
    weight = np.where(has_label, weights * ratio(has_label.sum(), (weights * has_label).sum()), 0.0)
    observed = counts.labelled.sum(axis=1)
    # One pseudo-output, so that labels that do not vary count as one.
    rate = (counts.labelled[:, column] + PRIOR) / (observed + 2 * PRIOR)
    share = ratio(counts.total, counts.total.sum())
    scale = ratio(share, observed)
    corrected = np.nan_to_num(scale[stratum] * weight * (value - rate[stratum]))
    corrected = corrected + (rate[stratum] - (share * rate).sum()) / len(stratum)
    n_labelled = weight.sum()
    human_rate = (counts.labelled[:, column].sum() + PRIOR) / (n_labelled + 2 * PRIOR)
    human = weight * (value - human_rate) / max(n_labelled, 1.0)
    return corrected, human


def influence_design_effect(influence: Floats, units: Ints, *, kind: Bools | None = None) -> DesignEffect:
    """Design effect of an estimate from the influences of outputs (n,) in clusters `units` (n,).

    The variance by clusters, times C / (C - 1), over the variance by outputs, at least 1. C is how many equal clusters
    the clusters are worth, weighed by the mean of the variance expected and seen, as in `stats.clusters.design_effect`.
    `kind` (n,): outputs of two kinds with different expected influence (with and without a human label).

    >>> effect, clusters = influence_design_effect(np.repeat([1.0, -1.0, 1.0, -1.0], 5), np.repeat(np.arange(4), 5))
    >>> round(float(effect), 2), float(clusters)
    (6.67, 4.0)

    References
    ----------
    Kish 1965; Liang and Zeger 1986.
    """
    n_units = int(units.max(initial=-1)) + 1
    squares = influence**2
    total = squares.sum()
    if not total:
        return DesignEffect(np.array(np.nan), np.array(np.inf))
    expected = np.zeros(len(influence))
    for chosen in (np.ones(len(influence), dtype=bool),) if kind is None else (kind, ~kind):
        expected[chosen] = squares[chosen].mean() if chosen.any() else 0.0
    if np.bincount(units[expected > 0], minlength=n_units).max(initial=0) <= 1:
        return DesignEffect(np.array(1.0), np.array(np.inf))
    by_cluster = unit_sums((expected + squares) / 2, units=units, n_units=n_units)
    clusters = ratio(np.array(by_cluster.sum() ** 2), np.array((by_cluster**2).sum()))
    sums = unit_sums(influence, units=units, n_units=n_units)
    effect = (sums**2).sum() / total * ratio(clusters, clusters - 1)
    return DesignEffect(np.where(clusters > 1, np.fmax(effect, 1.0), np.inf), clusters)


def copula_correlated(first: Floats, second: Floats, correlation: float, rng: np.random.Generator) -> Floats:
    """Reorder draws of one estimate so that its correlation with those of another is as given (normal copula).

    Parameters
    ----------
    first, second : arrays of shape (draws,)
        Independent draws of two estimates.
    correlation : float
        Between -1 and 1.

    Returns
    -------
    array of shape (draws,)
        The values of `second` in another order.

    References
    ----------
    Iman and Conover 1982.
    """
    if not correlation:
        return second
    from scipy.special import ndtri

    ranks = np.argsort(np.argsort(first))
    normal = ndtri((ranks + 0.5) / len(ranks))
    mixed = correlation * normal + np.sqrt(1 - correlation**2) * rng.standard_normal(len(ranks))
    return np.asarray(np.sort(second)[np.argsort(np.argsort(mixed))])


def two_sided_p(draws: Floats) -> Floats:
    """Two-sided posterior p-value of 'the value is 0' from draws (draws, ...).

    It is below 1 - c where the central interval of level c leaves out 0.

    >>> float(two_sided_p(np.array([1.0, 2.0, 3.0])))
    0.5
    """
    n = len(draws)
    below, above = (draws <= 0).sum(axis=0), (draws >= 0).sum(axis=0)
    return np.asarray(np.minimum(2 * (np.minimum(below, above) + 1) / (n + 1), 1.0))
