"""Comparisons of slices: false findings for any slice or metric, coverage of differences, and power."""

from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.slices import SliceTests, slice_tests
from tests.simulation.rates import is_at_most

STUDIES = 300
RATIO = 0.8


def study(
    rng: np.random.Generator, sizes: tuple[int, ...], *, comparisons: int, spread: tuple[float, float], gap: float = 0.0
) -> SliceTests:
    """Three metrics on items of slices; `spread` is the concentration of item ratios in the first slice and in the
    others (inf: constant)."""
    slices = np.repeat(np.arange(len(sizes)), sizes)
    shape = (3, len(slices))
    ratio = np.full(shape, RATIO) - gap * (slices == 0)
    for k, concentration in enumerate(spread):
        rows = (slices == 0) if k == 0 else (slices > 0)
        if np.isfinite(concentration):
            mean = ratio[:, rows]
            ratio[:, rows] = rng.beta(mean * concentration, (1 - mean) * concentration)
    hits = rng.binomial(comparisons, ratio).astype(float)
    return slice_tests(hits, np.full(shape, float(comparisons)), slices, confidence=0.95)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(30,) * 10, (15, 40, 200), (300, 20, 20, 20), (100, 100)])
@pytest.mark.parametrize(
    ("comparisons", "spread"),
    [
        (1, (np.inf, np.inf)),
        (10, (5.0, 5.0)),
        (10, (20.0, 2.0)),
        (10, (2.0, 20.0)),
    ],
)
def test_equal_slices(sizes: tuple[int, ...], comparisons: int, spread: tuple[float, float]) -> None:
    rng = np.random.default_rng(20_260_210)
    result, covered = 0, []
    for _ in range(STUDIES):
        tests = study(rng, sizes, comparisons=comparisons, spread=spread)
        result += bool((tests.p_adjusted <= 0.05).any())
        covered.append((tests.low <= 0) & (tests.high >= 0))
    assert is_at_most(result, STUDIES), result / STUDIES
    assert np.mean(covered) >= 0.93


@pytest.mark.slow
def test_a_worse_slice_is_found() -> None:
    rng = np.random.default_rng(20_260_211)
    result = sum(
        bool(study(rng, (60,) * 5, comparisons=10, spread=(10.0, 10.0), gap=0.15).p_adjusted[:, 0].max() <= 0.05)
        for _ in range(100)
    )
    assert result >= 80
