"""A language model as judge, from HTTP requests to the report, with an interruption and a rerun from the cache.

The model (SmolLM2, 135 million parameters, 4 bits) is too small to judge well, but its replies are those of a real
server.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.llm]

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-llm" / "bin" / "python"
SECONDS = 1200.0


class Server:
    """Process that runs server.py."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [PYTHON, str(Path(__file__).parent / "server.py"), str(SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def stop(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


@pytest.fixture
def server() -> Iterator[Server]:
    if not PYTHON.exists():
        pytest.skip("the language model is not there (.venv-llm; `make test-slow` makes it)")
    result = Server()
    assert result.address.startswith("http://127.0.0.1:")
    yield result
    result.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with texts of three systems, and an annotator who prefers complete texts."""
    reports = (
        "The city council closed the old bridge on Monday, because an inspector found a crack in a pillar.",
        "The museum hired ten guides for the summer, because more visitors came than in any year before.",
        "The ferry stays in the harbour until Friday, because both captains fell ill.",
        "The school moved its concert to the church, because a storm broke the windows of the hall.",
    )
    texts = [
        {
            "item": f"report{number}",
            "source": report,
            "outputs": {
                "M11": report.split(",")[0] + ".",
                "M13": report.replace(" on Monday", "").replace(" until Friday", ""),
                "M22": " ".join(report.split()[:5]),
            },
        }
        for number, report in enumerate(reports)
    ]
    marks = {"M11": 3.0, "M13": 5.0, "M22": 1.0}
    rows = [(text["item"], system, "ann", "human", mark) for text in texts for system, mark in marks.items()]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8")
    human = pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row")
    human.write_csv(tmp_path / "people.csv")
    return tmp_path


def custodes(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "custodes", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def judging(folder: Path, server: Server, output: str) -> subprocess.Popen[str]:
    words = ("--model", "smollm2", "--base-url", f"{server.address}/v1", "--mode", "pairwise", "--prompt", "summary")
    more = ("--structured", "--sampling", "temperature=0", "--concurrency", "2", "--cache", "kept.db", "-o", output)
    return custodes(folder, "judge", "texts.jsonl", *words, *more)


def reply_times(folder: Path) -> dict[str, str]:
    """Map the key of each cached reply to its time."""
    if not (folder / "kept.db").exists():
        return {}
    try:
        with closing(sqlite3.connect(folder / "kept.db")) as base:
            return dict(base.execute("SELECT key, json_extract(CAST(reply AS TEXT), '$.asked') FROM reply"))
    except sqlite3.Error:  # the database is being created
        return {}


def test_from_http_to_the_report_through_a_kill(server: Server, folder: Path) -> None:
    started = judging(folder, server, "verdicts.csv")
    end = time.monotonic() + SECONDS
    while len(reply_times(folder)) < 6 and started.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    started.send_signal(signal.SIGKILL)
    output = started.communicate()
    assert started.returncode == -signal.SIGKILL, output
    before = reply_times(folder)
    assert 6 <= len(before) < 24
    assert not (folder / "verdicts.csv").exists()

    resumed = judging(folder, server, "verdicts.csv")
    output = resumed.communicate(timeout=SECONDS)
    assert resumed.returncode == 0, output
    after = reply_times(folder)
    assert before.items() <= after.items()  # cached requests are not sent again
    assert len(after) >= 24
    verdicts = pl.read_csv(folder / "verdicts.csv", infer_schema=False).fill_null("")
    assert verdicts.height == 24
    assert sorted(verdicts["order"].value_counts().iter_rows()) == [("ab", 12), ("ba", 12)]
    assert set(verdicts["preference"]) <= {"1", "0", "-1", ""}
    assert verdicts.filter((pl.col("preference") == "") != (pl.col("invalid") != "")).height == 0
    assert verdicts.filter(pl.col("invalid") == "").height >= 20

    server.stop()  # no server can answer from this line on
    again = judging(folder, server, "again.csv")
    output = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, output
    assert (folder / "again.csv").read_bytes() == (folder / "verdicts.csv").read_bytes()

    study = cu.read(folder / "verdicts.csv", folder / "people.csv")
    (judge,) = study.metrics
    assert cu.consistency(study).orders.height == 1
    report = custodes(folder, "report", "verdicts.csv", "people.csv", "--resamples", "20", "-o", "report.html")
    output = report.communicate(timeout=SECONDS)
    assert report.returncode == 0, output
    assert judge in (folder / "report.html").read_text(encoding="utf-8")
