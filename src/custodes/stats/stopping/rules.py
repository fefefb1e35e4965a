"""A stopping rule: an estimator, the looks and their bounds, and what closes a pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.clusters import pooled_design_effect
from custodes.stats.correction.estimator import Counts, Estimate, Estimator, PairItems, decide, margin_of
from custodes.stats.stopping.sequential import predictive_probability


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How one pair is judged at each look.

    `looks`: annotations of a pair at each look, increasing. `bounds`: the |z| that each look requires; theta decides
    where it is beyond the normal probability of that. `futility`: also close a pair whose probability of being decided
    by the last look is smaller. `seed` of the draws of an estimator. `budget`: the largest number of annotations of all
    pairs.
    """

    estimator: Estimator
    gamma: float
    looks: tuple[int, ...]
    bounds: tuple[float, ...]
    seed: int
    budget: int
    futility: float | None = None


def rule_on(
    rule: Rule, counts: Counts, *, look: int, last: Ints | Floats, items: PairItems | None, judged: NDArray[np.bool_]
) -> tuple[NDArray[np.int8], NDArray[np.bool_], Floats]:
    """Judge tables at a look: decisions 1, 0 or -1, whether more annotations are needed, and outcome shares (..., 3),
    NaN for estimators of the margin alone.

    `last` (...) is how many annotations each will have at its last look. `items`: all annotations, for estimators that
    need items, and which of their pairs are `judged`; for others, where items share clusters, they give the design
    effect.
    """
    from scipy.special import ndtr

    tail = float(ndtr(-rule.bounds[look]))
    # As precise as the decision needs, and without an interval: a replay judges many tables.
    gamma = 2 * tail if rule.estimator.quick else rule.gamma
    confidence = None if rule.estimator.quick else 1 - gamma
    human, effect, estimate = _estimated(rule, counts, items, judged, confidence=confidence, gamma=gamma)
    decision = decide(estimate.theta, gamma=2 * tail)
    is_open = decision == 0
    if rule.futility is not None:
        share = human.sum(axis=-1) / np.maximum(last / effect, 1)
        probability = predictive_probability(estimate.margin, estimate.sd, share=share, bound=rule.bounds[-1])
        is_open &= ~(probability < rule.futility)
    return decision, is_open, estimate.p


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
    rule: Rule, counts: Counts, *, look: int, items: PairItems | None, judged: NDArray[np.bool_]
) -> LookEstimates:
    """Estimates that go with a decision, arguments as of `rule_on`.

    Margin and score of human annotations alone are their mean preference, which the interval contains; the error is
    that of the score if losses are as likely as wins. Of other estimators they are margin and standard error.

    Source: Jennison and Turnbull 1989, "Interim analyses: the repeated confidence interval approach".
    """
    from scipy.special import ndtr

    tail = float(ndtr(-rule.bounds[look]))
    human, _, estimate = _estimated(rule, counts, items, judged, confidence=1 - 2 * tail, gamma=2 * tail)
    score, error = estimate.margin, estimate.sd
    margin, low, high = estimate.margin, estimate.margin_low, estimate.margin_high
    if not rule.estimator.uses_metric and not rule.estimator.needs_items:
        n = human.sum(axis=-1)
        score, error = margin_of(human), np.sqrt((human[..., 0] + human[..., 2] + 2) / (n + 3) / n)
        margin, low, high = score, np.fmin(low, score), np.fmax(high, score)
    return LookEstimates(estimate.theta, margin, low, high, score=score, error=error)


def _estimated(
    rule: Rule,
    counts: Counts,
    items: PairItems | None,
    judged: NDArray[np.bool_],
    *,
    confidence: float | None,
    gamma: float,
) -> tuple[NDArray[Any], Floats | float, Estimate]:
    """Human outcomes of the tables that are judged, divided by the design effect where items share clusters, the design
    effect, and the estimates, from all items where the estimator needs them."""
    # One seed for all looks: these estimates depend on their table alone, not on what else is judged with it.
    options: dict[str, Any] = {"confidence": confidence, "gamma": gamma, "rng": np.random.default_rng(rule.seed)}
    effect: Floats | float = 1.0
    if items is not None and rule.estimator.needs_items:
        estimate = rule.estimator.estimate(items, **options).at(judged)
    else:
        if items is not None:
            effect = pooled_design_effect(items.human, units=items.units)[judged]
            counts = counts.effective(effect)
        estimate = rule.estimator.estimate(counts, **options)
    return counts.human, effect, estimate.resolved(gamma=gamma)
