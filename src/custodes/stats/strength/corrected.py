"""Human strengths of systems from few human verdicts, with a correction from the metric's verdicts on all battles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Signs, chunks
from custodes.stats.multiple_testing import STREAM
from custodes.stats.ratios import ratio
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.random_part import p_random
from custodes.stats.strength.strengths import Strengths, TieModel, fit_battles

_FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class CorrectedStrengths:
    """Strengths that human verdicts on all battles would give, estimated with the help of a metric.

    Attributes
    ----------
    strengths : Strengths
        Strengths with draws of their sampling error.
    saving : float
        Proportion of human ratings that the metric replaces: 1 minus the ratio of two mean variances of strengths: with
        the metric, and with human ratings alone. NaN if a system won or lost all comparisons by human ratings, so that
        its strength is finite only because of a penalty.
    p_random : float
        P-value of 'the battles with human ratings are a random sample of all battles'. NaN if this cannot be tested, if
        the inclusion probabilities are known, or if battles were drawn `by_pair`.
    """

    strengths: Strengths
    saving: float
    p_random: float


def correct_strengths(
    battles: Battles,
    human_sign: Signs,
    *,
    n_systems: int,
    ties: TieModel,
    probability: Floats | None,
    by_pair: bool = False,
    resamples: int,
    rng: np.random.Generator,
) -> CorrectedStrengths:
    """Estimate the strengths that human verdicts on all battles would give.

    `battles` (n,) have the metric's verdicts, and `human_sign` (n,) the human verdicts on the annotated battles. The
    human coefficients are adjusted by lambda times a difference of two means of the metric's residuals: the mean over
    all battles and the weighted mean over the annotated battles. Residuals come from a model that is fitted to the
    metric's verdicts. A bias of the metric for a position or a system therefore has no effect. With any metric, the
    estimand remains that of human verdicts under one of two conditions. The annotated battles are a random sample, or
    `probability` (n,) gives their inclusion probabilities.

    lambda minimises the mean variance of the strengths. For each cluster, lambda is estimated from the remaining folds
    of clusters and shrunk according to its error. Systems that human verdicts do not connect are in different
    components, and battles between different components are left out.

    With `by_pair`, the annotated battles of each pair are the first battles of a random order, and interim analyses of
    the pair's verdicts determined their number n. The difference of means is then replaced, for each pair, by n times
    the difference between the metric's mean residuals on the remaining battles and on the n annotated battles. The
    product is a martingale in n, so that its expectation is 0 under any stopping rule.

    Source: Angelopoulos et al. 2023, "Prediction-powered inference"; Angelopoulos, Duchi and Zrnic 2023, "PPI++" (power
    tuning); Zrnic and Candes 2024 (cross-fitting). Residuals of a model fitted to the metric, the shrinkage and
    `by_pair` were developed for custodes.
    """
    from scipy.sparse import csr_array, diags_array

    weight_of_battle, is_labelled_battle = battles.weight, np.asarray((human_sign != ABSENT) & (battles.weight > 0))
    labelling_rate = (weight_of_battle @ is_labelled_battle / weight_of_battle.sum()) or np.nan
    labelling_probability = labelling_rate if probability is None else probability
    inverse_probability = is_labelled_battle / np.where(is_labelled_battle, labelling_probability, 1.0)
    human_battles = replace(
        battles,
        sign=np.where(is_labelled_battle, human_sign, ABSENT).astype(np.int8),
        weight=np.asarray(weight_of_battle * inverse_probability),
    )
    human_fit = fit_battles(human_battles, n_systems=n_systems, ties=ties)
    is_connected_battle = human_fit.component[battles.first] == human_fit.component[battles.second]
    metric_fit = fit_battles(
        replace(battles, weight=weight_of_battle * is_connected_battle), n_systems=n_systems, ties=ties
    )
    is_counted_battle = battles.is_usable & is_connected_battle
    # The metric's residuals are brought to the scale of the human scores.
    residual_scale = weight_of_battle[is_counted_battle].mean() / human_battles.weight[is_labelled_battle].mean()
    metric_residuals = metric_fit.residual(metric_fit.fit.coefficients) * residual_scale
    human_davidson_fit = human_fit.fit

    # weights of the metric's residuals, which sum to about 0
    residual_weights = (
        _pair_residual_weights(battles, is_labelled_battle, n_systems=n_systems) / labelling_rate
        if by_pair
        else 1 - inverse_probability
    )

    def metric_scores(is_included_battle: Bools) -> Any:
        return metric_fit.scores(
            metric_residuals * np.where(is_included_battle, residual_weights, 0.0)[is_counted_battle, np.newaxis]
        )

    metric_control_scores = metric_scores(np.ones_like(is_labelled_battle))
    human_only_scores = human_fit.correct_leverage(
        human_fit.scores(human_fit.residual(human_davidson_fit.coefficients))
    )
    metric_weight_matrix = diags_array(
        _control_weights(human_only_scores, metric_control_scores, human_davidson_fit.inverse[:n_systems])
    )
    tilted_fit = human_fit.refit_with_tilt((metric_weight_matrix @ metric_control_scores).sum(axis=0))
    adjusted_coefficients = tilted_fit.fit.coefficients
    # Human residuals at the adjusted estimate, corrected for the leverage of the battles with human ratings.
    tilted_scores = tilted_fit.scores(
        tilted_fit.residual(adjusted_coefficients)
    ) + metric_weight_matrix @ metric_scores(is_labelled_battle)
    adjusted_scores = csr_array(
        tilted_fit.correct_leverage(csr_array(tilted_scores))
        + metric_weight_matrix @ metric_scores(~is_labelled_battle)
    )
    adjusted_covariance, human_only_covariance = (
        human_fit.covariance(score_matrix, inverse_information, scores=human_only_scores)
        for score_matrix, inverse_information in (
            (adjusted_scores, tilted_fit.fit.inverse),
            (human_only_scores, human_davidson_fit.inverse),
        )
    )
    variance_ratio = np.trace(adjusted_covariance[:n_systems, :n_systems]) / np.trace(
        human_only_covariance[:n_systems, :n_systems]
    )
    has_finite_strengths = (human_fit.bounded | (np.bincount(human_fit.component)[human_fit.component] == 1)).all()
    return CorrectedStrengths(
        strengths=human_fit.strengths(adjusted_coefficients, adjusted_covariance, resamples, rng),
        saving=1 - float(variance_ratio) if has_finite_strengths else np.nan,
        # The test uses all battles, also those between systems that human ratings do not connect.
        p_random=p_random(fit_battles(battles, n_systems=n_systems, ties=ties), is_labelled_battle[battles.is_usable])
        if probability is None and not by_pair
        else np.nan,
    )


def _pair_residual_weights(battles: Battles, is_labelled_battle: Bools, *, n_systems: int) -> Floats:
    """Return the weight (n,) of each battle's residual, such that the weighted battles of each pair sum to 0.

    The weight is -1 for annotated battles. For the remaining battles of a pair, the weight is the total weight of the
    annotated battles, divided by the total weight of the remaining battles. The weight is 0 if all or no battles of a
    pair are annotated.
    """
    _, pair_of_battle = np.unique(
        np.minimum(battles.first, battles.second) * n_systems + np.maximum(battles.first, battles.second),
        return_inverse=True,
    )
    pair_labelled_weight_of_battle, pair_unlabelled_weight_of_battle = (
        np.bincount(pair_of_battle, weights=battles.weight * is_summed_battle)[pair_of_battle]
        for is_summed_battle in (is_labelled_battle, ~is_labelled_battle)
    )
    labelled_weight_odds = np.nan_to_num(ratio(pair_labelled_weight_of_battle, pair_unlabelled_weight_of_battle))
    return np.where(is_labelled_battle, -1.0 * (pair_unlabelled_weight_of_battle > 0), labelled_weight_odds)


def _control_weights(scores: Any, control_scores: Any, inverse_information: Floats) -> Floats:
    """Return the weight (units,), from 0 to 1, of the control variate for each unit.

    `scores` and `control_scores` (units, p) are sparse; `inverse_information` has shape (systems, p). The weight
    minimises the variance of the strengths in the remaining folds of units. The weight is multiplied by 1 - 1 / t^2
    (at least 0), where t is the weight divided by its standard error. An uninformative metric is therefore not used.
    """
    n_units = scores.shape[0]
    inverse_information_gram = inverse_information.T @ inverse_information
    # sums over systems: products of human and control contributions, and squares of control contributions
    cross_product_of_unit, control_square_of_unit = np.zeros((2, n_units))
    for unit_slice in chunks(n_units, len(inverse_information_gram)):
        weighted_control_scores = control_scores[unit_slice] @ inverse_information_gram
        cross_product_of_unit[unit_slice] = -scores[unit_slice].multiply(weighted_control_scores).sum(axis=1)
        control_square_of_unit[unit_slice] = control_scores[unit_slice].multiply(weighted_control_scores).sum(axis=1)
    fold_of_unit = np.random.default_rng(STREAM).permutation(n_units) % _FOLDS
    control_weight_of_unit = np.zeros(n_units)
    for held_out_fold in range(_FOLDS):
        is_training = fold_of_unit != held_out_fold
        training_square_sum = control_square_of_unit[is_training].sum()
        if training_square_sum > 0:
            optimal_weight = cross_product_of_unit[is_training].sum() / training_square_sum
            weight_variance = (
                (cross_product_of_unit - optimal_weight * control_square_of_unit)[is_training] ** 2
            ).sum() / training_square_sum**2
            control_weight_of_unit[~is_training] = (
                np.clip(optimal_weight - weight_variance / optimal_weight, 0.0, 1.0) if optimal_weight > 0 else 0.0
            )
    return control_weight_of_unit
