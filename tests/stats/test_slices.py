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


def test_p_values_and_bounds_by_other_permutations() -> None:
    hits, size, slices = data((16, 18, 20))
    hits[0, :16] = np.minimum(hits[0, :16] + 1, size[0, :16])
    n_permutations, freedom = 4000, np.array([15, 17, 19])
    overall = (hits.sum(axis=1) / size.sum(axis=1))[:, np.newaxis]
    spread = np.sum((hits - overall * size) ** 2, axis=1) / 53 / size.mean(axis=1) ** 2

    def ratio_and_variance(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ratio, n = a.sum(axis=-1) / b.sum(axis=-1), a.shape[-1]
        inside = np.sum((a - ratio[..., np.newaxis] * b) ** 2, axis=-1) / (n - 1) / b.mean(axis=-1) ** 2
        return ratio, np.maximum(inside, ((n - 1) * inside + spread) / n) / n

    def differences(order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return differences and standard errors (permutations, ratios, slices)."""
        a, b = (np.moveaxis(values[:, order], 0, 1) for values in (hits, size))
        parts = [
            [ratio_and_variance(a[..., part], b[..., part]) for part in (slices == k, slices != k)] for k in range(3)
        ]
        return (
            np.stack([inside[0] - outside[0] for inside, outside in parts], axis=-1),
            np.sqrt(np.stack([inside[1] + outside[1] for inside, outside in parts], axis=-1)),
        )

    def normal(t: np.ndarray) -> np.ndarray:
        return (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(t**2 / freedom))

    difference, error = (values[0] for values in differences(np.arange(54)[np.newaxis]))
    orders = np.random.default_rng(1).permuted(np.tile(np.arange(54), (n_permutations, 1)), axis=1)
    permuted = np.abs(np.divide(*differences(orders)))
    observed = normal(difference / error)
    largest = normal(permuted).max(axis=(1, 2), keepdims=True)
    tests = slice_tests(hits, size, slices, confidence=0.95)
    for found, expected in (
        (tests.p_value, (permuted >= observed).mean(axis=0)),
        (tests.p_adjusted, (largest >= normal(observed)).mean(axis=0)),
    ):
        tolerance = 0.001 + 4 * np.sqrt(expected * (1 - expected) * (1 / 3000 + 1 / 4000))
        assert (np.abs(found - expected) <= tolerance).all()
    assert tests.p_value[0, 0] < 0.05 < 0.5 < tests.p_value[1, 0]
    quantile = np.quantile(permuted, 0.95, axis=0) * (8 * freedom + 3) / (8 * freedom + 1)
    half = np.sqrt(freedom * np.expm1(quantile**2 / freedom)) * error
    np.testing.assert_allclose([difference - tests.low, tests.high - difference], [half, half], rtol=0.06)


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
