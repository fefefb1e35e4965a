"""Human strengths of systems from few human verdicts, corrected with the metric's verdicts on all battles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Signs, chunks
from custodes.stats.multiple_testing import STREAM
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.labelling import p_random
from custodes.stats.strength.strengths import Strengths, TieModel, fitted

_FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """Strengths by human ratings on all battles, estimated with the ratings of a metric.

    Attributes
    ----------
    strengths : Strengths
        Strengths with draws of their sampling error.
    power : float
        Weight of the metric, from 0 to 1.
    saving : float
        Proportion of human ratings that the metric replaces: 1 - mean variance of the strengths over that of human
        ratings alone; NaN if a system won or lost everything by human ratings, so that its strength is finite only by a
        penalty.
    p_random : float
        P-value of 'the battles with human ratings are a random part'; NaN if it cannot be tested, if probabilities are
        known, or if battles were drawn `by_pair`.
    """

    strengths: Strengths
    power: float
    saving: float
    p_random: float


def corrected(
    battles: Battles,
    human_sign: Signs,
    *,
    n_systems: int,
    ties: TieModel,
    probability: Floats | None,
    by_pair: bool = False,
    resamples: int,
    rng: np.random.Generator,
) -> Corrected:
    """Estimate the coefficients of human verdicts on all battles, from `battles` with the metric's verdicts and
    human_sign (n,).

    The human coefficients are adjusted by lambda times the difference between the metric's mean residuals on all
    battles and, weighted, on the annotated ones. Residuals are those of the metric's own fitted model, so that its bias
    for a position or a system has no effect. The estimand remains that of human verdicts for any metric, if the
    annotated battles are a random part, or if `probability` (n,) gives their inclusion probabilities. lambda minimises
    the mean variance of the strengths; for each cluster it is estimated from the other folds of clusters, shrunk
    according to its error. Systems that are not connected by human verdicts are in different components, and battles
    between these are left out.

    With `by_pair` the judged battles of each pair are the first ones of a random order, and interim analyses of the
    pair's verdicts determined their number. Then the difference above is replaced by n times the difference between the
    metric's mean residuals on the pair's other battles and on its n judged ones. It is a martingale in n, so its
    expectation is 0 under any stopping rule.

    Source: Angelopoulos et al. 2023, "Prediction-powered inference"; Angelopoulos, Duchi and Zrnic 2023, "PPI++" (power
    tuning); Zrnic and Candes 2024 (cross-fitting). Residuals at the metric's own fit, the shrinkage and `by_pair` are
    ours.
    """
    from scipy.sparse import csr_array, diags_array

    weight, labelled = battles.weight, np.asarray((human_sign != ABSENT) & (battles.weight > 0))
    share = weight[labelled].sum() / weight.sum() if labelled.any() else np.nan
    chosen = np.full(len(weight), share) if probability is None else probability
    odds = np.where(labelled, 1 / np.where(labelled, chosen, 1.0), 0.0)
    judged = replace(
        battles, sign=np.where(labelled, human_sign, ABSENT).astype(np.int8), weight=np.asarray(weight * odds)
    )
    people = fitted(judged, n_systems=n_systems, ties=ties)
    joined = people.component[battles.first] == people.component[battles.second]
    metric = fitted(replace(battles, weight=weight * joined), n_systems=n_systems, ties=ties)
    heard = battles.counted & joined
    # metric residuals on all battles minus those on annotated ones, on the scale of the human scores
    scale = weight[heard].mean() / judged.weight[labelled].mean()
    residual = metric.residual(metric.fit.coefficients) * scale
    fit, has_ties = people.fit, people.fit.has_ties

    # weights of the metric's residuals, which sum to about 0
    contrast = _within_pairs(battles, labelled, n_systems=n_systems) / share if by_pair else 1 - odds

    def of_metric(some: Bools) -> Any:
        return metric.scores(residual * np.where(some, contrast, 0.0)[heard, np.newaxis], has_ties=has_ties)

    control = of_metric(np.ones_like(labelled))
    alone = people.corrected(people.scores(people.residual(fit.coefficients), has_ties=has_ties))
    power = _tuned(alone, control, fit.inverse[:n_systems])
    used = diags_array(power)
    moved = people.tilted((used @ control).sum(axis=0))
    estimate = moved.fit.coefficients
    # Human residuals at the adjusted estimate, corrected for the leverage of the battles with human ratings.
    unit_scores = moved.scores(moved.residual(estimate), has_ties=has_ties) + used @ of_metric(labelled)
    scores = csr_array(moved.corrected(csr_array(unit_scores)) + used @ of_metric(~labelled))
    covariance, covariance_alone = (
        people.covariance(rows, inverse, scores=alone)
        for rows, inverse in ((scores, moved.fit.inverse), (alone, fit.inverse))
    )
    variance, variance_alone = (matrix.diagonal()[:n_systems].sum() for matrix in (covariance, covariance_alone))
    finite = bool((people.bounded | (np.bincount(people.component)[people.component] == 1)).all())
    reached = control.power(2).sum(axis=1) > 0
    return Corrected(
        strengths=people.strengths(estimate, covariance, resamples, rng),
        power=float(power[reached].mean()) if reached.any() else 0.0,
        saving=1 - float(variance / variance_alone) if finite else np.nan,
        # Among all battles, those between systems connected by human ratings, and others.
        p_random=p_random(fitted(battles, n_systems=n_systems, ties=ties), labelled[battles.counted])
        if probability is None and not by_pair
        else np.nan,
    )


def _within_pairs(battles: Battles, labelled: Bools, *, n_systems: int) -> Floats:
    """(n,):

    -1 for judged battles; for others the ratio of the weights of judged and other battles of their pair, so that the
    weights of a pair sum to 0; 0 where a pair has only one kind.
    """
    _, pair = np.unique(
        np.minimum(battles.first, battles.second) * n_systems + np.maximum(battles.first, battles.second),
        return_inverse=True,
    )
    judged, others = (np.bincount(pair, weights=battles.weight * which)[pair] for which in (labelled, ~labelled))
    odds = np.divide(judged, others, out=np.zeros(len(pair)), where=others > 0)
    return np.where(labelled, -1.0 * (others > 0), odds)


def _tuned(scores: Any, control: Any, inverse: Floats) -> Floats:
    """Weight of the control variate for each unit: scores and control (units, p), sparse, inverse (systems, p) ->
    (units,).

    The weight that minimises the variance of the strengths in the other folds of units, times 1 - 1 / t^2 (at least 0),
    with t the weight over its standard error, so that an uninformative metric is not used. Between 0 and 1.
    """
    n_units = scores.shape[0]
    products = inverse.T @ inverse
    # summed over systems: products of human and control contributions, and squares of the latter
    cross, squares = np.zeros((2, n_units))
    for some in chunks(n_units, len(products)):
        turned = control[some] @ products
        cross[some] = -scores[some].multiply(turned).sum(axis=1)
        squares[some] = control[some].multiply(turned).sum(axis=1)
    fold = np.random.default_rng(STREAM).permutation(n_units) % _FOLDS
    power = np.zeros(n_units)
    for k in range(_FOLDS):
        others = fold != k
        total = squares[others].sum()
        if total > 0:
            share = cross[others].sum() / total
            error = ((cross - share * squares)[others] ** 2).sum() / total**2
            power[~others] = np.clip(share - error / share, 0.0, 1.0) if share > 0 else 0.0
    return power
