"""Placement by scores, on the outputs that have a metric score and a human rating."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, unit_of
from custodes.stats.bootstrap import unit_sums
from custodes.stats.partiality.placement import (
    POWERS,
    Placement,
    bend_of,
    bounded_probit,
    covariance,
    largest_block,
    sum_by_unit,
)
from custodes.stats.ranks import mid_ranks
from custodes.stats.ratios import ratio
from custodes.stats.system_scores import common_items

_REPEATED = 20
"""Minimum number of repeated human ratings from which annotators' individual preferences for systems are estimated.

Repeated ratings are all ratings of an output after the first.
"""

_SMOOTHING = 0.3
"""Standard deviation of the normal noise added to human means to smooth their discrete distribution."""

_POINTS = 200  # maximum number of sorted human means, and number of points of their smoothed distribution
_CLIP = 3.0  # before powers are taken, values are clipped at this many standard deviations of human means

_BOUND_SHARE = 0.2
"""Minimum proportion of human ratings at one bound of the scale for which `_bound_bend` is not 0."""

_FEWEST_RATINGS = 30
"""Minimum number of ratings from which an annotator's own best and worst ratings count as bounds of the scale. With
fewer ratings, a large proportion equals the best rating by chance."""

_TASTE_LEVEL = 0.99
"""Confidence level of the F test for annotators' individual preferences for systems.

The variance of these preferences is added only if the test is significant. If the variance were always added, the power
of the tests would be lower.
"""

_TASTE_TAIL = 0.997
"""Probability at which quantiles of Student's t and the normal distribution are compared: about the level of the Holm
test for eight systems."""


class Effects(NamedTuple):
    """Two-way fit (item + system).

    `effects` (..., systems) are the system effects. `residuals` (..., items, systems) are the residuals. `influence`
    (..., items, systems) are the contributions of each item to the errors of the system effects.
    """

    effects: Floats
    residuals: Floats
    influence: Floats


class Instruments(NamedTuple):
    """Moments that identify a link with k powers of quality in spite of rating errors.

    Powers of one annotator's rating are instruments for powers of the mean rating of the remaining annotators. The
    rating errors of the annotator and of the remaining annotators are independent, so that noise does not bias products
    of the powers.

    - `mask` (items, systems): outputs rated at least twice, and its `laplacian_inverse` (systems, systems).
    - `rating` (k, items, systems): powers 1 to k of an annotator's rating, averaged over annotators and then replaced
      by the residuals of a two-way fit (item + system).
    - `rating_products` (k, k): sums of the products of two powers in `rating`.
    - `term_moments` (k, k, units): sums of the products of the powers of an annotator's rating and the powers of the
      remaining annotators' mean.
    """

    mask: Bools
    laplacian_inverse: Floats
    rating: Floats
    rating_products: Floats
    term_moments: Floats


class HumanSide(NamedTuple):
    """Human ratings on the outputs of a mask (items, systems), in the form that `Placement` needs.

    - `laplacian_inverse` (systems, systems): see `_laplacian_inverse`.
    - `quantiles` (2, k): levels and quantiles of the smoothed distribution of human means.
    - `influence` (units, systems): contribution of each unit to the errors of the system effects of human means.
    - `powers_influence` (powers, units, systems): contribution of each unit to the errors of the system effects of
      squared and cubed quality.
    - `instruments`: None if no output was rated twice.
    - `fields`: the fields of `Placement` that do not depend on the metric.
    """

    mask: Bools
    laplacian_inverse: Floats
    quantiles: Floats
    influence: Floats
    powers_influence: Floats
    instruments: Instruments | None
    fields: dict[str, Any]


def human_side(annotator_ratings: Floats, output_mask: Bools, units: Ints) -> HumanSide:
    """Return the human side of a placement on the outputs of a mask (items, systems).

    `annotator_ratings` (annotators, items, systems) are the human ratings, `units` (items,) the clusters.
    """
    has_rating = np.isfinite(annotator_ratings) & output_mask
    # Without this shift, a harsh annotator would lower the systems that this annotator happened to rate.
    level_of_annotator = annotator_levels(np.where(has_rating, annotator_ratings, np.nan)).values
    adjusted_ratings = np.where(has_rating, annotator_ratings - level_of_annotator[:, None, None], 0.0)
    mean_ratings = adjusted_ratings.sum(axis=0) / np.maximum(has_rating.sum(axis=0), 1)
    rating_sd = (float(mean_ratings[output_mask].std()) if output_mask.any() else 0.0) or 1.0
    rating_mean = float(mean_ratings[output_mask].mean()) if output_mask.any() else 0.0
    adjusted_ratings, mean_ratings = (
        np.where(has_rating, adjusted_ratings - rating_mean, 0.0) / rating_sd,
        np.where(output_mask, mean_ratings - rating_mean, 0.0) / rating_sd,
    )
    system_fit = two_way(mean_ratings, output_mask)
    influence_by_unit = sum_by_unit(system_fit.influence, units)
    quality_power_fit, instruments = _instruments(adjusted_ratings, has_rating, output_mask, units)
    taste_covariance = np.diag(_taste_variances(adjusted_ratings, has_rating, output_mask))
    return HumanSide(
        mask=output_mask,
        laplacian_inverse=_laplacian_inverse(output_mask),
        quantiles=_smoothed_quantiles(mean_ratings[output_mask]),
        influence=influence_by_unit,
        powers_influence=np.stack(
            [sum_by_unit(influence_by_item, units) for influence_by_item in quality_power_fit.influence]
        ),
        instruments=instruments,
        fields={
            "human": system_fit.effects,
            "hh": covariance(influence_by_unit, influence_by_unit) + taste_covariance,
            "bend": _bound_bend(annotator_ratings, has_rating, adjusted_ratings),
            "powers": quality_power_fit.effects,
            "spread": float((mean_ratings - system_fit.effects)[output_mask].std()) if output_mask.any() else 0.0,
            "units": (sum_by_unit(output_mask.astype(np.float64), units) > 0).sum(axis=0),
            "connected": largest_block(common_items(output_mask), np.asarray(output_mask.any(axis=0))),
            "is_compared_with_all": np.ones(output_mask.shape[1], dtype=np.bool_),
        },
    )


def _bound_bend(annotator_ratings: Floats, has_rating: Bools, adjusted_ratings: Floats) -> Floats:
    """Return how much the curve of a metric may bend (systems,) because human ratings have a bound.

    Latent positions are the probits of the proportion of ratings at (or beyond) the bound. Latent positions are
    compared with means of the same ratings, so that differences between the items of systems do not matter. The bend is
    0 if fewer than `_BOUND_SHARE` of the ratings lie at either bound. Annotators with few ratings share their bounds.
    """
    from scipy.special import ndtri

    ratings = np.where(has_rating, annotator_ratings, np.nan)
    n_ratings, n_ratings_of_annotator = has_rating.sum(axis=(0, 1)), has_rating.sum(axis=(1, 2), keepdims=True)
    n_top, n_bottom = (
        np.where(
            n_ratings_of_annotator >= _FEWEST_RATINGS,
            ratings == extreme_function.reduce(ratings, axis=(1, 2), keepdims=True),
            ratings == extreme_function.reduce(ratings, axis=None),
        ).sum(axis=(0, 1))
        for extreme_function in (np.fmax, np.fmin)
    )
    if max(n_top.sum(), n_bottom.sum()) < _BOUND_SHARE * n_ratings.sum():
        return np.zeros(len(n_ratings))
    n_high_ratings = n_top if n_top.sum() >= n_bottom.sum() else n_ratings - n_bottom
    latent_positions = ndtri((n_high_ratings + 0.5) / (n_ratings + 1))  # 0 without ratings
    # The metric's scores are mapped to the distribution of human means, which has the bound, so about half remains.
    return 0.5 * bend_of(latent_positions, adjusted_ratings.sum(axis=(0, 1)) / np.maximum(n_ratings, 1))


def two_way(values: Floats, output_mask: Bools, laplacian_inverse: Floats | None = None) -> Effects:
    """Return the least-squares fit of item + system to values (..., items, systems), which are 0 outside the mask.

    The system effects sum to 0. For many fits with one mask, give its `_laplacian_inverse`.
    """
    n_outputs_of_item = np.maximum(output_mask.sum(axis=1, keepdims=True), 1)
    centred_values = np.where(output_mask, values - values.sum(axis=-1, keepdims=True) / n_outputs_of_item, 0.0)
    laplacian_inverse = _laplacian_inverse(output_mask) if laplacian_inverse is None else laplacian_inverse
    system_effects = centred_values.sum(axis=-2) @ laplacian_inverse
    effect_means = (system_effects[..., None, :] * output_mask).sum(axis=-1, keepdims=True) / n_outputs_of_item
    residuals = np.where(output_mask, centred_values - system_effects[..., None, :] + effect_means, 0.0)
    return Effects(system_effects, residuals, residuals @ laplacian_inverse)


def _smoothed_quantiles(values: Floats) -> Floats:
    """Return levels and quantiles (2, k) of standardised values (n,), smoothed by normal noise and scaled again."""
    from scipy.special import ndtr

    if not values.size:
        return np.zeros((2, 1))
    n_points = min(_POINTS, values.size)
    quantile_sample = np.sort(values)[((np.arange(n_points) + 0.5) * values.size / n_points).astype(np.intp)]
    quantile_grid = np.linspace(quantile_sample[0] - 6 * _SMOOTHING, quantile_sample[-1] + 6 * _SMOOTHING, _POINTS)
    cumulative_probabilities = ndtr((quantile_grid[:, np.newaxis] - quantile_sample) / _SMOOTHING).mean(axis=1)
    return np.stack([cumulative_probabilities, quantile_grid / np.sqrt(1 + _SMOOTHING**2)])


def _laplacian_inverse(output_mask: Bools) -> Floats:
    """Return the generalised inverse (systems, systems) of the normal equations of system effects.

    Item effects are eliminated from the normal equations.
    """
    item_shares = output_mask / np.maximum(output_mask.sum(axis=1, keepdims=True), 1)
    laplacian = np.diag(output_mask.sum(axis=0)) - item_shares.T @ output_mask
    return np.asarray(np.linalg.pinv(laplacian, rcond=1e-10, hermitian=True))


def _residual_share(output_mask: Bools) -> Floats:
    """Return the diagonal (items, systems) of the projection onto residuals of item + system; 0 outside the mask."""
    n_outputs_of_item, laplacian_inverse = (
        np.maximum(output_mask.sum(axis=1, keepdims=True), 1),
        _laplacian_inverse(output_mask),
    )
    item_inverse_sums = output_mask @ laplacian_inverse
    leverage_of_output = (
        laplacian_inverse.diagonal()
        - 2 * item_inverse_sums / n_outputs_of_item
        + (item_inverse_sums * output_mask).sum(axis=1, keepdims=True) / n_outputs_of_item**2
    )
    return np.where(output_mask, 1 - 1 / n_outputs_of_item - leverage_of_output, 0.0)


FEWEST_RESIDUALS = 5
"""Minimum degrees of freedom of the residuals from which the variance of annotators' levels is estimated."""


class AnnotatorLevels(NamedTuple):
    """Level of each annotator (annotators,), high for a lenient annotator, and the covariance of the errors of levels.

    The covariance is infinite if the residuals have fewer than `FEWEST_RESIDUALS` degrees of freedom.
    """

    values: Floats
    covariance: Floats


def annotator_levels(annotator_ratings: Floats) -> AnnotatorLevels:
    """Return the levels of annotators, given ratings (annotators, items, systems).

    Levels are the annotator effects in the least-squares fit of output + annotator. Annotators who are connected by
    outputs that both rated are comparable; their levels sum to 0.

    >>> annotator_levels(np.array([[[1.0, 2.0, np.nan]], [[3.0, np.nan, 5.0]]])).values.round(6).tolist()
    [-1.0, 1.0]
    """
    ratings_by_output = annotator_ratings.reshape(len(annotator_ratings), -1).T
    has_rating = np.isfinite(ratings_by_output)
    is_repeated_rating = has_rating & (has_rating.sum(axis=1, keepdims=True) > 1)
    two_way_fit, laplacian_inverse = (
        two_way(np.where(has_rating, ratings_by_output, 0.0), is_repeated_rating),
        _laplacian_inverse(is_repeated_rating),
    )
    n_parameters = int(is_repeated_rating.any(axis=1).sum()) + np.linalg.matrix_rank(laplacian_inverse, hermitian=True)
    degrees_of_freedom = int(is_repeated_rating.sum()) - int(n_parameters)
    if degrees_of_freedom < FEWEST_RESIDUALS:
        return AnnotatorLevels(two_way_fit.effects, np.full_like(laplacian_inverse, np.inf))
    error_variance = float((two_way_fit.residuals**2).sum()) / degrees_of_freedom
    return AnnotatorLevels(two_way_fit.effects, error_variance * laplacian_inverse)


def _instruments(
    ratings: Floats, has_rating: Bools, output_mask: Bools, units: Ints
) -> tuple[Effects, Instruments | None]:
    """Return the two-way fit of squared and cubed quality, and the instruments, given ratings.

    `ratings` and `has_rating` have shape (annotators, items, systems). The instruments are None if no output was rated
    twice.
    """
    n_ratings = has_rating.sum(axis=0)
    is_repeated_output = n_ratings > 1
    rating_sums, exponents = ratings.sum(axis=0), np.arange(1, 2 + len(POWERS))[:, np.newaxis, np.newaxis]
    mean_rating_powers, mean_other_powers = np.zeros((2, len(exponents), *output_mask.shape))
    power_products = np.zeros((len(exponents), *mean_rating_powers.shape))
    for annotator_ratings, has_annotator_rating in zip(ratings, has_rating, strict=True):
        other_means = np.where(
            is_repeated_output, (rating_sums - annotator_ratings) / np.maximum(n_ratings - 1, 1), annotator_ratings
        )
        rating_weights = has_annotator_rating / np.maximum(n_ratings, 1)
        rating_powers, other_powers = (
            np.clip(ratings_or_means, -_CLIP, _CLIP) ** exponents * has_annotator_rating
            for ratings_or_means in (annotator_ratings, other_means)
        )
        other_powers[0] = (
            other_means * has_annotator_rating
        )  # the linear term uses the mean of the remaining annotators
        mean_rating_powers += rating_weights * rating_powers
        mean_other_powers += rating_weights * other_powers
        power_products += rating_weights * rating_powers[:, np.newaxis] * other_powers
    quality_power_fit = two_way(mean_other_powers[1:], output_mask)
    if not is_repeated_output.any():
        return quality_power_fit, None
    # average of the products minus product of the averages
    power_products = (power_products - mean_rating_powers[:, np.newaxis] * mean_other_powers) * _residual_share(
        is_repeated_output
    )
    rating_residuals, other_residuals = (
        two_way(mean_powers * is_repeated_output, is_repeated_output).residuals
        for mean_powers in (mean_rating_powers, mean_other_powers)
    )
    return quality_power_fit, Instruments(
        mask=is_repeated_output,
        laplacian_inverse=_laplacian_inverse(is_repeated_output),
        rating=rating_residuals,
        rating_products=np.einsum("ais,bis->ab", rating_residuals, rating_residuals),
        term_moments=unit_sums(
            np.einsum("ais,bis->abi", rating_residuals, other_residuals) + power_products.sum(axis=3),
            units=units,
            n_units=int(units.max()) + 1,
        ),
    )


def _taste_variances(ratings: Floats, has_rating: Bools, output_mask: Bools) -> Floats:
    """Return the variance (systems,) of each system's human mean that is due to annotators' individual preferences.

    Individual preferences are an interaction annotator x system. The variance of the interaction does not decrease with
    more items. The result is 0 if the F test finds no individual preferences or if there are too few repeated ratings
    for the test.
    """
    from scipy.special import fdtri, ndtri, stdtrit

    n_ratings = has_rating.sum(axis=0)
    is_repeated_output = n_ratings > 1
    degrees_of_freedom = int((n_ratings - 1)[is_repeated_output].sum())
    zero_variances = np.zeros(output_mask.shape[1])
    is_repeated_rating = has_rating & is_repeated_output
    output_means = np.where(is_repeated_output, ratings.sum(axis=0) / np.maximum(n_ratings, 1), 0.0)
    rating_deviations = np.where(is_repeated_rating, ratings - output_means, 0.0)
    n_repeated_ratings = is_repeated_rating.sum(axis=1)  # (annotators, systems)
    annotator_effects = np.nan_to_num(ratio(rating_deviations.sum(axis=1), n_repeated_ratings))
    has_repeated_ratings = n_repeated_ratings > 0
    effect_degrees_of_freedom = (
        int(has_repeated_ratings.sum())
        - int(has_repeated_ratings.any(axis=0).sum())
        - int(has_repeated_ratings.any(axis=1).sum())
        + 1
    )
    if degrees_of_freedom < _REPEATED or effect_degrees_of_freedom < 1:
        return zero_variances
    residual_degrees_of_freedom = max(degrees_of_freedom - effect_degrees_of_freedom, 1)
    effect_square_sum = float((n_repeated_ratings * annotator_effects**2).sum())
    variance_within = (float((rating_deviations**2).sum()) - effect_square_sum) / residual_degrees_of_freedom
    variance_between = effect_square_sum / effect_degrees_of_freedom
    if variance_between <= variance_within * fdtri(
        effect_degrees_of_freedom, residual_degrees_of_freedom, _TASTE_LEVEL
    ):
        return zero_variances
    # With few annotators this variance is uncertain, so it is increased to match the tails of Student's t.
    inflation_factor = float(stdtrit(effect_degrees_of_freedom, _TASTE_TAIL) / ndtri(_TASTE_TAIL)) ** 2
    taste_variance = (
        inflation_factor * (variance_between - variance_within) / float(n_repeated_ratings[has_repeated_ratings].mean())
    )
    return np.asarray(taste_variance / np.maximum(has_rating.any(axis=1).sum(axis=0), 1))


_SLOPE = 3.0
"""Prior standard deviation of the slope within systems, in normal scores per standard deviation of human means."""

_RIDGE = 1e-6
"""Relative ridge of the variance of moments. Ratings with only two values need a ridge, because all powers of such
ratings are the same instrument."""

_TINY = 1e-12
_SAME = 1e-9  # smaller variations of differences are rounding errors


class ScoredPeople:
    """Human scores, with which the scores of each metric are compared in a placement.

    Human means are standardised. The metric's scores are mapped by rank to the distribution of the human means. The
    result then does not depend on the unit and on outliers of the metric's scores, and the link of a noisy but fair
    metric is nearly straight.
    """

    def __init__(self, annotator_ratings: Floats, *, units: Ints) -> None:
        self._rated = np.isfinite(annotator_ratings).any(axis=0)
        self._persons = annotator_ratings / unit_of(annotator_ratings)
        self._units = units
        self._side: HumanSide | None = None

    def placement(self, metric_scores: Floats) -> Placement:
        """Return the placement of a metric, given its scores (items, systems); missing scores are NaN."""

        output_mask = self._rated & np.isfinite(metric_scores)
        output_mask &= output_mask.sum(axis=1, keepdims=True) > 1
        if self._side is None or not np.array_equal(self._side.mask, output_mask):
            self._side = human_side(self._persons, output_mask, self._units)
        human_summary = self._side
        rank_mapped_scores = np.zeros(metric_scores.shape)  # mapped by their ranks onto the quantiles of human means
        rank_mapped_scores[output_mask] = np.interp(
            (mid_ranks(metric_scores[output_mask]) - 0.5) / max(1, output_mask.sum()), *human_summary.quantiles
        )
        metric_fit = two_way(rank_mapped_scores, output_mask, human_summary.laplacian_inverse)
        link_coefficients, powers_covariance = _link_coefficients(
            human_summary.instruments, rank_mapped_scores, self._units
        )
        metric_influence = sum_by_unit(metric_fit.influence, self._units) - np.tensordot(
            link_coefficients, human_summary.powers_influence, axes=1
        )
        output_indicators = output_mask.astype(np.float64)
        n_shared_items = output_indicators.T @ output_indicators
        score_sums, square_sums = (
            (rank_mapped_scores**power).T @ output_indicators  # over the items that the second system has, too
            for power in (1, 2)
        )
        mean_differences = ratio(score_sums - score_sums.T, n_shared_items)
        mean_squared_differences = ratio(
            square_sums + square_sums.T - 2 * rank_mapped_scores.T @ rank_mapped_scores, n_shared_items
        )
        difference_sds = np.sqrt(np.maximum(mean_squared_differences - mean_differences**2, 0.0))
        # If the difference of two systems does not vary, any shift would decide all their comparisons.
        positive_sds = difference_sds[difference_sds > _SAME]
        difference_sds = np.maximum(difference_sds, (np.median(positive_sds) if positive_sds.size else 1.0) / 4)
        return Placement(
            **human_summary.fields,
            metric=metric_fit.effects - link_coefficients @ human_summary.fields["powers"],
            hm=covariance(human_summary.influence, metric_influence),
            mm=covariance(metric_influence, metric_influence),
            powers_covariance=powers_covariance,
            advantage=bounded_probit(_win_rates(rank_mapped_scores, output_mask, n_shared_items), n_shared_items),
            steepness=1 / difference_sds,
        )


def _win_rates(scores: Floats, output_mask: Bools, n_shared_items: Floats) -> Floats:
    """Return the proportion (systems, systems) of shared items on which the first system has the higher score.

    A tie counts as half. `n_shared_items` (systems, systems) is the number of shared items.

    >>> _win_rates(np.array([[1.0, 1.0], [2.0, 0.0]]), np.ones((2, 2), dtype=bool), np.full((2, 2), 2.0)).tolist()
    [[0.5, 0.75], [0.25, 0.5]]
    """
    win_counts = [
        (np.heaviside(scores[:, [system]] - scores, 0.5) * (output_mask & output_mask[:, [system]])).sum(axis=0)
        for system in range(scores.shape[1])
    ]
    return ratio(np.array(win_counts), n_shared_items)


def _link_coefficients(instruments: Instruments | None, scores: Floats, units: Ints) -> tuple[Floats, Floats]:
    """Return the link's coefficients (powers,) for squared and cubed quality, and their posterior covariance.

    The link from quality to scores (items, systems) is estimated within items and systems. The estimator is the
    two-step generalised method of moments with a normal prior, with moments summed by cluster. If no output was rated
    twice, the mean and the covariance of the prior are returned.
    """
    prior_variances = np.array([_SLOPE, *POWERS]) ** 2
    if instruments is None:
        return np.zeros(len(POWERS)), np.diag(prior_variances[1:])
    output_mask, laplacian_inverse, rating_powers, rating_products, term_moments = instruments
    score_residuals = two_way(np.where(output_mask, scores, 0.0), output_mask, laplacian_inverse).residuals
    score_moments = unit_sums(
        np.einsum("ais,is->ai", rating_powers, score_residuals), units=units, n_units=term_moments.shape[-1]
    )
    score_moment_sums, term_moment_sums = score_moments.sum(axis=-1), term_moments.sum(axis=-1)
    moment_covariance = rating_products * float((score_residuals[output_mask] ** 2).mean())
    coefficients, posterior_covariance = np.zeros(len(prior_variances)), np.diag(prior_variances)
    for _ in range(2):
        moment_sds = np.sqrt(np.maximum(moment_covariance.diagonal(), _TINY))
        moment_weights = np.linalg.inv(
            moment_covariance / np.outer(moment_sds, moment_sds) + _RIDGE * np.eye(len(prior_variances))
        ) / np.outer(moment_sds, moment_sds)
        posterior_covariance = np.linalg.inv(
            term_moment_sums.T @ moment_weights @ term_moment_sums + np.diag(1 / prior_variances)
        )
        coefficients = posterior_covariance @ term_moment_sums.T @ moment_weights @ score_moment_sums
        moment_residuals = score_moments - np.einsum("abu,b->au", term_moments, coefficients)
        moment_covariance = moment_residuals @ moment_residuals.T
    return coefficients[1:], posterior_covariance[1:, 1:]
