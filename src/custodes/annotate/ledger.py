"""Rows written and folded at once, so that the file and what is in memory say the same; and a study read back."""

from __future__ import annotations

import gc
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from custodes.annotate.book import Book
from custodes.annotate.clock import Clock
from custodes.annotate.leases import Leases, length
from custodes.annotate.looks import look_row
from custodes.annotate.people import Given, Session, Worker
from custodes.annotate.records import WRITING, EventRow, JudgmentRow, Row, happened
from custodes.data.loading.running import reason
from custodes.errors import CustodesError, InputError

LARGEST = 2**62
"""A number of what happened at most; SQLite's integers end at twice that."""


class Ledger:
    """A study that is open: its file, what is known of it, and who has what before him."""

    def __init__(self, base: sqlite3.Connection, clock: Clock) -> None:
        self.base, self.clock = base, clock
        self.book: Book
        self.leases: Leases
        self.waiting: dict[int, float]
        """Since when visits wait for a question, by a steady clock."""
        self.read()

    def read(self) -> None:
        """Know again what the file says, and no more; `InputError` where its rows do not fit together."""
        try:
            self._read()
        except (CustodesError, sqlite3.Error):
            raise
        except Exception as problem:  # rows that another program changed break any rule of how they fit together
            raise InputError(f"this study cannot be read ({reason(problem)}); put a backup in its place") from problem

    def _read(self) -> None:
        book = Book(self.base)
        looks = {
            (pair, look): (decision, bool(is_open))
            for pair, look, decision, is_open in self.base.execute("SELECT pair, look, decision, is_open FROM look")
        }
        ruled = 0
        with _all_kept():
            for rows in _together(happened(self.base)):
                book.put(rows)
                engine = book.ballots.asking
                if engine is not None and len(engine.rulings) > ruled:
                    ruled = _recalled(book, looks, ruled)
        if book.last > LARGEST:
            raise OverflowError("no number is left for what happens next")
        self.book, self.leases, self.waiting, self._ruled = book, Leases(), {}, ruled
        now = self.clock.steady()
        for session in self.book.sessions.values():
            for given in session.open:
                if given.unit is not None and not given.expired:
                    self.keep(given, now)

    def put(self, *rows: Row) -> list[Given]:
        """Write what happened, and the looks that it completed."""
        self.base.executemany(WRITING[type(rows[0])], rows)
        beside = self.book.put(rows)
        engine = self.book.ballots.asking
        if engine is not None and len(engine.rulings) > self._ruled:
            now = self.clock.wall()
            made = [
                look_row(ruling, pair=self.book.ballots.numbers[ruling.pair], at=now)
                for ruling in engine.rulings[self._ruled :]
            ]
            self.base.executemany("INSERT INTO look VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", made)
            self._ruled = len(engine.rulings)
        return beside

    @property
    def next(self) -> int:
        """The number of what happens next."""
        return self.book.last + 1

    def event(
        self,
        kind: str,
        *,
        session: Session | None = None,
        worker: Worker | None = None,
        given: Given | None = None,
        **said: Any,
    ) -> None:
        """Something else that happened."""
        if session is not None:
            worker = session.worker
        row = EventRow(
            event=self.next,
            at=self.clock.wall(),
            session=None if session is None else session.id,
            worker=None if worker is None else worker.id,
            assignment=None if given is None else given.id,
            kind=kind,
            json=json.dumps(said, ensure_ascii=False),
        )
        self.put(row)

    def keep(self, given: Given, now: float) -> None:
        """Keep a question for its person a while (longer)."""
        is_new = not given.session.worker.work.paid
        self.leases.keep(given.id, until=now + length(self.book.paces, is_new=is_new))

    def renew(self, given: Given) -> None:
        """Its person is still there, or is back."""
        if given.unit is None or given.session.is_closed or given.session.worker.excluded:
            return
        if given.expired:
            unit = self.book.ballots.units[given.unit]
            if given.role == "primary" and not self.book.ballots.is_free(unit):
                return  # somebody else has it
            self.event("renewed", session=given.session, given=given)
        self.keep(given, self.clock.steady())

    def expire(self) -> None:
        """Give back what was kept too long."""
        for number in self.leases.due(self.clock.steady()):
            given = self.book.given[number]
            if not given.counts and not given.expired:
                self.event("expired", session=given.session, given=given)
            self.leases.end(number)


@contextmanager
def _all_kept() -> Iterator[None]:
    """Nobody looks for garbage meanwhile: what a study is read into is none, and looking takes a sixth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _recalled(book: Book, looks: dict[tuple[int, int], tuple[int, bool]], ruled: int) -> int:
    """What a look said stays, also where the rule is another one now; how many rulings there are."""
    engine = book.ballots.engine
    for ruling in engine.rulings[ruled:]:
        said = looks.get((book.ballots.numbers[ruling.pair], ruling.look))
        if said is not None:
            engine.decision[ruling.pair], engine.is_open[ruling.pair] = said
    return len(engine.rulings)


def _together(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """One by one, the judgments of a question together."""
    held: list[Row] = []
    question = None
    for row in rows:
        own = row.assignment if type(row) is JudgmentRow else None
        if held and (own is None or own != question):
            yield held
            held = []
        held.append(row)
        question = own
    if held:
        yield held
