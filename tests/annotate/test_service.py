"""A visit from the first page to the last, and the actions of the owner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from custodes.annotate.service import Service
from custodes.annotate.study_status import status
from custodes.annotate.views import (
    Agree,
    Answer,
    Ask,
    Begin,
    Break,
    Comment,
    Consent,
    Decline,
    Instructions,
    Skip,
    Stop,
    Undo,
    VisitEnd,
    Wait,
)
from custodes.errors import InputError, OptionError
from tests.annotate.studies import (
    COMMENTS,
    FREE,
    LONG,
    ManualClock,
    answer,
    answer_to,
    check_restart,
    current_question,
    done,
    new_annotator,
    open_study,
    plan_of,
    rows,
    state_of,
)
from tests.evaluate.protocol.engines import state_bytes


def test_a_visit(tmp_path: Path) -> None:
    plan = plan_of(annotators={**FREE, "batch": 3, "batches": 2}, stopping=LONG, texts={"consent": "You agree."})
    with open_study(tmp_path, plan=plan) as service:
        ((label, token),) = service.invite(1).result()
        assert label == "w001"
        view = service.view(token).result()
        assert isinstance(view, Consent)
        assert isinstance(service.act(token, Begin()).result(), Consent)
        assert isinstance(service.act(token, Agree(digest="another text")).result(), Consent)
        assert isinstance(service.act(token, Agree(digest=view.digest)).result(), Instructions)
        first = service.act(token, Begin()).result()
        assert isinstance(first, Ask)
        assert (first.number, first.of, first.can_undo, first.training, first.given) == (1, 3, False, False, {})
        assert {side.html[:7] for side in first.sides} == {"<p>text"}
        assert service.view(token).result() == first  # a reload does not change the question
        for number in (2, 3):
            view = answer(service, token)
            assert isinstance(view, Ask)
            assert (view.number, view.can_undo) == (number, True)
        assert answer(service, token) == Break(answers=3)
        view = service.act(token, Begin()).result()
        assert isinstance(view, Ask)
        assert view.number == 1
        for _ in range(3):
            view = answer(service, token)
        view = done(view)
        assert (view.why, view.answers) == ("finished", 6)
        assert view.code
        assert service.view(token).result() == view  # the code does not change
        assert service.view("another").result() is None
        ((_, declining),) = service.invite(1).result()
        assert service.act(declining, Decline()).result() == VisitEnd(why="declined", code=None, answers=0)
        assert len({item for item, *_ in rows(service, "SELECT item FROM battles")}) == 6
        assert token not in str(rows(service, "SELECT * FROM worker")) + str(rows(service, "SELECT * FROM event"))


def test_a_finished_study(tmp_path: Path) -> None:
    plan = plan_of(annotators={**FREE, "batch": 4}, stopping={"looks": (6,), "stop": "decided"})
    with open_study(tmp_path, plan=plan) as service:
        first, second = new_annotator(service), new_annotator(service)
        for _ in range(3):
            answer(service, first)
        assert isinstance(answer(service, first), Break)
        answer(service, second)
        end = done(answer(service, second))
        assert end.why == "no-work"  # within a batch
        end = done(service.view(first).result())
        assert (end.why, end.answers) == ("finished", 4)
        assert service.state().result() == "finished"
        service.control("stop").result()
        assert service.state().result() == "stopped"


@pytest.mark.parametrize(("recruit", "is_later"), [("links", True), ("open", False)])
def test_links_outlast_a_complete_interim_analysis(tmp_path: Path, recruit: str, is_later: bool) -> None:
    plan = plan_of(annotators={**FREE, "cap": 0.1, "recruit": recruit}, stopping=LONG)
    with open_study(tmp_path, plan=plan) as service:
        token = new_annotator(service)
        service.invite(2).result()
        end = answer_all(service, token)
        assert (end.why, end.later, bool(end.code)) == ("no-work", is_later, True)


def test_stopping_after_a_batch_gives_a_code(tmp_path: Path) -> None:
    with open_study(tmp_path, plan=plan_of(annotators={**FREE, "batch": 2}, stopping=LONG)) as service:
        token = new_annotator(service)
        assert isinstance(service.act(token, Stop()).result(), Ask)  # refused within a batch
        answer(service, token)
        assert isinstance(answer(service, token), Break)
        end = done(service.act(token, Stop()).result())
        assert (end.why, end.answers) == ("finished", 2)
        assert end.code
        assert service.act(token, Begin()).result() == service.act(token, Stop()).result() == end
        (person,) = service.snapshot().result().annotators
        assert person.codes == (end.code,)
        service.control("stop").result()
        assert service.view(token).result() == end  # the code does not change
        check_restart(service)


@pytest.mark.parametrize("how", ["forgotten", "declined"])
def test_nothing_is_written_for_annotators_who_left(tmp_path: Path, how: str) -> None:
    clock = ManualClock()
    with open_study(tmp_path, clock) as service:
        token = new_annotator(service)
        answer(service, token)
        ask = current_question(service, token)
        if how == "forgotten":
            service.forget("w001").result()
        else:
            service.act(token, Decline()).result()
        clock.wait(700)
        end = service.view(token).result()  # the question is released
        state = state_of(service)
        for act in (
            answer_to(service, ask),
            Skip(assignment=ask.assignment, reason="other"),
            Comment(text="I am Bob"),
            Comment(text="I am Bob", assignment=ask.assignment),
            Undo(assignment=ask.assignment),
            Begin(),
            Decline(),
        ):
            assert service.act(token, act).result() == end
        service.renew_lease(token, ask.assignment).result()
        assert state_of(service) == state
        assert rows(service, COMMENTS) == []
        assert done(end).why == ("erased" if how == "forgotten" else "left")
        if how == "declined":  # annotators who leave after answers are paid
            assert end.answers == 1
            assert service.snapshot().result().annotators[0].codes == (end.code,)


def test_answers_are_stored_by_system_not_by_side(tmp_path: Path) -> None:
    plan = plan_of(annotators=FREE, stopping=LONG, question={"aspects": ("fluent", "true")})
    with open_study(tmp_path, plan=plan) as service:
        token = new_annotator(service)
        for _ in range(10):
            ask = current_question(service, token)
            is_first_left = ask.sides[0].html.split()[2][0] == "0"
            act = Answer(assignment=ask.assignment, values={"fluent": 1, "true": 0})
            service.act(token, act).result()
            query = f'SELECT answer, "order", reason FROM answers WHERE assignment = {ask.assignment} ORDER BY aspect'
            sign, order = (1, "ab") if is_first_left else (-1, "ba")
            assert rows(service, query) == [(sign, order, ""), (0, order, "")]
        act = Answer(assignment=current_question(service, token).assignment, values={"fluent": 1})
        with pytest.raises(InputError, match="no answer for true"):
            service.act(token, act).result()


@pytest.mark.parametrize(
    ("question", "value", "allowed"),
    [
        ({"equal": False}, 0, "1, -1"),
        ({}, 2, "1, 0, -1"),
        ({"mode": "rate", "scale": (1, 3)}, 0, "1, 2, 3"),
        ({"mode": "rate", "scale": (1, 3)}, 4, "1, 2, 3"),
    ],
)
def test_answers_that_the_plan_does_not_allow(
    tmp_path: Path, question: Mapping[str, object], value: int, allowed: str
) -> None:
    with open_study(tmp_path, plan=plan_of(annotators=FREE, question=question)) as service:
        token = new_annotator(service)
        with pytest.raises(InputError, match=f"answer {value} is not allowed; allowed: {allowed}$"):
            answer(service, token, value)


def test_an_answer_is_taken_back(tmp_path: Path) -> None:
    with open_study(tmp_path) as service:
        token = new_annotator(service)
        first = current_question(service, token)
        second = service.act(token, answer_to(service, first, 1)).result()
        assert isinstance(second, Ask)
        before = service.snapshot().result()
        repeated = service.act(token, Undo(assignment=second.assignment)).result()
        assert isinstance(repeated, Ask)
        assert (repeated.sides, repeated.number, repeated.given) == (first.sides, 1, {"": 1})
        assert service.snapshot().result().answers == 0
        assert service.act(token, Undo(assignment=second.assignment)).result() == repeated  # repeated click
        assert service.act(token, answer_to(service, repeated, -1)).result() == second
        assert service.snapshot().result().primary == before.primary == 1
        assert service.snapshot().result().paid == 1
        flip = rows(service, "SELECT flip FROM assignment ORDER BY assignment LIMIT 1")[0][0]
        assert rows(service, "SELECT preference FROM battles") == [(1 if flip else -1,)]
        assert rows(service, "SELECT taken_back FROM answers ORDER BY answer_id") == [(1,), (0,)]


def test_a_completed_interim_analysis_does_not_change(tmp_path: Path) -> None:
    plan = plan_of(annotators=FREE, stopping={**LONG, "looks": (3, 40)})
    with open_study(tmp_path, plan=plan) as service:
        token = new_annotator(service)
        for _ in range(2):
            view = answer(service, token)
            assert isinstance(view, Ask)
            assert view.can_undo
        view = answer(service, token)
        assert isinstance(view, Ask)
        assert not view.can_undo
        assert service.act(token, Undo(assignment=view.assignment)).result() == view
        (look,) = rows(service, "SELECT look, n, wins + ties + losses, is_open, used FROM looks")
        assert look == (1, 3, 3, 1, "[0, 1, 2]")
        pair = service.snapshot().result().pairs[0]
        assert (pair.answered, pair.wanted, pair.looks_done, pair.looks, pair.n) == (3, 40, 1, 2, 3)
        service.exclude("w001", "tired").result()
        assert rows(service, "SELECT count(*) FROM battles") == [(0,)]
        assert len(rows(service, "SELECT * FROM looks")) == 1
        other_token = new_annotator(service)
        number = current_question(service, other_token).assignment
        query = f"SELECT place FROM unit JOIN assignment USING (unit) WHERE assignment = {number}"
        assert rows(service, query) == [(3,)]


def test_skipped_questions(tmp_path: Path) -> None:
    with open_study(tmp_path) as service:
        first, second = new_annotator(service), new_annotator(service)
        ask = current_question(service, first)
        with pytest.raises(InputError, match="reason 'bored' is not allowed; allowed: language, broken, offensive"):
            service.act(first, Skip(assignment=ask.assignment, reason="bored")).result()
        service.act(first, Skip(assignment=ask.assignment, reason="language")).result()
        assert service.snapshot().result().pairs[0].impossible == 0
        answer(service, second)
        view = current_question(service, second)  # the unit goes to another annotator
        assert view.context == ask.context
        service.act(second, Skip(assignment=view.assignment, reason="broken")).result()
        now = service.snapshot().result()
        assert (now.pairs[0].impossible, now.refused, now.answers) == (1, 2, 1)
        (note,) = (note for note in status(service.path).notes if note.rule == "impossible")
        message = "1 comparisons ended without an answer, because annotators could not judge them: s0 – s1 (1)"
        assert (note.count, note.message) == (1, message)
        query = "SELECT preference, invalid FROM battles WHERE invalid <> ''"
        assert rows(service, query) == [(None, "language"), (None, "broken")]
        view = current_question(service, second)
        assert service.act(second, Undo(assignment=view.assignment)).result() == view


@pytest.mark.parametrize(
    ("looks", "recruit", "longest"), [((2,), "links", 120), ((2, 4), "open", 600), ((2, 4), "links", 3600)]
)
def test_waiting_ends(tmp_path: Path, looks: tuple[int, ...], recruit: str, longest: int) -> None:
    """An annotator holds the last question of an interim analysis. The other one is released after a lease, or after
    the longest lease (an hour with a link) where another analysis may follow, and returns when questions are left."""
    clock = ManualClock()
    plan = plan_of(annotators={**FREE, "recruit": recruit}, stopping={**LONG, "looks": looks})
    with open_study(tmp_path, clock, plan=plan) as service:
        slow, idle = new_annotator(service), new_annotator(service)
        slow_question = current_question(service, slow)
        clock.wait(30)  # time of one answer
        assert isinstance(answer(service, idle), Wait)
        seconds = 0
        while isinstance(view := service.view(idle).result(), Wait) and seconds < 5000:
            clock.wait(20)
            seconds += 20
            service.renew_lease(slow, slow_question.assignment).result()
        assert seconds == longest
        assert isinstance(view, VisitEnd)
        assert (view.why, bool(view.code)) == ("no-work", True)
        assert isinstance(service.view(idle).result(), Wait)  # a reload waits again
        service.act(slow, answer_to(service, slow_question)).result()
        assert isinstance(service.view(idle).result(), Ask if len(looks) > 1 else VisitEnd)


def answer_all(service: Service, token: str) -> VisitEnd:
    """Answer all questions of a batch, and return the end of the visit."""
    while isinstance(view := service.view(token).result(), Ask):
        answer(service, token)
    return done(view)


def skip_all(service: Service, token: str) -> None:
    """Skip all questions of an annotator."""
    while isinstance(view := service.view(token).result(), Ask | Break):
        act = Skip(assignment=view.assignment, reason="other") if isinstance(view, Ask) else Begin()
        service.act(token, act).result()


def test_skipped_questions_return_after_exclusions(tmp_path: Path) -> None:
    plan = plan_of(annotators={**FREE, "batches": 9}, stopping={**LONG, "looks": (8, 16)})
    with open_study(tmp_path, plan=plan, items=20) as service:
        engine_state = state_bytes(service._log.state.assignments.engine)
        for _ in range(2):
            skip_all(service, new_annotator(service))
        now = service.snapshot().result()
        assert (now.annotators[0].standing, now.annotators[0].flags) == ("watch", ("refuses",))
        assert now.pairs[0].impossible > 4
        for label in ("w001", "w002"):
            service.exclude(label, "cannot judge anything").result()
        assert service.snapshot().result().pairs[0].impossible == 0
        assert state_bytes(service._log.state.assignments.engine) == engine_state
        third = new_annotator(service)
        for _ in range(8):
            answer(service, third)
        assert [row[3] for row in rows(service, "SELECT * FROM looks")] == [8]
        check_restart(service)


def test_a_study_of_skipped_questions_is_noted_and_continues(tmp_path: Path) -> None:
    plan = plan_of(annotators={**FREE, "batches": 9}, stopping={**LONG, "looks": (4, 8)})
    with open_study(tmp_path, plan=plan, items=4) as service:
        for _ in range(3):
            skip_all(service, new_annotator(service))
        now = service.snapshot().result()
        assert (now.pairs[0].is_open, now.pairs[0].impossible) == (False, 4)
        (note,) = now.notes
        assert (note.rule, note.count) == ("unjudged", 1)
        for label in ("w001", "w002", "w003"):
            service.exclude(label, "cannot judge anything").result()
        assert service.snapshot().result().notes == []
        token = new_annotator(service)
        for _ in range(4):
            answer(service, token)
        assert [row[3] for row in rows(service, "SELECT * FROM looks")] == [4]


def test_leases(tmp_path: Path) -> None:
    clock = ManualClock()
    plan = plan_of(annotators=FREE, stopping={"looks": (2,), "stop": "decided"})
    with open_study(tmp_path, clock, plan=plan) as service:
        slow, quick, idle = (new_annotator(service) for _ in range(3))
        assert isinstance(service.view(idle).result(), Wait)
        slow_question, quick_question = current_question(service, slow), current_question(service, quick)
        for _ in range(5):  # an open page keeps its question
            clock.wait(50)
            service.renew_lease(quick, quick_question.assignment).result()
        clock.now -= 3600  # wall-clock time has no effect
        view = service.view(idle).result()
        assert isinstance(view, Ask)
        assert view.context == slow_question.context
        assert service.view(slow).result() == slow_question  # the page of the first annotator keeps it
        service.act(slow, answer_to(service, slow_question)).result()
        assert rows(service, "SELECT role, late FROM answers") == [("second", 1)]
        answer(service, idle)
        now = service.snapshot().result()
        assert (now.primary, now.second) == (1, 1)
        clock.wait(1000)
        assert isinstance(service.view(idle).result(), Ask)  # the question of the absent annotator
        clock.wait(1000)
        service.view(slow).result()
        last_view = service.act(quick, answer_to(service, quick_question)).result()
        assert isinstance(last_view, VisitEnd | Wait)
        ((_, is_late),) = rows(service, "SELECT role, late FROM answers ORDER BY answer_id DESC LIMIT 1")
        assert is_late


def test_late_answers_count_if_still_needed(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_study(tmp_path, clock) as service:
        token, other_token = new_annotator(service), new_annotator(service)
        ask = current_question(service, token)
        clock.wait(3600)
        service.view(other_token).result()
        assert rows(service, "SELECT count(*) FROM event WHERE kind = 'expired'") == [(1,)]
        service.act(token, answer_to(service, ask)).result()
        assert rows(service, "SELECT role, late FROM answers ORDER BY answer_id") == [("primary", 1)]


def test_exclusion(tmp_path: Path) -> None:
    with open_study(tmp_path) as service:
        token, other_token = new_annotator(service), new_annotator(service)
        for _ in range(3):
            answer(service, token)
        service.exclude("w001", "asked to").result()
        view = done(service.view(token).result())
        assert view.why == "excluded"
        assert rows(service, "SELECT count(*) FROM battles") == [(0,)]
        assert rows(service, "SELECT count(*) FROM answers WHERE excluded") == [(3,)]
        answer(service, other_token)  # the open question, then a released one
        answer(service, other_token)
        state = service.snapshot().result()
        assert state.annotators[0].standing == "excluded"
        assert state.pairs[0].answered == 2
        with pytest.raises(InputError, match="did you mean 'w001'"):
            service.exclude("w01", "").result()


def test_pause_stop_and_reopen(tmp_path: Path) -> None:
    with open_study(tmp_path) as service:
        token = new_annotator(service)
        ask = current_question(service, token)
        service.control("pause", "lunch").result()
        assert service.view(token).result() == Wait(seconds=60, is_paused=True)
        assert service.act(token, answer_to(service, ask)).result() == Wait(
            seconds=60, is_paused=True
        )  # the submitted answer counts
        service.control("resume").result()
        ask = current_question(service, token)
        service.control("stop").result()
        view = done(service.act(token, answer_to(service, ask)).result())
        assert view.why == "stopped"
        assert rows(service, "SELECT role FROM answers ORDER BY answer_id") == [("primary",), ("second",)]
        assert not service.snapshot().result().pairs[0].is_open
        with pytest.raises(InputError, match="reopen the study first"):
            service.control("resume").result()
        service.control("reopen").result()
        assert service.snapshot().result().pairs[0].is_open
        assert isinstance(service.view(token).result(), Ask)
        with pytest.raises(OptionError, match="control='halt'; allowed: pause, resume, stop, reopen"):
            service.control("halt").result()  # type: ignore[arg-type]
