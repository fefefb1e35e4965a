"""Small study files for tests, written directly to the database; texts for new studies; queries on study files."""

from __future__ import annotations

import sqlite3
import time
from array import array
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import polars as pl

from custodes.annotate.event_log import Clock
from custodes.annotate.participants import Annotator, IssuedQuestion, Unit
from custodes.annotate.plan import StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.study_file import create
from custodes.annotate.views import Agree, Answer, Ask, Begin, Consent, View, VisitEnd
from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation
from tests.evaluate.protocol.engines import state_bytes

GOLD = {"gold": 6, "attention": 4}
FREE = {"cap": 1.0, "overlap": 0.0, "gold_every": 0, "attention": 0}
COMMENTS = "SELECT json_extract(json, '$.text') FROM event WHERE kind = 'comment'"
LONG = {"looks": (20, 40), "stop": "decided", "boundary": 9.0}


def plan_of(**sections: Mapping[str, object]) -> StudyPlan:
    """Return a plan with some fields of its sections set."""
    return msgspec.convert(sections, StudyPlan)


def study(
    path: Path,
    *,
    plan: StudyPlan | None = None,
    systems: int = 2,
    items: int = 50,
    known_questions: Mapping[str, int] = GOLD,
) -> Path:
    """Create a study of `systems` x `items` outputs with all pairs (or systems) and known questions by kind."""
    plan = plan or StudyPlan()

    def fill(base: sqlite3.Connection) -> None:
        add_items(base, items)
        add_systems(base, [f"s{k}" for k in range(systems)], seed=plan.seed, rate=plan.question.mode == "rate")
        for kind, n in known_questions.items():
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
    """Add systems with their outputs, and pair them with all systems."""
    items = [item for (item,) in base.execute("SELECT item FROM item ORDER BY item")]
    existing = [system for (system,) in base.execute("SELECT system FROM system ORDER BY system")]
    new = list(range(len(existing), len(existing) + len(names)))
    base.executemany(
        "INSERT INTO system VALUES (?, ?, ?)", [(k, n, time.time()) for k, n in zip(new, names, strict=True)]
    )
    base.executemany(
        "INSERT INTO output VALUES (?, ?, ?, ?, '[]')",
        [(item, k, f"text {item} {k}", f"<p>text {item} {k}</p>") for k in new for item in items],
    )
    new_pairs = [(k, None) for k in new] if rate else [p for p in combinations([*existing, *new], 2) if p[1] in new]
    (pair,) = base.execute("SELECT coalesce(max(pair), -1) FROM pair").fetchone()
    (unit,) = base.execute("SELECT coalesce(max(unit), -1) FROM unit").fetchone()
    for first, second in new_pairs:
        pair += 1
        base.execute("INSERT INTO pair VALUES (?, ?, ?)", (pair, first, second))
        order = items.copy()
        Random(f"{seed} {pair}").shuffle(order)
        base.executemany(
            "INSERT INTO unit VALUES (?, ?, ?, ?)", [(unit + 1 + k, pair, k, item) for k, item in enumerate(order)]
        )
        unit += len(order)


@dataclass
class ManualClock:
    """A clock that tests advance manually."""

    now: float = 1_700_000_000.0
    steady: float = 0.0

    def source(self) -> Clock:
        return Clock(wall=lambda: self.now, steady=lambda: self.steady)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.steady += seconds


def open_service(path: Path, clock: ManualClock | None = None) -> Service:
    """Open a service without a thread, on a manual clock."""
    return Service.open(path, clock=(clock or ManualClock()).source(), threaded=False, durable=False)


def new_annotator(service: Service) -> str:
    """Return the token of a new annotator who has read the instructions."""
    ((_, token),) = service.invite(1).result()
    if isinstance(view := service.view(token).result(), Consent):
        service.act(token, Agree(digest=view.digest)).result()
    service.act(token, Begin()).result()
    return token


def current_question(service: Service, token: str) -> Ask:
    """Return the question that an annotator sees."""
    view = service.view(token).result()
    assert isinstance(view, Ask), view
    return view


def answer(service: Service, token: str, value: int = 1, *, seconds: float | None = 5.0) -> View | None:
    """Answer the current question with one value for all aspects."""
    ask = current_question(service, token)
    return service.act(token, answer_to(service, ask, value, seconds=seconds)).result()


def answer_to(service: Service, ask: Ask, value: int = 1, *, seconds: float | None = 5.0) -> Answer:
    """Return an answer to a question, with one value for all aspects."""
    values = dict.fromkeys(service.plan.question.aspects, value)
    return Answer(assignment=ask.assignment, values=values, seconds=seconds)


def answer_correctly(service: Service, token: str, value: int, *, seconds: float | None = 5.0) -> View | None:
    """Answer the current question; a known question gets its expected answer."""
    expected = expected_answer(service, current_question(service, token))
    return answer(service, token, value if expected is None else expected, seconds=seconds)


def expected_answer(service: Service, ask: Ask) -> int | None:
    """Return the expected answer to a known question as it is shown, or None for another question."""
    issued = service._log.state.issued[ask.assignment]
    if issued.gold is None:
        return None
    return service._log.state.gold[issued.gold][1] * (-1 if issued.flip else 1)


def check_restart(service: Service) -> None:
    """Close a service, and check that another service restores its state from the file."""
    state = state_of(service)
    service.close()
    with open_service(service.path) as restored_service:
        assert state_of(restored_service) == state


def state_of(service: Service) -> bytes:
    """Serialise the state of a service without clocks: equal states give equal bytes, also after a restart."""
    state = service._writer.do(lambda: service._log.state).result()
    units = state.assignments.units.values()
    objects = [
        *state.workers.values(),
        *(worker.work for worker in state.workers.values()),
        *state.issued.values(),
        *(
            unit
            for unit in units
            if unit.votes or unit.second_opinions or unit.n_holders or unit.n_open_second_opinions or unit.refused
        ),
    ]
    rest = [state.tokens, state.assignments.single_units_of_pair, state.paces, state.control]
    engine = state.assignments.engine
    is_comparison = isinstance(engine, ConcurrentAnnotation)
    of_engine = state_bytes(engine) if is_comparison else repr([engine.n, engine.target, engine.is_open]).encode()
    fields = [[plain(getattr(value, name)) for name in value.__slots__ if name != "work"] for value in objects]
    return msgspec.json.encode([fields, plain(rest), state.version, state.last]) + of_engine


def plain(value: Any) -> Any:
    """Return a value of the state as JSON types, with numbers in place of annotators, visits, questions and units."""
    if isinstance(value, Annotator | IssuedQuestion | Unit):
        return value.id
    if isinstance(value, Mapping):
        entries = +value if isinstance(value, Counter) else value
        return sorted([plain(key), plain(entry)] for key, entry in entries.items())
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value))
    return [*map(plain, value)] if isinstance(value, list | tuple | deque | array) else value


def texts(items: int = 12, systems: str = "ABC", **columns: Any) -> pl.DataFrame:
    rows = [(f"i{k}", name, f"{name} says {k}") for k in range(items) for name in systems]
    return pl.DataFrame(rows, schema=["item", "system", "text"], orient="row").with_columns(**columns)


@contextmanager
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as base:
        yield base


def query_rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with connection(path) as base:
        return base.execute(query).fetchall()


def orders(path: Path) -> dict[tuple[str, str], list[str]]:
    """Return the items of each pair, in the order of annotation."""
    query = """
        SELECT a.label, coalesce(b.label, ''), i.label FROM unit JOIN pair USING (pair)
        JOIN system a ON a.system = first LEFT JOIN system b ON b.system = second JOIN item i ON i.item = unit.item
        ORDER BY pair, place
    """
    by_pair: dict[tuple[str, str], list[str]] = {}
    with connection(path) as base:
        for first, second, item in base.execute(query):
            by_pair.setdefault((first, second), []).append(item)
    return by_pair


def open_study(
    tmp_path: Path, clock: ManualClock | None = None, plan: StudyPlan | None = None, **options: object
) -> Service:
    """Open a study, by default without known questions and second ratings."""
    plan = plan or plan_of(annotators=FREE, stopping=LONG)
    return open_service(study(tmp_path / "study.db", plan=plan, **options), clock)  # type: ignore[arg-type]


def rows(service: Service, query: str) -> list[tuple[Any, ...]]:
    return query_rows(service.path, query)


def done(view: View | None) -> VisitEnd:
    assert isinstance(view, VisitEnd), view
    return view
