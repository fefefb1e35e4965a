"""Davidson's model of comparisons with ties: strengths, effects of covariates, and the parameter of ties.

Let eta = strength of the first system - strength of the second system + covariates x effects. The first system wins
with a probability proportional to exp(eta / 2), and the second system with a probability proportional to exp(-eta / 2).
A tie has a probability proportional to nu. Without ties, or with ties as half wins, nu is 0 and the model is that of
Bradley and Terry, a logistic regression. All coefficients are in one vector (p,): the strengths of the systems, the
effects, and log nu. log nu is not used if nu is 0. Strengths sum to 0 within a component.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from custodes.errors import InputError
from custodes.stats.arrays import Floats, Ints
from custodes.stats.strength.battles import BattleCounts

_STEPS = 100
_SMALL = 1e-10  # Newton's method stops if a step is smaller
_DIVERGED = 25.0  # a larger |eta| means that the fit diverges because one side always wins
_SINGULAR = 1e-11  # minimum ratio of the extreme eigenvalues of the scaled information


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A fitted model.

    - `coefficients` (p,): strengths, effects and log nu; the last is 0 and not used without ties.
    - `inverse` (p, p): inverse of the information of all battles; 0 for log nu without ties.
    - `design` (kinds, p): sparse design matrix, see `strength_design`.
    - `products` (kinds, p * p): sparse products of the entries of each row of the design, see `row_products`.
    - `variance` (kinds, 3): for one battle, the variance of half its sign, the variance of a tie, and their covariance.
    - `pseudo` (kinds,): number of battles that the penalty adds; half of them are won and half are lost.
    - `has_ties`: whether nu is positive.
    """

    coefficients: Floats
    inverse: Floats
    design: Any
    products: Any
    variance: Floats
    pseudo: Floats
    has_ties: bool

    def residual(self, coefficients: Floats) -> Floats:
        """Return the residuals (kinds, 3, 2) of half the sign, and of the tie indicator, for each kind and outcome."""
        log_nu = coefficients[-1] if self.has_ties else -np.inf
        mean_half_signs, tie_probabilities, _ = _moments(self.design @ coefficients, log_nu)
        values_of_outcome = np.array([[0.5, 0.0], [0.0, 1.0], [-0.5, 0.0]])
        return values_of_outcome - np.stack([mean_half_signs, tie_probabilities], axis=1)[:, np.newaxis]


def strength_design(first: Ints, second: Ints, covariates: Floats, n_systems: int) -> Any:
    """Return the sparse design matrix (kinds, p), whose product with the coefficients is eta.

    A row has 1 for the first system, -1 for the second system, and the values of the covariates. The last column, of
    log nu, is empty: ties enter the information and the scores by their own terms.
    """
    from scipy.sparse import csr_array

    n_kinds, n_effects = covariates.shape
    entries = np.column_stack([np.ones(n_kinds), np.full(n_kinds, -1.0), covariates]).ravel()
    effect_columns = np.tile(np.arange(n_systems, n_systems + n_effects), (n_kinds, 1))
    entry_columns = np.column_stack([first, second, effect_columns]).ravel()
    row_pointers = np.arange(n_kinds + 1) * (2 + n_effects)
    return csr_array((entries, entry_columns, row_pointers), shape=(n_kinds, n_systems + n_effects + 1))


def row_products(design: Any) -> Any:
    """Return, for each row of a sparse matrix (rows, p), the products of all pairs of entries: (rows, p * p), sparse.

    All rows of the matrix have the same number of stored entries. A weighted sum of the rows of the result is a matrix
    of weighted cross products of the columns.
    """
    from scipy.sparse import csr_array

    n_rows, n_columns = design.shape
    entry_columns, entries = design.indices.reshape(n_rows, -1), design.data.reshape(n_rows, -1)
    product_columns = entry_columns[:, :, np.newaxis].astype(np.int64) * n_columns + entry_columns[:, np.newaxis]
    products = entries[:, :, np.newaxis] * entries[:, np.newaxis]
    row_pointers = np.arange(n_rows + 1) * entries.shape[1] ** 2
    return csr_array((products.ravel(), product_columns.ravel(), row_pointers), shape=(n_rows, n_columns**2))


def fit(
    kinds: BattleCounts, *, component: Ints, ties_are_half: bool, penalised: bool, tilt: Floats | float = 0.0
) -> Fit | None:
    """Return the maximum likelihood fit by Newton's method. The result is None if there is no maximum, so that a
    penalty is needed.

    The penalty adds battles to each kind in proportion to the leverage of the kind; half of the added battles are won
    and half are lost. Without ties, the penalty is that of Firth (1993), which keeps coefficients finite (Heinze and
    Schemper 2002; Kosmidis and Firth 2021). `tilt` (p,) is added to the score, like additional wins. With a tilt, there
    may be no maximum even with a penalty, and the result is then None. Raises InputError if covariates are linear
    functions of the systems.
    """
    n_systems, weight_of_kind = len(component), kinds.outcomes.sum(axis=1)
    design = strength_design(kinds.first, kinds.second, kinds.covariates, n_systems)
    products = row_products(design)
    n_ties = 0.0 if ties_are_half else float(kinds.outcomes[:, 1].sum())
    has_ties, has_tilt = n_ties > 0, bool(np.any(tilt))
    observed_sums = _row_sum((kinds.outcomes[:, 0] - kinds.outcomes[:, 2]) / 2, design)
    observed_sums[-1] = n_ties
    observed_sums += tilt
    is_same_component = component[:, np.newaxis] == component
    level_projection = np.zeros((len(observed_sums), len(observed_sums)))  # projection onto unidentified shifts
    level_projection[:n_systems, :n_systems] = is_same_component / is_same_component.sum(axis=1)
    level_projection[-1, -1] = not has_ties
    coefficients, pseudo_counts = np.zeros(len(observed_sums)), np.zeros(len(weight_of_kind))
    if has_ties:
        coefficients[-1] = np.log(2 * n_ties / max(weight_of_kind.sum() - n_ties, 1.0))
    nu_term = 0.0 if has_ties else -np.inf  # without ties, nu is 0

    def log_likelihood(coefficients: Floats) -> float:
        log_normalisers = _log_sum(design @ coefficients, coefficients[-1] + nu_term)
        return float(observed_sums @ coefficients - (weight_of_kind + pseudo_counts) @ log_normalisers)

    for _ in range(_STEPS):
        log_odds = design @ coefficients
        mean_half_signs, tie_probabilities, outcome_variances = _moments(log_odds, coefficients[-1] + nu_term)
        if penalised:
            unpenalised_inverse = invert_information(
                information_of(design, products, weight_of_kind, outcome_variances), level_projection
            )
            if unpenalised_inverse is not None:
                pseudo_counts = weight_of_kind * leverage(design, products, outcome_variances, unpenalised_inverse)
        if (not penalised or has_tilt) and np.abs(log_odds).max(initial=0) > _DIVERGED:
            return None
        total_weights = weight_of_kind + pseudo_counts
        inverse_information = invert_information(
            information_of(design, products, total_weights, outcome_variances), level_projection
        )
        if inverse_information is None and penalised and not has_tilt:
            raise InputError(
                "covariates cannot be separated from the strengths; leave out covariates that are constant, or that"
                " depend only on the systems or on other covariates"
            )
        if inverse_information is None:
            return None
        expected_sums = _row_sum(total_weights * mean_half_signs, design)
        expected_sums[-1] = total_weights @ tie_probabilities
        newton_step = inverse_information @ (observed_sums - expected_sums)
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
        products=products,
        variance=outcome_variances,
        pseudo=pseudo_counts,
        has_ties=has_ties,
    )


def leverage(design: Any, products: Any, variance: Floats, inverse: Floats) -> Floats:
    """Return the leverage (kinds,) of one battle of each kind; the leverages of all battles sum to the rank of the
    information.

    The leverage is the trace of the battle's information (on half its sign and on a tie) times the inverse of the total
    information. `design` and `products` are as in `Fit`.
    """
    half_sign_variances, tie_variances, covariances = variance.T
    leverage_of_kind = half_sign_variances * (products @ inverse.ravel())
    leverage_of_kind += 2 * covariances * (design @ inverse[:, -1]) + tie_variances * inverse[-1, -1]
    return np.asarray(np.clip(leverage_of_kind, 0.0, None))


def information_of(design: Any, products: Any, weights: Any, variance: Floats) -> Floats:
    """Return the information (p, p) of battles with `weights` (kinds,) of the kinds, or (units, p, p) of each unit.

    `products` are the `row_products` of the `design`, and `variance` (kinds, 3) is as in `Fit`. Weights (units, kinds)
    are sparse, because each battle may be a kind of its own, and a unit contains few kinds.
    """
    from scipy.sparse import issparse

    half_sign_variances, tie_variances, covariances = variance.T
    n_coefficients = design.shape[1]
    if issparse(weights):
        half_sign_information = ((weights * half_sign_variances) @ products).toarray()
        tie_row = ((weights * covariances) @ design).toarray()
    else:
        half_sign_information = _row_sum(weights * half_sign_variances, products)
        tie_row = _row_sum(weights * covariances, design)
    information = half_sign_information.reshape(*weights.shape[:-1], n_coefficients, n_coefficients)
    information[..., -1, :] = information[..., :, -1] = tie_row
    information[..., -1, -1] = weights @ tie_variances
    return np.asarray(information)


def _row_sum(row_weights: Floats, sparse_rows: Any) -> Floats:
    """Return the weighted sum (columns,) of the rows of a sparse matrix whose rows have equally many stored entries."""
    weighted_stored_entries = row_weights[:, np.newaxis] * sparse_rows.data.reshape(len(row_weights), -1)
    return np.asarray(
        np.bincount(sparse_rows.indices, weighted_stored_entries.ravel(), sparse_rows.shape[1]), dtype=np.float64
    )


def _moments(log_odds: Floats, log_nu: float) -> tuple[Floats, Floats, Floats]:
    """Return the mean of half a sign, the probability of a tie, and (..., 3) their variances and covariance."""
    log_normalisers = _log_sum(log_odds, log_nu)
    p_win, p_tie, p_loss = (np.exp(log_p - log_normalisers) for log_p in (log_odds / 2, log_nu, -log_odds / 2))
    mean_half_signs = (p_win - p_loss) / 2
    # equals (p_win + p_loss) / 4 - mean_half_signs^2, but loses no precision if one side nearly always wins
    half_sign_variances = p_win * p_loss + p_tie * (p_win + p_loss) / 4
    variances = np.stack([half_sign_variances, p_tie * (p_win + p_loss), -mean_half_signs * p_tie], axis=-1)
    return mean_half_signs, p_tie, variances


def _log_sum(log_odds: Floats, log_nu: float) -> Floats:
    return np.asarray(np.logaddexp(np.logaddexp(log_odds / 2, -log_odds / 2), log_nu))


def invert_information(information: Floats, level_projection: Floats) -> Floats | None:
    """Return the inverse on the identified subspace, or None if the information is singular there.

    `level_projection` is the projection onto the unidentified subspace.
    """
    mean_information = float(information.diagonal().sum()) / len(information)
    information_with_level = information + mean_information * level_projection
    diagonal = information_with_level.diagonal()
    if not (diagonal > 0).all():
        return None
    scales = np.sqrt(np.outer(diagonal, diagonal))
    eigenvalues, eigenvectors = np.linalg.eigh(information_with_level / scales)
    if eigenvalues[0] <= _SINGULAR * eigenvalues[-1]:
        return None
    return np.asarray((eigenvectors / eigenvalues) @ eigenvectors.T / scales - level_projection / mean_information)
