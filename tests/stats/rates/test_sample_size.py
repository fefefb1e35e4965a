from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from custodes.stats.rates.sample_size import (
    allocation,
    error_rate_shares,
    expected_posterior,
    fewest_labels,
    rate_shares,
    stratum_rates,
)

WEIGHTS, RATES = np.array([0.3, 0.7]), np.array([0.2, 0.9])


def variance(share: float, slope: np.ndarray) -> float:
    return float((slope**2 * RATES * (1 - RATES) / np.array([share, 1 - share])).sum())


def test_shares_have_the_smallest_variance() -> None:
    best = minimize_scalar(lambda share: variance(share, WEIGHTS), bounds=(0.01, 0.99), method="bounded").x
    assert rate_shares(WEIGHTS, RATES)[0] == pytest.approx(best, abs=1e-4)
    for positive in (True, False):

        def error_rate(rates: np.ndarray, positive: bool = positive) -> float:
            cells = WEIGHTS * (rates if positive else 1 - rates)
            return float(cells[int(positive)] / cells.sum())

        slope = np.array([(error_rate(RATES + d) - error_rate(RATES - d)) / 2e-6 for d in 1e-6 * np.eye(2)])
        best = minimize_scalar(lambda share, s=slope: variance(share, s), bounds=(0.01, 0.99), method="bounded").x
        assert error_rate_shares(WEIGHTS, RATES, positive=positive)[0] == pytest.approx(best, abs=1e-3)


def test_without_any_variance_the_shares_are_equal_and_labels_are_limited_by_the_outputs() -> None:
    assert rate_shares(WEIGHTS, np.array([0.0, 1.0])).tolist() == [0.5, 0.5]
    n_outputs = np.array([30, 70])
    all_labelled, limited = (
        expected_posterior(shares, RATES, n_outputs, n) for shares, n in ((WEIGHTS, 100), (np.array([0.5, 0.5]), 1e9))
    )
    np.testing.assert_array_equal(limited, all_labelled)


def test_rates_of_strata_move_from_assumed_to_seen() -> None:
    rates = stratum_rates(np.array([[0.0, 0.0], [50.0, 50.0]]), np.array([0.1, 0.9]))
    assert rates[0] == pytest.approx(0.1)
    assert rates[1] == pytest.approx(0.5, abs=0.01)


def test_expected_intervals_narrow_with_labels() -> None:
    spread = [
        expected_posterior(WEIGHTS, RATES, np.array([300, 700]), n)[:, :, 1].sum(axis=1).std() for n in (50, 200, 800)
    ]
    assert spread[0] > 1.8 * spread[1] > 1.8 * 1.5 * spread[2]
    assert fewest_labels(lambda n: 1 / max(n, 1), 0.001, max_n_labels=50) is None


@given(
    st.floats(0, 1),
    st.lists(st.integers(0, 50), min_size=2, max_size=2),
    st.lists(st.integers(0, 300), min_size=2, max_size=2),
    st.integers(0, 400),
)
def test_allocation_adds_what_is_asked_and_available(share: float, labelled: list, available: list, n: int) -> None:
    n_labelled, free = np.array(labelled), np.array(available)
    added = allocation(
        np.array([share, 1 - share]), n_labelled=n_labelled, n_available=free, n_to_add=n, least_per_stratum=5
    )
    assert added.sum() == min(n, free.sum())
    assert (added >= 0).all()
    assert (added <= free).all()
    if n >= 10:
        assert (n_labelled + added >= np.minimum(5, n_labelled + free)).all()


def test_the_fewest_labels_are_found_at_both_ends_of_the_range() -> None:
    for fewest in (1, 2, 37, 49, 50):
        assert fewest_labels(lambda n, k=fewest: float(n < k), 0.5, max_n_labels=50) == fewest
    assert fewest_labels(lambda n: float(n < 51), 0.5, max_n_labels=50) is None
    assert fewest_labels(lambda n: 1 / n, 0.02, max_n_labels=50) == 50  # equality is enough


def test_strata_without_an_optimal_share_get_only_the_rest() -> None:
    options = {"n_labelled": np.array([0, 0]), "n_available": np.array([30, 50]), "least_per_stratum": 4}
    share = np.array([1.0, 0.0])
    for n, expected in (
        (0, [0, 0]),
        (4, [2, 2]),
        (8, [4, 4]),
        (20, [16, 4]),
        (34, [30, 4]),
        (40, [30, 10]),
        (99, [30, 50]),
    ):
        assert allocation(share, n_to_add=n, **options).tolist() == expected
    done = {**options, "n_labelled": np.array([10, 3])}
    assert allocation(share, n_to_add=20, **done).tolist() == [19, 1]
    assert allocation(np.array([0.75, 0.25]), n_to_add=27, **done).tolist() == [20, 7]  # 30 : 10 of 40
