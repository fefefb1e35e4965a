"""The raters table next to a file is read automatically, so that metrics have the correct direction."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from custodes import cli
from custodes.data.loading.source import FORMS, RATERS, sidecar_tables
from custodes.data.raters import DIRECTION_RULE, ERRORS
from custodes.data.study import Study
from custodes.data.writing import write_table
from custodes.errors import InputError
from custodes.scoring.metrics import METRICS
from tests.messages import exactly

SCORES = pl.DataFrame(
    {
        "item": ["1", "1", "2", "2"] * 2,
        "system": ["A", "B"] * 4,
        "rater": ["ter"] * 4 + ["ann"] * 4,
        "score": [0.9, 0.1, 0.8, 0.2, 1, 5, 2, 4],
    }
)
TER = pl.DataFrame(
    {"rater": ["ter"], "kind": ["metric"], "higher_is_better": [False], "cost": [0.5], "signature": ["ter v1"]}
)


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    return write_table(SCORES, tmp_path / "scores.csv")


def traits_of(study: Study, rater: str = "ter") -> tuple[object, ...]:
    columns = ("kind", "higher_is_better", "cost", "signature")
    return study.raters.select_raters([rater]).frame.select(columns).row(0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sidecar_name", [".csv", ".jsonl.gz"])
def test_it_is_read_and_told(tmp_path: Path, form: str, sidecar_name: str) -> None:
    write_table(SCORES, tmp_path / f"scores{sidecar_name}")
    write_table(TER, tmp_path / f"scores.raters{form}")
    study = cu.read(tmp_path / f"scores{sidecar_name}")
    assert traits_of(study) == ("metric", False, 0.5, "ter v1")
    notes = {note.rule: note.message for note in study.notes}
    assert notes["raters-beside"] == (
        f"scores{sidecar_name}: kinds and directions of the raters are read from scores.raters{form} in the same folder"
    )


def test_what_is_given_wins_column_by_column(tmp_path: Path, scores: Path) -> None:
    beside = write_table(TER, tmp_path / "scores.raters.csv")
    mine = write_table(pl.DataFrame({"rater": ["t*"], "cost": [2.0], "kind": [None]}), tmp_path / "mine.csv")
    assert traits_of(cu.read(scores, raters=mine)) == ("metric", False, 2.0, "ter v1")
    assert "raters-beside" in {note.rule for note in cu.read(scores, raters=mine).notes}
    once = cu.read(scores, raters=beside)
    assert traits_of(once) == ("metric", False, 0.5, "ter v1")
    assert "raters-beside" not in {note.rule for note in once.notes}


def test_it_speaks_of_its_own_file_and_of_no_other(tmp_path: Path) -> None:
    scores = write_table(SCORES.filter(pl.col("rater") == "ter"), tmp_path / "scores.csv")
    human_file = write_table(SCORES.filter(pl.col("rater") == "ann"), tmp_path / "people.csv")
    write_table(TER.with_columns(rater=pl.lit("*")), tmp_path / "scores.raters.csv")
    for order in ([scores, human_file], [human_file, scores]):
        study = cu.read(*order)
        assert traits_of(study) == ("metric", False, 0.5, "ter v1")
        assert traits_of(study, "ann") == ("human", True, None, None)


def test_names_that_a_shell_or_a_pattern_gives_hold_it_too(tmp_path: Path) -> None:
    for name in ("one", "two"):
        ter_scores = SCORES.with_columns(item=pl.col("item") + name).filter(pl.col("rater") == "ter")
        write_table(ter_scores, tmp_path / f"{name}.csv")
        write_table(TER, tmp_path / f"{name}.raters.csv")
    for study in (cu.read(*sorted(tmp_path.glob("*.csv"))), cu.read(tmp_path / "*.csv")):
        assert study.ratings.frame.height == 8
        assert traits_of(study) == ("metric", False, 0.5, "ter v1")


def test_a_file_of_texts_has_no_raters_to_describe_and_the_digest_depends_on_them(tmp_path: Path, scores: Path) -> None:
    (tmp_path / "scores.jsonl").write_text('{"item": 1, "outputs": {"A": "x", "B": "y"}}\n')
    alone = cu.read(scores).digest
    write_table(TER, tmp_path / "scores.raters.csv")
    assert cu.read(scores).digest != alone
    assert traits_of(cu.read(tmp_path / "scores.jsonl", scores)) == ("metric", False, 0.5, "ter v1")


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        (
            ".csv",
            b"rater,kind\nbleu,metric\n",
            "no rater of this table is in the data (bleu); raters: ter, ann; this raters table is read because "
            "it is next to scores.csv; correct or rename the table",
        ),
        (
            ".csv",
            b"",
            "the file is empty; give a table with a header and at least one row; this raters table is read "
            "because it is next to scores.csv; correct or rename the table",
        ),
        (
            ".csv",
            b"name,kind\nter,metric\n",
            "column 'rater' is missing; columns: name, kind; needed: rater; this raters table is read because it "
            "is next to scores.csv; correct or rename the table",
        ),
        (
            ".csv",
            b"rater,low,high\nter,2,1\n",
            "low is not below high in row 1; correct the bounds of the scale; this raters table is read because "
            "it is next to scores.csv; correct or rename the table",
        ),
        (
            ".csv.gz",
            gzip.compress(b"x")[:-3],
            "a damaged or truncated compressed file; copy or download it again; this raters table is read because "
            "it is next to scores.csv; correct or rename the table",
        ),
    ],
)
def test_one_that_is_wrong_is_one_line_with_the_way_out(
    tmp_path: Path, scores: Path, form: str, content: bytes, message: str
) -> None:
    (tmp_path / f"scores.raters{form}").write_bytes(content)
    with pytest.raises(InputError) as error:
        cu.read(scores)
    assert str(error.value) == f"scores.raters{form}: {message}"
    assert str(error.value).endswith("read because it is next to scores.csv; correct or rename the table")
    assert len(str(error.value).splitlines()) == 1


def test_of_two_one_must_go_unless_one_is_named(tmp_path: Path, scores: Path) -> None:
    write_table(TER, tmp_path / "scores.raters.csv")
    second_table = write_table(TER.with_columns(cost=pl.lit(9.0)), tmp_path / "scores.raters.jsonl")
    message = "scores.csv: several raters tables in the same folder (scores.raters.csv, scores.raters.jsonl); keep one"
    with pytest.raises(InputError, match=exactly(message)):
        cu.read(scores)
    assert traits_of(cu.read(scores, raters=second_table)) == ("metric", False, 9.0, "ter v1")


def test_what_score_writes_is_the_right_way_round_without_any_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sacrebleu")
    monkeypatch.chdir(tmp_path)
    reference = "the cat sat on the mat and looked at the dog"
    worse = "the cat sat on a mat at the dog"
    rows = [{"item": str(i), "references": [reference], "outputs": {"A": reference, "B": worse}} for i in range(4)]
    Path("texts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    human_rows = [(str(i), system, "ann", "human", score) for i in range(4) for system, score in (("A", 5), ("B", 1))]
    names = ["item", "system", "rater", "kind", "score"]
    write_table(pl.DataFrame(human_rows, schema=names, orient="row"), "people.csv")
    assert cli.run(["score", "texts.jsonl", "--metric", "ter", "-o", "scores.csv", "--cache", "none", "--quiet"]) == 0
    capsys.readouterr()
    study = cu.read("scores.csv", "people.csv")
    row = study.raters.select_raters(["ter"]).frame.row(0, named=True)
    assert (row["kind"], row["higher_is_better"], row["truncated"]) == ("metric", False, 0)
    assert row["signature"]
    result = cu.favoritism(study, resamples=20)
    assert result.pairs.select("sample_accuracy", "sign_agrees").row(0) == (1.0, True)


def test_names_that_are_no_file_have_nothing_beside_them(tmp_path: Path) -> None:
    for name in ("", ".", "..", "/", "nul\0.csv", "x" * 250 + ".csv", "postgresql://u@h/db", "-", "demo"):
        assert sidecar_tables(Path(name), RATERS) == []
    path = write_table(SCORES, tmp_path / ("x" * 230 + ".csv"))
    assert cu.read(path.rename(tmp_path / ("y" * 251 + ".csv"))).ratings.frame.height == 8
    path = write_table(SCORES, tmp_path / "scores.csv")
    (tmp_path / "scores.raters.csv").mkdir()
    assert traits_of(cu.read(path))[1] is True


def rules(study: Study) -> dict[str, str]:
    return {note.rule: note.message for note in study.notes}


def test_a_metric_called_like_one_that_counts_errors_is_told_while_nothing_says_what_it_is(tmp_path: Path) -> None:
    study = cu.read(SCORES)
    message = (
        "for metrics named ter, lower is usually better, but in these data higher counts as better; "
        "if lower is better, set higher_is_better to false in a raters table"
    )
    assert message in rules(study)[DIRECTION_RULE]
    problems = cu.check(study, human="ann").problems
    assert ("warning", DIRECTION_RULE) in problems.select("severity", "rule").rows()
    for up in (True, False):
        side = pl.DataFrame({"rater": ["ter"], "higher_is_better": [up]})
        assert DIRECTION_RULE not in rules(study.describe(raters=side))
        assert DIRECTION_RULE not in rules(cu.read(SCORES, raters=side))
    costs = pl.DataFrame({"rater": ["ter"], "cost": [1.0]})
    assert DIRECTION_RULE in rules(study.describe(raters=costs))
    for name, kind, expected in [
        *(("ter@best", "metric", True), ("wer:case=keep@first,mean", "", True)),
        *(("ter", "human", False), ("terse", "metric", False)),
    ]:
        scores = SCORES.with_columns(rater=pl.lit(name), kind=pl.lit(kind)).head(4)
        assert (DIRECTION_RULE in rules(cu.read(scores))) is expected


def test_names_of_metrics_that_count_errors_are_those_of_the_metrics_here() -> None:
    assert set(ERRORS) == {name for name, metric in METRICS.items() if not metric.traits.higher_is_better}


TEXTS = '{"item": 1, "outputs": {"A": "x", "B": "x y"}, "references": ["x z"]}\n'


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("texts.jsonl").write_text(TEXTS)
    return tmp_path


def scored(metric: str, output: str) -> int:
    return cli.run(["score", "texts.jsonl", "--metric", metric, "--cache", "none", "-o", output])


@pytest.mark.parametrize("table", [True, False])
def test_the_table_of_another_file_is_not_written_over_nor_put_beside_it(
    working_folder: Path, capsys: pytest.CaptureFixture[str], table: bool
) -> None:
    write_table(SCORES, "s.csv")
    if table:
        write_table(TER, "s.raters.csv")
    Path("s.json").write_text('{"question": "agreement"}')
    before = sorted((path.name, path.read_bytes()) for path in working_folder.iterdir())
    judging = ["judge", "texts.jsonl", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "-o", "s.tsv"]
    scoring = [["score", "texts.jsonl", "--metric", "length", "-o", f"s{end}"] for end in (".jsonl", ".raters.csv")]
    for line in (*scoring, judging):
        assert cli.run(line) == 2
        assert (
            "s.raters.csv: it would be read as the raters table of s.csv in the same folder" in capsys.readouterr().err
        )
    assert sorted((path.name, path.read_bytes()) for path in working_folder.iterdir()) == before
    assert scored("length", "s.csv") == 0
    assert traits_of(cu.read("s.csv"), "length")[1] is True


def test_what_a_stream_cannot_carry_is_told(working_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert scored("wer@first", "/dev/stdout") == 0
    message = (
        "lower scores are better for wer@first; a stream has no raters table, so "
        "give a raters table (--raters) to the command that reads the stream"
    )
    assert message in capfd.readouterr().err
    write_table(SCORES, "s.csv")
    write_table(TER, "s.raters.csv")
    assert cli.run(["convert", "s.csv", "-o", "/dev/stdout"]) == 0
    assert "lower scores are better for ter; a stream has no raters table" in capfd.readouterr().err


def test_convert_keeps_what_raters_are(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(SCORES, "s.csv")
    write_table(TER, "s.raters.csv")
    assert cli.run(["convert", "s.csv", "-o", "made.csv"]) == 0
    assert capsys.readouterr().out.split() == ["made.csv", "made.raters.csv"]
    before, after = cu.read("s.csv"), cu.read("made.csv")
    assert after.raters.frame.equals(before.raters.frame)
    for output in ("s.parquet", "made.tsv"):  # the existing sidecar already declares the direction
        assert cli.run(["convert", "made.csv", "-o", output]) == 0
        assert capsys.readouterr().out.split() == [output]
        assert traits_of(cu.read(output))[1] is False
    assert cli.run(["convert", "s.csv", "-o", "folder/"]) == 0
    assert "lower scores are better for ter; give --raters folder/raters.csv when" in capsys.readouterr().err
    assert traits_of(cu.read("folder/ratings.csv", raters="folder/raters.csv"))[1] is False
    unread = "raters.csv in the folder of ratings.csv is not read automatically; to use it, give it as --raters"
    assert rules(cu.read("folder/ratings.csv"))["raters-not-read"] == unread
    assert "raters-not-read" not in rules(cu.read("folder/ratings.csv", raters="folder/raters.csv"))


def test_convert_leaves_no_table_that_says_something_else(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(SCORES, "plain.csv")
    write_table(SCORES, "old.csv")
    write_table(TER, "old.raters.csv")
    assert cli.run(["convert", "plain.csv", "-o", "old.csv"]) == 0
    assert traits_of(cu.read("old.csv"))[1] is True
    write_table(TER, "plain.raters.csv")
    capsys.readouterr()
    assert cli.run(["convert", "old.csv", "-o", "plain.tsv"]) == 2
    assert "plain.raters.csv: it would be read as the raters table of plain.csv" in capsys.readouterr().err
    write_table(TER, "third.raters.jsonl")
    assert cli.run(["convert", "old.csv", "-o", "third.csv"]) == 2
    assert "third.raters.jsonl" in capsys.readouterr().err
    assert not {"plain.tsv", "third.csv"} & {path.name for path in working_folder.iterdir()}
