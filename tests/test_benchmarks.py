"""The benchmarks measure what they say: slopes, limits, and algorithms written from papers that say our numbers."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

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


def test_what_passes_its_bound_is_named_and_what_does_not_is_not(script):
    growth, measuring = script("growth"), script("measuring")

    def words(power):
        sizes = (0, 3_000, 10_000, 30_000, 100_000)
        cases = [growth.Case("check", "items", n, measuring.Run(1 + (n / 1000) ** power, 100, ""), 9) for n in sizes]
        return growth.summary(cases)[1]

    assert words(1.1) == ""
    assert "time 2.00, answer 0.00" in words(2)


def test_a_command_is_ended_at_its_limit_and_its_reason_is_told(script):
    measuring = script("measuring")

    def told(code, **limits):
        return measuring.run([sys.executable, "-c", code], **limits)

    assert told("pass", seconds=PATIENCE, gib=1).why == ""
    assert told("while True: pass", seconds=1, gib=1).why == "> 1 s"
    assert told("import time; x = b'x' * 2**28; time.sleep(900)", seconds=PATIENCE, gib=0.1).why == "> 0.1 GiB"
    assert (
        told("import sys; print('custodes: no such file', file=sys.stderr); sys.exit(2)").why == "refused: no such file"
    )


def test_a_target_is_a_share_of_the_version_with_the_same_definitions(script):
    """Of 10 s in 0.1.0 and 30 s at the start, 8 s are within a third of the start alone."""
    waits, measuring = script("waits"), script("measuring")
    wait = waits.Wait("HANNA agreement", "HANNA", ("agreement",), ("agreement",))
    took = {side: measuring.Run(cpu, 100, "") for side, cpu in {"before": 10, "start": 30, "after": 8}.items()}
    both, old = waits.Row.of(wait, took), waits.Row.of(wait, {**took, "start": measuring.Run(30, 100, "> 9 s")})
    assert both.cells == [wait.name, "10.00", "100", "30.00", "100", "8.00", "100", "0.80", "0.27", "1.00"]
    assert (both.said, both.aimed) == ("", "time <= 0.33")
    assert old.cells[-3:] == ["0.80", "", ""]
    del took["start"]
    missed = waits.Row.of(wait, took)
    assert missed.line() == "- HANNA agreement: 8.00 s, 100 MB; of the time 0.80 of 0.1.0; missed: time <= 0.33\n"
    text = waits.page([both, missed, waits.Row.absent("x", "not run")], 1, "")
    assert text.count("missed: time") == 1
    assert text.endswith("Not run this time, or not there: x.\n")


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
    for made in (
        lambda: studies.scores(items=12, systems=3, metrics=2, people=2, aspects=2),
        lambda: studies.battles(battles=60, models=4, judges=1),
    ):
        assert made().equals(made())
        assert cu.read(made()).systems
