"""Tables of the alternative annotator test."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from custodes.evaluate.rates.outputs import LabelledOutputs
from custodes.stats.arrays import Floats
from custodes.stats.intervals import student_quantile
from custodes.stats.rates.alternative_annotator_test import FEWEST_ANNOTATORS, FEWEST_OUTPUTS, Replacement, replacement

PASSED = 0.5
"""Minimum winning rate with which a judge may replace an annotator (Calderon, Reichart and Dror 2025)."""


def replacement_rows(
    outputs: LabelledOutputs, *, epsilon: float, alpha: float, confidence: float
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield a row of `replacement`, and the rows of `replacement_annotators`, for each metric that gives labels.

    Nothing is yielded if no output has labels of two annotators.
    """
    several = np.sum(~np.isnan(outputs.annotated), axis=0) >= 2
    if not several.any():
        return
    rows = outputs.only(several)
    annotators = _numbers(rows, rows.annotated)
    for name, labels, is_score in zip(rows.metrics, rows.judged, rows.is_score, strict=True):
        if is_score and not rows.ordered:
            continue
        judge = labels if is_score else _numbers(rows, labels)
        test = partial(replacement, judge, annotators, ordered=rows.ordered, epsilon=epsilon, level=alpha)
        published = test(units=np.arange(len(judge)))
        by_cluster = test(units=rows.unit) if rows.clustered else published
        yield (
            _judge_row(name, published, by_cluster, rows, epsilon, confidence),
            list(_annotator_rows(name, by_cluster, rows, alpha)),
        )


def _numbers(outputs: LabelledOutputs, codes: Floats) -> Floats:
    """Return labels as numbers: the values of ordered labels, the codes of labels without an order."""
    if not outputs.ordered:
        return codes
    values = np.array([float(word) for word in outputs.words])
    return np.where(np.isnan(codes), np.nan, values[np.nan_to_num(codes).astype(np.intp)])


def _judge_row(
    name: str, published: Replacement, test: Replacement, outputs: LabelledOutputs, epsilon: float, confidence: float
) -> dict[str, Any]:
    tested = int(np.isfinite(test.p).sum())
    enough = tested >= FEWEST_ANNOTATORS
    clusters = len(np.unique(outputs.unit))
    reach = student_quantile(confidence, clusters) * test.error
    probability = test.advantage_probability
    return {
        "metric": name,
        "annotators": tested,
        "epsilon": epsilon,
        "winning_rate": test.winning_rate if enough else np.nan,
        "may_replace": test.winning_rate >= PASSED if enough else None,
        "advantage_probability": probability,
        "advantage_probability_low": max(probability - reach, 0.0),
        "advantage_probability_high": min(probability + reach, 1.0),
        "winning_rate_outputs": published.winning_rate if enough else np.nan,
        "reason": ""
        if enough
        else f"fewer than {FEWEST_ANNOTATORS} annotators with {FEWEST_OUTPUTS} outputs that have another human label",
    }


def _annotator_rows(name: str, test: Replacement, outputs: LabelledOutputs, alpha: float) -> Iterator[dict[str, Any]]:
    for k, annotator in enumerate(outputs.annotators):
        if np.isfinite(test.p[k]):
            yield {
                "metric": name,
                "annotator": annotator,
                "n": int(test.n[k]),
                "advantage": test.advantage[k],
                "difference": test.difference[k],
                "p_adjusted": test.p[k],
                "replaceable": bool(test.p[k] <= alpha),
            }
