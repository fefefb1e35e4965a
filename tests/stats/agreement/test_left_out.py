from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.stats.agreement.kendall import pooled_kendall
from custodes.stats.agreement.left_out import concordance, kendall_left_out
from custodes.stats.bootstrap import with_point, without_block

SEEDS = st.integers(0, 2**32 - 1)


def brute(x: np.ndarray, y: np.ndarray, weight: np.ndarray, group: np.ndarray) -> np.ndarray:
    alike = np.sign(np.subtract.outer(x, x)) * np.sign(np.subtract.outer(y, y))
    return np.asarray((alike * (group[:, None] == group)) @ weight)


def study(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """human, metrics, units, weights of items, blocks: ties or none on either side, missing cells, clusters."""
    rng = np.random.default_rng(seed)
    n_items, n_systems, n_metrics = rng.integers(1, 12), rng.integers(1, 5), rng.integers(1, 4)
    n_units = rng.integers(1, n_items + 1)
    human = np.round(rng.normal(size=(n_items, n_systems)), rng.choice([0, 1, 9]))
    metrics = np.round(human + rng.normal(size=(n_metrics, n_items, n_systems)), rng.choice([0, 9]))
    human[rng.random(human.shape) < 0.1] = np.nan
    metrics[rng.random(metrics.shape) < rng.choice([0, 0.2, 0.9])] = np.nan
    units = rng.permutation(np.concatenate([np.arange(n_units), rng.integers(0, n_units, n_items - n_units)]))
    return human, metrics, units, rng.choice([0.5, 1.0, 3.0], n_items), int(rng.integers(1, 15))


@settings(deadline=None)
@given(seed=SEEDS)
def test_concordance_is_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 40)
    x, y = (np.unique(rng.integers(0, rng.integers(1, 50), n), return_inverse=True)[1] for _ in range(2))
    weight, group = rng.choice([0.5, 1.0, 2.0], n), rng.integers(0, 4, n)
    made = concordance(x, y, weight=weight, group=group)
    np.testing.assert_array_equal(made, brute(x, y, weight, group))
    np.testing.assert_array_equal(concordance(x.max() - x, y, weight=weight, group=group), -made)
    np.testing.assert_array_equal(concordance(y, x, weight=weight, group=group), made)
    order = rng.permutation(n)
    shuffled = concordance(x[order], y[order], weight=weight[order], group=group[order])
    np.testing.assert_array_equal(shuffled, made[order])


@pytest.mark.parametrize("weighted", [False, True])
@settings(deadline=None)
@given(seed=SEEDS)
def test_kendall_left_out_equals_pooled_kendall_without_each_block(seed: int, weighted: bool) -> None:
    human, metrics, units, item_weights, most = study(seed)
    weights, block = without_block(int(units.max()) + 1, most=most)
    own = item_weights if weighted else None
    expected = pooled_kendall(human, metrics, units=units, weights=with_point(weights), item_weights=own)
    made = kendall_left_out(human, metrics, block=block[units], n_blocks=len(weights), item_weights=own)
    np.testing.assert_allclose(made, expected, atol=1e-12)
