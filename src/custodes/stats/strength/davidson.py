"""Davidson's model of comparisons with ties: strengths, effects of covariates, and the parameter of ties.

Let eta = strength of the first system - strength of the second system + covariates x effects. The first system wins
with a probability proportional to exp(eta / 2), the second system with a probability proportional to exp(-eta / 2), and
a tie has a probability proportional to nu. Without ties, or with ties as half wins, nu is 0 and the model is that of
Bradley and Terry, a logistic regression. All coefficients are in one vector (p,): the strengths of the systems, the
effects, and log nu if nu is positive. Strengths sum to 0 within a component.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from custodes.errors import InputError
from custodes.stats.arrays import CHUNK, Floats, Ints
from custodes.stats.strength.battles import BattleCounts

_STEPS = 100
_SMALL = 1e-10  # Newton's method stops at a smaller step
_DIVERGED = 25.0  # a larger |eta| means that the fit diverges because one side always wins
_SINGULAR = 1e-11  # minimum ratio of the extreme eigenvalues of the scaled information


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A fitted model.

    - `coefficients` (p,): strengths, effects and, if there are ties, log nu.
    - `inverse` (p, p): inverse of the information of all battles.
    - `design` (kinds, p): sparse design matrix without log nu.
    - `variance` (kinds, 3): for one battle, the variance of half its sign, the variance of a tie, and their covariance.
    - `pseudo` (kinds,): number of battles that the penalty adds; half of them are won and half are lost.
    - `has_ties`: whether log nu is the last coefficient.
    """

    coefficients: Floats
    inverse: Floats
    design: Any
    variance: Floats
    pseudo: Floats
    has_ties: bool

    def residual(self, coefficients: Floats) -> Floats:
        """Return the residuals (kinds, 3, 2) of half the sign, and of the tie indicator, for each kind and outcome."""
        eta = self.design @ coefficients[: self.design.shape[1]]
        mean, tie, _ = _moments(eta, _log_nu(coefficients, self.has_ties))
        half_sign, is_tie = np.array([0.5, 0.0, -0.5]), np.array([0.0, 1.0, 0.0])
        return np.stack([half_sign - mean[:, np.newaxis], is_tie - tie[:, np.newaxis]], axis=2)


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
    from scipy.sparse import csr_array, hstack

    n_kinds, n_systems = len(kinds.first), len(component)
    kind_indices, ones = np.arange(n_kinds), np.ones(n_kinds)
    pairs = csr_array(
        (np.concatenate([ones, -ones]), (np.tile(kind_indices, 2), np.concatenate([kinds.first, kinds.second]))),
        shape=(n_kinds, n_systems),
    )
    sparse_design = csr_array(hstack([pairs, csr_array(kinds.covariates)]))
    design = densify_small(sparse_design)
    ties = kinds.outcomes[:, 1]
    has_ties = not ties_are_half and bool(ties.sum() > 0)
    n, half_signs = kinds.outcomes.sum(axis=1), (kinds.outcomes[:, 0] - kinds.outcomes[:, 2]) / 2
    n_coefficients = design.shape[1] + has_ties
    level_matrix = np.zeros((n_coefficients, n_coefficients))  # projection on unidentified shifts of components
    is_same_component = component[:, np.newaxis] == component
    level_matrix[:n_systems, :n_systems] = is_same_component / is_same_component.sum(axis=1)

    coefficients, pseudo_counts, tilt_or_zero = (
        np.zeros(n_coefficients),
        np.zeros(n_kinds),
        np.zeros(n_coefficients) if tilt is None else tilt,
    )
    if has_ties:
        n_decided = n.sum() - ties.sum()
        coefficients[-1] = np.log(2 * ties.sum() / max(n_decided, 1.0))

    def likelihood(point: Floats) -> float:
        eta = design @ point[: design.shape[1]]
        log_nu = _log_nu(point, has_ties)
        value = (half_signs * eta).sum() - ((n + pseudo_counts) * _log_sum(eta, log_nu)).sum()
        return float(value + (ties.sum() * log_nu if has_ties else 0.0) + tilt_or_zero @ point)

    for _ in range(_STEPS):
        if penalised:
            _, _, variance = _moments(design @ coefficients[: design.shape[1]], _log_nu(coefficients, has_ties))
            covariance = invert_information(information_of(design, n, variance, has_ties=has_ties), level_matrix)
            pseudo_counts = (
                pseudo_counts if covariance is None else n * leverage(kinds, variance, covariance, has_ties=has_ties)
            )
        eta = design @ coefficients[: design.shape[1]]
        mean, tie, variance = _moments(eta, _log_nu(coefficients, has_ties))
        if (not penalised or tilt is not None) and np.abs(eta).max(initial=0) > _DIVERGED:
            return None
        inverse = invert_information(
            information_of(design, n + pseudo_counts, variance, has_ties=has_ties), level_matrix
        )
        if inverse is None:
            if penalised and tilt is None:
                raise InputError(
                    "covariates cannot be separated from the strengths; leave out covariates that are constant, or that"
                    " depend only on the systems or on other covariates"
                )
            return None
        gradient = np.zeros(n_coefficients)
        gradient[: design.shape[1]] = design.T @ (half_signs - (n + pseudo_counts) * mean)
        if has_ties:
            gradient[-1] = ties.sum() - ((n + pseudo_counts) * tie).sum()
        step = inverse @ (gradient + tilt_or_zero)
        if np.abs(step).max(initial=0) < _SMALL:
            break
        likelihood_before, step_length = likelihood(coefficients), 1.0
        while step_length > _SMALL and likelihood(coefficients + step_length * step) < likelihood_before - 1e-9 * abs(
            likelihood_before
        ):
            step_length /= 2
        coefficients = coefficients + step_length * step
    else:
        if not penalised:
            return None
    assert inverse is not None  # exists after every step
    return Fit(
        coefficients=coefficients,
        inverse=inverse,
        design=sparse_design,
        variance=variance,
        pseudo=pseudo_counts,
        has_ties=has_ties,
    )


def leverage(kinds: BattleCounts, variance: Floats, inverse: Floats, *, has_ties: bool) -> Floats:
    """Return the leverage (kinds,) of one battle of each kind; the leverages of all battles sum to p.

    The leverage is the trace of the battle's information (on half its sign and on a tie) times the inverse of the total
    information.
    """
    k = kinds.covariates.shape[1]
    n_systems = len(inverse) - k - has_ties
    first, second, covariate_block = (
        kinds.first,
        kinds.second,
        inverse[n_systems : n_systems + k, n_systems : n_systems + k],
    )
    difference_variance = inverse[first, first] + inverse[second, second] - 2 * inverse[first, second]
    covariate_covariance = inverse[:, n_systems : n_systems + k]
    difference_variance = difference_variance + 2 * (
        (covariate_covariance[first] - covariate_covariance[second]) * kinds.covariates
    ).sum(axis=1)
    difference_variance = difference_variance + ((kinds.covariates @ covariate_block) * kinds.covariates).sum(axis=1)
    leverages = variance[:, 0] * difference_variance
    if has_ties:
        covariance_with_tie = (
            inverse[first, -1] - inverse[second, -1] + kinds.covariates @ inverse[n_systems : n_systems + k, -1]
        )
        leverages = leverages + 2 * variance[:, 2] * covariance_with_tie + variance[:, 1] * inverse[-1, -1]
    return np.asarray(np.clip(leverages, 0.0, None))


def information_of(design: Any, weight: Floats, variance: Floats, *, has_ties: bool) -> Floats:
    """Return the information (p, p) of battles with `weight` (kinds,) for each kind.

    `design` (kinds, p) is sparse or dense, and `variance` (kinds, 3) is as in `Fit`.
    """
    n_design = design.shape[1]
    information = np.zeros((n_design + has_ties, n_design + has_ties))
    products = design.T @ (design * (weight * variance[:, 0])[:, np.newaxis])
    information[:n_design, :n_design] = products if isinstance(products, np.ndarray) else products.toarray()
    if has_ties:
        information[:n_design, -1] = information[-1, :n_design] = design.T @ (weight * variance[:, 2])
        information[-1, -1] = weight @ variance[:, 1]
    return information


def densify_small(design: Any) -> Any:
    """Return a design matrix as a dense array if this array is small, because operations on small sparse arrays take
    ten times as long; otherwise return it unchanged."""
    return design if isinstance(design, np.ndarray) or np.prod(design.shape) > CHUNK else design.toarray()


def _moments(eta: Floats, log_nu: float) -> tuple[Floats, Floats, Floats]:
    """Return the mean of half a sign, the probability of a tie, and (..., 3) their variances and covariance."""
    log_sum = _log_sum(eta, log_nu)
    win, tie, loss = np.exp(eta / 2 - log_sum), np.exp(log_nu - log_sum), np.exp(-eta / 2 - log_sum)
    mean = (win - loss) / 2
    # equals (win + loss) / 4 - mean^2, but loses no precision if one side nearly always wins
    variance_of_half = win * loss + tie * (win + loss) / 4
    return mean, tie, np.stack([variance_of_half, tie * (win + loss), -mean * tie], axis=-1)


def _log_sum(eta: Floats, log_nu: float) -> Floats:
    return np.asarray(np.logaddexp(np.logaddexp(eta / 2, -eta / 2), log_nu))


def _log_nu(coefficients: Floats, has_ties: bool) -> float:
    return float(coefficients[-1]) if has_ties else -np.inf


def invert_information(information: Floats, level: Floats) -> Floats | None:
    """Return the inverse on the identified subspace, or None if the information is singular there.

    `level` is the projection onto the unidentified subspace.
    """
    mean_information = float(information.diagonal().sum()) / len(information)
    information_with_level = information + mean_information * level
    diagonal_root = np.sqrt(information_with_level.diagonal())
    if not (diagonal_root > 0).all():
        return None
    eigenvalues, eigenvectors = np.linalg.eigh(information_with_level / np.outer(diagonal_root, diagonal_root))
    if eigenvalues[0] <= _SINGULAR * eigenvalues[-1]:
        return None
    return np.asarray(
        (eigenvectors / eigenvalues) @ eigenvectors.T / np.outer(diagonal_root, diagonal_root)
        - level / mean_information
    )
