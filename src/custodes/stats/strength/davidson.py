"""Davidson's model of comparisons with ties: strengths, effects of covariates, and the parameter of ties.

Let eta = strength of the first system - strength of the second system + covariates x effects. The first system wins
with a probability proportional to exp(eta / 2), the second system with a probability proportional to exp(-eta / 2), and
a tie has a probability proportional to nu. Without ties, or with ties as half wins, nu is 0 and the model is that of
Bradley and Terry, a logistic regression. All coefficients are in one vector (p,): the strengths of the systems, the
effects, and log nu if nu is positive. Strengths sum to 0 within a component.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from custodes.errors import InputError
from custodes.stats.arrays import Floats, Ints
from custodes.stats.strength.battles import BattleCounts

_STEPS = 100
_SMALL = 1e-10  # Newton's method stops if a step is smaller
_DIVERGED = 25.0  # a larger |eta| means that the fit diverges because one side always wins
_SINGULAR = 1e-11  # minimum ratio of the extreme eigenvalues of the scaled information


@dataclass(frozen=True, kw_only=True)
class StrengthDesign:
    """Design matrix (kinds, q) of half the sign, without log nu, as index arrays.

    A row has 1 for the first system, -1 for the second system, and the values of the covariates (kinds, k).
    """

    first: Ints
    second: Ints
    covariates: Floats
    n_systems: int

    @property
    def width(self) -> int:
        """Number q of columns."""
        return self.n_systems + int(self.covariates.shape[1])

    @cached_property
    def _pair(self) -> Ints:
        return self.first * self.n_systems + self.second

    def rows(self, coefficients: Floats) -> Floats:
        """Return the product of the design and coefficients (q, ...): (kinds, ...)."""
        differences = coefficients[self.first] - coefficients[self.second]
        if not self.covariates.shape[1]:
            return differences
        return np.asarray(differences + self.covariates @ coefficients[self.n_systems :])

    def columns(self, values: Floats) -> Floats:
        """Return the product of the transposed design and values (kinds,): (q,)."""
        system_sums = np.bincount(self.first, values, self.n_systems) - np.bincount(self.second, values, self.n_systems)
        return np.concatenate([system_sums, values @ self.covariates])

    def products(self, weight: Floats) -> Floats:
        """Return the weighted cross products (q, q) of the columns, with `weight` (kinds,)."""
        n_systems, products = self.n_systems, np.zeros((self.width, self.width))
        pair_sums = np.bincount(self._pair, weight, n_systems**2).reshape(n_systems, n_systems)
        products[:n_systems, :n_systems] = -pair_sums - pair_sums.T
        np.fill_diagonal(products[:n_systems, :n_systems], pair_sums.sum(axis=0) + pair_sums.sum(axis=1))
        for column, covariate in enumerate(self.covariates.T, start=n_systems):
            products[column] = products[:, column] = self.columns(weight * covariate)
        return products


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A fitted model.

    - `coefficients` (p,): strengths, effects and, if there are ties, log nu.
    - `inverse` (p, p): inverse of the information of all battles.
    - `design` (kinds, p): design matrix without log nu.
    - `variance` (kinds, 3): for one battle, the variance of half its sign, the variance of a tie, and their covariance.
    - `pseudo` (kinds,): number of battles that the penalty adds; half of them are won and half are lost.
    - `has_ties`: whether log nu is the last coefficient.
    """

    coefficients: Floats
    inverse: Floats
    design: StrengthDesign
    variance: Floats
    pseudo: Floats
    has_ties: bool

    def residual(self, coefficients: Floats) -> Floats:
        """Return the residuals (kinds, 3, 2) of half the sign, and of the tie indicator, for each kind and outcome."""
        log_odds = self.design.rows(coefficients[: self.design.width])
        mean_half_signs, tie_probabilities, _ = _moments(log_odds, _log_nu(coefficients, self.has_ties))
        half_sign_of_outcome, tie_indicator_of_outcome = np.array([0.5, 0.0, -0.5]), np.array([0.0, 1.0, 0.0])
        return np.stack(
            [
                half_sign_of_outcome - mean_half_signs[:, np.newaxis],
                tie_indicator_of_outcome - tie_probabilities[:, np.newaxis],
            ],
            axis=2,
        )


def fit(
    kinds: BattleCounts, *, component: Ints, ties_are_half: bool, penalised: bool, tilt: Floats | None = None
) -> Fit | None:
    """Return the maximum likelihood fit by Newton's method; None if there is no maximum, so that a penalty is needed.

    The penalty adds battles to each kind in proportion to the leverage of the kind; half of them are won and half are
    lost. Without ties this is Firth's (1993) penalty, which keeps coefficients finite (Heinze and Schemper 2002;
    Kosmidis and Firth 2021). `tilt` (p,) is added to the score, like additional wins. With a tilt, there may be no
    maximum even with a penalty, and the result is then None. Raises InputError if covariates are linear functions of
    the systems.
    """
    n_kinds, n_systems = len(kinds.first), len(component)
    design = StrengthDesign(first=kinds.first, second=kinds.second, covariates=kinds.covariates, n_systems=n_systems)
    tie_weight_of_kind = kinds.outcomes[:, 1]
    has_ties = not ties_are_half and bool(tie_weight_of_kind.sum() > 0)
    weight_of_kind, half_sign_sum_of_kind = (
        kinds.outcomes.sum(axis=1),
        (kinds.outcomes[:, 0] - kinds.outcomes[:, 2]) / 2,
    )
    n_coefficients = design.width + has_ties
    level_projection = np.zeros((n_coefficients, n_coefficients))  # projection onto unidentified shifts
    is_same_component = component[:, np.newaxis] == component
    level_projection[:n_systems, :n_systems] = is_same_component / is_same_component.sum(axis=1)

    coefficients, pseudo_counts, tilt_or_zero = (
        np.zeros(n_coefficients),
        np.zeros(n_kinds),
        np.zeros(n_coefficients) if tilt is None else tilt,
    )
    if has_ties:
        decided_weight = weight_of_kind.sum() - tie_weight_of_kind.sum()
        coefficients[-1] = np.log(2 * tie_weight_of_kind.sum() / max(decided_weight, 1.0))

    def log_likelihood(coefficient_vector: Floats) -> float:
        log_odds = design.rows(coefficient_vector[: design.width])
        log_nu = _log_nu(coefficient_vector, has_ties)
        battle_log_likelihood = (half_sign_sum_of_kind * log_odds).sum() - (
            (weight_of_kind + pseudo_counts) * _log_sum(log_odds, log_nu)
        ).sum()
        return float(
            battle_log_likelihood
            + (tie_weight_of_kind.sum() * log_nu if has_ties else 0.0)
            + tilt_or_zero @ coefficient_vector
        )

    for _ in range(_STEPS):
        log_odds = design.rows(coefficients[: design.width])
        mean_half_signs, tie_probabilities, outcome_variances = _moments(log_odds, _log_nu(coefficients, has_ties))
        if penalised:
            unpenalised_inverse = invert_information(
                information_of(design, weight_of_kind, outcome_variances, has_ties=has_ties), level_projection
            )
            if unpenalised_inverse is not None:
                pseudo_counts = weight_of_kind * leverage(
                    kinds, outcome_variances, unpenalised_inverse, has_ties=has_ties
                )
        if (not penalised or tilt is not None) and np.abs(log_odds).max(initial=0) > _DIVERGED:
            return None
        inverse_information = invert_information(
            information_of(design, weight_of_kind + pseudo_counts, outcome_variances, has_ties=has_ties),
            level_projection,
        )
        if inverse_information is None:
            if penalised and tilt is None:
                raise InputError(
                    "covariates cannot be separated from the strengths; leave out covariates that are constant, or that"
                    " depend only on the systems or on other covariates"
                )
            return None
        gradient = np.zeros(n_coefficients)
        gradient[: design.width] = design.columns(
            half_sign_sum_of_kind - (weight_of_kind + pseudo_counts) * mean_half_signs
        )
        if has_ties:
            gradient[-1] = tie_weight_of_kind.sum() - ((weight_of_kind + pseudo_counts) * tie_probabilities).sum()
        newton_step = inverse_information @ (gradient + tilt_or_zero)
        if np.abs(newton_step).max(initial=0) < _SMALL:
            break
        previous_log_likelihood, step_length = log_likelihood(coefficients), 1.0
        while step_length > _SMALL and log_likelihood(
            coefficients + step_length * newton_step
        ) < previous_log_likelihood - 1e-9 * abs(previous_log_likelihood):
            step_length /= 2
        coefficients = coefficients + step_length * newton_step
    else:
        if not penalised:
            return None
    assert inverse_information is not None  # set in the first step
    return Fit(
        coefficients=coefficients,
        inverse=inverse_information,
        design=design,
        variance=outcome_variances,
        pseudo=pseudo_counts,
        has_ties=has_ties,
    )


def leverage(kinds: BattleCounts, variance: Floats, inverse: Floats, *, has_ties: bool) -> Floats:
    """Return the leverage (kinds,) of one battle of each kind; the leverages of all battles sum to p.

    The leverage is the trace of the battle's information (on half its sign and on a tie) times the inverse of the total
    information.
    """
    n_covariates = kinds.covariates.shape[1]
    n_systems = len(inverse) - n_covariates - has_ties
    first_systems, second_systems, covariate_covariance_block = (
        kinds.first,
        kinds.second,
        inverse[n_systems : n_systems + n_covariates, n_systems : n_systems + n_covariates],
    )
    log_odds_variances = (
        inverse[first_systems, first_systems]
        + inverse[second_systems, second_systems]
        - 2 * inverse[first_systems, second_systems]
    )
    covariances_with_covariates = inverse[:, n_systems : n_systems + n_covariates]
    log_odds_variances = log_odds_variances + 2 * (
        (covariances_with_covariates[first_systems] - covariances_with_covariates[second_systems]) * kinds.covariates
    ).sum(axis=1)
    log_odds_variances = log_odds_variances + ((kinds.covariates @ covariate_covariance_block) * kinds.covariates).sum(
        axis=1
    )
    leverage_of_kind = variance[:, 0] * log_odds_variances
    if has_ties:
        covariances_with_tie = (
            inverse[first_systems, -1]
            - inverse[second_systems, -1]
            + kinds.covariates @ inverse[n_systems : n_systems + n_covariates, -1]
        )
        leverage_of_kind = (
            leverage_of_kind + 2 * variance[:, 2] * covariances_with_tie + variance[:, 1] * inverse[-1, -1]
        )
    return np.asarray(np.clip(leverage_of_kind, 0.0, None))


def information_of(design: StrengthDesign, weight: Floats, variance: Floats, *, has_ties: bool) -> Floats:
    """Return the information (p, p) of battles with `weight` (kinds,) for each kind; `variance` (kinds, 3) is as in
    `Fit`."""
    half_sign_information = design.products(weight * variance[:, 0])
    if not has_ties:
        return half_sign_information
    tie_column = design.columns(weight * variance[:, 2])[:, np.newaxis]
    return np.block([[half_sign_information, tie_column], [tie_column.T, weight @ variance[:, 1]]])


def _moments(log_odds: Floats, log_nu: float) -> tuple[Floats, Floats, Floats]:
    """Return the mean of half a sign, the probability of a tie, and (..., 3) their variances and covariance."""
    log_normalisers = _log_sum(log_odds, log_nu)
    p_win, p_tie, p_loss = (
        np.exp(log_odds / 2 - log_normalisers),
        np.exp(log_nu - log_normalisers),
        np.exp(-log_odds / 2 - log_normalisers),
    )
    mean_half_signs = (p_win - p_loss) / 2
    # equals (p_win + p_loss) / 4 - mean_half_signs^2, but loses no precision if one side nearly always wins
    half_sign_variances = p_win * p_loss + p_tie * (p_win + p_loss) / 4
    return (
        mean_half_signs,
        p_tie,
        np.stack([half_sign_variances, p_tie * (p_win + p_loss), -mean_half_signs * p_tie], axis=-1),
    )


def _log_sum(log_odds: Floats, log_nu: float) -> Floats:
    return np.asarray(np.logaddexp(np.logaddexp(log_odds / 2, -log_odds / 2), log_nu))


def _log_nu(coefficients: Floats, has_ties: bool) -> float:
    return float(coefficients[-1]) if has_ties else -np.inf


def invert_information(information: Floats, level_projection: Floats) -> Floats | None:
    """Return the inverse on the identified subspace, or None if the information is singular there.

    `level_projection` is the projection onto the unidentified subspace.
    """
    mean_information = float(information.diagonal().sum()) / len(information)
    information_with_level = information + mean_information * level_projection
    diagonal_square_roots = np.sqrt(information_with_level.diagonal())
    if not (diagonal_square_roots > 0).all():
        return None
    eigenvalues, eigenvectors = np.linalg.eigh(
        information_with_level / np.outer(diagonal_square_roots, diagonal_square_roots)
    )
    if eigenvalues[0] <= _SINGULAR * eigenvalues[-1]:
        return None
    return np.asarray(
        (eigenvectors / eigenvalues) @ eigenvectors.T / np.outer(diagonal_square_roots, diagonal_square_roots)
        - level_projection / mean_information
    )
