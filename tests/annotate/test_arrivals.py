"""How annotators arrive and leave: ids from links and forms, completion codes, return links."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from custodes.annotate.arrivals import code_of, return_link, worker_id_of
from custodes.annotate.plan import AnnotatorPlan, Codes, StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.views import Act, Agree, Ask, Begin, Consent, VisitEnd
from tests.annotate.studies import answer_to, study


def plan(**annotators: Any) -> StudyPlan:
    return StudyPlan(annotators=AnnotatorPlan(**annotators))


def test_the_workers_id_is_read_from_link_and_form() -> None:
    open_plan = plan(recruit="open", worker_id="workerId")
    assert worker_id_of(open_plan, {"workerId": " a1 ", "STUDY_ID": "7"}) == "a1"
    assert worker_id_of(open_plan, {"STUDY_ID": "7"}) == worker_id_of(open_plan, {"workerId": " "}) == ""
    for worker in ("{{%PROLIFIC_PID%}}", "a" * 101, "<b>", "a\nb", "a b"):
        assert worker_id_of(open_plan, {"workerId": worker}) is None
    assert worker_id_of(plan(recruit="open"), {"": "x y"}) == ""


def test_return_links() -> None:
    complete = plan(return_url="https://app.prolific.com/submissions/complete?cc={code}")
    assert return_link(complete, "C1&x") == "https://app.prolific.com/submissions/complete?cc=C1%26x"
    assert return_link(complete, None) is return_link(plan(), "C1") is None


def test_codes_by_kind_of_end() -> None:
    fixed = plan(codes=Codes(finished="C1", failed="C2", no_work="C3"))
    code_of_end = {"finished": "C1", "failed": "C2", "declined": None, "erased": None}
    code_of_end |= {"no-work": "C3", "stopped": "C3", "left": "C3", "blocked": "C2", "excluded": "C2"}
    assert {why: code_of(fixed, why, "K7") for why in code_of_end} == code_of_end
    assert code_of(plan(), "stopped", "K7") == "K7"


def test_a_visit_that_ends_for_two_reasons_has_two_valid_codes(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db", plan=plan(recruit="open", worker_id="PID", batch=1, batches=2, cap=1.0))
    with closing(Service.open(path, threaded=False, durable=False)) as service:
        token = service.join(external_id="A", address="192.0.2.1").result()
        assert token is not None
        service.control("stop").result()
        codes = [ended.code for ended in [service.view(token).result()] if isinstance(ended, VisitEnd)]
        service.control("reopen").result()
        view = service.view(token).result()
        while not isinstance(view, VisitEnd):
            action: Act = Begin()
            if isinstance(view, Consent):
                action = Agree(digest=view.digest)
            elif isinstance(view, Ask):
                action = answer_to(service, view)
            view = service.act(token, action).result()
        codes.append(view.code)
        assert len(set(codes)) == 2
        assert service.snapshot().result().annotators[0].codes == tuple(codes)
