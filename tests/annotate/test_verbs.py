"""Verbs of `custodes annotate`: plan keys as options, one-line errors, and no partial results."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import custodes as cu
from custodes import cli
from custodes.annotate.demo import demo_texts
from custodes.annotate.plan import KEYS
from custodes.commands.annotate import IN_A_FILE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with texts, a study and invalid files."""
    monkeypatch.chdir(tmp_path)
    demo_texts(items=6).write_csv("texts.csv")
    cu.annotate.new("texts.csv", "study.db")
    (tmp_path / "bad.db").write_bytes(b"no study")
    return tmp_path


def plan_in(path: str) -> dict[str, Any]:
    with closing(sqlite3.connect(path)) as base:
        (text,) = base.execute("SELECT json FROM plan").fetchone()
    return json.loads(text)


@pytest.mark.usefixtures("folder")
def test_options_override_the_file_and_the_defaults() -> None:
    Path("study.toml").write_text("[annotators]\nbatch = 7\ncap = 0.3\n", encoding="utf-8")
    Path("how.md").write_text("Read both.", encoding="utf-8")
    line = "annotate new texts.csv -o own.db --plan study.toml --batch 9 --looks 2,4 --boundary 2.5 --equal false"
    assert cli.run([*line.split(), "--aspects", "fit, style", "--instructions", "@how.md", "--budget", "12"]) == 0
    plan = plan_in("own.db")
    assert (plan["annotators"]["batch"], plan["annotators"]["cap"], plan["annotators"]["overlap"]) == (9, 0.3, 0.12)
    assert (plan["stopping"]["looks"], plan["stopping"]["boundary"], plan["stopping"]["budget"]) == ([2, 4], 2.5, 12)
    assert (plan["question"]["aspects"], plan["question"]["equal"]) == (["fit", "style"], False)
    assert plan["texts"]["instructions"] == "Read both."

    line = "annotate new texts.csv -o two.db --aspect fit --aspect style --price .2"
    assert cli.run(line.split()) == 0
    plan = plan_in("two.db")
    assert (plan["question"]["aspects"], plan["money"]["price"]) == (["fit", "style"], 0.2)


def test_every_key_of_a_plan_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["annotate", "new", "--help"])
    help_text = capsys.readouterr().out
    for section, keys in KEYS.items():
        for key in keys:
            if (section, key) in IN_A_FILE:
                continue
            name = {("question", "text"): "question"}.get((section, key), key)
            assert f"--{name.replace('_', '-')}" in help_text, (section, key)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("new", "no input"),
        ("new texts.csv -o study.db", "study.db exists already, and may contain answers; choose another name, or move"),
        ("new texts.csv -o texts.csv", "it is the input"),
        ("new texts.csv -o x.db --batch many", "--batch 'many' is not allowed; give a whole number"),
        ("new texts.csv -o x.db --recruit nobody", "links or open"),
        ("new texts.csv -o x.db --looks 4,2", "increasing"),
        ("new texts.csv -o x.db --instructions @nothing.md", "no such file"),
        ("check bad.db", "not a study"),
        ("status nothing.db", "no such file"),
        ("invite study.db --annotators 0", "at least 1"),
        ("invite study.db --annotators 1 -o texts.csv", "may contain links"),
        ("invite study.db --annotators 1 --url javascript:alert(1)", "--url 'javascript:alert(1)' is not allowed"),
        ("invite study.db --annotators 1 --url https://a.example/s?x=1", "give scheme and host only, such as https:"),
        ("invite study.db --annotators 1 --url https://[a", "give scheme and host only, such as https:"),
        ("exclude study.db w009 --why x", "no annotator 'w009'"),
        ("forget study.db w009", "no annotator 'w009'"),
        ("rehearse study.db --margins x", "a comma list of numbers"),
        ("backup study.db -o study.db", "it is the input"),
        ("export study.db -o .", "cannot write .: it exists and is not an empty folder; give a new folder"),
        ("serve bad.db", "not a study"),
    ],
    ids=lambda value: value.replace(" ", "_").replace("/", "") if " " in value else None,
)
def test_errors_are_one_line_and_leave_no_file(
    folder: Path, line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name for path in folder.iterdir()} | {"study.db.lock"}
    assert cli.run(["annotate", *line.split()]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert {path.name for path in folder.iterdir()} <= before


@pytest.mark.usefixtures("folder")
def test_an_annotator_is_invited_excluded_and_forgotten() -> None:
    line = "annotate invite study.db --annotators 2 -o l.csv --url https://a.example"
    assert cli.run(line.split()) == 0
    links = list(csv.DictReader(Path("l.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["worker"] for row in links] == ["w001", "w002"]
    assert all(row["link"].startswith("https://a.example/s/") for row in links)
    assert len({row["link"] for row in links}) == 2
    assert cli.run(["annotate", "exclude", "study.db", "w002", "--why", "known comparisons"]) == 0
    annotators = cu.annotate.status("study.db").persons
    assert dict(annotators.select("worker", "standing").iter_rows()) == {"w001": "ok", "w002": "excluded"}
    assert cli.run(["annotate", "forget", "study.db", "w001"]) == 0


@pytest.mark.usefixtures("folder")
def test_copies() -> None:
    assert cli.run(["annotate", "backup", "study.db", "-o", "copy.db"]) == 0
    assert set(cu.annotate.status("copy.db").pairs["system_b"]) == {"Birch", "Cedar"}
