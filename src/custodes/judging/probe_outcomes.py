"""Outcomes of probed outputs, in the original form and in the changed form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from custodes.judging.judge import TIE, A, B, Judge
from custodes.judging.label_answers import positive_label
from custodes.judging.plan import JudgeQuestion
from custodes.judging.replies import ReadReply

OUTCOMES = {A: 1.0, TIE: 0.5, B: 0.0}
"""Outcome of the output shown first."""


def probe_outcomes(
    judge: Judge, rows: Sequence[tuple[JudgeQuestion, ReadReply | None, str]]
) -> Iterator[dict[str, Any]]:
    """The rows of the table `probes`, from questions with the reply and the reason for a missing answer."""
    plain = {
        (question.item, question.systems, question.aspect, question.order): (answer, why)
        for question, answer, why in rows
        if not question.probe and question.repeat == "0"
    }
    for question, answer, why in rows:
        if not question.probe or why == "budget":
            continue
        first, first_why = plain[question.item, question.systems, question.aspect, question.order]
        outcomes = [_outcome(judge, question, reply) for reply in (first, answer)]
        before, after = outcomes[::-1] if question.reverse else outcomes
        yield {
            "item": question.item,
            "system": question.changed,
            "against": next((system for system in question.systems if system != question.changed), ""),
            "rater": judge.name,
            "aspect": question.aspect,
            "probe": question.probe,
            "order": question.order,
            "plain": before,
            "changed": after,
            "invalid": why or first_why,
        }


def _outcome(judge: Judge, question: JudgeQuestion, answer: ReadReply | None) -> float | None:
    """The outcome of the changed output, from 0 to 1; None if there is no answer."""
    if answer is None or not answer.label:
        return None
    if judge.key == "verdict":
        displayed_first = (question.changed == question.systems[0]) == (question.order != "ba")
        return OUTCOMES[answer.label] if displayed_first else 1 - OUTCOMES[answer.label]
    if judge.key == "label":
        return float(answer.label == positive_label(judge.labels))
    low, high = float(judge.answers[0]), float(judge.answers[-1])
    return (float(answer.label) - low) / (high - low)
