"""Human strengths of systems from few human verdicts, with a correction from the metric's verdicts on all battles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints, Signs, chunks
from custodes.stats.multiple_testing import STREAM
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.strengths import Fitted, Strengths, TieModel, fitted

_FOLDS = 5
_LEAST = 5.0  # a system is included in tests of randomness if at least this many annotated battles are expected
_SAME = 1e-9


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """Strengths that human verdicts on all battles would give, estimated with the help of a metric.

    Attributes
    ----------
    strengths : Strengths
        Strengths with draws of their sampling error.
    power : float
        Weight of the metric, from 0 to 1.
    saving : float
        Proportion of human ratings that the metric replaces: 1 minus the ratio of the mean variances of strengths with
        the metric and with only human ratings. NaN if a system won or lost everything by human ratings, so that its
        strength is finite only because of a penalty.
    p_random : float
        P-value of 'the battles with human ratings are a random sample of all battles'. NaN if this cannot be tested, if
        the inclusion probabilities are known, or if battles were drawn `by_pair`.
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
    """Estimate the strengths that human verdicts on all battles would give.

    `battles` (n,) have the metric's verdicts, and `human_sign` (n,) the human verdicts on the annotated battles. The
    human coefficients are adjusted by lambda times a difference of two means of the metric's residuals: the mean over
    all battles and the weighted mean over the annotated battles. Residuals come from a model that is fitted to the
    metric's verdicts, so that a bias of the metric for a position or a system has no effect. With any metric, the
    estimand remains that of human verdicts if the annotated battles are a random sample or if `probability` (n,) gives
    their inclusion probabilities.

    lambda minimises the mean variance of the strengths. For each cluster, lambda is estimated from the remaining folds
    of clusters and shrunk according to its error. Systems that human verdicts do not connect are in different
    components, and battles between different components are left out.

    With `by_pair`, the annotated battles of each pair are the first battles of a random order, and interim analyses of
    the pair's verdicts determined their number n. The difference of means is then replaced, for each pair, by n times
    the difference between the metric's mean residuals on the remaining battles and on the n annotated battles. This is
    a martingale in n, so that its expectation is 0 under any stopping rule.

    Source: Angelopoulos et al. 2023, "Prediction-powered inference"; Angelopoulos, Duchi and Zrnic 2023, "PPI++" (power
    tuning); Zrnic and Candes 2024 (cross-fitting). Residuals of a model fitted to the metric, the shrinkage and
    `by_pair` are ours.
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
    # The metric's residuals are brought to the scale of the human scores.
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
        # The test uses all battles, also those between systems that human ratings do not connect.
        p_random=p_random(fitted(battles, n_systems=n_systems, ties=ties), labelled[battles.counted])
        if probability is None and not by_pair
        else np.nan,
    )


def _within_pairs(battles: Battles, labelled: Bools, *, n_systems: int) -> Floats:
    """Return the weight (n,) of each battle's residual, such that the weighted battles of each pair sum to 0.

    The weight is -1 for annotated battles. For the remaining battles of a pair it is the total weight of the annotated
    battles, divided by the total weight of the remaining battles. It is 0 if all or no battles of a pair are annotated.
    """
    _, pair = np.unique(
        np.minimum(battles.first, battles.second) * n_systems + np.maximum(battles.first, battles.second),
        return_inverse=True,
    )
    judged, others = (np.bincount(pair, weights=battles.weight * which)[pair] for which in (labelled, ~labelled))
    odds = np.divide(judged, others, out=np.zeros(len(pair)), where=others > 0)
    return np.where(labelled, -1.0 * (others > 0), odds)


def _tuned(scores: Any, control: Any, inverse: Floats) -> Floats:
    """Return the weight (units,), from 0 to 1, of the control variate for each unit.

    `scores` and `control` (units, p) are sparse; `inverse` (systems, p) is the inverse information. The weight
    minimises the variance of the strengths in the remaining folds of units. It is multiplied by 1 - 1 / t^2 (at least
    0), where t is the weight divided by its standard error, so that an uninformative metric is not used.
    """
    n_units = scores.shape[0]
    products = inverse.T @ inverse
    # sums over systems: products of human and control contributions, and squares of control contributions
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


def p_random(metric: Fitted, judged: Bools) -> float:
    """Return the p-value of 'annotation is independent of the systems and of the metric's verdict'.

    `judged` (n,) marks the annotated battles. Three tests compare annotated battles with all battles. The first
    test is of three features of a battle by the metric: how close it is, whether it is a tie, and whether the weaker
    system wins (also through covariates such as position). The second test is of the systems in the battles, and the
    third test is of the metric's verdicts on each system.

    Each test sums (annotated - proportion) x feature over clusters and takes a quadratic form of the sums and their
    covariance. The covariance is estimated by clusters if clusters contain several battles; otherwise it is the known
    covariance of a random choice of battles. The p-value is the smallest of the p-values, multiplied by their number.
    It is NaN if no battle or every battle is annotated.

    Source: Hotelling 1931; the degrees of freedom are the number of annotated battles, or the effective number of
    clusters, minus one.
    """
    from scipy.sparse import csr_array, diags_array

    n, unit = len(judged), metric.battles.unit
    share = judged.mean() if n else np.nan
    if not 0 < share < 1:
        return np.nan
    fit, n_systems = metric.fit, len(metric.component)
    design = fit.design[metric.made.kind]
    eta = design @ fit.coefficients[: design.shape[1]]
    side = np.where(eta < 0, -1.0, 1.0)
    half, tie = metric.residual(fit.coefficients).T
    scalar = np.stack([np.abs(eta), half * side, tie, *(half * column for column in design[:, n_systems:].toarray().T)])
    indicators = design[:, :n_systems]
    enough = np.asarray(abs(indicators).sum(axis=0)) * share >= _LEAST
    candidates = [csr_array(scalar.T), abs(indicators)[:, enough], diags_array(half) @ indicators[:, enough]]
    p_values = [_unrelated(csr_array(features), judged - share, unit) for features in candidates]
    finite = [p for p in p_values if np.isfinite(p)]
    return min(1.0, len(finite) * min(finite)) if finite else np.nan


def _unrelated(features: Any, surplus: Floats, unit: Ints) -> float:
    """Return the p-value of zero covariance between sparse features (n, d) and a surplus (n,) that sums to 0."""
    from scipy.sparse import csr_array
    from scipy.special import fdtrc

    n = len(surplus)
    mean = np.asarray(features.sum(axis=0)) / n
    total = features.T @ surplus
    _, unit = np.unique(unit, return_inverse=True)
    n_units = int(unit.max()) + 1
    # The number of annotated battles limits the degrees of freedom, because with few of them the sums are skewed.
    effective = float((surplus > 0).sum())
    if n_units == n:
        spread = surplus @ surplus / (n - 1) * ((features.T @ features).toarray() - n * np.outer(mean, mean))
    else:
        member = csr_array((surplus, (unit, np.arange(n))), shape=(n_units, n))
        sums, rest = member @ features, np.bincount(unit, weights=surplus)
        across = np.outer(sums.T @ rest, mean)
        spread = (sums.T @ sums).toarray() - across - across.T + rest @ rest * np.outer(mean, mean)
        effective = float((rest**2).sum() ** 2 / (rest**4).sum()) if rest.any() else 0.0
    scale = np.sqrt(spread.diagonal().clip(0.0))
    varying = scale > _SAME * max(1.0, float(scale.max(initial=0.0)))
    if not varying.any():
        return np.nan
    values, vectors = np.linalg.eigh(spread[np.ix_(varying, varying)] / np.outer(scale[varying], scale[varying]))
    positive = values > _SAME
    rank = int(positive.sum())
    square = float((((total[varying] / scale[varying]) @ vectors[:, positive]) ** 2 / values[positive]).sum())
    if effective <= rank + 1:
        return np.nan
    return float(fdtrc(rank, effective - rank, square * (effective - rank) / (rank * (effective - 1))))
