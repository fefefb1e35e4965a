"""Simulated studies of a combination against the best single metric, as arrays, and claims about its gain.

The true gain is the mean estimate over studies: the average gain of the procedure with training data of this size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning import ridge
from custodes.stats.learning.folds import grouped_folds
from custodes.stats.learning.objective import objective
from custodes.stats.learning.unseen import Moves, moves
from tests.simulation.rates import most

FOLDS = 5
BOTH = np.array([0]), np.array([1])


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Metrics load on quality by `lead` (the first) or `load`, with noise of standard deviation 1.

    The proportion `shared` of the noise is common to all; `fingerprint` is the standard deviation of a metric's bias
    for each system.
    """

    lead: float
    load: float
    shared: float = 0.0
    fingerprint: float = 0.0


class Size(NamedTuple):
    """Size of a study, with clusters of `cluster` items."""

    items: int
    systems: int
    metrics: int
    cluster: int = 1


class World(NamedTuple):
    """Properties of systems: quality (1, systems) and biases of metrics (metrics, 1, systems)."""

    quality: Floats
    prints: Floats


def world(kind: Kind, size: Size, rng: np.random.Generator) -> World:
    quality = 0.6 * rng.normal(size=(1, size.systems))
    return World(quality, kind.fingerprint * rng.normal(size=(size.metrics, 1, size.systems)))


def study(kind: Kind, size: Size, of: World, rng: np.random.Generator) -> tuple[Floats, Floats, Ints]:
    """Ratings of three annotators in thirds (items, systems), scores (metrics, items, systems), and clusters."""
    shape = (size.items, size.systems)
    units = np.arange(size.items) // size.cluster
    quality = of.quality + 0.5 * rng.normal(size=(units.max() + 1, 1))[units] + rng.normal(size=shape)
    human = np.round(3 * (quality + 0.7 * rng.normal(size=(3, *shape))).mean(axis=0)) / 3
    load = np.full(size.metrics, kind.load)
    load[0] = kind.lead
    noise = np.sqrt(1 - kind.shared**2) * rng.normal(size=(size.metrics, *shape))
    noise += kind.shared * rng.normal(size=shape)
    return human, load[:, np.newaxis, np.newaxis] * quality + of.prints + noise, units


def predictions(human: Floats, x: Floats, train: Floats, units: Ints) -> Floats:
    """Predictions for all outputs (2, items, systems) by ridge regression and the best single metric of the training
    part."""
    rows, flat = np.flatnonzero(train.ravel()), x.reshape(len(x), -1)
    y, item = human.ravel()[rows], rows // human.shape[1]
    line = ridge.ridge(flat[:, rows].T, y, groups=units[item])
    best = int(np.nanargmax(objective("kendall", y, items=item)(flat[:, rows])))
    return np.stack([ridge.predict(line, flat.T), flat[best]]).reshape(2, *human.shape)


def gain(human: Floats, x: Floats, units: Ints, rng: np.random.Generator, *, unseen_systems: bool) -> Moves:
    """Gain in tau-b of ridge regression, with the folds of `combine`."""
    n, systems = human.shape
    fold = grouped_folds(units, n_folds=FOLDS, rng=rng)
    left = range(systems) if unseen_systems else (-1,)
    predicted = np.zeros((2, len(left), n, systems))
    for f in range(FOLDS):
        held = fold == f
        for k, system in enumerate(left):
            train = np.broadcast_to(~held[:, np.newaxis], human.shape) & (np.arange(systems) != system)
            predicted[:, k, held] = predictions(human, x, train, units)[:, held]
    within = np.broadcast_to(fold[:, np.newaxis], human.shape)
    model = np.broadcast_to(np.arange(systems) if unseen_systems else 0, human.shape)
    design = {"model": model, "within": within, "block": within, "units": units, "n_units": int(units.max()) + 1}
    return moves("kendall", human, predicted, **design).contrast(*BOTH)


def claims(kind: Kind, size: Size, *, unseen_systems: bool, studies: int, seed: int = 0) -> tuple[float, float, float]:
    """True gain, how often the interval lies above it, and how often the interval lies above 0.

    Studies of unseen systems draw systems anew; those of unseen items keep the systems of one of five worlds.
    """
    over, folds = ("systems", (FOLDS, size.systems)) if unseen_systems else ("units", (FOLDS, 0))
    draws = []
    for k in range(studies):
        rng = np.random.default_rng([seed, k])
        of = world(kind, size, rng if unseen_systems else np.random.default_rng([seed, k % 5, 1]))
        result = gain(*study(kind, size, of, rng), rng, unseen_systems=unseen_systems)
        low, _ = result.interval(over, confidence=0.95, folds=folds)  # type: ignore[arg-type]
        draws.append((result.value[0], low[0], 0 if unseen_systems else k % 5))
    value, low, where = np.array(draws).T
    truth = np.array([value[where == number].mean() for number in range(5) if (where == number).any()])
    return float(value.mean()), float(np.mean(low > truth[where.astype(int)])), float(np.mean(low > 0))


pytestmark = pytest.mark.slow

STUDIES = 1000
LIMIT = most(0.06, STUDIES)

COPIES = Kind(lead=0.8, load=0.8, shared=0.98)
EVEN = Kind(lead=0.8, load=0.08)
"""The gain from other metrics equals the cost of learning their weights."""
PRINTS = Kind(lead=0.8, load=0.0, fingerprint=1.5)
"""Other metrics depend on the system only, which has no value for unseen systems."""
MIXED = Kind(lead=0.9, load=0.35, fingerprint=0.6)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (EVEN, Size(12, 8, 10)),
        (EVEN, Size(40, 8, 10)),
        (EVEN, Size(100, 8, 10, cluster=5)),
        (COPIES, Size(12, 8, 10)),
        (COPIES, Size(100, 8, 10, cluster=5)),
        (PRINTS, Size(12, 8, 10)),
        (PRINTS, Size(100, 8, 10, cluster=5)),
    ],
)
def test_no_more_is_claimed_on_unseen_items_than_there_is(kind: Kind, size: Size) -> None:
    _, beyond, _ = claims(kind, size, unseen_systems=False, studies=STUDIES)
    assert beyond <= LIMIT


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (EVEN, Size(40, 8, 10)),
        (PRINTS, Size(40, 8, 10)),
        (PRINTS, Size(40, 16, 10)),
        (PRINTS, Size(100, 5, 20)),
        (MIXED, Size(100, 4, 10)),
    ],
)
def test_no_more_is_claimed_on_unseen_systems_than_there_is(kind: Kind, size: Size) -> None:
    _, beyond, _ = claims(kind, size, unseen_systems=True, studies=STUDIES)
    assert beyond <= LIMIT


@pytest.mark.parametrize(
    ("load", "size", "unseen_systems", "least"),
    [
        (0.25, Size(40, 8, 10), False, 0.75),
        (0.25, Size(100, 8, 10), False, 0.95),
        (0.4, Size(40, 8, 10), True, 0.95),
    ],
)
def test_a_gain_is_found(load: float, size: Size, unseen_systems: bool, least: float) -> None:
    truth, _, claimed = claims(Kind(lead=0.8, load=load), size, unseen_systems=unseen_systems, studies=200)
    assert 0.07 < truth < 0.17
    assert claimed >= least
