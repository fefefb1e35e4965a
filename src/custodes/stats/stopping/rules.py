"""A stopping rule at work: an estimator, looks and what each asks, what closes a pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from custodes.stats.correction.estimator import Counts, Estimator, Evidence, Floats, Items
from custodes.stats.stopping.allocation import Ints
from custodes.stats.stopping.stops import Closing, Deciding, Look


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How one pair is judged at each look.

    `looks`: annotations of a pair at each look, increasing. `bounds`: the |z| that each look asks; theta decides where
    it is beyond the normal probability of that. `closings`: what else closes a pair, each with its limit. `seed` of the
    draws of an estimator. `budget`: how many annotations may be made of all pairs together.
    """

    estimator: Estimator
    gamma: float
    looks: tuple[int, ...]
    bounds: tuple[float, ...]
    deciding: Deciding
    closings: tuple[tuple[Closing, float], ...]
    seed: int
    budget: int


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """Of each table: `decision` 1, 0 or -1, `closed` (ask no more), outcome shares `p` (..., 3), NaN for estimators of
    the margin alone."""

    decision: NDArray[np.int8]
    closed: NDArray[np.bool_]
    p: Floats


def rule_on(
    rule: Rule, counts: Counts, *, look: int, last: Ints, items: Items | None, judged: NDArray[np.bool_]
) -> Ruling:
    """Judge tables at a look.

    `last` (...) is how many annotations each will have at its last look. `items`: all that is annotated, for estimators
    that need items, and which of their answers are `judged`.
    """
    from scipy.special import ndtr

    tail = float(ndtr(-rule.bounds[look]))
    here = Look(
        human=counts.human,
        last=last,
        seen=_evidence(rule, counts, tail) if items is None else _estimated(rule, items).where(judged),
        gamma=rule.gamma,
        tail=tail,
        bound=rule.bounds[-1],
    )
    decision = rule.deciding.decide(here)
    closed = decision != 0
    for closing, limit in rule.closings:
        closed |= closing.closes(here, rule.deciding, limit)
    return Ruling(decision=decision, closed=closed, p=here.seen.p)


def _evidence(rule: Rule, counts: Counts, tail: float) -> Evidence:
    """As precise as the decision needs, and without the interval where nothing asks for it: a replay judges very many
    tables."""
    if rule.estimator.quick and not any(closing.needs_interval for closing, _ in rule.closings):
        return rule.estimator.quick(counts, tail=tail, rng=np.random.default_rng(rule.seed))
    return _estimated(rule, counts)


def _estimated(rule: Rule, about: Counts | Items) -> Evidence:
    # One seed for all looks: these estimates depend on their table alone, not on what else is judged with it.
    rng = np.random.default_rng(rule.seed)
    estimate = rule.estimator.estimate(about, confidence=1 - rule.gamma, gamma=rule.gamma, rng=rng)
    return Evidence.of(estimate, gamma=rule.gamma)
