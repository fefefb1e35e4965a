"""Strengths of systems, with draws of their sampling error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from custodes.errors import InputError
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.clusters import effective_clusters
from custodes.stats.intervals import student_quantile
from custodes.stats.ratios import ratio
from custodes.stats.strength.battles import BattleCounts, Battles, count_by_kind
from custodes.stats.strength.davidson import Fit, fit
from custodes.stats.strength.sandwich import (
    count_effective_clusters,
    leverage_corrected,
    normal_draws,
    penalty_moments,
    widen_covariance,
)

TieModel = Literal["davidson", "half"]
"""How ties are modelled: `davidson`, as an outcome with a parameter; `half`, as half a win for each side."""


@dataclass(frozen=True, kw_only=True)
class Strengths:
    """Strengths as log odds, with effects and ties. Row 0 of all draws is the estimate.

    - `draws` (1 + B, systems): strengths, which sum to 0 within each component; NaN for a system without comparisons.
    - `effects` (1 + B, k): effects of the covariates, in log odds per unit.
    - `ties` (1 + B,): Davidson's nu; 0 without ties, NaN if ties are half wins.
    - `component` (systems,): component of each system; strengths of different components cannot be compared.
    - `bounded` (systems,): False if the estimate is finite only because of the penalty. If `bounded` is False, the
    system, or a group that contains the system, won or lost every comparison with the largest strongly connected part
    of the
      component.
    - `clusters`, `n_units`: number of clusters, and effective number of clusters.
    """

    draws: Floats
    effects: Floats
    ties: Floats
    component: Ints
    bounded: Bools
    clusters: int
    n_units: float


def strengths(
    battles: Battles, *, n_systems: int, ties: TieModel, resamples: int, rng: np.random.Generator
) -> Strengths:
    """Return strengths by Davidson's model, with draws of their sampling error.

    With `ties="half"`, the model is that of Bradley and Terry with ties as half wins. Sampling errors are drawn by a
    score bootstrap. The contribution of each cluster to the fit is corrected for leverage and multiplied by a normal
    variate, which gives normal draws with the cluster-robust covariance. The model is not refitted: with few battles, a
    system may win every battle of a resample, and the refit would not be finite. Use `interval` for intervals and
    `ranks` for ranks. Raises InputError if covariates cannot be separated from strengths.

    >>> result = strengths(
    ...     Battles(
    ...         first=np.zeros(100, dtype=int), second=np.ones(100, dtype=int),
    ...         unit=np.arange(100), weight=np.ones(100),
    ...         sign=np.repeat([1, -1], [75, 25]).astype(np.int8), covariates=np.empty((100, 0)),
    ...     ),
    ...     n_systems=2, ties="davidson", resamples=1000, rng=np.random.default_rng(0),
    ... )
    >>> result.draws[0].round(4).tolist()  # half of log 3 and of log 1/3
    [0.5493, -0.5493]

    Source: Davidson 1970; clustered covariance: Liang and Zeger 1986; score bootstrap: Kline and Santos 2012.
    """
    strength_fit = fit_battles(battles, n_systems=n_systems, ties=ties)
    davidson_fit = strength_fit.fit
    scores = strength_fit.correct_leverage(strength_fit.scores(strength_fit.residual(davidson_fit.coefficients)))
    covariance = strength_fit.covariance(scores, davidson_fit.inverse, scores=scores)
    return strength_fit.strengths(davidson_fit.coefficients, covariance, resamples, rng)


def interval(draws: Floats, *, confidence: float, n_units: float) -> tuple[Floats, Floats]:
    """Return the bounds (...) of the interval estimate ± t x standard deviation of the draws, given draws (1 + B, ...).

    The interval is for strengths and effects, and for the logarithm of `ties`. t has `n_units` - 1 degrees of freedom.
    The bounds are NaN in three cases: the estimate is NaN, there are fewer than two draws, or there is only one
    cluster.

    >>> low, high = interval(np.array([0.0, -1.0, 1.0]), confidence=0.95, n_units=1000)
    >>> round(high.item(), 3)
    2.775
    """
    half_width = student_quantile(confidence, n_units) * _standard_error(draws, n_units)
    return draws[0] - half_width, draws[0] + half_width


def p_value(draws: Floats, *, n_units: float) -> Floats:
    """Return the p-value (...) of the hypothesis that the true value is 0, given draws (1 + B, ...), by the t
    distribution that `interval` uses.

    The p-value is NaN if the interval is NaN.

    >>> round(p_value(np.array([2.775, -1.0, 1.0]), n_units=1000).item(), 3)
    0.05
    """
    from scipy.special import stdtr

    return np.asarray(2 * stdtr(n_units - 1, -ratio(np.abs(draws[0]), _standard_error(draws, n_units))))


def _standard_error(draws: Floats, n_units: float) -> Floats:
    """Return the standard error (...) from draws (1 + B, ...), of which row 0 is the estimate.

    The standard error is NaN if there are fewer than two draws or only one cluster.
    """
    if len(draws) < 3 or n_units < 2:
        return np.full(draws.shape[1:], np.nan)
    return np.asarray(draws[1:].std(axis=0, ddof=1))


@dataclass(frozen=True, kw_only=True)
class StrengthFit:
    """A fit of the battles that have a verdict and a positive weight.

    `battles` are these battles with weights scaled to a mean of 1, and `battle_counts` groups these battles into kinds.
    `component` and `bounded` (systems,) are as in `Strengths`. `n_units` is the number of units of all battles.
    """

    fit: Fit
    battles: Battles
    battle_counts: BattleCounts
    component: Ints
    bounded: Bools
    ties: TieModel
    n_units: int

    @property
    def n_effective_clusters(self) -> float:
        """Effective number of clusters of `battles`."""
        weight_of_unit = np.bincount(self.battles.unit, weights=self.battles.weight)
        return effective_clusters(np.repeat(weight_of_unit, self.battles.clusters))

    def residual(self, coefficients: Floats) -> Floats:
        """Return the weighted residuals (n, 2), given coefficients: of half the sign and of the tie indicator."""
        outcome_residuals = self.fit.residual(coefficients)[self.battle_counts.kind, 1 - self.battle_counts.sign]
        return np.asarray(outcome_residuals * self.battles.weight[:, np.newaxis])

    def scores(self, residual: Floats) -> Any:
        """Return the scores (units, p), sparse: the residuals (n, 2) times the design, summed over each cluster.

        A row that represents m clusters is weighted by the square root of m, because squares of scores are summed.
        """
        from scipy.sparse import csr_array, hstack

        half_sign_residuals, tie_residuals = (residual * np.sqrt(self.battles.multiplicity)[:, np.newaxis]).T
        unit_of_battle, kind_of_battle = self.battles.unit, self.battle_counts.kind
        residual_sums = csr_array(
            (half_sign_residuals, (unit_of_battle, kind_of_battle)), shape=(self.n_units, self.fit.design.shape[0])
        )
        tie_scores = csr_array(
            (tie_residuals, (unit_of_battle, np.zeros_like(unit_of_battle))), shape=(self.n_units, 1)
        )
        return hstack([residual_sums @ self.fit.design[:, :-1], tie_scores], format="csr")

    def correct_leverage(self, scores: Any) -> Any:
        """Return scores (units, p) of these battles, corrected for the leverage of each cluster in this fit."""
        return leverage_corrected(
            scores, self.fit, self.battle_counts, weight=self.battles.weight, unit=self.battles.unit
        )

    def refit_with_tilt(self, tilt: Floats) -> StrengthFit:
        """Return the fit of the same battles with `tilt` (p,) added to the score.

        If there is no such fit, because the sum exceeds the possible wins, the coefficients are moved by one Newton
        step instead.
        """
        tilted_fit = fit(
            self.battle_counts,
            component=self.component,
            ties_are_half=self.ties == "half",
            penalised=bool(self.fit.pseudo.any()),
            tilt=tilt,
        )
        newton_step = replace(self.fit, coefficients=self.fit.coefficients + self.fit.inverse @ tilt)
        return replace(self, fit=tilted_fit or newton_step)

    def covariance(self, adjusted_scores: Any, inverse: Floats, *, scores: Any) -> Floats:
        """Return the cluster-robust covariance (p, p) of the coefficients, inverse @ middle @ inverse.

        The middle is the cross product of `adjusted_scores` (units, p) plus the second moments of the penalty. Each row
        of `adjusted_scores` is the score of one cluster; `inverse` (p, p) is the inverse information. The variances of
        systems with few clusters are increased with the help of the `scores` (units, p) of this fit.
        """
        score_products = (adjusted_scores.T @ adjusted_scores).toarray() + penalty_moments(self.fit)
        return widen_covariance(
            inverse @ score_products @ inverse,
            self.fit,
            scores,
            effective_clusters=count_effective_clusters(
                self.fit, self.battle_counts, self.battles, n_systems=len(self.component)
            ),
            n_units=self.n_effective_clusters,
        )

    def strengths(
        self, coefficients: Floats, covariance: Floats, resamples: int, rng: np.random.Generator
    ) -> Strengths:
        """Return the strengths with the `coefficients` (p,) and normal draws with `covariance` (p, p)."""
        n_varying = len(coefficients) if self.fit.has_ties else len(coefficients) - 1
        sampling_errors = normal_draws(covariance[:n_varying, :n_varying], resamples, rng)
        coefficient_draws = coefficients[:n_varying] + np.vstack([np.zeros((1, n_varying)), sampling_errors])
        n_systems = len(self.component)
        is_isolated_system = np.bincount(self.component)[self.component] == 1
        nu_draws = np.exp(coefficient_draws[:, -1]) if self.fit.has_ties else np.zeros(len(coefficient_draws))
        return Strengths(
            draws=np.where(is_isolated_system, np.nan, coefficient_draws[:, :n_systems]),
            effects=coefficient_draws[:, n_systems : len(coefficients) - 1],
            ties=nu_draws if self.ties == "davidson" else np.full(len(coefficient_draws), np.nan),
            component=self.component,
            bounded=self.bounded,
            clusters=int(self.battles.clusters[np.unique(self.battles.unit)].sum()),
            n_units=self.n_effective_clusters,
        )


def fit_battles(battles: Battles, *, n_systems: int, ties: TieModel) -> StrengthFit:
    """Return the fit of battles, with a penalty only if the likelihood has no maximum.

    The likelihood has no maximum if a component is not strongly connected, if covariates separate winners, or if all
    battles are ties. Raises InputError if no battle has a verdict and a positive weight, or if covariates cannot be
    separated from strengths.
    """
    counted_battles = battles.select_rows(battles.is_usable)
    if not len(counted_battles.weight):
        raise InputError("no battle has a verdict and a weight above 0; give at least one such battle")
    counted_battles = replace(
        counted_battles,
        weight=counted_battles.weight / np.average(counted_battles.weight, weights=counted_battles.multiplicity),
    )
    component = counted_battles.components(n_systems)
    is_bounded_system = _is_bounded(component, counted_battles.components(n_systems, "strong"))
    battle_counts = count_by_kind(counted_battles, counted_battles.weight * counted_battles.multiplicity)
    fit_counts = partial(fit, battle_counts, component=component, ties_are_half=ties == "half")
    # if all battles are ties, nu would be infinite and would not vary
    may_have_maximum = (counted_battles.sign != 0).any() and is_bounded_system.all()
    davidson_fit = fit_counts(penalised=False) if may_have_maximum else None
    if may_have_maximum and davidson_fit is None:
        is_bounded_system = np.bincount(component)[component] == 1
    davidson_fit = davidson_fit or fit_counts(penalised=True)
    assert davidson_fit is not None  # the penalised fit always exists
    return StrengthFit(
        fit=davidson_fit,
        battles=counted_battles,
        battle_counts=battle_counts,
        component=component,
        bounded=is_bounded_system,
        ties=ties,
        n_units=int(battles.unit.max()) + 1,
    )


def _is_bounded(component: Ints, strong_component: Ints) -> Bools:
    """Return whether each system (systems,) is in the largest strongly connected part of its component.

    If several parts are equally large, the result is False for all systems of the component.
    """
    part_size_of_system = np.bincount(strong_component)[strong_component]
    is_same_component = component[:, np.newaxis] == component
    is_in_largest_part = part_size_of_system == np.where(is_same_component, part_size_of_system, 0).max(axis=1)
    # a single largest part, if the systems in the largest parts are as many as a part has
    n_in_largest_parts = np.bincount(component, weights=is_in_largest_part)[component]
    return np.asarray(is_in_largest_part & (n_in_largest_parts == part_size_of_system))
