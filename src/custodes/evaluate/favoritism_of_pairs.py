"""Correlations of Favi-Scores with accuracy over pairs of systems, and notes on Favi-Scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.data.notes import Note, build_notes
from custodes.errors import join_labels
from custodes.evaluate.clusters import AspectCounts
from custodes.evaluate.comparable import label_of
from custodes.evaluate.partiality_table import DISFAVOURED, FAVOURED
from custodes.stats.arrays import Floats
from custodes.stats.correlation import spearman

FEW_ERRORS = 5
"""With fewer errors than this number, a Favi-Score can take only a few values (Favi-Score paper, Robustness)."""


def correlation_columns(favi: Floats, sign_agrees: Floats, accuracy: Floats) -> dict[str, Any]:
    """Return the Spearman correlations of Favi-Scores with sign agreement of margins and with sample accuracy.

    All arguments have the shape (metrics, pairs). Each correlation is over all metrics and pairs.
    """
    values = {"abs_favi": np.abs(favi), "favi": favi, "sign_agrees": sign_agrees, "sample_accuracy": accuracy}
    compared_columns = [("abs_favi", "sign_agrees"), ("abs_favi", "sample_accuracy"), ("favi", "sample_accuracy")]
    value_pairs = [tuple(values[name].ravel() for name in column_names) for column_names in compared_columns]
    return {
        "score": [first for first, _ in compared_columns],
        "accuracy": [second for _, second in compared_columns],
        "spearman": [float(spearman(*value_pair)) for value_pair in value_pairs],
        "n": [int(np.isfinite(sum(value_pair)).sum()) for value_pair in value_pairs],
    }


def overall_notes(aspect_counts: AspectCounts, partiality_table: Mapping[str, Any]) -> list[Note]:
    """Return the note on findings that may reflect quality on another aspect, as the metrics have no aspect score."""
    if aspect_counts.comparison is None:
        return []
    findings = zip(partiality_table["metric"], partiality_table["finding"], strict=True)
    affected_metrics = {str(metric) for metric, finding in findings if finding in (FAVOURED, DISFAVOURED)}
    metrics = [name for name in aspect_counts.overall if name in affected_metrics]
    message = (
        f"{join_labels(metrics)}: no score{label_of(aspect_counts.aspect)}, so the score without an aspect is "
        "used; apparent partiality may reflect quality on another aspect"
    )
    return build_notes(("overall-score", len(metrics), message), aspect=aspect_counts.aspect)


def error_notes(aspect: str, n: NDArray[np.int64], errors: NDArray[np.int64]) -> list[Note]:
    note_rules = (
        ("favi-no-shared-items", n == 0, "have no item rated by both annotators and metric"),
        ("favi-no-errors", (n > 0) & (errors == 0), "have no error, so their Favi-Score is undefined"),
        (
            "favi-few-errors",
            (errors > 0) & (errors < FEW_ERRORS),
            f"have fewer than {FEW_ERRORS} errors, so the Favi-Score is unstable",
        ),
    )
    return [
        Note(
            rule=rule_name,
            message=f"{int(is_affected.sum())} of {is_affected.size} combinations of metric and system pair "
            f"{message_text}{label_of(aspect)}",
            count=int(is_affected.sum()),
            aspect=aspect,
        )
        for rule_name, is_affected, message_text in note_rules
        if is_affected.any()
    ]
