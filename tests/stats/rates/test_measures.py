from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from custodes.stats.rates import measures

TABLES = (
    np.array([[40.0, 10.0], [10.0, 40.0]]),
    np.array([[90.0, 5.0], [5.0, 0.0]]),
    np.array([[20.0, 3.0, 1.0], [4.0, 30.0, 6.0], [2.0, 1.0, 33.0]]),
)
AC1 = (0.6, 0.889502762431, 0.746986158655)
"""By irrCAC 0.4.4."""
ALPHA = ((0.602, 0.602), (-0.0473684210526317, -0.0473684210526317), (0.7422279792746114, 0.7918125106673494))
"""Nominal and ordinal by krippendorff 0.8."""


def raters(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return judge's and human labels with these counts."""
    judge, human = (part.ravel() for part in np.indices(table.shape))
    return tuple(np.repeat(part, table.ravel().astype(int)) for part in (judge, human))  # type: ignore[return-value]


@pytest.mark.parametrize("table", TABLES)
def test_measures_equal_scikit_learn(table: np.ndarray) -> None:
    judge, human = raters(table)
    assert measures.sample_accuracy(table) == pytest.approx(sklearn_metrics.accuracy_score(human, judge), abs=1e-12)
    assert measures.mcc(table) == pytest.approx(sklearn_metrics.matthews_corrcoef(human, judge), abs=1e-12)
    assert measures.balanced_accuracy(table) == pytest.approx(
        sklearn_metrics.balanced_accuracy_score(human, judge), abs=1e-12
    )
    average = "binary" if len(table) == 2 else "macro"
    assert measures.f1(table) == pytest.approx(sklearn_metrics.f1_score(human, judge, average=average), abs=1e-12)
    for ordered, weights in ((False, None), (True, "quadratic")):
        expected = sklearn_metrics.cohen_kappa_score(human, judge, weights=weights)
        assert measures.kappa(table, ordered=ordered) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("table", "expected"), [*zip(TABLES, AC1, strict=True)])
def test_ac1_equals_irrcac(table: np.ndarray, expected: float) -> None:
    assert measures.ac1(table) == pytest.approx(expected, abs=1e-9)
    assert measures.ac1(table * 7) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("table", "expected"), [*zip(TABLES, ALPHA, strict=True)])
def test_alpha_equals_krippendorff(table: np.ndarray, expected: tuple[float, float]) -> None:
    for ordered, value in zip((False, True), expected, strict=True):
        share = table / table.sum()
        assert measures.krippendorff(share, table.sum(), ordered=ordered) == pytest.approx(value, abs=1e-9)


def test_error_rates_by_hand() -> None:
    table = np.array([[30.0, 5.0], [10.0, 55.0]])  # rows: judge, columns: human
    values = [float(measure(table)) for measure in measures.BINARY.values()]
    assert values == pytest.approx([55 / 60, 30 / 40, 55 / 65, 30 / 35])


def test_undefined_measures_are_nan() -> None:
    only = np.array([[0.0, 0.0], [0.0, 9.0]])
    assert np.isnan(measures.mcc(only))
    assert np.isnan(measures.kappa(only))
    assert np.isnan(measures.specificity(only))
    assert measures.sample_accuracy(only) == 1
