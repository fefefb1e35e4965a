"""Files of counts: read back as they were, refused when they are none, and taken by the questions that can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes import cli
from custodes.errors import InputError, OptionError

BATTLES = pl.DataFrame(
    {
        "item": [f"i{k}" for k in range(60)],
        "model_a": ["A", "B", "C"] * 20,
        "model_b": ["B", "C", "A"] * 20,
        "winner": ["model_a", "model_b", "tie", "model_a"] * 15,
        "rater": "ann",
        "kind": "human",
    }
)

JUDGED = pl.concat(
    [BATTLES, BATTLES.with_columns(pl.col("winner").reverse(), rater=pl.lit("judge"), kind=pl.lit("metric"))]
)


@pytest.fixture
def scores() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        (f"i{item}", system, rater, float(rng.integers(1, 6)))
        for item in range(30)
        for system in "AB"
        for rater in ("ann", "bleu")
    ]
    return pl.DataFrame(rows, schema=["item", "system", "rater", "score"], orient="row")


def test_counts_are_read_back_as_they_were(scores: pl.DataFrame, tmp_path: Path) -> None:
    place = tmp_path / "x.counts.json"
    pairs = cu.count_pairs(scores, human="ann")
    read = cu.read_counts(cu.write_counts(pairs, place))
    assert isinstance(read, cu.PairCounts)
    assert (read.system_a, read.system_b, read.metrics) == (pairs.system_a, pairs.system_b, pairs.metrics)
    for name in ("paired", "metric_only", "human_only"):
        np.testing.assert_array_equal(getattr(read, name), getattr(pairs, name))
    battles = cu.count_battles(BATTLES)
    again = cu.read_counts(cu.write_counts(battles, place))
    assert isinstance(again, cu.BattleCounts)
    assert again.frame.equals(battles.frame)
    assert (again.items, again.notes, again.pairs) == (battles.items, battles.notes, None)
    judged = cu.read_counts(cu.write_counts(cu.count_battles(JUDGED), place))
    assert isinstance(judged, cu.BattleCounts)
    assert judged.pairs is not None
    assert judged.pairs.paired.sum() == BATTLES.height


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda held: held | {"version": 2}, "format 'custodes-counts' 2 is not custodes-counts 1"),
        (lambda held: held | {"digest": "0"}, "its content does not fit its digest"),
        (lambda held: held | {"battles": None}, "its content does not fit its digest"),
        (lambda held: [1], "what it holds cannot be"),
    ],
)
def test_a_file_that_is_none_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    place = cu.write_counts(cu.count_battles(BATTLES), tmp_path / "x.counts.json")
    place.write_text(json.dumps(change(json.loads(place.read_text()))))
    with pytest.raises(InputError, match=rf"^x.counts.json: no counts that can be used: {message}.*; count again$"):
        cu.read_counts(place)


def test_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"counts are kept in a file named ….counts.json"):
        cu.write_counts(cu.count_battles(BATTLES), tmp_path / "x.json")


def test_questions_take_the_counts_that_are_enough_for_them(scores: pl.DataFrame, tmp_path: Path) -> None:
    pairs = cu.write_counts(cu.count_pairs(scores, human="ann"), tmp_path / "pairs.counts.json")
    battles = cu.write_counts(cu.count_battles(BATTLES), tmp_path / "battles.counts.json")
    assert cu.favoritism(pairs, resamples=20).pairs["metric"].to_list() == ["bleu"]
    assert cu.leaderboard(pairs).systems["rater"].unique().sort().to_list() == ["bleu", "human"]
    assert cu.leaderboard(str(battles)).systems["system"].n_unique() == 3
    with pytest.raises(OptionError, match=r"^favoritism: these counts of battles hold no people beside a metric"):
        cu.favoritism(battles)
    judged = cu.write_counts(cu.count_battles(JUDGED), tmp_path / "judged.counts.json")
    exact = ["metric", "system_a", "system_b", "n", "errors", "favi", "sample_accuracy", "flip_probability"]
    one, other = (cu.favoritism(about, resamples=20, rng=0).pairs.select(exact) for about in (judged, JUDGED))
    assert one.equals(other)
    assert cu.ranking(judged, resamples=20, rng=0).to_dict().keys() == cu.ranking(JUDGED, resamples=20).to_dict().keys()
    assert cu.correction(judged, rng=0).pairs.height == cu.correction(JUDGED, rng=0).pairs.height > 0
    with pytest.raises(OptionError, match=r"^check: counts are not enough for this question"):
        cu.check(pairs)
    with pytest.raises(OptionError, match=r"^systems: counts are already selected"):
        cu.leaderboard(battles, systems="A,B")


def test_the_command_line_counts_files_of_any_kind(
    scores: pl.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    half = BATTLES.height // 2
    renamed = BATTLES.rename({"item": "id"})
    renamed.head(half).write_parquet("part1.parquet")
    renamed.tail(-half).write_parquet("part2.parquet")
    BATTLES.write_csv("battles.csv")
    BATTLES.write_ndjson("battles.jsonl")
    expected = cu.count_battles(BATTLES)
    duck = ["--engine", "duckdb", "--memory-limit", "500MB", "--spill", "spill"]
    for own in (
        ["part*.parquet", "--column", "item=id"],
        ["part*.parquet", "--column", "item=id", *duck],
        ["battles.csv"],
        ["battles.csv", *duck],
        ["battles.jsonl", *duck],
    ):
        assert cli.run(["count", *own, "-o", "a.counts.json"]) == 0
        found = cu.read_counts("a.counts.json")
        assert isinstance(found, cu.BattleCounts)
        assert found.frame.equals(expected.frame)
        assert found.items == {"human": 60}
    scores.write_csv("scores.csv")
    assert cli.run(["count", "scores.csv", "--human", "ann", "--ties", "0.5", "-o", "s.counts.json"]) == 0
    capsys.readouterr()
    assert cli.run(["leaderboard", "a.counts.json", "--format", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["systems"] == json.loads(json.dumps(cu.leaderboard(BATTLES).to_dict()["systems"]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no.parquet", "-o", "a.counts.json"], "no.parquet: no such file; give Parquet, CSV or JSON Lines"),
        (["s.csv", "-o", "a.json"], "counts are kept in a file named ….counts.json"),
        (["s.csv", "-o", "a.counts.json"], "say who are people, as in --human ann"),
        (["s.csv", "b.parquet", "-o", "a.counts.json"], "counted are files of one kind"),
        (["s.csv", "--human", "ann", "--orders", "mean", "-o", "a.counts.json"], "--orders would change nothing"),
        (
            ["b.parquet", "--lower", "ann", "-o", "a.counts.json"],
            "--lower would change nothing: the table holds",
        ),
        (["b.parquet", "--spill", "x", "-o", "a.counts.json"], "--memory-limit and --spill are for --engine duckdb"),
        (["b.parquet", "--engine", "duckdb", "--memory-limit", "big", "-o", "a.counts.json"], "such as 500MB or 2GB"),
        (
            ["b.parquet", "--column", "item=id", "-o", "a.counts.json"],
            "--column item=id: no such column; columns:",
        ),
    ],
)
def test_mistakes_on_the_command_line_are_named(
    words: list[str],
    message: str,
    scores: pl.DataFrame,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    scores.write_csv("s.csv")
    BATTLES.write_parquet("b.parquet")
    assert cli.run(["count", *words]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert not list(tmp_path.glob("*.counts.json"))
