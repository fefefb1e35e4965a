"""The gate command: exit status 0, 1, 2 and 3, and a JUnit XML file that is complete or absent."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from custodes import cli
from tests.evaluate.gate.junit_schema import check_junit

ASKED = ("gate", "demo", "--metric", "judge", "--aspect", "coherence")
OLD = ("--not-worse-than", "learned")
HOLDS = ("--require", "kendall_item>=0.3")
FAILS = ("--require", "kendall_item>=0.9")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize(
    ("rules", "status", "text"),
    [
        (HOLDS, 0, "gate: holds (1 rule: 1 hold, 0 fail, 0 inconclusive)"),
        (FAILS, 1, "gate: fails (1 rule: 0 hold, 1 fail, 0 inconclusive)"),
        ((*HOLDS, *OLD, "--margin", "0"), 3, "gate: inconclusive (2 rules: 1 hold, 0 fail, 1 inconclusive)"),
    ],
)
def test_status_says_what_comes_of_all_rules(
    rules: tuple[str, ...], status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*ASKED, *rules]) == status
    out = capsys.readouterr().out.splitlines()
    assert out[0].rstrip() == text
    lines = [line for line in out if " of judge" in line or "judge not worse than" in line]
    assert len(lines) == len([word for word in rules if word in ("--require", "--not-worse-than")])


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ((), "no rule to test"),
        (("--require", "kendal_item>=0.3"), "did you mean 'kendall_item'?"),
        (("--require", "kendall_item>=0.3", "--junit", "missing/gate.xml"), "no such folder"),
        (("--require", "kendall_item>=0.3", "-o", "gate.csv", "--junit", "gate.csv"), "two outputs have this path"),
    ],
)
def test_bad_input_is_2_and_one_line(rules: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*ASKED, *rules]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert text in output.err
    assert list(Path().iterdir()) == []


def test_xml_and_a_summary_in_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    command = [*ASKED, *HOLDS, *FAILS, "--junit", "gate.xml", "-o", "summary.md", "--no-timing"]
    assert cli.run(command) == 1
    assert capsys.readouterr().out == ""
    xml, summary = Path("gate.xml").read_text(), Path("summary.md").read_text()
    assert [case[2] for case in check_junit(xml)] == ["passed", "failure"]
    assert ElementTree.fromstring(xml).get("time") == "0.000"
    assert summary.startswith("**gate: fails (2 rules: 1 hold, 1 fail, 0 inconclusive)**\n\n| Outcome | Rule |")
    assert cli.run([*command[:-2], "summary.md", "--no-timing"]) == 1
    assert Path("gate.xml").read_text() == xml  # the same command gives the same bytes


def test_an_error_leaves_the_file_of_before(capsys: pytest.CaptureFixture[str]) -> None:
    Path("gate.xml").write_text("before")
    for more in (("--require", "nothing>=1"), (*HOLDS, "--table", "nothing")):
        assert cli.run([*ASKED, *more, "--junit", "gate.xml"]) == 2
    assert Path("gate.xml").read_text() == "before"
    assert sorted(path.name for path in Path().iterdir()) == ["gate.xml"]
    assert capsys.readouterr().out == ""
