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
from custodes.stats.strength.davidson import Fit, dense_if_small, information_of, leverage

_LIGHT = 0.1  # maximum leverage of a cluster for which a single factor is a sufficient correction
_MOST = 0.95  # limit of the leverage in one direction; a leverage of 1 would give an infinite error
_NONE = 1e-300  # replaces 0 in a denominator
_TAIL = 0.975  # probability at which draws match the quantile of Student's t


def leverage_corrected(scores: Any, fit: Fit, kinds: BattleCounts, *, weight: Floats, unit: Ints) -> Any:
    """Return the scores corrected for leverage.

    Each score is multiplied by (I - H A)^-1/2, where H is the information of the cluster and A the inverse of the total
    information. The covariance is then unbiased if the model holds (CR2). With a jackknife (CR3), intervals of 20
    systems with 200 battles would have a coverage of .98. If the leverage is small in all directions, a single factor
    is used. In a direction in which only one cluster has information, the leverage is limited to .95.

    Source: Bell and McCaffrey 2002.
    """
    from scipy.sparse import csr_array, diags_array

    n_units, kind = scores.shape[0], kinds.kind
    each = leverage(kinds, fit.variance, fit.inverse, has_ties=fit.has_ties)
    total = np.bincount(unit, weights=weight * each[kind], minlength=n_units)
    light = (total <= _LIGHT) | (np.bincount(unit, minlength=n_units) == 1)
    factor = np.where(light, 1 / np.sqrt(1 - np.minimum(total, _MOST)), 1.0)
    corrected = csr_array(diags_array(factor) @ scores)
    if light.all():
        return corrected
    values, vectors = np.linalg.eigh(fit.inverse)
    root = vectors * np.sqrt(values.clip(0.0))
    order = np.argsort(unit, kind="stable")
    start = np.searchsorted(unit[order], np.arange(n_units + 1))
    heavy = np.flatnonzero(~light)
    more, own_scores = np.zeros((len(heavy), scores.shape[1])), scores[heavy].toarray()
    whole = dense_if_small(fit.design)

    def information(u: int) -> Floats:
        battles = order[start[u] : start[u + 1]]
        some, at = np.unique(kind[battles], return_inverse=True)
        often = np.bincount(at, weights=weight[battles]).astype(np.float64)
        return information_of(dense_if_small(whole[some]), often, fit.variance[some], has_ties=fit.has_ties)

    for part in chunks(len(heavy), root.size):
        informations = np.stack([information(u) for u in heavy[part]])
        share, axes = np.linalg.eigh(root.T @ informations @ root)
        share = share.clip(1e-9, _MOST)
        gain = (1 / np.sqrt(1 - share) - 1) / share
        turned = axes @ (gain[..., np.newaxis] * (axes.swapaxes(1, 2) @ (own_scores[part] @ root)[..., np.newaxis]))
        more[part] = (informations @ (root @ turned))[..., 0]
    place = csr_array((np.ones(len(heavy)), (heavy, np.arange(len(heavy)))), shape=(n_units, len(heavy)))
    return csr_array(corrected + place @ csr_array(more))


def clusters_behind(fit: Fit, kinds: BattleCounts, battles: Battles, *, n_systems: int) -> Floats:
    """Return the effective number (systems,) of clusters from which the error of each strength is estimated.

    Let w be the weight of a battle (1 on average) and c its expected contribution to the variance. The effective number
    is (sum of w c)^2 / sum over clusters of ((sum of w c)^2 - sum of w c^2), where the inner sums are over the
    battles of the cluster. Only the products of two battles of one cluster must be estimated from clusters, and a
    battle with weight w is like a cluster of w equal battles. The number is infinite if every cluster is a single
    battle of weight 1.

    Source: Satterthwaite 1946, applied to products instead of squares, because the variance of one battle is known.
    """
    from scipy.sparse import csr_array

    weight, unit = battles.weight, battles.unit
    n_units, n_kinds = int(unit.max()) + 1, len(kinds.first)
    shared = (np.bincount(unit)[unit] > 1) | (weight != 1)
    behind = np.full(n_systems, np.inf)
    if not shared.any():
        return behind
    often = csr_array((weight[shared], (unit[shared], kinds.kind[shared])), shape=(n_units, n_kinds))
    everything = np.bincount(kinds.kind, weights=weight * battles.often, minlength=n_kinds)
    moves = fit.inverse[: fit.design.shape[1], :n_systems]
    for some in chunks(n_systems, n_kinds):
        added = (fit.design @ moves[:, some]) ** 2 * fit.variance[:, :1]
        products = battles.clusters @ ((often @ added) ** 2 - often @ added**2)
        behind[some] = (everything @ added) ** 2 / np.maximum(products, _NONE)
    return behind


def widened(covariance: Floats, fit: Fit, scores: Any, *, behind: Floats, n_units: float) -> Floats:
    """Return the covariance (p, p) with larger variances of strengths that are based on few clusters.

    Intervals with `n_units` - 1 degrees of freedom are then as wide as intervals whose degrees of freedom are the
    number of clusters `behind` a strength, minus one. The increase is computed from a variance that is at least the
    model's variance for independent battles times the design effect of clusters. The design effect is at least 1 and is
    estimated from the scores (units, p) of all clusters.
    """
    from scipy.special import stdtrit

    n = len(behind)
    freedom = np.clip(np.minimum(behind, n_units) - 1, 1.0, None)
    wider = (stdtrit(freedom, _TAIL) / stdtrit(max(n_units - 1, 1), _TAIL)) ** 2 - 1
    middle = (scores.T @ scores).toarray()
    effect = max(1.0, float((middle * fit.inverse).sum() / np.linalg.matrix_rank(fit.inverse)))
    variance = covariance.diagonal()[:n]
    more = covariance.copy()
    more[np.arange(n), np.arange(n)] += wider * np.maximum(variance, fit.inverse.diagonal()[:n] * effect)
    return more


def of_penalty(fit: Fit) -> Floats:
    """Return the second moments (p, p) of the scores of the battles that the penalty adds, half won and half lost."""
    residual = fit.residual(fit.coefficients)
    win, loss = residual[:, 0], residual[:, 2]
    second = (win[:, :, np.newaxis] * win[:, np.newaxis] + loss[:, :, np.newaxis] * loss[:, np.newaxis]) / 2
    moments = np.stack([second[:, 0, 0], second[:, 1, 1], second[:, 0, 1]], axis=1)
    return information_of(fit.design, fit.pseudo, moments, has_ties=fit.has_ties)


def normal_draws(covariance: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Return normal draws (n, p) around 0 whose sample covariance is exactly `covariance` (p, p).

    Intervals and tests thus depend neither on the number of draws nor on the random numbers. If n is positive but
    smaller than p + 1, there are p + 1 draws.
    """
    values, vectors = np.linalg.eigh(covariance)
    p = len(values)
    n = max(n, p + 1) if n else 0
    drawn = rng.standard_normal((n, p))
    if n:
        drawn = np.linalg.qr(drawn - drawn.mean(axis=0))[0] * np.sqrt(n - 1)
    return np.asarray(drawn * np.sqrt(values.clip(0.0)) @ vectors.T)
