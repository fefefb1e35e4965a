"""Convert the forms of annotators to actions."""

from __future__ import annotations

import math
from collections.abc import Mapping

from custodes.annotate.plan import StudyPlan
from custodes.annotate.views import Act, Agree, Answer, Begin, Comment, Decline, Mark, Skip, Stop, Undo
from custodes.annotate.visits import SKIPPING

BOTH_BAD = "bad"
"""The value of a form field if both outputs are equally bad."""


class UnreadError(ValueError):
    """A form is invalid. The text of the error is the key of a message in the words of a language."""


def act_of(plan: StudyPlan, fields: Mapping[str, str]) -> Act:
    """Return the action that a form requests. Raise `UnreadError` for an invalid form.

    >>> act_of(StudyPlan(), {"do": "answer", "assignment": "7", "v0": "1", "seconds": "3.2"})
    Answer(assignment=7, values={'': 1}, seconds=3.2, both_bad=False)
    """
    match fields.get("do"):
        case "agree" if fields.get("agree"):
            return Agree(digest=fields.get("digest", ""))
        case "decline":
            return Decline()
        case "begin":
            return Begin()
        case "stop":
            return Stop()
        case "undo":
            return Undo(assignment=assignment_of(fields))
        case "mark" if plan.texts.differences:
            return Mark(assignment=assignment_of(fields))
        case "skip" if fields.get("reason") in SKIPPING:
            return Skip(assignment=assignment_of(fields), reason=fields["reason"], seconds=seconds(fields))
        case "comment" if fields.get("text", "").strip():
            assignment_id = assignment_of(fields) if "assignment" in fields else None
            return Comment(text=fields["text"].strip(), assignment=assignment_id)
        case "answer":
            return _answer(plan, fields)
    raise UnreadError("unread")


def _answer(plan: StudyPlan, fields: Mapping[str, str]) -> Answer:
    """Return the answer in a form. The service checks which values are allowed."""
    question = plan.question
    may_be_bad = question.mode == "compare" and question.equal and question.both_bad
    values, is_both_bad = {}, may_be_bad and "both_bad" in fields
    for index, aspect in enumerate(question.aspects):
        text = fields.get(f"v{index}", "")
        if not text:
            raise UnreadError("unfilled")
        if text == BOTH_BAD and may_be_bad:
            is_both_bad, text = True, "0"
        values[aspect] = _parse_integer(text)
    return Answer(assignment=assignment_of(fields), values=values, seconds=seconds(fields), both_bad=is_both_bad)


def assignment_of(fields: Mapping[str, str]) -> int:
    """Return the assignment number of a form. Raise `UnreadError` if the form has no valid number."""
    assignment_id = _parse_integer(fields.get("assignment", ""))
    if not 0 <= assignment_id < 2**63:
        raise UnreadError("unread")
    return assignment_id


def _parse_integer(text: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > _DIGITS:
        raise UnreadError("unread")
    return int(text)


_DIGITS = 20


def seconds(fields: Mapping[str, str]) -> float | None:
    """Return the seconds for which the question was visible, or None if the page did not measure them."""
    try:
        visible_seconds = float(fields.get("seconds", ""))
    except ValueError:
        return None
    return visible_seconds if math.isfinite(visible_seconds) and visible_seconds >= 0 else None
