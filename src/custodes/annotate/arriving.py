"""How people come into a study, and how one of them is forgotten."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from custodes.annotate.addresses import Addresses
from custodes.annotate.ledger import Ledger
from custodes.annotate.people import Session, Worker
from custodes.annotate.records import SessionRow, WorkerRow
from custodes.annotate.showing import is_done
from custodes.arguments import at_least


def hashed(token: str) -> str:
    """What is kept of a token, or of who somebody is elsewhere."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def invite(ledger: Ledger, n: int) -> list[tuple[str, str]]:
    """New people with a visit each: labels and tokens."""
    at_least("people", n, 1)
    made = []
    for _ in range(n):
        worker = _arrived(ledger, source="links", external_id="", external_hash=secrets.token_hex(16))
        made.append((worker.label, _visit(ledger, worker, {})))
    return made


def join(
    ledger: Ledger,
    new: Addresses,
    again: Addresses,
    *,
    source: str,
    external_id: str,
    params: Mapping[str, str],
    address: str,
) -> str | None:
    """A token for somebody who comes; None where no more may: `new` people, or any `again`, from this address."""
    book, now = ledger.book, ledger.clock.steady()
    who = hashed(f"{source}\n{external_id}") if external_id else secrets.token_hex(16)
    worker = book.persons.get((source, who))
    if worker is None:
        if book.control == "stopped" or len(book.workers) >= book.plan.people.most or new.is_full(address, now):
            return None
        worker = _arrived(ledger, source=source, external_id=external_id, external_hash=who)
        new.came(address, now)
        return _visit(ledger, worker, params)
    if again.is_full(address, now):
        return None
    again.came(address, now)
    last = worker.sessions[-1]
    if last.params != dict(params) and not worker.forgotten and _is_over(ledger, last):
        return _visit(ledger, worker, params)
    token = secrets.token_urlsafe(16)
    # A platform pays by what it said last: another task may go on with the same visit.
    said: dict[str, Any] = {} if worker.forgotten or last.params == dict(params) else {"params": dict(params)}
    ledger.event("token", session=last, hash=hashed(token), **said)
    return token


def _is_over(ledger: Ledger, session: Session) -> bool:
    """Whether its batch is done, so that coming again is a visit of its own."""
    return is_done(ledger, session) and session.worker.batches < ledger.book.plan.people.batches


def _arrived(ledger: Ledger, *, source: str, external_id: str, external_hash: str) -> Worker:
    row = WorkerRow(
        worker=ledger.next,
        label=f"w{len(ledger.book.workers) + 1:03d}",
        source=source,
        external_hash=external_hash,
        external_id=external_id,
        at=ledger.clock.wall(),
    )
    ledger.put(row)
    return ledger.book.workers[row.worker]


def _visit(ledger: Ledger, worker: Worker, params: Mapping[str, str]) -> str:
    token = secrets.token_urlsafe(16)
    kept = json.dumps(dict(params), ensure_ascii=False)
    ledger.put(SessionRow(ledger.next, worker.id, hashed(token), ledger.clock.wall(), kept))
    return token


def forget(ledger: Ledger, worker: Worker) -> None:
    """Blank what names somebody, everywhere: the one thing that is ever rewritten."""
    base = ledger.base
    base.execute("UPDATE worker SET external_id = '' WHERE worker = ?", (worker.id,))
    base.execute("UPDATE session SET params = '{}' WHERE worker = ?", (worker.id,))
    base.execute(
        "UPDATE event SET json = json_set(json, '$.form', json_object()) WHERE kind = 'consent' AND worker = ?",
        (worker.id,),
    )
    base.execute(
        "UPDATE event SET json = json_set(json, '$.text', '') WHERE kind = 'comment' AND worker = ?", (worker.id,)
    )
    base.execute(
        "UPDATE event SET json = json_remove(json, '$.params') WHERE kind = 'token' AND worker = ?", (worker.id,)
    )
    ledger.event("forgotten", worker=worker)
