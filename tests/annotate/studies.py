"""Small studies for tests, made without the readers."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random

import msgspec

from custodes.annotate.event_log import Clock
from custodes.annotate.plan import StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.study_file import create
from custodes.annotate.views import Agree, Answer, Ask, Begin, Consent, View
from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation

GOLD = {"gold": 6, "attention": 4}


def plan_of(**sections: Mapping[str, object]) -> StudyPlan:
    """A plan with some fields of its sections set."""
    return msgspec.convert(sections, StudyPlan)


def study(
    path: Path,
    *,
    plan: StudyPlan | None = None,
    systems: int = 2,
    items: int = 50,
    known: Mapping[str, int] = GOLD,
) -> Path:
    """A file with `systems` x `items` outputs, all pairs (or systems), and known comparisons by kind."""
    plan = plan or StudyPlan()

    def fill(base: sqlite3.Connection) -> None:
        add_items(base, items)
        add_systems(base, [f"s{k}" for k in range(systems)], seed=plan.seed, rate=plan.question.mode == "rate")
        for kind, n in known.items():
            for k in range(n):
                expected = 1 if k % 2 else -1
                base.execute(
                    "INSERT INTO gold VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)",
                    (kind, f"<p>{kind}{k}</p>", "<p>one</p>", "<p>two</p>", "{}", expected, "because"),
                )

    return create(path, plan, fill)


def add_items(base: sqlite3.Connection, items: int) -> None:
    base.executemany(
        "INSERT INTO item VALUES (?, ?, ?, '', ?, '', ?, '[]', '{}', '[]')",
        [(k, f"i{k}", f"d{k // 2}", f"source {k}", f"<p>item {k}</p>") for k in range(items)],
    )


def add_systems(base: sqlite3.Connection, names: list[str], *, seed: int, rate: bool = False) -> None:
    """Systems with their outputs, and pairs with all that are there."""
    items = [item for (item,) in base.execute("SELECT item FROM item ORDER BY item")]
    there = [system for (system,) in base.execute("SELECT system FROM system ORDER BY system")]
    new = list(range(len(there), len(there) + len(names)))
    base.executemany(
        "INSERT INTO system VALUES (?, ?, ?)", [(k, n, time.time()) for k, n in zip(new, names, strict=True)]
    )
    base.executemany(
        "INSERT INTO output VALUES (?, ?, ?, ?, '[]')",
        [(item, k, f"text {item} {k}", f"<p>text {item} {k}</p>") for k in new for item in items],
    )
    wanted = [(k, None) for k in new] if rate else [p for p in combinations([*there, *new], 2) if p[1] in new]
    (pair,) = base.execute("SELECT coalesce(max(pair), -1) FROM pair").fetchone()
    (unit,) = base.execute("SELECT coalesce(max(unit), -1) FROM unit").fetchone()
    for first, second in wanted:
        pair += 1
        base.execute("INSERT INTO pair VALUES (?, ?, ?)", (pair, first, second))
        order = items.copy()
        Random(f"{seed} {pair}").shuffle(order)
        base.executemany(
            "INSERT INTO unit VALUES (?, ?, ?, ?)", [(unit + 1 + k, pair, k, item) for k, item in enumerate(order)]
        )
        unit += len(order)


def add_later(base: sqlite3.Connection, items: int) -> None:
    """Items with outputs of all systems, behind those that every pair has."""
    (first,) = base.execute("SELECT count(*) FROM item").fetchone()
    new = range(first, first + items)
    base.executemany(
        "INSERT INTO item VALUES (?, ?, '', '', '', '', '<p>later</p>', '[]', '{}', '[]')", [(k, f"i{k}") for k in new]
    )
    base.executemany(
        "INSERT INTO output SELECT ?, system, 'later', '<p>later</p>', '[]' FROM system", [(k,) for k in new]
    )
    base.executemany(
        "INSERT INTO unit (pair, place, item) SELECT pair, max(place) + 1, ? FROM unit GROUP BY pair",
        [(k,) for k in new],
    )


@dataclass
class Hands:
    """A clock that tests move by hand."""

    now: float = 1_700_000_000.0
    steady: float = 0.0

    def clock(self) -> Clock:
        return Clock(wall=lambda: self.now, steady=lambda: self.steady)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.steady += seconds


def at_once(path: Path, hands: Hands | None = None) -> Service:
    """A service without a thread of its own, whose clock stands still."""
    return Service.open(path, clock=(hands or Hands()).clock(), threaded=False, durable=False)


def begun(service: Service) -> str:
    """The token of somebody who has read the instructions."""
    ((_, token),) = service.invite(1).result()
    if isinstance(view := service.view(token).result(), Consent):
        service.act(token, Agree(digest=view.digest)).result()
    service.act(token, Begin()).result()
    return token


def asked(service: Service, token: str) -> Ask:
    """The question before somebody."""
    view = service.view(token).result()
    assert isinstance(view, Ask), view
    return view


def answer(service: Service, token: str, value: int = 1, *, seconds: float | None = 5.0) -> View | None:
    """Answer what is there, in every aspect."""
    ask = asked(service, token)
    return service.act(token, said(service, ask, value, seconds=seconds)).result()


def said(service: Service, ask: Ask, value: int = 1, *, seconds: float | None = 5.0) -> Answer:
    """An answer to a question."""
    values = dict.fromkeys(service.plan.question.aspects, value)
    return Answer(assignment=ask.assignment, values=values, seconds=seconds)


def rightly(service: Service, token: str, value: int, *, seconds: float | None = 5.0) -> View | None:
    """Answer what is there, a known comparison as it should be."""
    given = service._log.state.issued[asked(service, token).assignment]
    if given.gold is not None:
        expected = service._log.state.gold[given.gold][1]
        value = -expected if given.flip else expected
    return answer(service, token, value, seconds=seconds)


def state_of(service: Service) -> bytes:
    """The whole state but clocks, as bytes that are equal where states are; also after a restart."""
    state = service._do(lambda: service._log.state).result()
    annotators = [
        (
            *(one.id, one.label, one.excluded, one.by, one.reason, one.forgotten, one.qualified, one.batches),
            *(
                sorted(one.seen),
                sorted(one.had),
                sorted(one.known),
                sorted(one.refused),
                sorted((+one.load).items()),
            ),
            *(sorted((unit, issued.id) for unit, issued in table.items()) for table in (one.votes, one.lapsed)),
            *(getattr(one.work, name) for name in one.work.__slots__[:-1]),
            one.work.times.tolist(),
        )
        for one in state.workers.values()
    ]
    visits = [
        (
            *(one.id, one.agreed, one.declined, one.begun, one.finished, one.batch, one.number, one.last_item),
            *(sorted(one.known.items()), sorted(one.codes.items()), sorted(one.params.items())),
            *([issued.id for issued in table] for table in (one.open, one.answered)),
        )
        for one in state.sessions.values()
    ]
    units = [
        (
            *(one.id, sorted(one.votes.items()), sorted(one.seconds.items()), one.leased),
            *map(sorted, (one.holders, one.asked, one.refused)),
        )
        for one in state.assignments.units.values()
        if one.votes or one.seconds or one.holders or one.asked or one.refused
    ]
    questions = [
        (one.id, one.role, one.flip, one.holds, one.expired, one.counts, one.value, one.is_void)
        for one in state.issued.values()
    ]
    totals = [getattr(state.totals, name) for name in state.totals.__slots__]
    rest = [list(state.paces), list(state.primaries), state.comments, state.control, state.version, state.last, totals]
    engine = state.assignments.engine
    tokens = sorted((token, session.id) for token, session in state.tokens.items())
    singles = [sorted(units) for units in state.assignments.singles]
    asked = (
        engine.state_bytes()
        if isinstance(engine, ConcurrentAnnotation)
        else repr([engine.n, engine.target, engine.is_open]).encode()
    )
    return msgspec.json.encode([annotators, visits, units, questions, tokens, singles, rest]) + asked
