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
from random import Random

from custodes.annotate import assignment_policy
from custodes.annotate.assignment_policy import NextQuestion
from custodes.annotate.event_log import LONGEST_LEASE, EventLog, length
from custodes.annotate.participants import Annotator, IssuedQuestion, Session
from custodes.annotate.quality_control import annotator_standing
from custodes.annotate.rows import AssignmentRow, ExclusionRow, JudgmentRow
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
    Mark,
    Side,
    Skip,
    Stop,
    StudyPause,
    Undo,
    View,
    VisitEnd,
    Wait,
)
from custodes.errors import InputError, join_labels, short_repr

WAIT, SOONEST = 20, 5
"""Maximum and minimum seconds until a waiting page reloads."""
AN_HOUR = 3600.0
"""Maximum seconds that an annotator with a personal link waits for the next interim analysis. Such an annotator waits
long, because each invited annotator is needed and no platform expects a completion code."""
SKIPPING = ("language", "broken", "offensive", "other")
LONGEST_COMMENT = 5000
"""Maximum number of characters of a comment. Further characters are not stored."""


def view_of(log: EventLog, session: Session) -> View:
    """Return the current page of a session. An open question is displayed again."""
    state, worker = log.state, session.worker
    for issued in session.open:
        log.renew(issued)
    log.expire()
    if worker.forgotten:
        return VisitEnd(why="erased", code=None, answers=worker.work.answers)
    for why, applies in (
        ("blocked", worker.excluded and worker.by == "rule"),
        ("excluded", worker.excluded),
        ("left", session.declined and worker.work.paid > 0),
        ("declined", session.declined),
        ("failed", worker.qualified is False),
        ("finished", session.finished),
        ("stopped", state.control == "stopped"),
    ):
        if applies:
            return _done(log, session, why)
    if state.control == "paused":
        return StudyPause()
    if state.plan.texts.consent and session.agreed != digest_of(state.plan.texts.consent):
        return Consent(digest=digest_of(state.plan.texts.consent))
    if not session.begun:
        return Instructions(examples=examples_of(log.base))
    if session.open:
        return _ask(log, session.open[-1])
    return _next(log, session)


def digest_of(text: str) -> str:
    """Return the SHA-256 digest that identifies a text, a token or an id."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _next(log: EventLog, session: Session) -> View:
    """Return the next page: a qualification question, a question of the batch, a break, or the end."""
    state, worker, annotator_plan = log.state, session.worker, log.state.plan.annotators
    if worker.qualified is None and annotator_plan.qualification:
        if worker.work.trained < annotator_plan.qualification:
            next_question = assignment_policy.next_control_question(
                state, session, "qualification", _random(log, session)
            )
            if next_question is not None:
                return _ask(log, _give(log, session, next_question))
        has_passed = worker.work.training_right >= annotator_plan.passed
        log.event("qualified", session=session, passed=has_passed)
        if not has_passed:
            return _done(log, session, "failed")
    if session.batch == 0:
        if worker.batches >= annotator_plan.batches:
            return _done(log, session, "finished")
        _begin_batch(log, session)
    if session.number >= annotator_plan.batch:
        if worker.batches >= annotator_plan.batches or not _is_open(log):
            return _done(log, session, "finished")
        return Break(answers=worker.work.paid)
    next_question = _choice(log, session) if _is_open(log) else None
    return _idle_view(log, session) if next_question is None else _ask(log, _give(log, session, next_question))


def _begin_batch(log: EventLog, session: Session) -> None:
    """Begin a batch, and draw the positions of its control questions."""
    batch = session.worker.batches + 1
    rng = Random(f"{log.state.plan.seed} batch {session.id} {batch}")
    log.event("batch", session=session, batch=batch, known=assignment_policy.schedule(log.state, batch, rng))


def is_done(log: EventLog, session: Session) -> bool:
    """Whether the current batch of a visit is complete and the next batch has not begun."""
    return session.batch > 0 and session.number >= log.state.plan.annotators.batch and not session.open


def _is_open(log: EventLog) -> bool:
    return any(log.state.assignments.engine.is_open)


def _choice(log: EventLog, session: Session) -> NextQuestion | None:
    state, rng = log.state, _random(log, session)
    if (control_kind := session.known.get(session.number + 1)) is not None:
        next_question = assignment_policy.next_control_question(state, session, control_kind, rng)
        if next_question is not None:
            return next_question
    next_question = assignment_policy.next_real_question(state, session, rng)
    if next_question is not None or not assignment_policy.has_control_room(state, session.worker):
        return next_question
    has_held_question = any(issued.holds for visit in state.sessions.values() for issued in visit.open)
    return assignment_policy.next_control_question(state, session, "gold", rng) if has_held_question else None


def _random(log: EventLog, session: Session) -> Random:
    return Random(f"{log.state.plan.seed} {session.id} {log.next}")


def _give(
    log: EventLog, session: Session, next_question: NextQuestion, again: IssuedQuestion | None = None
) -> IssuedQuestion:
    """Assign a question, or assign the question `again` once more for a correction."""
    log.waiting.pop(session.id, None)
    batch, number = (session.batch, session.number + 1) if again is None else (again.batch, again.number)
    row = AssignmentRow(
        assignment=log.next,
        session=session.id,
        batch=0 if next_question.role == "qualification" else batch,
        number=number,
        unit=None if next_question.unit is None else next_question.unit.id,
        gold=next_question.gold,
        role=next_question.role,
        flip=next_question.flip,
        look=next_question.look,
        again=None if again is None else again.id,
        at=log.clock.wall(),
        p_role=next_question.p_role,
        p_pair=next_question.p_pair,
    )
    log.add_rows(row)
    issued = log.state.issued[row.assignment]
    if issued.unit is not None:
        log.keep(issued, log.clock.steady())
    return issued


def _idle_view(log: EventLog, session: Session) -> View:
    """Return the page of an annotator for whom no question is free. The annotator waits if questions may become free
    soon; otherwise the visit ends."""
    if _is_open(log) and _is_anybody_at_work(log, session):
        now, first_lease_end = log.clock.steady(), min(log.leases.values(), default=None)
        if now - log.waiting.setdefault(session.id, now) < _patience(log, session.worker):
            remaining_seconds = WAIT if first_lease_end is None else first_lease_end - now
            return Wait(seconds=int(min(WAIT, max(SOONEST, remaining_seconds))))
    log.waiting.pop(session.id, None)
    may_return_later = _is_open(log) and log.state.plan.annotators.recruit == "links"
    return replace(_done(log, session, "no-work"), later=may_return_later)


def _is_anybody_at_work(log: EventLog, session: Session) -> bool:
    """Whether another annotator has an open question. An open control question is included, because the annotator
    continues with questions of the analysis after it."""
    return any(
        not issued.expired and not visit.worker.excluded
        for visit in log.state.sessions.values()
        if visit is not session
        for issued in visit.open
    )


def _patience(log: EventLog, worker: Annotator) -> float:
    """Return the maximum waiting time in seconds. If another interim analysis may begin, the maximum is the longest
    lease, or an hour with personal links. If none may begin, only questions that other annotators leave unanswered can
    become free. The maximum is then the current length of a lease, or 0 if this annotator has reached the cap in all
    open pairs."""
    state, engine = log.state, log.state.assignments.engine
    if any(map(engine.goes_on, range(len(engine.is_open)))):
        return AN_HOUR if state.plan.annotators.recruit == "links" else LONGEST_LEASE
    return length(state.paces, is_new=False) if assignment_policy.pairs_below_cap(state, worker) else 0.0


def _done(log: EventLog, session: Session, why: str) -> VisitEnd:
    """Return the end of a visit. The completion code is drawn only once."""
    if why not in session.codes and why != "declined":
        log.event("code", session=session, why=why, code=secrets.token_hex(4).upper())
    return VisitEnd(why=why, code=session.codes.get(why), answers=session.worker.work.paid)


def can_undo(log: EventLog, session: Session, current_question: IssuedQuestion | None = None) -> IssuedQuestion | None:
    """Return the latest answered question of the batch (before `current_question`, if given) if its answer may be
    withdrawn, otherwise None. Answers to control questions and second opinions may always be withdrawn. A primary
    answer may be withdrawn while its interim analysis is incomplete, a refusal only until its unit is settled."""
    assignments = log.state.assignments
    for issued in sorted(session.answered, key=lambda question: question.number, reverse=True):
        if current_question is not None and issued.number >= current_question.number:
            continue
        if issued.unit is None or issued.counts == "second":
            return issued
        unit = assignments.units[issued.unit]
        is_replaceable = assignments.is_present(unit) and (issued.value is not None or not assignments.is_settled(unit))
        return issued if is_replaceable else None
    return None


def _ask(log: EventLog, issued: IssuedQuestion) -> Ask:
    state, base, question = log.state, log.base, log.state.plan.question
    sides: Iterable[Side]
    if issued.unit is None:
        query = "SELECT context, first, second, media FROM gold WHERE gold = ?"
        context, *sides = _control_sides(*base.execute(query, (issued.gold,)).fetchone())
    else:
        unit = state.assignments.units[issued.unit]
        html, images = base.execute("SELECT html, media FROM item WHERE item = ?", (unit.item,)).fetchone()
        context = Side(html=html, media=tuple(json.loads(images)))
        rows = base.execute(
            "SELECT o.html, o.media FROM pair p JOIN output o ON o.item = ? AND o.system IN (p.first, p.second)"
            " WHERE p.pair = ? ORDER BY o.system <> p.first",
            (unit.item, state.assignments.numbers[unit.pair]),
        )
        sides = [Side(html=html, media=tuple(json.loads(images))) for html, images in rows]
    if question.mode == "rate":
        sides = sides[:1]
    annotator_plan, is_training = state.plan.annotators, issued.role == "qualification"
    previous_answers: dict[str, int] = {}
    if issued.again is not None:  # the withdrawn answer, in displayed order
        rows = base.execute("SELECT aspect, answer FROM judgment WHERE assignment = ?", (issued.again,))
        sign = -1 if issued.flip else 1
        previous_answers = {aspect: int(answer) * sign for aspect, answer in rows if answer is not None}
    return Ask(
        assignment=issued.id,
        number=issued.number,
        of=annotator_plan.qualification if is_training else annotator_plan.batch,
        context=context,
        sides=tuple(reversed(sides) if issued.flip else sides),
        given=previous_answers,
        can_undo=can_undo(log, issued.session, issued) is not None,
        training=is_training,
    )


def _control_sides(context: str, first: str, second: str, images: str) -> list[Side]:
    """Return the context and the outputs of a control question."""
    images_of_part = json.loads(images) if images else {}
    html_of_part = {"context": context, "first": first, "second": second}
    return [Side(html=html, media=tuple(images_of_part.get(part_name, ()))) for part_name, html in html_of_part.items()]


def examples_of(base: sqlite3.Connection) -> tuple[Example, ...]:
    """Return the worked examples in the order in which they were given."""
    query = "SELECT expected, why, context, first, second, media FROM gold WHERE kind = 'example' ORDER BY gold"
    examples = []
    for expected, why, *texts_and_images in base.execute(query):
        context, *sides = _control_sides(*texts_and_images)
        examples.append(Example(context=context, sides=tuple(sides), expected=expected, why=why))
    return tuple(examples)


# --- actions


def do(log: EventLog, session: Session, act: Act) -> bool:
    """Perform an action and write it to the file. Return False if the question is unknown or belongs to another
    session. Raise `InputError` for an invalid answer.

    Actions of annotators who left or were erased have no effect.
    """
    if session.is_closed:
        return True
    state, issued, may_go_on = log.state, None, is_done(log, session) and not session.finished
    if isinstance(act, Answer | Skip | Undo | Mark | Comment) and act.assignment is not None:
        issued = state.issued.get(act.assignment)
        if issued is None or issued.session is not session:
            issued = None
            if not isinstance(act, Comment):
                return False
    match act:
        case Agree():
            if act.digest == digest_of(state.plan.texts.consent) and session.agreed != act.digest:
                log.event("consent", session=session, digest=act.digest)
        case Decline():
            log.event("declined", session=session)
        case Begin():
            if not session.begun:
                if not state.plan.texts.consent or session.agreed is not None:
                    log.event("begun", session=session)
            elif may_go_on and session.worker.batches < state.plan.annotators.batches:
                _begin_batch(log, session)
        case Stop():
            if may_go_on:
                log.event("finished", session=session)
        case Comment():
            if act.text.strip():
                log.event("comment", session=session, issued=issued, text=act.text[:LONGEST_COMMENT])
        case Mark():
            if state.plan.texts.differences:
                log.event("marked", session=session, issued=issued)
        case Answer() | Skip():
            assert issued is not None
            _answer(log, issued, act)
        case Undo():
            if session.open and issued is session.open[-1] and not session.worker.excluded:
                _undo(log, session, issued)
    return True


def _answer(log: EventLog, issued: IssuedQuestion, act: Answer | Skip) -> None:
    """Write an answer or a refusal. A second answer to the same question has no effect."""
    aspect_answers = _values(log, issued, act)
    if issued.counts or issued.is_void:
        return
    now = log.clock.steady()
    is_expired = issued.unit is not None and log.leases.get(issued.id, now) <= now
    role, answered_at = _role(log, issued), log.clock.wall()
    server_seconds = max(0.0, answered_at - issued.at)
    # The visible time that the page measured, at most the time that the server measured; None if invalid.
    visible_seconds = min(act.seconds, server_seconds) if act.seconds is not None and act.seconds >= 0 else None
    is_late_answer = int(is_expired or issued.expired)
    rows = [
        JudgmentRow(
            log.next + k,
            issued.id,
            aspect,
            role,
            value,
            reason,
            visible_seconds,
            server_seconds,
            answered_at,
            is_late_answer,
        )
        for k, (aspect, value, reason) in enumerate(aspect_answers)
    ]
    log.leases.pop(issued.id, None)
    log.add_rows(*rows)
    worker = issued.session.worker
    # Only control questions end participation automatically, except for annotators whom the owner readmitted.
    may_exclude = issued.role in ("gold", "attention") and not worker.excluded and worker.by != "owner"
    if (
        may_exclude
        and annotator_standing(worker.work, log.state.totals, typical=None, annotators=annotator_of(log)).name
        == "blocked"
    ):
        exclude(log, worker, by="rule", reason="known comparisons")


def _role(log: EventLog, issued: IssuedQuestion) -> str:
    """Return the role of an answer. A primary answer becomes a second opinion if others got its unit meanwhile, if the
    study is stopped, or if the annotator is excluded."""
    if issued.role != "primary" or issued.unit is None:
        return issued.role
    state = log.state
    is_held_or_free = issued.holds or state.assignments.is_free(state.assignments.units[issued.unit])
    return (
        "primary" if is_held_or_free and state.control != "stopped" and not issued.session.worker.excluded else "second"
    )


def _values(log: EventLog, issued: IssuedQuestion, act: Answer | Skip) -> list[tuple[str, float | None, str]]:
    """Return the answer to every aspect, from the view of the first system of the pair, or the reason of a refusal.
    Raise `InputError` for an answer that is missing or not allowed."""
    question = log.state.plan.question
    if isinstance(act, Skip):
        if act.reason not in SKIPPING:
            raise InputError(f"reason {short_repr(act.reason)} is not allowed; allowed: {join_labels(SKIPPING)}")
        return [(aspect, None, act.reason) for aspect in question.aspects]
    missing_aspects = [aspect for aspect in question.aspects if aspect not in act.values]
    if missing_aspects:
        raise InputError(f"no answer for {join_labels(missing_aspects) or 'the question'}; answer every aspect")
    low, high = question.scale
    preferences = (1, 0, -1) if question.equal else (1, -1)
    allowed = range(low, high + 1) if question.mode == "rate" else preferences
    values: list[tuple[str, float | None, str]] = []
    for aspect in question.aspects:
        value = act.values[aspect]
        if value not in allowed:
            raise InputError(f"answer {short_repr(value)} is not allowed; allowed: {join_labels(allowed, limit=11)}")
        reason = "both bad" if act.both_bad and question.both_bad and value == 0 else ""
        values.append((aspect, float(-value if issued.flip else value), reason))
    return values


def _undo(log: EventLog, session: Session, current_question: IssuedQuestion) -> None:
    """Assign the previous question again. Its earlier answer no longer counts."""
    previous = can_undo(log, session, current_question)
    if previous is None:
        return
    assignments = log.state.assignments
    unit = None if previous.unit is None else assignments.units[previous.unit]
    look = None if unit is None else assignments.engine.look[unit.pair]
    role = "second" if previous.counts == "second" else previous.role
    question = NextQuestion(role, unit, previous.gold, previous.flip, look, p_role=None, p_pair=None)
    _give(log, session, question, again=previous)


def exclude(log: EventLog, worker: Annotator, *, by: str, reason: str) -> None:
    """Exclude an annotator. The answers in incomplete interim analyses no longer count, and the annotator gets no more
    questions."""
    log.add_rows(ExclusionRow(log.next, worker.id, 1, by, reason, log.clock.wall()))


def restore(log: EventLog, worker: Annotator, *, by: str = "owner") -> None:
    """Readmit an annotator. Answers count again if they were not replaced; replaced answers become second opinions."""
    for issued in log.add_rows(ExclusionRow(log.next, worker.id, 0, by, "", log.clock.wall())):
        log.event("second", session=issued.session, issued=issued)


def annotator_of(log: EventLog) -> int:
    """Return the number of annotators with answers, but at least 1."""
    return max(1, sum(worker.work.answers > 0 for worker in log.state.workers.values()))
