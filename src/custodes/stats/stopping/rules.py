"""A stopping rule: an estimator, looks and what each asks, and what closes a pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.clusters import pooled_design_effect
from custodes.stats.correction.estimator import Counts, Estimator, Evidence, Items, decide, margin_of
from custodes.stats.stopping.betting import betting_interval, log_wealth
from custodes.stats.stopping.sequential import predictive_probability

STOPS = ("decided", "futility", "equivalence", "anytime")
"""What closes a pair, by name; the first is on unless the last one decides instead."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How one pair is judged at each look.

    `looks`: annotations of a pair at each look, increasing. `bounds`: the |z| that each look asks; theta decides where
    it is beyond the normal probability of that. `anytime`: betting on human annotations decides instead, which is valid
    however often one looks. `futility`: also close a pair whose probability of being decided by the last look is
    smaller. `equivalence`: also close a pair whose interval of the margin lies within plus or minus this. `seed` of the
    draws of an estimator. `budget`: how many annotations may be made of all pairs together.
    """

    estimator: Estimator
    gamma: float
    looks: tuple[int, ...]
    bounds: tuple[float, ...]
    seed: int
    budget: int
    anytime: bool = False
    futility: float | None = None
    equivalence: float | None = None


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
    # As precise as the decision needs, and without an interval where no rule uses one: a replay judges many tables.
    quick = rule.estimator.quick and rule.equivalence is None
    gamma = 2 * tail if quick else rule.gamma
    human, effect, seen = _seen(rule, counts, items, judged, confidence=None if quick else 1 - gamma, gamma=gamma)
    n, last = human.sum(axis=-1), last / effect
    bound: Floats | float = rule.bounds[-1]
    if rule.anytime:
        refuted = log_wealth(human, margin=np.zeros(n.shape)) >= -np.log(rule.gamma)
        decision = np.asarray(np.sign(human[..., 0] - human[..., 2]) * refuted, dtype=np.int8)
        # The wealth is (2 pi / V)^.5 / 2 exp(z^2 / 2), V untied annotations: betting will decide at this |z|.
        untied = last * (human[..., 0] + human[..., 2] + 2) / (n + 3)
        bound = np.sqrt(2 * np.log(np.maximum(np.sqrt(2 * untied / np.pi), 1.0) / rule.gamma))
    else:
        decision = decide(seen.theta, gamma=2 * tail)
    closed = decision != 0
    if rule.futility is not None:
        share = n / np.maximum(last, 1)
        closed |= predictive_probability(seen.margin, seen.sd, share=share, bound=bound) < rule.futility
    if rule.equivalence is not None:
        low, high = betting_interval(human, level=rule.gamma) if rule.anytime else (seen.low, seen.high)
        closed |= (low > -rule.equivalence) & (high < rule.equivalence)
    return decision, ~closed, seen.p


class LookEstimates(NamedTuple):
    """Estimates of tables (...) at a look. `low` and `high` hold the margin at all looks together, and exclude a tie
    where the look decides; with the boundary 'none' they hold it at one look. `score` and its `error`: margin and
    standard error that an estimate after the last look starts from (see `stagewise`)."""

    theta: Floats
    margin: Floats
    low: Floats
    high: Floats
    score: Floats
    error: Floats


def estimates_on(
    rule: Rule, counts: Counts, *, look: int, items: Items | None, judged: NDArray[np.bool_]
) -> LookEstimates:
    """Estimates beside a decision, arguments as of `rule_on`.

    The score of people alone is their mean preference, with the spread that it has if losses are as likely as wins; of
    other estimators margin and standard error.

    Source: Jennison and Turnbull 1989, "Interim analyses: the repeated confidence interval approach".
    """
    from scipy.special import ndtr

    tail = float(ndtr(-rule.bounds[look]))
    human, _, seen = _seen(rule, counts, items, judged, confidence=1 - 2 * tail, gamma=2 * tail)
    low, high = betting_interval(human, level=rule.gamma) if rule.anytime else (seen.low, seen.high)
    score, error = seen.margin, seen.sd
    if not rule.estimator.uses_metric and not rule.estimator.needs_items:
        n = human.sum(axis=-1)
        score, error = margin_of(human), np.sqrt((human[..., 0] + human[..., 2] + 2) / (n + 3) / n)
    return LookEstimates(seen.theta, seen.margin, low, high, score, error)


def _seen(
    rule: Rule,
    counts: Counts,
    items: Items | None,
    judged: NDArray[np.bool_],
    *,
    confidence: float | None,
    gamma: float,
) -> tuple[NDArray[Any], Floats | float, Evidence]:
    """Human outcomes of the tables that are judged, counted by what they are worth where items share clusters, what
    they were divided by, and the estimates, from all items where the estimator needs them."""
    # One seed for all looks: these estimates depend on their table alone, not on what else is judged with it.
    options: dict[str, Any] = {"confidence": confidence, "gamma": gamma, "rng": np.random.default_rng(rule.seed)}
    if items is None:
        return counts.human, 1.0, Evidence.of(rule.estimator.estimate(counts, **options), gamma=gamma)
    if rule.estimator.needs_items:
        evidence = Evidence.of(rule.estimator.estimate(items, **options), gamma=gamma)
        return counts.human, 1.0, evidence.where(judged)
    effect = pooled_design_effect(items.human, units=items.units)[judged]
    counts = counts.effective(effect)
    return counts.human, effect, Evidence.of(rule.estimator.estimate(counts, **options), gamma=gamma)
