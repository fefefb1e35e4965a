"""What a session shows now; where nothing is before the person, a question is given out."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from dataclasses import replace
from random import Random

from custodes.annotate import policy
from custodes.annotate.leases import LONGEST, length
from custodes.annotate.ledger import Ledger
from custodes.annotate.people import Given, Session, Worker
from custodes.annotate.policy import Choice
from custodes.annotate.records import AssignmentRow
from custodes.annotate.session import Ask, Break, Consent, Done, Example, Instructions, Paused, Side, View, Wait

WAIT, SOONEST = 20, 5
"""Seconds until one asks again, and at least."""
AN_HOUR = 3600.0
"""That somebody with a link of their own waits for another look: nobody pays by the code, and each is needed."""


def view_of(ledger: Ledger, session: Session) -> View:
    """The page of a session. A question that is there stays."""
    book, worker = ledger.book, session.worker
    for given in session.open:
        ledger.renew(given)
    ledger.expire()
    if worker.forgotten:
        return Done(why="erased", code=None, answers=worker.work.answers, params={})
    for why, is_so in (
        ("blocked", worker.excluded and worker.by == "rule"),
        ("excluded", worker.excluded),
        ("left", session.declined and worker.work.paid > 0),
        ("declined", session.declined),
        ("failed", worker.qualified is False),
        ("finished", session.finished),
        ("stopped", book.control == "stopped"),
    ):
        if is_so:
            return _done(ledger, session, why)
    if book.control == "paused":
        return Paused()
    if book.plan.texts.consent and session.agreed != digest_of(book.plan.texts.consent):
        return Consent(digest=digest_of(book.plan.texts.consent))
    if not session.begun:
        return Instructions(examples=examples_of(ledger.base))
    if session.open:
        return _ask(ledger, session.open[-1])
    return _next(ledger, session)


def digest_of(text: str) -> str:
    """What says that a text is this one."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _next(ledger: Ledger, session: Session) -> View:
    """Go on: the qualification, a batch, a break, or the end."""
    book, worker = ledger.book, session.worker
    people = book.plan.people
    if worker.qualified is None and people.qualification:
        if worker.work.trained < people.qualification:
            given = _give(ledger, session, policy.known(book, session, "qualification", _random(ledger, session)))
            if given is not None:
                return _ask(ledger, given)
        passed = worker.work.training_right >= people.passed
        ledger.event("qualified", session=session, passed=passed)
        if not passed:
            return _done(ledger, session, "failed")
    if session.batch == 0:
        if worker.batches >= people.batches:
            return _done(ledger, session, "finished")
        begin_batch(ledger, session)
    if session.number >= people.batch:
        if worker.batches >= people.batches or not _is_open(ledger):
            return _done(ledger, session, "finished")
        return Break(batches=worker.batches, answers=worker.work.paid)
    if not _is_open(ledger):
        return _ended(ledger, session)
    given = _give(ledger, session, _choice(ledger, session))
    return _ended(ledger, session) if given is None else _ask(ledger, given)


def begin_batch(ledger: Ledger, session: Session) -> None:
    """A batch begins; the places of known comparisons in it are drawn."""
    batch = session.worker.batches + 1
    known = policy.schedule(ledger.book, batch, Random(f"{ledger.book.plan.seed} batch {session.id} {batch}"))
    ledger.event("batch", session=session, batch=batch, known=known)


def is_done(ledger: Ledger, session: Session) -> bool:
    """Whether a batch of a visit has its answers, and no other has begun."""
    return session.batch > 0 and session.number >= ledger.book.plan.people.batch and not session.open


def _is_open(ledger: Ledger) -> bool:
    return any(ledger.book.ballots.engine.is_open)


def _choice(ledger: Ledger, session: Session) -> Choice | None:
    book, rng = ledger.book, _random(ledger, session)
    if (kind := session.known.get(session.number + 1)) is not None:
        choice = policy.known(book, session, kind, rng)
        if choice is not None:
            return choice
    choice = policy.real(book, session, rng)
    if choice is None and book.ballots.holding and policy.has_room_known(book, session.worker):
        return policy.known(book, session, "gold", rng)
    return choice


def _random(ledger: Ledger, session: Session) -> Random:
    return Random(f"{ledger.book.plan.seed} {session.id} {ledger.next}")


def _give(ledger: Ledger, session: Session, choice: Choice | None) -> Given | None:
    if choice is None:
        return None
    is_training = choice.role == "qualification"
    row = AssignmentRow(
        assignment=ledger.next,
        session=session.id,
        batch=0 if is_training else session.batch,
        number=session.number + 1,
        unit=None if choice.unit is None else choice.unit.id,
        gold=choice.gold,
        role=choice.role,
        flip=choice.flip,
        look=choice.look,
        again=None,
        at=ledger.clock.wall(),
        eligible=choice.eligible,
        p_role=choice.p_role,
        p_pair=choice.p_pair,
        policy=choice.policy,
    )
    ledger.put(row)
    ledger.waiting.pop(session.id, None)
    given = ledger.book.given[row.assignment]
    if given.unit is not None:
        ledger.keep(given, ledger.clock.steady())
    return given


def _ended(ledger: Ledger, session: Session) -> View:
    """Nothing for this person now: others may give something back, or that was it."""
    if _is_open(ledger) and _is_anybody_at_work(ledger, session):
        now, first = ledger.clock.steady(), ledger.leases.first()
        if now - ledger.waiting.setdefault(session.id, now) < _patience(ledger, session.worker):
            left = WAIT if first is None else first - now
            return Wait(seconds=int(min(WAIT, max(SOONEST, left))))
    ledger.waiting.pop(session.id, None)
    return replace(
        _done(ledger, session, "no-work"), later=_is_open(ledger) and ledger.book.plan.people.recruit == "links"
    )


def _is_anybody_at_work(ledger: Ledger, session: Session) -> bool:
    """Whether others have a question of any kind before them: also after a known one they go on with the look."""
    return any(
        not given.expired and not other.worker.excluded
        for other in ledger.book.sessions.values()
        if other is not session
        for given in other.open
    )


def _patience(ledger: Ledger, worker: Worker) -> float:
    """Seconds that somebody waits at most: the longest lease (with a link, an hour) where another look may begin, that
    of a question now where others could only give one back, none where this person has had their share."""
    book, engine = ledger.book, ledger.book.ballots.engine
    if any(map(engine.goes_on, range(len(engine.is_open)))):
        return AN_HOUR if book.plan.people.recruit == "links" else LONGEST
    return length(book.paces, is_new=False) if policy.below_cap(book, worker) else 0.0


def _done(ledger: Ledger, session: Session, why: str) -> Done:
    """The end, with a code that is drawn once."""
    if why not in session.codes and why != "declined":
        ledger.event("code", session=session, why=why, code=secrets.token_hex(4).upper())
    return Done(why=why, code=session.codes.get(why), answers=session.worker.work.paid, params=dict(session.params))


def can_undo(ledger: Ledger, session: Session, before: Given | None = None) -> Given | None:
    """The answer that may be taken back: the last one of this batch, while the look that it belongs to is asked."""
    ballots = ledger.book.ballots
    for given in sorted(session.answered, key=lambda own: own.number, reverse=True):
        if before is not None and given.number >= before.number:
            continue
        if given.unit is None or given.counts == "second":
            return given
        unit = ballots.units[given.unit]
        stands = ballots.is_present(unit) and (given.value is not None or not ballots.is_settled(unit))
        return given if stands else None
    return None


def _ask(ledger: Ledger, given: Given) -> Ask:
    book, base, session = ledger.book, ledger.base, given.session
    if given.unit is None:
        context, first, second, named = base.execute(
            "SELECT context, first, second, media FROM gold WHERE gold = ?", (given.gold,)
        ).fetchone()
        media = json.loads(named) if named else {}
        shown = Side(html=context, media=_names(media, "context"))
        sides = [Side(html=first, media=_names(media, "first")), Side(html=second, media=_names(media, "second"))]
    else:
        unit = book.ballots.units[given.unit]
        html, named = base.execute("SELECT html, media FROM item WHERE item = ?", (unit.item,)).fetchone()
        shown = Side(html=html, media=tuple(json.loads(named)))
        rows = base.execute(
            "SELECT o.html, o.media FROM pair p JOIN output o ON o.item = ? AND o.system IN (p.first, p.second)"
            " WHERE p.pair = ? ORDER BY o.system <> p.first",
            (unit.item, book.ballots.numbers[unit.pair]),
        )
        sides = [Side(html=own, media=tuple(json.loads(names))) for own, names in rows]
    if book.plan.question.mode == "rate":
        sides = sides[:1]
    people, is_training = book.plan.people, given.role == "qualification"
    return Ask(
        assignment=given.id,
        number=given.number,
        of=people.qualification if is_training else people.batch,
        context=shown,
        sides=tuple(reversed(sides) if given.flip else sides),
        given=_before(ledger, given),
        can_undo=can_undo(ledger, session, given) is not None,
        training=is_training,
    )


def _names(media: object, part: str) -> tuple[str, ...]:
    """Images of a part of a known comparison."""
    return tuple(media.get(part, ())) if isinstance(media, dict) else ()


def _before(ledger: Ledger, given: Given) -> dict[str, int]:
    """What was answered before it was taken back, as it was shown."""
    if given.again is None:
        return {}
    rows = ledger.base.execute("SELECT aspect, answer FROM judgment WHERE assignment = ?", (given.again,))
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
