"""The page from texts to the answer, followed to the letter in an empty folder: an LLM server that answers by rule, two
annotators over HTTP, and the same in a browser."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from custodes.annotate.study_status import snapshot_of_file
from tests.annotate.people import answer_all
from tests.judging.servers import Manner, Seen, Server, says
from tests.pages import blocks
from tests.waiting import PATIENCE

pytest.importorskip("uvicorn")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "from-texts-to-the-answer.md"
LINK = re.compile(r"http://\S+/s/\S+")
TAGGED = re.compile(r"<(output-[AB]-\w+)>\n(.*?)\n</\1>", re.DOTALL)


def verdict(seen: Seen, tried: int) -> Manner:
    """Prefer the answer that repeats more words of the guest, as annotators below do."""
    content = seen.body["messages"][-1]["content"]
    texts = dict(TAGGED.findall(content))
    guest = TAGGED.sub("", content)
    first, second = (shared(guest, texts[name]) for name in sorted(texts))
    return says(json.dumps({"verdict": "tie" if first == second else "A" if first > second else "B"}))


def shared(guest: str, answer: str) -> int:
    """How many words of an answer the guest wrote."""
    return len({*re.findall(r"\w+", answer.lower())} & {*re.findall(r"\w+", guest.lower())})


@pytest.fixture
def commands() -> Iterator[list[list[str]]]:
    """The commands of the page, with the address of the server."""
    server = Server(verdict)
    ((_, code),) = blocks(PAGE, "text")
    lines = code.replace("\\\n", " ").replace("http://127.0.0.1:8000/v1", server.url).strip().splitlines()
    yield [shlex.split(line) for line in lines]
    server.close()


def follow(commands: list[list[str]], folder: Path, answer: Callable[[list[str]], None]) -> dict[str, str]:
    """Run each command in the folder; `answer` plays two annotators, given their links. What each verb printed."""
    printed = {}
    for program, verb, *words in commands:
        assert program == "custodes"
        process = subprocess.Popen(
            [sys.executable, "-m", "custodes", verb, *words],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        assert process.stdout is not None
        text = ""
        if verb == "annotate":
            links = []
            while "Ctrl-C stops it" not in text:
                text += (line := process.stdout.readline())
                assert line, text
                links += LINK.findall(line)
            answer(links)
            while "finished" not in text:
                text += process.stdout.readline()
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
        printed[verb] = text + out
        assert process.returncode == 0, printed[verb]
    return printed


def check(printed: dict[str, str], folder: Path) -> None:
    """Each command names the next one, and the answer is there."""
    assert "next: custodes report scores.csv" in printed["score"]
    assert "next: custodes report verdicts.csv" in printed["judge"]
    assert "custodes annotate new" in " ".join(printed["check"].split())
    assert "study: finished" in printed["annotate"]
    assert "next: custodes leaderboard study.db" in printed["annotate"]
    assert "corrected:MODEL" in printed["leaderboard"]
    assert "<html" in (folder / "report.html").read_text(encoding="utf-8")[:200].lower()


def test_six_commands_lead_from_texts_to_the_answer(commands: list[list[str]], tmp_path: Path) -> None:
    assert len(commands) <= 6

    def answer(links: list[str]) -> None:
        assert len(links) == 2
        study = tmp_path / "study.db"
        answer_all(links, study, snapshot_of_file(study).plan, better=0.5, rng=1)

    check(follow(commands, tmp_path, answer), tmp_path)
    import custodes as cu

    board = cu.leaderboard(
        cu.read(*(tmp_path / name for name in ("study.db", "scores.csv", "verdicts.csv"))), resamples=50
    )
    row = board.corrected.filter(metric="MODEL").row(0, named=True)
    assert (row["labels"], row["battles"], row["reason"]) == (60, 180, "")
    rows = board.systems.filter(pl.col("rater") == "corrected:MODEL").sort("rank")
    assert rows["system"][-1] == "Cedar", "which makes most mistakes"


@pytest.mark.browser
def test_two_people_in_a_browser(commands: list[list[str]], tmp_path: Path, browser: Any) -> None:
    """They read the texts, and choose as the judge does."""

    def answer(links: list[str]) -> None:
        pages = []
        for link in links:
            page = browser.new_context().new_page()
            page.goto(link)
            page.check("input[name=agree]")
            page.click("button.main")
            page.wait_for_selector("button:has-text('Begin')")
            page.click("button.main")
            pages.append(page)
        left = True
        while left:
            left = sum(map(choose, pages)) > 0

    check(follow(commands, tmp_path, answer), tmp_path)


def choose(page: Any) -> bool:
    """Answer the question of a page, or go on; False at the end of the study."""
    page.wait_for_selector("main")
    if page.query_selector(".sides") is None:
        button = page.query_selector("button:has-text('Continue')")
        if button is not None:
            button.click()
            page.wait_for_load_state()
        else:
            page.reload()  # a page that waits, or the last one
        return "finished" not in page.inner_text("main").lower() and "Thank you" not in page.inner_text("main")
    heading = page.inner_text("h1")
    guest, *texts = [one.inner_text() for one in page.query_selector_all(".text")][:3]
    first, second = (shared(guest, text) for text in texts)
    page.wait_for_timeout(700)  # a new question takes no answer at once
    page.keyboard.press("0" if first == second else "1" if first > second else "2")
    page.wait_for_function("before => document.querySelector('h1')?.innerText !== before", arg=heading)
    return True
