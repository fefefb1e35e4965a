"""Ratios of slices: values by hand, permutations against SciPy, symmetries."""

from __future__ import annotations

import numpy as np

from custodes.stats.slices import FEWEST_PARTS, slice_tests

SEED = 20_260_124


def data(sizes: tuple[int, ...], *, ratios: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(SEED)
    slices = np.repeat(np.arange(len(sizes)), sizes)
    size = rng.integers(1, 5, (ratios, len(slices))).astype(float)
    return rng.binomial(size.astype(int), 0.7).astype(float), size, slices


def test_values_are_ratios_of_sums() -> None:
    hits, size, slices = data((20, 30, 25))
    tests = slice_tests(hits, size, slices, confidence=0.9)
    for k in range(3):
        inside, outside = slices == k, slices != k
        np.testing.assert_allclose(tests.value[:, k], hits[:, inside].sum(axis=1) / size[:, inside].sum(axis=1))
        np.testing.assert_allclose(tests.other[:, k], hits[:, outside].sum(axis=1) / size[:, outside].sum(axis=1))
    np.testing.assert_allclose(tests.difference, tests.value - tests.other)
    np.testing.assert_array_equal(tests.n, [[20, 30, 25]] * 2)


def test_the_p_value_is_that_of_the_same_statistic_over_scipys_permutations() -> None:
    from scipy.stats import permutation_test

    hits, size, slices = data((16, 18), ratios=1)
    hits[0, :16] = np.minimum(hits[0, :16] + 1, size[0, :16])
    overall = hits.sum() / size.sum()
    spread = np.sum((hits - overall * size) ** 2) / (hits.size - 1) / size.mean() ** 2

    def studentized(places: np.ndarray, rest: np.ndarray) -> float:
        values, variance = [], 0.0
        for part in (places.astype(int), rest.astype(int)):
            a, b, n = hits[0, part], size[0, part], len(part)
            values.append(a.sum() / b.sum())
            inside = np.sum((a - values[-1] * b) ** 2) / (n - 1) / b.mean() ** 2
            variance += max(inside, ((n - 1) * inside + spread) / n) / n
        return abs(values[0] - values[1]) / np.sqrt(variance)

    places = np.arange(34.0)
    reference = permutation_test(
        (places[:16], places[16:]), studentized, alternative="greater", n_resamples=4999, rng=np.random.default_rng(1)
    )
    freedom = 15
    observed = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(reference.statistic**2 / freedom))
    expected = (1 + np.sum(reference.null_distribution >= observed)) / 5000
    tests = slice_tests(hits, size, slices, confidence=0.95)
    assert abs(tests.p_value[0, 0] - expected) <= 4 * np.sqrt(expected * (1 - expected) * (1 / 3000 + 1 / 5000))


def test_bounds_exclude_zero_where_the_single_test_rejects() -> None:
    rng = np.random.default_rng(SEED)
    seen = set()
    for _ in range(40):
        slices = np.repeat([0, 1, 2], 20)
        hits = (rng.random((1, 60)) < np.where(slices == 0, 0.9, 0.65)).astype(float)
        tests = slice_tests(hits, np.ones_like(hits), slices, confidence=0.95)
        excluded = (tests.low > 0) | (tests.high < 0)
        np.testing.assert_array_equal(excluded, tests.p_value <= 0.05)
        assert (tests.p_adjusted >= tests.p_value).all()
        assert ((tests.low <= tests.difference) & (tests.difference <= tests.high)).all()
        seen.update(excluded.ravel().tolist())
    assert seen == {True, False}


def test_adjusted_p_values_of_nearly_independent_slices_are_sidaks() -> None:
    slices = np.repeat(np.arange(8), 25)
    for seed in range(6):
        hits = np.random.default_rng(seed).binomial(20, 0.5, (1, 200)).astype(float)
        tests = slice_tests(hits, np.full_like(hits, 20), slices, confidence=0.95)
        sidak = 1 - (1 - tests.p_value.min()) ** 8
        assert abs(tests.p_adjusted.min() - sidak) < 0.07


def test_slices_of_two_are_opposite() -> None:
    hits, size, slices = data((20, 30))
    tests = slice_tests(hits, size, slices, confidence=0.95)
    np.testing.assert_allclose(tests.difference[:, 0], -tests.difference[:, 1])
    np.testing.assert_allclose(tests.p_value[:, 0], tests.p_value[:, 1])
    np.testing.assert_allclose(tests.low[:, 0], -tests.high[:, 1])


def test_failures_instead_of_hits_turn_the_sign() -> None:
    hits, size, slices = data((20, 30, 16))
    tests, turned = (slice_tests(values, size, slices, confidence=0.95) for values in (hits, size - hits))
    np.testing.assert_allclose(tests.difference, -turned.difference)
    np.testing.assert_allclose(tests.p_adjusted, turned.p_adjusted)


def test_few_parts_are_not_tested_and_missing_data_are_no_failures() -> None:
    hits, size, slices = data((FEWEST_PARTS - 1, 40, 40))
    size[1, slices == 1] = hits[1, slices == 1] = 0
    tests = slice_tests(hits, size, slices, confidence=0.95)
    assert np.isnan(tests.p_value[:, 0]).all()
    assert np.isfinite(tests.value[:, 0]).all()
    assert tests.n[1, 1] == 0
    assert np.isnan([tests.value[1, 1], tests.low[1, 1]]).all()
    assert np.isfinite(tests.p_adjusted[0, 1:]).all()
