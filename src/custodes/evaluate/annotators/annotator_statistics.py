"""Statistics of annotators: agreement, position preference, ties and tests for flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.evaluate.annotators.annotator_answers import VERDICTS, AnnotatorAnswers
from custodes.stats import bootstrap, intervals
from custodes.stats.annotator_quality import PositionTests, peer_agreement, position_tests
from custodes.stats.arrays import Bools, Floats, Ints, chunks, table_sums
from custodes.stats.clusters import effective_clusters
from custodes.stats.judging.bias_tests import slot_test
from custodes.stats.ratios import ratio
from custodes.stats.reliability import (
    Scale,
    alpha,
    coincidences,
    interval_alpha,
    moments,
)
from custodes.stats.sign_test import adjust

FIRST, SECOND = "prefers what is shown first", "prefers what is shown second"
LITTLE = "agrees with others no better than chance"
REVERSED = "disagrees with others more than by chance (perhaps the scale is reversed)"

REVERSED_LEVEL = 0.01
"""Familywise level of the test of agreement below chance, for all annotators of a study (Holm)."""

HALF = 0.5
"""The test of low agreement compares an annotator's agreement with this fraction of the agreement among other
annotators."""
LEVEL = 0.05
"""Level of the preliminary tests that decide whether a flag is possible. Preliminary tests are not adjusted."""
FEWEST = 12
"""An annotator needs this number of clusters of shared items for an estimate and a test of agreement."""
FEW_TASKS = f"fewer than {FEWEST} clusters of items have answers of two other annotators"
NEARLY_CONSTANT = f"fewer than {FEWEST} answers differ from the annotator's most frequent answer"
NO_AGREEMENT = "the other annotators agree too little with one another"
ABOVE_CHANCE = "agreement is above the level of random answers"


class AnnotatorTests(NamedTuple):
    """Tests of every annotator (a person or a slot); each array has shape (workers,).

    `position` has the tests of position preference. `p_careless` are p-values of the hypothesis that the annotator is
    careful: that agreement with the others is at least half of the agreement among the others. `untested_reason` says
    why this hypothesis is not tested. `p_chance` are p-values of the hypothesis that the annotator agrees with the
    others no more than random answers do. `p_reversed` are p-values of the hypothesis that agreement is at least that
    of random answers. They are NaN if the hypothesis is not tested, or if labels have no order.
    """

    position: PositionTests
    p_careless: Floats
    p_chance: Floats
    p_reversed: Floats
    untested_reason: NDArray[np.str_]


FEW_DOUBLES = 30

TOO_FEW = "fewer than {} tasks were answered by several annotators"


SCALES: tuple[Scale, ...] = ("nominal", "ordinal")


def annotator_tests(aspect_answers: AnnotatorAnswers) -> AnnotatorTests:
    """Return the tests of position preference, and of agreement with the other annotators on the same tasks.

    Annotators with a position preference are not used as peers.
    """
    position_preference_tests = position_tests(*aspect_answers.sided, n_workers=len(aspect_answers.raters))
    answers = aspect_answers.answers
    agreement, agreement_among_peers = peer_agreement(
        answers.task,
        answers.worker,
        aspect_answers.value,
        n_tasks=answers.n_tasks,
        trusted=~(position_preference_tests.p_value <= LEVEL),
    )
    n_clusters_of_annotator, p_no_peer_agreement = _test_positive_mean(aspect_answers, agreement_among_peers)
    _, p_chance = _test_positive_mean(aspect_answers, agreement)
    _, p_careless = _test_positive_mean(aspect_answers, HALF * agreement_among_peers - agreement)
    # A mean that depends on a few deviating answers has no reliable standard error.
    is_nearly_constant = (aspect_answers.n_deviating < FEWEST) & (aspect_answers.clusters >= FEWEST)
    has_too_few_clusters, is_low_peer_agreement = n_clusters_of_annotator < FEWEST, ~(p_no_peer_agreement <= LEVEL)
    untested_reason = np.select(
        [is_nearly_constant, has_too_few_clusters, is_low_peer_agreement, p_chance <= LEVEL],
        [NEARLY_CONSTANT, FEW_TASKS, NO_AGREEMENT, ABOVE_CHANCE],
        "",
    )
    p_chance = np.where(is_nearly_constant | has_too_few_clusters | is_low_peer_agreement, np.nan, p_chance)
    return AnnotatorTests(
        position=position_preference_tests,
        p_careless=np.where(untested_reason == "", p_careless, np.nan),
        p_chance=p_chance,
        p_reversed=np.full_like(p_chance, np.nan) if aspect_answers.nominal else 1 - p_chance,
        untested_reason=untested_reason,
    )


def are_reversed(tests_of_aspects: Sequence[AnnotatorTests]) -> list[Bools]:
    """Return, for each part, whether annotators (workers,) agree with others significantly less than by chance.

    All annotators of the study are tested jointly (Holm) at `REVERSED_LEVEL`.
    """
    return [
        adjusted_p_values <= REVERSED_LEVEL
        for adjusted_p_values in adjust_jointly([aspect_tests.p_reversed for aspect_tests in tests_of_aspects])
    ]


def adjust_jointly(p_values_of_parts: Sequence[Floats]) -> list[Floats]:
    """Return the p-values of each part, adjusted for all parts (Holm)."""
    adjusted_p_values = adjust(np.concatenate([np.empty(0), *p_values_of_parts]), correction="holm")
    return np.split(adjusted_p_values, np.cumsum([len(p_values) for p_values in p_values_of_parts])[:-1])


def add_flags(
    annotator_tables: Sequence[dict[str, Any]], tests_of_aspects: Sequence[AnnotatorTests], alpha: float
) -> None:
    """Add adjusted p-values and flags to the columns of every part; all tests of the study are adjusted jointly.

    Slots are tested only for a reversed scale.
    """
    adjusted_p_values = adjust_jointly(
        [
            part_p_values * nan_factors
            for tests_of_annotators, nan_factors in zip(
                tests_of_aspects,
                [
                    np.where(annotator_columns_of_part["is_person"], 1.0, np.nan)
                    for annotator_columns_of_part in annotator_tables
                ],
                strict=True,
            )
            for part_p_values in (tests_of_annotators.position.p_value, tests_of_annotators.p_careless)
        ]
    )
    for annotator_columns_of_part, tests_of_annotators, is_reversed, p_position, p_careless in zip(
        annotator_tables,
        tests_of_aspects,
        are_reversed(tests_of_aspects),
        adjusted_p_values[::2],
        adjusted_p_values[1::2],
        strict=True,
    ):
        flags_and_masks = (
            (np.where(tests_of_annotators.position.share > 0.5, FIRST, SECOND), p_position <= alpha),
            (np.where(is_reversed, REVERSED, LITTLE), is_reversed | (p_careless <= alpha)),
        )
        annotator_columns_of_part |= {
            "p_position": p_position,
            "p_careless": p_careless,
            "flags": [
                [
                    str(flag_of_annotator[annotator_index])
                    for flag_of_annotator, is_flagged_annotator in flags_and_masks
                    if is_flagged_annotator[annotator_index]
                ]
                for annotator_index in range(len(is_reversed))
            ],
        }


def annotator_columns(
    aspect_answers: AnnotatorAnswers,
    tests: AnnotatorTests,
    is_person: Bools,
    *,
    bootstrap_weights: Floats,
    confidence: float,
) -> dict[str, Any]:
    """Return the columns of the table `annotators` except competence and flags.

    Statistics that describe a person are NaN for slots.
    """
    worker_of_answer, n_raters = aspect_answers.answers.worker, len(aspect_answers.raters)
    n_answers_of_annotator = np.bincount(worker_of_answer, minlength=n_raters)
    nan_factors = np.where(is_person, 1.0, np.nan)
    return {
        "answer_type": aspect_answers.what,
        "rater": list(aspect_answers.raters),
        "is_person": is_person,
        "answers": n_answers_of_annotator,
        "n_multiply_rated": np.bincount(worker_of_answer[aspect_answers.is_shared_answer], minlength=n_raters),
        **{
            column_name: column_values * nan_factors
            for column_name, column_values in _agreement(aspect_answers, bootstrap_weights, confidence).items()
        },
        "decided": tests.position.decided,
        "first_rate": tests.position.share * nan_factors,
        "tie_rate": ratio(
            np.bincount(worker_of_answer, weights=aspect_answers.value == 0, minlength=n_raters), n_answers_of_annotator
        )
        if aspect_answers.what == VERDICTS
        else np.nan,
        "seconds": aspect_answers.seconds * nan_factors,
        "p_chance": tests.p_chance * nan_factors,
        "untested_reason": np.where(is_person, tests.untested_reason, ""),
    }


def _agreement(aspect_answers: AnnotatorAnswers, bootstrap_weights: Floats, confidence: float) -> dict[str, Floats]:
    """Return the mean proportion of other annotators with the same answer, and an interval over items."""
    resampled_agreement = np.full((len(bootstrap_weights), len(aspect_answers.raters)), np.nan)
    if not aspect_answers.continuous:
        answers = aspect_answers.answers
        for rater_slice, agreement_sums, answer_counts in _iter_unit_sums(
            aspect_answers, ratio(answers.votes[answers.task, answers.label] - 1, answers.n_votes[answers.task] - 1)
        ):
            resampled_agreement[:, rater_slice] = ratio(
                bootstrap.weighted_sums(bootstrap_weights, agreement_sums),
                bootstrap.weighted_sums(bootstrap_weights, answer_counts),
            )
    low, high = intervals.cluster_intervals(
        resampled_agreement, aspect_answers.clusters, confidence=confidence, bounds=intervals.SHARE, fewest=FEWEST
    )
    return {
        "agreement": np.where(aspect_answers.clusters >= FEWEST, resampled_agreement[0], np.nan),
        "agreement_low": low,
        "agreement_high": high,
    }


def _iter_unit_sums(aspect_answers: AnnotatorAnswers, answer_values: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield blocks of workers, with sum and number of the defined `answer_values` (n,), both (workers, units)."""
    is_defined = np.isfinite(answer_values)
    worker_of_answer = aspect_answers.answers.worker[is_defined]
    unit_of_answer = aspect_answers.unit[aspect_answers.answers.task[is_defined]]
    answer_values = answer_values[is_defined]
    for rater_slice in chunks(len(aspect_answers.raters), aspect_answers.n_units):
        is_answer_in_slice = (worker_of_answer >= rater_slice.start) & (worker_of_answer < rater_slice.stop)
        table_shape = (rater_slice.stop - rater_slice.start, aspect_answers.n_units)
        worker_and_unit_indices = (
            worker_of_answer[is_answer_in_slice] - rater_slice.start,
            unit_of_answer[is_answer_in_slice],
        )
        yield (
            rater_slice,
            table_sums(*worker_and_unit_indices, shape=table_shape, weights=answer_values[is_answer_in_slice]),
            table_sums(*worker_and_unit_indices, shape=table_shape).astype(np.float64),
        )


def _test_positive_mean(aspect_answers: AnnotatorAnswers, answer_values: Floats) -> tuple[Ints, Floats]:
    """Return, for each annotator, the number of clusters with a value, and the p-value of a mean <= 0."""
    n_clusters_of_annotator = np.zeros(len(aspect_answers.raters), dtype=np.int64)
    p_values = np.full(len(aspect_answers.raters), np.nan)
    for rater_slice, value_sums, value_counts in _iter_unit_sums(aspect_answers, answer_values):
        rater_tests = slot_test(
            value_sums, value_counts, further_variance_factors=np.ones(len(value_sums)), confidence=0.95
        )
        n_clusters_of_annotator[rater_slice] = (value_counts > 0).sum(axis=1)
        p_values[rater_slice] = np.where(rater_tests.estimate > 0, rater_tests.p_value / 2, 1 - rater_tests.p_value / 2)
    return n_clusters_of_annotator, p_values


def agreement_columns(
    aspect_answers: AnnotatorAnswers, *, n_slots: int, bootstrap_weights: Floats, confidence: float
) -> dict[str, Any]:
    """Return the row of the table `agreement`."""
    answers = aspect_answers.answers
    n_multiply_rated_tasks = int(aspect_answers.has_several_answers.sum())
    interval_options: dict[str, Any] = {
        "confidence": confidence,
        "clusters": effective_clusters(np.bincount(aspect_answers.unit[aspect_answers.has_several_answers])),
        "bounds": intervals.CORRELATION,
    }
    has_enough_tasks = n_multiply_rated_tasks >= FEW_DOUBLES
    nan_draws = np.full(len(bootstrap_weights), np.nan)
    resampled_coincidences = bootstrap.weighted_sums(
        bootstrap_weights,
        np.moveaxis(coincidences(answers, units=aspect_answers.unit, n_units=aspect_answers.n_units), 0, -1),
    )
    resampled_moments = bootstrap.weighted_sums(
        bootstrap_weights,
        moments(answers.task, aspect_answers.value, units=aspect_answers.unit, n_units=aspect_answers.n_units).T,
    )
    defined_scales: Sequence[str] = ()
    if has_enough_tasks and not aspect_answers.continuous:
        defined_scales = SCALES[:1] if aspect_answers.nominal else SCALES
    alpha_columns = dict[str, Any]()
    for scale in SCALES:
        alpha_draws = alpha(resampled_coincidences, scale=scale) if scale in defined_scales else nan_draws
        alpha_columns |= with_interval(f"alpha_{scale}", alpha_draws, **interval_options)
    reason = "categories have no order, so only the nominal alpha is defined" if aspect_answers.nominal else ""
    return {
        "answer_type": aspect_answers.what,
        "annotators": len(aspect_answers.raters),
        "effective_annotators": np.nan if n_slots else len(answers) ** 2 / (np.bincount(answers.worker) ** 2).sum(),
        "tasks": answers.n_tasks,
        "n_multiply_rated": n_multiply_rated_tasks,
        **alpha_columns,
        **with_interval(
            "alpha_interval",
            interval_alpha(resampled_moments) if has_enough_tasks and not aspect_answers.nominal else nan_draws,
            **interval_options,
        ),
        "reason": reason if has_enough_tasks else TOO_FEW.format(FEW_DOUBLES),
    }
