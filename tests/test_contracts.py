"""The contract of the command line: every verb's JSON holds the tables and fields of docs/reference/results.md."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import custodes as cu
from custodes import cli
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.favoritism import CELLS

RESULTS = Path(__file__).parents[1] / "docs" / "reference" / "results.md"


def documented() -> dict[str, dict[str, tuple[str, ...]]]:
    """Verb to table to fields, read from the page; `x`, `_low` stands for x and x_low."""
    contract: dict[str, dict[str, tuple[str, ...]]] = {}
    verb = table = ""
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"(##|###) `([\w ]+)`", line):
            if heading[1] == "##":
                verb, table = heading[2], ""
            else:
                table = heading[2]
                contract.setdefault(verb, {})[table] = ()
        elif line.startswith("| `") and table:
            fields = re.findall(r"`(\w+)`", line.split("|")[1])
            whole = [field if not field.startswith("_") else fields[0] + field for field in fields]
            contract[verb][table] += tuple(whole)
    return contract


CONTRACT = documented()
VERBS = tuple(CONTRACT)


def test_the_page_documents_every_question() -> None:
    expected = ("check", "agreement", "favoritism", "rank", "correct", "protocol", "plan", "complementarity", "ceiling")
    assert (*expected, "combine fit") == VERBS
    assert all(fields for tables in CONTRACT.values() for fields in tables.values())


MODEL = str(Path(tempfile.gettempdir()) / "custodes-contract.json")
QUICK = {
    "check": ("demo",),
    "correct": ("demo", "--metrics", "learned,distance"),
    "protocol": ("demo", "--replications", "2"),
    "plan": ("--pilot", "demo", "--metrics", "judge", "--estimator", "ppi", "--replications", "2", "--items", "30"),
    "ceiling": ("demo", "--resamples", "20", "--model", "ridge", "--steps", "2"),
    "combine fit": (
        *("demo", "--target", "fluency", "--method", "ridge", "--method", "best"),
        *("--repeats", "2", "--resamples", "20", "-o", MODEL),
    ),
}
"""What a verb is asked where nothing depends on how much it computes."""

TOGETHER = ("complementarity", "ceiling", "combine fit")
"""Verbs that take all aspects at once, or one as a target: their rows have no column `aspect`."""

EMPTY = {
    ("check", "problems"),
    ("protocol", "naive"),
    ("ceiling", "history"),
    ("combine fit", "pruning"),
    *((verb, "left_out") for verb in TOGETHER),
}
"""Tables that may have no row on the demo."""


def asked(verb: str) -> tuple[str, ...]:
    return QUICK.get(verb, ("demo", "--resamples", "20"))


def header(verb: str, fields: tuple[str, ...]) -> list[str]:
    return [*fields] if verb in TOGETHER else ["aspect", *fields]


def answer(verb: str, *options: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.run([*verb.split(), *asked(verb), "--format", "json", *options]) in (0, 1)
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.usefixtures("remembered")
def test_json_has_the_documented_fields(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = answer(verb, "--seed", "5", capsys=capsys)
    assert made["question"] == verb
    assert list(made) == ["question", "provenance", "notes", *CONTRACT[verb], "seconds"]
    provenance = made["provenance"]
    assert set(provenance) >= {"study", "digest", "options", "seed", "versions", "dropped"}
    assert provenance["seed"] == 5
    assert provenance["study"] == "demo"
    assert len(provenance["digest"]) == 16
    assert set(provenance["versions"]) >= {"custodes", "numpy", "polars", "python"}
    assert provenance["versions"]["custodes"] == version("custodes")
    choice = {"complementarity": {"level", "people"}, "ceiling": {"folds"}, "combine fit": {"folds"}, "plan": set()}
    assert choice.get(verb, {"ties", "orders"}) <= set(provenance["options"])
    for note in [*made["notes"], *provenance["dropped"]]:
        assert set(note) == {"rule", "message", "count"}
    for table, fields in CONTRACT[verb].items():
        assert made[table] or (verb, table) in EMPTY, table
        for row in made[table]:
            assert list(row) == header(verb, fields), table
            assert {row[name] for name in ("aspect", "target") if name in row} <= {"coherence", "fluency"}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.usefixtures("remembered")
def test_csv_has_the_same_columns(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    for table, fields in CONTRACT[verb].items():
        cli.run([*verb.split(), *asked(verb), "--seed", "5", "--format", "csv", "--table", table])
        columns = next(csv.reader(io.StringIO(capsys.readouterr().out)))
        assert columns == header(verb, fields), table


def test_agreement_has_every_statistic_with_its_interval() -> None:
    fields = CONTRACT["agreement"]["metrics"]
    for statistic in STATISTICS:
        for name in (statistic, f"{statistic}_low", f"{statistic}_high"):
            assert name in fields
    for kind in ("pearson", "spearman", "kendall"):
        for level in ("system", "item", "global"):
            assert f"{kind}_{level}" in STATISTICS
    assert CONTRACT["favoritism"]["confusion"][-9:] == CELLS


def test_python_and_command_line_give_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    study = cu.read("demo")
    for verb, question in (("agreement", cu.agreement), ("favoritism", cu.favoritism), ("rank", cu.ranking)):
        made = answer(verb, "--no-timing", capsys=capsys)
        mine = json.loads(json.dumps(question(study, resamples=20).to_dict()))
        mine["question"] = verb
        assert made == mine
    study_options = {"metrics": "learned,distance"}
    mine = json.loads(json.dumps(cu.correction(study, **study_options).to_dict()))  # type: ignore[arg-type]
    assert answer("correct", "--no-timing", capsys=capsys) == mine | {"question": "correct"}
    mine = json.loads(json.dumps(cu.protocol(study, replications=2).to_dict()))
    assert answer("protocol", "--no-timing", capsys=capsys) == mine
    mine = json.loads(
        json.dumps(cu.plan(study, metrics="judge", estimator=["ppi"], replications=2, items=30).to_dict())
    )
    assert answer("plan", "--no-timing", capsys=capsys) == mine
    mine = json.loads(json.dumps(cu.complementarity(study, resamples=20).to_dict()))
    assert answer("complementarity", "--no-timing", capsys=capsys) == mine
    mine = json.loads(json.dumps(cu.ceiling(study, model="ridge", steps=2, resamples=20).to_dict()))
    assert answer("ceiling", "--no-timing", capsys=capsys) == mine
    fitted = cu.combine(study, target="fluency", method=["ridge", "best"], repeats=2, resamples=20)
    mine = json.loads(json.dumps(fitted.to_dict()))
    for row in mine["comparison"]:
        row["seconds"] = None
    assert answer("combine fit", "--no-timing", capsys=capsys) == mine


def test_provenance_replays_the_result() -> None:
    study = cu.read("demo")
    first = cu.favoritism(study, resamples=50, metrics="judge", ties=0.5, rng=9)
    again = first.provenance.replay(study)
    assert again.to_dict() == first.to_dict()
    results = (
        cu.correction(study, metrics="learned", estimator=["ppi", "pooled"], equivalence=0.2, rng=9),
        cu.protocol(study, metrics="learned", estimator="ppi", replications=2, stop=["decided", "futility"], rng=9),
        cu.plan(study, metrics="learned", estimator="ppi", replications=2, budget=[100, 200], rng=9),
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
        return {row["metric"]: row for row in made[table]}, {note["rule"] for note in made["notes"]}

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

    for verb in VERBS:
        assert finite(answer(verb, "--seed", "5", capsys=capsys))
