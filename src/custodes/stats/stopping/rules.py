"""When to stop asking people about a pair: decided, settled in advance, or not worth it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from custodes.stats.correction.estimator import Counts, Evidence
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.betting import betting_interval, log_wealth
from custodes.stats.stopping.sequential import group_sequential_bounds, predictive_probability

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Boundary = Literal["none", "pocock", "obrien-fleming"]

BOUNDARIES = ("none", "pocock", "obrien-fleming")
STOPS = ("decided", "futility", "equivalence", "anytime")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How one pair is judged at each look.

    `looks`: annotations of a pair at each look, increasing. `bounds`: the |z| that each look asks; theta decides where
    it is beyond the normal probability of that. `anytime`: the betting interval decides instead. `futility`: a pair is
    given up below this predictive probability of being decided at the last look. `equivalence`: a pair is settled as
    not different when the interval of its margin lies within plus or minus this. `seed` of the draws of an estimator.
    """

    estimator: str
    gamma: float
    looks: tuple[int, ...]
    bounds: tuple[float, ...]
    anytime: bool
    futility: float | None
    equivalence: float | None
    seed: int


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """Of each table: `decision` 1, 0 or -1, `closed` (ask no more), outcome shares `p` (..., 3), NaN for estimators of
    the margin alone."""

    decision: NDArray[np.int8]
    closed: NDArray[np.bool_]
    p: Floats


def looks_every(batch: int, most: int) -> tuple[int, ...]:
    """A look after every batch, the last one when all is annotated.

    >>> looks_every(10, 25)
    (10, 20, 25)
    """
    return (*range(batch, most, batch), most)


def boundary_of(looks: Sequence[int], *, boundary: Boundary | float, gamma: float) -> tuple[float, ...]:
    """The |z| each look asks: of a single test at `gamma`, of a group-sequential boundary, or a number for all looks.

    >>> [round(z, 2) for z in boundary_of((10, 20, 30), boundary="pocock", gamma=0.05)]
    [2.29, 2.29, 2.29]
    """
    from scipy.special import ndtri

    if not isinstance(boundary, str):
        return (float(boundary),) * len(looks)
    if boundary == "none":
        return (float(-ndtri(gamma / 2)),) * len(looks)
    return tuple(group_sequential_bounds(looks, kind=boundary, level=gamma).tolist())


def rule_on(
    rule: Rule, paired: Ints, metric_only: Ints, human_only: Ints, *, look: int, last: Ints, evidence: Evidence | None
) -> Ruling:
    """Judge tables at a look: paired (..., 3, 3) [human, metric], metric_only and human_only (..., 3).

    `last` (...) is how many annotations each will have at its last look. `evidence` replaces what the rule's estimator
    says of each table (for estimators that look at all pairs together).
    """
    from scipy.special import ndtr

    human = paired.sum(axis=-1) + human_only
    n = human.sum(axis=-1)
    tail = float(ndtr(-rule.bounds[look]))
    seen = evidence or _evidence(rule, Counts(paired, metric_only, human_only), tail=tail)
    low, high = seen.low, seen.high
    if rule.anytime:
        sign = np.sign(human[..., 0] - human[..., 2])
        decision = (sign * (log_wealth(human, margin=np.zeros(n.shape)) >= -np.log(rule.gamma))).astype(np.int8)
        if rule.equivalence is not None:
            low, high = betting_interval(human, level=rule.gamma)
    else:
        decision = (seen.theta > 1 - tail).astype(np.int8) - (seen.theta < tail).astype(np.int8)
    closed = decision != 0
    if rule.equivalence is not None:
        closed |= (low > -rule.equivalence) & (high < rule.equivalence)
    if rule.futility is not None:
        bound = _anytime_bound(rule, human, last) if rule.anytime else np.asarray(rule.bounds[-1])
        share = n / np.maximum(last, 1)
        closed |= predictive_probability(seen.margin, seen.sd, share=share, bound=bound) < rule.futility
    return Ruling(decision=decision, closed=closed, p=seen.p)


def _evidence(rule: Rule, counts: Counts, *, tail: float) -> Evidence:
    """One seed for all looks: careful answers depend on their table alone, not on what else is judged with it."""
    own, rng = ESTIMATORS[rule.estimator], np.random.default_rng(rule.seed)
    if own.quick and rule.equivalence is None:
        return own.quick(counts, tail=tail, rng=rng)
    return Evidence.of(own.estimate(counts, confidence=1 - rule.gamma, gamma=rule.gamma, rng=rng), gamma=rule.gamma)


def _anytime_bound(rule: Rule, human: Ints, last: Ints) -> Floats:
    """The |z| at which betting will decide at the last look: wealth of (2 pi / V)^.5 / 2 exp(z^2 / 2), V untied."""
    n = human.sum(axis=-1)
    untied = last * (human[..., 0] + human[..., 2] + 2) / (n + 3)
    return np.asarray(np.sqrt(2 * np.log(np.maximum(np.sqrt(2 * untied / np.pi), 1.0) / rule.gamma)))
