"""How annotators arrive and leave: ids from links and forms, completion codes, return links, reconciliation."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from custodes.annotate.arrivals import code_of, link_parameters, return_link
from custodes.annotate.plan import AnnotatorPlan, Codes, StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.study_status import match_codes, reconcile
from custodes.annotate.views import Act, Agree, Ask, Begin, Consent, Instructions, Stop, VisitEnd
from custodes.errors import InputError
from tests.annotate.snapshots import person
from tests.annotate.studies import answer_to, study


def plan(**annotators: Any) -> StudyPlan:
    return StudyPlan(annotators=AnnotatorPlan(**annotators))


def test_link_parameters_are_the_id_and_other_ids() -> None:
    params = {"workerId": " a1 ", "STUDY_ID": "7", "note": "<b>two words</b>", "é": "1", "long": "x" * 101}
    open_plan = plan(recruit="open", worker_id="workerId")
    assert link_parameters(open_plan, params) == ({"workerId": "a1", "STUDY_ID": "7"}, True)
    assert len(link_parameters(open_plan, {f"p{k}": "1" for k in range(99)})[0]) == 10
    for worker in ("{{%PROLIFIC_PID%}}", "a" * 101, "<b>", "a\nb", "a b"):
        assert link_parameters(open_plan, {"workerId": worker, "STUDY_ID": "7"}) == ({"STUDY_ID": "7"}, False)
    assert link_parameters(plan(recruit="open"), {"": "x y", "STUDY_ID": "7"}) == ({"STUDY_ID": "7"}, True)


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


def test_codes_are_compared() -> None:
    annotators = (
        person(1, external_id="A", codes=("K0", "K1"), answers=15),
        person(2, external_id="B", codes=("K2",), standing="blocked"),
        person(3, external_id="C", codes=("K3", "K4"), answers=30),
        *(person(4, external_id="D"), person(5, codes=("K5",))),
    )
    frame = pl.DataFrame(
        {
            "Participant id": ["A", "B", "A", "Z", "Z", "D", "A"],
            "Completion code": ["K1", "NOCODE", "K1", "K2", "x", None, "K0"],
            "Status": ["APPROVED", "", "", "", "", "", ""],
        }
    )
    rows = list(match_codes(frame, annotators, StudyPlan(), list_name="codes.csv"))
    verdicts = [(row["person"], row["worker"], row["verdict"]) for row in rows]
    assert verdicts == [
        *(("A", "w001", "ours"), ("B", "w002", "no such code"), ("A", "w001", "twice"), ("Z", "", "another's code")),
        *(("Z", "", "unknown"), ("D", "w004", "no such code"), ("A", "w001", "ours"), ("C", "w003", "missing")),
    ]
    assert rows[-1]["code"] == "K3 K4"
    fixed = plan(codes=Codes(finished="C1"))
    frame = pl.DataFrame({"WorkerId": ["B", "Z", "B", "A", "B"], "Answer.code": ["C1"] * 5})
    two_visits = (person(1, external_id="A"), person(2, external_id="B", codes=("C1", "C1")))
    verdicts_of_fixed_code = [row["verdict"] for row in match_codes(frame, two_visits, fixed, list_name="x")]
    assert verdicts_of_fixed_code == ["ours", "unknown", "ours", "no such code", "twice"]
    with pytest.raises(InputError, match=r"list.csv: the list has no column of codes"):
        list(match_codes(frame.drop("Answer.code"), annotators, fixed, list_name="list.csv"))


@pytest.mark.parametrize("fixed_code", ["", "C1"])
def test_each_visit_of_an_annotator_has_a_valid_code(tmp_path: Path, fixed_code: str) -> None:
    codes = Codes(finished=fixed_code)
    path = study(
        tmp_path / "study.db", plan=plan(recruit="open", worker_id="PID", batch=1, batches=2, cap=1.0, codes=codes)
    )
    lines = ["participant id,completion code"]
    with closing(Service.open(path, threaded=False, durable=False)) as service:
        for visit in ("1", "2"):
            token = service.join(external_id="A", params={"SESSION": visit}, address="192.0.2.1").result()
            assert token is not None
            view = service.view(token).result()
            while not isinstance(view, VisitEnd):
                action: Act = Stop()
                if isinstance(view, Consent):
                    action = Agree(digest=view.digest)
                elif isinstance(view, Instructions):
                    action = Begin()
                elif isinstance(view, Ask):
                    action = answer_to(service, view)
                view = service.act(token, action).result()
            lines.append(f"A,{code_of(service.plan, view.why, view.code)}")
        assert service.snapshot().result().annotators[0].codes == tuple(line[2:] for line in lines[1:])
    assert len(set(lines)) == (2 if fixed_code else 3)
    codes_file = tmp_path / "codes.csv"
    codes_file.write_text("\n".join([*lines, lines[-1]]))
    assert reconcile(path, codes_file).codes["verdict"].to_list() == ["ours", "ours", "twice"]


def test_a_visit_that_ends_for_two_reasons_has_two_valid_codes(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db", plan=plan(recruit="open", worker_id="PID", batch=1, batches=2, cap=1.0))
    with closing(Service.open(path, threaded=False, durable=False)) as service:
        token = service.join(external_id="A", params={}, address="192.0.2.1").result()
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
    codes_file = tmp_path / "codes.csv"
    codes_file.write_text("\n".join(["participant id,completion code", *(f"A,{code}" for code in codes)]))
    assert reconcile(path, codes_file).codes["verdict"].to_list() == ["ours", "ours"]


def test_a_platforms_list_against_a_study(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db", plan=plan(codes=Codes(finished="C1")))
    with closing(Service.open(path, threaded=False, durable=False)) as service:
        tokens = [service.join(external_id=worker, params={}, address=worker).result() for worker in "AB"]
        codes_file = tmp_path / "codes.csv"
        service.control("stop").result()
        assert isinstance(service.view(str(tokens[0])).result(), VisitEnd)
        codes_file.write_text("Participant id,Status,Completion code\nA,APPROVED,C1\nB,AWAITING REVIEW,NOCODE\n")
        result = reconcile(path, codes_file)  # also while the study is served
    assert result.codes["verdict"].to_list() == ["ours", "no such code"]
    assert result.status == 1
    codes_file.write_text("Status,Completion code\nAPPROVED,C1\n")
    with pytest.raises(InputError, match=r"codes.csv: the list has no column of annotators"):
        reconcile(path, codes_file)
