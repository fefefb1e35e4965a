"""Benchmarks: slopes, limits, and reference implementations written from papers that give the same numbers as the
package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from custodes.cli import QUESTIONS
from tests.waiting import PATIENCE

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_an_exponent_is_the_slope_beyond_the_start(script, power):
    growth, measuring = script("growth"), script("measuring")
    sizes = (10, 100, 1_000, 10_000)
    cases = [growth.Case("check", "items", n, measuring.Run(1.5 + n**power, 100, ""), n) for n in sizes]
    slope = growth.exponent(cases, [case.run.cpu for case in cases], start=1.5, least=0.1)
    assert slope == pytest.approx(power, abs=1e-9)
    assert growth.exponent(cases, [1.55] * 4, start=1.5, least=0.1) is None


def test_a_command_is_ended_at_its_limit_and_its_reason_is_told(script):
    measuring = script("measuring")

    def run(code, **limits):
        return measuring.run([sys.executable, "-c", code], **limits)

    assert run("pass", seconds=PATIENCE, gib=1).why == ""
    assert run("while True: pass", seconds=1, gib=1).why == "> 1 s"
    assert run("import time; x = b'x' * 2**28; time.sleep(900)", seconds=PATIENCE, gib=0.1).why == "> 0.1 GiB"
    assert (
        run("import sys; print('custodes: no such file', file=sys.stderr); sys.exit(2)").why == "refused: no such file"
    )


def test_the_cases_of_waits_have_distinct_names_and_known_commands(script):
    cases = script("waits").cases()
    assert len({case.name for case in cases}) == len(cases)
    assert {case.words[0] for case in cases if case.study} <= {"report", "combine", *QUESTIONS}


def test_loops_from_papers_say_our_numbers(script, tmp_path):
    agreement = script("beside.agreement")
    agreement.data(tmp_path)
    for ours, theirs in (
        (agreement.calibrated, agreement.calibrated_by_a_loop),
        (agreement.soft, agreement.soft_by_a_loop),
    ):
        assert ours(tmp_path)() == pytest.approx(theirs(tmp_path)(), abs=1e-9)


def test_simulated_studies_are_read_and_are_the_same_again(script, tmp_path):
    import custodes as cu

    studies = script("studies")
    for rows in (
        lambda: studies.scores(items=12, systems=3, metrics=2, people=2, aspects=2),
        lambda: studies.battles(battles=60, models=4, judges=1),
    ):
        assert rows().equals(rows())
        assert cu.read(rows()).systems


START = pl.DataFrame(
    {
        "metric": ["a", "b"],
        "group": ["A", "B"],
        "value": [0.5, 0.25],
        "value_low": [0.4, 0.2],
        "value_high": [0.6, 0.3],
        "p_value": [0.3, 0.0],
    }
)
KINDS = {"metric": "label", "group": "label", **dict.fromkeys(("value", "value_low", "value_high"), "score")}


def moved(script, column, value, second=None):
    """Differences after the value of a column changes in the first row."""
    comparing = script("comparing")
    now = START.with_columns(pl.Series(column, [value, START[column][1]]))
    roles = comparing.roles_of(KINDS | {"p_value": "p"})
    assert not comparing.compare("t", START, START, roles, draws=2000)
    return comparing.compare("t", START, now, roles, draws=2000, second=second)


def test_an_estimate_must_be_equal(script):
    assert not moved(script, "value", 0.5 + 1e-12)
    (cell,) = moved(script, "value", 0.5 + 1e-6)
    assert (cell.row, cell.column, cell.start, cell.now) == ("a", "value", 0.5, 0.5 + 1e-6)
    (cell,) = moved(script, "value", None)
    assert cell.now is None


@pytest.mark.parametrize(
    ("column", "start", "error"),
    [("p_value", 0.3, (0.3 * 0.7 / 2000) ** 0.5), ("value_low", 0.4, 2.67 * (0.2 / 3.92) / 2000**0.5)],
    ids=["p-value", "bound"],
)
def test_random_values_may_move_by_their_standard_error(script, column, start, error):
    assert not moved(script, column, start + 2 * error)
    (cell,) = moved(script, column, start + 6 * error)
    assert cell.tolerance == pytest.approx(4 * 2**0.5 * error, rel=0.05)  # p (1 - p) is the mean of both versions
    assert not cell.minor
    (cell,) = moved(script, column, start + 2 * error, second=START)
    assert cell.minor  # equal for both seeds


def test_a_decision_that_changes_is_listed_with_its_probabilities(script):
    (cell,) = moved(script, "group", "AB")
    assert (cell.start, cell.now, cell.reason) == ("A", "AB", "p_value 0.3 -> 0.3")


def test_the_golden_run_finds_what_moved(script, tmp_path, monkeypatch, capsys):
    """With one checkout on both sides nothing differs until an answer of the start is changed."""
    golden, cases = script("golden"), script("golden_cases")
    start = ["--start", str(golden.ROOT), "--kept", str(tmp_path)]
    monkeypatch.setattr(golden, "commit_of", lambda checkout: "start")
    monkeypatch.setattr(sys, "argv", ["golden.py", *start, "--only", "demo ranking", "--resamples", "20"])
    with pytest.raises(SystemExit) as ended:
        golden.main()
    assert ended.value.code == 0
    assert "1 cases; 0 cells moved" in capsys.readouterr().out

    (case,) = [case for case in cases.cases(tmp_path / "inputs", 20) if case.name == "demo ranking"]
    (folder,) = tmp_path.glob("start/*-20-seed0/demo-ranking")
    now = golden.Answer.load(folder)
    decisions = now.tables["decisions"].rename({"decision": "verdict"})
    old = golden.Answer(now.cost, {"status": 1}, {**now.tables, "decisions": decisions})
    names = golden.Names([{"kind": "column", "place": "ranking.decisions", "old": "verdict", "new": "decision"}])
    cells = golden.differences(case, old, now, names)
    assert {cell.column for cell in cells} == {"status"}
    assert {cell.column for cell in golden.differences(case, old, now, golden.Names([]))} >= {"verdict", "decision"}


def test_every_question_has_a_golden_case(script, tmp_path):
    from custodes.cli import QUESTIONS

    names = script("golden").Names.load(script("golden").RENAMED)
    every = [names.case(case) for case in script("golden_cases").cases(tmp_path, 20)]
    assert {case.question for case in every} == set(QUESTIONS)
    assert len({case.name for case in every}) == len(every)
