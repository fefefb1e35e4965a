"""Intervals and findings of the question `rates`, on the studies of benchmarks/rates_errors.py."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.simulation.rates import most

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("rates_errors")


def least(level: float, n: int) -> float:
    """Lowest proportion of n that agrees with a true `level`."""
    return 1 - most(1 - level, n)


@pytest.mark.slow
def test_intervals_of_rates(studies: ModuleType) -> None:
    for sampling, cells in studies.coverage(200, np.random.default_rng(2)).items():
        coverage = np.array([cell[1] for cell in cells])
        assert 0.93 <= coverage.mean() <= 0.97, sampling
        assert coverage.min() >= least(0.89, 200), sampling
        if sampling == "random":
            assert np.mean([cell[2] / cell[3] for cell in cells]) <= 1


@pytest.mark.slow
def test_intervals_of_rates_of_clusters(studies: ModuleType) -> None:
    for n, cells in studies.clusters(200, np.random.default_rng(2)).items():
        if n >= 40:
            assert np.mean([cell[1] for cell in cells]) >= 0.92
            assert min(cell[1] for cell in cells) >= least(0.9, 200)


@pytest.mark.slow
def test_differences_and_differential_errors(studies: ModuleType) -> None:
    for (_, rate_a, rate_b, tnr_b, _), result in studies.versions(400, np.random.default_rng(2)).items():
        if rate_a == rate_b:
            assert result.decided <= most(0.06, 400)
        else:
            assert result.second_better <= most(0.01, 400)
        if tnr_b == 0.7:
            assert result.judge_differs <= most(0.06, 400)
        assert result.coverage >= least(0.93, 400)


@pytest.mark.slow
def test_findings_in_slices(studies: ModuleType) -> None:
    for (_, tnr_first), (anywhere, first) in studies.slices(300, np.random.default_rng(2)).items():
        if tnr_first == 0.8:
            assert anywhere <= most(0.06, 300)
        else:
            assert first >= 0.9


@pytest.mark.slow
def test_intervals_of_measures_and_of_judges_that_give_scores(studies: ModuleType) -> None:
    assert min(cell[1] for cell in studies.scores(300, np.random.default_rng(2))) >= least(0.92, 300)
    for cell, covered in studies.measures(300, np.random.default_rng(2)).items():
        for name, value in covered.items():
            if (cell, name) != ((10, 60), "f1"):  # six outputs per label
                assert value >= least(0.91, 300), (cell, name)


@pytest.mark.slow
def test_judges_that_are_worse_by_epsilon_seldom_pass_the_alternative_annotator_test(studies: ModuleType) -> None:
    for (_, _, excess), (_, by_clusters) in studies.replacing(500, np.random.default_rng(2)).items():
        assert by_clusters <= most(0.06, 500) if not excess else by_clusters >= 0.9
