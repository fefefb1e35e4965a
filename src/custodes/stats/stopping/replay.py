"""Replay of the annotation protocol on known preferences, for many replications at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.correction.estimator import PairItems
from custodes.stats.decision_errors import error_types
from custodes.stats.stopping.allocation import KINDS, count_kinds, divide_evenly, grant_requests, tables
from custodes.stats.stopping.rules import Rule, analyse_tables


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Human and metric preferences in the order of annotation.

    - `kinds` (replications, pairs, items): kinds of annotations, as returned by `allocation.annotation_kinds`.
    - `available` (replications, pairs): number of annotations that are available.
    - `metric` (replications, pairs, 3): outcomes of the metric over all items.
    - `items`: a function that returns the annotated items, given the number of annotations (replications, pairs) so
      far. The function is needed if the estimator needs items, or if items share clusters.
    - `clustered`: whether items share clusters.
    """

    kinds: NDArray[np.int8]
    available: Ints
    metric: Ints
    items: Callable[[Ints], PairItems] | None = None
    clustered: bool = False


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """Result of a replay.

    - `n`, `decision` (replications, pairs): number of annotations and decision at the end.
    - `outcome_proportions` (replications, pairs, 3): estimated outcome proportions at the end.
    - `annotations` (rounds, replications): number of annotations of all pairs after each round.
    - `correct` (rounds, replications): proportion of pairs with the correct decision.
    - `kld` (rounds, replications): mean Kullback-Leibler divergence from the reference, in nats.
    """

    n: Ints
    decision: NDArray[np.int8]
    outcome_proportions: Floats
    annotations: Ints
    correct: Floats
    kld: Floats


def replay(
    answers: Answers, rule: Rule, *, reference_decisions: NDArray[np.int8], reference_proportions: Floats
) -> ReplayResult:
    """Return the result of the protocol in Algorithm 2, applied to known preferences.

    Every round annotates all open pairs up to the next interim analysis, analyses these pairs, and closes pairs that
    need no more annotations. Decisions are compared with `reference_decisions` (pairs,). Estimated outcome proportions
    are compared with `reference_proportions` (pairs, 3).

    Source: Deriu et al. 2023, Algorithm 2.
    """
    table_shape = answers.available.shape
    n_annotations, kind_counts = np.zeros(table_shape, dtype=np.int64), np.zeros((*table_shape, KINDS), dtype=np.int64)
    decisions, outcome_proportions = np.zeros(table_shape, dtype=np.int8), np.full((*table_shape, 3), 1 / 3)
    remaining_budget = np.full(table_shape[0], rule.budget)
    n_at_last_analysis = np.minimum(answers.available, rule.looks[-1])
    is_open_pair = n_at_last_analysis > 0
    round_results: list[tuple[Ints, Floats, Floats]] = []
    for analysis_index, n_annotations_at_analysis in enumerate(rule.looks):
        n_new_annotations = grant_requests(
            np.where(is_open_pair, np.minimum(n_annotations_at_analysis, n_at_last_analysis) - n_annotations, 0),
            remaining_budget,
        )
        kind_counts += count_kinds(answers.kinds, n_annotations, n_annotations + n_new_annotations)
        n_annotations, remaining_budget = (
            n_annotations + n_new_annotations,
            remaining_budget - n_new_annotations.sum(axis=1),
        )
        is_analysed_pair = n_new_annotations > 0
        if is_analysed_pair.any():
            decisions[is_analysed_pair], is_open_pair[is_analysed_pair], outcome_proportions[is_analysed_pair] = (
                _analyse_pairs(
                    answers,
                    rule,
                    kind_counts,
                    n_annotations,
                    analysis_index=analysis_index,
                    n_at_last_analysis=n_at_last_analysis,
                    is_analysed_pair=is_analysed_pair,
                )
            )
        is_open_pair &= (n_annotations < n_at_last_analysis) & (remaining_budget > 0)[:, np.newaxis]
        round_results.append(
            (
                n_annotations.sum(axis=1),
                error_types(reference_decisions, decisions)[..., 0],
                mean_kld(outcome_proportions, reference_proportions),
            )
        )
    n_annotations_by_round, correct_rate_by_round, kld_by_round = (
        np.stack(values_by_round) for values_by_round in zip(*round_results, strict=True)
    )
    return ReplayResult(
        n=n_annotations,
        decision=decisions,
        outcome_proportions=outcome_proportions,
        annotations=n_annotations_by_round,
        correct=correct_rate_by_round,
        kld=kld_by_round,
    )


def decide_fixed_design(answers: Answers, rule: Rule, *, n_total: Ints) -> NDArray[np.int8]:
    """Return the decisions (replications, pairs) of a fixed design, with which a sequential design can be compared.

    In each replication, the annotations of all pairs, `n_total` (replications,), are divided equally among the pairs.
    Annotations come in the order of the sequential design. Each pair is analysed once, at the level of the rule.

    Source: developed for custodes.
    """
    from scipy.special import ndtri

    n_annotations = divide_evenly(n_total, answers.available)
    kind_counts, is_analysed_pair = (
        count_kinds(answers.kinds, np.zeros_like(n_annotations), n_annotations),
        n_annotations > 0,
    )
    fixed_rule = replace(rule, bounds=(float(-ndtri(rule.gamma / 2)),))
    decisions = np.zeros(n_annotations.shape, dtype=np.int8)
    decisions[is_analysed_pair], *_ = _analyse_pairs(
        answers,
        fixed_rule,
        kind_counts,
        n_annotations,
        analysis_index=0,
        n_at_last_analysis=n_annotations,
        is_analysed_pair=is_analysed_pair,
    )
    return decisions


def _analyse_pairs(
    answers: Answers,
    rule: Rule,
    kind_counts: Ints,
    n_annotations: Ints,
    *,
    analysis_index: int,
    n_at_last_analysis: Ints,
    is_analysed_pair: NDArray[np.bool_],
) -> tuple[NDArray[np.int8], NDArray[np.bool_], Floats]:
    """Return the results of `analyse_tables` for the pairs that `is_analysed_pair` marks.

    `kind_counts` (replications, pairs, 12) are the kinds of the first `n_annotations` (replications, pairs) of each
    pair.
    """
    needs_items = rule.estimator.needs_items or answers.clustered
    return analyse_tables(
        rule,
        tables(kind_counts[is_analysed_pair], answers.metric[is_analysed_pair]),
        analysis_index=analysis_index,
        n_at_last_analysis=n_at_last_analysis[is_analysed_pair],
        items=answers.items(n_annotations) if answers.items and needs_items else None,
        is_analysed_pair=is_analysed_pair,
    )


def mean_kld(outcome_proportions: Floats, reference_proportions: Floats) -> Floats:
    """Return the mean (...) over pairs of KLD(p || reference) in nats, for p and reference (..., pairs, 3).

    The mean is NaN if p is NaN, and infinite if p is positive where the reference is 0.
    """
    from scipy.special import rel_entr

    return np.asarray(rel_entr(outcome_proportions, reference_proportions).sum(axis=-1).mean(axis=-1))
