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
    - `annotations` (rounds, replications): number of annotations of all pairs after each round.
    - `decided`, `correct` (rounds, replications): proportion of decided pairs, and of pairs with the correct decision.
    - `kld` (rounds, replications), or (rounds, k, replications) for k references: mean Kullback-Leibler divergence from
      the reference, in nats.
    """

    n: Ints
    decision: NDArray[np.int8]
    annotations: Ints
    decided: Floats
    correct: Floats
    kld: Floats


def replay(answers: Answers, rule: Rule, *, reference: NDArray[np.int8], truth: Floats) -> ReplayResult:
    """Return the result of the protocol in Algorithm 2, applied to known preferences.

    Every round annotates all open pairs up to the next interim analysis, analyses these pairs, and closes pairs that
    need no more annotations. Decisions are compared with `reference` (pairs,). Estimated outcome proportions are
    compared with `truth` (pairs, 3), or with k references (k, 1, pairs, 3).

    Source: Deriu et al. 2023, Algorithm 2.
    """
    shape = answers.available.shape
    n, counts = np.zeros(shape, dtype=np.int64), np.zeros((*shape, KINDS), dtype=np.int64)
    decision, p = np.zeros(shape, dtype=np.int8), np.full((*shape, 3), 1 / 3)
    n_left = np.full(shape[0], rule.budget)
    n_last = np.minimum(answers.available, rule.looks[-1])
    is_open = n_last > 0
    rounds: list[tuple[Ints, Floats, Floats, Floats]] = []
    for analysis_index, target in enumerate(rule.looks):
        n_new = grant_requests(np.where(is_open, np.minimum(target, n_last) - n, 0), n_left)
        counts += count_kinds(answers.kinds, n, n + n_new)
        n, n_left = n + n_new, n_left - n_new.sum(axis=1)
        is_judged = n_new > 0
        if is_judged.any():
            analysis_results = _judge(
                answers, rule, counts, n, analysis_index=analysis_index, n_last=n_last, is_judged=is_judged
            )
            decision[is_judged], is_open[is_judged], p[is_judged] = analysis_results
        is_open &= (n < n_last) & (n_left > 0)[:, np.newaxis]
        correct = error_types(reference, decision)[..., 0]
        rounds.append((n.sum(axis=1), (decision != 0).mean(axis=1), correct, mean_kld(p, truth)))
    annotations, decided_rate, correct, kld = (np.stack(column) for column in zip(*rounds, strict=True))
    return ReplayResult(n=n, decision=decision, annotations=annotations, decided=decided_rate, correct=correct, kld=kld)


def decide_fixed_design(answers: Answers, rule: Rule, *, total: Ints) -> NDArray[np.int8]:
    """Return the decisions (replications, pairs) of a fixed design, with which a sequential design can be compared.

    In each replication, the annotations of all pairs, `total` (replications,), are divided equally among the pairs.
    Annotations come in the order of the sequential design. Each pair is analysed once, at the level of the rule.

    Source: ours.
    """
    from scipy.special import ndtri

    n = divide_evenly(total, answers.available)
    counts, is_judged = count_kinds(answers.kinds, np.zeros_like(n), n), n > 0
    interim_analyses, bounds = (int(n.max(initial=0)),), (float(-ndtri(rule.gamma / 2)),)
    fixed_rule = replace(rule, looks=interim_analyses, bounds=bounds, futility=None)
    decision = np.zeros(n.shape, dtype=np.int8)
    decision[is_judged], *_ = _judge(answers, fixed_rule, counts, n, analysis_index=0, n_last=n, is_judged=is_judged)
    return decision


def _judge(
    answers: Answers,
    rule: Rule,
    counts: Ints,
    n: Ints,
    *,
    analysis_index: int,
    n_last: Ints,
    is_judged: NDArray[np.bool_],
) -> tuple[NDArray[np.int8], NDArray[np.bool_], Floats]:
    """Return the results of `analyse_tables` for the pairs that `is_judged` marks.

    `counts` (replications, pairs, 12) are the kinds of the first `n` (replications, pairs) annotations of each pair.
    """
    needs_items = rule.estimator.needs_items or answers.clustered
    items = answers.items(n) if answers.items and needs_items else None
    counted_tables = tables(counts[is_judged], answers.metric[is_judged])
    return analyse_tables(
        rule, counted_tables, look=analysis_index, last=n_last[is_judged], items=items, judged=is_judged
    )


def mean_kld(p: Floats, truth: Floats) -> Floats:
    """Return the mean (...) over pairs of KLD(p || truth) in nats, for p and truth (..., pairs, 3).

    The mean is NaN if p is NaN, and infinite if p is positive where truth is 0.
    """
    from scipy.special import rel_entr

    return np.asarray(rel_entr(p, truth).sum(axis=-1).mean(axis=-1))
