"""Forecast of the remaining answers, hours and cost. The forecast uses outcomes of completed interim analyses only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from custodes.annotate.assignment_policy import control_kinds
from custodes.annotate.plan import StoppingRule, StudyPlan, rule_of
from custodes.annotate.snapshot import PairNow, PersonNow, Snapshot
from custodes.stats.arrays import Floats, Ints
from custodes.stats.correction.estimator import Counts
from custodes.stats.stopping.rules import analyse_tables

DRAWS = 200
INNER = (0.1, 0.5, 0.9)
"""Levels of three quantiles: the lower bound of an 80 % interval, the median, and the upper bound."""
STRENGTHS = np.geomspace(1, 64, 13)
"""Grid of possible weights of the prior that all pairs share. The unit of the weight is an answer. The more the pairs
differ, the smaller the estimated weight is."""
TIMED = 30
"""Minimum number of timed answers for an estimate of the hourly wage."""


LONG = 86_400.0
"""Seconds without an answer after which no further annotators are expected."""


class Range(NamedTuple):
    """A median, and the bounds of an 80 % interval."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Expected further answers, time and cost, and the cost so far.

    `answers`: expected further answers that are used for decisions. `paid`: expected further paid answers of all kinds,
    which are proportional to `answers`. `hours`: expected further hours, at the rate of answers in the half hour before
    the last answer. It is None if no answer in that half hour was used for decisions, or if the study is stuck.
    `stuck`: reason why the study is stuck, or ''. The reason 'annotators' means that the current interim analyses need
    more answers than the current annotators may give. The reason 'nobody' means that nobody has answered for a day.
    `spent`: cost so far. `cost`: expected further cost. The cost so far and the expected cost include the platform's
    fee. `wage`: hourly wage, or None if there are too few timed answers. `is_low`: whether the hourly wage is below the
    target wage of the plan.
    """

    answers: Range
    paid: Range
    hours: Range | None
    stuck: Literal["", "annotators", "nobody"]
    spent: float
    cost: Range
    wage: float | None
    is_low: bool


def forecast(snapshot: Snapshot) -> Forecast:
    """Simulate the rest of the study `DRAWS` times, with outcome proportions from the posterior of each open pair.

    The prior is a Dirichlet distribution around the tie rate of all pairs. The weight of the prior is drawn from the
    posterior distribution of this weight. The weight is large if the pairs are similar. Only outcomes of completed
    interim analyses are used, so the forecast reveals no running results. Existing answers of incomplete analyses are
    subtracted. Only human answers are used, although a metric may decide a pair earlier.

    Method: posterior predictive simulation of the plan's stopping rule.
    """
    open_pairs = [pair for pair in snapshot.pairs if pair.is_open]
    # Ratings have no interim analyses, so all planned answers are needed.
    remaining_answer_draws = np.full(
        1, float(sum(pair.wanted - pair.answered for pair in open_pairs if not pair.looks))
    )
    if compared_pairs := [pair for pair in open_pairs if pair.looks]:
        final_answer_draws = _draw_final_answers(snapshot.plan.stopping, compared_pairs, snapshot.pairs)
        n_given_answers = sum(pair.answered for pair in compared_pairs)
        remaining_answer_draws = remaining_answer_draws + np.maximum(final_answer_draws - n_given_answers, 0)
    n_partial_answers = sum(pair.partial for pair in open_pairs)
    remaining_answer_draws = np.maximum(
        remaining_answer_draws * snapshot.plan.annotators.per_item - n_partial_answers, 0
    )
    if snapshot.plan.stopping.budget is not None:
        remaining_answer_draws = np.minimum(
            remaining_answer_draws, max(snapshot.plan.stopping.budget - snapshot.primary, 0)
        )
    answer_range, payment_plan = _range(remaining_answer_draws), snapshot.plan.money
    cost_per_answer = payment_plan.price * (1 + payment_plan.fee)
    n_paid_per_deciding_answer = _paid_per_deciding_answer(snapshot)
    paid_answer_range = Range(*(n_answers * n_paid_per_deciding_answer for n_answers in answer_range))
    answers_per_hour, stuck_reason = 2 * snapshot.recent, _standstill_cause(snapshot)
    hourly_wage = _wage(snapshot.annotators, payment_plan.price)
    return Forecast(
        answers=answer_range,
        paid=paid_answer_range,
        hours=Range(*(n_answers / answers_per_hour for n_answers in answer_range))
        if answers_per_hour and not stuck_reason
        else None,
        stuck=stuck_reason,
        spent=snapshot.paid * cost_per_answer,
        cost=Range(*(n_answers * cost_per_answer for n_answers in paid_answer_range)),
        wage=hourly_wage,
        is_low=hourly_wage is not None and payment_plan.price > 0 and hourly_wage < payment_plan.wage,
    )


def _standstill_cause(snapshot: Snapshot) -> Literal["", "annotators", "nobody"]:
    if snapshot.state != "open":
        return ""
    if snapshot.reach.short:
        return "annotators"
    return "nobody" if snapshot.quiet is not None and snapshot.quiet >= LONG else ""


def _analysis_sizes(pair: PairNow, planned_sizes: Sequence[int]) -> Sequence[int]:
    """Return the number of answers at each interim analysis of a pair. If the pair has too few items for the last
    analysis of the plan, its last analysis uses all its items."""
    planned_sizes = planned_sizes[: pair.looks]
    if pair.looks_done < pair.looks - 1:
        return planned_sizes
    return [*planned_sizes[:-1], min(planned_sizes[-1], pair.wanted)]


def _draw_final_answers(
    stopping_plan: StoppingRule, open_pairs: Sequence[PairNow], all_pairs: Sequence[PairNow]
) -> Floats:
    """Return draws (DRAWS,) of the total number of answers that the open pairs have at the end."""
    rng = np.random.default_rng(0)
    open_outcome_counts, all_outcome_counts = (
        np.array([(pair.wins, pair.ties, pair.losses) for pair in counted_pairs])
        for counted_pairs in (open_pairs, all_pairs)
    )
    outcome_rate_draws = _draw_outcome_rates(open_outcome_counts, all_outcome_counts, rng)
    outcome_count_draws = np.broadcast_to(open_outcome_counts, outcome_rate_draws.shape).copy()
    answer_count_draws = outcome_count_draws.sum(axis=-1)
    analysis_sizes_of_pair = [_analysis_sizes(pair, stopping_plan.looks) for pair in open_pairs]
    final_analysis_sizes = np.array([pair_analysis_sizes[-1] for pair_analysis_sizes in analysis_sizes_of_pair])
    is_open_pair = np.ones(answer_count_draws.shape, dtype=bool)
    plan_without_budget = StudyPlan(stopping=msgspec.structs.replace(stopping_plan, budget=None, estimator=None))
    stopping_rule = rule_of(
        plan_without_budget, n_pairs=len(all_pairs), max_items=max(final_analysis_sizes), has_metric=False
    )
    for analysis_index, _ in enumerate(stopping_rule.looks):
        answer_counts_at_analysis = np.array(
            [
                pair_analysis_sizes[analysis_index]
                if pair.looks_done <= analysis_index < len(pair_analysis_sizes)
                else 0
                for pair, pair_analysis_sizes in zip(open_pairs, analysis_sizes_of_pair, strict=True)
            ]
        )
        additional_answer_counts = np.where(
            is_open_pair, np.maximum(answer_counts_at_analysis - answer_count_draws, 0), 0
        )
        outcome_count_draws += rng.multinomial(additional_answer_counts, outcome_rate_draws)
        answer_count_draws = answer_count_draws + additional_answer_counts
        has_new_answers = additional_answer_counts > 0
        if has_new_answers.any():
            _, is_continued_pair, _ = analyse_tables(
                stopping_rule,
                annotator_only(outcome_count_draws[has_new_answers]),
                analysis_index=analysis_index,
                n_at_last_analysis=np.broadcast_to(final_analysis_sizes, answer_count_draws.shape)[has_new_answers],
                items=None,
                is_analysed_pair=has_new_answers,
            )
            is_open_pair[has_new_answers] = (
                is_continued_pair & (answer_count_draws < final_analysis_sizes)[has_new_answers]
            )
    return np.asarray(answer_count_draws.sum(axis=1), dtype=np.float64)


def _draw_outcome_rates(open_outcome_counts: Ints, all_outcome_counts: Ints, rng: np.random.Generator) -> Floats:
    """Return draws (DRAWS, pairs, 3) of the proportions of wins, ties and losses. `open_outcome_counts` (pairs, 3) are
    the counts of the open pairs, and `all_outcome_counts` (..., 3) are the counts of all pairs. The prior is symmetric
    in the systems of a pair."""
    from scipy.special import gammaln

    tie_rate = (all_outcome_counts[:, 1].sum() + 1) / (all_outcome_counts.sum() + 3)
    prior_mean = np.array([(1 - tie_rate) / 2, tie_rate, (1 - tie_rate) / 2])
    dirichlet_alphas = STRENGTHS[:, np.newaxis] * prior_mean
    pair_log_likelihoods = gammaln(dirichlet_alphas.sum(axis=-1)) - gammaln(
        dirichlet_alphas.sum(axis=-1) + all_outcome_counts.sum(axis=-1, keepdims=True)
    )
    pair_log_likelihoods = pair_log_likelihoods + (
        gammaln(dirichlet_alphas + all_outcome_counts[:, np.newaxis]) - gammaln(dirichlet_alphas)
    ).sum(axis=-1)
    strength_log_likelihoods = pair_log_likelihoods.sum(axis=0)
    relative_likelihoods = np.exp(strength_log_likelihoods - strength_log_likelihoods.max())
    prior_strength_draws = rng.choice(STRENGTHS, size=DRAWS, p=relative_likelihoods / relative_likelihoods.sum())
    gamma_draws = rng.standard_gamma(prior_strength_draws[:, np.newaxis, np.newaxis] * prior_mean + open_outcome_counts)
    return np.asarray(gamma_draws / gamma_draws.sum(axis=-1, keepdims=True))


def annotator_only(outcome_counts: NDArray[np.integer]) -> Counts:
    """Return counts of human outcomes (..., 3) as `Counts` in which no metric rated the items."""
    zeros = np.zeros((*outcome_counts.shape, 3), dtype=np.int64)
    return Counts(zeros, zeros[..., 0], outcome_counts)


def _paid_per_deciding_answer(snapshot: Snapshot) -> float:
    """Return the expected number of paid answers of all kinds per answer that is used for decisions. Paid answers
    include second opinions and control questions as planned, and refusals at the current rate."""
    annotator_plan = snapshot.plan.annotators
    n_control_questions = len(control_kinds(annotator_plan, snapshot.control_kinds, is_first_batch=False))
    refusals_per_answer = snapshot.refused / max(snapshot.answers, 1)
    return (1 + refusals_per_answer) / (1 - annotator_plan.overlap) / (1 - n_control_questions / annotator_plan.batch)


def _wage(annotators: Sequence[PersonNow], price: float) -> float | None:
    """Return the hourly wage at the typical time of an answer, or None if there are too few timed answers. The typical
    time is the median of the annotators' median times, weighted by their numbers of answers."""
    medians_and_answer_counts = sorted(
        (annotator.seconds, annotator.answers)
        for annotator in annotators
        if annotator.seconds is not None and annotator.answers
    )
    if sum(n_answers for _, n_answers in medians_and_answer_counts) < TIMED:
        return None
    repeated_median_seconds = np.repeat(
        [median_seconds for median_seconds, _ in medians_and_answer_counts],
        [n_answers for _, n_answers in medians_and_answer_counts],
    )
    return float(price * 3600 / max(float(np.median(repeated_median_seconds)), 0.1))


def _range(draws: Floats) -> Range:
    lower_quantile, median_draw, upper_quantile = np.quantile(draws, INNER)
    return Range(float(median_draw), float(lower_quantile), float(upper_quantile))
