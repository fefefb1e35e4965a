"""Placement by scores, on the outputs that have a metric score and a human rating."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, unit_of
from custodes.stats.bootstrap import unit_sums
from custodes.stats.partiality.placement import (
    POWERS,
    Placement,
    connected_systems,
    count_clusters,
    covariance,
    sum_by_unit,
)
from custodes.stats.ranks import mid_ranks
from custodes.stats.ratios import ratio

_REPEATED = 20
"""Minimum number of repeated human ratings from which annotators' individual preferences for systems are estimated.

Repeated ratings are all ratings of an output after the first.
"""

_SMOOTHING = 0.3
"""Standard deviation of the normal noise added to human means to smooth their discrete distribution."""

_POINTS = 200  # maximum number of sorted human means, and number of points of their smoothed distribution
_CLIP = 3.0  # before powers are taken, values are clipped at this many standard deviations of human means

_TASTE_LEVEL = 0.99
"""Confidence level of the F test for annotators' individual preferences for systems.

The variance of these preferences is added only if the test is significant: without evidence, it would reduce power.
"""

_TASTE_TAIL = 0.997
"""Probability at which quantiles of Student's t and the normal distribution are compared: about the level of the Holm
test for eight systems."""


class Effects(NamedTuple):
    """Two-way fit (item + system).

    `effects` (..., systems) are the system effects, `residuals` (..., items, systems) the residuals, and `influence`
    (..., items, systems) the contributions of each item to the errors of the system effects.
    """

    effects: Floats
    residuals: Floats
    influence: Floats


class Instruments(NamedTuple):
    """Moments that identify a link with k powers of quality in spite of rating errors.

    Powers of one annotator's rating are instruments for powers of the mean rating of the remaining annotators. The
    rating errors of these two are independent, so that noise does not bias products of their powers.

    - `rating`, `others` (k, items, systems): powers of the annotator's rating and of the remaining annotators' mean,
      averaged over annotators; residuals of the two-way fit (item + system).
    - `product` (k, k, items, systems): correction from the product of the averages to the average of the products.
    - `mask` (items, systems): outputs rated at least twice.
    """

    mask: Bools
    rating: Floats
    others: Floats
    product: Floats


class HumanSide(NamedTuple):
    """Human ratings on the outputs of a mask (items, systems), in the form that `Placement` needs.

    - `quantiles` (2, k): levels and quantiles of the smoothed distribution of human means.
    - `effects` (systems,): system effects of human means, with `covariance` (systems, systems).
    - `influence` (units, systems): contribution of each unit to the errors of `effects`.
    - `powers` (powers, systems): system effects of squared and cubed quality.
    - `powers_influence` (powers, units, systems): contribution of each unit to the errors of `powers`.
    - `instruments`: None if no output was rated twice.
    - `spread`: standard deviation of outputs of one system.
    - `units`, `connected` (systems,): as in `Placement`.
    """

    mask: Bools
    quantiles: Floats
    effects: Floats
    influence: Floats
    covariance: Floats
    powers: Floats
    powers_influence: Floats
    instruments: Instruments | None
    spread: float
    units: Ints
    connected: Bools


def human_side(persons: Floats, mask: Bools, units: Ints) -> HumanSide:
    """Return the human side of a placement on the outputs of a mask (items, systems).

    `persons` (annotators, items, systems) are the human ratings, `units` (items,) the clusters.
    """
    is_rated = np.isfinite(persons) & mask
    n_ratings = is_rated.sum(axis=0)
    ratings = np.where(is_rated, level(np.where(is_rated, persons, np.nan)), 0.0)
    mean = ratings.sum(axis=0) / np.maximum(n_ratings, 1)
    scale = float(mean[mask].std()) if mask.any() else 0.0
    scale = scale if scale > 0 else 1.0
    centre = float(mean[mask].mean()) if mask.any() else 0.0
    ratings, mean = np.where(is_rated, ratings - centre, 0.0) / scale, np.where(mask, mean - centre, 0.0) / scale
    effects = two_way(mean, mask)
    influence = sum_by_unit(effects.influence, units)
    powers, instruments = _instruments(ratings, is_rated, mask)
    taste_variance = _taste(ratings, is_rated, mask)
    return HumanSide(
        mask=mask,
        quantiles=_smoothed_quantiles(mean[mask]),
        effects=effects.effects,
        influence=influence,
        covariance=covariance(influence, influence) + np.diag(taste_variance),
        powers=powers.effects,
        powers_influence=np.stack([sum_by_unit(influence, units) for influence in powers.influence]),
        instruments=instruments,
        spread=float((mean - effects.effects)[mask].std()) if mask.any() else 0.0,
        units=count_clusters(mask, units),
        connected=connected_systems(mask),
    )


def two_way(values: Floats, mask: Bools) -> Effects:
    """Return the least-squares fit of item + system to values (..., items, systems), which are 0 outside the mask.

    The system effects sum to 0.
    """
    n = np.maximum(mask.sum(axis=1, keepdims=True), 1)
    centred_values = np.where(mask, values - values.sum(axis=-1, keepdims=True) / n, 0.0)
    laplacian_inverse = _laplacian_inverse(mask)
    effects = centred_values.sum(axis=-2) @ laplacian_inverse
    fitted_values = effects[..., None, :] - (effects[..., None, :] * mask).sum(axis=-1, keepdims=True) / n
    residuals = np.where(mask, centred_values - fitted_values, 0.0)
    return Effects(effects, residuals, residuals @ laplacian_inverse)


def _smoothed_quantiles(values: Floats) -> Floats:
    """Return levels and quantiles (2, k) of standardised values (n,), smoothed by normal noise and scaled again."""
    from scipy.special import ndtr

    if not values.size:
        return np.zeros((2, 1))
    n_points = min(_POINTS, values.size)
    sorted_values = np.sort(values)[((np.arange(n_points) + 0.5) * values.size / n_points).astype(np.intp)]
    grid = np.linspace(sorted_values[0] - 6 * _SMOOTHING, sorted_values[-1] + 6 * _SMOOTHING, _POINTS)
    levels = ndtr((grid[:, np.newaxis] - sorted_values) / _SMOOTHING).mean(axis=1)
    return np.stack([levels, grid / np.sqrt(1 + _SMOOTHING**2)])


def _laplacian_inverse(mask: Bools) -> Floats:
    """Return the generalised inverse (systems, systems) of the normal equations of system effects.

    Item effects are eliminated from these equations.
    """
    indicators, n = mask.astype(np.float64), np.maximum(mask.sum(axis=1, keepdims=True), 1)
    return np.asarray(
        np.linalg.pinv(np.diag(indicators.sum(axis=0)) - (indicators / n).T @ indicators, rcond=1e-10, hermitian=True)
    )


def _residual_share(mask: Bools) -> Floats:
    """Return the diagonal (items, systems) of the projection onto residuals of item + system; 0 outside the mask."""
    n, laplacian_inverse = np.maximum(mask.sum(axis=1, keepdims=True), 1), _laplacian_inverse(mask)
    item_sums = mask @ laplacian_inverse
    leverage = laplacian_inverse.diagonal() - 2 * item_sums / n + (item_sums * mask).sum(axis=1, keepdims=True) / n**2
    return np.where(mask, 1 - 1 / n - leverage, 0.0)


def level(persons: Floats) -> Floats:
    """Return ratings (annotators, items, systems) shifted to a common level of all annotators.

    Without the shift, a harsh annotator would lower the systems that this annotator happened to rate.
    """
    ratings = persons.reshape(len(persons), -1).T
    is_rated = np.isfinite(ratings)
    severity = two_way(np.where(is_rated, ratings, 0.0), is_rated & (is_rated.sum(axis=1, keepdims=True) > 1)).effects
    return persons - severity[:, None, None]


def _instruments(ratings: Floats, is_rated: Bools, mask: Bools) -> tuple[Effects, Instruments | None]:
    """Return the two-way fit of squared and cubed quality, and the instruments, given ratings.

    `ratings` and `is_rated` have shape (annotators, items, systems). The instruments are None if no output was rated
    twice.
    """
    n_ratings = is_rated.sum(axis=0)
    is_repeated = n_ratings > 1
    rating_sums, exponents = ratings.sum(axis=0), np.arange(1, 2 + len(POWERS))[:, np.newaxis, np.newaxis]
    power_mean, other_mean = np.zeros((2, len(exponents), *mask.shape))
    product = np.zeros((len(exponents), *power_mean.shape))
    for rating, is_present in zip(ratings, is_rated, strict=True):
        mean_of_others = np.where(is_repeated, (rating_sums - rating) / np.maximum(n_ratings - 1, 1), rating)
        rating_weight = is_present / np.maximum(n_ratings, 1)
        rating_powers, other_powers = (
            np.clip(values, -_CLIP, _CLIP) ** exponents * is_present for values in (rating, mean_of_others)
        )
        other_powers[0] = mean_of_others * is_present  # the linear term uses the human means
        power_mean += rating_weight * rating_powers
        other_mean += rating_weight * other_powers
        product += rating_weight * rating_powers[:, np.newaxis] * other_powers
    powers = two_way(other_mean[1:], mask)
    if not is_repeated.any():
        return powers, None
    product = (product - power_mean[:, np.newaxis] * other_mean) * _residual_share(is_repeated)
    return powers, Instruments(
        mask=is_repeated,
        rating=two_way(power_mean * is_repeated, is_repeated).residuals,
        others=two_way(other_mean * is_repeated, is_repeated).residuals,
        product=product,
    )


def _taste(ratings: Floats, is_rated: Bools, mask: Bools) -> Floats:
    """Return the variance (systems,) of each system's human mean that is due to annotators' individual preferences.

    These preferences are an interaction annotator x system, whose variance more items do not reduce. The result is 0 if
    the F test finds no such preferences or if there are too few repeated ratings for the test.
    """
    from scipy.special import fdtri, ndtri, stdtrit

    n_ratings = is_rated.sum(axis=0)
    is_repeated = n_ratings > 1
    degrees_of_freedom = int((n_ratings - 1)[is_repeated].sum())
    no_variance = np.zeros(mask.shape[1])
    if degrees_of_freedom < _REPEATED:
        return no_variance
    is_used_rating = is_rated & is_repeated
    mean = np.where(is_repeated, ratings.sum(axis=0) / np.maximum(n_ratings, 1), 0.0)
    deviation = np.where(is_used_rating, ratings - mean, 0.0)
    n_counted = is_used_rating.sum(axis=1)  # (annotators, systems)
    annotator_effects = np.nan_to_num(ratio(deviation.sum(axis=1), n_counted))
    has_used_ratings = n_counted > 0
    effect_freedom = (
        int(has_used_ratings.sum())
        - int(has_used_ratings.any(axis=0).sum())
        - int(has_used_ratings.any(axis=1).sum())
        + 1
    )
    if effect_freedom < 1:
        return no_variance
    variance_within = float((deviation**2).sum() - (n_counted * annotator_effects**2).sum()) / max(
        degrees_of_freedom - effect_freedom, 1
    )
    variance_between = float((n_counted * annotator_effects**2).sum()) / effect_freedom
    if variance_between <= variance_within * fdtri(
        effect_freedom, max(degrees_of_freedom - effect_freedom, 1), _TASTE_LEVEL
    ):
        return no_variance
    # With few annotators this variance is uncertain, so it is increased to match the tails of Student's t.
    inflation = float(stdtrit(effect_freedom, _TASTE_TAIL) / ndtri(_TASTE_TAIL)) ** 2
    variance = inflation * (variance_between - variance_within) / float(n_counted[has_used_ratings].mean())
    return np.asarray(variance / np.maximum(is_rated.any(axis=1).sum(axis=0), 1))


_SLOPE = 3.0
"""Prior standard deviation of the slope within systems, in normal scores per standard deviation of human means."""

_RIDGE = 1e-6
"""Relative ridge of the variance of moments. Ratings with two values need it, because all their powers are the same
instrument."""

_TINY = 1e-12
_SAME = 1e-9  # smaller variations of differences are rounding errors


class ScoredPeople:
    """Human scores, with which the scores of each metric are compared in a placement.

    Human means are standardised. The metric's scores are mapped by rank to the distribution of the human means. The
    unit and the outliers of the metric's scores then do not matter, and the link of a noisy but fair metric is nearly
    straight.
    """

    def __init__(self, persons: Floats, *, units: Ints) -> None:
        self._rated = np.isfinite(persons).any(axis=0)
        self._persons = persons / unit_of(persons)
        self._units = units
        self._side: HumanSide | None = None

    def placement(self, metric: Floats) -> Placement:
        """Return the placement of a metric, given its scores (items, systems); missing scores are NaN."""
        from scipy.special import ndtri

        mask = self._rated & np.isfinite(metric)
        mask &= mask.sum(axis=1, keepdims=True) > 1
        human = self._side
        if human is None or not np.array_equal(human.mask, mask):
            self._side = human = human_side(self._persons, mask, self._units)
        scores = np.zeros(metric.shape)  # mapped by their ranks onto the quantiles of human means
        scores[mask] = np.interp((mid_ranks(metric[mask]) - 0.5) / max(1, mask.sum()), *human.quantiles)
        effects = two_way(scores, mask)
        coefficients, powers_covariance = _link_coefficients(human.instruments, scores, self._units)
        influence = sum_by_unit(effects.influence, self._units)
        influence = influence - np.tensordot(coefficients, human.powers_influence, axes=1)
        is_scored = mask.astype(np.float64)
        n_shared = is_scored.T @ is_scored
        mean_difference = ratio(scores.T @ is_scored - is_scored.T @ scores, n_shared)
        win_rates = _win_rates(scores, mask, n_shared)
        mean_squares = ratio((scores**2).T @ is_scored + is_scored.T @ scores**2 - 2 * scores.T @ scores, n_shared)
        difference_sd = np.sqrt(np.maximum(mean_squares - mean_difference**2, 0.0))
        # If the difference of two systems does not vary, any shift would decide all their comparisons.
        positive_scatter = difference_sd[difference_sd > _SAME]
        difference_sd = np.maximum(difference_sd, (np.median(positive_scatter) if positive_scatter.size else 1.0) / 4)
        return Placement(
            human=human.effects,
            metric=effects.effects - coefficients @ human.powers,
            hh=human.covariance,
            hm=covariance(human.influence, influence),
            mm=covariance(influence, influence),
            powers=human.powers,
            powers_covariance=powers_covariance,
            spread=human.spread,
            units=human.units,
            connected=human.connected,
            met=np.ones(len(n_shared), dtype=np.bool_),
            advantage=ndtri(np.clip(win_rates, 0.5 / np.maximum(n_shared, 1), 1 - 0.5 / np.maximum(n_shared, 1))),
            steepness=1 / difference_sd,
        )


def _win_rates(scores: Floats, mask: Bools, n: Floats) -> Floats:
    """Return the proportion (systems, systems) of shared items on which the first system has the higher score.

    A tie counts as half. `n` (systems, systems) is the number of shared items.

    >>> _win_rates(np.array([[1.0, 1.0], [2.0, 0.0]]), np.ones((2, 2), dtype=bool), np.full((2, 2), 2.0)).tolist()
    [[0.5, 0.75], [0.25, 0.5]]
    """
    n_won = np.empty(n.shape)
    for s, score in enumerate(scores.T):
        is_on_both, score_column = mask & mask[:, [s]], score[:, None]
        n_won[s] = ((score_column > scores) & is_on_both).sum(axis=0) + 0.5 * (
            (score_column == scores) & is_on_both
        ).sum(axis=0)
    return ratio(n_won, n)


def _link_coefficients(instruments: Instruments | None, scores: Floats, units: Ints) -> tuple[Floats, Floats]:
    """Return the link's coefficients (powers,) for squared and cubed quality, and their posterior covariance.

    The link from quality to scores (items, systems) is estimated within items and systems, by the two-step generalised
    method of moments with a normal prior; moments are summed by cluster. If no output was rated twice, the mean and the
    covariance of the prior are returned.
    """
    prior_variance = np.array([_SLOPE, *POWERS]) ** 2
    if instruments is None:
        return np.zeros(len(POWERS)), np.diag(prior_variance[1:])
    mask, rating, mean_of_others, product = instruments
    residual = two_way(np.where(mask, scores, 0.0), mask).residuals
    score_moments = np.einsum("ais,is->ai", rating, residual)
    term_moments = np.einsum("ais,bis->abi", rating, mean_of_others) + product.sum(axis=3)
    n_units = int(units.max()) + 1
    score_moments, term_moments = (
        unit_sums(sums, units=units, n_units=n_units) for sums in (score_moments, term_moments)
    )
    score_moment_sums, term_moment_sums = score_moments.sum(axis=-1), term_moments.sum(axis=-1)
    variance = np.einsum("ais,bis->ab", rating, rating) * float((residual[mask] ** 2).mean())
    coefficients, posterior_covariance = np.zeros(len(prior_variance)), np.diag(prior_variance)
    for _ in range(2):
        standard_deviations = np.sqrt(np.maximum(variance.diagonal(), _TINY))
        moment_weights = np.linalg.inv(
            variance / np.outer(standard_deviations, standard_deviations) + _RIDGE * np.eye(len(prior_variance))
        ) / np.outer(standard_deviations, standard_deviations)
        posterior_covariance = np.linalg.inv(
            term_moment_sums.T @ moment_weights @ term_moment_sums + np.diag(1 / prior_variance)
        )
        coefficients = posterior_covariance @ term_moment_sums.T @ moment_weights @ score_moment_sums
        moments = score_moments - np.einsum("abu,b->au", term_moments, coefficients)
        variance = moments @ moments.T
    return coefficients[1:], posterior_covariance[1:, 1:]
