"""Placement by scores, on the outputs that have a metric score and a human rating."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, unit_of
from custodes.stats.bootstrap import unit_sums
from custodes.stats.partiality.human_effects import HumanSide, Instruments, human_side, two_way
from custodes.stats.partiality.placement import POWERS, Placement, covariance, sum_by_unit
from custodes.stats.ranks import mid_ranks
from custodes.stats.ratios import ratio

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
