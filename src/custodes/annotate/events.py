"""What an event means for what is known of a study, by its kind; an event of another kind changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from custodes.annotate.looks import add_pairs
from custodes.annotate.people import Session
from custodes.annotate.records import EventRow
from custodes.annotate.rules import budget_of

if TYPE_CHECKING:
    from custodes.annotate.book import Book


def _session(book: Book, row: EventRow) -> Session:
    assert row.session is not None
    return book.sessions[row.session]


def _added(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    book.added = said["pairs"], said["units"]
    add_pairs(book.ballots, book.base, book.plan, total=said["pairs"], last=said["units"])


def _consent(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(book, row).agreed = said["digest"]


def _declined(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(book, row).declined = True


def _finished(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(book, row).finished = True


def _begun(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(book, row).begun = True


def _batch(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    session = _session(book, row)
    session.batch = session.worker.batches = said["batch"]
    session.number, session.answered = 0, []
    session.known = {int(place): kind for place, kind in said["known"].items()}


def _qualified(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(book, row).worker.qualified = said["passed"]


def _code(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    _session(book, row).codes[said["why"]] = said["code"]


def _token(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    session = book.tokens[said["hash"]] = _session(book, row)
    session.params = said.get("params", session.params)


def _comment(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    if said["text"]:  # of somebody who is forgotten there is none
        book.comments.append((_session(book, row).worker.label, said["text"], row.at))


def _expired(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    assert row.assignment is not None
    book.expired(book.given[row.assignment], is_over=row.kind == "expired")


def _forgotten(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    assert row.worker is not None
    worker = book.workers[row.worker]
    worker.forgotten, worker.external_id = True, ""
    book.comments = [own for own in book.comments if own[0] != worker.label]
    for session in worker.sessions:
        session.params = {}


def _control(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    book.control = {"paused": "paused", "stopped": "stopped"}.get(row.kind, "open")


def _peeked(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    book.totals.peeked += 1


def _address(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    book.address = said["url"]


def _replanned(book: Book, row: EventRow, said: Mapping[str, Any]) -> None:
    book.version = said["version"]
    if book.ballots.asking is not None:
        book.ballots.engine.set_budget(budget_of(book.plan))
        book.ballots.changed()


EVENTS: dict[str, Callable[[Book, EventRow, Mapping[str, Any]], None]] = {
    "added": _added,
    "consent": _consent,
    "declined": _declined,
    "begun": _begun,
    "finished": _finished,
    "batch": _batch,
    "qualified": _qualified,
    "code": _code,
    "token": _token,
    "comment": _comment,
    "expired": _expired,
    "renewed": _expired,
    "forgotten": _forgotten,
    "paused": _control,
    "resumed": _control,
    "stopped": _control,
    "reopened": _control,
    "peeked": _peeked,
    "address": _address,
    "replanned": _replanned,
}
