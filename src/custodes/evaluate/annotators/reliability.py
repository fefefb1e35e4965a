"""Agreement and effective number of annotators, and margins between two systems with intervals over annotators."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.answers.tables import with_interval
from custodes.evaluate.annotators.annotator_answers import VERDICTS, AnnotatorAnswers
from custodes.stats import bootstrap, intervals
from custodes.stats.arrays import Floats
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

FEW_DOUBLES = 30
FEWEST_ANNOTATORS = 10
"""Minimum number of annotators for an interval of the ICC (coverage with 5 annotators: .84, with 10: .90)."""
TOO_FEW = "fewer than {} tasks were answered by several annotators"
TOO_FEW_ANNOTATORS = f"fewer than {FEWEST_SAMPLED} annotators: the estimate describes only these annotators"
WITHOUT_ORDER = "categories have no order, so only the nominal alpha is defined"
SCALES: tuple[Scale, ...] = ("nominal", "ordinal")


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
