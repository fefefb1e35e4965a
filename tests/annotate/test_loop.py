"""The how-to from texts to the answer, run with a rule-based LLM server and two annotators over HTTP."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from tests.annotate.simulated_annotators import Browser
from tests.judging.servers import Manner, Seen, Server, says
from tests.pages import blocks, run
from tests.waiting import PATIENCE

pytest.importorskip("uvicorn")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "from-texts-to-the-answer.md"
QUICK = {"leaderboard": ("--resamples", "50"), "report": ("--resamples", "20")}
LINK = re.compile(r"http://\S+/s/\S+")
TEXT = re.compile(r'<div class="text"[^>]*>(.*?)</div>', re.DOTALL)
TAGGED = re.compile(r"<(output-[AB]-\w+)>\n(.*?)\n</\1>", re.DOTALL)


def verdict(request: Seen, tried: int) -> Manner:
    """Prefer the answer that repeats more words of the guest, as the annotators do."""
    content = request.body["messages"][-1]["content"]
    texts = dict(TAGGED.findall(content))
    guest = TAGGED.sub("", content)
    first, second = (n_shared_words(guest, texts[name]) for name in sorted(texts))
    return says(json.dumps({"verdict": "tie" if first == second else "A" if first > second else "B"}))


def preference(guest: str, first: str, second: str, rng: np.random.Generator) -> int:
    """Return the preference of an annotator: the rule of the judge, or a random value in a fourth of the cases."""
    if rng.random() < 0.25:
        return int(rng.integers(-1, 2))
    return int(np.sign(n_shared_words(guest, first) - n_shared_words(guest, second)))


def n_shared_words(guest: str, answer: str) -> int:
    """Count the words of the guest that an answer repeats."""
    return len({*re.findall(r"\w+", answer.lower())} & {*re.findall(r"\w+", guest.lower())})


@pytest.fixture
def commands() -> Iterator[list[list[str]]]:
    """Yield the commands of the page, with the address of the test server."""
    server = Server(verdict)
    ((_, code),) = blocks(PAGE, "text")
    lines = code.replace("\\\n", " ").replace("http://127.0.0.1:8000/v1", server.url).strip().splitlines()
    yield [shlex.split(line) for line in lines]
    server.close()


def follow(commands: list[list[str]], answer: Callable[[list[str]], None]) -> dict[str, str]:
    """Run each command, with `answer` for the annotators, and return the output of each verb."""
    printed = {}
    for words in commands:
        verb = words[1]
        if verb == "annotate":
            printed[verb] = serve_until_finished(words, answer)
        else:
            status, out, err = run(shlex.join([*words, *QUICK.get(verb, ())]))
            printed[verb] = out + err
            assert status == 0, printed[verb]
    return printed


def serve_until_finished(words: list[str], answer: Callable[[list[str]], None]) -> str:
    """Serve a study in its own process until two annotators complete it, and return the output."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    try:
        assert process.stdout is not None
        text, links = "", list[str]()
        while "Ctrl-C stops the server" not in text:
            line = process.stdout.readline()
            assert line, text
            text, links = text + line, links + LINK.findall(line)
        answer(links)
        while "finished" not in text:
            line = process.stdout.readline()
            assert line, text
            text += line
        process.send_signal(signal.SIGINT)
        text += process.communicate(timeout=PATIENCE)[0]
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, text
    return text


def check(printed: dict[str, str], folder: Path) -> None:
    """Check that each command names the next one and that the results exist."""
    assert "next: custodes report scores.csv" in printed["score"]
    assert "next: custodes report verdicts.csv" in printed["judge"]
    assert "custodes annotate new" in " ".join(printed["check"].split())
    assert "study: finished" in printed["annotate"]
    assert "next: custodes leaderboard study.db" in printed["annotate"]
    assert "corrected:MODEL" in printed["leaderboard"]
    assert "<html" in (folder / "report.html").read_text(encoding="utf-8")[:200].lower()


def test_six_commands_lead_from_texts_to_the_answer(
    commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(commands) <= 6

    def answer(links: list[str]) -> None:
        assert len(links) == 2
        rng, browsers, idle = np.random.default_rng(1), [Browser(link) for link in links], 0
        while idle < 2:
            idle += 1
            for browser in browsers:
                if not browser.action:
                    browser.reload()  # a waiting page
                if browser.action in ("agree", "begin"):
                    browser.begin()
                elif browser.action == "answer":
                    texts = [html.unescape(text) for text in TEXT.findall(browser.page)]
                    fields = {"v0": str(preference(*texts[:3], rng)), "seconds": "20"}
                    browser.act({"do": "answer", "assignment": str(browser.assignment), **fields})
                else:
                    continue
                idle = 0
        for browser in browsers:
            browser.close()

    check(follow(commands, answer), tmp_path)
    board = cu.leaderboard(
        cu.read(*(tmp_path / name for name in ("study.db", "scores.csv", "verdicts.csv"))), resamples=50
    )
    row = board.corrected.filter(metric="MODEL").row(0, named=True)
    assert (row["labels"], row["battles"], row["reason"]) == (60, 180, "")
    rows = board.systems.filter(pl.col("rater") == "corrected:MODEL").sort("rank")
    assert rows["system"][-1] == "Cedar", "which makes most mistakes"
