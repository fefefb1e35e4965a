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


def act_of(plan: StudyPlan, form_fields: Mapping[str, str]) -> Act:
    """Return the action that a form requests. Raise `UnreadError` for an invalid form.

    >>> act_of(StudyPlan(), {"do": "answer", "assignment": "7", "v0": "1", "seconds": "3.2"})
    Answer(assignment=7, values={'': 1}, seconds=3.2, both_bad=False)
    """
    match form_fields.get("do"):
        case "agree" if form_fields.get("agree"):
            return Agree(digest=form_fields.get("digest", ""))
        case "decline":
            return Decline()
        case "begin":
            return Begin()
        case "stop":
            return Stop()
        case "undo":
            return Undo(assignment=assignment_of(form_fields))
        case "mark" if plan.texts.differences:
            return Mark(assignment=assignment_of(form_fields))
        case "skip" if form_fields.get("reason") in SKIPPING:
            return Skip(
                assignment=assignment_of(form_fields), reason=form_fields["reason"], seconds=seconds(form_fields)
            )
        case "comment" if form_fields.get("text", "").strip():
            assignment_id = assignment_of(form_fields) if "assignment" in form_fields else None
            return Comment(text=form_fields["text"].strip(), assignment=assignment_id)
        case "answer":
            return _answer(plan, form_fields)
    raise UnreadError("unread")


def _answer(plan: StudyPlan, form_fields: Mapping[str, str]) -> Answer:
    """Return the answer in a form. The service checks which values are allowed."""
    question_plan = plan.question
    allows_both_bad = question_plan.mode == "compare" and question_plan.equal and question_plan.both_bad
    answer_of_aspect, is_both_bad = {}, allows_both_bad and "both_bad" in form_fields
    for aspect_index, aspect in enumerate(question_plan.aspects):
        answer_text = form_fields.get(f"v{aspect_index}", "")
        if not answer_text:
            raise UnreadError("unfilled")
        if answer_text == BOTH_BAD and allows_both_bad:
            is_both_bad, answer_text = True, "0"
        answer_of_aspect[aspect] = _parse_integer(answer_text)
    return Answer(
        assignment=assignment_of(form_fields),
        values=answer_of_aspect,
        seconds=seconds(form_fields),
        both_bad=is_both_bad,
    )


def assignment_of(form_fields: Mapping[str, str]) -> int:
    """Return the assignment number of a form. Raise `UnreadError` if the form has no valid number."""
    assignment_id = _parse_integer(form_fields.get("assignment", ""))
    if not 0 <= assignment_id < 2**63:
        raise UnreadError("unread")
    return assignment_id


def _parse_integer(text: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > _DIGITS:
        raise UnreadError("unread")
    return int(text)


_DIGITS = 20


def seconds(form_fields: Mapping[str, str]) -> float | None:
    """Return the seconds for which the question was visible, or None if the page did not measure them."""
    try:
        visible_seconds = float(form_fields.get("seconds", ""))
    except ValueError:
        return None
    return visible_seconds if math.isfinite(visible_seconds) and visible_seconds >= 0 else None
