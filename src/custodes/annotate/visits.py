"""What a visit of an annotator shows now, and what the annotator may do there."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from dataclasses import replace
from random import Random
from statistics import median

from custodes.annotate import assignment_policy
from custodes.annotate.assignment_policy import NextQuestion
from custodes.annotate.event_log import LONGEST_LEASE, EventLog, length
from custodes.annotate.participants import Assignment, Session, Worker
from custodes.annotate.quality_control import Standing, standing
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
    Done,
    Example,
    Instructions,
    Mark,
    Paused,
    Side,
    Skip,
    Stop,
    Undo,
    View,
    Wait,
)
from custodes.errors import InputError, listed, shown

WAIT, SOONEST = 20, 5
"""Seconds until one asks again, and at least."""
AN_HOUR = 3600.0
"""That somebody with a link of their own waits for another look: nobody pays by the code, and each is needed."""


def view_of(log: EventLog, session: Session) -> View:
    """The page of a session. A question that is there stays."""
    state, worker = log.state, session.worker
    for given in session.open:
        log.renew(given)
    log.expire()
    if worker.forgotten:
        return Done(why="erased", code=None, answers=worker.work.answers)
    for why, is_so in (
        ("blocked", worker.excluded and worker.by == "rule"),
        ("excluded", worker.excluded),
        ("left", session.declined and worker.work.paid > 0),
        ("declined", session.declined),
        ("failed", worker.qualified is False),
        ("finished", session.finished),
        ("stopped", state.control == "stopped"),
    ):
        if is_so:
            return _done(log, session, why)
    if state.control == "paused":
        return Paused()
    if state.plan.texts.consent and session.agreed != digest_of(state.plan.texts.consent):
        return Consent(digest=digest_of(state.plan.texts.consent))
    if not session.begun:
        return Instructions(examples=examples_of(log.base))
    if session.open:
        return _ask(log, session.open[-1])
    return _next(log, session)


def digest_of(text: str) -> str:
    """What says that a text is this one."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _next(log: EventLog, session: Session) -> View:
    """Go on: the qualification, a batch, a break, or the end."""
    state, worker = log.state, session.worker
    people = state.plan.people
    if worker.qualified is None and people.qualification:
        if worker.work.trained < people.qualification:
            given = _give(log, session, assignment_policy.known(state, session, "qualification", _random(log, session)))
            if given is not None:
                return _ask(log, given)
        passed = worker.work.training_right >= people.passed
        log.event("qualified", session=session, passed=passed)
        if not passed:
            return _done(log, session, "failed")
    if session.batch == 0:
        if worker.batches >= people.batches:
            return _done(log, session, "finished")
        begin_batch(log, session)
    if session.number >= people.batch:
        if worker.batches >= people.batches or not _is_open(log):
            return _done(log, session, "finished")
        return Break(batches=worker.batches, answers=worker.work.paid)
    if not _is_open(log):
        return _ended(log, session)
    given = _give(log, session, _choice(log, session))
    return _ended(log, session) if given is None else _ask(log, given)


def begin_batch(log: EventLog, session: Session) -> None:
    """A batch begins; the places of known comparisons in it are drawn."""
    batch = session.worker.batches + 1
    known = assignment_policy.schedule(log.state, batch, Random(f"{log.state.plan.seed} batch {session.id} {batch}"))
    log.event("batch", session=session, batch=batch, known=known)


def is_done(log: EventLog, session: Session) -> bool:
    """Whether a batch of a visit has its answers, and no other has begun."""
    return session.batch > 0 and session.number >= log.state.plan.people.batch and not session.open


def _is_open(log: EventLog) -> bool:
    return any(log.state.assignments.engine.is_open)


def _choice(log: EventLog, session: Session) -> NextQuestion | None:
    state, rng = log.state, _random(log, session)
    if (kind := session.known.get(session.number + 1)) is not None:
        choice = assignment_policy.known(state, session, kind, rng)
        if choice is not None:
            return choice
    choice = assignment_policy.real(state, session, rng)
    if choice is None and state.assignments.holding and assignment_policy.has_room_known(state, session.worker):
        return assignment_policy.known(state, session, "gold", rng)
    return choice


def _random(log: EventLog, session: Session) -> Random:
    return Random(f"{log.state.plan.seed} {session.id} {log.next}")


def _give(log: EventLog, session: Session, choice: NextQuestion | None) -> Assignment | None:
    if choice is None:
        return None
    is_training = choice.role == "qualification"
    row = AssignmentRow(
        assignment=log.next,
        session=session.id,
        batch=0 if is_training else session.batch,
        number=session.number + 1,
        unit=None if choice.unit is None else choice.unit.id,
        gold=choice.gold,
        role=choice.role,
        flip=choice.flip,
        look=choice.look,
        again=None,
        at=log.clock.wall(),
        eligible=choice.eligible,
        p_role=choice.p_role,
        p_pair=choice.p_pair,
        policy=choice.policy,
    )
    log.put(row)
    log.waiting.pop(session.id, None)
    given = log.state.given[row.assignment]
    if given.unit is not None:
        log.keep(given, log.clock.steady())
    return given


def _ended(log: EventLog, session: Session) -> View:
    """Nothing for this person now: others may give something back, or that was it."""
    if _is_open(log) and _is_anybody_at_work(log, session):
        now, first = log.clock.steady(), log.leases.first()
        if now - log.waiting.setdefault(session.id, now) < _patience(log, session.worker):
            left = WAIT if first is None else first - now
            return Wait(seconds=int(min(WAIT, max(SOONEST, left))))
    log.waiting.pop(session.id, None)
    return replace(_done(log, session, "no-work"), later=_is_open(log) and log.state.plan.people.recruit == "links")


def _is_anybody_at_work(log: EventLog, session: Session) -> bool:
    """Whether others have a question of any kind before them: also after a known one they go on with the look."""
    return any(
        not given.expired and not other.worker.excluded
        for other in log.state.sessions.values()
        if other is not session
        for given in other.open
    )


def _patience(log: EventLog, worker: Worker) -> float:
    """Seconds that somebody waits at most: the longest lease (with a link, an hour) where another look may begin, that
    of a question now where others could only give one back, none where this person has had their share."""
    state, engine = log.state, log.state.assignments.engine
    if any(map(engine.goes_on, range(len(engine.is_open)))):
        return AN_HOUR if state.plan.people.recruit == "links" else LONGEST_LEASE
    return length(state.paces, is_new=False) if assignment_policy.below_cap(state, worker) else 0.0


def _done(log: EventLog, session: Session, why: str) -> Done:
    """The end, with a code that is drawn once."""
    if why not in session.codes and why != "declined":
        log.event("code", session=session, why=why, code=secrets.token_hex(4).upper())
    return Done(why=why, code=session.codes.get(why), answers=session.worker.work.paid)


def can_undo(log: EventLog, session: Session, before: Assignment | None = None) -> Assignment | None:
    """The answer that may be taken back: the last one of this batch, while the look that it belongs to is asked."""
    assignments = log.state.assignments
    for given in sorted(session.answered, key=lambda own: own.number, reverse=True):
        if before is not None and given.number >= before.number:
            continue
        if given.unit is None or given.counts == "second":
            return given
        unit = assignments.units[given.unit]
        stands = assignments.is_present(unit) and (given.value is not None or not assignments.is_settled(unit))
        return given if stands else None
    return None


def _ask(log: EventLog, given: Assignment) -> Ask:
    state, base, session = log.state, log.base, given.session
    if given.unit is None:
        context, first, second, named = base.execute(
            "SELECT context, first, second, media FROM gold WHERE gold = ?", (given.gold,)
        ).fetchone()
        media = json.loads(named) if named else {}
        shown = Side(html=context, media=_names(media, "context"))
        sides = [Side(html=first, media=_names(media, "first")), Side(html=second, media=_names(media, "second"))]
    else:
        unit = state.assignments.units[given.unit]
        html, named = base.execute("SELECT html, media FROM item WHERE item = ?", (unit.item,)).fetchone()
        shown = Side(html=html, media=tuple(json.loads(named)))
        rows = base.execute(
            "SELECT o.html, o.media FROM pair p JOIN output o ON o.item = ? AND o.system IN (p.first, p.second)"
            " WHERE p.pair = ? ORDER BY o.system <> p.first",
            (unit.item, state.assignments.numbers[unit.pair]),
        )
        sides = [Side(html=own, media=tuple(json.loads(names))) for own, names in rows]
    if state.plan.question.mode == "rate":
        sides = sides[:1]
    people, is_training = state.plan.people, given.role == "qualification"
    return Ask(
        assignment=given.id,
        number=given.number,
        of=people.qualification if is_training else people.batch,
        context=shown,
        sides=tuple(reversed(sides) if given.flip else sides),
        given=_before(log, given),
        can_undo=can_undo(log, session, given) is not None,
        training=is_training,
    )


def _names(media: object, part: str) -> tuple[str, ...]:
    """Images of a part of a known comparison."""
    return tuple(media.get(part, ())) if isinstance(media, dict) else ()


def _before(log: EventLog, given: Assignment) -> dict[str, int]:
    """What was answered before it was taken back, as it was shown."""
    if given.again is None:
        return {}
    rows = log.base.execute("SELECT aspect, answer FROM judgment WHERE assignment = ?", (given.again,))
    sign = -1 if given.flip else 1
    return {aspect: int(answer) * sign for aspect, answer in rows if answer is not None}


def examples_of(base: sqlite3.Connection) -> tuple[Example, ...]:
    """Worked examples, in the order in which they were given."""
    rows = base.execute(
        "SELECT context, first, second, media, expected, why FROM gold WHERE kind = 'example' ORDER BY gold"
    )
    return tuple(_example(*row) for row in rows)


def _example(context: str, first: str, second: str, named: str, expected: int, why: str) -> Example:
    media = json.loads(named) if named else {}
    sides = (Side(html=first, media=_names(media, "first")), Side(html=second, media=_names(media, "second")))
    return Example(context=Side(html=context, media=_names(media, "context")), sides=sides, expected=expected, why=why)


SKIPPING = ("language", "broken", "offensive", "other")
LONGEST_COMMENT = 5000
"""Characters of a comment that are kept."""


def do(log: EventLog, session: Session, act: Act) -> bool:
    """Write what was done; whether it was anything of this session. `InputError` for what cannot be said.
    Of somebody who left or is forgotten nothing is written."""
    if session.is_closed:
        return True
    match act:
        case Agree():
            if act.digest == digest_of(log.state.plan.texts.consent) and session.agreed != act.digest:
                log.event("consent", session=session, digest=act.digest, form=dict(act.form))
        case Decline():
            log.event("declined", session=session)
        case Begin():
            _begin(log, session)
        case Stop():
            if is_done(log, session) and not session.finished:
                log.event("finished", session=session)
        case Comment():
            given = None if act.assignment is None else _own(log, session, act.assignment)
            if act.text.strip():
                log.event("comment", session=session, given=given, text=act.text[:LONGEST_COMMENT])
        case Mark():
            given = _own(log, session, act.assignment)
            if given is None:
                return False
            if log.state.plan.texts.differences:
                log.event("marked", session=session, given=given)
        case Answer() | Skip():
            given = _own(log, session, act.assignment)
            if given is None:
                return False
            _say(log, given, act)
        case Undo():
            given = _own(log, session, act.assignment)
            if given is None:
                return False
            if session.open and given is session.open[-1] and not session.worker.excluded:
                _undo(log, session, given)
    return True


def _own(log: EventLog, session: Session, number: int) -> Assignment | None:
    """A question of this session; another's is as unknown as none."""
    given = log.state.given.get(number)
    return given if given is not None and given.session is session else None


def _begin(log: EventLog, session: Session) -> None:
    state, worker = log.state, session.worker
    if not session.begun:
        if not state.plan.texts.consent or session.agreed is not None:
            log.event("begun", session=session)
        return
    if is_done(log, session) and not session.finished and worker.batches < state.plan.people.batches:
        begin_batch(log, session)


def _say(log: EventLog, given: Assignment, act: Answer | Skip) -> None:
    """Write an answer, or that there is none; a second one to the same question changes nothing."""
    said = _skipped(log, act) if isinstance(act, Skip) else _said(log, given, act)
    if given.counts or given.is_void:
        return
    late = given.unit is not None and not log.leases.is_kept(given.id, log.clock.steady())
    role, at = _counts(log, given), log.clock.wall()
    took = max(0.0, at - given.at)
    rows = [
        JudgmentRow(
            judgment=log.next + k,
            assignment=given.id,
            aspect=aspect,
            role=role,
            answer=value,
            reason=reason,
            visible_seconds=_visible(act.seconds, took),
            server_seconds=took,
            at=at,
            late=int(late or given.expired),
        )
        for k, (aspect, value, reason) in enumerate(said)
    ]
    log.leases.end(given.id)
    log.put(*rows)
    if given.role in ("gold", "attention"):
        _judge(log, given.session.worker)


def _visible(claimed: float | None, took: float) -> float | None:
    """Seconds that a question was visible: what the page claims, within what it took; None where that is no time."""
    return min(claimed, took) if claimed is not None and claimed >= 0 else None


def _counts(log: EventLog, given: Assignment) -> str:
    """What an answer counts as: a primary one that came late does if nobody else has the unit by now."""
    if given.role != "primary" or given.unit is None:
        return given.role
    state = log.state
    is_free = given.holds or state.assignments.is_free(state.assignments.units[given.unit])
    return "primary" if is_free and state.control != "stopped" and not given.session.worker.excluded else "second"


def _skipped(log: EventLog, act: Skip) -> list[tuple[str, float | None, str]]:
    if act.reason not in SKIPPING:
        raise InputError(f"reason {shown(act.reason)}: allowed are {listed(SKIPPING)}")
    return [(aspect, None, act.reason) for aspect in log.state.plan.question.aspects]


def _said(log: EventLog, given: Assignment, act: Answer) -> list[tuple[str, float | None, str]]:
    """An answer in every aspect, for the pair's first system; `InputError` for what was not asked."""
    question = log.state.plan.question
    missing = [aspect for aspect in question.aspects if aspect not in act.values]
    if missing:
        raise InputError(f"no answer for {listed(missing) or 'the question'}; every aspect needs one")
    low, high = question.scale
    compared = (1, 0, -1) if question.equal else (1, -1)
    allowed = range(low, high + 1) if question.mode == "rate" else compared
    said: list[tuple[str, float | None, str]] = []
    for aspect in question.aspects:
        value = act.values[aspect]
        if value not in allowed:
            raise InputError(f"answer {shown(value)}: allowed are {listed(allowed, limit=11)}")
        reason = "both bad" if act.both_bad and question.both_bad and value == 0 else ""
        said.append((aspect, float(-value if given.flip else value), reason))
    return said


def _undo(log: EventLog, session: Session, before: Assignment) -> None:
    """Ask the last question once more; what was said does not count any more."""
    last = can_undo(log, session, before)
    if last is None:
        return
    row = AssignmentRow(
        assignment=log.next,
        session=session.id,
        batch=last.batch,
        number=last.number,
        unit=last.unit,
        gold=last.gold,
        role="second" if last.counts == "second" else last.role,
        flip=last.flip,
        look=None
        if last.unit is None
        else log.state.assignments.engine.look[log.state.assignments.units[last.unit].pair],
        again=last.id,
        at=log.clock.wall(),
        eligible=None,
        p_role=None,
        p_pair=None,
        policy="again",
    )
    log.put(row)
    given = log.state.given[row.assignment]
    if given.unit is not None:
        log.keep(given, log.clock.steady())


def _judge(log: EventLog, worker: Worker) -> None:
    """Known answers alone may end a person's work; whom the owner let back in stays."""
    if worker.excluded or worker.by == "owner":
        return
    if standing_of(log, worker, typical=None, people=people_of(log)).name == "blocked":
        exclude(log, worker, by="rule", reason="known comparisons")


def exclude(log: EventLog, worker: Worker, *, by: str, reason: str) -> None:
    """Somebody's answers do not count any more, and nothing is asked of him."""
    log.put(ExclusionRow(log.next, worker.id, 1, by, reason, log.clock.wall()))


def restore(log: EventLog, worker: Worker, *, by: str = "owner") -> None:
    """They count again, as far as nobody answered in his place."""
    for given in log.put(ExclusionRow(log.next, worker.id, 0, by, "", log.clock.wall())):
        log.event("second", session=given.session, given=given)


def people_of(log: EventLog) -> int:
    """How many have answered."""
    return max(1, sum(own.work.answers > 0 for own in log.state.workers.values()))


def standing_of(log: EventLog, worker: Worker, *, typical: float | None, people: int) -> Standing:
    """How a person stands among so many; `typical`: the visible seconds that an answer takes in this
    study."""
    work, totals = worker.work, log.state.totals
    others = totals.answers - work.answers
    return standing(
        right=work.right,
        asked=work.asked,
        seconds=median(work.times) if work.times else None,
        timed=len(work.times),
        typical=typical,
        first=work.first_shown,
        decided=work.decided,
        equal=work.equal,
        answers=work.answers,
        refused=work.refused,
        equal_share=(totals.equal - work.equal) / others if others else 0.0,
        people=people,
    )
