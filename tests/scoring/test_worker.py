"""Workers: valid replies, and one-line errors for invalid ones."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.errors import InputError
from custodes.process import CHILDREN
from custodes.scoring.metric import Place, Scorer
from custodes.scoring.metrics.worker import WORKER
from custodes.scoring.worker import Process
from tests.waiting import PATIENCE, until
from tests.scoring.made import texts
from tests.scoring.workers import FAKE

Start = Callable[..., Scorer]


SIX = texts(["a", "bb", "ccc", "dddd", "", "\ud800 é ‮"])


@pytest.fixture
def start() -> Iterator[Start]:
    """Function that starts a fake worker with a fault and a batch size of four; workers end after the test."""
    running: list[Scorer] = []

    def started(fault: str = "", *, before: str = "", batch: int = 4, jobs: int = 1, device: str = "cpu") -> Scorer:
        line = f"{before} {sys.executable} -I {FAKE} '{fault}'"
        running.append(WORKER.load(Place(batch=batch, jobs=jobs, device=device), command=line))
        return running[-1]

    yield started
    for scorer in running:
        scorer.close()
    assert not CHILDREN


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """Processes of the workers that the test starts."""
    started: list[Process] = []

    class Recorded(Process):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, **more)
            started.append(self)

    monkeypatch.setattr("custodes.scoring.metrics.worker.Process", Recorded)
    return started


def test_scores_come_in_the_order_of_outputs(start: Start) -> None:
    scorer = start()
    assert (scorer.traits.needs, scorer.traits.rules[0]) == (("references",), "all")
    assert (scorer.traits.low, scorer.traits.high, scorer.traits.higher_is_better) == (None, 99.0, True)
    result = scorer.score(SIX)
    np.testing.assert_array_equal(result.values, [[0], [1], [2], [3], [-1], [4]])
    assert result.seconds == 0.5  # two requests
    assert result.why == {}
    assert not np.any(result.truncated)
    np.testing.assert_array_equal(scorer.score(SIX).values, result.values)


def test_one_reference_at_a_time(start: Start) -> None:
    scorer = start("each")
    assert scorer.traits.rules == ("first", "best", "mean")
    result = scorer.score(texts(["aaa", "bbb", "c"], [["1", "12"], ["123"], []]))
    np.testing.assert_array_equal(result.values, [[2, 1], [0, np.nan], [np.nan, np.nan]])


def test_no_score_has_a_reason(start: Start) -> None:
    result = start("nan").score(texts(["a", "b", "c", "d"]))
    assert np.isnan(result.values).all()
    assert result.why == {
        0: "the worker returned nan",
        1: "the worker returned inf",
        2: "the worker returned no score",
        3: "no words",
    }


def test_what_one_says_wrong_harms_no_other_metric(tmp_path: Path) -> None:
    """Reasons are printed with escaped control characters; invalid answers fail one metric only."""
    columns = {"item": range(5), "system": "A", "text": ["a", "b", "c", "d", "ee"], "references": [["r"]] * 5}
    study = cu.read(pl.DataFrame(columns))
    worker = f"worker:{sys.executable} -I {FAKE}"
    result = cu.score(study, [f"mine={worker} 'reasons with colours'", "length"], cache=tmp_path / "kept.db", batch=8)
    assert set(result.skipped["why"]) == {r"\ud800", r"two\nlines", r"\x1b[31mred", "the worker returned no score"}
    assert result.ratings.filter(rater="length").height == 5
    failed = cu.score(study, [f"mine={worker} 'seconds without end'", "length"], batch=1)
    assert failed.ratings["rater"].unique().to_list() == ["length"]
    assert "metric failed: worker" in failed.notes[0].message
    assert "Expected `float` <= 1e+300 - at `$.seconds`" in failed.notes[0].message


def test_a_reference_without_a_score_leaves_no_mean_of_the_others(start: Start) -> None:
    result = start("one null").score(texts(["a", "b"], [["x"], ["?"]]))
    np.testing.assert_array_equal(result.values, [[1], [np.nan]])


def test_cuts_are_told_and_scores_may_round_beyond_a_bound(start: Start) -> None:
    result = start("cut").score(SIX)
    assert result.truncated is not None
    assert result.truncated.tolist() == [False, False, False, True, False, True]
    assert start("rounded").score(texts(["a"])).values[0, 0] > 1.0


def test_rows_hold_what_is_needed_and_no_more(start: Start) -> None:
    more = {"sources": ["s"], "images": [["i.png"]], "contexts": ["c"]}
    pattern = r'{"context": "c", "images": \["i.png"\], "output": "a", "references": \["r"\], "source": "s"}'
    with pytest.raises(InputError, match=pattern):
        start("everything").score(texts(["a"], **more))
    np.testing.assert_array_equal(start("nothing needed").score(texts(["aa"], **more)).values, [[2]])


def test_the_smaller_batch_counts_and_several_processes_give_the_same(start: Start) -> None:
    whole = texts([str(number) for number in range(50)])
    single = start(batch=32).score(whole)
    for scorer in (start("small batch", batch=32), start(jobs=3), start(device="cuda:0,cuda:1")):
        np.testing.assert_array_equal(scorer.score(whole).values, single.values)
    assert start("small batch", batch=32).score(whole).seconds == 17 * 0.25


def test_each_process_has_its_device_and_the_batch(start: Start) -> None:
    assert start("place", batch=5).score(texts(["a"])).values == 5 + 1000 * len("cpu")
    scores = start("place", batch=1, device="mps,cuda:10").score(texts(["a", "bb"])).values[:, 0]
    assert scores.tolist() == [3001, 7001]


@pytest.mark.parametrize("fault", ["exit", "too few"])
def test_the_fault_of_one_of_several_ends_all(start: Start, fault: str) -> None:
    scorer = start(fault, batch=2, jobs=2)
    with pytest.raises(InputError, match="^worker '.*': the worker (ended with|returned)"):
        scorer.score(texts([str(number) for number in range(40)]))
    assert not CHILDREN


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no hello", "the worker ended with exit status 1; the last line of its output: 'no such model: x.ckpt'$"),
        (
            "silent start",
            "the worker hangs: its first line did not arrive within 0.3 seconds; allow longer with timeout=",
        ),
        ("other protocol", r"its first line is invalid: Invalid enum value 2 - at `\$.protocol`;"),
        ("unknown field", "its first line is invalid: Object contains unknown field `higher_is_beter`"),
        ("high without end", r"its first line is invalid: Expected `float` <= 1e\+300 - at `\$.high`"),
        ("bounds crossed", "its first line is invalid: 'low' of 5 is not below 'high' of 1"),
        ("a version of no letters", r"its first line is invalid: .* '.* 1 \\ud800' contains control characters"),
    ],
)
def test_a_bad_start_is_one_line(start: Start, fault: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"^worker '.*': {message}"):
        start(fault, before="timeout=0.3" if fault == "silent start" else "")
    assert not CHILDREN


LAST = r" \(after 4 rows\); the last line of its output: 'the last word'$"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("exit", f"the worker ended with exit status 3{LAST}"),
        (
            "raise",
            r"the worker ended with exit status 1 .*; the last line of its output: 'RuntimeError: CUDA out of me",
        ),
        ("killed", rf"the worker was terminated by SIGKILL \(memory may have run out: try a smaller --batch\){LAST}"),
        ("hang", f"the worker hangs: an answer did not arrive within 0.3 seconds; allow longer with .*{LAST}"),
        ("half a line", f"the worker ended with exit status 0{LAST}"),
        ("few reasons", f"the worker returned 1 values of 'why' for 2 rows{LAST}"),
        ("too high", f"the worker returned 99.5 for metric 'length', which declares high=99{LAST}"),
        ("too low", rf"the worker returned -1e\+09 for metric 'length', which declares low=-99 and high=99{LAST}"),
        ("wrong id", f"the worker answered request 7, expected 2{LAST}"),
        ("words", rf"an answer is invalid: Expected `float \| null`, got `str` - at `\$.scores\[0\]`{LAST}"),
        ("seconds without end", rf"an answer is invalid: Expected `float` <= 1e\+300 - at `\$.seconds`{LAST}"),
        ("hello again", f"an answer is invalid: Object contains unknown field `protocol`{LAST}"),
        ("printed", "the worker printed 'Epoch 1 of 3', expected an answer as JSON; libraries must print to"),
        ("deep", r"the worker printed '\[\[.*\.\.\., expected an answer as JSON"),
    ],
)
def test_a_fault_later_is_one_line_and_stays_the_answer(
    start: Start, processes: list[Process], fault: str, message: str
) -> None:
    scorer = start(fault)
    np.testing.assert_array_equal(scorer.score(texts(["a", "bb", "ccc", "dddd"])).values, [[0], [1], [2], [3]])
    if fault == "hang":  # not earlier: starting the process may take long on a busy machine
        processes[0].timeout = 0.3
    for _ in range(2):
        with pytest.raises(InputError, match=rf"^worker '.*': {message}"):
            scorer.score(texts(["a", "bb"]))
    assert not CHILDREN


def test_output_that_is_closed_or_has_no_end_is_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("custodes.scoring.worker.GOODBYE", 0.2)
    with pytest.raises(InputError, match="the worker closed its output"):
        start("close").score(SIX)
    monkeypatch.setattr("custodes.scoring.worker.LONGEST", 1000)
    with pytest.raises(InputError, match="a line of over 1000 bytes"):
        start("deep").score(SIX)


def test_a_long_start_that_shows_progress_is_no_hang(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The start takes three times the time limit, with new lines on standard error each time."""
    monkeypatch.chdir(tmp_path)
    expired: list[int] = []

    class Impatient(Process):
        def _line(self, line_name: str, *, waits_for_activity: bool = False) -> bytes:
            lines, errors = self._heard, self._errors

            class Limit:
                def get(self, timeout: float) -> bytes:
                    if len(expired) == 3:
                        (tmp_path / "loaded").touch()
                        return lines.get(timeout=PATIENCE)
                    before = errors.heard
                    until(lambda: errors.heard > before)
                    expired.append(errors.heard)
                    raise queue.Empty

            with monkeypatch.context() as patch:
                patch.setattr(self, "_heard", Limit())
                return super()._line(line_name, waits_for_activity=waits_for_activity)

    monkeypatch.setattr("custodes.scoring.metrics.worker.Process", Impatient)
    assert start("slow start").score(texts(["a"])).values == 0
    assert len(expired) == 3


def test_what_was_scored_before_a_fault_is_not_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight batches of two cache sixteen outputs; then the worker ends, and the corrected worker continues."""
    monkeypatch.chdir(tmp_path)
    columns = {"item": range(40), "system": "A", "text": [f"output {number}" for number in range(40)], "source": "s"}
    frame = pl.DataFrame({**columns, "references": [["r"]] * 40})
    metrics = [f"mine=worker:{sys.executable} -I {FAKE} later", "length"]
    first = cu.score(cu.read(frame), metrics, cache="kept.db", batch=2)
    assert first.ratings["rater"].unique().to_list() == ["length"]
    assert "status 1 (after 18 rows); the last line of its output: 'the disk is full'" in first.notes[0].message
    (tmp_path / "mended").touch()
    second = cu.score(cu.read(frame), metrics, cache="kept.db", batch=2)
    assert second.ratings.filter(rater="mine").height == 40
    assert (tmp_path / "asked").read_text().split() == ["2"] * (10 + 12)  # nine batches answered, eight cached
    assert second.raters.filter(rater="mine")["higher_is_better"].item()
