"""Transactions of acts: stored before acknowledgement, and complete or not at all."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from custodes.annotate.service import Service, StudyBusy
from custodes.annotate.study_file import transaction
from custodes.annotate.views import Ask
from custodes.errors import InputError, OptionError
from tests.annotate.studies import (
    ManualClock,
    answer,
    answer_to,
    check_restart,
    current_question,
    new_annotator,
    open_service,
    plan_of,
    query_rows,
    state_of,
    study,
)
from tests.waiting import PATIENCE

PLAN = plan_of(
    annotators={"cap": 1.0, "overlap": 0.0, "gold_every": 0, "attention": 0, "batch": 400},
    stopping={"looks": (60,), "stop": "decided"},
)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """A limit of pages makes SQLite report SQLITE_FULL, as a full disk does."""
    path = study(tmp_path / "study.db", plan=PLAN, systems=4, items=60)
    with open_service(path) as service:
        token = new_annotator(service)
        base = service._connection
        (pages,) = base.execute("PRAGMA page_count").fetchone()
        base.execute(f"PRAGMA max_page_count = {pages}").fetchone()
        acknowledged = 0
        message = ""
        while not message:
            ask = current_question(service, token)
            try:
                answer(service, token)
                acknowledged += 1
            except StudyBusy as problem:
                message = str(problem)
        assert "full" in message
        state = state_of(service)
        view = service.view(token).result()
        assert isinstance(view, Ask)
        assert view == ask  # the page does not change
        with pytest.raises(StudyBusy):
            service.act(token, answer_to(service, ask)).result()
        assert state_of(service) == state
        base.execute("PRAGMA max_page_count = 1000000").fetchone()
        after = service.act(token, answer_to(service, ask)).result()
        assert isinstance(after, Ask)
        assert after.assignment != ask.assignment
        assert service.snapshot().result().answers == acknowledged + 1
    assert query_rows(path, "SELECT count(*) FROM battles") == [(acknowledged + 1,)]
    assert query_rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_lock_of_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("custodes.annotate.study_file.WAIT", 0.05)
    path = study(tmp_path / "study.db", plan=PLAN)
    with open_service(path) as service, closing(sqlite3.connect(path, isolation_level=None)) as connection:
        token = new_annotator(service)
        state = service._log.state
        with transaction(connection), pytest.raises(StudyBusy, match="locked"):
            answer(service, token)
        answer(service, token)
        assert service._log.state is state, "the state is not reloaded if nothing was written"
        assert service.snapshot().result().answers == 1


def test_a_failed_act_does_not_affect_others(tmp_path: Path) -> None:
    with Service.open(study(tmp_path / "study.db", plan=PLAN), durable=False) as service:
        gate = threading.Event()
        waiting = service._writer.do(gate.wait)

        def broken() -> None:
            service._log.event("broken")
            raise ZeroDivisionError

        def refused() -> None:
            raise InputError("not so")

        futures: list[Future[object]] = [
            service.invite(1),
            service._writer.do(broken),
            service._writer.do(refused),
            service.invite(2),
        ]  # type: ignore[list-item]
        cancelled = service.invite(5)
        assert cancelled.cancel()  # the client has disconnected
        gate.set()
        waiting.result()
        assert [type(future.exception()) for future in futures] == [
            type(None),
            ZeroDivisionError,
            InputError,
            type(None),
        ]
        assert len(service.snapshot().result().annotators) == 3
        check_restart(service)
    assert query_rows(service.path, "SELECT count(*) FROM event WHERE kind = 'broken'") == [(0,)]


def test_a_closed_service_refuses_acts(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db")
    for threaded in (True, False):
        service = Service.open(path, threaded=threaded, durable=False)
        with pytest.raises(InputError, match="another program serves"):
            Service.open(path)
        service.close()
        with pytest.raises(StudyBusy, match="closed"):
            service.invite(1).result()


def test_a_damaged_study_is_one_line(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db", plan=PLAN)
    whole_file = path.read_bytes()
    path.write_bytes(whole_file[:4096] + b"\xff" * (len(whole_file) - 4096))
    with pytest.raises(InputError, match="cannot be read or written.*malformed"):
        Service.open(path)
    path.write_bytes(whole_file)
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("UPDATE plan SET json = '{\"shape\": 1}'")
    with pytest.raises(InputError, match="plan of this study cannot be read.*shape"):
        Service.open(path)
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("DELETE FROM plan")
    with pytest.raises(InputError, match="without a plan"):
        Service.open(path)


def test_a_copy_while_annotators_answer(tmp_path: Path) -> None:
    clock = ManualClock()
    with Service.open(
        study(tmp_path / "study.db", plan=PLAN, systems=4), clock=clock.source(), durable=False
    ) as service:
        tokens = [new_annotator(service) for _ in range(5)]
        copies, threads = [], ThreadPoolExecutor()
        for k in range(60):
            answer(service, tokens[k % 5], 0)
            if k % 20 == 10:
                copies.append(threads.submit(service.backup, tmp_path / f"copy{k}.db"))
        copy_paths = [copy.result() for copy in copies]
        threads.shutdown()
        with pytest.raises(OptionError, match="no such folder"):
            service.backup(tmp_path / "none" / "copy.db")
    for path in copy_paths:
        assert query_rows(path, "PRAGMA integrity_check") == [("ok",)]
        ((n,),) = query_rows(path, "SELECT count(*) FROM judgment")
        with open_service(path, clock) as service:
            assert service.snapshot().result().answers == n > 0
            answer(service, tokens[0], 0)
    assert not list(tmp_path.glob(".custodes*"))


def test_images_do_not_wait_for_acts(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db", plan=PLAN)
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("INSERT INTO media VALUES ('a.png', 'image/png', x'0102')")
    with Service.open(path, durable=False) as service:
        busy, release = threading.Event(), threading.Event()
        blocked = service._writer.do(lambda: (busy.set(), release.wait(PATIENCE)))
        busy.wait(PATIENCE)
        with ThreadPoolExecutor() as pool:
            try:
                assert pool.submit(service.media, "a.png").result(PATIENCE) == ("image/png", b"\x01\x02")
            finally:
                release.set()
        assert blocked.result(PATIENCE)
