from __future__ import annotations

from pathlib import Path

import pytest

import custodes as cu

LLMBAR = {
    "GPT-4/Vanilla": (0.877, 0.755, 0.510),
    "ChatGPT/Vanilla": (0.586, 0.172, 0.678),
    "Falcon/CoT": (0.152, -0.695, 0.922),
}
"""Rater to rate of equal preferences in both orders, alpha, and win rate of the first position."""


def test_llmbar_orders(shared_data: Path) -> None:
    study = cu.read(shared_data / "llmbar/judgments.csv.gz", invalid="drop")
    result = cu.consistency(study, metrics=list(LLMBAR), resamples=0)
    for row in result.orders.iter_rows(named=True):
        # The prototype computes the first position from comparisons in both orders only: .922 instead of .923 for
        # Falcon.
        assert [row[name] for name in ("consistency", "alpha", "first_rate")] == pytest.approx(
            LLMBAR[row["rater"]], abs=1e-3
        )
    results = dict(result.findings.filter(kind="position").select("rater", "finding").rows())
    assert results == {
        "GPT-4/Vanilla": "",
        "ChatGPT/Vanilla": "prefers what is shown first",
        "Falcon/CoT": "prefers what is shown first",
    }


def test_llmbar_panels(shared_data: Path) -> None:
    study = cu.read(shared_data / "llmbar/judgments.csv.gz", invalid="drop")
    result = cu.consistency(study, metrics="*/Vanilla", resamples=0)
    # Prototype: 726, .550, .759. Two comparisons that a judge answered in only one order are excluded.
    assert set(result.panels["comparisons"]) == {726}
    assert {note.rule: note.count for note in result.notes}["half-judged"] > 0
    accuracy = dict(result.panels.select("panel", "accuracy").rows())
    assert accuracy["all"] == pytest.approx(0.550, abs=5e-4)
    assert accuracy["GPT-4/Vanilla"] == pytest.approx(0.759, abs=5e-4)
    assert result.panels.filter(panel="best majority")["judges"].to_list() == [["GPT-4/Vanilla"]]


def test_summeval_recall_likes_length_and_precision_does_not(shared_data: Path) -> None:
    files = (shared_data / "summeval/ratings.csv.gz", shared_data / "summeval/outputs.jsonl.gz")
    rouge = ["rouge-1-recall", "rouge-1-precision", "rouge-1-f1"]
    study = cu.consistency(cu.read(*files), human="expert*", metrics=rouge, aspect="coherence", resamples=0)
    results = dict(study.findings.filter(kind="length").select("rater", "finding").rows())
    # By definition each additional word increases recall and decreases precision.
    assert [results[name] for name in rouge] == ["prefers longer outputs", "prefers shorter outputs", ""]


def test_pandalm_length(shared_data: Path) -> None:
    files = (shared_data / "pandalm/battles.csv.gz", shared_data / "pandalm/outputs.jsonl.gz")
    study = cu.consistency(cu.read(*files, invalid="drop"), resamples=0)
    rows = {row["rater"]: row for row in study.length.iter_rows(named=True)}
    # The prototype has .46 for the first, including ties of the judge.
    for rater, slope in (("gpt-3.5-turbo", 0.46), ("pandalm-7b", 0.50)):
        assert rows[rater]["raw_effect"] == pytest.approx(slope, abs=0.01)
    assert study.findings.filter(finding="prefers longer outputs")["rater"].to_list() == ["pandalm-7b"]
    failing = study.findings.filter(kind="failures").row(0, named=True)
    assert (failing["rater"], failing["factor"], failing["finding"]) == ("gpt-3.5-turbo", "length", "fails unevenly")
    assert study.missing.filter(level="unreadable", rater="gpt-3.5-turbo")["failure_rate"].item() == 25 / 999
