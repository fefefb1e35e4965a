"""Column mapping on the command line: user tables with options, and schema files that store them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import polars as pl
import pytest

from tests.command_line import Run, custodes, refused
from tests.data.mapping.tables import wide

__all__ = ["custodes"]

OPTIONS = ("--column", "item=doc_id", "--column", "system=model")
PATTERNS = ("--columns", "human_{aspect}_{rater}", "--columns", "metric:{rater}")
COLUMNS = ("human_coherence_ann1", "human_coherence_ann2", "human_fluency_ann1", "human_fluency_ann2", "bleu")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    wide(*COLUMNS).write_csv(tmp_path / "mine.csv")
    return tmp_path / "mine.csv"


def test_what_a_refused_file_answers_can_be_typed(custodes: Run, mine: Path) -> None:
    first = custodes("agreement", "mine.csv")
    refused(first, "mine.csv: columns doc_id, model, output,", "match no reader; try --column item=doc_id")
    words = shlex.split(first.err.split("; try ")[1].split(" (in Python")[0])
    second = custodes("agreement", "mine.csv", *words, "--resamples", "20", "--format", "json")
    assert second.status == 0
    metrics = json.loads(second.out)["metrics"]
    assert [(row["aspect"], row["metric"]) for row in metrics] == [("coherence", "bleu"), ("fluency", "bleu")]


def test_a_schema_that_convert_wrote_gives_the_same_answer(custodes: Run, mine: Path) -> None:
    converted = custodes("convert", "mine.csv", *OPTIONS, *PATTERNS, "--aspect", "fluency", "-o", "study.toml")
    assert (converted.status, converted.out) == (0, "study.toml\n")
    assert Path("study.toml").read_text() == (
        'aspect = ["fluency"]\n\n[columns]\nitem = "doc_id"\nsystem = "model"\n'
        'score = ["human_{aspect}_{rater}", "metric:{rater}"]\n'
    )
    ran = custodes("ranking", "mine.csv", *OPTIONS, *PATTERNS, "--aspect", "fluency", "--format", "json", "--no-timing")
    read = custodes("ranking", "mine.csv", "--schema", "study.toml", "--format", "json", "--no-timing")
    first, second = json.loads(ran.out), json.loads(read.out)
    assert first.pop("provenance")["options"]["aspect"] == "fluency"
    assert second.pop("provenance")["options"]["aspect"] == ["fluency"]
    assert first == second
    # command line options take precedence over the schema file
    beside = custodes("check", "mine.csv", "--schema", "study.toml", "--aspect", "coherence", "--format", "json")
    assert [row["aspect"] for row in json.loads(beside.out)["summary"]] == ["coherence"]


def test_convert_writes_the_part_that_is_selected(custodes: Run, mine: Path) -> None:
    ran = custodes("convert", "mine.csv", *OPTIONS, *PATTERNS, "--aspect", "fluency", "--human", "ann1", "-o", "a.csv")
    assert ran.status == 0
    result = pl.read_csv("a.csv")
    assert set(result["rater"]) == {"ann1", "bleu"}
    assert set(result["aspect"].fill_null("")) == {"fluency", ""}


@pytest.mark.parametrize("verb", ["verdict", pytest.param("report", marks=pytest.mark.slow)])
def test_what_is_made_of_several_questions_has_the_selection_of_a_schema(custodes: Run, mine: Path, verb: str) -> None:
    custodes("convert", "mine.csv", *OPTIONS, *PATTERNS, "--aspect", "fluency", "-o", "study.toml")
    ran = custodes(verb, "mine.csv", "--schema", "study.toml", "--resamples", "20", "--format", "json")
    assert ran.status == 0
    assert set(re.findall(r'"aspect": "(\w+)"', ran.out)) == {"fluency"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--column", "item"), "--column 'item': give ROLE=NAME, as in --column item=doc_id"),
        (("--column", "item=docid"), "columns: item='docid': no such column (did you mean 'doc_id'?); columns: doc_id"),
        (
            ("--columns", "human_{aspect}_{rter}"),
            "the unknown placeholder {rter} (did you mean 'rater'?); placeholders",
        ),
        (("--schema", "nothing.toml"), "nothing.toml: no such file"),
    ],
)
def test_one_line_of_error(custodes: Run, mine: Path, words: tuple[str, ...], message: str) -> None:
    refused(custodes("check", "mine.csv", *words), message)
    ran = custodes("convert", "mine.csv", *words, "-o", "new.toml")
    refused(ran, message)
    assert not Path("new.toml").exists()


def test_a_schema_of_nothing_or_of_a_table_is_refused(custodes: Run, mine: Path) -> None:
    for words, message in (
        ((), "no option is given that new.toml could store; give --column, --columns, --reader or --human"),
        (("--table", "raters"), "--table has no effect"),
        (("--human", "nobody"), "--human 'nobody': no such rater; raters: ann1, ann2, ann3"),
    ):
        refused(custodes("convert", "demo", *words, "-o", "new.toml"), message)
    assert not Path("new.toml").exists()


def test_what_is_left_out_is_told_when_a_table_is_converted(custodes: Run) -> None:
    Path("mine.csv").write_text("doc,model,human_score,remark\n1,A,3,fine\n1,B,2,bad\n2,A,2,\n2,B,4,good\n")
    words = ("--column", "item=doc", "--column", "system=model", "--columns", "human:human_score")
    ran = custodes("convert", "mine.csv", *words, "-o", "ratings.csv")
    assert (ran.status, ran.out) == (0, "ratings.csv\n")
    assert "note: mine.csv: columns not used: remark" in ran.err


def test_notes_and_messages_name_options_of_the_command_line(custodes: Run, mine: Path) -> None:
    pl.DataFrame({"id": range(40), "judge": ["x", "y"] * 20, "human": ["x", "y"] * 20}).write_csv("labels.csv")
    printed = " ".join(custodes("rates", "labels.csv").out.split())
    assert "if 'x' is positive, give --positive 'x'" in printed
    values = json.loads(custodes("rates", "labels.csv", "--format", "json").out)
    assert any("give positive='x'" in note["message"] for note in values["notes"])
    printed = " ".join(custodes("check", "mine.csv", *OPTIONS, "--columns", "{rater:bleu}").out.split())
    assert "name the annotators with --human 'PATTERN'" in printed
