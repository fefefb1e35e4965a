from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from custodes.errors import MissingExtraError
from custodes.stats.boost import SETTINGS, boosted, gain_importance, predict_boosted

pytest.importorskip("xgboost")


def study(n: int = 300, p: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Column 0 matters much, column 1 a little through a step, the others nothing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, p))
    return x, 3 * x[:, 0] + (x[:, 1] > 0) + 0.1 * rng.normal(size=n)


def test_the_same_seed_gives_the_same_bytes() -> None:
    x, y = study()
    model = boosted(x, y, seed=3, **SETTINGS)
    assert boosted(x.copy(order="F"), y, seed=3, **SETTINGS) == model
    assert boosted(x, y, seed=4, **SETTINGS) != model
    assert boosted(x, y, seed=0, **SETTINGS) != model


def test_the_model_is_plain_json_of_the_asked_size() -> None:
    x, y = study()
    model = boosted(x, y, rounds=7, depth=2, rate=0.3, subsample=1.0, seed=0)
    trees = json.loads(model)["learner"]["gradient_booster"]["model"]["trees"]
    assert len(trees) == 7
    assert max(int(tree["tree_param"]["num_nodes"]) for tree in trees) == 7  # depth 2: three splits, four leaves


def test_one_stump_is_the_shrunken_mean_of_each_side() -> None:
    # by hand: 0 and 10 with means about 5, leaf = rate * sum of residuals / (rows + lambda), lambda = 1
    x = np.repeat([0.0, 1.0], 4)[:, np.newaxis]
    y = 10 * x[:, 0]
    model = boosted(x, y, rounds=1, depth=1, rate=0.5, subsample=1.0, seed=0)
    np.testing.assert_allclose(predict_boosted(model, x), np.repeat([5 - 0.5 * 20 / 5, 5 + 0.5 * 20 / 5], 4), atol=1e-5)


def test_it_learns_what_held_out_rows_show() -> None:
    x, y = study(600)
    predicted = predict_boosted(boosted(x[:400], y[:400], seed=0, **SETTINGS), x[400:])
    assert np.corrcoef(predicted, y[400:])[0, 1] > 0.95


def test_missing_values_have_a_side_of_their_own() -> None:
    x = np.repeat([[np.nan], [0.0], [1.0]], 20, axis=0)
    y = np.repeat([9.0, 0.0, 1.0], 20)
    model = boosted(x, y, rounds=60, depth=2, rate=0.5, subsample=1.0, seed=0)
    np.testing.assert_allclose(predict_boosted(model, x), y, atol=0.05)


def test_gain_says_which_columns_serve() -> None:
    x, y = study()
    gain = gain_importance(boosted(x, y, seed=0, **SETTINGS), x.shape[1])
    assert gain.sum() == pytest.approx(1)
    assert gain[0] > 0.8
    assert gain[1] > gain[2:].max()
    padded = np.column_stack([np.zeros((len(x), 11)), x])  # f10 must not be read as f1
    gain = gain_importance(boosted(padded, y, seed=0, **SETTINGS), 17)
    assert np.argmax(gain) == 11
    assert np.all(gain[:11] == 0)


def test_gain_without_a_split_is_zero() -> None:
    model = boosted(np.ones((5, 2)), np.arange(5.0), rounds=3, depth=2, rate=0.1, subsample=1.0, seed=0)
    assert gain_importance(model, 2).tolist() == [0.0, 0.0]
    np.testing.assert_allclose(predict_boosted(model, np.ones((1, 2))), [2.0], atol=1e-6)


def test_without_xgboost_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'custodes\[learn\]'"):
        boosted(np.ones((2, 1)), np.ones(2), seed=0, **SETTINGS)
    with pytest.raises(MissingExtraError):
        predict_boosted(b"{}", np.ones((2, 1)))
