"""A stopping rule: an estimator, interim analyses with their boundary, and criteria for closing a pair."""

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
    """The analysis of a pair at each interim analysis.

    `looks`: annotations of a pair at each interim analysis, increasing. `bounds`: the |z| that each requires; theta
    decides if it is beyond the corresponding normal probability. `futility`: also close a pair with a smaller
    probability of being decided by the last analysis. `seed` of the random numbers of an estimator. `budget`: the
    largest number of annotations of all pairs.
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
    """Analyse tables: decisions 1, 0 or -1, whether more annotations are needed, and outcome proportions (..., 3), NaN
    for estimators of the margin alone.

    `last` (...): number of annotations of each table at its last interim analysis. `items`: all annotations, for
    estimators that need items, with a mask of the pairs to analyse (`judged`); for others, they give the design effect
    if items share clusters.
    """
    from scipy.special import ndtr

    tail = float(ndtr(-rule.bounds[look]))
    # Only as precise as the decision needs, and without intervals: a replay analyses many tables.
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
    """Estimates for tables (...) at an interim analysis.

    `low` and `high` bound the margin simultaneously over all interim analyses, and exclude 0 if the analysis decides;
    with the boundary 'none' they hold for a single analysis. `score` and its `error`: margin and standard error for the
    estimate after the last analysis (see `stagewise`).
    """

    theta: Floats
    margin: Floats
    low: Floats
    high: Floats
    score: Floats
    error: Floats


def estimates_on(
    rule: Rule, counts: Counts, *, look: int, items: PairItems | None, judged: NDArray[np.bool_]
) -> LookEstimates:
    """Estimates that correspond to the decisions, with arguments as in `rule_on`.

    Margin and score of human annotations alone are their mean preference, which the interval contains; the error is
    that of the score under equal probabilities of wins and losses. For other estimators they are margin and standard
    error.

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
    """Human outcomes of the analysed tables divided by the design effect (if items share clusters), the design effect,
    and the estimates, from all items if the estimator needs them."""
    # The same seed for all analyses: estimates depend on their own table only, not on other tables.
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
