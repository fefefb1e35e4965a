"""Estimates of run time and memory: every question has one that grows with the data and computes nothing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import custodes as cu
import custodes.memory
from custodes import cli
from custodes.answers import effort as module
from custodes.answers.effort import PASSES, effort
from custodes.errors import OptionError
from tests.questions import QUESTIONS

BATTLES = pl.DataFrame({"item": ["1", "2"], "model_a": "M", "model_b": "N", "winner": ["M", "tie"]})


def test_every_question_has_an_estimate() -> None:
    assert set(PASSES) == {*QUESTIONS, "report"}
    study = cu.read("demo")
    assert all(effort(name, study).seconds > 0 for name in PASSES)


def test_more_data_takes_more_time_and_memory() -> None:
    study = cu.read("demo")
    less = effort("agreement", study, {"resamples": 1000, "aspect": "fluency", "metrics": "judge"})
    for more in (
        {"resamples": 10_000, "aspect": "fluency", "metrics": "judge"},
        {"resamples": 1000, "metrics": "judge"},
        {"resamples": 1000, "aspect": "fluency"},
        {"resamples": 1000, "aspect": "fluency", "metrics": "judge", "replications": 100},
    ):
        estimate = effort("agreement", study, more)
        assert estimate.seconds > less.seconds
        assert estimate.megabytes >= less.megabytes


def test_sizes_are_those_of_the_selected_data() -> None:
    study = cu.read("demo")
    sizes = effort("agreement", study, {"resamples": 1000}).sizes
    assert (sizes["items"], sizes["systems"], sizes["metrics"], sizes["annotators"], sizes["aspects"]) == (
        80,
        6,
        7,
        3,
        2,
    )
    sizes = effort("agreement", study, {"metrics": "judge", "aspect": "fluency", "resamples": 10}).sizes
    assert (sizes["metrics"], sizes["aspects"], sizes["resamples"], sizes["items"]) == (1, 1, 10, 80)
    assert effort("protocol", study, {"metrics": "none"}).sizes["annotators"] == 3
    assert "(assumptions)" in str(effort("plan"))


def test_counts_have_systems_and_raters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = cu.count_pairs(cu.read("demo").ratings.frame.filter(aspect="fluency"), human="ann1", aspect="fluency")
    sizes = effort("favoritism", pairs, {"resamples": 10}).sizes
    assert (sizes["systems"], sizes["metrics"], sizes["resamples"]) == (6, len(pairs.metrics), 10)
    place = str(cu.write_counts(cu.count_battles(BATTLES), tmp_path / "x.counts.json"))
    assert cli.run(["leaderboard", place, "--dry-run"]) == 0
    assert "(2 systems x 1,000 resamples)" in capsys.readouterr().out


def test_too_little_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (module, custodes.memory):
        monkeypatch.setattr(place, "machine_memory", lambda: 1e8)
    estimate = effort("check", cu.read("demo"))
    assert not estimate.fits
    assert "this machine has only 0 GB of memory" in str(estimate)


@pytest.mark.parametrize("name", ["agreement", "favoritism"])
def test_resamples_that_are_refused_for_their_memory_do_not_fit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custodes.memory, "machine_memory", lambda: 3e9)
    study = cu.read("demo")
    assert effort(name, study, {"resamples": 1000}).fits
    assert not effort(name, study, {"resamples": 10**6}).fits
    with pytest.raises(OptionError, match="resamples=1000000: needs about"):
        getattr(cu, name)(study, resamples=10**6)


def test_unknown_questions_and_selections_are_refused() -> None:
    with pytest.raises(OptionError, match="agreemnt"):
        effort("agreemnt")
    with pytest.raises(OptionError, match="coherense"):
        effort("agreement", cu.read("demo"), {"aspect": "coherense"})


@pytest.mark.parametrize("verb", [["report"], ["combine", "fit"]])
def test_a_dry_run_computes_nothing(
    verb: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*verb, "demo", "--dry-run", *(["--target", "fluency"] if verb[0] == "combine" else [])]
    assert cli.run(words) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"{verb[0]}: about ")
    assert "80 items x 6 systems x 7 metrics x 3 annotators" in output
    assert not list(tmp_path.iterdir())
