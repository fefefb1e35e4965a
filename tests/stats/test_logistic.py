from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from custodes.stats.intervals import wilson_interval
from custodes.stats.logistic import first_coefficient, rate_at_zero


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


def reference_study(seed: int, n: int = 60, log_odds: float = 3.6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    covariate = np.tanh(rng.normal(0.3, 1, n))
    return (rng.random(n) < 1 / (1 + np.exp(-log_odds - covariate))).astype(float), covariate[:, None]


def test_intervals_of_rates_near_one_contain_the_true_rate() -> None:
    """An interval of estimate ± t standard errors of the log odds does so in .87 of studies; .22 have none."""
    intervals = [
        rate_at_zero(*reference_study(seed), np.arange(60), weights=np.ones(60), confidence=0.95)[1:]
        for seed in range(200)
    ]
    low, high = np.array(intervals).T
    assert np.isfinite(low).mean() >= 0.95
    true_rate = 1 / (1 + np.exp(-3.6))
    assert np.mean(((low <= true_rate) & (true_rate <= high))[np.isfinite(low)]) >= 0.94


def test_wins_and_losses_are_treated_alike() -> None:
    outcome, covariates = reference_study(1, log_odds=1.0)
    rate, low, high = rate_at_zero(outcome, covariates, np.arange(60) // 2, weights=np.ones(60), confidence=0.9)
    mirrored = rate_at_zero(1 - outcome, -covariates, np.arange(60) // 2, weights=np.ones(60), confidence=0.9)
    assert mirrored == pytest.approx((1 - rate, 1 - high, 1 - low))


@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_of_rates_are_those_of_fits_by_statsmodels(*, weighted: bool) -> None:
    outcome, covariates = reference_study(1, log_odds=1.0)
    unit, weights = np.arange(60) // 2, np.arange(60) % 3 + 1.0 if weighted else np.ones(60)
    rate, low, high = rate_at_zero(outcome, covariates, unit * 3, weights=7 * weights, confidence=0.9)
    weights = weights * weights.sum() / (weights**2).sum()
    sizes = np.bincount(unit, weights)
    clusters = sizes.sum() ** 2 / (sizes**2).sum()
    t = stats.t.ppf(0.95, clusters - 1)

    def fit(y: np.ndarray, x: np.ndarray, w: np.ndarray):
        return sm.GLM(y, x, family=sm.families.Binomial(), freq_weights=w).fit(tol=1e-12)

    design = np.column_stack([np.ones(60), covariates])
    plain = fit(outcome, design, weights)
    # t^2 / 2 more wins and as many losses at a covariate of 0
    adjusted = fit(np.append(outcome, 0.5), np.vstack([design, [1, 0]]), np.append(weights, t**2))
    bread, at_zero = adjusted.normalized_cov_params, adjusted.fittedvalues[-1]
    scores = design * (weights * (outcome - plain.fittedvalues))[:, np.newaxis]
    sums = np.array([scores[unit == u].sum(axis=0) for u in range(30)])
    shifts = design * (weights * (plain.fittedvalues - adjusted.fittedvalues[:-1]))[:, np.newaxis]
    meat = clusters / (clusters - 1) * sums.T @ sums + shifts.T @ shifts
    meat[0, 0] += t**2 / 2 * ((1 - at_zero) ** 2 + at_zero**2)
    n_at_zero = 1 / (at_zero * (1 - at_zero) * bread[0, 0]) - t**2
    n_effective = n_at_zero * bread[0, 0] / (bread @ meat @ bread)[0, 0]
    expected = wilson_interval(rate, n_effective, quantile=t)
    assert rate == pytest.approx(1 / (1 + np.exp(-plain.params[0])))
    assert (low, high) == pytest.approx([float(bound) for bound in expected])


def test_equal_outcomes_have_as_many_observations_as_clusters() -> None:
    covariates, n, squared_quantile = np.arange(40.0)[:, None] - 20, 10, stats.t.ppf(0.975, 9) ** 2
    outcome = 1 - 1e-14 * (np.arange(40) == 3)  # a probability that is not exactly 1
    rate, low, high = rate_at_zero(outcome, covariates, np.arange(40) // 4, weights=np.ones(40), confidence=0.95)
    assert (rate, low, high) == pytest.approx((1, n / (n + squared_quantile), 1))


def test_covariates_that_separate_the_outcomes_give_no_rate() -> None:
    covariates = np.arange(40.0)[:, None] - 10
    assert np.isnan(
        rate_at_zero(
            (covariates[:, 0] > 3).astype(float), covariates, np.arange(40), weights=np.ones(40), confidence=0.95
        )
    ).all()


def test_a_weight_counts_like_a_cluster_of_equal_rows() -> None:
    outcome, covariates = reference_study(1, log_odds=1.0)
    weights = np.arange(60) % 3 + 1
    rows = np.repeat(np.arange(60), weights)
    weighted = rate_at_zero(outcome, covariates, np.arange(60), weights=weights / 7, confidence=0.95)
    repeated = rate_at_zero(outcome[rows], covariates[rows], rows, weights=np.ones(len(rows)), confidence=0.95)
    assert weighted[0] == pytest.approx(repeated[0])
    assert weighted[1:] == pytest.approx(repeated[1:], abs=0.01)  # the pseudo-observations have other weights
