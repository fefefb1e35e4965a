"""The contract of results: tables and fields are declared once; pages, JSON and CSV hold exactly these."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import re
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import pytest

import custodes as cu
from custodes import cli
from custodes.annotate.check_study import StudyCheck
from custodes.annotate.completion_codes import Reconciled
from custodes.annotate.rehearsal import Rehearsal
from custodes.annotate.study_status import Status
from custodes.answers.tables import Column, Kind
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.edges import CELLS
from custodes.evaluate.protocol.stopping import Stopping
from tests.questions import QUESTIONS, RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "results.md"
SOURCE = Path(cu.__file__).parent
DECLARED = {
    question: {name: tuple(table.schema) for name, table in result.declared().items()}
    for question, result in RESULTS.items()
}
"""Question to table to fields."""

MODEL = str(Path(tempfile.gettempdir()) / "custodes-contract.json")
QUICK = {
    "check": ("demo",),
    "correction": ("demo", "--metrics", "learned,distance"),
    "protocol": ("demo", "--replications", "2"),
    "plan": ("demo", "--metrics", "judge", "--estimator", "ppi", "--replications", "2", "--items", "90"),
    "ceiling": ("demo", "--resamples", "20", "--model", "ridge", "--steps", "2"),
    "combine": (
        *("demo", "--target", "fluency", "--method", "ridge", "--method", "best"),
        *("--repeats", "2", "--resamples", "20", "-o", MODEL),
    ),
    "validate": ("demo", "--model", MODEL, "--aspect", "coherence"),
    "gate": ("demo", "--metric", "judge", "--require", "kendall_item>=0.2", "--not-worse-than", "distance"),
}
"""What a question is asked where nothing depends on how much it computes."""

EMPTY = {
    ("check", "problems"),
    ("leaderboard", "corrected"),
    ("protocol", "naive"),
    ("ceiling", "history"),
    ("annotators", "pairs"),
    ("combine", "pruning"),
    *(("consistency", name) for name in RESULTS["consistency"].declared() if name not in ("committee", "panels")),
    *((question, "left_out") for question in ("complementarity", "ceiling", "combine")),
}
"""Tables that may have no row on the demo."""


@pytest.fixture(autouse=True, scope="module")
def model() -> None:
    """The file that `validate` reads."""
    options = {"target": "fluency", "method": ["ridge", "best"], "repeats": 2, "resamples": 20}
    cu.combine(cu.read("demo"), **options).model.save(MODEL)


every_question = pytest.mark.parametrize("question", QUESTIONS)


def asked(question: str, *options: str) -> list[str]:
    """Its command line."""
    verbs = {"combine": ("combine", "fit"), "validate": ("combine", "validate")}
    verb = verbs.get(question, (question,))
    return [*verb, *QUICK.get(question, ("demo", "--resamples", "20")), *options]


def answer(question: str, *options: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.run(asked(question, "--format", "json", *options)) in (0, 1)
    return json.loads(capsys.readouterr().out)


def documented() -> dict[str, dict[str, tuple[str, ...]]]:
    """Question to table to fields, read from the page; `x`, `_low` stands for x and x_low."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    question = table = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"(##|###) `(\w+)`", line):
            if heading[1] == "##":
                question, table = heading[2], ""
            else:
                table = heading[2]
                found.setdefault(question, {})[table] = ()
        elif line.startswith("| `") and table:
            fields = re.findall(r"`(\w+)`", line.split("|")[1])
            found[question][table] += tuple(own if own[0] != "_" else fields[0] + own for own in fields)
    return found


def test_the_page_is_made_from_what_is_declared() -> None:
    assert "<!-- Made by docs/generate.py; do not edit. -->" in PAGE.read_text(encoding="utf-8")
    beside = {"scores": cu.Scores, "judgements": cu.Judgements, "doctor": cu.Doctor}
    beside |= {"study_check": StudyCheck, "rehearsal": Rehearsal, "status": Status, "reconciled": Reconciled}
    others = {
        name: {own: tuple(table.schema) for own, table in result.declared().items()} for name, result in beside.items()
    }
    assert documented() == {**DECLARED, **others}


def columns() -> Iterator[tuple[str, str, Column]]:
    for question, result in RESULTS.items():
        for name, table in result.declared().items():
            yield from ((question, name, own) for own in table.columns)


def test_every_field_is_explained_and_named_alike() -> None:
    for question, table, own in columns():
        where = (question, table, own.name)
        assert len(own.doc) >= 3, where
        assert own.label, where
        assert re.fullmatch(r"[a-z][a-z0-9_]*", own.name), where
        assert not (own.interval and own.sd), where
        # ends of intervals bear the name of their estimate; a rater who gave scores has a lowest and a highest
        assert own.name not in ("low", "high") or where[:2] == ("check", "raters"), where
        assert not own.best or own.is_number, where
    for question, result in RESULTS.items():
        for name, table in result.declared().items():
            fields = [field for own in table.columns for field in own.names]
            assert len({*fields, table.by}) == len(fields) + 1, (question, name)
            assert table.doc.endswith((".", "?")), (question, name)
            assert not table.order or table.order in table.schema, (question, name)


@every_question
@pytest.mark.usefixtures("remembered")
def test_json_has_the_declared_fields(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = answer(question, "--seed", "5", capsys=capsys)
    assert made["question"] == question
    assert list(made) == ["question", "provenance", "notes", *DECLARED[question], "seconds"]
    provenance = made["provenance"]
    assert list(provenance) == ["study", "digest", "options", "seed", "versions", "dropped"]
    assert provenance["seed"] == 5
    assert provenance["study"] == "demo"
    assert len(provenance["digest"]) == 16
    assert set(provenance["versions"]) == {"custodes", "numpy", "polars", "python"}
    assert provenance["versions"]["custodes"] == version("custodes")
    choice = {
        "complementarity": {"level", "people"},
        "annotators": {"method", "people"},
        "ceiling": {"folds"},
        "combine": {"folds"},
        "plan": set(),
        "validate": {"model"},
    }
    assert choice.get(question, {"ties", "orders"}) <= set(provenance["options"])
    for note in [*made["notes"], *provenance["dropped"]]:
        assert list(note) == ["rule", "message", "count", "aspect"]
        assert note["aspect"] in ("", "coherence", "fluency")
    for table, fields in DECLARED[question].items():
        assert made[table] or (question, table) in EMPTY, table
        for row in made[table]:
            assert tuple(row) == fields, table
            assert {row[name] for name in ("aspect", "target") if name in row} <= {"coherence", "fluency", ""}


@every_question
@pytest.mark.usefixtures("remembered")
def test_csv_has_the_same_columns(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    for table, fields in DECLARED[question].items():
        cli.run(asked(question, "--seed", "5", "--format", "csv", "--table", table))
        assert tuple(next(csv.reader(io.StringIO(capsys.readouterr().out)))) == fields, table


@every_question
@pytest.mark.usefixtures("remembered")
def test_values_are_what_their_kind_says(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = answer(question, "--seed", "5", capsys=capsys)
    for _, table, own in (found for found in columns() if found[0] == question):
        for row in made[table]:
            value, where = row[own.name], (table, own.name, row)
            if value is None:
                assert [row[name] for name in own.names] == [None] * len(own.names), where
                continue
            if own.interval and row[f"{own.name}_low"] is not None:
                assert row[f"{own.name}_low"] <= row[f"{own.name}_high"], where
            if own.kind in ("share", "p", "probability"):
                assert -1e-12 <= value <= 1 + 1e-12, where
            if own.kind == "count":
                assert value >= 0, where
            if own.name == "metric":  # people are raters, not metrics
                assert not value.startswith(("human", "ann")), where
            if own.name == "p_value":
                assert own.kind == "p", where


def strings(path: Path) -> Iterator[tuple[ast.AST, str]]:
    """Every text in the code of a file that is no docstring, with the call that it is the first argument of."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {id(node.args[0]): node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args}
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield called.get(id(node), node), node.value


def test_no_column_is_named_again_where_its_declaration_serves() -> None:
    # What shows every result of every question knows none of their columns.
    fields = {field for tables in DECLARED.values() for names in tables.values() for field in names}
    fields -= {*get_args(Kind), "aspect", "high", "low"}  # words of declarations, and of a reader's choice
    for name in ("console.py", "answers/views.py", "answers/formats.py", "answers/result.py"):
        written = {text for _, text in strings(SOURCE / name)}
        assert not written & fields, name
    # A section of the report declares no column that its question has declared.
    for path in (SOURCE / "reporting" / "sections").glob("*.py"):
        known = {own.name for question, _, own in columns() if question == path.stem}
        for call, text in strings(path):
            function = call.func if isinstance(call, ast.Call) else None
            if isinstance(function, ast.Name) and function.id in ("label", "labels", "score", "share", "column"):
                assert text not in known, f"{path.name} declares {text}"


def test_agreement_has_every_statistic_with_its_interval() -> None:
    fields = DECLARED["agreement"]["metrics"]
    for statistic in STATISTICS:
        for name in (statistic, f"{statistic}_low", f"{statistic}_high"):
            assert name in fields
    for kind in ("pearson", "spearman", "kendall"):
        for level in ("system", "item", "global"):
            assert f"{kind}_{level}" in STATISTICS
    assert DECLARED["favoritism"]["confusion"][-9:] == CELLS


IN_PYTHON: dict[str, dict[str, Any]] = {
    "check": {},
    "correction": {"metrics": "learned,distance"},
    "protocol": {"replications": 2},
    "plan": {"metrics": "judge", "estimator": "ppi", "replications": 2, "items": 90},
    "ceiling": {"model": "ridge", "steps": 2, "resamples": 20},
    "combine": {"target": "fluency", "method": ["ridge", "best"], "repeats": 2, "resamples": 20},
    "validate": {"model": MODEL, "aspect": "coherence"},
    "gate": {"metric": "judge", "require": "kendall_item>=0.2", "not_worse_than": "distance"},
}
"""What `QUICK` asks."""


@every_question
def test_python_and_command_line_give_the_same(question: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = QUESTIONS[question](cu.read("demo"), **IN_PYTHON.get(question, {"resamples": 20})).to_dict()
    mine = json.loads(json.dumps(made))
    for row in mine["comparison"] if question == "combine" else ():
        row["seconds"] = None
    assert answer(question, "--no-timing", capsys=capsys) == mine


def test_provenance_replays_the_result() -> None:
    study = cu.read("demo")
    rules = [Stopping(stop="decided"), Stopping(stop="futility")]
    results = (
        cu.favoritism(study, resamples=50, metrics="judge", ties=0.5, rng=9),
        cu.correction(study, metrics="learned", estimator=["ppi", "pooled"], equivalence=0.2, rng=9),
        cu.protocol(study, metrics="learned", estimator="ppi", replications=2, stopping=rules, rng=9),
        cu.plan(study, metrics="learned", estimator="ppi", replications=2, stopping=Stopping(budget=100), rng=9),
        cu.complementarity(study, level="utterance", distance="half", people="annotators", resamples=20, rng=9),
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

    def told(verb: str, table: str) -> tuple[dict[str, dict[str, Any]], set[str]]:
        assert cli.run([verb, str(path), "--resamples", "50", "--format", "json"]) == 0
        made = json.loads(capsys.readouterr().out)
        name = "rater" if table == "raters" else "metric"
        return {row[name]: row for row in made[table]}, {note["rule"] for note in made["notes"]}

    metrics, rules = told("agreement", "metrics")
    assert metrics["flat"]["kendall_global"] is None
    assert metrics["same"]["pearson_global"] == pytest.approx(1)
    assert "constant-metric" in rules
    pairs, rules = told("favoritism", "pairs")
    # `same` never errs: without errors there is no favoritism, which is null and not 0.
    assert pairs["same"]["favi"] is None
    assert pairs["same"]["note"] == "no errors"
    assert "favi-no-errors" in rules
    raters, rules = told("complementarity", "raters")
    # A constant rater ranks nothing, so it is at no distance of anybody.
    assert raters["flat"]["with_humans"] is raters["flat"]["with_metrics"] is raters["flat"]["position"] is None
    assert raters["same"]["with_humans"] == pytest.approx(0)
    assert "constant-rater" in rules


@pytest.mark.usefixtures("remembered")
def test_numbers_are_finite_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    def finite(value: Any) -> bool:
        if isinstance(value, dict):
            return all(map(finite, value.values()))
        if isinstance(value, list):
            return all(map(finite, value))
        return not isinstance(value, float) or math.isfinite(value)

    for question in QUESTIONS:
        assert finite(answer(question, "--seed", "5", capsys=capsys))
