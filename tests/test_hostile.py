"""Hostile input and environments for every command: a one-line error with exit status 2, or the correct answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import custodes as cu
from custodes import cli
from custodes.data.reading import read
from custodes.data.writing import write_table
from custodes.errors import InputError
from tests.command_line import Run, custodes, refused
from tests.questions import QUESTIONS, command

__all__ = ["custodes"]

PATTERNS = ("*", "^.*$", "^b.*$", "^(b$", " * ")
"""Column names that Polars expands as patterns, or that make it fail."""

QUICK = ("--resamples", "20")
MODEL = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--aspects", "style")
FILE = "FILE"
COMMANDS = (
    *([FILE if word == "demo" else word for word in command(question)] for question in QUESTIONS),
    ("report", FILE, *QUICK, "-o", "report.html"),
    ("convert", FILE, "-o", "converted.csv"),
    ("combine", "score", FILE, "--model", "model.json", "-o", "scores.csv"),
    ("score", FILE, "--metric", "chrf", "-o", "scores.csv"),
    ("judge", FILE, *MODEL, "-o", "verdicts.csv"),
    ("annotate", "new", FILE, "-o", "study.db"),
    ("check", "demo", "--raters", FILE),
    ("check", "demo", "--items", FILE),
)
"""One command for every question that reads tables, and for every option that names a table."""

UNREAD = {"doctor", "count"}
"""doctor reads no table, and count leaves unknown columns to the engine."""


def commands(file: Path) -> list[list[str]]:
    return [[str(file) if word == FILE else word for word in words] for words in COMMANDS]


def outputs(*columns: str) -> pl.DataFrame:
    """Texts and scores of three systems on four items, with additional numeric `columns`."""
    keys = pl.DataFrame(
        [(str(item), system) for item in range(4) for system in "ABC"], schema=["item", "system"], orient="row"
    )
    numbers = np.arange(12) * 5 % 7
    return keys.with_columns(
        pl.format("text {} of {}", "item", "system").alias("text"),
        *(pl.Series(name, numbers + place) for place, name in enumerate(columns)),
    )


def test_the_commands_are_those_of_every_verb() -> None:
    assert {words[0] for words in COMMANDS} == set(cli.VERBS) - UNREAD


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet", ".db"])
def test_a_column_that_is_a_pattern_is_refused_in_every_container(name: str, suffix: str, tmp_path: Path) -> None:
    file, table = tmp_path / f"table{suffix}", outputs("bleu", name)
    if suffix == ".db":
        import sqlite3

        with sqlite3.connect(file) as connection:
            table.to_pandas().to_sql("scores", connection, index=False)
    elif suffix == ".json":
        file.write_text(json.dumps(table.to_dicts()))
    elif suffix == ".parquet":
        table.write_parquet(file)
    else:
        write_table(table, file)
    with pytest.raises(InputError) as error:
        read(file)
    assert repr(name.strip()) in str(error.value)


@pytest.mark.parametrize("name", PATTERNS[:-1])
@pytest.mark.parametrize(
    "frame_of", [pl.DataFrame, pl.LazyFrame, lambda frame: frame.to_pandas(), lambda frame: frame.to_arrow()]
)
def test_a_column_that_is_a_pattern_is_refused_in_every_dataframe(name: str, frame_of: Callable[..., object]) -> None:
    table = outputs("bleu").drop("text").with_columns(human=1, bleu=2).rename({"human": name})
    with pytest.raises(InputError, match="rename the column"):
        read(frame_of(table))
    with pytest.raises(InputError, match="rename the column"):
        cu.read("demo").describe(raters=frame_of(pl.DataFrame({"rater": ["judge"], name: ["metric"]})))


def test_every_verb_refuses_a_column_that_is_a_pattern(custodes: Run) -> None:
    write_table(outputs(), Path("texts.csv"))
    assert custodes("annotate", "new", "texts.csv", "-o", "asked.db").status == 0
    assert (
        custodes(
            "combine", "fit", "demo", "--target", "fluency", "--method", "equal", "--unseen", "none", "-o", "model.json"
        ).status
        == 0
    )
    file = Path("hostile.csv")
    write_table(outputs("bleu", "human", "^.*$"), file)
    before = {value: value.read_bytes() for value in Path().iterdir()}
    for words in commands(file):
        refused(custodes(*words), "hostile.csv: the column name", "rename the column")
    assert {value: value.read_bytes() for value in Path().iterdir()} == before


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".db"])
def test_a_column_without_a_name_is_one_line_in_every_container(suffix: str, tmp_path: Path) -> None:
    file, records = tmp_path / f"table{suffix}", outputs("human", "").drop("text").to_dicts()
    if suffix == ".db":
        import sqlite3

        with sqlite3.connect(file) as connection:
            connection.execute('CREATE TABLE scores (item, system, human, "")')
            connection.executemany(
                "INSERT INTO scores VALUES (?, ?, ?, ?)", [tuple(value.values()) for value in records]
            )
    elif suffix == ".csv":
        write_table(pl.DataFrame(records), file)
    else:
        end = "\n" if suffix == ".jsonl" else ""
        file.write_text(end.join(map(json.dumps, records)) if end else json.dumps(records))
    with pytest.raises(InputError, match="a column has no name"):
        read(file)


def test_names_that_are_equal_as_text_are_refused_in_pandas() -> None:
    table = pd.DataFrame([["1", "A", 1, 2]], columns=["item", "system", 1, "1"])
    with pytest.raises(InputError, match="table: a column name occurs twice; rename one, or remove it"):
        read(table)


def test_labels_that_are_patterns_are_labels(tmp_path: Path) -> None:
    """Labels that look like column patterns give the same numbers as other labels in the same order."""
    study = cu.read("demo")
    systems = dict(zip(study.systems, ["$", "*", "^", "^(x$", "^.*$", "^a$"], strict=True))
    assert list(systems.values()) == sorted(systems.values())
    table = study.ratings.frame
    hostile = table.with_columns(pl.col("system").replace(systems))
    for question, options in ((cu.favoritism, {"resamples": 20}), (cu.leaderboard, {"resamples": 20}), (cu.check, {})):
        ours, theirs = (question(replaced(study, value), **options) for value in (table, hostile))
        for name, frame in ours.tables().items():
            labels = [column for column in frame.columns if frame[column].dtype == pl.String]
            expected = frame.with_columns(pl.col(labels).replace(systems))
            numbers = [column for column in frame.columns if frame[column].dtype.is_numeric()]
            assert theirs.tables()[name].select(numbers).equals(expected.select(numbers)), (question, name)


def replaced(study: cu.Study, ratings: pl.DataFrame) -> cu.Study:
    return read(ratings, raters=study.raters.frame)


def test_a_circle_of_links_is_one_line_in_every_verb(custodes: Run) -> None:
    first, second = Path("first.csv"), Path("second.csv")
    first.symlink_to(second)
    second.symlink_to(first)
    for words in commands(first):
        refused(custodes(*words))
        if words[-2:-1] == ["-o"]:
            refused(custodes(*words[:-1], str(first)))
    for link in (first, second):
        assert link.is_symlink()


def test_a_circle_of_links_beside_a_table_is_no_raters_table(tmp_path: Path) -> None:
    file, beside = tmp_path / "scores.csv", tmp_path / "scores.raters.csv"
    write_table(outputs("human", "bleu").drop("text"), file)
    beside.symlink_to(beside.name)
    (tmp_path / "linked.csv").symlink_to("scores.csv")
    assert read(file).ratings.frame.equals(read(tmp_path / "linked.csv").ratings.frame)
