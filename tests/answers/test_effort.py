"""Estimates of what a question takes: every question has one, it grows with all sizes, and nothing is asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import custodes as cu
import custodes.memory
from custodes import cli
from custodes.answers import effort as module
from custodes.answers.effort import COSTS, Size, effort
from custodes.errors import CustodesError, OptionError
from custodes.questions import QUESTIONS

BASE = Size(
    rows=9000, items=300, systems=5, metrics=4, people=2, aspects=2, compared=3000, resamples=1000, replications=20
)


def test_every_question_has_an_estimate_of_known_terms() -> None:
    assert set(COSTS) == {*QUESTIONS, "report"}
    for seconds, megabytes in COSTS.values():
        for cost in (seconds, megabytes):
            assert set(cost) <= {"start", *BASE.terms}
            assert cost["start"] > 0
            assert min(cost.values()) > 0


@pytest.mark.parametrize("name", [own.name for own in fields(Size)])
def test_more_of_anything_is_no_less_work(name: str) -> None:
    more = replace(BASE, **{name: 10 * getattr(BASE, name)})
    assert all(own >= BASE.terms[term] for term, own in more.terms.items())
    assert name == "people" or any(own > BASE.terms[term] for term, own in more.terms.items())


def test_sizes_are_those_of_what_is_asked_about() -> None:
    study = cu.read("demo")
    whole = Size.of("agreement", study, {"resamples": 1000})
    assert (whole.items, whole.systems, whole.metrics, whole.people, whole.aspects) == (80, 6, 7, 3, 2)
    assert whole.compared == 80 * 15
    part = effort("agreement", study, {"metrics": "judge", "aspect": "fluency", "resamples": 10}).size
    assert (part.metrics, part.aspects, part.resamples, part.items) == (1, 1, 10, 80)
    battles = pl.DataFrame({"item": ["1", "2"], "model_a": "M", "model_b": "N", "winner": ["M", "tie"]})
    assert Size.of("leaderboard", cu.read(battles), {}).compared == 2
    assert effort("plan").size.rows == 0


def test_counts_have_sizes_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = cu.read("demo").ratings.frame.filter(aspect="fluency")
    pairs = cu.count_pairs(
        frame, human="expert1" if "expert1" in frame["rater"] else frame["rater"][0], aspect="fluency"
    )
    size = Size.of("favoritism", pairs, {"resamples": 10})
    assert (size.items, size.systems, size.metrics, size.people, size.resamples) == (0, 6, len(pairs.metrics), 1, 10)
    battles = pl.DataFrame({"item": ["1", "2"], "model_a": "M", "model_b": "N", "winner": ["M", "tie"]})
    place = str(cu.write_counts(cu.count_battles(battles), tmp_path / "x.counts.json"))
    assert cli.run(["leaderboard", place, "--dry-run"]) == 0
    assert "(counts of 2 systems x 1 people" in capsys.readouterr().out
    assert "(assumptions" in str(effort("plan"))


def test_counts_are_refused_as_the_question_refuses_them() -> None:
    one = cu.count_battles(pl.DataFrame({"item": ["1"], "model_a": "M", "model_b": "N", "winner": ["tie"]}))
    rows = pl.DataFrame({"item": ["1"] * 2, "model_a": "M", "model_b": "N", "winner": "tie", "rater": ["ann", "j"]})
    both = cu.count_battles(rows, human="ann")
    for counts in (one, both):
        for name in ("leaderboard", "favoritism", "ranking", "agreement", "check", "verdict", "protocol"):
            told = []
            for ask in (partial(effort, name), getattr(cu, name)):
                try:
                    ask(counts)
                    told.append("")
                except CustodesError as problem:
                    told.append(str(problem))
            assert told[0] == told[1]


def test_what_will_not_fit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for own in (module, custodes.memory):
        monkeypatch.setattr(own, "memory", lambda: 1e8)
    made = effort("check", cu.read("demo"))
    assert not made.fits
    assert "this machine has 0 GB, so it will not fit" in str(made)


@pytest.mark.parametrize("name", ["agreement", "ranking", "favoritism"])
def test_what_is_refused_for_its_memory_is_told_not_to_fit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custodes.memory, "memory", lambda: 3e9)
    study = cu.read("demo")
    fine, many = (effort(name, study, {"resamples": resamples}) for resamples in (1000, 10**6))
    assert fine.fits
    assert not many.fits
    with pytest.raises(OptionError, match="resamples=1000000: takes about"):
        getattr(cu, name)(study, resamples=10**6)


def test_a_study_that_lacks_a_side_is_refused_as_the_question_refuses_it() -> None:
    """Of people alone, and of metrics alone: `effort` says the same as the question, or both have an answer."""
    rows = [(f"i{i}", s, rater, float((i * 7 + ord(s)) % 5)) for i in range(8) for s in "AB" for rater in ("a", "b")]
    frame = pl.DataFrame(rows, schema=["item", "system", "rater", "score"], orient="row")
    more: dict[str, Any] = {"gate": {"require": "spa>=0.1"}}

    def refusal(asked: Callable[..., Any], *args: Any, **options: Any) -> str:
        try:
            asked(*args, **options)
        except CustodesError as problem:
            return str(problem)
        return ""

    for kind in ("human", "metric"):
        study = cu.read(frame.with_columns(kind=pl.lit(kind)))
        for name, own in QUESTIONS.items():
            if name not in ("plan", "validate"):  # of assumptions, of a model
                draws = {"resamples": 100} if "resamples" in signature(own).parameters else {}
                told = refusal(own, study, **more.get(name, {}), **draws)
                assert refusal(effort, name, study) == told, (name, kind)
    assert effort("protocol", cu.read("demo"), {"metrics": "none"}).size.people == 3


def test_a_question_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match=r"question='agreemnt' is none \(did you mean 'agreement'\?\)"):
        effort("agreemnt")


@pytest.mark.parametrize("verb", [["agreement"], ["report"], ["protocol"], ["combine", "fit"]])
def test_a_dry_run_asks_nothing(
    verb: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*verb, "demo", "--dry-run", *(["--target", "fluency"] if verb[0] == "combine" else [])]
    assert cli.run(words) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{verb[0]}: about ")
    assert "80 items x 6 systems x 7 metrics x 3 people" in said
    assert not list(tmp_path.iterdir())
