from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.stats import normal_pairs
from custodes.stats.normal_pairs import NormalMaximum, pair_tests
from custodes.stats.step_down import AdjustedPValues


def family(seed: int, systems: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return estimates that sum to 0, their covariance, and all pairs."""
    rng = np.random.default_rng(seed)
    centre = np.eye(systems) - 1 / systems
    covariance = centre @ np.diag(rng.uniform(0.1, 0.3, systems) ** 2) @ centre
    return centre @ rng.normal(0, 0.4, systems), covariance, *np.triu_indices(systems, k=1)


def made_of(seed: int, systems: int, *, alpha: float = 0.05) -> AdjustedPValues:
    estimate, covariance, first, second = family(seed, systems)
    return pair_tests(estimate, covariance, first, second, n_units=np.inf, alpha=alpha)


@pytest.mark.parametrize(("seed", "systems"), [(0, 3), (1, 6), (2, 14)])
def test_by_definition_with_many_plain_draws(seed: int, systems: int) -> None:
    estimate, covariance, first, second = family(seed, systems)
    result = made_of(seed, systems)
    contrast = np.eye(systems)[first] - np.eye(systems)[second]
    error = np.sqrt(np.einsum("kp,pq,kq->k", contrast, covariance, contrast))
    drawn = np.random.default_rng(9).multivariate_normal(np.zeros(systems), covariance, 40_000, method="svd")
    null, observed = np.abs(drawn @ contrast.T) / error, np.abs(contrast @ estimate) / error
    open_tests, worst = list(range(len(first))), 0.0
    while open_tests:
        most = max(open_tests, key=lambda k: observed[k])
        worst = max(worst, float((null[:, open_tests].max(axis=1) >= observed[most]).mean()))
        assert result.p_adjusted[most] == pytest.approx(worst, abs=0.03)
        if 0.03 < worst < 0.08:  # More directions are drawn close to the level.
            assert result.p_adjusted[most] == pytest.approx(worst, abs=0.006)
        open_tests.remove(most)


def test_three_equal_ones_as_the_studentized_range() -> None:
    gap = 1.1
    result = pair_tests(
        np.array([0.0, gap, gap / 2]),
        np.eye(3) / 9,
        np.array([0, 0, 1]),
        np.array([1, 2, 2]),
        n_units=np.inf,
        alpha=0.05,
    )
    # the range of three independent normal values
    exact = stats.studentized_range.sf(gap * 3, 3, np.inf)
    assert result.p_adjusted[0] == pytest.approx(exact, abs=0.002)


def test_one_pair_is_students_t() -> None:
    result = pair_tests(np.array([0.0, 1.0]), np.eye(2) / 8, np.array([0]), np.array([1]), n_units=12, alpha=0.05)
    assert result.p_adjusted[0] == pytest.approx(2 * stats.t.sf(2.0, 11), abs=1e-12)
    assert not result.at_threshold[0]


@pytest.mark.parametrize("gap", [4.45, 4.5])
def test_p_values_near_the_level_are_clear_if_their_own_error_is_small(gap: float) -> None:
    """The Monte Carlo error of a p-value does not depend on the p-values of other pairs."""
    estimate = np.array([0.0, *np.full(9, gap)])
    result = pair_tests(estimate, np.eye(10), *np.triu_indices(10, k=1), n_units=np.inf, alpha=0.05)
    # the range of ten independent normal values
    exact = stats.studentized_range.sf(gap, 10, np.inf)
    assert 0.045 < exact < 0.055
    assert result.p_adjusted[:9] == pytest.approx(np.full(9, exact), abs=0.001)
    assert not result.at_threshold.any()


def test_what_is_too_close_to_the_level_is_marked_and_the_rest_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The level is set to a p-value that many directions give; a p-value elsewhere does not change."""
    sharp = made_of(3, 8, alpha=0.05).p_adjusted
    exact = float(np.sort(sharp)[(np.sort(sharp) > 0.01).argmax()])
    near = made_of(3, 8, alpha=exact)
    refined = near.p_adjusted[np.argmin(np.abs(near.p_adjusted - exact))]
    repeated = made_of(3, 8, alpha=float(refined))
    at = np.argmin(np.abs(repeated.p_adjusted - refined))
    assert repeated.at_threshold[at]
    assert not repeated.at_threshold[np.abs(repeated.p_adjusted - refined) > 0.02].any()
    monkeypatch.setattr(normal_pairs, "MOST_DIRECTIONS", normal_pairs.FIRST_DIRECTIONS)
    assert made_of(3, 8, alpha=float(refined)).at_threshold.sum() >= repeated.at_threshold.sum()


def test_decisions_agree_with_other_random_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision that another stream of random numbers reverses must carry the mark."""
    reversed_, marked = 0, 0
    for seed in range(40):
        monkeypatch.setattr(normal_pairs, "STREAM", 1)
        first = made_of(seed, 10)
        monkeypatch.setattr(normal_pairs, "STREAM", 2)
        second = made_of(seed, 10)
        clear = ~first.at_threshold & ~second.at_threshold
        reversed_ += int(((first.p_adjusted <= 0.05) != (second.p_adjusted <= 0.05))[clear].sum())
        marked += int(first.at_threshold.sum())
    assert not reversed_
    assert marked <= 18  # of 1,800 pairs


def test_without_spread_or_units_nothing_is_tested() -> None:
    pair = np.array([0]), np.array([1])
    none = pair_tests(np.array([0.0, 1.0]), np.zeros((2, 2)), *pair, n_units=100, alpha=0.05)
    assert np.isnan(none.p_adjusted[0])
    same = pair_tests(np.zeros(2), np.zeros((2, 2)), *pair, n_units=100, alpha=0.05)
    assert same.p_adjusted[0] == 1
    few = pair_tests(np.array([0.0, 1.0]), np.eye(2), *pair, n_units=5, alpha=0.05)
    assert np.isnan(few.p_adjusted[0])


@pytest.mark.parametrize("scale", [1e-4, 1.0, 100.0])
def test_a_copy_of_a_system_does_not_change_the_tests_of_the_others(scale: float) -> None:
    # With two identical estimates, all nonzero differences are equal: Student's t.
    covariance = np.eye(2)[np.ix_([0, 1, 0], [0, 1, 0])] * scale
    covariance[2, 2] *= 1 + 1e-14  # rounding error
    gap = np.sqrt(2 * scale) * stats.t.isf(0.02, 99)
    result = pair_tests(
        np.array([0.0, gap, 0.0]), covariance, np.array([0, 0, 1]), np.array([1, 2, 2]), n_units=100, alpha=0.05
    )
    np.testing.assert_allclose(result.p_adjusted, [0.04, 1.0, 0.04], atol=0.003)


@pytest.mark.parametrize("seed", range(3))
def test_the_critical_value_is_the_quantile_of_the_largest_difference(seed: int) -> None:
    # reference: 200,000 draws, of which .05 exceed it with a standard error of .0005
    rng = np.random.default_rng(seed)
    n = 3 + 2 * seed
    root = rng.normal(size=(n, n)) / 2 + np.eye(n)
    covariance = root @ root.T
    first, second = np.triu_indices(n, 1)
    value = NormalMaximum(covariance, first, second).quantile(0.05)
    spread = np.sqrt(covariance[first, first] + covariance[second, second] - 2 * covariance[first, second])
    draws = rng.standard_normal((200_000, n)) @ root.T
    largest = np.max(np.abs(draws[:, first] - draws[:, second]) / spread, axis=1)
    assert np.mean(largest >= value) == pytest.approx(0.05, abs=0.003)
