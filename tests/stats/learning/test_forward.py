from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from custodes.stats.learning.ridge import predict, ridge
from custodes.stats.learning.selection import forward_order, nested_path, single_column_ranks, toggled_predictions
from tests.stats.learning.forward_reference import reference

SEEDS = st.integers(0, 2**32 - 1)
NONE = np.arange(0)


def study(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x (column 2 constant), y, and folds with unused rows."""
    rng = np.random.default_rng(seed)
    n, p = rng.integers(15, 40), rng.integers(3, 7)
    x = rng.uniform(-1, 1, (n, p)) * 10.0 ** rng.integers(-2, 3, p) + 1
    x[:, 2] = 0.3
    y = 4 + x[:, 0] / x[:, 0].std() + rng.normal(size=n)
    return x, y, rng.permutation(np.arange(n) % 4 - 1)


def forward_path(
    x: np.ndarray, y: np.ndarray, fold: np.ndarray, *, included: np.ndarray, steps: int, costs: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the order and the mean squared error at every step."""
    costs = np.ones(x.shape[1]) if costs is None else costs
    order = forward_order(x, y, fold, included_columns=included, steps=steps, costs=costs)
    subsets = [np.concatenate([included, order[:k]]) for k in range(len(order) + 1)]
    predicted = [toggled_predictions(x, y, fold, included_columns=subset)[0] for subset in subsets]
    return order, np.nanmean((np.array(predicted) - y) ** 2, axis=1)


def error(x: np.ndarray, y: np.ndarray, fold: np.ndarray, subset: list[int]) -> float:
    return float(np.nanmean((reference(x, y, fold, subset) - y) ** 2))


@settings(deadline=None, max_examples=20)
@given(seed=SEEDS, with_costs=st.booleans())
def test_the_path_is_that_of_brute_force(seed: int, with_costs: bool) -> None:
    x, y, fold = study(seed)
    costs = np.random.default_rng(seed).uniform(0.1, 10, x.shape[1]) if with_costs else None
    chosen = [[], [1], [1, 0]][seed % 3]
    order, errors = forward_path(x, y, fold, included=np.array(chosen, dtype=np.intp), steps=3, costs=costs)
    assert len(order) == min(3, x.shape[1] - 1 - len(chosen))
    expected = [error(x, y, fold, chosen)]
    for column in order.tolist():
        free = [j for j in range(x.shape[1]) if j not in chosen and j != 2]
        change = {j: error(x, y, fold, [*chosen, j]) - expected[-1] for j in free}
        assert column == min(free, key=lambda j: change[j] / costs[j] if with_costs and change[j] < 0 else change[j])
        chosen = [*chosen, column]
        expected.append(error(x, y, fold, chosen))
    np.testing.assert_allclose(errors, expected, rtol=1e-9)


@settings(deadline=None, max_examples=15)
@given(seed=SEEDS)
def test_toggled_predictions_equal_scikit_learn(seed: int) -> None:
    x, y, fold = study(seed)
    given_columns = np.array([[], [1], [1, 0], [2]][seed % 4], dtype=np.intp)
    predictions = toggled_predictions(x, y, fold, included_columns=given_columns)
    subsets = [given_columns, *(np.setxor1d(given_columns, [j]) for j in range(x.shape[1]))]
    expected = [reference(x, y, fold, subset.tolist()) for subset in subsets]
    np.testing.assert_allclose(predictions, expected, atol=1e-8)


def wide_study(seed: int, p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x (rows, p) with a constant column 0, y, and folds with unused rows; about 20 rows are trained on."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (40, p)) * 10.0 ** rng.integers(-2, 3, p) + 1
    x[:, 0] = 0.3
    return x, 4 + x[:, 1] / x[:, 1].std() + rng.normal(size=40), rng.permutation(np.arange(40) % 4 - 1)


@pytest.mark.parametrize("p", [1, 3, 19, 20, 21, 40])  # fewer columns than rows, as many, more
@settings(deadline=None, max_examples=2)
@given(seed=SEEDS)
def test_removed_predictions_equal_scikit_learn(p: int, seed: int) -> None:
    x, y, fold = wide_study(seed, p + 1)
    all_columns = list(range(p + 1))
    subsets = [all_columns, *([j for j in all_columns if j != out] for out in all_columns)]
    expected = [reference(x, y, fold, subset) for subset in subsets]
    np.testing.assert_allclose(toggled_predictions(x, y, fold, included_columns=np.arange(p + 1)), expected, atol=1e-8)


def test_the_path_starts_with_the_planted_columns() -> None:
    rng = np.random.default_rng(5)
    x, fold = rng.standard_t(2, (120, 30)), np.arange(120) % 5  # with outliers and missing values
    y = x[:, :4].sum(axis=1) + rng.normal(size=120)
    x[rng.random(x.shape) < 0.1] = np.nan
    order, errors = forward_path(x, y, fold, included=NONE, steps=30)
    assert sorted(order.tolist()) == list(range(30))
    assert set(order[:4].tolist()) == {0, 1, 2, 3}
    assert errors[4] < errors[0] / 2
    assert errors[-1] > errors[4]  # Noise columns increase the error: the curve continues where it rises.


def test_between_copies_the_first_is_taken() -> None:
    rng = np.random.default_rng(0)
    column = rng.normal(size=(60, 1))
    x = np.column_stack([rng.normal(size=60), np.repeat(column, 5, axis=1)])
    order, _ = forward_path(x, column[:, 0], np.arange(60) % 3, included=NONE, steps=1)
    assert order.tolist() == [1]


def test_a_constant_column_is_never_chosen_even_where_nothing_is_to_gain() -> None:
    x = np.column_stack([np.ones(12), np.random.default_rng(0).normal(size=(12, 2))])
    order, errors = forward_path(x, np.zeros(12), np.arange(12) % 3, included=NONE, steps=9)
    assert order.tolist() == [1, 2]
    assert errors.tolist() == [0, 0, 0]


def test_nothing_to_choose_from() -> None:
    y, fold = np.array([1.0, 2.0, 3.0, 6.0]), np.array([0, 1, 0, 1])
    x = np.column_stack([np.ones(4), np.full(4, np.nan)])
    order, errors = forward_path(x, y, fold, included=NONE, steps=5)
    assert order.tolist() == []
    np.testing.assert_allclose(errors, [np.mean([9, 0, 1, 16])])  # means 2 and 4, each predicting the other fold
    assert forward_path(y[:, np.newaxis], y, fold, included=np.array([0]), steps=5)[0].tolist() == []
    assert forward_path(y[:, np.newaxis], y, fold, included=NONE, steps=0)[0].tolist() == []


@pytest.mark.parametrize("costs", [None, np.array([1.0, 9.0, 1.0, 2.0, 1.0])])
def test_a_fold_is_predicted_by_the_path_of_the_others_within_the_budget(costs: np.ndarray | None) -> None:
    rng = np.random.default_rng(7)
    x, fold, groups = rng.normal(size=(80, 5)), np.arange(80) // 2 % 4, np.arange(80) // 2
    y = x[:, 1] + 0.7 * x[:, 3] + rng.normal(size=80)
    path = nested_path(x, y, fold, groups=groups, included_columns=np.array([4]), steps=3, costs=costs)
    whole, _ = forward_path(x, y, fold, included=np.array([4]), steps=3, costs=costs)
    assert path.order.tolist() == whole.tolist()
    shares = np.zeros(3)
    price = np.ones(5) if costs is None else costs
    for f in range(4):
        train, held = fold != f, fold == f
        chosen_columns, _ = forward_path(x[train], y[train], fold[train], included=np.array([4]), steps=9, costs=costs)
        for k in range(4):
            budget = price[whole[:k]].sum()
            affordable = [n for n in range(len(chosen_columns) + 1) if price[chosen_columns[:n]].sum() <= budget]
            subset = [4, *chosen_columns[: max(affordable)]]
            model = ridge(x[train][:, subset], y[train], groups=groups[train])
            np.testing.assert_allclose(path.predicted[k, held], predict(model, x[held][:, subset]), rtol=1e-9)
            if k:
                shares[k - 1] += whole[k - 1] in subset[1:]
    np.testing.assert_allclose(path.chosen, shares / 4)


def test_two_folds_choose_by_the_groups_left_and_one_group_by_nothing() -> None:
    rng = np.random.default_rng(9)
    x, fold = rng.normal(size=(60, 4)), np.arange(60) % 2
    y = x[:, 2] + 0.3 * rng.normal(size=60)
    path = nested_path(x, y, fold, groups=np.arange(60), included_columns=NONE, steps=2)
    assert path.order[0] == 2
    assert path.chosen[0] == 1
    assert np.corrcoef(path.predicted[1], y)[0, 1] > 0.8
    alone = nested_path(x, y, fold, groups=fold, included_columns=NONE, steps=2)
    assert alone.chosen.tolist() == [0, 0]
    for f in range(2):
        np.testing.assert_allclose(alone.predicted[:, fold == f], y[fold != f].mean())


@pytest.mark.parametrize("power", [1, 60])
def test_ranks_alone_are_those_of_the_column(power: int) -> None:
    """Columns of values over one or over sixty orders of magnitude have SciPy's ranks, within three sd of the training
    part."""
    rng = np.random.default_rng(0)
    fold, y = np.arange(80) % 4, rng.normal(size=80)
    x = np.column_stack([10.0 ** (power * rng.uniform(-1, 0, 80)), -y, np.ones(80)])
    ranks = single_column_ranks(x, y, fold)
    for f in range(4):
        train, held = x[fold != f, 0], fold == f
        low, high = (train.mean() + end * train.std() for end in (-3, 3))
        sign = np.sign(np.corrcoef(np.clip(train, low, high), y[fold != f])[0, 1])
        assert ranks[0, held].tolist() == rankdata(sign * np.clip(x[held, 0], low, high)).tolist()
        assert ranks[1, held].tolist() == rankdata(y[held]).tolist()
        assert np.ptp(ranks[2, held]) == 0
