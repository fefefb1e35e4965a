"""Statistics of annotators: agreement, position preference, ties, tests for flags, concentration and margins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.evaluate.annotators.annotator_answers import VERDICTS, AnnotatorAnswers
from custodes.stats import bootstrap, intervals
from custodes.stats.annotator_quality import peer_agreement, position_tests
from custodes.stats.arrays import Bools, Floats, Ints, chunks, table_sums
from custodes.stats.judging.bias_tests import slot_test
from custodes.stats.ratios import ratio
from custodes.stats.reliability import (
    FEWEST_ANNOTATORS as FEWEST_SAMPLED,
)
from custodes.stats.reliability import (
    Scale,
    alpha,
    clustered_margins,
    coincidences,
    effective_number,
    gini,
    interval_alpha,
    moments,
    taste,
)

FIRST, SECOND = "prefers what is shown first", "prefers what is shown second"
LITTLE = "agrees with others no better than chance"

HALF = 0.5
"""The test of low agreement compares an annotator with this fraction of the agreement among other annotators."""
LEVEL = 0.05
"""Level of the preliminary tests that decide whether a flag is possible. Preliminary tests are not adjusted."""
FEWEST = 12
"""An annotator needs this number of clusters of shared items for an estimate and a test of agreement."""
FEW_TASKS = f"fewer than {FEWEST} clusters of items have answers of two other annotators"
ALL_EQUAL = "all answers are equal"
NO_AGREEMENT = "the other annotators agree too little with one another"
ABOVE_CHANCE = "agreement is above the level of random answers"


Tests = tuple[Floats, Floats, Bools]
"""Three arrays (workers,): p-values of position preference, p-values of low agreement (both NaN if not tested), and
whether the annotator preferred the output shown first in more than half of the verdicts."""


FEW_DOUBLES = 30

FEWEST_ANNOTATORS = 10
"""Minimum number of annotators for an interval of the ICC (coverage with 5 annotators: .84, with 10: .90)."""

TOO_FEW = "fewer than {} tasks were answered by several annotators"

TOO_FEW_ANNOTATORS = f"fewer than {FEWEST_SAMPLED} annotators: the estimate describes only these annotators"

WITHOUT_ORDER = "categories have no order, so only the nominal alpha is defined"

SCALES: tuple[Scale, ...] = ("nominal", "ordinal")


def annotator_columns(
    part: AnnotatorAnswers, is_person: Bools, *, times: Floats, confidence: float
) -> tuple[dict[str, Any], Tests]:
    """Return the columns of the table `annotators` except competence and flags, and the tests behind the flags.

    Statistics that describe a person are NaN for slots.
    """
    answers, n_raters = part.answers, len(part.raters)
    n_answers = np.bincount(answers.worker, minlength=n_raters)
    nan_if_slot = np.where(is_person, 1.0, np.nan)
    position_result = position_tests(part.sided_worker, part.sided_pair, part.sign, part.order, n_workers=n_raters)
    agreement = _agreement(part, times, confidence)
    p_careless, p_chance, untested_reason = _compare_with_peers(part, is_trusted=~(position_result.p_value <= LEVEL))
    n_ties = np.bincount(answers.worker, weights=part.value == 0, minlength=n_raters)
    columns = {
        "answer_type": part.what,
        "rater": list(part.raters),
        "is_person": is_person,
        "answers": n_answers,
        "proportion": ratio(n_answers, n_answers.sum()),
        "n_multiply_rated": np.bincount(answers.worker[part.both], minlength=n_raters),
        **{name: values * nan_if_slot for name, values in agreement.items()},
        "decided": position_result.decided,
        "first_rate": position_result.share * nan_if_slot,
        "tie_rate": ratio(n_ties, n_answers) if part.what == VERDICTS else np.nan,
        "seconds": part.seconds * nan_if_slot,
        "p_chance": p_chance * nan_if_slot,
        "untested_reason": np.where(is_person, untested_reason, ""),
    }
    return columns, (position_result.p_value * nan_if_slot, p_careless * nan_if_slot, position_result.share > 0.5)


def _agreement(part: AnnotatorAnswers, times: Floats, confidence: float) -> dict[str, Floats]:
    """Return the mean proportion of other annotators with the same answer, and an interval over items."""
    resampled_agreement = np.full((len(times), len(part.raters)), np.nan)
    if not part.continuous:
        answers = part.answers
        agreement_of_answer = ratio(answers.votes[answers.task, answers.label] - 1, answers.n_votes[answers.task] - 1)
        for rater_slice, sums, counts in _iter_unit_sums(part, agreement_of_answer):
            resampled_agreement[:, rater_slice] = ratio(
                bootstrap.weighted_sums(times, sums), bootstrap.weighted_sums(times, counts)
            )
    low, high = intervals.cluster_intervals(
        resampled_agreement, part.clusters, confidence=confidence, bounds=intervals.SHARE, fewest=FEWEST
    )
    estimate = np.where(part.clusters >= FEWEST, resampled_agreement[0], np.nan)
    return {"agreement": estimate, "agreement_low": low, "agreement_high": high}


def _iter_unit_sums(part: AnnotatorAnswers, values: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield blocks of workers, with the sum and the number of the defined `values` (n,), both (workers, units)."""
    is_defined = np.isfinite(values)
    worker, unit = part.answers.worker[is_defined], part.unit[part.answers.task[is_defined]]
    values = values[is_defined]
    for rater_slice in chunks(len(part.raters), part.n_units):
        is_in_slice = (worker >= rater_slice.start) & (worker < rater_slice.stop)
        shape = (rater_slice.stop - rater_slice.start, part.n_units)
        codes = worker[is_in_slice] - rater_slice.start, unit[is_in_slice]
        sums = table_sums(*codes, shape=shape, weights=values[is_in_slice])
        yield rater_slice, sums, table_sums(*codes, shape=shape).astype(np.float64)


def _compare_with_peers(part: AnnotatorAnswers, *, is_trusted: Bools) -> tuple[Floats, Floats, NDArray[np.str_]]:
    """Compare each annotator (workers,) with the other annotators that are trusted (`is_trusted`) on the same tasks.

    Return p-values of 'agrees at least half as much as the other annotators', p-values of 'agrees no more than random
    answers', and the reason why the first hypothesis is not tested.
    """
    answers = part.answers
    peers = peer_agreement(answers.task, answers.worker, part.value, n_tasks=answers.n_tasks, trusted=is_trusted)
    clusters, p_others = _test_positive_mean(part, peers.others)
    _, p_chance = _test_positive_mean(part, peers.agreement)
    _, p_careless = _test_positive_mean(part, HALF * peers.others - peers.agreement)
    is_all_equal = np.isnan(peers.spread) & (part.clusters >= FEWEST)
    has_too_few_clusters, is_disagreement = clusters < FEWEST, ~(p_others <= LEVEL)
    is_above_chance = p_chance <= LEVEL
    reason = np.select(
        [is_all_equal, has_too_few_clusters, is_disagreement, is_above_chance],
        [ALL_EQUAL, FEW_TASKS, NO_AGREEMENT, ABOVE_CHANCE],
        "",
    )
    return (
        np.where(reason == "", p_careless, np.nan),
        np.where(is_all_equal | has_too_few_clusters | is_disagreement, np.nan, p_chance),
        reason,
    )


def _test_positive_mean(part: AnnotatorAnswers, values: Floats) -> tuple[Ints, Floats]:
    """Return, for each annotator, the number of clusters with a value, and a p-value of 'the mean is not positive'."""
    clusters, p_value = np.zeros(len(part.raters), dtype=np.int64), np.full(len(part.raters), np.nan)
    for rater_slice, sums, counts in _iter_unit_sums(part, values):
        test = slot_test(sums, counts, wider=np.ones(len(sums)), confidence=0.95)
        clusters[rater_slice] = (counts > 0).sum(axis=1)
        p_value[rater_slice] = np.where(test.estimate > 0, test.p_value / 2, 1 - test.p_value / 2)
    return clusters, p_value


def agreement_columns(part: AnnotatorAnswers, *, times: Floats, confidence: float) -> dict[str, Any]:
    """Return the row of the table `agreement`."""
    answers, is_multiply_rated = part.answers, part.both
    n_multiply_rated = int(part.has_several_answers.sum())
    n_clusters = len(np.unique(part.unit[part.has_several_answers]))
    interval_options: dict[str, Any] = {
        "confidence": confidence,
        "clusters": n_clusters,
        "bounds": intervals.CORRELATION,
    }
    has_enough_tasks = n_multiply_rated >= FEW_DOUBLES
    undefined_draws = np.full(len(times), np.nan)
    coincidence = coincidences(answers, units=part.unit, n_units=part.n_units)
    coincidence_sums = bootstrap.weighted_sums(times, np.moveaxis(coincidence, 0, -1))
    moment_sums = moments(answers.task, part.value, units=part.unit, n_units=part.n_units)
    resampled_moments = bootstrap.weighted_sums(times, moment_sums.T)
    scales = () if part.continuous or not has_enough_tasks else SCALES[:1] if part.nominal else SCALES
    alpha_of_scale = {
        name: alpha(coincidence_sums, scale=name) if name in scales else undefined_draws for name in SCALES
    }
    is_numeric = has_enough_tasks and not part.nominal
    return {
        "answer_type": part.what,
        "annotators": len(part.raters),
        "tasks": answers.n_tasks,
        "n_multiply_rated": n_multiply_rated,
        "answers": int(is_multiply_rated.sum()),
        **{
            name: value
            for scale, values in alpha_of_scale.items()
            for name, value in with_interval(f"alpha_{scale}", values, **interval_options).items()
        },
        **with_interval(
            "alpha_interval", interval_alpha(resampled_moments) if is_numeric else undefined_draws, **interval_options
        ),
        "reason": TOO_FEW.format(FEW_DOUBLES) if not has_enough_tasks else WITHOUT_ORDER if part.nominal else "",
    }


def concentration_columns(part: AnnotatorAnswers, *, n_slots: int, confidence: float) -> dict[str, Any]:
    """Return the row of the table `concentration`."""
    answers = part.answers
    n_answers = np.bincount(answers.worker, minlength=len(part.raters))
    taste_result = taste(part.group[answers.task], part.item[answers.task], answers.worker, part.value)
    half_width = intervals.student_quantile(confidence, len(part.raters)) * taste_result.error
    are_persons, has_several_annotators = not n_slots, len(part.raters) >= FEWEST_ANNOTATORS
    icc = taste_result.icc if are_persons and not part.nominal else np.nan
    return {
        "answer_type": part.what,
        "annotators": len(part.raters),
        "answers": len(answers),
        "largest_proportion": float(n_answers.max() / n_answers.sum()),
        "gini": gini(n_answers),
        "effective_annotators": effective_number(n_answers) if are_persons else np.nan,
        "icc": icc,
        "icc_low": max(icc - half_width, -1.0)
        if np.isfinite(half_width) and are_persons and has_several_annotators
        else np.nan,
        "icc_high": min(icc + half_width, 1.0)
        if np.isfinite(half_width) and are_persons and has_several_annotators
        else np.nan,
        "answers_per_annotator": taste_result.answers_per_annotator,
        "design_effect": taste_result.effect if are_persons and not part.nominal else np.nan,
    }


def pair_columns(part: AnnotatorAnswers, *, n_slots: int, confidence: float) -> dict[str, Any]:
    """Return the rows of the table `pairs`. There are no rows for ratings, or if a rater is a slot."""
    if part.what != VERDICTS or n_slots:
        return {}
    answers = part.answers
    _, first_task_of_pair = np.unique(part.group, return_index=True)
    margins = clustered_margins(
        part.group[answers.task], answers.worker, part.value, pairs=len(first_task_of_pair), confidence=confidence
    )
    return {
        "system_a": part.tasks["system_a"].gather(first_task_of_pair),
        "system_b": part.tasks["system_b"].gather(first_task_of_pair),
        "answers": np.bincount(part.group[answers.task], minlength=len(first_task_of_pair)),
        "annotators": margins.people,
        "effective_annotators": margins.effective,
        "margin": margins.margin,
        "margin_low": margins.low,
        "margin_high": margins.high,
        "reason": ["" if is_enough else TOO_FEW_ANNOTATORS for is_enough in margins.people >= FEWEST_SAMPLED],
    }
