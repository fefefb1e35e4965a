"""The how-to on annotation: every command runs, and simulated annotators answer while the study is served."""

from __future__ import annotations

import contextlib
import csv
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from custodes.annotate.plan import StudyPlan
from tests.annotate.simulated_annotators import answer_all
from tests.pages import blocks, run
from tests.waiting import PATIENCE

pytest.importorskip("uvicorn")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "ask-people.md"
SERVE, DEMO = "custodes annotate serve", "custodes annotate demo"
"""Commands that run until they are stopped; test_serving tests the demo."""


def lines() -> list[str]:
    """Return the Python code and the commands of the page in order."""
    code_lines = []
    for language, code in blocks(PAGE, "python", "sh", "text"):
        text = code.replace("\\\n", " ")
        code_lines += [text] if language == "python" else [line for line in text.splitlines() if line]
    return code_lines


def serve(command: str, folder: Path) -> None:
    """Run a server of the page on a free port while annotators with links answer."""
    words = [*command.split(), "--port", "0"]
    process = subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address_line = next(text for text in process.stdout if "/admin?key=" in text)
        match = re.search(r"http://[\d.:]+", address_line)
        assert match is not None
        with (folder / "links.csv").open(encoding="utf-8") as file:
            links = [row["link"].replace("http://127.0.0.1:8080", match[0]) for row in csv.DictReader(file)]
        assert len(links) == 10
        answers = answer_all(links, folder / "study.db", StudyPlan(), better=0.5, rng=1, most=90)
        assert answers >= 30
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_every_command_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    verbs = set[str]()
    for line in lines():
        if line.startswith(SERVE):
            serve(line, tmp_path)
        elif line.startswith(DEMO):
            pass
        elif line.startswith("custodes "):
            status, out, err = run(line)
            assert status in ((0, 1) if " check " in line else (0,)), (line, out, err)
        else:
            exec(compile(line, str(PAGE), "exec"), {})
        verbs |= set(re.findall(r"^custodes annotate (\w+)", line))
    assert verbs >= {"demo", "new", "check", "rehearse", "invite", "serve", "status", "backup", "export", "forget"}
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "copies" / "study.db").exists()
    with contextlib.suppress(FileNotFoundError):
        assert not list(tmp_path.glob(".custodes-*"))


def test_pictures_are_small() -> None:
    for name in re.findall(r"\.\./images/([\w-]+\.png)", PAGE.read_text(encoding="utf-8")):
        assert (ROOT / "docs" / "images" / name).stat().st_size < 60_000
