"""Files of counts: round trips, errors for other files, and the questions that accept them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes import cli
from custodes.data.table_engines import scan_sources
from custodes.errors import CustodesError, InputError, OptionError
from tests.data.equal_counts import assert_equal_counts
from tests.messages import exactly

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
    counts = cu.read_counts(cu.write_counts(pairs, place))
    assert_equal_counts(counts, pairs)
    battles = cu.count_battles(BATTLES)
    again = cu.read_counts(cu.write_counts(battles, place))
    assert again.outcomes.equals(battles.outcomes)
    assert (again.items, again.notes, again.metrics) == (battles.items, battles.notes, ())
    judged = cu.read_counts(cu.write_counts(cu.count_battles(JUDGED), place))
    assert judged.paired.sum() == BATTLES.height


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "format 'custodes-counts', version 2, is unknown to this version of custodes"),
        ({"counts": {}}, "the content does not match the digest in the file"),
        ({"how": {"ties": 1}}, "the content does not match the digest in the file"),
        *(({"new": 1}, "invalid content: .*"), ("[]", "invalid content: .*")),
        ("\n", "not the JSON that custodes writes: .*"),
        ('{"format": "custodes-counts", "version', "not the JSON that custodes writes: .*"),
    ],
)
def test_a_file_that_is_none_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    place = cu.write_counts(cu.count_battles(BATTLES), tmp_path / "x.counts.json")
    place.write_text(change if isinstance(change, str) else json.dumps(json.loads(place.read_text()) | change))
    message = f"x.counts.json: counts cannot be read: {message}; count again with `custodes count`"
    with pytest.raises(InputError, match=f"^{message}$"):
        cu.read_counts(place)


def test_questions_take_the_counts_that_are_enough_for_them(scores: pl.DataFrame, tmp_path: Path) -> None:
    pairs = cu.write_counts(cu.count_pairs(scores, human="ann"), tmp_path / "pairs.counts.json")
    battles = cu.write_counts(cu.count_battles(BATTLES), tmp_path / "battles.counts.json")
    assert cu.favoritism(pairs, resamples=20).pairs["metric"].to_list() == ["bleu"]
    assert cu.leaderboard(pairs).systems["rater"].unique().sort().to_list() == ["bleu", "human"]
    assert cu.leaderboard(str(battles)).systems["system"].n_unique() == 3
    with pytest.raises(
        OptionError,
        match=(
            exactly(
                "these counts have no comparison that annotators and a metric rated, but this question compares "
                "annotators and metrics; count human and metric ratings together"
            )
        ),
    ):
        cu.favoritism(battles)
    judged = cu.write_counts(cu.count_battles(JUDGED), tmp_path / "judged.counts.json")
    exact = ["metric", "system_a", "system_b", "n", "favi", "sample_accuracy", "flip_probability"]
    one, other = (cu.favoritism(about, resamples=20, rng=0).pairs.select(exact) for about in (judged, JUDGED))
    assert one.equals(other)
    assert cu.ranking(judged, resamples=20, rng=0).to_dict().keys() == cu.ranking(JUDGED, resamples=20).to_dict().keys()
    assert cu.correction(judged, rng=0).pairs.height == cu.correction(JUDGED, rng=0).pairs.height > 0
    with pytest.raises(OptionError, match=r"^check: this question needs the ratings of single items"):
        cu.check(pairs)
    with pytest.raises(
        OptionError,
        match=exactly("systems: selection and tie rules were already applied to the counts; set systems when counting"),
    ):
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
        counts = cu.read_counts("a.counts.json")
        assert counts.outcomes.equals(expected.outcomes)
        assert counts.items == {"human": 60}
    scores.write_csv("scores.csv")
    assert cli.run(["count", "scores.csv", "--human", "ann", "--ties", "0.5", "-o", "s.counts.json"]) == 0
    capsys.readouterr()
    assert cli.run(["leaderboard", "a.counts.json", "--format", "json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["systems"] == json.loads(json.dumps(cu.leaderboard(BATTLES).to_dict()["systems"]))


def test_answers_tell_how_counts_were_counted_and_of_which_file(scores: pl.DataFrame, tmp_path: Path) -> None:
    counts = cu.count_pairs(scores, human="ann", aggregate="vote", ties=2, human_ties=1, directions={"bleu": -1})
    place = cu.write_counts(counts, tmp_path / "v.counts.json")
    result = cu.favoritism(place, resamples=20, rng=0)
    digest = json.loads(place.read_text())["digest"][:16]
    head = f"favoritism | study=v.counts.json | digest={digest} | human=ann | aggregate=vote | ties=2.0 | human_ties=1"
    assert str(result.provenance).startswith(head)
    assert " | lower=bleu | confidence=0.95 | " in str(result.provenance)
    assert "orders" not in str(result.provenance)  # scores have no presentation order
    assert result.to_dict()["provenance"]["counted"]["aggregate"] == "vote"
    assert result.provenance.replay(place).to_dict() == result.to_dict()
    unsaved = cu.leaderboard(counts).provenance
    assert (unsaved.study, unsaved.digest, unsaved.counted) == ("counts", "", counts.origin.how)


def test_of_verdicts_of_people_and_metrics_the_same_is_told(tmp_path: Path) -> None:
    place = cu.write_counts(
        cu.count_battles(JUDGED, orders="consistent", systems=["A", "B"]), tmp_path / "v.counts.json"
    )
    for ask in (cu.favoritism, cu.leaderboard):
        provenance = ask(place).provenance
        assert (provenance.study, provenance.counted) == (
            "v.counts.json",
            {"systems": ["A", "B"], "orders": "consistent"},
        )
        assert not {"aggregate", "ties", "orders"} & set(provenance.options)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("leaderboard x.counts.json b.csv", "counts cannot be combined with other data; give a single file of counts"),
        ("leaderboard x.counts.json --reader table", "the input is a file of counts (x.counts.json)"),
        (
            "report x.counts.json",
            "this question needs the ratings of single items, which counts do not contain; pass "
            "the study instead of its",
        ),
    ],
)
def test_counts_are_the_only_input_of_a_command(
    words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cu.write_counts(cu.count_battles(BATTLES), "x.counts.json")
    BATTLES.write_csv("b.csv")
    assert cli.run(words.split()) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    message = "leaderboard: counts cannot be combined with other data; give a single file of counts"
    with pytest.raises(OptionError, match=exactly(message)):
        cu.leaderboard(["x.counts.json", "b.csv"])


def test_a_name_of_another_form_is_refused_and_notes_are_kept(tmp_path: Path) -> None:
    counts = cu.count_battles(BATTLES.with_columns(winner=pl.Series(["", *BATTLES["winner"][1:]])))
    message = (
        f"cannot write {tmp_path / 'x.json'}: the name of a counts file must end in .counts.json; choose such a name"
    )
    with pytest.raises(OptionError, match=exactly(message)):
        cu.write_counts(counts, tmp_path / "x.json")
    again = cu.read_counts(cu.write_counts(counts, tmp_path / "x.counts.json"))
    assert again.notes == counts.notes
    assert [(note.rule, note.count) for note in again.notes] == [("missing-verdict", 1)]
    assert again.origin == replace(counts.origin, name="x.counts.json", digest=again.origin.digest)


ONLY_DUCKDB = "--memory-limit and --spill need --engine duckdb; leave them out with Polars, which counts in batches"
KINDS = (
    "count reads files of one type (.parquet, .csv, .jsonl, .ndjson); export a table of a database to such a file, "
    "or in Python pass the table to count_pairs or count_labels"
)
COLUMNS = "item, system, rater, score"


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        ("no.csv gone*.csv", {}, "no.csv, gone*.csv: no such file; give Parquet, CSV or JSON Lines"),
        ("s.csv s.parquet", {}, f"s.csv, s.parquet: {KINDS}"),
        ("t.txt", {}, f"t.txt: {KINDS}"),
        ("s.csv t.CSV", {}, "s.csv and t.CSV differ in columns judge, rater; count these files separately"),
        (
            "s.csv t.CSV",
            {"engine": "duckdb"},
            "s.csv and t.CSV differ in columns judge, rater; count these files separately",
        ),
        ("s.csv", {"columns": {"item": "x"}}, f"--column item=x: no such column; columns: {COLUMNS}"),
        (
            "s.csv",
            {"columns": {"item": "rater"}},
            "--column item=rater: the table already has a column 'item'; leave out this option",
        ),
        ("s.csv", {"memory_limit": "1GB"}, ONLY_DUCKDB),
        ("s.csv", {"spill": "x"}, ONLY_DUCKDB),
        (
            "s.csv",
            {"engine": "duckdb", "memory_limit": "1 gb!"},
            "--memory-limit '1 gb!': not a size; give one such as 500MB or 2GB",
        ),
    ],
)
def test_files_that_no_engine_scans_are_refused(
    sources: str,
    options: dict[str, Any],
    message: str,
    scores: pl.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    Path("t.txt").touch()
    scores.write_csv("s.csv")
    scores.rename({"rater": "judge"}).write_csv("t.CSV")
    scores.write_parquet("s.parquet")
    defaults: dict[str, Any] = {"engine": "polars", "columns": {}, "memory_limit": None, "spill": None}
    with pytest.raises(CustodesError, match=exactly(message)), scan_sources(sources.split(), **defaults | options):
        pass
    for engine in ("polars", "duckdb"):
        same = {"engine": engine, "columns": {"item": "item"}}
        with scan_sources(["s.csv", "s.csv"], **defaults | same) as table:
            assert nw.from_native(table).lazy().collect("polars").shape == (240, 4)
    limits = {"engine": "duckdb", "memory_limit": " 1.5 gib ", "spill": "new"}
    with scan_sources(["*.parquet"], **defaults | limits) as table:
        assert len(table.fetchall()) == 120


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("no.parquet", "no.parquet: no such file; give Parquet, CSV or JSON Lines"),
        ("s.csv -o a.json", "the name of a file of counts must end in .counts.json"),
        ("", "there is no input; give a file of scores or verdicts"),
        ("b.parquet s.parquet", "b.parquet and s.parquet differ in columns kind, model_a, model_b, "),
        ("s.csv --human ann --batches 0", "count: --batches 0 must be at least 1"),
        ("broken.parquet", "; check that the table is complete and still exists"),
        ("s.csv", "name the annotators, as in --human ann"),
        ("s.csv b.parquet", ("custodes: s.csv, b.parquet: count reads files of one type (")),
        ("s.csv --human ann --orders mean", "--orders 'mean' has no effect"),
        ("b.parquet --lower ann", "--lower {'ann': -1.0} has no effect: the table holds"),
        ("b.parquet --engine duckdb --memory-limit 1MB", "which writes to disk (--spill FOLDER)"),
        (
            "b.parquet --spill x",
            "--memory-limit and --spill need --engine duckdb; leave them out with Polars, which counts in batches ",
        ),
        ("b.parquet --column item=id", "--column item=id: no such column; columns:"),
        ("q.parquet", "count: the table has no column item (for scores: also system, rater and score); name the col"),
        ("q.parquet", "as in --column item=question_id. Columns: question_id"),
        ("r.parquet", "count: no rater is known to be human; name the annotators, as in --human 'ann'"),
    ],
)
def test_mistakes_on_the_command_line_are_named(
    words: str,
    message: str,
    scores: pl.DataFrame,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    scores.write_csv("s.csv")
    scores.write_parquet("s.parquet")
    BATTLES.write_parquet("b.parquet")
    BATTLES.rename({"item": "question_id"}).write_parquet("q.parquet")
    BATTLES.drop("rater", "kind", strict=False).with_columns(judge=pl.lit("bob")).write_parquet("r.parquet")
    Path("broken.parquet").write_bytes(Path("b.parquet").read_bytes()[:-200] + b"PAR1")
    assert cli.run(["count", *words.split(), *([] if " -o " in words else ["-o", "a.counts.json"])]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert not list(tmp_path.glob("*.counts.json"))
    assert cli.run(["count", "s.csv"]) == 2
    assert "count: no output file is given; give one, as in -o NAME" in capsys.readouterr().err
