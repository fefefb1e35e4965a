"""Simulated studies with a metric that is fair by construction, and with one that favours a system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def skewed(rng: np.random.Generator, items: int, systems: int) -> Floats:
    """Long tails of bad outputs, with different lengths for each system."""
    tail = rng.uniform(0.3, 1.2, systems) * rng.exponential(1, (items, systems))
    return rng.normal(0, 0.3, systems) + rng.normal(0, 0.4, (items, 1)) - tail


def bimodal(rng: np.random.Generator, items: int, systems: int) -> Floats:
    """Outputs succeed or fail, at different rates for each system."""
    success = np.where(rng.random((items, systems)) < rng.uniform(0.4, 0.95, systems), 1.0, -1.0)
    return success + rng.normal(0, 0.2, systems) + rng.normal(0, 0.3, (items, 1)) + rng.normal(0, 0.3, success.shape)


def ceiling(rng: np.random.Generator, items: int, systems: int) -> Floats:
    """Quality is bounded above, and many outputs reach the bound."""
    spread = rng.uniform(0.5, 1.5, systems) * rng.normal(0, 1, (items, systems))
    return np.asarray(1.5 * np.minimum(rng.normal(0, 0.7, systems) + rng.normal(0, 0.5, (items, 1)) + spread, 0.5))


def failing_tail(rng: np.random.Generator, items: int, systems: int) -> Floats:
    """Half of the systems are stable; the others fail badly on a tenth of the items."""
    steady = rng.normal(0, 0.3, systems) + rng.normal(0, 0.5, (items, 1)) + rng.normal(0, 0.5, (items, systems))
    fails = (rng.random(steady.shape) < 0.1) & (rng.permutation(systems) < systems // 2)
    return np.asarray(steady - 3.0 * fails)


QUALITIES: Mapping[str, Callable[[np.random.Generator, int, int], Floats] | None] = {
    "normal": None,
    "skewed": skewed,
    "bimodal": bimodal,
    "ceiling": ceiling,
    "failing tail": failing_tail,
}


def straight(quality: Floats) -> Floats:
    return quality


@dataclass(frozen=True, kw_only=True)
class Fair:
    """Quality = system + item + residual, or drawn by `quality`; `people` rate it from 1 to 5 with noise.

    The metric applies `link` with normal noise, and reports `seen` of the result. `outlier` moves the best (or worst,
    if negative) system away. A `favour` is added to the metric's view of one system, at random or at `place` from the
    worst. Annotators have individual `taste` for systems; a `harsh` one rates a point lower, and never rates one of the
    systems. All annotators rate `lenient` points higher.
    """

    items: int = 100
    systems: int = 8
    people: int = 3
    between: float = 0.5
    easiness: float = 0.5
    particular: float = 0.7
    human_noise: float = 1.0
    link: Callable[[Floats], Floats] = straight
    noise: float = 1.0
    seen: Callable[[Floats], Floats] = straight
    outlier: float = 0.0
    favour: float = 0.0
    place: int | None = None
    document: int = 1
    document_noise: float = 0.0
    quality: Callable[[np.random.Generator, int, int], Floats] | None = None
    rounded: bool = True
    taste: float = 0.0
    harsh: bool = False
    lenient: float = 0.0

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats, int]:
        """Draw human scores (people, items, systems), metric scores (items, systems), and the favoured system."""
        size = (self.items, self.systems)
        system = rng.normal(0, self.between, self.systems)
        if self.outlier:
            system[np.argmax(system * np.sign(self.outlier))] += self.outlier
        documents = np.arange(self.items) // self.document
        shared = rng.normal(0, self.document_noise, (2, self.items, self.systems))[:, documents]
        quality = system + rng.normal(0, self.easiness, (self.items, 1)) + rng.normal(0, self.particular, size)
        quality = quality + shared[0]
        if self.quality is not None:
            quality = self.quality(rng, self.items, self.systems)
            system = quality.mean(axis=0)
        persons = quality + rng.normal(0, self.human_noise, (self.people, *size))
        persons = persons + self.lenient + rng.normal(0, self.taste, (self.people, 1, self.systems))
        metric = self.link(quality) + rng.normal(0, self.noise, size) + shared[1]
        place = int(rng.integers(self.systems)) if self.place is None else self.place
        favoured = int(np.argsort(system)[place])
        metric[:, favoured] += self.favour
        if self.harsh:
            persons[0] -= 1
        rated = np.clip(np.rint(3 + persons), 1, 5) if self.rounded else persons
        if self.harsh:
            rated[0, :, 0] = np.nan
        return rated, self.seen(metric), favoured


def saturating(quality: Floats) -> Floats:
    return np.asarray(2 * np.tanh(quality))


FAIR: Mapping[str, Fair] = {
    "plain": Fair(),
    "noisy": Fair(link=lambda quality: 0.4 * quality),
    "coarse": Fair(seen=lambda view: np.clip(np.rint(view), -1, 1)),
    "saturating": Fair(link=saturating),
    "very accurate": Fair(noise=0.2),
    "accurate and saturating": Fair(link=saturating, noise=0.3),
    "one noisy person": Fair(people=1, human_noise=1.5),
    "5 systems": Fair(systems=5),
    "16 systems": Fair(systems=16),
    "convex": Fair(link=lambda quality: np.exp(quality)),
    "skewed scores": Fair(seen=lambda view: np.exp(view)),
    "outlying best": Fair(outlier=2.0),
    "outlying worst": Fair(outlier=-2.0),
    "convex, outlying best": Fair(link=lambda quality: np.exp(0.7 * quality), outlier=1.5),
    "saturating, outlying best": Fair(link=saturating, outlier=1.5),
    "5 systems, outlying best": Fair(systems=5, outlier=2.0),
    "one person, convex": Fair(people=1, link=lambda quality: np.exp(quality)),
    "one person, outlying best": Fair(people=1, outlier=2.0),
    "two people": Fair(people=2),
    "people with tastes": Fair(taste=0.3),
    "a harsh one, not everywhere": Fair(harsh=True, rounded=False),
    "ratings at the ceiling": Fair(lenient=1.5, items=400, systems=12, between=0.7, human_noise=0.4, noise=0.7),
    "documents": Fair(document=10, document_noise=0.5),
}


def signs_of(persons: Floats, metric: Floats) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int64]]:
    """The scores as signs (pairs, items) of the human mean and of the metric, and the pairs."""
    pairs = np.array(list(combinations(range(metric.shape[1]), 2)))
    human, metric_signs = (
        np.sign(scores[:, pairs[:, 0]] - scores[:, pairs[:, 1]]).T.astype(np.int8)
        for scores in (np.nanmean(persons, axis=0), metric)
    )
    return human, metric_signs, pairs
