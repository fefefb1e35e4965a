"""Strengths of systems with draws of what other battles of the same kind would have given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from custodes.errors import InputError
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.intervals import student_quantile
from custodes.stats.ratios import ratio
from custodes.stats.strength.battles import BattleCounts, Battles, count_by_kind, equal_clusters
from custodes.stats.strength.davidson import Fit, fit
from custodes.stats.strength.sandwich import (
    clusters_behind,
    leverage_corrected,
    normal_draws,
    of_penalty,
    widened,
)

TieModel = Literal["davidson", "half"]
"""What a tie is: an outcome with a parameter of its own, or half a win for each side."""


@dataclass(frozen=True, kw_only=True)
class Strengths:
    """Log odds `draws` (1 + B, systems), the estimate first, which sums to 0 within each component; NaN of a system
    that met nobody. `effects` (1 + B, k) of the covariates, in log odds a unit; `ties` (1 + B,) Davidson's nu, 0 where
    nothing tied, NaN where ties are half wins. `component` (systems,): strengths of different ones cannot be compared.
    `bounded` (systems,): False where it, or a group it belongs to, won or lost everything against the rest of the
    component (its largest circle), so that only a penalty keeps it finite. `clusters` counted, and `n_units`, how many
    of equal weight they amount to."""

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
    """Fit Davidson's model (`ties="half"`: Bradley-Terry with ties as half wins) and draw its sampling error.

    A bootstrap of scores: what each cluster adds to the fit, corrected for its leverage, is drawn again with a normal
    multiplier, which gives normal draws with the covariance by clusters. Nothing is refitted: refits of few battles are
    separated (somebody wins everything) and have no finite draws. For intervals use `interval`, for ranks `ranks`.
    Raises InputError where covariates cannot be told from strengths.

    >>> made = strengths(
    ...     Battles(
    ...         first=np.zeros(100, dtype=int), second=np.ones(100, dtype=int),
    ...         unit=np.arange(100), weight=np.ones(100),
    ...         sign=np.repeat([1, -1], [75, 25]).astype(np.int8), covariates=np.empty((100, 0)),
    ...     ),
    ...     n_systems=2, ties="davidson", resamples=1000, rng=np.random.default_rng(0),
    ... )
    >>> made.draws[0].round(4).tolist()  # half of log 3 and of log 1/3
    [0.5493, -0.5493]

    Source: Davidson 1970; Liang and Zeger 1986 for the covariance by clusters; Kline and Santos 2012 for the bootstrap
    of scores.
    """
    model = fitted(battles, n_systems=n_systems, ties=ties)
    scores = model.corrected(model.scores(model.residual(model.fit.coefficients), has_ties=model.fit.has_ties))
    covariance = model.covariance(scores, model.fit.inverse, scores=scores)
    return model.strengths(model.fit.coefficients, covariance, resamples, rng)


def interval(draws: Floats, *, confidence: float, n_units: float) -> tuple[Floats, Floats]:
    """Estimate ± t x standard deviation of the draws: (1 + B, ...) -> (low, high), each (...).

    For strengths and effects; of the logarithm for `ties`. t has `n_units` - 1 degrees. NaN where the estimate is, with
    fewer than two draws and with one cluster.

    >>> low, high = interval(np.array([0.0, -1.0, 1.0]), confidence=0.95, n_units=1000)
    >>> round(high.item(), 3)
    2.775
    """
    reach = student_quantile(confidence, n_units) * _standard_error(draws, n_units)
    return draws[0] - reach, draws[0] + reach


def p_value(draws: Floats, *, n_units: float) -> Floats:
    """That estimates are 0, of the same t as `interval`: (1 + B, ...) -> (...); NaN where that is.

    >>> round(p_value(np.array([2.775, -1.0, 1.0]), n_units=1000).item(), 3)
    0.05
    """
    from scipy.special import stdtr

    return np.asarray(2 * stdtr(n_units - 1, -ratio(np.abs(draws[0]), _standard_error(draws, n_units))))


def _standard_error(draws: Floats, n_units: float) -> Floats:
    """Of draws (1 + B, ...), the estimate first: (...); NaN with fewer than two draws and with one cluster."""
    if len(draws) < 3 or n_units < 2:
        return np.full(draws.shape[1:], np.nan)
    return np.asarray(draws[1:].std(axis=0, ddof=1))


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A fit of the battles that say something: `battles`, their weights 1 on average, `made` their kinds, `component`
    and `bounded` (systems,) as in `Strengths`, `n_units` those of all battles."""

    fit: Fit
    battles: Battles
    made: BattleCounts
    component: Ints
    bounded: Bools
    ties: TieModel
    n_units: int

    @property
    def n_behind(self) -> float:
        """How many equal clusters the battles that say something amount to."""
        weight = np.asarray(np.bincount(self.battles.unit, weights=self.battles.weight), dtype=np.float64)
        return equal_clusters(weight, self.battles.clusters)

    def residual(self, coefficients: Floats) -> Floats:
        """What each battle is above expectation at any coefficients, weighted: (n, 2), in half signs and in ties."""
        residuals = self.fit.residual(coefficients)[self.made.kind, 1 - self.made.sign]
        return np.asarray(residuals * self.battles.weight[:, np.newaxis])

    def scores(self, residual: Floats, *, has_ties: bool) -> Any:
        """Sum residuals (n, 2) by cluster: sparse (units, p).

        A row that stands for n clusters counts by the root of n, since squares are summed.
        """
        from scipy.sparse import csr_array, diags_array, hstack

        residual = residual * np.sqrt(self.battles.often)[:, np.newaxis]
        n, unit = len(residual), self.battles.unit
        member = csr_array((np.ones(n), (unit, np.arange(n))), shape=(self.n_units, n))
        half = member @ (diags_array(residual[:, 0]) @ self.fit.design[self.made.kind])
        return csr_array(hstack([half, csr_array(member @ residual[:, 1:])]) if has_ties else half)

    def corrected(self, scores: Any) -> Any:
        """Scores (units, p) of these battles, corrected for the leverage that each cluster has in this fit."""
        return leverage_corrected(scores, self.fit, self.made, weight=self.battles.weight, unit=self.battles.unit)

    def tilted(self, tilt: Floats) -> Fitted:
        """The same battles, with (p,) added to the score: the fit that this gives, or a step towards it where the sum
        is more than could have been won."""
        penalised, half = bool(self.fit.pseudo.any()), self.ties == "half"
        moved = fit(self.made, component=self.component, ties_are_half=half, penalised=penalised, tilt=tilt)
        if moved is None:
            moved = replace(self.fit, coefficients=self.fit.coefficients + self.fit.inverse @ tilt)
        return replace(self, fit=moved)

    def covariance(self, moves: Any, inverse: Floats, *, scores: Any) -> Floats:
        """The covariance (p, p) of coefficients by clusters: inverse @ (squares of moves, and the penalty) @ inverse.

        `moves` (units, p) are scores by cluster, `inverse` (p, p) that of the information; wider for systems with few
        clusters, by the `scores` (units, p) of this fit.
        """
        data = self.battles
        behind = clusters_behind(self.fit, self.made, data, n_systems=len(self.component))
        middle = (moves.T @ moves).toarray() + of_penalty(self.fit)
        return widened(inverse @ middle @ inverse, self.fit, scores, behind=behind, n_units=self.n_behind)

    def strengths(self, estimate: Floats, covariance: Floats, resamples: int, rng: np.random.Generator) -> Strengths:
        """Strengths of coefficients (p,) with draws of a covariance (p, p)."""
        draws = np.concatenate([estimate[np.newaxis], estimate + normal_draws(covariance, resamples, rng)])
        n, k = len(self.component), self.battles.covariates.shape[1]
        alone = np.bincount(self.component)[self.component] == 1
        nu = np.exp(draws[:, -1]) if self.fit.has_ties else np.zeros(len(draws))
        return Strengths(
            draws=np.where(alone, np.nan, draws[:, :n]),
            effects=draws[:, n : n + k],
            ties=nu if self.ties == "davidson" else np.full(len(draws), np.nan),
            component=self.component,
            bounded=self.bounded,
            clusters=int(self.battles.clusters[np.unique(self.battles.unit)].sum()),
            n_units=self.n_behind,
        )


def fitted(battles: Battles, *, n_systems: int, ties: TieModel) -> Fitted:
    """Fit, with a penalty only where the likelihood has no maximum.

    It has none if a component is not one circle, if covariates tell every winner, or if all battles are ties. Raises
    InputError as `strengths`.
    """
    rows = battles.where(battles.counted)
    if not len(rows.weight):
        raise InputError("no battle with a verdict and a weight above 0")
    rows = replace(rows, weight=rows.weight / np.average(rows.weight, weights=rows.often))
    component = rows.components(n_systems)
    bounded = _bounded(component, rows.strong_components(n_systems))
    table, half = count_by_kind(rows, rows.weight * rows.often), ties == "half"
    decided = bool((rows.sign != 0).any())  # of ties alone nu would be infinite, and nothing would vary
    solution = None
    if decided and bounded.all():
        solution = fit(table, component=component, ties_are_half=half, penalised=False)
    if solution is None:
        bounded = bounded if not (decided and bounded.all()) else np.bincount(component)[component] == 1
        solution = fit(table, component=component, ties_are_half=half, penalised=True)
        assert solution is not None  # a penalty keeps it finite
    return Fitted(
        fit=solution,
        battles=rows,
        made=table,
        component=component,
        bounded=bounded,
        ties=ties,
        n_units=int(battles.unit.max()) + 1,
    )


def _bounded(component: Ints, circle: Ints) -> Bools:
    """Systems of the one largest circle of their component; of none, where several are as large."""
    bounded = np.ones(len(component), dtype=np.bool_)
    for number in range(int(component.max()) + 1):
        member = component == number
        size = np.bincount(circle[member])
        largest = np.flatnonzero(size == size.max())
        bounded[member] = (circle[member] == largest[0]) & (len(largest) == 1)
    return bounded
