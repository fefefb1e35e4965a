from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.stats.agreement import counted, linear, unit_pairs
from custodes.stats.agreement.kendall import pooled_kendall
from custodes.stats.bootstrap import bootstrap_weights, with_point

SEEDS = st.integers(0, 2**32 - 1)


def outputs(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and how often each counts: few and many levels, ties on both sides, whole and broken shares."""
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 30)
    x, y = (rng.integers(0, rng.integers(1, 20), n).astype(float) for _ in range(2))
    return x, y, rng.integers(0, 3, n).astype(float) if seed % 2 else rng.random(n)


def study(seed: int, items: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """human, metrics, units: ties, missing cells, clusters of unlike size."""
    rng = np.random.default_rng(seed)
    human = rng.integers(0, 5, (items, 4)).astype(float)
    metrics = np.round(human + rng.normal(size=(2, items, 4)), 1)
    metrics[1, rng.random((items, 4)) < 0.1] = np.nan
    return human, metrics, np.sort(np.append(np.arange(items // 3), rng.integers(0, items // 3, items - items // 3)))


@settings(deadline=None)
@given(seed=SEEDS)
def test_kendall_parts_are_sums_over_pairs(seed: int) -> None:
    x, y, share = outputs(seed)
    sx, sy = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    matrices = sx * sy, np.abs(sx), np.abs(sy)
    values, influences = counted.kendall_parts(x, y, share)
    np.testing.assert_allclose(values, [share @ own @ share for own in matrices], atol=1e-9)
    np.testing.assert_allclose(influences, [2 * own @ share for own in matrices], atol=1e-9)


@pytest.mark.parametrize("weighed", [False, True])
def test_both_sides_of_the_crossing_give_one_estimate(weighed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        human, metrics, units = study(seed)
        item_weights = np.random.default_rng(seed).integers(1, 3, len(human)) / 2 if weighed else None
        design = {"units": units, "weights": np.ones((1, units[-1] + 1)), "item_weights": item_weights}
        monkeypatch.setattr(linear, "MANY", 4096)
        exact = pooled_kendall(human, metrics, **(design | {"weights": np.ones((2, units[-1] + 1))}))[:1]
        monkeypatch.setattr(linear, "MANY", 0)
        np.testing.assert_allclose(pooled_kendall(human, metrics, **design), exact, atol=1e-12)


def test_many_light_clusters_spread_as_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    human, metrics, units = study(1, items=300)
    weights = bootstrap_weights(units[-1] + 1, 400, np.random.default_rng(0))
    exact = pooled_kendall(human, metrics, units=units, weights=weights)[1:]
    monkeypatch.setattr(linear, "MANY", 0)
    monkeypatch.setattr(linear, "HEAVY", 2.0)  # none is
    made = pooled_kendall(human, metrics, units=units, weights=weights)[1:]
    # the same draws: what differs is of the second order, 1 / 100 clusters
    np.testing.assert_allclose(made.std(axis=0), exact.std(axis=0), rtol=0.05)
    assert all(np.corrcoef(made[:, m], exact[:, m])[0, 1] > 0.99 for m in range(2))


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("cells", [0, 10**6], ids=["counted", "table"])
def test_few_clusters_are_exact_in_every_resample(weighed: bool, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4):
        human, metrics, units = study(seed)
        if seed == 1:
            metrics[0] = np.where((units == 3)[:, None], metrics[0], 0.0)  # resamples without that cluster: NaN
        if seed == 2:
            units = np.where(np.arange(len(units)) < len(units) // 2, 0, units)  # half of all in one
        design = {
            "units": units,
            "weights": bootstrap_weights(units[-1] + 1, 40, np.random.default_rng(seed)),
            "item_weights": np.random.default_rng(seed).integers(1, 3, len(human)) / 2 if weighed else None,
        }
        with monkeypatch.context() as patched:
            patched.setattr(linear, "MANY", 10**9)
            exact = pooled_kendall(human, metrics, **design)
            patched.setattr(linear, "MANY", 0)
            patched.setattr(unit_pairs, "_CELLS", cells)
            np.testing.assert_allclose(pooled_kendall(human, metrics, **design), exact, atol=1e-12)
        assert np.isnan(exact).any() == (seed == 1)


def test_left_out_blocks_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    human, metrics, units = study(4, items=120)
    weights = with_point(1 - np.eye(units[-1] + 1))
    exact = pooled_kendall(human, metrics, units=units, weights=weights)
    monkeypatch.setattr(linear, "MANY", 0)
    monkeypatch.setattr(linear, "HEAVY", 2.0)  # even where all are light
    np.testing.assert_allclose(pooled_kendall(human, metrics, units=units, weights=weights), exact, atol=1e-12)


def test_a_heavy_cluster_among_light_ones_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    units = np.append(np.zeros(300, dtype=int), 1 + np.arange(300))
    human = rng.normal(size=(600, 1)) + (units == 0)[:, np.newaxis]
    metrics = (human + rng.normal(size=(600, 1)))[np.newaxis]
    weights = bootstrap_weights(301, 200, rng)[1:]
    exact = pooled_kendall(human, metrics, units=units, weights=weights)
    monkeypatch.setattr(linear, "MANY", 0)
    made = pooled_kendall(human, metrics, units=units, weights=weights)
    # What differs is the second order of 300 light ones, where the heavy one is not drawn of these alone.
    assert made.std() == pytest.approx(exact.std(), rel=0.03)
    assert np.corrcoef(made[:, 0], exact[:, 0])[0, 1] > 0.99


def test_linear_resamples_are_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MANY", 0)
    human, metrics, units = study(2)
    weights = bootstrap_weights(units[-1] + 1, 20, np.random.default_rng(0), dtype=np.uint8)
    made = pooled_kendall(human, metrics, units=units, weights=weights)
    order = np.random.default_rng(3).permutation(len(human))
    for other, sign in (
        (pooled_kendall(np.exp(human), 3 * metrics + 1, units=units, weights=weights), 1),
        (pooled_kendall(human, -metrics, units=units, weights=weights), -1),
        (pooled_kendall(human[order], metrics[:, order], units=units[order], weights=weights), 1),
        (pooled_kendall(human[:, ::-1], metrics[:, :, ::-1], units=units, weights=weights), 1),
        (pooled_kendall(human, metrics, units=units, weights=weights.astype(float)), 1),
    ):
        np.testing.assert_allclose(sign * other, made, atol=1e-12)


def test_a_constant_side_is_undefined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MANY", 0)
    human, metrics, units = study(3)
    metrics[0] = 0.3
    made = pooled_kendall(human, metrics, units=units, weights=np.ones((1, units[-1] + 1)))
    assert np.isnan(made[0, 0])
    assert np.isfinite(made[0, 1])
