"""Human side of a placement by scores: system effects with their errors, and moments that identify a curved link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.partiality.placement import POWERS, connected_systems, count_clusters, covariance, sum_by_unit
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
