from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.correction.estimators import ESTIMATORS
from tests.simulation.clustered_studies import SIZES, estimated, favi_held, sign_tests, true_favi, wins
from tests.simulation.rates import is_at_most

STUDIES = 2000
FEW_STUDIES = {"mixture": 300}
NAMES = tuple(name for name, estimator in ESTIMATORS.items() if not estimator.needs_items)


@pytest.mark.slow
@pytest.mark.parametrize("test", ["asymptotic", "exact"])
@pytest.mark.parametrize("icc", [0, 0.1, 0.3])
@pytest.mark.parametrize("size", SIZES)
def test_sign_tests_of_equals(size, icc, test):
    before, after = (sign_tests(size, icc=icc, mean=0, n=4000, by=by, test=test) for by in (False, True))
    strict = sign_tests(size, icc=icc, mean=0, n=20_000, alpha=0.0005, test=test)  # Holm over 100 pairs
    power = sign_tests(size, icc=icc, mean=0.5, n=4000, test=test)
    print(f"{size}, ICC {icc}, {test}: {before:.3f} -> {after:.3f}; at .0005 {strict:.5f}; a margin of .36 {power:.2f}")
    assert is_at_most(round(after * 4000), 4000)
    assert is_at_most(round(strict * 20_000), 20_000, 0.0006)
    if icc == 0.3:
        assert before > 0.25


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("annotated", ["half", "documents"])
@pytest.mark.parametrize("icc", [0, 0.1, 0.3])
@pytest.mark.parametrize("size", SIZES)
def test_margins_of_estimators(size, icc, annotated, name):
    n = FEW_STUDIES.get(name, STUDIES)
    for mean in (0, 0.5, 1.2):
        (before, *_), (held, decided, width, divisor) = (
            estimated(name, size, icc=icc, mean=mean, annotated=annotated, n=n, by=by) for by in (False, True)
        )
        print(
            f"{name}, {size}, {annotated}, ICC {icc}, margin {wins(mean):.2f}: {before:.3f} -> {held:.3f},"
            f" decided {decided:.3f}, width {width:.2f}, counts / {divisor:.1f}"
        )
        noise = 3 * np.sqrt(0.95 * 0.05 / n)
        assert held >= (0.92 if size.startswith("40") else 0.90) - noise
        if size == "40 x 10":
            assert held <= 0.98 + noise
        if mean == 0:
            assert is_at_most(round(decided * n), n)


@pytest.mark.slow
@pytest.mark.parametrize("icc", [0, 0.1, 0.3])
@pytest.mark.parametrize("size", SIZES)
def test_favi_scores(size, icc):
    for mean, favour in ((0, 0), (0, 0.5), (0.8, 0)):
        before, after = (favi_held(size, icc=icc, mean=mean, favour=favour, n=STUDIES, by=by) for by in (False, True))
        print(
            f"{size}, ICC {icc}, Favi-Score {true_favi(mean, favour):.2f}: {before[0]:.3f} -> {after[0]:.3f},"
            f" one-sided {after[1]:.3f}, width {after[2]:.2f}"
        )
        assert after[0] >= 0.92 - 3 * np.sqrt(0.95 * 0.05 / STUDIES)
        if not (mean or favour):
            assert is_at_most(round(after[1] * STUDIES), STUDIES)
