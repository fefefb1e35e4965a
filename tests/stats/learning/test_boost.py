from __future__ import annotations

import sys

import msgspec
import numpy as np
import pytest
import xgboost

from custodes.errors import MissingExtraError
from custodes.stats.learning.boost import SETTINGS, Split, Trees, fit_trees
from tests.messages import exactly


def study(n: int = 300, p: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Return data where column 0 has a large effect, column 1 a small step effect, and the others none."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, p))
    return x, 3 * x[:, 0] + (x[:, 1] > 0) + 0.1 * rng.normal(size=n)


def test_the_same_seed_gives_the_same_trees() -> None:
    x, y = study()
    trees, importance = fit_trees(x, y, seed=3, **SETTINGS)
    repeated, importance_again = fit_trees(x.copy(order="F"), y, seed=3, **SETTINGS)
    assert repeated == trees
    assert importance_again.tolist() == importance.tolist()
    assert fit_trees(x, y, seed=4, **SETTINGS)[0] != trees
    assert fit_trees(x, y, seed=0, **SETTINGS)[0] != trees


def test_gain_without_a_split_is_zero() -> None:
    trees, gain = fit_trees(np.ones((5, 2)), np.arange(5.0), rounds=3, depth=2, rate=0.1, subsample=1.0, seed=0)
    assert gain.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(trees.predict(np.ones((1, 2))), [2.0], atol=1e-6)


def test_training_without_xgboost_says_what_to_install_and_predicting_needs_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    message = exactly("boosted trees need XGBoost: pip install 'custodes[learn]'")
    with pytest.raises(MissingExtraError, match=message):
        fit_trees(np.ones((2, 1)), np.ones(2), seed=0, **SETTINGS)
    assert BY_HAND.predict(np.array([[0.0, 0.0]])).tolist() == [3.75]


def thresholds(node: Split | float) -> list[float]:
    return [node.threshold, *thresholds(node.left), *thresholds(node.right)] if isinstance(node, Split) else []


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize("p", [1, 2, 30])
def test_predictions_and_gains_are_those_of_xgboost_itself(p: int, depth: int) -> None:
    rng = np.random.default_rng(depth)
    x = np.round(rng.normal(size=(200, p)), 2)
    x[rng.random(x.shape) < 0.2] = np.nan
    y = 20 + np.nan_to_num(x, nan=0.7).sum(axis=1) + 0.3 * rng.normal(size=200)
    options = {"max_depth": depth, "learning_rate": 0.3, "subsample": 0.8, "seed": 1, "nthread": 1}
    reference = xgboost.train(options, xgboost.DMatrix(x, label=y), num_boost_round=40)
    trees, importance = fit_trees(x, y, rounds=40, depth=depth, rate=0.3, subsample=0.8, seed=1)
    new = rng.normal(size=(300, p))
    at_threshold = rng.random(new.shape) < 0.5
    new[at_threshold] = rng.choice([value for tree in trees.trees for value in thresholds(tree)], at_threshold.sum())
    new[rng.random(new.shape) < 0.2] = np.nan
    new[:3, 0] = np.inf, -np.inf, 1e300
    for rows in (x, new, np.asfortranarray(new), new[:1]):
        predicted = trees.predict(rows).astype(np.float32)
        np.testing.assert_array_max_ulp(predicted, reference.inplace_predict(rows), maxulp=4)
    assert trees.predict(new[:0]).shape == (0,)
    score = reference.get_score(importance_type="total_gain")
    total = np.array([score.get(f"f{i}", 0.0) for i in range(p)])
    np.testing.assert_allclose(importance, total / total.sum(), rtol=1e-5)


def test_a_row_gives_the_same_bits_alone_and_among_others() -> None:
    x, y = study()
    trees, _ = fit_trees(x, y, seed=0, **SETTINGS)
    together = trees.predict(x)
    assert [trees.predict(row[np.newaxis]).item() for row in x[:20]] == together[:20].tolist()
    assert trees.predict(x[::-1])[::-1].tolist() == together.tolist()


# 1, plus .25 (x0 < .5, x1 < 2), .5 (x0 < .5 only) or -1, plus 2.5 (x1 < 1) or 4. A missing value is not below the first
# two thresholds, but below the third.
BY_HAND = Trees(1.0, (Split(0, 0.5, False, Split(1, 2.0, False, 0.25, 0.5), -1.0), Split(1, 1.0, True, 2.5, 4.0)))


def test_trees_by_hand() -> None:
    nan = np.nan
    x = np.array([[0, 0], [0.5, 1], [0, 2], [nan, 0], [0, nan], [nan, nan], [0.4, 1.5]])
    by_definition = [1 + 0.25 + 2.5, 1 - 1 + 4, 1 + 0.5 + 4, 1 - 1 + 2.5, 1 + 0.5 + 2.5, 1 - 1 + 2.5, 1 + 0.25 + 4]
    assert BY_HAND.predict(x).tolist() == by_definition
    assert BY_HAND.renumber_columns({0: 3, 1: 0}).predict(x[:, [1, 1, 1, 0]]).tolist() == by_definition
    assert msgspec.json.decode(msgspec.json.encode(BY_HAND), type=Trees) == BY_HAND


def test_scores_beyond_single_precision_are_as_large_as_it_gets() -> None:
    x = np.array([[-1e300], [-1.0], [1.0], [1e300]] * 10)
    trees, _ = fit_trees(x, np.sign(x[:, 0]), rounds=1, depth=1, rate=1.0, subsample=1.0, seed=0)
    low, high = trees.predict(np.array([[-1e308], [1e308]]))
    assert low < 0 < high


@pytest.mark.parametrize("seed", range(3))
def test_columns_without_a_split_change_no_tree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(80, 7)).round(seed)
    x[:, [0, 4]] = 1.0, np.nan
    x[rng.random(x.shape) < 0.1] = np.nan
    y = np.nan_to_num(x[:, 2]) + 0.1 * rng.normal(size=80)
    trees, importance = fit_trees(x, y, seed=0, **SETTINGS | {"rounds": 20})
    used = np.flatnonzero(importance).tolist()
    assert 0 < len(used) < 7
    alone, _ = fit_trees(x[:, used], y, seed=0, **SETTINGS | {"rounds": 20})
    assert trees.renumber_columns({column: i for i, column in enumerate(used)}) == alone
