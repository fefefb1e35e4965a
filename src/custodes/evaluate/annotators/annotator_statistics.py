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
    part: AnnotatorAnswers, persons: Bools, *, times: Floats, confidence: float
) -> tuple[dict[str, Any], Tests]:
    """Return the columns of the table `annotators` except competence and flags, and the tests behind the flags.

    Statistics that describe a person are NaN for slots.
    """
    answers, n = part.answers, len(part.raters)
    number = np.bincount(answers.worker, minlength=n)
    unknown = np.where(persons, 1.0, np.nan)
    sided = position_tests(part.sided_worker, part.sided_pair, part.sign, part.order, n_workers=n)
    agreement = _agreement(part, times, confidence)
    little, chance, untested = _compared(part, trusted=~(sided.p_value <= LEVEL))
    ties = np.bincount(answers.worker, weights=part.value == 0, minlength=n)
    columns = {
        "answer_type": part.what,
        "rater": list(part.raters),
        "is_person": persons,
        "answers": number,
        "proportion": ratio(number, number.sum()),
        "n_multiply_rated": np.bincount(answers.worker[part.both], minlength=n),
        **{name: values * unknown for name, values in agreement.items()},
        "decided": sided.decided,
        "first_rate": sided.share * unknown,
        "tie_rate": ratio(ties, number) if part.what == VERDICTS else np.nan,
        "seconds": part.seconds * unknown,
        "p_chance": chance * unknown,
        "untested_reason": np.where(persons, untested, ""),
    }
    return columns, (sided.p_value * unknown, little * unknown, sided.share > 0.5)


def _agreement(part: AnnotatorAnswers, times: Floats, confidence: float) -> dict[str, Floats]:
    """Return the mean proportion of other annotators with the same answer, and an interval over items."""
    drawn = np.full((len(times), len(part.raters)), np.nan)
    if not part.continuous:
        answers = part.answers
        same = ratio(answers.votes[answers.task, answers.label] - 1, answers.n_votes[answers.task] - 1)
        for some, sums, counts in _by_unit(part, same):
            drawn[:, some] = ratio(bootstrap.weighted_sums(times, sums), bootstrap.weighted_sums(times, counts))
    low, high = intervals.cluster_intervals(
        drawn, part.clusters, confidence=confidence, bounds=intervals.SHARE, fewest=FEWEST
    )
    estimate = np.where(part.clusters >= FEWEST, drawn[0], np.nan)
    return {"agreement": estimate, "agreement_low": low, "agreement_high": high}


def _by_unit(part: AnnotatorAnswers, values: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield blocks of workers, with the sum and the number of the defined `values` (n,), both (workers, units)."""
    defined = np.isfinite(values)
    worker, unit = part.answers.worker[defined], part.unit[part.answers.task[defined]]
    values = values[defined]
    for some in chunks(len(part.raters), part.n_units):
        inside = (worker >= some.start) & (worker < some.stop)
        size = (some.stop - some.start, part.n_units)
        codes = worker[inside] - some.start, unit[inside]
        sums = table_sums(*codes, shape=size, weights=values[inside])
        yield some, sums, table_sums(*codes, shape=size).astype(np.float64)


def _compared(part: AnnotatorAnswers, *, trusted: Bools) -> tuple[Floats, Floats, NDArray[np.str_]]:
    """Compare each annotator (workers,) with the `trusted` other annotators on the same tasks.

    Return p-values of 'agrees at least half as much as the other annotators', p-values of 'agrees no more than random
    answers', and the reason why the first hypothesis is not tested.
    """
    answers = part.answers
    peers = peer_agreement(answers.task, answers.worker, part.value, n_tasks=answers.n_tasks, trusted=trusted)
    clusters, others = _positive(part, peers.others)
    _, chance = _positive(part, peers.agreement)
    _, little = _positive(part, HALF * peers.others - peers.agreement)
    equal = np.isnan(peers.spread) & (part.clusters >= FEWEST)
    few, disagree = clusters < FEWEST, ~(others <= LEVEL)
    above = chance <= LEVEL
    reason = np.select([equal, few, disagree, above], [ALL_EQUAL, FEW_TASKS, NO_AGREEMENT, ABOVE_CHANCE], "")
    return np.where(reason == "", little, np.nan), np.where(equal | few | disagree, np.nan, chance), reason


def _positive(part: AnnotatorAnswers, values: Floats) -> tuple[Ints, Floats]:
    """Return, for each annotator, the number of clusters with a value, and a p-value of 'the mean is not positive'."""
    clusters, p_value = np.zeros(len(part.raters), dtype=np.int64), np.full(len(part.raters), np.nan)
    for some, sums, counts in _by_unit(part, values):
        test = slot_test(sums, counts, wider=np.ones(len(sums)), confidence=0.95)
        clusters[some] = (counts > 0).sum(axis=1)
        p_value[some] = np.where(test.estimate > 0, test.p_value / 2, 1 - test.p_value / 2)
    return clusters, p_value


def agreement_columns(part: AnnotatorAnswers, *, times: Floats, confidence: float) -> dict[str, Any]:
    """Return the row of the table `agreement`."""
    answers, both = part.answers, part.both
    doubled = int(part.doubled.sum())
    units = len(np.unique(part.unit[part.doubled]))
    ends: dict[str, Any] = {"confidence": confidence, "clusters": units, "bounds": intervals.CORRELATION}
    enough = doubled >= FEW_DOUBLES
    undefined = np.full(len(times), np.nan)
    coincidence = coincidences(answers, units=part.unit, n_units=part.n_units)
    of_labels = bootstrap.weighted_sums(times, np.moveaxis(coincidence, 0, -1))
    moment_sums = moments(answers.task, part.value, units=part.unit, n_units=part.n_units)
    of_numbers = bootstrap.weighted_sums(times, moment_sums.T)
    scales = () if part.continuous or not enough else SCALES[:1] if part.nominal else SCALES
    drawn = {name: alpha(of_labels, scale=name) if name in scales else undefined for name in SCALES}
    numbers = enough and not part.nominal
    return {
        "answer_type": part.what,
        "annotators": len(part.raters),
        "tasks": answers.n_tasks,
        "n_multiply_rated": doubled,
        "answers": int(both.sum()),
        **{
            name: value
            for scale, values in drawn.items()
            for name, value in with_interval(f"alpha_{scale}", values, **ends).items()
        },
        **with_interval("alpha_interval", interval_alpha(of_numbers) if numbers else undefined, **ends),
        "reason": TOO_FEW.format(FEW_DOUBLES) if not enough else WITHOUT_ORDER if part.nominal else "",
    }


def concentration_columns(part: AnnotatorAnswers, *, slots: int, confidence: float) -> dict[str, Any]:
    """Return the row of the table `concentration`."""
    answers = part.answers
    counts = np.bincount(answers.worker, minlength=len(part.raters))
    tastes = taste(part.group[answers.task], part.item[answers.task], answers.worker, part.value)
    reach = intervals.student_quantile(confidence, len(part.raters)) * tastes.error
    are_persons, several = not slots, len(part.raters) >= FEWEST_ANNOTATORS
    icc = tastes.icc if are_persons and not part.nominal else np.nan
    return {
        "answer_type": part.what,
        "annotators": len(part.raters),
        "answers": len(answers),
        "largest_proportion": float(counts.max() / counts.sum()),
        "gini": gini(counts),
        "effective_annotators": effective_number(counts) if are_persons else np.nan,
        "icc": icc,
        "icc_low": max(icc - reach, -1.0) if np.isfinite(reach) and are_persons and several else np.nan,
        "icc_high": min(icc + reach, 1.0) if np.isfinite(reach) and are_persons and several else np.nan,
        "answers_per_annotator": tastes.answers_per_annotator,
        "design_effect": tastes.effect if are_persons and not part.nominal else np.nan,
    }


def pair_columns(part: AnnotatorAnswers, *, slots: int, confidence: float) -> dict[str, Any]:
    """Return the rows of the table `pairs`. There are no rows for ratings, or if a rater is a slot."""
    if part.what != VERDICTS or slots:
        return {}
    answers = part.answers
    _, first = np.unique(part.group, return_index=True)
    margins = clustered_margins(
        part.group[answers.task], answers.worker, part.value, pairs=len(first), confidence=confidence
    )
    return {
        "system_a": part.tasks["system_a"].gather(first),
        "system_b": part.tasks["system_b"].gather(first),
        "answers": np.bincount(part.group[answers.task], minlength=len(first)),
        "annotators": margins.people,
        "effective_annotators": margins.effective,
        "margin": margins.margin,
        "margin_low": margins.low,
        "margin_high": margins.high,
        "reason": ["" if enough else TOO_FEW_ANNOTATORS for enough in margins.people >= FEWEST_SAMPLED],
    }
