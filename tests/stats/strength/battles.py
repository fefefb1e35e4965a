"""Battles with known strengths, for tests and simulations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from custodes.stats import ABSENT
from custodes.stats.arrays import Floats
from custodes.stats.strength.battles import BattleCounts, Battles
from custodes.stats.strength.davidson import fit


def battles(first, second, sign, *, unit=None, weight=None, covariates=None) -> Battles:
    """Return battles from lists; by default each battle is a cluster of weight 1."""
    n = len(sign)
    return Battles(
        first=np.asarray(first),
        second=np.asarray(second),
        sign=np.asarray(sign, dtype=np.int8),
        unit=np.arange(n) if unit is None else np.asarray(unit),
        weight=np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64),
        covariates=np.empty((n, 0)) if covariates is None else np.asarray(covariates, dtype=np.float64),
    )


def swapped(data: Battles) -> Battles:
    """Return the same battles with first and second system exchanged."""
    sign = np.where(data.sign == ABSENT, data.sign, -data.sign).astype(np.int8)
    return replace(data, first=data.second, second=data.first, sign=sign, covariates=-data.covariates)


def chances(eta: np.ndarray, nu: float) -> np.ndarray:
    """Return probabilities of win, tie and loss by Davidson's formula: (...) -> (..., 3)."""
    parts = np.stack([np.exp(eta / 2), np.full(np.shape(eta), nu), np.exp(-eta / 2)], axis=-1)
    return parts / parts.sum(axis=-1, keepdims=True)


def outcomes(probability: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return signs drawn with probabilities (n, 3) of win, tie and loss."""
    uniform = rng.random(len(probability))
    won = uniform < probability[:, 0]
    return np.where(won, 1, np.where(uniform < probability[:, :2].sum(axis=1), 0, -1)).astype(np.int8)


class Arena:
    """A population of battles of `systems`, with equal or unequal numbers of battles and random order. Parameters are
    the order effect, ties by `nu`, clusters of `size` with system effects (sd `taste`), and pair effects that violate
    the model (sd `luck`). `target` holds the coefficients in the limit of many battles."""

    def __init__(
        self,
        systems: int,
        n: int,
        *,
        equal: bool = False,
        nu: float = 0.6,
        order: float = 0.3,
        spread: float = 1.0,
        size: int = 1,
        taste: float = 0.0,
        luck: float = 0.0,
    ) -> None:
        rng = np.random.default_rng(12345 + systems)
        self.systems, self.n, self.nu, self.order, self.size, self.taste = systems, n, nu, order, size, taste
        self.pairs = np.stack(np.triu_indices(systems, k=1), axis=1)
        popular = np.ones(systems) if equal else np.exp(0.7 * rng.normal(size=systems))
        share = popular[self.pairs].prod(axis=1)
        self.share = share / share.sum()
        self.strength = rng.permutation(np.linspace(-1, 1, systems)) * spread
        self.luck = rng.normal(size=len(self.pairs)) * luck
        # averaged by Gauss-Hermite over cluster effects, whose difference is normal
        at, node = np.repeat(np.arange(len(self.pairs)), 2), np.polynomial.hermite_e.hermegauss(15)
        order_sign = np.tile([1.0, -1.0], len(self.pairs))
        eta = self._eta(at, order_sign)
        mean = sum(w * chances(eta + np.sqrt(2) * taste * x, nu) for x, w in zip(*node, strict=True)) / node[1].sum()
        first, second = self.pairs[at].T
        expected = BattleCounts(
            first=first,
            second=second,
            covariates=order_sign[:, np.newaxis] if order else np.empty((len(at), 0)),
            outcomes=mean * self.share[at, np.newaxis] / 2 * n,
            kind=at,
            sign=at.astype(np.int8),
        )
        fitted = fit(expected, component=np.zeros(systems, dtype=int), ties_are_half=not nu, penalised=False)
        assert fitted is not None
        self.target = fitted.coefficients

    def _eta(self, pair: np.ndarray, order_sign: np.ndarray) -> np.ndarray:
        first, second = self.pairs[pair].T
        return self.strength[first] - self.strength[second] + self.luck[pair] + self.order * order_sign

    def draw(self, rng: np.random.Generator) -> Battles:
        """Return the battles of one study."""
        pair, order_sign = rng.choice(len(self.pairs), size=self.n, p=self.share), rng.choice([-1.0, 1.0], size=self.n)
        unit = np.arange(self.n) // self.size
        first, second = self.pairs[pair].T
        tastes = rng.normal(size=(int(unit[-1]) + 1, self.systems)) * self.taste
        eta = self._eta(pair, order_sign) + tastes[unit, first] - tastes[unit, second]
        return battles(
            first,
            second,
            outcomes(chances(eta, self.nu), rng),
            unit=unit,
            covariates=order_sign[:, np.newaxis] if self.order else None,
        )


def judge(kind: str, human: Battles, rng: np.random.Generator) -> np.ndarray:
    """Return a metric's signs on these human battles: `perfect`, `noisy`, `biased` (noisy, for the first shown and for
    system 0), `useless`."""
    n, random_signs = human.sign.size, rng.choice([-1, 0, 1], size=human.sign.size)
    if kind == "useless":
        return random_signs.astype(np.int8)
    signs = human.sign if kind == "perfect" else np.where(rng.random(n) < 0.25, random_signs, human.sign)
    if kind == "biased":
        signs = np.where(rng.random(n) < 0.25, human.covariates[:, 0], signs)
        loyal, side = rng.random(n) < 0.4, (human.first == 0).astype(int) - (human.second == 0)
        signs = np.where(loyal & (side != 0), side, signs)
    return signs.astype(np.int8)


def all_pairs(scores: Floats) -> Battles:
    """Return the battles of all systems on each item from scores (items, systems)."""
    n_items, n_systems = scores.shape
    first, second = np.triu_indices(n_systems, 1)
    sign = np.sign(scores[:, first] - scores[:, second]).ravel()
    unit = np.repeat(np.arange(n_items), len(first))
    return battles(np.tile(first, n_items), np.tile(second, n_items), sign, unit=unit)
