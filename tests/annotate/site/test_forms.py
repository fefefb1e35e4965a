"""Acts from submitted forms, and rejection of invalid forms."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.annotate.plan import Question, StudyPlan
from custodes.annotate.site.pages import UnreadError, act_of
from custodes.annotate.views import Agree, Answer, Begin, Comment, Decline, Skip, Stop, Undo

PLAN = StudyPlan()
TWO = StudyPlan(question=Question(aspects=("a", "b")))
RATE = StudyPlan(question=Question(mode="rate", scale=(0, 100)))
ANSWER = {"do": "answer", "assignment": "7", "v0": "-1"}


@pytest.mark.parametrize(
    ("plan", "fields", "act"),
    [
        (PLAN, {"do": "agree", "agree": "1", "digest": "d"}, Agree(digest="d")),
        (PLAN, {"do": "decline"}, Decline()),
        (PLAN, {"do": "stop"}, Stop()),
        (PLAN, {"do": "begin"}, Begin()),
        (PLAN, {"do": "undo", "assignment": "3"}, Undo(assignment=3)),
        (PLAN, {"do": "comment", "text": " é\n"}, Comment(text="é")),
        (PLAN, {"do": "comment", "text": "x", "assignment": "3"}, Comment(text="x", assignment=3)),
        (
            PLAN,
            {"do": "skip", "assignment": "3", "reason": "broken", "seconds": "2.5"},
            Skip(assignment=3, reason="broken", seconds=2.5),
        ),
        (PLAN, ANSWER, Answer(assignment=7, values={"": -1})),
        (TWO, ANSWER | {"v1": "0"}, Answer(assignment=7, values={"a": -1, "b": 0})),
        (RATE, ANSWER | {"v0": "100"}, Answer(assignment=7, values={"": 100})),
    ],
)
def test_acts(plan: StudyPlan, fields: dict[str, str], act: object) -> None:
    assert act_of(plan, fields) == act


@pytest.mark.parametrize("seconds", ["", "nan", "inf", "-1", "1e999", "x", "1,5"])
def test_invalid_seconds(seconds: str) -> None:
    assert act_of(PLAN, ANSWER | {"seconds": seconds}) == Answer(assignment=7, values={"": -1}, seconds=None)


@pytest.mark.parametrize(
    ("plan", "fields"),
    [
        (PLAN, {}),
        (PLAN, {"do": "delete"}),
        (PLAN, {"do": "mark", "assignment": "3"}),
        (PLAN, {"do": "agree", "digest": "d"}),
        (PLAN, {"do": "comment", "text": " \n"}),
        (PLAN, {"do": "skip", "assignment": "3", "reason": "bored"}),
        (PLAN, {"do": "skip", "assignment": "3"}),
        (PLAN, {"do": "undo"}),
        (PLAN, {"do": "answer", "v0": "1"}),
        (PLAN, ANSWER | {"assignment": "-1"}),
        (PLAN, ANSWER | {"assignment": "9" * 19}),
        (PLAN, ANSWER | {"assignment": "²"}),
        (PLAN, ANSWER | {"v0": ""}),
        (PLAN, ANSWER | {"v0": "bad"}),
        (PLAN, ANSWER | {"v0": "1.0"}),
        (PLAN, ANSWER | {"v0": "٣"}),
        (TWO, ANSWER),
    ],
)
def test_invalid_forms(plan: StudyPlan, fields: dict[str, str]) -> None:
    with pytest.raises(UnreadError):
        act_of(plan, fields)


@given(st.dictionaries(st.sampled_from(["do", "assignment", "v0", "v1", "reason", "text", "seconds"]), st.text()))
def test_any_form_is_read_or_refused(fields: dict[str, str]) -> None:
    for plan in (PLAN, TWO, RATE):
        for do in ("answer", "skip", "undo", "comment", "agree"):
            with suppress(UnreadError):
                assert act_of(plan, fields | {"do": do})
