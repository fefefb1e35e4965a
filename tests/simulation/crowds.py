"""Simulated annotators of a `ConcurrentAnnotation`, with clocks, answer times, position bias and dropouts."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation
from custodes.evaluate.protocol.stopping import Stopping
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.allocation import annotation_order

LEASE, POLL = 120.0, 20.0  # seconds until a lease expires, and between requests of a waiting annotator


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """`people` simultaneous annotators. `seconds`: median time for the answers 1, 0, -1 on the first system.

    The proportion `careless` prefers the left output. `leaving` is the probability of dropping out with an open
    question; a new annotator then arrives.
    """

    people: int = 40
    seconds: tuple[float, float, float] = (20.0, 40.0, 60.0)
    careless: float = 0.2
    leaving: float = 0.02


def study(stopping: Stopping, *, systems: int, items: int, seed: int) -> ConcurrentAnnotation:
    """Study without answers."""
    pairs = np.array(list(combinations(range(systems), 2)))
    orders = annotation_order(
        np.ones((len(pairs), items), dtype=bool), np.arange(items), np.random.default_rng([seed, 1])
    )
    rule = stopping.rule(ESTIMATORS["human"], most=items, seed=0)
    return ConcurrentAnnotation(orders=orders.tolist(), rule=rule, systems=pairs, units=np.arange(items))


def attended(annotation: ConcurrentAnnotation, crowd: Crowd, shares: tuple[float, float, float], *, seed: int) -> float:
    """Simulate annotators until all pairs are closed, with outcome probabilities `shares`; return the seconds it took.

    No one annotates beyond an interim analysis; annotators without a task wait. Positions are balanced in blocks of two
    tasks of a pair.
    """
    rng = np.random.default_rng([seed, 2])
    spread = rng.lognormal(0, 0.5, 4000)
    flips = rng.integers(2, size=(len(annotation.orders), len(annotation.orders[0]) // 2 + 1))
    careless = [bool(rng.random() < crowd.careless) for _ in range(crowd.people)]
    clock = [(float(rng.uniform(0, 60)), person, "ask", -1, -1, 0) for person in range(crowd.people)]
    heapq.heapify(clock)
    now, number = 0.0, crowd.people
    begun = set[tuple[int, int]]()
    while any(annotation.is_open):
        now, person, what, pair, place, answer = heapq.heappop(clock)
        if what == "end":
            begun.discard((pair, place))
            continue
        if what == "answer":
            annotation.answer(pair, place, answer)
        free = [
            (k, slot) for k in annotation.open_pairs() for slot in annotation.free_slots(k) if (k, slot) not in begun
        ]
        if not free:
            heapq.heappush(clock, (now + POLL, person, "ask", -1, -1, 0))
            continue
        pairs = list(dict.fromkeys(k for k, _ in free))
        pair = pairs[int(rng.integers(len(pairs)))]
        place = next(slot for k, slot in free if k == pair)
        begun.add((pair, place))
        if rng.random() < crowd.leaving:
            careless.append(bool(rng.random() < crowd.careless))
            heapq.heappush(clock, (now + LEASE, person, "end", pair, place, 0))
            heapq.heappush(clock, (now + POLL, number, "ask", -1, -1, 0))
            number += 1
            continue
        if careless[person]:
            # The first system stands on the left in one of each two tasks.
            answer = 1 if (place + int(flips[pair, place // 2])) % 2 else -1
            median = crowd.seconds[1]
        else:
            answer = 1 - int(rng.choice(3, p=shares))
            median = crowd.seconds[1 - answer]
        seconds = median * float(spread[int(rng.integers(len(spread)))])
        heapq.heappush(clock, (now + seconds, person, "answer", pair, place, answer))
    return now
