"""Pairs of systems with people as the sample: what as many other people might have said."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.evaluate.annotators.material import VERDICTS, AnnotatorAnswers
from custodes.stats.reliability import FEWEST_PEOPLE, clustered_margins

TOO_FEW = f"fewer than {FEWEST_PEOPLE} people: this speaks of them alone"


def pair_columns(part: AnnotatorAnswers, *, slots: int, confidence: float) -> dict[str, Any]:
    """The rows of `pairs`; none of ratings, and none where it is not known who answered."""
    if part.what != VERDICTS or slots:
        return {}
    answers = part.answers
    _, first = np.unique(part.group, return_index=True)
    made = clustered_margins(
        part.group[answers.task], answers.worker, part.value, pairs=len(first), confidence=confidence
    )
    return {
        "system_a": part.tasks["system_a"].gather(first),
        "system_b": part.tasks["system_b"].gather(first),
        "answers": np.bincount(part.group[answers.task], minlength=len(first)),
        "people": made.people,
        "effective": made.effective,
        "margin": made.margin,
        "margin_low": made.low,
        "margin_high": made.high,
        "reason": ["" if enough else TOO_FEW for enough in made.people >= FEWEST_PEOPLE],
    }
