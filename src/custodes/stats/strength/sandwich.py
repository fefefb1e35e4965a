"""Cluster-robust covariance of coefficients (sandwich), and random draws with this covariance.

The score (p,) of a cluster is the sum of the residuals of its battles. The score times the inverse information is the
influence of the cluster on the coefficients. All scores are one sparse matrix (units, p), because a cluster contains
few systems.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.strength.battles import BattleCounts, Battles
from custodes.stats.strength.davidson import Fit, information_of, leverage

_LIGHT = 0.1 * (1 + 1e-9)  # maximum leverage, up to rounding, for which a single factor is a sufficient correction
_ROUNDING = 1e-12  # smaller eigenvalues of the inverse information, relative to the largest, are rounding errors
_MOST = 0.95  # limit of the leverage in one direction; a leverage of 1 would give an infinite error
_NONE = 1e-300  # replaces 0 in a denominator
_TAIL = 0.975  # probability at which draws match the quantile of Student's t


def leverage_corrected(scores: Any, fit: Fit, kinds: BattleCounts, *, weight: Floats, unit: Ints) -> Any:
    """Return the scores corrected for leverage.

    Each score is multiplied by (I - H A)^-1/2, where H is the information of the cluster and A the inverse of the total
    information. The covariance is then unbiased if the model holds (CR2). With a jackknife (CR3), intervals of 20
    systems with 200 battles would have a coverage of .98. If the leverage is small in all directions, a single factor
    is used. The leverage is limited to .95, for directions in which only one cluster has information.

    Source: Bell and McCaffrey 2002.
    """
    from scipy.sparse import csr_array, diags_array, vstack

    n_units, kind_of_battle = scores.shape[0], kinds.kind
    leverage_of_kind = leverage(fit.design, fit.products, fit.variance, fit.inverse)
    leverage_of_unit = np.bincount(unit, weights=weight * leverage_of_kind[kind_of_battle], minlength=n_units)
    has_low_leverage = (leverage_of_unit <= _LIGHT) | (np.bincount(unit, minlength=n_units) == 1)
    score_factor_of_unit = np.where(has_low_leverage, 1 / np.sqrt(1 - np.minimum(leverage_of_unit, _MOST)), 1.0)
    corrected_scores = csr_array(diags_array(score_factor_of_unit) @ scores)
    if has_low_leverage.all():
        return corrected_scores
    eigenvalues_of_inverse, eigenvectors_of_inverse = np.linalg.eigh(fit.inverse)
    inverse_information_root = eigenvectors_of_inverse * np.sqrt(eigenvalues_of_inverse.clip(0.0))
    high_leverage_units = np.flatnonzero(~has_low_leverage)
    high_leverage_scores = scores[high_leverage_units].toarray()
    unit_weights = csr_array((weight, (unit, kind_of_battle)), shape=(n_units, len(leverage_of_kind)))
    for unit_slice in chunks(len(high_leverage_units), inverse_information_root.size):
        kind_weights = unit_weights[high_leverage_units[unit_slice]]
        information_of_unit = information_of(fit.design, fit.products, kind_weights, fit.variance)
        eigenvalues, eigenvectors = np.linalg.eigh(
            inverse_information_root.T @ information_of_unit @ inverse_information_root
        )
        eigenvalues = eigenvalues.clip(1e-9, _MOST)
        eigenvalue_factors = (1 / np.sqrt(1 - eigenvalues) - 1) / eigenvalues
        rotation = inverse_information_root @ eigenvectors
        rotated_scores = rotation.mT @ high_leverage_scores[unit_slice, :, np.newaxis]
        score_changes = information_of_unit @ (rotation @ (eigenvalue_factors[..., np.newaxis] * rotated_scores))
        high_leverage_scores[unit_slice] += score_changes[..., 0]
    order_of_units = np.argsort(np.concatenate([np.flatnonzero(has_low_leverage), high_leverage_units]))
    return vstack([corrected_scores[has_low_leverage], csr_array(high_leverage_scores)], format="csr")[order_of_units]


def count_effective_clusters(fit: Fit, kinds: BattleCounts, battles: Battles, *, n_systems: int) -> Floats:
    """Return the effective number (systems,) of clusters from which the error of each strength is estimated.

    Let w be the weight of a battle (1 on average) and c its expected contribution to the variance. The effective number
    is (sum of w c)^2 / sum over clusters of ((sum of w c)^2 - sum of w c^2). The inner sums are over the battles of the
    cluster. Products of two battles of one cluster are the only terms that must be estimated from clusters; a battle
    with weight w is like a cluster of w equal battles. The number is infinite if every cluster is a single battle of
    weight 1.

    Source: Satterthwaite 1946, applied to products instead of squares, because the variance of one battle is known.
    """
    from scipy.sparse import csr_array

    weight_of_battle, unit_of_battle = battles.weight, battles.unit
    n_units, n_kinds = int(unit_of_battle.max()) + 1, len(kinds.first)
    is_correlated_battle = (np.bincount(unit_of_battle)[unit_of_battle] > 1) | (weight_of_battle != 1)
    effective_clusters_of_system = np.full(n_systems, np.inf)
    if not is_correlated_battle.any():
        return effective_clusters_of_system
    positions = unit_of_battle[is_correlated_battle], kinds.kind[is_correlated_battle]
    weight_matrix = csr_array((weight_of_battle[is_correlated_battle], positions), shape=(n_units, n_kinds))
    weight_of_kind = np.bincount(kinds.kind, weights=weight_of_battle * battles.multiplicity, minlength=n_kinds)
    for system_slice in chunks(n_systems, n_kinds):
        variance_contributions = (fit.design @ fit.inverse[:, system_slice]) ** 2 * fit.variance[:, :1]
        product_sum_of_system = battles.clusters @ (
            (weight_matrix @ variance_contributions) ** 2 - weight_matrix @ variance_contributions**2
        )
        effective_clusters_of_system[system_slice] = (weight_of_kind @ variance_contributions) ** 2 / np.maximum(
            product_sum_of_system, _NONE
        )
    return effective_clusters_of_system


def widen_covariance(
    covariance: Floats, fit: Fit, scores: Any, *, effective_clusters: Floats, n_units: float
) -> Floats:
    """Return the covariance (p, p) with larger variances of strengths that are based on few clusters.

    Intervals with `n_units` - 1 degrees of freedom are then as wide as intervals whose degrees of freedom are the
    `effective_clusters` (systems,), minus one. The increase is computed from a variance that is at least the model's
    variance for independent battles times the design effect of clusters. The design effect is at least 1 and is
    estimated from the scores (units, p) of all clusters.
    """
    from scipy.special import stdtrit

    n_systems = len(effective_clusters)
    degrees_of_freedom = np.clip(np.minimum(effective_clusters, n_units) - 1, 1.0, None)
    relative_widening = (stdtrit(degrees_of_freedom, _TAIL) / stdtrit(max(n_units - 1, 1), _TAIL)) ** 2 - 1
    score_products = (scores.T @ scores).toarray()
    # With the default tolerance, rounding errors of an inverse with unidentified shifts would count as rank.
    rank = np.linalg.matrix_rank(fit.inverse, rtol=_ROUNDING, hermitian=True)
    design_effect = max(1.0, float((score_products * fit.inverse).sum() / rank))
    variances = np.maximum(covariance.diagonal(), fit.inverse.diagonal() * design_effect)[:n_systems]
    return covariance + np.diag(np.append(relative_widening * variances, np.zeros(len(covariance) - n_systems)))


def penalty_moments(fit: Fit) -> Floats:
    """Return the second moments (p, p) of the scores of the battles that the penalty adds, half won and half lost."""
    residuals = fit.residual(fit.coefficients)[:, [0, 2]]
    moments = np.concatenate([residuals**2, residuals.prod(axis=2, keepdims=True)], axis=2)
    return information_of(fit.design, fit.products, fit.pseudo, moments.mean(axis=1))


def normal_draws(covariance: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Return normal draws (n, p) around 0 whose sample covariance is exactly `covariance` (p, p).

    Intervals and tests thus depend neither on the number of draws nor on the random numbers. If n is positive but
    smaller than p + 1, there are p + 1 draws.
    """
    eigenvalues, eigenvectors = np.linalg.eigh(covariance)
    n_draws = max(n_draws, len(covariance) + 1) if n_draws else 0
    draws = rng.standard_normal((n_draws, len(covariance)))
    if n_draws:
        draws = np.linalg.qr(draws - draws.mean(axis=0))[0] * np.sqrt(n_draws - 1)
    return np.asarray(draws * np.sqrt(eigenvalues.clip(0.0)) @ eigenvectors.T)
