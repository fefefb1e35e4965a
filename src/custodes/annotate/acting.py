"""What a person does: each act is checked, written once, and harmless when it comes again."""

from __future__ import annotations

from statistics import median

from custodes.annotate.ledger import Ledger
from custodes.annotate.people import Given, Session, Worker
from custodes.annotate.quality import Standing, standing
from custodes.annotate.records import AssignmentRow, ExclusionRow, JudgmentRow
from custodes.annotate.session import Act, Agree, Answer, Begin, Comment, Decline, Mark, Skip, Stop, Undo
from custodes.annotate.showing import begin_batch, can_undo, digest_of, is_done
from custodes.errors import InputError, listed, shown

SKIPPING = ("language", "broken", "offensive", "other")
LONGEST = 5000
"""Characters of a comment that are kept."""


def do(ledger: Ledger, session: Session, act: Act) -> bool:
    """Write what was done; whether it was anything of this session. `InputError` for what cannot be said.
    Of somebody who left or is forgotten nothing is written."""
    if session.is_closed:
        return True
    match act:
        case Agree():
            if act.digest == digest_of(ledger.book.plan.texts.consent) and session.agreed != act.digest:
                ledger.event("consent", session=session, digest=act.digest, form=dict(act.form))
        case Decline():
            ledger.event("declined", session=session)
        case Begin():
            _begin(ledger, session)
        case Stop():
            if is_done(ledger, session) and not session.finished:
                ledger.event("finished", session=session)
        case Comment():
            given = None if act.assignment is None else _own(ledger, session, act.assignment)
            if act.text.strip():
                ledger.event("comment", session=session, given=given, text=act.text[:LONGEST])
        case Mark():
            given = _own(ledger, session, act.assignment)
            if given is None:
                return False
            if ledger.book.plan.texts.differences:
                ledger.event("marked", session=session, given=given)
        case Answer() | Skip():
            given = _own(ledger, session, act.assignment)
            if given is None:
                return False
            _say(ledger, given, act)
        case Undo():
            given = _own(ledger, session, act.assignment)
            if given is None:
                return False
            if session.open and given is session.open[-1] and not session.worker.excluded:
                _undo(ledger, session, given)
    return True


def _own(ledger: Ledger, session: Session, number: int) -> Given | None:
    """A question of this session; another's is as unknown as none."""
    given = ledger.book.given.get(number)
    return given if given is not None and given.session is session else None


def _begin(ledger: Ledger, session: Session) -> None:
    book, worker = ledger.book, session.worker
    if not session.begun:
        if not book.plan.texts.consent or session.agreed is not None:
            ledger.event("begun", session=session)
        return
    if is_done(ledger, session) and not session.finished and worker.batches < book.plan.people.batches:
        begin_batch(ledger, session)


def _say(ledger: Ledger, given: Given, act: Answer | Skip) -> None:
    """Write an answer, or that there is none; a second one to the same question changes nothing."""
    said = _skipped(ledger, act) if isinstance(act, Skip) else _said(ledger, given, act)
    if given.counts or given.is_void:
        return
    late = given.unit is not None and not ledger.leases.is_kept(given.id, ledger.clock.steady())
    role, at = _counts(ledger, given), ledger.clock.wall()
    took = max(0.0, at - given.at)
    rows = [
        JudgmentRow(
            judgment=ledger.next + k,
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
    ledger.leases.end(given.id)
    ledger.put(*rows)
    if given.role in ("gold", "attention"):
        _judge(ledger, given.session.worker)


def _visible(claimed: float | None, took: float) -> float | None:
    """Seconds that a question was visible: what the page claims, within what it took; None where that is no time."""
    return min(claimed, took) if claimed is not None and claimed >= 0 else None


def _counts(ledger: Ledger, given: Given) -> str:
    """What an answer counts as: a primary one that came late does if nobody else has the unit by now."""
    if given.role != "primary" or given.unit is None:
        return given.role
    book = ledger.book
    is_free = given.holds or book.ballots.is_free(book.ballots.units[given.unit])
    return "primary" if is_free and book.control != "stopped" and not given.session.worker.excluded else "second"


def _skipped(ledger: Ledger, act: Skip) -> list[tuple[str, float | None, str]]:
    if act.reason not in SKIPPING:
        raise InputError(f"reason {shown(act.reason)}: allowed are {listed(SKIPPING)}")
    return [(aspect, None, act.reason) for aspect in ledger.book.plan.question.aspects]


def _said(ledger: Ledger, given: Given, act: Answer) -> list[tuple[str, float | None, str]]:
    """An answer in every aspect, for the pair's first system; `InputError` for what was not asked."""
    question = ledger.book.plan.question
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


def _undo(ledger: Ledger, session: Session, before: Given) -> None:
    """Ask the last question once more; what was said does not count any more."""
    last = can_undo(ledger, session, before)
    if last is None:
        return
    row = AssignmentRow(
        assignment=ledger.next,
        session=session.id,
        batch=last.batch,
        number=last.number,
        unit=last.unit,
        gold=last.gold,
        role="second" if last.counts == "second" else last.role,
        flip=last.flip,
        look=None if last.unit is None else ledger.book.ballots.engine.look[ledger.book.ballots.units[last.unit].pair],
        again=last.id,
        at=ledger.clock.wall(),
        eligible=None,
        p_role=None,
        p_pair=None,
        policy="again",
    )
    ledger.put(row)
    given = ledger.book.given[row.assignment]
    if given.unit is not None:
        ledger.keep(given, ledger.clock.steady())


def _judge(ledger: Ledger, worker: Worker) -> None:
    """Known answers alone may end a person's work; whom the owner let back in stays."""
    if worker.excluded or worker.by == "owner":
        return
    if standing_of(ledger, worker, typical=None, people=people_of(ledger)).name == "blocked":
        exclude(ledger, worker, by="rule", reason="known comparisons")


def exclude(ledger: Ledger, worker: Worker, *, by: str, reason: str) -> None:
    """Somebody's answers do not count any more, and nothing is asked of him."""
    ledger.put(ExclusionRow(ledger.next, worker.id, 1, by, reason, ledger.clock.wall()))


def restore(ledger: Ledger, worker: Worker, *, by: str = "owner") -> None:
    """They count again, as far as nobody answered in his place."""
    for given in ledger.put(ExclusionRow(ledger.next, worker.id, 0, by, "", ledger.clock.wall())):
        ledger.event("second", session=given.session, given=given)


def people_of(ledger: Ledger) -> int:
    """How many have answered."""
    return max(1, sum(own.work.answers > 0 for own in ledger.book.workers.values()))


def standing_of(ledger: Ledger, worker: Worker, *, typical: float | None, people: int) -> Standing:
    """How a person stands among so many; `typical`: the visible seconds that an answer takes in this
    study."""
    work, totals = worker.work, ledger.book.totals
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
