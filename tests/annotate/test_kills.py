"""Servers killed at random moments: acknowledged answers are stored once, and annotators keep their question."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from random import Random

import pytest

import custodes
from custodes.annotate.service import Service, StudyBusy
from custodes.annotate.views import Ask, Begin
from tests.annotate.simulated_annotators import Browser
from tests.annotate.studies import (
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
from tests.waiting import until

ANNOTATORS = 40
WORKER = Path(__file__).with_name("service_worker.py")


def large(path: Path, items: int) -> Path:
    """Create a study with enough questions for the whole test."""
    plan = plan_of(
        annotators={"cap": 1.0, "batch": 500, "batches": 100, "gold_every": 0, "attention": 0},
        stopping={"looks": (20, items), "stop": "decided", "boundary": 9.0},
    )
    return study(path, plan=plan, systems=7, items=items, known_questions={})


class Acknowledged:
    """Acknowledged answers by question, and the last question shown to each annotator."""

    def __init__(self) -> None:
        self.answers: dict[int, int] = {}
        self.shown: dict[str, int] = {}

    def add(self, token: str, question: int, value: int, after: int) -> None:
        """Add an acknowledged answer and the question that followed it (0: none)."""
        assert question not in self.answers
        self.answers[question] = value
        self.shown[token] = after


def check(path: Path, acknowledged: Acknowledged) -> int:
    """Check that each acknowledged answer is stored once, and return the number of unacknowledged ones."""
    with closing(sqlite3.connect(path)) as base:
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = base.execute(
            "SELECT assignment, CASE flip WHEN 1 THEN -answer ELSE answer END"
            " FROM judgment JOIN assignment USING (assignment)"
        ).fetchall()
        stored = dict(rows)
        assert len(stored) == len(rows)  # none twice
        assert acknowledged.answers.items() <= stored.items()  # none lost
        duplicates = base.execute(
            "SELECT unit FROM judgment JOIN assignment USING (assignment) WHERE judgment.role = 'primary'"
            " GROUP BY unit HAVING count(*) > 1"
        )
        assert duplicates.fetchall() == []
    with open_service(path) as service:
        state = state_of(service)
        for token, question in acknowledged.shown.items():
            if question and question not in stored:
                assert current_question(service, token).assignment == question  # the same comparison
        assert state_of(service) == state
    return len(rows) - len(acknowledged.answers)


def test_two_kills(tmp_path: Path) -> None:
    """The worker is killed after a random number of answers and a short delay."""
    path, tokens = large(tmp_path / "study.db", 200), tmp_path / "tokens"
    with open_service(path) as service:
        tokens.write_text("\n".join(new_annotator(service) for _ in range(ANNOTATORS)))
    acknowledged, draw = Acknowledged(), Random(4)
    env = {**os.environ, "PYTHONPATH": str(Path(custodes.__file__).parents[1])}
    for _ in range(2):
        with subprocess.Popen([sys.executable, str(WORKER), path, tokens], stdout=subprocess.PIPE, env=env) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == b"ready\n"
                lines = b"".join(process.stdout.readline() for _ in range(draw.randint(20, 100)))
                time.sleep(draw.uniform(0, 0.02))
            finally:
                process.kill()
            lines += process.stdout.read()
        for line in lines.decode().split("\n")[:-1]:  # the last line may be incomplete
            token, *numbers = line.split()
            acknowledged.add(token, *map(int, numbers))
        check(path, acknowledged)
    assert len(acknowledged.answers) >= 40


class ServerRun:
    """One run of `custodes annotate serve` with browsers, killed after `most` answers in total."""

    def __init__(self, acknowledged: Acknowledged, *, most: int, draw: Random) -> None:
        self._acknowledged, self._most, self._draw = acknowledged, most, draw
        self._lock = threading.Lock()
        self.wrong: list[BaseException] = []

    def run_until_killed(self, path: Path, tokens: list[str]) -> None:
        """Run the server until it is killed or no annotator has a task."""
        words = [sys.executable, "-m", "custodes", "annotate", "serve", path, "--port", "0"]
        env = {**os.environ, "PYTHONPATH": str(Path(custodes.__file__).parents[1])}
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
            assert process.stdout is not None
            try:
                address = process.stdout.readline().rpartition(" ")[2].partition("/admin")[0]
                annotators = [threading.Thread(target=self._person, args=(process, address, token)) for token in tokens]
                for thread in annotators:
                    thread.start()
                for thread in annotators:
                    thread.join()
            finally:
                process.kill()

    def _person(self, process: subprocess.Popen[str], address: str, token: str) -> None:
        draw = Random(f"{token} {len(self._acknowledged.answers)}")
        try:
            with closing(Browser(f"{address}/s/{token}")) as browser:
                while browser.action:
                    if browser.action == "begin":
                        browser.act({"do": "begin"})
                        continue
                    question, value = browser.assignment, draw.choice((1, 0, -1))
                    browser.act({"do": "answer", "assignment": str(question), "v0": str(value), "seconds": "1"})
                    after = browser.assignment if browser.action == "answer" else 0
                    with self._lock:
                        self._acknowledged.add(token, question, value, after)
                    if len(self._acknowledged.answers) >= self._most:
                        time.sleep(self._draw.uniform(0, 0.03))
                        process.kill()
        except (OSError, HTTPException):
            pass  # it was killed
        except BaseException as problem:
            self.wrong.append(problem)


@pytest.mark.slow
def test_fifty_kills_of_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    path, kills = large(tmp_path / "study.db", 1500), 50
    with open_service(path) as service:
        tokens = [new_annotator(service) for _ in range(ANNOTATORS)]
    acknowledged, draw, n_unacknowledged = Acknowledged(), Random(5), 0
    for _ in range(kills):
        server_run = ServerRun(acknowledged, most=len(acknowledged.answers) + draw.randint(320, 520), draw=draw)
        before = len(acknowledged.answers)
        server_run.run_until_killed(path, tokens)
        assert not server_run.wrong
        assert len(acknowledged.answers) - before >= 320  # enough questions were left
        n_unacknowledged = check(path, acknowledged)
    with capsys.disabled():
        answers = f"{len(acknowledged.answers)} acknowledged, {n_unacknowledged} more"
        print(f"\n{kills} kills of the server under {ANNOTATORS} browsers: {answers}")
    assert len(acknowledged.answers) >= 20_000


def test_two_hundred_race_for_fifty(tmp_path: Path) -> None:
    plan = plan_of(annotators={"cap": 1.0, "gold_every": 0, "attention": 0, "overlap": 0.12}, stopping={"looks": (50,)})
    with Service.open(study(tmp_path / "study.db", plan=plan, items=50), durable=False) as service:
        tokens = [token for _, token in service.invite(200).result()]
        ready = threading.Barrier(20)

        def race(share: list[str]) -> None:
            ready.wait()
            views = [(token, service.act(token, Begin())) for token in share]
            while asks := [(token, view) for token, future in views if isinstance(view := future.result(), Ask)]:
                # The view after an answer may be the next question.
                views = [(token, service.act(token, answer_to(service, view, 0))) for token, view in asks]

        with ThreadPoolExecutor(20) as pool:
            list(pool.map(race, [tokens[k::20] for k in range(20)]))
        now = service.snapshot().result()
        assert (now.primary, now.pairs[0].n) == (50, 50)
    query = "SELECT count(*), count(DISTINCT unit) FROM answers WHERE role = 'primary'"
    assert query_rows(service.path, query) == [(50, 50)]


@pytest.mark.slow
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """The disk is a file system of 1 MB in memory."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        with Service.open(large(disk / "study.db", 60)) as service:
            token = new_annotator(service)
            acknowledged = []
            (disk / "filler").write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - 200_000))
            while True:
                ask = current_question(service, token)
                try:
                    answer(service, token, 0)
                except StudyBusy:
                    break
                acknowledged.append(ask.assignment)
            for _ in range(3):
                with pytest.raises(StudyBusy):
                    service.act(token, answer_to(service, ask, 0)).result()
                assert current_question(service, token) == ask
                assert service.write_failure == "No space left"
            (disk / "filler").unlink()
            assert (current_question(service, token), service.write_failure) == (ask, "")
            assert service.act(token, answer_to(service, ask, 0)).result() is not None
            acknowledged.append(ask.assignment)
            check_restart(service)
        assert query_rows(service.path, "PRAGMA integrity_check") == [("ok",)]
        query = "SELECT assignment FROM judgment ORDER BY judgment"
        assert [assignment for (assignment,) in query_rows(service.path, query)] == acknowledged
    finally:
        until(lambda: subprocess.run(["umount", disk], check=False).returncode == 0)  # busy for a moment
