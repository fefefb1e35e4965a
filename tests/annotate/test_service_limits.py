"""Limits of joining, known questions, forgotten annotators, and changes of the plan."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from msgspec.structs import replace

from custodes.annotate.views import Agree, Ask, Begin, Break, Comment, Consent, Instructions, VisitEnd
from custodes.errors import OptionError
from tests.annotate.studies import (
    COMMENTS,
    FREE,
    LONG,
    ManualClock,
    answer,
    check_restart,
    current_question,
    done,
    expected_answer,
    new_annotator,
    open_service,
    open_study,
    plan_of,
    rows,
    state_of,
    study,
)


def test_limits_of_joining(tmp_path: Path) -> None:
    clock = ManualClock()
    plan = plan_of(annotators={**FREE, "most": 9, "batch": 2, "batches": 2}, stopping=LONG)
    with open_study(tmp_path, clock, plan=plan) as service:

        def join(worker: str, address: str = "10.0.0.1") -> str | None:
            return service.join(external_id=worker, address=address).result()

        first = join("ann")
        assert first is not None
        service.act(first, Begin()).result()
        ask = current_question(service, first)
        same_visit = join("ann")
        assert same_visit is not None
        assert same_visit != first
        assert current_question(service, same_visit) == ask == current_question(service, first)  # by either link
        assert len(service.snapshot().result().annotators) == 1
        assert [join(f"p{k}") is None for k in range(6)] == [False] * 4 + [True] * 2  # five per hour
        assert join("p9", "2001:db8::1") is not None
        clock.wait(3601)
        assert [join(f"q{k}") is None for k in range(4)] == [False, False, False, True]  # nine annotators
        assert "ann" not in str(rows(service, "SELECT external_hash FROM worker"))


def test_an_annotator_may_join_thirty_times_an_hour(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_study(tmp_path, clock) as service:

        def join(address: str = "10.0.0.1") -> str | None:
            return service.join(external_id="ann", address=address).result()

        first = join()
        assert first is not None
        assert [join() is None for _ in range(40)] == [False] * 30 + [True] * 10
        assert rows(service, "SELECT count(*) FROM event WHERE kind = 'token'") == [(30,)]
        assert isinstance(service.view(first).result(), Instructions)  # the existing link stays valid
        assert join("10.0.0.2") is not None
        clock.wait(3601)
        assert join() is not None


@pytest.mark.parametrize(
    ("claimed", "stored"), [(float("inf"), 30.0), (12.0, 12.0), (-1.0, None), (float("nan"), None)]
)
def test_visible_seconds_are_limited_by_server_seconds(tmp_path: Path, claimed: float, stored: float | None) -> None:
    clock = ManualClock()
    with open_study(tmp_path, clock) as service:
        token = new_annotator(service)
        current_question(service, token)
        clock.wait(30)
        answer(service, token, seconds=claimed)
        assert rows(service, "SELECT visible_seconds, server_seconds FROM judgment") == [(stored, 30.0)]
        assert service.snapshot().result().annotators[0].seconds == stored


def test_qualification(tmp_path: Path) -> None:
    plan = plan_of(annotators={**FREE, "qualification": 3, "passed": 2, "batch": 5}, stopping=LONG)
    with open_study(tmp_path, plan=plan, known_questions={"qualification": 4, "example": 2}) as service:
        examples = service.view(service.invite(1).result()[0][1]).result()
        assert isinstance(examples, Instructions)
        assert [example.why for example in examples.examples] == ["because"] * 2
        assert service.examples == examples.examples
        ends = []
        for right in (True, False):
            token = new_annotator(service)
            for number in (1, 2, 3):
                ask = current_question(service, token)
                assert (ask.number, ask.of, ask.training) == (number, 3, True)
                answer(service, token, expected_answer(service, ask) * (1 if right else -1))
            ends.append(service.view(token).result())
        assert isinstance(ends[0], Ask)
        assert (ends[0].number, ends[0].of, ends[0].training) == (1, 5, False)
        assert isinstance(ends[1], VisitEnd)
        assert ends[1].why == "failed"


def test_wrong_known_answers_block(tmp_path: Path) -> None:
    plan = plan_of(annotators={"cap": 1.0, "gold_every": 2, "attention": 0, "overlap": 0.0}, stopping=LONG)
    with open_study(tmp_path, plan=plan, systems=4, known_questions={"gold": 12}) as service:
        token = new_annotator(service)
        for _ in range(60):
            view = service.view(token).result()
            if isinstance(view, Break):
                view = service.act(token, Begin()).result()
            if isinstance(view, VisitEnd):
                break
            answer(service, token, -(expected_answer(service, view) or 1))
        assert done(view).why == "blocked"
        (person,) = service.snapshot().result().annotators
        assert (person.standing, person.gold_right) == ("blocked", 0)
        assert rows(service, "SELECT by, reason FROM exclusion") == [("rule", "known comparisons")]
        assert rows(service, "SELECT count(*) FROM battles") == [(0,)]


def test_forgetting_an_annotator(tmp_path: Path) -> None:
    plan = plan_of(annotators=FREE, stopping=LONG, texts={"consent": "You agree."})
    with open_study(tmp_path, plan=plan) as service:
        token = service.join(external_id="secret-ann", address="").result()
        assert token is not None
        view = service.view(token).result()
        assert isinstance(view, Consent)
        service.act(token, Agree(digest=view.digest)).result()
        service.act(token, Begin()).result()
        answer(service, token)
        service.act(token, Comment(text="call secret-ann")).result()
        assert rows(service, COMMENTS) == [("call secret-ann",)]
        service.forget("w001").result()
        for file in tmp_path.iterdir():  # also not in the write-ahead log during service
            assert b"secret-ann" not in file.read_bytes(), file.name
        end = done(service.view(token).result())
        assert end.why == "erased"
        state = state_of(service)
        assert rows(service, COMMENTS) == [("",)]
        assert len(rows(service, "SELECT * FROM battles")) == 1
    assert b"secret-ann" not in service.path.read_bytes()
    with open_service(service.path) as service:
        assert state_of(service) == state


def test_changes_of_the_plan(tmp_path: Path) -> None:
    with open_study(tmp_path, plan=plan_of(annotators=FREE, stopping={**LONG, "budget": 4})) as service:
        token = new_annotator(service)
        for _ in range(4):
            view = answer(service, token)
        view = done(view)
        plan = service.plan
        richer = replace(plan, stopping=replace(plan.stopping, budget=8), money=replace(plan.money, price=0.2))
        service.replan(richer).result()
        assert service.plan.money.price == 0.2
        assert isinstance(service.view(token).result(), Ask)
        for new_plan, message in (
            (plan, r"budget=4: the budget can only be increased \(now 8\)"),
            (replace(richer, seed=9), "seed: cannot be changed"),
            (plan_of(stopping=LONG, annotators=FREE, question={"text": "Which?"}), "question"),
        ):
            with pytest.raises(OptionError, match=message):
                service.replan(new_plan).result()
        check_restart(service)


def test_memory_per_answer(tmp_path: Path) -> None:
    """Peak memory per answer: no rows are kept, and empty or equal objects are shared."""
    plan = plan_of(annotators={**FREE, "batch": 500, "batches": 100}, stopping={**LONG, "looks": (20, 150)})
    with open_service(study(tmp_path / "study.db", plan=plan, systems=4, items=150, known_questions={})) as service:
        annotators, answers = [new_annotator(service) for _ in range(12)], 600
        for k in range(answers):
            answer(service, annotators[k % 12], k % 3 - 1)
        state = state_of(service)
        service._log.read()
        tracemalloc.start()
        service._log.read()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak / answers < 1300  # measured 1,020; with all rows in memory 2,150
        assert state_of(service) == state
