"""Whether the annotators can finish a study, and for how many annotators results hold: `status`, `check`, owner's
page."""

from __future__ import annotations

from pathlib import Path

import pytest

import custodes as cu
from custodes.annotate.service import Service
from custodes.annotate.study_status import status
from custodes.annotate.views import Ask, Begin, Break
from tests.annotate.studies import answer, new_annotator, open_service, plan_of, state_of, study

pytest.importorskip("starlette")

from tests.annotate.requests import post, signed_in

UNKNOWN = {"gold_every": 0, "attention": 0, "overlap": 0.0}
LOOKS = {"looks": (10, 40), "stop": "decided", "boundary": 9.0}


def notes_of(service: Service) -> dict[str, str]:
    """Return the notes to the owner by rule, after a check that `status` and `check` agree."""
    notes = {note.rule: note.message for note in service.snapshot().result().notes}
    of_status = {note.rule: note.message for note in status(service.path).notes}
    of_status.pop("nobody-comes", None)  # the manual clock of the service is years in the past
    assert of_status == notes
    problems = cu.annotate.check(service.path).problems
    assert set(notes.items()) <= set(problems.select("rule", "message").iter_rows())
    return notes


def answer_everything(service: Service, tokens: list[str]) -> None:
    """Let annotators answer in turn as long as questions are left."""
    is_going = True
    while is_going:
        is_going = False
        for token in tokens:
            view = service.view(token).result()
            if isinstance(view, Break):
                view = service.act(token, Begin()).result()
            if isinstance(view, Ask):
                answer(service, token, 0)
                is_going = True


def test_a_standstill_is_noted_until_the_cap_is_raised(tmp_path: Path) -> None:
    plan = plan_of(annotators={"recruit": "open", **UNKNOWN}, stopping=LOOKS)
    path = study(tmp_path / "study.db", plan=plan, items=60)
    with open_service(path) as service:
        assert notes_of(service) == {}
        tokens = [new_annotator(service) for _ in range(4)]
        answer_everything(service, tokens)
        assert notes_of(service)["standstill"].startswith(
            "the 4 current annotators cannot complete the current interim analyses: 2 of 2 "
            "remaining answers exceed the limits per annotator ([annotators] cap,"
        )
        site = signed_in(service)
        assert "cannot complete the current interim analyses: 2 of 2" in site.get("/admin/study").text
        before = state_of(service)
        for wrong in ("x", "0", "1.5", "nan"):
            reply = post(site, "/admin/study/replan", price="0", most="9", cap=wrong)
            assert (reply.status_code, state_of(service) == before) == (409, True), wrong
        assert post(site, "/admin/study/replan", price="0", most="9", cap="0.3").status_code == 200
        assert service.plan.annotators.cap == 0.3
        answer_everything(service, tokens)
        assert service.snapshot().result().pairs[0].n == 40
        notes = notes_of(service)
        assert list(notes) == ["few-annotators"]
        assert notes["few-annotators"].endswith("so results describe only these 4 annotators")
        assert "these 4 annotators" in site.get("/admin/study").text


def test_few_annotators_are_noted_before_they_answer(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db", plan=plan_of(annotators=UNKNOWN), items=60)
    with open_service(path) as service:
        for annotators, is_few in ((9, True), (1, False)):
            service.invite(annotators).result()
            problems = cu.annotate.check(path).problems
            assert ("few-annotators" in problems["rule"].to_list()) == is_few
