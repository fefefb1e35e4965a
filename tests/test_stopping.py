"""After Ctrl-C a long command prints what repeating it does."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import custodes as cu
from custodes import cli, process
from custodes.annotate import rehearsal
from custodes.commands import score as score_command  # noqa: F401  (it reads the docstring of `cu.score`)
from custodes.options import Output

TEXTS = [{"item": str(n), "outputs": {"X": "x" * (n + 1), "Y": "y" * 3}} for n in range(10)]
AGAIN = "nothing is written; repeat the command to start again"


def interrupt(*words: Any, **more: Any) -> Any:
    raise KeyboardInterrupt


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in TEXTS))
    rows = [f"{n},{s},{r},{n % 3 + len(s + r)}" for n in range(5) for s in "AB" for r in ("ann", "bleu")]
    Path("scores.csv").write_text("\n".join(["item,system,rater,score", *rows]) + "\n")
    return tmp_path


SCORE = ("score", "texts.jsonl", "--metric", "length", "-o", "s.csv")


@pytest.mark.parametrize(
    ("words", "place", "follows"),
    [
        (SCORE, (cu, "score"), "results are stored in s.cache.db; repeat the command to continue"),
        ((*SCORE, "--cache", "none"), (cu, "score"), AGAIN),
        (("count", "scores.csv", "--human", "ann", "-o", "a.counts.json"), (cu, "count_pairs"), AGAIN),
        (("annotate", "rehearse", "study.db"), (rehearsal, "rehearse"), AGAIN),
        (("check", "demo"), (Output, "time_question"), ""),
    ],
)
def test_an_interrupted_verb_says_what_the_same_command_does(
    texts: Path,
    words: Sequence[str],
    place: tuple[Any, str],
    follows: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if words[0] == "annotate":
        assert cli.run(["annotate", "new", "texts.jsonl"]) == 0
    before = sorted(path.name for path in texts.iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(*place, interrupt)
        capsys.readouterr()
        assert cli.run(words) == 130
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"custodes: interrupted{': ' if follows else ''}{follows}\n")
    assert sorted(path.name for path in texts.iterdir()) == before
    monkeypatch.setattr(Output, "time_question", interrupt)
    assert cli.run(["check", "demo"]) == 130
    assert capsys.readouterr().err == "custodes: interrupted\n"  # not the message of the previous command


def test_a_signal_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    results: list[bytes] = []
    monkeypatch.setattr(process.os, "write", lambda number, text: results.append(text))
    monkeypatch.setattr(process.os, "_exit", lambda status: None)
    monkeypatch.setattr(process.os, "isatty", lambda number: False)
    with process.Stoppable(AGAIN):
        process._exit_on_signal(signal.SIGTERM, None)
    process._exit_on_signal(signal.SIGINT, None)
    assert results == [f"custodes: terminated: {AGAIN}\n".encode(), b"custodes: interrupted\n"]
