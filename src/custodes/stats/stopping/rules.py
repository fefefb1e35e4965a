"""A stopping rule: an estimator, looks and what each asks, what closes a pair. A new way to close is one more value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.clusters import pooled_design_effect
from custodes.stats.correction.estimator import Counts, Estimator, Evidence, Items, decide, margin_of
from custodes.stats.stopping.betting import betting_interval, log_wealth
from custodes.stats.stopping.sequential import predictive_probability


@dataclass(frozen=True, kw_only=True)
class Look:
    """Tables (...) at a look: people's outcomes `human` (..., 3), how many annotations each will have at its `last`
    look, and what the estimator says. `gamma` is the level, `tail` what this look makes of it, `bound` the |z| that the
    last look asks. Annotations are counted by what they are worth where they share documents."""

    human: Ints | Floats
    last: Ints | Floats
    seen: Evidence
    gamma: float
    tail: float
    bound: float


@dataclass(frozen=True, kw_only=True)
class Deciding:
    """How a pair is decided: 1, 0 or -1 of each table, the interval of its margin, and the |z| that will decide at the
    last look. `anytime`: valid however often one looks, by people's annotations alone."""

    name: str
    decide: Callable[[Look], NDArray[np.int8]]
    interval: Callable[[Look], tuple[Floats, Floats]]
    bound: Callable[[Look], Floats | float]
    anytime: bool


@dataclass(frozen=True, kw_only=True)
class Closing:
    """What closes an undecided pair, by a limit that the option of its name gives."""

    name: str
    closes: Callable[[Look, Deciding, float], NDArray[np.bool_]]
    needs_interval: bool


def _by_wealth(look: Look) -> NDArray[np.int8]:
    """Betting on people's annotations has refuted a tie."""
    refuted = log_wealth(look.human, margin=np.zeros(look.last.shape)) >= -np.log(look.gamma)
    return np.asarray(np.sign(look.human[..., 0] - look.human[..., 2]) * refuted, dtype=np.int8)


def _wealth_bound(look: Look) -> Floats:
    """Betting will decide at this |z|: its wealth is (2 pi / V)^.5 / 2 exp(z^2 / 2), V untied annotations."""
    untied = look.last * (look.human[..., 0] + look.human[..., 2] + 2) / (look.human.sum(axis=-1) + 3)
    return np.asarray(np.sqrt(2 * np.log(np.maximum(np.sqrt(2 * untied / np.pi), 1.0) / look.gamma)))


def _is_futile(look: Look, deciding: Deciding, limit: float) -> NDArray[np.bool_]:
    """The chance of being decided by the last look is below the limit."""
    share = look.human.sum(axis=-1) / np.maximum(look.last, 1)
    chance = predictive_probability(look.seen.margin, look.seen.sd, share=share, bound=deciding.bound(look))
    return np.asarray(chance < limit)


def _is_equivalent(look: Look, deciding: Deciding, limit: float) -> NDArray[np.bool_]:
    """The interval of the margin lies within plus or minus the limit."""
    low, high = deciding.interval(look)
    return np.asarray((low > -limit) & (high < limit))


DECIDED = Deciding(
    name="decided",  # theta is beyond what the look asks
    decide=lambda look: decide(look.seen.theta, gamma=2 * look.tail),
    interval=lambda look: (look.seen.low, look.seen.high),
    bound=lambda look: look.bound,
    anytime=False,
)

STOPS: dict[str, Deciding | Closing] = {
    own.name: own
    for own in (
        DECIDED,
        Closing(name="futility", closes=_is_futile, needs_interval=False),
        Closing(name="equivalence", closes=_is_equivalent, needs_interval=True),
        Deciding(
            name="anytime",
            decide=_by_wealth,
            interval=lambda look: betting_interval(look.human, level=look.gamma),
            bound=_wealth_bound,
            anytime=True,
        ),
    )
}
"""Parts of a stopping rule by name; the first is on unless another one decides."""


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


def rule_on(
    rule: Rule, counts: Counts, *, look: int, last: Ints | Floats, items: Items | None, judged: NDArray[np.bool_]
) -> tuple[NDArray[np.int8], NDArray[np.bool_], Floats]:
    """Judge tables at a look: decisions 1, 0 or -1, whether to go on asking, and outcome shares (..., 3), NaN for
    estimators of the margin alone.

    `last` (...) is how many annotations each will have at its last look. `items`: all that is annotated, for estimators
    that need items, and which of their answers are `judged`; for others, where items share clusters, it says what the
    annotations are worth.
    """
    from scipy.special import ndtr

    tail = float(ndtr(-rule.bounds[look]))
    counts, effect = _worth(rule, counts, items, judged)
    last = last / effect
    # As precise as the decision needs, and without an interval where no rule uses one: a replay judges many tables.
    quick = rule.estimator.quick and not any(closing.needs_interval for closing, _ in rule.closings)
    gamma = 2 * tail if quick else rule.gamma
    here = Look(
        human=counts.human,
        last=last,
        seen=_evidence(rule, counts, items, judged, confidence=None if quick else 1 - gamma, gamma=gamma),
        gamma=rule.gamma,
        tail=tail,
        bound=rule.bounds[-1],
    )
    decision = rule.deciding.decide(here)
    closed = decision != 0
    for closing, limit in rule.closings:
        closed |= closing.closes(here, rule.deciding, limit)
    return decision, ~closed, here.seen.p


class Said(NamedTuple):
    """What is said of tables (...) at a look. `low` and `high` hold the margin at all looks together, and exclude a tie
    where the look decides; with the boundary 'none' they hold it at one look. `score` and its `error`: margin and
    standard error that an estimate after the last look starts from (see `stagewise`)."""

    theta: Floats
    margin: Floats
    low: Floats
    high: Floats
    score: Floats
    error: Floats


def said_on(rule: Rule, counts: Counts, *, look: int, items: Items | None, judged: NDArray[np.bool_]) -> Said:
    """What is said beside a decision, arguments as of `rule_on`.

    The score of people alone is their mean preference, with the spread that it has if losses are as likely as wins; of
    other estimators margin and standard error.

    Source: Jennison and Turnbull 1989, "Interim analyses: the repeated confidence interval approach".
    """
    from scipy.special import ndtr

    tail, own = float(ndtr(-rule.bounds[look])), rule.estimator
    counts, _ = _worth(rule, counts, items, judged)
    seen = _evidence(rule, counts, items, judged, confidence=1 - 2 * tail, gamma=2 * tail)
    low, high, score, error = seen.low, seen.high, seen.margin, seen.sd
    if rule.deciding.anytime:
        low, high = betting_interval(counts.human, level=rule.gamma)
    if not own.uses_metric and not own.needs_items:
        labels, n = counts.human, counts.human.sum(axis=-1)
        score, error = margin_of(labels), np.sqrt((labels[..., 0] + labels[..., 2] + 2) / (n + 3) / n)
    return Said(seen.theta, seen.margin, low, high, score, error)


def _worth(rule: Rule, counts: Counts, items: Items | None, judged: NDArray[np.bool_]) -> tuple[Counts, Floats | float]:
    """Counts by what they are worth where items share clusters, and what they were divided by."""
    if items is None or rule.estimator.needs_items:
        return counts, 1.0
    effect = pooled_design_effect(items.human, units=items.units)[judged]
    return counts.effective(effect), effect


def _evidence(
    rule: Rule,
    counts: Counts,
    items: Items | None,
    judged: NDArray[np.bool_],
    *,
    confidence: float | None,
    gamma: float,
) -> Evidence:
    """The estimates of the tables that are judged, from all items where the estimator needs them."""
    reads_items = items is not None and rule.estimator.needs_items
    # One seed for all looks: these estimates depend on their table alone, not on what else is judged with it.
    rng = np.random.default_rng(rule.seed)
    estimate = rule.estimator.estimate(items if reads_items else counts, confidence=confidence, gamma=gamma, rng=rng)
    evidence = Evidence.of(estimate, gamma=gamma)
    return evidence.where(judged) if reads_items else evidence
