"""The current page of a visit, and the actions of an annotator.

If a visit has no open question, a question is assigned. Each action is validated and written once. Repeating an action
has no effect.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from random import Random

from custodes.annotate import assignment_policy
from custodes.annotate.assignment_policy import NextQuestion
from custodes.annotate.event_log import LONGEST_LEASE, EventLog, lease_seconds
from custodes.annotate.participants import Annotator, IssuedQuestion, fails_control_questions
from custodes.annotate.study_file import AssignmentRow, ExclusionRow, JudgmentRow
from custodes.annotate.views import (
    Act,
    Agree,
    Answer,
    Ask,
    Begin,
    Break,
    Comment,
    Consent,
    Decline,
    Example,
    Instructions,
    Side,
    Skip,
    Stop,
    Undo,
    View,
    VisitEnd,
    Wait,
)
from custodes.errors import InputError, join_labels, reject, short_repr

WAIT, SOONEST, PAUSED = 20, 5, 60
"""Maximum and minimum seconds until a waiting page reloads, and seconds until the page of a paused study reloads."""
AN_HOUR = 3600.0
"""Maximum seconds that an annotator with a personal link waits for the next interim analysis. This time is long,
because every invited annotator is needed, and because no platform expects a completion code."""
SKIPPING = ("language", "broken", "offensive", "other")
LONGEST_COMMENT = 5000
"""Maximum number of characters of a comment. Further characters are not stored."""


def view_of(log: EventLog, worker: Annotator) -> View:
    """Return the current page of an annotator. An open question is displayed again."""
    state = log.state
    for issued_question in worker.open:
        log.renew(issued_question)
    log.expire()
    if worker.forgotten:
        return VisitEnd(why="erased", code=None, answers=worker.work.answers)
    for end_reason, has_ended_for_reason in (
        ("blocked", worker.excluded and worker.by == "rule"),
        ("excluded", worker.excluded),
        ("left", worker.declined and worker.work.paid > 0),
        ("declined", worker.declined),
        ("failed", worker.qualified is False),
        ("finished", worker.finished),
        ("stopped", state.control == "stopped"),
    ):
        if has_ended_for_reason:
            return _end_visit(log, worker, end_reason)
    if state.control == "paused":
        return Wait(seconds=PAUSED, is_paused=True)
    if state.plan.texts.consent and worker.agreed != digest_of(state.plan.texts.consent):
        return Consent(digest=digest_of(state.plan.texts.consent))
    if not worker.begun:
        return Instructions(examples=examples_of(log.connection))
    return _ask_view(log, worker.open[-1]) if worker.open else _next_view(log, worker)


def digest_of(text: str) -> str:
    """Return the SHA-256 digest that identifies a text, a token or an id."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _next_view(log: EventLog, worker: Annotator) -> View:
    """Return the next page: a qualification question, a question of the batch, a break, or the end."""
    state, annotator_plan = log.state, log.state.plan.annotators
    if worker.qualified is None and annotator_plan.qualification:
        if worker.work.trained < annotator_plan.qualification:
            next_question = assignment_policy.next_control_question(
                state, worker, "qualification", _question_rng(log, worker)
            )
            if next_question is not None:
                return _ask_view(log, _assign_question(log, worker, next_question))
        has_passed_qualification = worker.work.training_right >= annotator_plan.passed
        log.event("qualified", worker=worker, passed=has_passed_qualification)
        if not has_passed_qualification:
            return _end_visit(log, worker, "failed")
    if worker.batch == 0:
        _begin_batch(log, worker)
    if worker.number >= annotator_plan.batch:
        if worker.batch >= annotator_plan.batches or not _is_open(log):
            return _end_visit(log, worker, "finished")
        return Break(answers=worker.work.paid)
    next_question = _choose_question(log, worker) if _is_open(log) else None
    if next_question is None:
        return _idle_view(log, worker)
    return _ask_view(log, _assign_question(log, worker, next_question))


def _begin_batch(log: EventLog, worker: Annotator) -> None:
    """Begin a batch, and draw the positions of its control questions."""
    batch_number = worker.batch + 1
    rng = Random(f"{log.state.plan.seed} batch {worker.id} {batch_number}")
    log.event(
        "batch", worker=worker, batch=batch_number, known=assignment_policy.schedule(log.state, batch_number, rng)
    )


def is_done(log: EventLog, worker: Annotator) -> bool:
    """Whether the current batch of an annotator is complete and the next batch has not begun."""
    return worker.batch > 0 and worker.number >= log.state.plan.annotators.batch and not worker.open


def _is_open(log: EventLog) -> bool:
    return any(log.state.assignments.engine.is_open)


def _choose_question(log: EventLog, worker: Annotator) -> NextQuestion | None:
    state, rng = log.state, _question_rng(log, worker)
    if (control_kind := worker.control_kind_of_position.get(worker.number + 1)) is not None:
        next_question = assignment_policy.next_control_question(state, worker, control_kind, rng)
        if next_question is not None:
            return next_question
    return assignment_policy.next_real_question(state, worker, rng)


def _question_rng(log: EventLog, worker: Annotator) -> Random:
    return Random(f"{log.state.plan.seed} {worker.id} {log.next}")


def _assign_question(
    log: EventLog, worker: Annotator, next_question: NextQuestion, withdrawn_question: IssuedQuestion | None = None
) -> IssuedQuestion:
    """Assign a question, or assign the question `withdrawn_question` once more for a correction."""
    log.waiting.pop(worker.id, None)
    assignment_row = AssignmentRow(
        assignment=log.next,
        worker=worker.id,
        batch=0 if next_question.role == "qualification" else worker.batch,
        number=worker.number + 1 if withdrawn_question is None else withdrawn_question.number,
        unit=None if next_question.unit is None else next_question.unit.id,
        gold=next_question.gold,
        role=next_question.role,
        flip=next_question.flip,
        look=next_question.look,
        again=None if withdrawn_question is None else withdrawn_question.id,
        at=log.clock.wall(),
        p_role=next_question.p_role,
        p_pair=next_question.p_pair,
    )
    log.add_rows(assignment_row)
    issued_question = log.state.issued[assignment_row.assignment]
    if issued_question.unit is not None:
        log.keep(issued_question)
    return issued_question


def _idle_view(log: EventLog, worker: Annotator) -> View:
    """Return the page of an annotator for whom no question is free. The annotator waits if questions may become free
    soon; otherwise the visit ends."""
    if _is_open(log) and _is_anybody_at_work(log, worker):
        now, first_lease_end = log.clock.steady(), min(log.leases.values(), default=None)
        if now - log.waiting.setdefault(worker.id, now) < _patience(log, worker):
            seconds_until_release = WAIT if first_lease_end is None else first_lease_end - now
            return Wait(seconds=int(min(WAIT, max(SOONEST, seconds_until_release))))
    log.waiting.pop(worker.id, None)
    may_return_later = _is_open(log) and log.state.plan.annotators.recruit == "links"
    return replace(_end_visit(log, worker, "no-work"), later=may_return_later)


def _is_anybody_at_work(log: EventLog, worker: Annotator) -> bool:
    """Whether another annotator has an open question. An open control question also counts, because after it the
    annotator continues with questions of the interim analysis."""
    return any(
        not issued_question.expired
        for other_worker in log.state.workers.values()
        if other_worker is not worker and not other_worker.excluded
        for issued_question in other_worker.open
    )


def _patience(log: EventLog, worker: Annotator) -> float:
    """Return the maximum waiting time in seconds. If another interim analysis may begin, the maximum is the longest
    lease, or an hour with personal links. If no further analysis may begin, only questions that other annotators leave
    unanswered can become free. The maximum is then the current length of a lease, or 0 if this annotator has reached
    the cap in all open pairs."""
    state, engine = log.state, log.state.assignments.engine
    if any(map(engine.goes_on, range(len(engine.is_open)))):
        return AN_HOUR if state.plan.annotators.recruit == "links" else LONGEST_LEASE
    return (
        lease_seconds(state.paces, is_new_annotator=False) if assignment_policy.pairs_below_cap(state, worker) else 0.0
    )


def _end_visit(log: EventLog, worker: Annotator, end_reason: str) -> VisitEnd:
    """Return the end of a visit. The completion code is drawn only once."""
    if end_reason not in worker.codes and end_reason != "declined":
        log.event("code", worker=worker, why=end_reason, code=secrets.token_hex(4).upper())
    return VisitEnd(why=end_reason, code=worker.codes.get(end_reason), answers=worker.work.paid)


def undoable_question(log: EventLog, current_question: IssuedQuestion) -> IssuedQuestion | None:
    """Return the latest question that was answered before `current_question` if its answer may be withdrawn, otherwise
    None. Answers to control questions and second opinions may always be withdrawn. A primary answer may be withdrawn
    while its interim analysis is incomplete. A refusal may be withdrawn as long as its unit has neither all answers nor
    enough refusals."""
    earlier_answered_questions = (
        answered_question
        for answered_question in current_question.worker.answered
        if answered_question.number < current_question.number
    )
    latest_question = max(earlier_answered_questions, key=attrgetter("number"), default=None)
    if latest_question is None or latest_question.unit is None or latest_question.answer_role == "second":
        return latest_question
    engine, pair, position = log.state.assignments.engine, latest_question.unit.pair, latest_question.unit.place
    is_refusal = latest_question.value is None
    is_withdrawable = engine.is_free(pair, position) if is_refusal else engine.is_in_current_look(pair, position)
    return latest_question if is_withdrawable else None


def _ask_view(log: EventLog, issued_question: IssuedQuestion) -> Ask:
    state, connection, question_plan = log.state, log.connection, log.state.plan.question
    output_sides: Iterable[Side]
    unit = issued_question.unit
    if unit is None:
        gold_query = "SELECT context, first, second, media FROM gold WHERE gold = ?"
        context_side, *output_sides = _control_sides(
            *connection.execute(gold_query, (issued_question.gold,)).fetchone()
        )
    else:
        displayed_html, images_json = connection.execute(
            "SELECT html, media FROM item WHERE item = ?", (unit.item,)
        ).fetchone()
        context_side = Side(html=displayed_html, media=tuple(json.loads(images_json)))
        output_rows = connection.execute(
            "SELECT o.html, o.media FROM pair p JOIN output o ON o.item = ? AND o.system IN (p.first, p.second)"
            " WHERE p.pair = ? ORDER BY o.system <> p.first",
            (unit.item, unit.pair),
        )
        output_sides = [
            Side(html=displayed_html, media=tuple(json.loads(images_json)))
            for displayed_html, images_json in output_rows
        ]
    if question_plan.mode == "rate":
        output_sides = output_sides[:1]
    annotator_plan, is_training = state.plan.annotators, issued_question.role == "qualification"
    previous_answer_of_aspect: dict[str, int] = {}
    if issued_question.again is not None:  # the withdrawn answer, in displayed order
        answer_rows = connection.execute(
            "SELECT aspect, answer FROM judgment WHERE assignment = ?", (issued_question.again,)
        )
        side_sign = -1 if issued_question.flip else 1
        previous_answer_of_aspect = {
            aspect: int(answer) * side_sign for aspect, answer in answer_rows if answer is not None
        }
    return Ask(
        assignment=issued_question.id,
        number=issued_question.number,
        of=annotator_plan.qualification if is_training else annotator_plan.batch,
        context=context_side,
        sides=tuple(reversed(output_sides) if issued_question.flip else output_sides),
        given=previous_answer_of_aspect,
        can_undo=undoable_question(log, issued_question) is not None,
        training=is_training,
    )


def _control_sides(context_html: str, first_html: str, second_html: str, images_json: str) -> list[Side]:
    """Return the context and the outputs of a control question."""
    image_names_of_part = json.loads(images_json) if images_json else {}
    html_of_part = {"context": context_html, "first": first_html, "second": second_html}
    return [
        Side(html=part_html, media=tuple(image_names_of_part.get(part_name, ())))
        for part_name, part_html in html_of_part.items()
    ]


def examples_of(connection: sqlite3.Connection) -> tuple[Example, ...]:
    """Return the worked examples in the order in which they were given."""
    example_query = "SELECT expected, why, context, first, second, media FROM gold WHERE kind = 'example' ORDER BY gold"
    worked_examples = []
    for expected_answer, reason, *htmls_and_images_json in connection.execute(example_query):
        context_side, *output_sides = _control_sides(*htmls_and_images_json)
        worked_examples.append(
            Example(context=context_side, sides=tuple(output_sides), expected=expected_answer, why=reason)
        )
    return tuple(worked_examples)


# --- actions


def do(log: EventLog, worker: Annotator, act: Act) -> bool:
    """Perform an action and write it to the file. Return False if the question is unknown or belongs to another
    annotator. Raise `InputError` for an invalid answer.

    Actions of annotators who left or were erased have no effect.
    """
    if worker.is_closed:
        return True
    state, is_between_batches = log.state, is_done(log, worker) and not worker.finished
    issued_question = state.issued.get(getattr(act, "assignment", None) or 0)
    if issued_question is not None and issued_question.worker is not worker:
        issued_question = None
    if issued_question is None and isinstance(act, Answer | Skip | Undo):
        return False
    match act:
        case Agree():
            if act.digest == digest_of(state.plan.texts.consent) and worker.agreed != act.digest:
                log.event("consent", worker=worker, digest=act.digest)
        case Decline():
            log.event("declined", worker=worker)
        case Begin():
            if not worker.begun:
                if not state.plan.texts.consent or worker.agreed is not None:
                    log.event("begun", worker=worker)
            elif is_between_batches and worker.batch < state.plan.annotators.batches:
                _begin_batch(log, worker)
        case Stop():
            if is_between_batches:
                log.event("finished", worker=worker)
        case Comment():
            if act.text.strip():
                log.event("comment", worker=worker, issued_question=issued_question, text=act.text[:LONGEST_COMMENT])
        case Answer() | Skip():
            assert issued_question is not None
            _write_answer(log, issued_question, act)
        case Undo():
            if worker.open and issued_question is worker.open[-1] and not worker.excluded:
                _undo(log, worker, issued_question)
    return True


def _write_answer(log: EventLog, issued_question: IssuedQuestion, act: Answer | Skip) -> None:
    """Write an answer or a refusal. A second answer to the same question has no effect."""
    aspects_answers_and_reasons = _checked_answers(log, issued_question, act)
    if issued_question.answer_role:
        return
    steady_now = log.clock.steady()
    is_lease_expired = issued_question.unit is not None and log.leases.get(issued_question.id, steady_now) <= steady_now
    answer_role, answered_at = _role_of_answer(log, issued_question), log.clock.wall()
    server_seconds = max(0.0, answered_at - issued_question.at)
    # The visible time that the page measured, at most the time that the server measured; None if invalid.
    visible_seconds = min(act.seconds, server_seconds) if act.seconds is not None and act.seconds >= 0 else None
    is_late_answer = int(is_lease_expired or issued_question.expired)
    judgment_rows = [
        JudgmentRow(
            log.next + aspect_index,
            issued_question.id,
            aspect,
            answer_role,
            answer,
            reason,
            visible_seconds,
            server_seconds,
            answered_at,
            is_late_answer,
        )
        for aspect_index, (aspect, answer, reason) in enumerate(aspects_answers_and_reasons)
    ]
    log.leases.pop(issued_question.id, None)
    log.add_rows(*judgment_rows)
    worker = issued_question.worker
    # Only control questions end participation automatically.
    may_exclude = issued_question.role in ("gold", "attention") and not worker.excluded
    if may_exclude and fails_control_questions(worker.work):
        exclude(log, worker, by="rule", reason="known comparisons")


def _role_of_answer(log: EventLog, issued_question: IssuedQuestion) -> str:
    """Return the role of an answer. A primary answer becomes a second opinion in three cases: its unit was assigned to
    other annotators in the meantime, the study is stopped, or the annotator is excluded."""
    if issued_question.role != "primary" or issued_question.unit is None:
        return issued_question.role
    state = log.state
    is_held_or_free_unit = issued_question.holds or state.assignments.is_free(issued_question.unit)
    return (
        "primary"
        if is_held_or_free_unit and state.control != "stopped" and not issued_question.worker.excluded
        else "second"
    )


def _checked_answers(
    log: EventLog, issued_question: IssuedQuestion, act: Answer | Skip
) -> list[tuple[str, float | None, str]]:
    """Return the answer to every aspect, from the view of the first system of the pair, or the reason of a refusal.
    Raise `InputError` for an answer that is missing or not allowed."""
    question_plan = log.state.plan.question
    if isinstance(act, Skip):
        if act.reason not in SKIPPING:
            raise InputError(f"reason {short_repr(act.reason)} is not allowed; allowed: {join_labels(SKIPPING)}")
        return [(aspect, None, act.reason) for aspect in question_plan.aspects]
    missing_aspects = [aspect for aspect in question_plan.aspects if aspect not in act.values]
    if missing_aspects:
        raise InputError(f"no answer for {join_labels(missing_aspects) or 'the question'}; answer every aspect")
    lowest_rating, highest_rating = question_plan.scale
    allowed_preferences = (1, 0, -1) if question_plan.equal else (1, -1)
    allowed_answers = range(lowest_rating, highest_rating + 1) if question_plan.mode == "rate" else allowed_preferences
    reject(
        *(
            (
                act.values[aspect] not in allowed_answers,
                f"answer {short_repr(act.values[aspect])} is not allowed; allowed: "
                f"{join_labels(allowed_answers, limit=11)}",
            )
            for aspect in question_plan.aspects
        ),
        error=InputError,
    )
    side_sign = -1 if issued_question.flip else 1
    return [(aspect, float(side_sign * act.values[aspect]), "") for aspect in question_plan.aspects]


def _undo(log: EventLog, worker: Annotator, current_question: IssuedQuestion) -> None:
    """Assign the previous question again. The earlier answer no longer counts."""
    previous_question = undoable_question(log, current_question)
    if previous_question is None:
        return
    unit = previous_question.unit
    analysis_index = None if unit is None else log.state.assignments.engine.look[unit.pair]
    question_role = "second" if previous_question.answer_role == "second" else previous_question.role
    next_question = NextQuestion(
        question_role, unit, previous_question.gold, previous_question.flip, analysis_index, p_role=None, p_pair=None
    )
    _assign_question(log, worker, next_question, withdrawn_question=previous_question)


def exclude(log: EventLog, worker: Annotator, *, by: str, reason: str) -> None:
    """Exclude an annotator. The answers in incomplete interim analyses no longer count, and the annotator gets no more
    questions."""
    log.add_rows(ExclusionRow(log.next, worker.id, by, reason, log.clock.wall()))
