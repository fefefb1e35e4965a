"""A stopping rule: an estimator, interim analyses with a boundary, and criteria for closing a pair."""

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
    """How a pair is analysed at each interim analysis.

    - `looks`: number of annotations of a pair at each interim analysis, increasing.
    - `bounds`: |z| that each interim analysis requires. A pair is decided if theta is above the normal probability of
      |z| or below the normal probability of -|z|.
    - `futility`: a pair is closed without a decision if the probability that it is decided by the last analysis is
      smaller than this number.
    - `seed`: seed of the estimator's random numbers.
    - `budget`: maximum number of annotations of all pairs.
    """

    estimator: Estimator
    gamma: float
    looks: tuple[int, ...]
    bounds: tuple[float, ...]
    seed: int
    budget: int
    futility: float | None = None


def analyse_tables(
    rule: Rule,
    counts: Counts,
    *,
    analysis_index: int,
    n_at_last_analysis: Ints | Floats,
    items: PairItems | None,
    is_analysed_pair: NDArray[np.bool_],
) -> tuple[NDArray[np.int8], NDArray[np.bool_], Floats]:
    """Analyse tables and return three arrays. The decisions are 1, 0 or -1 (...). The second array says whether more
    annotations are needed (...). The third has the outcome proportions (..., 3), which are NaN if the estimator gives
    only a margin.

    `n_at_last_analysis` (...) is the number of annotations of each table at its last interim analysis. `items` are all
    annotations, and `is_analysed_pair` is a mask of the pairs to analyse. An estimator that needs items gets `items`.
    For other estimators, `items` is given only if items share clusters; the design effect is then computed from
    `items`.
    """
    from scipy.special import ndtr

    tail_probability = float(ndtr(-rule.bounds[analysis_index]))
    # A replay analyses many tables, so quick estimators give no intervals and only the precision that a decision needs.
    gamma = 2 * tail_probability if rule.estimator.quick else rule.gamma
    confidence = None if rule.estimator.quick else 1 - gamma
    human_outcome_counts, design_effect, table_estimates = _estimate_tables(
        rule, counts, items, is_analysed_pair, confidence=confidence, gamma=gamma
    )
    decisions = decide(table_estimates.theta, gamma=2 * tail_probability)
    is_open_table = decisions == 0
    if rule.futility is not None:
        information_share = human_outcome_counts.sum(axis=-1) / np.maximum(n_at_last_analysis / design_effect, 1)
        decision_probability = predictive_probability(
            table_estimates.margin, table_estimates.sd, information_share=information_share, bound=rule.bounds[-1]
        )
        is_open_table &= ~(decision_probability < rule.futility)
    return decisions, is_open_table, table_estimates.p


class LookEstimates(NamedTuple):
    """Estimates for tables (...) at an interim analysis.

    `low` and `high` bound the margin simultaneously over all interim analyses, and exclude 0 if the analysis decides.
    With the boundary 'none', the bounds hold for a single analysis only. `score` and `error` are the margin and the
    standard error from which `stagewise` computes the estimate after the last analysis.
    """

    theta: Floats
    margin: Floats
    low: Floats
    high: Floats
    score: Floats
    error: Floats


def estimates_on(
    rule: Rule, counts: Counts, *, analysis_index: int, items: PairItems | None, is_analysed_pair: NDArray[np.bool_]
) -> LookEstimates:
    """Return the estimates that correspond to the decisions; the arguments are as in `analyse_tables`.

    If the estimator uses only human annotations, `margin` and `score` are the mean preference. The interval is extended
    to contain the mean if necessary, and `error` is the standard error of the score under equal probabilities of wins
    and losses. For all remaining estimators, `score` and `error` are the estimated margin and its standard error.

    Source: Jennison and Turnbull 1989, "Interim analyses: the repeated confidence interval approach".
    """
    from scipy.special import ndtr

    tail_probability = float(ndtr(-rule.bounds[analysis_index]))
    human_outcome_counts, _, table_estimates = _estimate_tables(
        rule, counts, items, is_analysed_pair, confidence=1 - 2 * tail_probability, gamma=2 * tail_probability
    )
    score_margin, score_error = table_estimates.margin, table_estimates.sd
    margin, low, high = table_estimates.margin, table_estimates.margin_low, table_estimates.margin_high
    if not rule.estimator.uses_metric and not rule.estimator.needs_items:
        n_annotations = human_outcome_counts.sum(axis=-1)
        score_margin, score_error = (
            margin_of(human_outcome_counts),
            np.sqrt(
                (human_outcome_counts[..., 0] + human_outcome_counts[..., 2] + 2) / (n_annotations + 3) / n_annotations
            ),
        )
        margin, low, high = score_margin, np.fmin(low, score_margin), np.fmax(high, score_margin)
    return LookEstimates(table_estimates.theta, margin, low, high, score=score_margin, error=score_error)


def _estimate_tables(
    rule: Rule,
    counts: Counts,
    items: PairItems | None,
    is_analysed_pair: NDArray[np.bool_],
    *,
    confidence: float | None,
    gamma: float,
) -> tuple[NDArray[Any], Floats | float, Estimate]:
    """Return the human outcomes of the analysed tables, the design effect, and the estimates.

    If items share clusters, the outcomes are divided by the design effect. If the estimator needs items, the estimates
    are computed from all items.
    """
    # All analyses have the same seed, so that the estimate of a table does not depend on other tables.
    estimator_options: dict[str, Any] = {
        "confidence": confidence,
        "gamma": gamma,
        "rng": np.random.default_rng(rule.seed),
    }
    design_effect: Floats | float = 1.0
    if items is not None and rule.estimator.needs_items:
        table_estimates = rule.estimator.estimate(items, **estimator_options).at(is_analysed_pair)
    else:
        if items is not None:
            design_effect = pooled_design_effect(items.human, units=items.units)[is_analysed_pair]
            counts = counts.effective(design_effect)
        table_estimates = rule.estimator.estimate(counts, **estimator_options)
    return counts.human, design_effect, table_estimates.stopping_estimate(gamma=gamma)
