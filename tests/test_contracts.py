"""The contract of results: each table and field is declared once; documentation, JSON and CSV contain exactly these."""

from __future__ import annotations

import csv
import inspect
import io
import json
import re
import typing
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import custodes as cu
from custodes import cli
from custodes.annotate.check_study import StudyCheck
from custodes.annotate.rehearsal import Rehearsal
from custodes.annotate.study_status import Status
from custodes.answers.tables import Column
from custodes.evaluate.protocol.stopping import Stopping
from tests.questions import QUESTIONS, RESULTS, command, options

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "results.md"
DECLARED = {
    question: {name: tuple(table.schema) for name, table in result.table_declarations().items()}
    for question, result in RESULTS.items()
}
"""Question to table to fields."""

EMPTY = {
    ("check", "problems"),
    ("leaderboard", "interim"),  # only for studies with interim analyses
    *(("check", "texts"), ("leaderboard", "corrected"), ("leaderboard", "cycles"), ("leaderboard", "reference")),
    *(("protocol", "naive"), ("ceiling", "history"), ("agreement", "labels")),
    *(("annotators", "pairs"), ("gate", "ledger")),
    ("combine", "pruning"),
    *((question, "slices") for question in ("agreement", "favoritism")),
    *(("consistency", name) for name in RESULTS["consistency"].table_declarations() if name != "panels"),
    *(("combine", name) for name in ("trade_off", "calibration")),
    *((question, "left_out") for question in ("complementarity", "ceiling", "combine")),
}
"""Tables that may be empty on the demo."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model file that `validate` reads."""
    folder = tmp_path_factory.mktemp("contracts")
    cu.combine(cu.read("demo"), **options("combine")).model.save(folder / "model.json")
    return folder


@pytest.fixture(autouse=True)
def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")


every_question = pytest.mark.parametrize("question", QUESTIONS)


def output(question: str, *words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.run([*command(question), *words]) in (0, 1)
    return capsys.readouterr().out


def answer(question: str, *words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return json.loads(output(question, "--format", "json", *words, capsys=capsys))


def documented() -> dict[str, dict[str, tuple[str, ...]]]:
    """Question to table to fields, read from the documentation page, where `x`, `_low` stands for x and x_low."""
    results: dict[str, dict[str, tuple[str, ...]]] = {}
    question = table = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"(##|###) `(\w+)`", line):
            if heading[1] == "##":
                question, table = heading[2], ""
            else:
                table = heading[2]
                results.setdefault(question, {})[table] = ()
        elif line.startswith("| `") and table:
            fields = re.findall(r"`(\w+)`", line.split("|")[1])
            results[question][table] += tuple(value if value[0] != "_" else fields[0] + value for value in fields)
    return results


def test_the_page_is_made_from_what_is_declared() -> None:
    assert "<!-- Made by docs/generate.py; do not edit. -->" in PAGE.read_text(encoding="utf-8")
    beside = {"scores": cu.Scores, "judgements": cu.Judgements, "doctor": cu.Doctor}
    beside |= {"study_check": StudyCheck, "rehearsal": Rehearsal, "status": Status}
    others = {
        name: {key: tuple(table.schema) for key, table in result.table_declarations().items()}
        for name, result in beside.items()
    }
    assert documented() == {**DECLARED, **others}


def columns() -> Iterator[tuple[str, str, Column]]:
    for question, result in RESULTS.items():
        for name, table in result.table_declarations().items():
            yield from ((question, name, column) for column in table.columns)


def test_every_field_is_explained_and_named_alike() -> None:
    for question, table, value in columns():
        where = (question, table, value.name)
        assert len(value.doc) >= 3, where
        assert value.label, where
        assert re.fullmatch(r"[a-z][a-z0-9_]*", value.name), where
        assert not (value.interval and value.sd), where
        # bounds are named after their estimate; raters with scores have a lowest and a highest one
        assert value.name not in ("low", "high") or where[:2] == ("check", "raters"), where
        assert not value.best or value.is_number, where
    for question, result in RESULTS.items():
        for name, table in result.table_declarations().items():
            fields = [field for column in table.columns for field in column.names]
            assert len({*fields, table.by}) == len(fields) + 1, (question, name)
            assert table.doc.endswith((".", "?")), (question, name)
            assert not table.order or table.order in table.schema, (question, name)


@every_question
@pytest.mark.usefixtures("remembered")
def test_json_has_the_declared_fields_and_kinds_of_values(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads(
        output(question, "--format", "json", "--seed", "5", capsys=capsys), parse_constant=pytest.fail
    )  # no NaN or infinity
    assert result["question"] == question
    assert list(result) == ["question", "provenance", "notes", *DECLARED[question], "seconds"]
    provenance = result["provenance"]
    assert list(provenance) == ["study", "digest", "options", "seed", "versions", "dropped"]
    assert (provenance["study"], provenance["seed"], len(provenance["digest"])) == ("demo", 5, 16)
    assert set(provenance["versions"]) == {"custodes", "numpy", "polars", "python"}
    assert provenance["versions"]["custodes"] == version("custodes")
    settings = {
        "complementarity": {"level", "human_raters"},
        "annotators": {"method", "annotator_type"},
        "ceiling": {"folds"},
        "combine": {"folds"},
        "plan": set(),
        "rates": {"sampling"},
        "labelling": {"target"},
        "route": {"audit"},
        "validate": {"model"},
    }
    assert settings.get(question, {"ties", "orders"}) <= set(provenance["options"])
    for note in [*result["notes"], *provenance["dropped"]]:
        assert list(note) == ["rule", "message", "count", "aspect"]
        assert note["aspect"] in ("", "coherence", "fluency")
    for table, fields in DECLARED[question].items():
        assert result[table] or (question, table) in EMPTY, table
        for row in result[table]:
            assert tuple(row) == fields, table
            assert {row[name] for name in ("aspect", "target") if name in row} <= {"coherence", "fluency", ""}
    for table, column in ((table, column) for name, table, column in columns() if name == question):
        for row in result[table]:
            check_kind(column, row)


def check_kind(column: Column, row: dict[str, Any]) -> None:
    value = row[column.name]
    if value is None:
        assert [row[name] for name in column.names] == [None] * len(column.names), row
        return
    if column.interval and row[f"{column.name}_low"] is not None:
        assert row[f"{column.name}_low"] <= row[f"{column.name}_high"], row
    if column.kind in ("share", "p", "probability"):
        assert -1e-12 <= value <= 1 + 1e-12, row
    if column.kind == "count":
        assert value >= 0, row
    if column.name == "metric":  # annotators are raters, not metrics
        assert not value.startswith(("human", "ann")), row
    if column.name == "p_value":
        assert column.kind == "p", row


@every_question
@pytest.mark.usefixtures("remembered")
def test_python_and_command_line_give_the_same(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Other tests of this file share one command line result, so this compares with a second computation with the same
    seed."""
    result = QUESTIONS[question](cu.read("demo"), **options(question), **seeded(question)).to_dict()
    expected = json.loads(json.dumps(result))
    for row in expected["comparison"] if question == "combine" else ():
        row["seconds"] = None
    assert answer(question, "--seed", "5", "--no-timing", capsys=capsys) == expected


def seeded(question: str) -> dict[str, int]:
    return {"rng": 5} if "rng" in inspect.signature(QUESTIONS[question]).parameters else {}


@every_question
@pytest.mark.usefixtures("remembered")
def test_csv_and_folder_hold_the_rows_of_json(
    question: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    result = answer(question, "--seed", "5", capsys=capsys)
    ask = (question, "--seed", "5", "--format", "csv")
    if question == "combine":  # -o names its model file
        texts = {table: output(*ask, "--table", table, capsys=capsys) for table in DECLARED[question]}
    else:
        assert not output(*ask, "-o", f"{tmp_path / 'tables'}/", capsys=capsys)
        texts = {path.stem: path.read_text() for path in (tmp_path / "tables").iterdir()}
        assert texts.keys() == DECLARED[question].keys()
        table = next(reversed(texts))
        assert output(*ask, "--table", table, capsys=capsys) == texts[table]
    for table, fields in DECLARED[question].items():
        header, *lines = csv.reader(io.StringIO(texts[table]))
        assert tuple(header) == fields
        for line, row in zip(lines, result[table], strict=True):
            for text, value in zip(line, row.values(), strict=True):
                assert (float(text) if isinstance(value, float) else text) == cell(value), table
    only = answer(question, "--seed", "5", "--table", table, capsys=capsys)
    assert set(only) == {"question", "provenance", "notes", "seconds", table}


def cell(value: Any) -> Any:
    """Value of JSON in the form of CSV; numbers unchanged."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "; ".join(value)
    return value if isinstance(value, float) else "" if value is None else str(value)


ESSENTIAL = {
    "check": "items clusters coverage ties",
    "leaderboard": "rater system battles strength rank group human Aster ties",
    "agreement": "metric accuracy kendall learned overlap-stem",
    "favoritism": "metric accuracy Dogwood overlap-stem",
    "ranking": "metric correct inversion insertion Aster",
    "correction": "decision naive human mixture ppi theta Dogwood > < =",
    "protocol": "metric estimator stopping share correct kld ± agreement learned",
    "plan": "estimator annotations decided saving",
    "complementarity": "kinds human-metric difference human:fluency",
    "ceiling": "features kendall metrics humans both attainable judge:fluency",
    "gate": "gate: holds outcome kendall_item judge coherence: >=",
}
"""Columns that a terminal shows of each table."""


@every_question
@pytest.mark.usefixtures("remembered")
def test_tables_fit_eighty_columns(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(question, "--seed", "5", capsys=capsys)
    assert max(map(len, text.splitlines())) <= 80
    assert "" not in text
    assert set(ESSENTIAL.get(question, "").split()) <= set(text.split())
    assert "study=demo" in text
    assert "seed=5" in text


def test_provenance_replays_the_result() -> None:
    study = cu.read("demo").select(systems="Aster,Birch,Cedar")
    rules = [Stopping(stop="decided"), Stopping(stop="futility")]
    assumed = cu.plan(margins=[0.0, 0.3], items=20, replications=2, rng=4)
    assert (assumed.provenance.study, assumed.provenance.digest) == ("assumptions", "")
    assert assumed.provenance.replay().to_dict() == assumed.to_dict()
    results = (
        cu.favoritism(study, resamples=50, metrics="judge", ties=0.5, rng=9),
        cu.correction(study, metrics="learned", estimator=["ppi", "pooled"], rng=9),
        cu.protocol(study, metrics="learned", estimator="ppi", replications=2, stopping=rules, rng=9),
        cu.plan(study, metrics="learned", estimator="ppi", replications=2, stopping=Stopping(budget=100), rng=9),
        cu.complementarity(study, level="utterance", distance="half", human_raters="annotators", resamples=20, rng=9),
        cu.ceiling(study, metrics="judge,learned", model="ridge", in_use="judge:fluency", resamples=20, rng=9),
    )
    for result in results:
        assert result.provenance.replay(study).to_dict() == result.to_dict()


def test_undefined_is_null_with_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["item,system,rater,kind,score"]
    for item in range(6):
        rows += [f"{item},A,ann,human,{3 + item % 2}", f"{item},B,ann,human,{2 - item % 3}"]
        rows += [f"{item},A,flat,metric,1", f"{item},B,flat,metric,1"]
        rows += [f"{item},A,same,metric,{3 + item % 2}", f"{item},B,same,metric,{2 - item % 3}"]
    path = tmp_path / "study.csv"
    path.write_text("\n".join(rows) + "\n")

    def rows_and_rules(verb: str, table: str) -> tuple[dict[str, dict[str, Any]], set[str]]:
        assert cli.run([verb, str(path), "--resamples", "50", "--format", "json"]) == 0
        captured = json.loads(capsys.readouterr().out)
        name = "rater" if table == "raters" else "metric"
        return {row[name]: row for row in captured[table]}, {note["rule"] for note in captured["notes"]}

    metrics, rules = rows_and_rules("agreement", "metrics")
    assert metrics["flat"]["kendall_global"] is None
    assert metrics["same"]["pearson_global"] == pytest.approx(1)
    assert "constant-metric" in rules
    pairs, rules = rows_and_rules("favoritism", "pairs")
    # `same` never errs: without errors favoritism is undefined, hence null.
    assert pairs["same"]["favi"] is None
    assert pairs["same"]["note"] == "no errors"
    assert "favi-no-errors" in rules
    raters, rules = rows_and_rules("complementarity", "raters")
    # A constant rater does not rank, so its distances are undefined.
    assert raters["flat"]["with_humans"] is raters["flat"]["with_metrics"] is None
    assert raters["same"]["with_humans"] == pytest.approx(0)
    assert "constant-rater" in rules


@pytest.mark.parametrize("name", [name for name in cu.__all__ if inspect.isfunction(getattr(cu, name))])
def test_a_public_function_has_the_sections_of_numpydoc(name: str) -> None:
    function = getattr(cu, name)
    doc = inspect.getdoc(function) or ""
    sections = re.findall(r"^(\w[\w ]*)\n-+$", doc, re.MULTILINE)
    assert {"Returns", "Examples"} <= set(sections)
    assert sections == sorted(
        sections, key=["Parameters", "Returns", "Raises", "See Also", "Notes", "References", "Examples"].index
    )
    assert not re.search(r"\S -{4,}", doc)  # the heading of a section in running text
    if name in QUESTIONS:
        result = typing.get_type_hints(function)["return"]
        assert all(f"`{table}`" in doc.partition("\nReturns\n")[2] for table in result.table_declarations())
    if "Parameters" in sections:
        described = set(re.findall(r"^(\w+(?:, \w+)*) : ", doc, re.MULTILINE))
        described = {part for names in described for part in names.split(", ")}
        assert set(inspect.signature(function).parameters) <= described
