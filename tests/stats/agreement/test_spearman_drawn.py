from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.stats.agreement import spearman_drawn
from custodes.stats.agreement.correlation import pooled_spearman
from custodes.stats.agreement.spearman_drawn import drawn_spearman
from custodes.stats.bootstrap import bootstrap_weights

N = 2000


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spearman_drawn, "MANY", N)


def study(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """people in five marks, metrics: digits, many ties, the other way round, with gaps; resamples of items."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(N, 2))
    human = np.clip(np.rint(truth + rng.normal(size=truth.shape) + 3), 1, 5)
    metrics = np.stack([truth, np.rint(truth), -truth + rng.normal(size=truth.shape), truth])
    metrics[3][rng.random(truth.shape) < 0.1] = np.nan
    return human, metrics, bootstrap_weights(N, 300, rng, dtype=np.uint8)


@pytest.mark.usefixtures("few_are_many")
def test_the_data_are_exact_and_resamples_next_to_it() -> None:
    human, metrics, weights = study(0)
    found = drawn_spearman(human, metrics, units=np.arange(N), weights=weights)
    exact = pooled_spearman(human, metrics, units=np.arange(N), weights=weights)
    np.testing.assert_allclose(found[0], exact[0], atol=1e-12)
    assert found[0, 0] == pytest.approx(stats.spearmanr(human.ravel(), metrics[0].ravel()).statistic, abs=1e-12)
    apart = found[1:] - exact[1:]
    assert np.abs(apart).max() > 1e-9  # another way
    spread = exact[1:].std(axis=0)
    assert (np.abs(apart.mean(axis=0)) < 0.03 * spread).all()
    assert (apart.std(axis=0) < 0.1 * spread).all()
    np.testing.assert_allclose(found[1:].std(axis=0), spread, rtol=0.03)


@pytest.mark.usefixtures("few_are_many")
def test_influences_are_the_derivatives() -> None:
    human, metrics, _ = study(1)
    times = np.ones((3, N))
    times[1, 7], times[2, 11] = 1.01, 0.99
    found = drawn_spearman(human, metrics, units=np.arange(N), weights=times)
    exact = pooled_spearman(human, metrics, units=np.arange(N), weights=times)
    np.testing.assert_allclose(np.diff(found, axis=0), np.diff(exact, axis=0), atol=1e-9)


@pytest.mark.usefixtures("few_are_many")
def test_symmetries() -> None:
    human, metrics, weights = study(2)
    found = drawn_spearman(human, metrics, units=np.arange(N), weights=weights)
    turned = drawn_spearman(-human, metrics**3, units=np.arange(N), weights=weights)
    np.testing.assert_allclose(turned, -found, atol=1e-12)
    order = np.random.default_rng(3).permutation(N)
    moved = drawn_spearman(human[order], metrics[:, order], units=np.arange(N), weights=weights[:, order])
    np.testing.assert_allclose(moved, found, atol=1e-12)


@pytest.mark.usefixtures("few_are_many")
def test_clusters_that_weigh_are_exact() -> None:
    human, metrics, weights = study(4)
    unit = np.maximum(np.arange(N) - 2, 0)  # three items in one cluster: more than a thousandth
    weights = weights[:, : N - 2]
    found = drawn_spearman(human, metrics, units=unit, weights=weights)
    np.testing.assert_array_equal(found, pooled_spearman(human, metrics, units=unit, weights=weights))


def test_few_outputs_are_exact() -> None:
    human, metrics, weights = study(5)
    found = drawn_spearman(human, metrics, units=np.arange(N), weights=weights)
    np.testing.assert_array_equal(found, pooled_spearman(human, metrics, units=np.arange(N), weights=weights))


@pytest.mark.usefixtures("few_are_many")
def test_a_constant_side_has_no_coefficient() -> None:
    human, metrics, weights = study(6)
    constant = np.ones_like(human)
    for own in ((constant, metrics), (human, constant[np.newaxis])):
        assert np.isnan(drawn_spearman(*own, units=np.arange(N), weights=weights)).all()
