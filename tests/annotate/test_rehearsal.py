"""Rehearsals: no change of the study, the same table for a seed, and decisions that match the simulated truth."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import msgspec
import pytest

import custodes as cu
from custodes import cli
from custodes.annotate.demo import demo_texts
from custodes.annotate.plan import AnnotatorPlan, Money, StoppingRule, StudyPlan
from custodes.errors import OptionError

PLAN = StudyPlan(
    name="small",
    annotators=AnnotatorPlan(batch=5, cap=1.0),
    money=Money(price=0.2, fee=0.5),
    stopping=StoppingRule(looks=(6, 12)),
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cu.annotate.new(demo_texts(items=16), tmp_path_factory.mktemp("rehearsal") / "study.db", plan=PLAN)


def test_large_differences_are_decided_and_the_study_does_not_change(study: Path) -> None:
    before = hashlib.sha256(study.read_bytes()).hexdigest()
    options = {"annotators": 4, "margins": [0.8, 0.0], "careless": 0.0, "sided": 0.0, "repetitions": 2}
    result = cu.annotate.rehearse(study, **options)
    assert hashlib.sha256(study.read_bytes()).hexdigest() == before
    row, equal = result.outcomes.to_dicts()
    assert row["pairs"] == 3
    assert row["right"] >= 0.5
    assert row["wrong"] == 0
    assert row["right"] + row["missed"] == pytest.approx(1)
    assert row["right_low"] < row["right"] <= row["right_high"]
    assert row["cost"] == pytest.approx(row["answers"] * 0.3)  # a price of 0.2 and a fee of 50 %
    assert row["hours"] < row["work"], "several people work at once"
    assert equal["right"] + equal["wrong"] == pytest.approx(1), "without a margin every decision is wrong"
    assert equal["missed"] is None
    second = cu.annotate.rehearse(study, **options)
    assert second.outcomes.equals(result.outcomes)
    assert not cu.annotate.rehearse(study, **options, rng=1).outcomes.equals(result.outcomes)


def test_plans_are_compared_on_the_command_line(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short_plan = tmp_path / "short.toml"
    short_plan.write_text("[annotators]\nbatch = 5\ncap = 1.0\n[stopping]\nlooks = [4]\n", encoding="utf-8")
    line = ["annotate", "rehearse", str(study), "--plan", str(short_plan), "--margins", "0.5", "--repetitions", "1"]
    assert cli.run([*line, "--annotators", "1", "--leaving", "0", "--format", "json", "--no-timing"]) == 0
    result = json.loads(capsys.readouterr().out)
    long, short = result["outcomes"]
    assert (long["plan"], short["plan"]) == ("small", "short")
    assert short["answers"] < long["answers"]
    assert short["cost"] is None
    assert "answer at random" in result["notes"][0]["message"]


def test_annotators_without_work_are_noted(tmp_path: Path) -> None:
    """Four annotators from open recruitment may give 2 of 10 answers each, so the study stops; with personal links they
    finish."""
    results = {}
    for recruit in ("open", "links"):
        plan = StudyPlan(name=recruit, annotators=AnnotatorPlan(recruit=recruit), stopping=StoppingRule(looks=(10,)))
        study = cu.annotate.new(demo_texts(items=12), tmp_path / f"{recruit}.db", plan=plan)
        results[recruit] = cu.annotate.rehearse(study, annotators=4, margins=[0.0], leaving=0.0, repetitions=1)
    assert results["open"].outcomes["idle"].to_list() == [4]
    (note,) = (note.message for note in results["open"].notes if note.rule == "standstill")
    assert note.startswith("1 of 1 rehearsals stopped with undecided pairs")
    assert "standstill" not in {note.rule for note in results["links"].notes}
    assert results["links"].outcomes["idle"].item() < 4


def test_two_annotators_finish_whoever_is_slower(tmp_path: Path) -> None:
    """An annotator who has finished waits for the other one, also during known questions: the next interim analysis
    needs both."""
    study = cu.annotate.new(demo_texts(items=40), tmp_path / "study.db")
    result = cu.annotate.rehearse(study, annotators=2, margins=[0.0], leaving=0.0, careless=0.5, repetitions=4)
    assert "standstill" not in {note.rule for note in result.notes}


def test_ratings_are_rehearsed_and_decide_nothing(tmp_path: Path) -> None:
    question = msgspec.structs.replace(PLAN.question, mode="rate")
    plan = msgspec.structs.replace(PLAN, question=question, stopping=StoppingRule())
    study = cu.annotate.new(demo_texts(items=6), tmp_path / "study.db", plan=plan)
    result = cu.annotate.rehearse(study, margins=[0.5], repetitions=1, annotators=3)
    (row,) = result.outcomes.to_dicts()
    assert row["answers"] > 0
    assert row["right"] is None
    assert "ratings" in {note.rule for note in result.notes}


@pytest.mark.parametrize(
    "options",
    [{"careless": 1.5}, {"careless": 0.6, "sided": 0.6}, {"margins": [1.0]}, {"reliability": 0.0}, {"annotators": 0}],
    ids=str,
)
def test_invalid_options_are_refused(study: Path, options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        cu.annotate.rehearse(study, **options)
