"""Swap tests against the same test done by swapping the data itself, and their level and power by simulation."""

import numpy as np
import pytest
from scipy import stats

from custodes.stats.resampling.permutation import swap_mean, swap_pairwise_accuracy, swap_pearson
from custodes.stats.resampling.resample import sign_flips


def made(seed: int, n_items: int = 14, n_systems: int = 4, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    human = rng.normal(size=(n_items, n_systems))
    metrics = human + rng.normal(size=(3, n_items, n_systems)) * np.array([0.5, 1.0, 3.0])[:, None, None]
    metrics[1] = 100 * metrics[1] + 7
    human[rng.random(human.shape) < missing] = np.nan
    metrics[rng.random(metrics.shape) < missing / 2] = np.nan
    return human, metrics


def standardised(human: np.ndarray, metric: np.ndarray) -> np.ndarray:
    both = np.isfinite(human) & np.isfinite(metric)
    return np.where(both, (metric - metric[both].mean()) / metric[both].std(), np.nan)


def by_swapping(human, metrics, units, flips, pairs, statistic) -> list[float]:
    """By definition: swap the standardised scores of whole units, compute the statistic anew, count."""
    z = [standardised(human, metric) for metric in metrics]
    p_values = []
    for a, b in pairs:
        observed = abs(statistic(human, z[a]) - statistic(human, z[b]))
        null = []
        for flip in flips:
            keep = (flip[units] > 0)[:, None]
            null.append(
                abs(statistic(human, np.where(keep, z[a], z[b])) - statistic(human, np.where(keep, z[b], z[a])))
            )
        p_values.append((sum(value >= observed - 1e-9 for value in null) + 1) / (len(flips) + 1))
    return p_values


def pearson(human: np.ndarray, metric: np.ndarray) -> float:
    both = np.isfinite(human) & np.isfinite(metric)
    return float(stats.pearsonr(human[both], metric[both]).statistic)


def pairwise(human: np.ndarray, metric: np.ndarray) -> float:
    h, m = np.nanmean(human, axis=0), np.nanmean(metric, axis=0)
    a, b = np.triu_indices(len(h), 1)
    return float(np.mean(np.sign(h[a] - h[b]) == np.sign(m[a] - m[b])))


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(
    ("test", "statistic"), [(swap_pearson, pearson), (swap_pairwise_accuracy, pairwise)], ids=["pearson", "pairwise"]
)
def test_equals_swapping_the_data(test, statistic, missing) -> None:
    human, metrics = made(1, missing=missing)
    units = np.arange(14) // 2
    flips = sign_flips(7, 60, np.random.default_rng(0))
    pairs = [(0, 1), (0, 2), (1, 2)]
    first, second = np.array(pairs).T
    found = test(human, metrics, units=units, item_weights=None, flips=flips, first=first, second=second)
    np.testing.assert_allclose(found, by_swapping(human, metrics, units, flips, pairs, statistic))


def test_swap_mean_equals_swapping_the_data() -> None:
    rng = np.random.default_rng(2)
    over, under = rng.integers(0, 5, (2, 10)).astype(float), rng.integers(5, 9, (2, 10)).astype(float)
    flips = sign_flips(5, 80, rng)
    units = np.arange(10) // 2
    found = swap_mean(over, under, units=units, flips=flips, first=np.array([0]), second=np.array([1]))
    observed = abs(over[0].sum() / under[0].sum() - over[1].sum() / under[1].sum())
    count = 0
    for flip in flips:
        keep = flip[units] > 0
        ratio = [np.where(keep, x[i], x[1 - i]).sum() for i in (0, 1) for x in (over, under)]
        count += abs(ratio[0] / ratio[1] - ratio[2] / ratio[3]) >= observed - 1e-12
    assert found[0] == pytest.approx((count + 1) / 81)


def test_constant_metric_is_undefined() -> None:
    human, metrics = made(3)
    metrics[0] = 5.0
    flips = sign_flips(14, 20, np.random.default_rng(0))
    pair = {"first": np.array([0, 1]), "second": np.array([1, 2])}
    found = swap_pearson(human, metrics, units=np.arange(14), item_weights=None, flips=flips, **pair)
    assert np.isnan(found[0])
    assert np.isfinite(found[1])


@pytest.mark.parametrize("test", [swap_pearson, swap_pairwise_accuracy], ids=["pearson", "pairwise"])
def test_units_of_scores_and_weights_do_not_matter(test) -> None:
    human, metrics = made(4, missing=0.1)
    weights = np.random.default_rng(4).integers(1, 5, 14).astype(float)
    options = {"units": np.arange(14), "flips": sign_flips(14, 200, np.random.default_rng(0))}
    options |= {"first": np.array([0, 0, 1]), "second": np.array([1, 2, 2])}
    plain = test(human, metrics, item_weights=weights, **options)
    np.testing.assert_allclose(test(human, metrics, item_weights=weights / 1000, **options), plain)
    np.testing.assert_allclose(test(human / 1000 + 5, metrics, item_weights=weights, **options), plain)
    np.testing.assert_allclose(test(human, metrics / 1000 - 5, item_weights=weights, **options), plain)


def test_a_metric_that_is_never_right_is_not_undefined() -> None:
    over, under = np.array([[0.0] * 6, [1.0] * 6]), np.ones((2, 6))
    flips = sign_flips(6, 500, np.random.default_rng(0))
    (p,) = swap_mean(over, under, units=np.arange(6), flips=flips, first=np.array([0]), second=np.array([1]))
    extreme = (np.abs(flips.sum(axis=1)) == 6).sum()
    assert p == pytest.approx((extreme + 1) / 501)
