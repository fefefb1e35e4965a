"""Simulated studies with clusters, and error rates of tests on them."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from custodes.stats import ABSENT, clusters
from custodes.stats.bootstrap import unit_sums
from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.favi_score import favi_posterior, favi_score
from custodes.stats.sign_test import SignTest

SIZES = {
    "40 x 10": (10,) * 40,
    "40 unequal": (2,) * 10 + (5,) * 10 + (10,) * 10 + (23,) * 10,
    "10 x 10": (10,) * 10,
    "10 unequal": (2, 2, 2, 5, 5, 10, 10, 14, 20, 30),
}


TIE = 0.35  # threshold of a latent normal preference: 27 % ties between equal systems


SIGHT = 0.7  # correlation of latent preferences of metric and humans


def wins(mean: float, sd: float = 1.0) -> np.ndarray | float:
    """E[sign] of a latent normal preference."""
    return ndtr((mean - TIE) / sd) - ndtr((-mean - TIE) / sd)


@cache
def latent(icc: float) -> float:
    """Latent correlation within a document for which signs of equal systems have this correlation, by Gauss-Hermite."""
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    within = 2 * ndtr(-TIE)  # variance of a sign

    def gap(rho: float) -> float:
        return weight @ wins(np.sqrt(rho) * node, np.sqrt(1 - rho)) ** 2 / weight.sum() / within - icc

    return brentq(gap, 0, 0.99) if icc else 0.0


def studies(
    n: int, sizes: tuple[int, ...], *, icc: float, mean: float, annotated: str, seed: int, favour: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signs of humans and a metric on every item of one pair, (studies, items) each, and units (items,).

    Human ratings cover all items, a random half, or the first half of the documents.
    """
    rng = np.random.default_rng(seed)
    units = np.repeat(np.arange(len(sizes)), sizes)
    rho = latent(icc)

    def noise() -> np.ndarray:
        document, item = rng.normal(size=(n, len(sizes))), rng.normal(size=(n, len(units)))
        return np.sqrt(rho) * document[:, units] + np.sqrt(1 - rho) * item

    latent_human = noise()
    seen = SIGHT * latent_human + np.sqrt(1 - SIGHT**2) * noise()
    human, metric = (
        np.sign(view * (np.abs(view) > TIE)).astype(np.int8)
        for view in (mean + latent_human, SIGHT * mean + favour + seen)
    )
    half = {
        "all": np.ones((n, len(units)), dtype=bool),
        "half": rng.random((n, len(units))).argsort(axis=1) < len(units) / 2,
        "documents": np.broadcast_to(units < len(sizes) / 2, (n, len(units))),
    }[annotated]
    return np.where(half, human, np.int8(ABSENT)), metric, units


def counted(human: np.ndarray, metric: np.ndarray) -> Counts:
    at = clusters.joint_outcomes(human, metric)
    return Counts.from_rows(np.stack([(at == k).sum(axis=1) for k in range(15)], axis=1))


def effect_of(statistic, human: np.ndarray, metric: np.ndarray, units: np.ndarray) -> clusters.DesignEffect:
    """Design effect of a statistic of `Counts`."""
    cells = clusters.joint_outcomes(human, metric)
    table, unit = np.repeat(np.arange(len(cells)), cells.shape[1]), np.tile(units, len(cells))
    rows = clusters.cluster_rows(table, cells.ravel(), unit, n_cells=15, n_tables=len(cells))
    return clusters.design_effect(lambda rows: statistic(Counts.from_rows(rows)), rows)


def estimated(name: str, size: str, *, icc: float, mean: float, annotated: str, n: int, seed: int = 0, by=True):
    """Coverage of the margin, decision rate, mean width and mean divisor, with `by` cluster or item."""
    estimator = ESTIMATORS[name]
    human, metric, units = studies(n, SIZES[size], icc=icc, mean=mean, annotated=annotated, seed=seed)
    counts, divisor = counted(human, metric), np.ones(n)
    if by:
        divisor = effect_of(lambda tables: estimator.point(tables), human, metric, units).divisor(0.95)
    estimate = estimator.estimate(
        counts.effective(divisor), confidence=0.95, gamma=0.05, rng=np.random.default_rng(seed)
    )
    truth = wins(mean if estimator.uses_people else SIGHT * mean)
    held = (estimate.margin_low <= truth) & (truth <= estimate.margin_high)
    decided = np.abs(estimate.theta - 0.5) > 0.475
    return held.mean(), decided.mean(), (estimate.margin_high - estimate.margin_low).mean(), divisor.mean()


def sign_tests(size: str, *, icc: float, mean: float, n: int, seed: int = 0, by=True, alpha=0.05, test="asymptotic"):
    """Proportion of studies with a decision."""
    human, _, units = studies(n, SIZES[size], icc=icc, mean=mean, annotated="all", seed=seed)
    outcomes = np.stack([(human == sign).sum(axis=1) for sign in (1, 0, -1)], axis=1).astype(float)
    if by:
        sums = unit_sums(human, units=units, n_units=len(SIZES[size]))
        several = (sums != 0).sum(axis=1)
        outcomes /= clusters.null_effect(outcomes[:, 0] + outcomes[:, 2], (sums**2).sum(axis=1), several)[:, None]
    return float(np.mean(SignTest(alpha=alpha, test=test).decisions(outcomes) != 0))


@cache
def true_favi(mean: float, favour: float) -> float:
    """Favi-Score of a million independent items."""
    human, metric, _ = studies(100, (1,) * 10_000, icc=0, mean=mean, annotated="all", seed=1, favour=favour)
    return float(favi_score(counted(human, metric).paired.sum(axis=0)))


def favi_held(size: str, *, icc: float, mean: float, favour: float, n: int, seed: int = 0, by=True):
    """Coverage of the Favi-Score, rate of one-sided results, mean width and divisor."""
    human, metric, units = studies(n, SIZES[size], icc=icc, mean=mean, annotated="all", seed=seed, favour=favour)
    rows, divisor = counted(human, metric).rows, np.ones(n)
    if by:
        divisor = effect_of(lambda tables: favi_score(tables.paired), human, metric, units).divisor(0.95)
    tables = Counts.from_rows(rows / divisor[:, None]).paired
    low, high, _ = favi_posterior(tables, confidence=0.95, draws=1000, rng=np.random.default_rng(seed))
    truth = true_favi(mean, favour)
    return (
        float(np.mean((low <= truth) & (truth <= high))),
        float(np.mean((low > 0) | (high < 0))),
        float(np.mean(high - low)),
        float(np.mean(divisor)),
    )
