"""The study as its owner sees it while it runs, from what is in memory."""

from __future__ import annotations

import sqlite3
from collections import Counter
from statistics import median

from custodes.annotate.acting import people_of, standing_of
from custodes.annotate.book import HALF_AN_HOUR, Book
from custodes.annotate.ledger import Ledger
from custodes.annotate.people import Worker
from custodes.annotate.quality import FEWEST
from custodes.annotate.reach import reach_of
from custodes.annotate.snapshot import PairNow, PersonNow, Snapshot
from custodes.evaluate.protocol.asking import Asking

LookNow = tuple[int | None, int, int, int, int, float | None, float | None, float | None]
UNSEEN: tuple[int, LookNow] = (0, (None, 0, 0, 0, 0, None, None, None))


def snapshot_of(ledger: Ledger, *, failing: str) -> Snapshot:
    """Decisions of completed looks, and what came in since then as a number only.

    `failing`: why nothing can be written, '' where it can.
    """
    book, totals = ledger.book, ledger.book.totals
    typical, people = _typical(book), people_of(ledger)
    last = book.last_answer
    return Snapshot(
        plan=book.plan,
        state=_state(book),
        failing=failing,
        pairs=_pairs(ledger),
        people=tuple(_person(ledger, own, typical, people) for own in book.workers.values()),
        answers=totals.answers,
        primary=totals.primary,
        second=totals.second,
        gold=totals.gold,
        refused=totals.refused,
        late=totals.late,
        paid=totals.paid,
        known=frozenset(kind for kind, _ in book.gold.values()),
        recent=0 if last is None else sum(at >= last - HALF_AN_HOUR for at in book.primaries),
        peeked=totals.peeked,
        comments=tuple(reversed(book.comments)),
        last_answer=last,
        quiet=None if last is None else max(0.0, ledger.clock.wall() - last),
        reach=reach_of(book),
    )


def _state(book: Book) -> str:
    """A study whose pairs are all closed is finished, until some are added."""
    asking = book.ballots.asking
    is_over = book.control == "open" and asking is not None and not any(asking.is_open)
    return "finished" if is_over else book.control


def _typical(book: Book) -> float | None:
    """The median of people's median visible seconds, each of `FEWEST` answers or more."""
    medians = [median(own.work.times) for own in book.workers.values() if len(own.work.times) >= FEWEST]
    return median(medians) if medians else None


def _pairs(ledger: Ledger) -> tuple[PairNow, ...]:
    book, base, ballots = ledger.book, ledger.base, ledger.book.ballots
    if ballots.asking is None:
        return ()
    engine, looks = ballots.asking, _last_looks(base)
    names = {
        pair: (first, second or "")
        for pair, first, second in base.execute(
            "SELECT p.pair, a.label, b.label FROM pair p JOIN system a ON a.system = p.first"
            " LEFT JOIN system b ON b.system = p.second"
        )
    }
    people = Counter(pair for own in book.workers.values() for pair in {ballots.units[n].pair for n in own.votes})
    in_all = len(engine.rule.looks) if isinstance(engine, Asking) else 0
    made = []
    for k, number in enumerate(ballots.numbers):
        done, (decision, n, wins, ties, losses, margin, low, high) = looks.get(number, UNSEEN)
        first, second = names[number]
        made.append(
            PairNow(
                first=first,
                second=second,
                answered=engine.n[k],
                wanted=engine.target[k],
                looks_done=done,
                looks=in_all,
                is_open=engine.is_open[k] and book.control != "stopped",
                decision=decision,
                n=n,
                wins=wins,
                ties=ties,
                losses=losses,
                margin=margin,
                low=low,
                high=high,
                impossible=ballots.impossible[k],
                people=people[k],
            )
        )
    return tuple(made)


def _last_looks(base: sqlite3.Connection) -> dict[int, tuple[int, LookNow]]:
    """By pair: how many looks there were, and what the last one said."""
    rows = base.execute("SELECT pair, decision, n, wins, ties, losses, margin, low, high FROM look ORDER BY pair, look")
    found: dict[int, tuple[int, LookNow]] = {}
    for pair, *said in rows:
        found[pair] = (found.get(pair, UNSEEN)[0] + 1, tuple(said))
    return found


def _person(ledger: Ledger, worker: Worker, typical: float | None, people: int) -> PersonNow:
    work, stands = worker.work, standing_of(ledger, worker, typical=typical, people=people)
    name = "excluded" if worker.by == "owner" else "blocked"
    if not worker.excluded:
        name = "watch" if stands.name == "blocked" else stands.name  # let back in by the owner
    codes = [code for session in worker.sessions for code in session.codes.values()]
    return PersonNow(
        worker=worker.id,
        label=worker.label,
        source=worker.source,
        external_id=worker.external_id,
        name=worker.name,
        began=any(session.begun for session in worker.sessions),
        answers=work.answers,
        batches=worker.batches,
        seconds=median(work.times) if work.times else None,
        gold_right=work.right,
        gold_asked=work.asked,
        first_shown=work.first_shown,
        decided=work.decided,
        equal=work.equal,
        agreed=work.agreed,
        doubled=work.doubled,
        refused=work.refused,
        standing=name,
        flags=stands.flags,
        code=codes[-1] if codes else None,
    )
