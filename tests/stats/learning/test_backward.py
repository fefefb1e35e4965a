from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.stats.learning.selection import StepwisePath, stepwise_path, toggled_predictions
from tests.stats.learning.forward_reference import reference

SEEDS = st.integers(0, 2**32 - 1)


def study(seed: int, p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x (rows, p) with a constant column 0, y, and folds with unused rows; about 20 rows are trained on."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (40, p)) * 10.0 ** rng.integers(-2, 3, p) + 1
    x[:, 0] = 0.3
    return x, 4 + x[:, 1] / x[:, 1].std() + rng.normal(size=40), rng.permutation(np.arange(40) % 4 - 1)


def backward_path(x: np.ndarray, y: np.ndarray, fold: np.ndarray, *, steps: int) -> StepwisePath:
    return stepwise_path(x, y, fold, included_columns=np.arange(x.shape[1]), steps=steps, removing=True)


@pytest.mark.parametrize("p", [1, 3, 19, 20, 21, 40])  # fewer columns than rows, as many, more
@settings(deadline=None, max_examples=4)
@given(seed=SEEDS)
def test_removed_predictions_equal_scikit_learn(p: int, seed: int) -> None:
    x, y, fold = study(seed, p + 1)
    all_columns = list(range(p + 1))
    subsets = [all_columns, *([j for j in all_columns if j != out] for out in all_columns)]
    expected = [reference(x, y, fold, subset) for subset in subsets]
    np.testing.assert_allclose(toggled_predictions(x, y, fold, included_columns=np.arange(p + 1)), expected, atol=1e-8)


@pytest.mark.parametrize("p", [5, 40])
def test_each_step_takes_out_the_column_least_missed(p: int) -> None:
    x, y, fold = study(1, p)
    path = backward_path(x, y, fold, steps=3)
    remaining = list(range(p))
    np.testing.assert_allclose(path.predicted[0], reference(x, y, fold, remaining), atol=1e-8)
    for column, predicted in zip(path.order.tolist(), path.predicted[1:], strict=True):

        def error(out: int) -> float:
            return float(np.nansum((reference(x, y, fold, [j for j in remaining if j != out]) - y) ** 2))

        assert column == min(remaining, key=error)
        remaining.remove(column)
        np.testing.assert_allclose(predicted, reference(x, y, fold, remaining), atol=1e-8)
    assert len(path.order) == 3


def test_of_two_copies_the_first_goes_and_one_column_stays() -> None:
    x, y, fold = study(2, 3)
    x = x[:, [1, 2, 1]]
    assert len(backward_path(x, y, fold, steps=9).order) == 2
    assert backward_path(x[:, [0, 2]], y, fold, steps=9).order.tolist() == [0]
    assert backward_path(x[:, :1], y, fold, steps=9).order.tolist() == []
