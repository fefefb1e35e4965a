"""People of `custodes.annotate.simulated_crowd` as arrays: careful ones who disagree honestly, and careless ones."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from custodes.annotate.simulated_crowd import DIFFICULTY, SPREAD, Habits, gap_of
from custodes.data.simulate import marks
from custodes.stats.annotator_quality import CarefulMargins, careful_margins

SYSTEMS = 4
PAIRS = np.array(list(combinations(range(SYSTEMS), 2)))
ITEMS, PEOPLE, NEIGHBOURS = 60, 25, 0.3
LOOKS, BOUND = (10, 20, 40), 2.289
"""Pocock's, two-sided at .05 for three looks at even sizes."""


class World(NamedTuple):
    """`reliability` of careful people; `careless`: the share of people who are not, half of them random and half
    take the first shown; `overlap`: of second opinions; `stopping`: by looks at `LOOKS`, else every item once."""

    reliability: float
    careless: float
    overlap: float
    stopping: bool = False


@cache
def truth(reliability: float) -> tuple[float, np.ndarray]:
    """How much better a system is than the next, and the margins (pairs,) of careful people alone: of many answers."""
    gap = gap_of(NEIGHBOURS, Habits(reliability=reliability))
    rng = np.random.default_rng(0)
    latent = _latent(gap, 50_000, rng)
    careful = [_preferred(latent[:, first], latent[:, second], reliability, rng).mean() for first, second in PAIRS]
    return gap, np.array(careful)


def _latent(gap: float, items: int, rng: np.random.Generator) -> np.ndarray:
    """(items, systems): how good outputs are."""
    shared = DIFFICULTY * rng.normal(size=(items, 1))
    return -gap * np.arange(SYSTEMS) + shared + SPREAD * rng.normal(size=(items, SYSTEMS))


def _preferred(first: np.ndarray, second: np.ndarray, reliability: float, rng: np.random.Generator) -> np.ndarray:
    """What careful people answer: 1, 0, -1."""
    sd = float(np.hypot(DIFFICULTY, SPREAD))
    one, other = (marks(own, reliability=reliability, sd=sd, rng=rng) for own in (first, second))
    return np.sign(one - other)


class Answered(NamedTuple):
    """The result, the margins as seen (pairs,), and the share of answers by careful people."""

    found: CarefulMargins
    seen: np.ndarray
    careful: float


def answered(rng: np.random.Generator, world: World) -> Answered:
    """A study of six pairs."""
    gap, _ = truth(world.reliability)
    latent = _latent(gap, ITEMS, rng)
    kind = np.digitize(rng.random(PEOPLE), [world.careless / 2, world.careless])  # random, side, careful
    pair = np.repeat(np.arange(len(PAIRS)), ITEMS)
    item = np.concatenate([rng.permutation(ITEMS) for _ in PAIRS])
    first = rng.permutation(np.resize(rng.permutation(PEOPLE), len(pair)))
    again = np.flatnonzero(rng.random(len(pair)) < world.overlap)
    task = np.concatenate([np.arange(len(pair)), again])
    person = np.concatenate([first, (first[again] + rng.integers(1, PEOPLE, len(again))) % PEOPLE])

    shown = (latent[item[task], system] for system in PAIRS[pair[task]].T)
    careful = _preferred(*shown, world.reliability, rng)
    guessed, side = rng.integers(-1, 2, len(task)), rng.choice([1, -1], len(task))
    sign = np.choose(kind[person], [guessed, side, careful]).astype(np.float64)

    kept = np.ones(len(pair), dtype=bool)
    if world.stopping:
        for own in range(len(PAIRS)):
            rows = np.flatnonzero(pair == own)
            kept[rows[_stopped(sign[rows]) :]] = False
    rows = kept[task]
    primary = (np.arange(len(task)) < len(pair))[rows].astype(np.float64)
    of_pair = pair[task[rows]]
    found = careful_margins(
        sign[rows],
        task=(np.cumsum(kept) - 1)[task[rows]],
        person=person[rows],
        pair=pair[kept],
        unit=item[task[rows]],
        primary=primary,
        confidence=0.95,
    )
    seen = np.bincount(of_pair, primary * sign[rows]) / np.bincount(of_pair, primary)
    return Answered(found, seen, float((kind[person[rows]] == 2).mean()))


def _stopped(sign: np.ndarray) -> int:
    """After how many answers a pair ends."""
    for n in LOOKS:
        if abs(sign[:n].sum()) > BOUND * np.sqrt(max((sign[:n] ** 2).sum(), 1)):
            return n
    return LOOKS[-1]


class Rates(NamedTuple):
    """Means over pairs and studies: the margin of careful people, as seen, and if all disagreement were carelessness;
    how often careful people's lies between the ends, how often an end is open, how often at least the share told
    looked; and the share of studies of which nothing is said."""

    true: float
    seen: float
    at_most: float
    covered: float
    open: float
    looked: float
    silent: float


def rates(world: World, *, studies: int, seed: int = 20261122) -> Rates:
    """Of so many studies."""
    rng = np.random.default_rng(seed)
    _, true = truth(world.reliability)
    made = [answered(rng, world) for _ in range(studies)]
    told = [own for own in made if np.isfinite(own.found.care)]
    low, high = (np.array([getattr(own.found, end) for own in told]) for end in ("low", "high"))
    return Rates(
        true=float(true.mean()),
        seen=float(np.mean([own.seen for own in told])),
        at_most=float(np.mean([own.found.margin for own in told])),
        covered=float(np.mean((np.nan_to_num(low, nan=-1) <= true) & (true <= np.nan_to_num(high, nan=1)))),
        open=float((np.isnan(low) | np.isnan(high)).mean()),
        looked=float(np.mean([not own.found.care_low > own.careful for own in told])),
        silent=1 - len(told) / studies,
    )
