from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from custodes.stats.logistic import first_coefficient


def data_of(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    design = np.column_stack([rng.normal(size=(120, 2)), np.ones(120)])
    unit = rng.integers(0, 30, 120)
    p = 1 / (1 + np.exp(-(design @ [0.8, -0.5, 0.3] + 0.5 * rng.normal(size=30)[unit])))
    return np.round(p + rng.uniform(-0.5, 0.5, 120)).clip(0, 1), design, unit * 3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("proportions", [False, True])
def test_it_is_the_clustered_logistic_regression_of_statsmodels(seed: int, *, proportions: bool) -> None:
    outcome, design, unit = data_of(seed)
    outcome = np.round((outcome + 0.5) / 2, 2) if proportions else outcome
    result = first_coefficient(outcome, design, unit, confidence=0.9)
    robust = {"cov_type": "cluster", "cov_kwds": {"groups": unit, "use_correction": False}}
    model = sm.GLM(outcome, design, family=sm.families.Binomial()).fit(tol=1e-12, **robust)
    clusters = len(set(unit))
    error = model.bse[0] * np.sqrt(clusters / (clusters - 1))
    estimate = model.params[0]
    assert result.estimate == pytest.approx(estimate, abs=1e-7)
    half = stats.t.ppf(0.95, clusters - 1) * error
    assert (result.low, result.high) == pytest.approx((estimate - half, estimate + half), abs=1e-6)
    assert result.p_value == pytest.approx(2 * stats.t.sf(abs(estimate) / error, clusters - 1), rel=1e-5)


def test_without_a_finite_fit_everything_is_nan() -> None:
    outcome, design, unit = data_of(0)
    separated = (design[:, 0] > 0).astype(float)
    cases = [(outcome, design, np.zeros(120, dtype=int)), (separated, design, unit), (np.ones(120), design, unit)]
    cases.append((outcome, np.column_stack([design, design[:, 0] - design[:, 1]]), unit))
    for case in cases:
        assert np.isnan(first_coefficient(*case, confidence=0.95)).all()
    two = first_coefficient(outcome, design, unit % 2, confidence=0.95)
    assert np.isfinite(two).all()
