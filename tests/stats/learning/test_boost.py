from __future__ import annotations

import contextlib
import copy
import json
import sys
from typing import Any

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.errors import MissingExtraError
from custodes.stats.learning import boost
from custodes.stats.learning.boost import SETTINGS, boosted, gain_importance, predict_boosted, trees_of


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
    small = gain_importance(boosted(x, y / 1000, seed=0, **SETTINGS), x.shape[1])
    assert small.sum() == pytest.approx(1)  # a share, whatever the units of y
    padded = np.column_stack([np.zeros((len(x), 11)), x])  # f10 must not be read as f1
    gain = gain_importance(boosted(padded, y, seed=0, **SETTINGS), 17)
    assert np.argmax(gain) == 11
    assert np.all(gain[:11] == 0)


def test_gain_without_a_split_is_zero() -> None:
    model = boosted(np.ones((5, 2)), np.arange(5.0), rounds=3, depth=2, rate=0.1, subsample=1.0, seed=0)
    assert gain_importance(model, 2).tolist() == [0.0, 0.0]
    np.testing.assert_allclose(predict_boosted(model, np.ones((1, 2))), [2.0], atol=1e-6)


def test_training_without_xgboost_says_what_to_install_and_predicting_needs_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'custodes\[learn\]'"):
        boosted(np.ones((2, 1)), np.ones(2), seed=0, **SETTINGS)
    assert predict_boosted(written(by_hand()), np.array([[0.0, 0.0]])).tolist() == [3.75]
    assert gain_importance(written(by_hand()), 2).tolist() == [0.75, 0.25]


def loaded(model: bytes) -> Any:
    return xgboost.Booster(model_file=bytearray(model))


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize("p", [1, 2, 30])
def test_predictions_and_gains_are_xgboosts_own(p: int, depth: int) -> None:
    rng = np.random.default_rng(depth)
    x = np.round(rng.normal(size=(200, p)), 2)
    x[rng.random(x.shape) < 0.2] = np.nan
    y = 20 + np.nan_to_num(x, nan=0.7).sum(axis=1) + 0.3 * rng.normal(size=200)
    model = boosted(x, y, rounds=40, depth=depth, rate=0.3, subsample=0.8, seed=1)
    trees = trees_of(model, p=p)
    assert (len(trees.root), trees.depth) == (40, depth)
    new = rng.normal(size=(300, p))
    at_threshold = rng.random(new.shape) < 0.5
    new[at_threshold] = rng.choice(trees.threshold[trees.left != np.arange(len(trees.left))], at_threshold.sum())
    new[rng.random(new.shape) < 0.2] = np.nan
    new[:3, 0] = np.inf, -np.inf, 1e300
    for rows in (x, new, np.asfortranarray(new), new[:1], new[:0]):
        theirs = loaded(model).inplace_predict(rows) if len(rows) else np.zeros(0)
        np.testing.assert_array_max_ulp(predict_boosted(model, rows).astype(np.float32), theirs, maxulp=4)
    score = loaded(model).get_score(importance_type="total_gain")
    total = np.array([score.get(f"f{i}", 0.0) for i in range(p)])
    np.testing.assert_allclose(gain_importance(model, p), total / total.sum(), rtol=1e-5)


def test_a_row_gives_the_same_bits_alone_and_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = study()
    model = boosted(x, y, seed=0, **SETTINGS)
    together = predict_boosted(model, x)
    assert [predict_boosted(model, row[np.newaxis]).item() for row in x[:20]] == together[:20].tolist()
    monkeypatch.setattr(boost, "_CELLS", 700)  # seven rows at a time: the last chunk is a part of one
    assert predict_boosted(model, x[::-1])[::-1].tolist() == together.tolist()


def by_hand() -> dict[str, Any]:
    """In XGBoost's format: 1, plus .25 (x0 < .5, x1 < 2), .5 (x0 < .5 only) or -1, plus 2.5 (x1 < 1) or 4. A missing
    value is not below the first two thresholds, but below the third."""
    deep = {
        "left_children": [1, 3, -1, -1, -1],
        "right_children": [2, 4, -1, -1, -1],
        "split_indices": [0, 1, 0, 0, 0],
        "split_conditions": [0.5, 2.0, -1.0, 0.25, 0.5],
        "default_left": [0, 0, 0, 0, 0],
        "split_type": [0, 0, 0, 0, 0],
        "loss_changes": [6.0, 0.5, 0.0, 0.0, 0.0],
    }
    stump = {
        "left_children": [1, -1, -1],
        "right_children": [2, -1, -1],
        "split_indices": [1, 0, 0],
        "split_conditions": [1.0, 2.5, 4.0],
        "default_left": [1, 0, 0],
        "split_type": [0, 0, 0],
        "loss_changes": [1.5, 0.0, 0.0],
    }
    return {
        "learner": {
            "gradient_booster": {"name": "gbtree", "model": {"trees": [deep, stump], "tree_info": [0, 0]}},
            "learner_model_param": {"base_score": "[1E0]", "num_feature": "2", "num_class": "0", "num_target": "1"},
            "objective": {"name": "reg:squarederror"},
        },
        "version": [3, 2, 0],
    }


def written(model: Any) -> bytes:
    return json.dumps(model).encode()


def test_trees_by_hand() -> None:
    nan = np.nan
    x = np.array([[0, 0], [0.5, 1], [0, 2], [nan, 0], [0, nan], [nan, nan], [0.4, 1.5]])
    by_definition = [1 + 0.25 + 2.5, 1 - 1 + 4, 1 + 0.5 + 4, 1 - 1 + 2.5, 1 + 0.5 + 2.5, 1 - 1 + 2.5, 1 + 0.25 + 4]
    assert predict_boosted(written(by_hand()), x).tolist() == by_definition


@pytest.mark.parametrize("base", ["1E0", "[1E0]", "1", "[1.0]"])  # the list came with XGBoost 3.1
def test_the_base_score_of_older_and_newer_xgboost(base: str) -> None:
    model = by_hand()
    model["learner"]["learner_model_param"]["base_score"] = base
    assert predict_boosted(written(model), np.zeros((1, 2))).tolist() == [3.75]


BOOSTER = ("learner", "gradient_booster")
DEEP = (*BOOSTER, "model", "trees", 0)
SHAPE = ("learner", "learner_model_param")


Path = tuple[str | int, ...]


def changed(*changes: tuple[Path, Any]) -> bytes:
    """The model by hand with values put in the place of others, where that place is still there."""
    model = by_hand()
    for path, value in changes:
        place: Any = model
        with contextlib.suppress(KeyError, IndexError, TypeError):
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = copy.deepcopy(value)
    return written(model)


def chain_of(depth: int) -> dict[str, list[float]]:
    """A tree whose right children split again."""
    n = 2 * depth + 1
    inner = range(0, n - 1, 2)
    left = [i + 1 if i in inner else -1 for i in range(n)]
    tree = {name: [0] * n for name in by_hand()["learner"]["gradient_booster"]["model"]["trees"][0]}
    return {**tree, "left_children": left, "right_children": [i + 1 if i > 0 else -1 for i in left]}


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ((*BOOSTER, "name"), "dart", "name"),
        (("learner", "objective", "name"), "binary:logistic", "objective"),
        ((*SHAPE, "num_feature"), "3", "not of 2 columns"),
        ((*SHAPE, "num_class"), "3", "num_class"),
        ((*SHAPE, "num_target"), "2", "num_target"),
        ((*SHAPE, "base_score"), "[1E0,2E0]", "length"),
        ((*SHAPE, "base_score"), "nan", "JSON"),
        ((*SHAPE, "base_score"), "1E39", "single precision"),
        ((*SHAPE, "base_score"), "[" * 100_000, "JSON"),
        ((*BOOSTER, "model", "trees"), [], "trees"),
        ((*BOOSTER, "model", "trees"), [None] * 10_001, "trees"),
        ((*BOOSTER, "model", "tree_info"), [0, 1], "tree_info"),
        (DEEP, chain_of(65), "deeper than 64"),
        ((*DEEP, "left_children"), [], "length"),
        ((*DEEP, "left_children"), [1, 3, -1, -1], "length"),
        ((*DEEP, "split_conditions"), [0.5, 2.0, -1.0, 0.25], "length"),
        ((*DEEP, "left_children"), [-1, 3, -1, -1, -1], "missing"),  # one child only
        ((*DEEP, "left_children"), [0, 3, -1, -1, -1], "before"),  # a node within itself
        ((*DEEP, "left_children"), [1, 5, -1, -1, -1], "beyond"),  # the next tree's root
        ((*DEEP, "left_children"), [1, 2**31 - 1, -1, -1, -1], "beyond"),
        ((*DEEP, "left_children"), [1, 2**70, -1, -1, -1], "left_children"),
        ((*DEEP, "left_children"), [1, -2, -1, -1, -1], "left_children"),
        ((*DEEP, "left_children"), [1, 2, -1, -1, -1], "parent"),  # twice a child, and one is none
        ((*DEEP, "right_children"), [2, 2, -1, -1, -1], "parent"),
        ((*DEEP, "split_indices"), [2, 1, 0, 0, 0], "column 2 of 2"),
        ((*DEEP, "split_indices"), [-1, 1, 0, 0, 0], "split_indices"),
        ((*DEEP, "split_type"), [1, 0, 0, 0, 0], "split_type"),  # categorical
        ((*DEEP, "split_conditions"), [np.nan, 2.0, -1.0, 0.25, 0.5], "JSON"),
        ((*DEEP, "split_conditions"), [0.5, np.inf, -1.0, 0.25, 0.5], "JSON"),
        ((*DEEP, "split_conditions"), [0.5, 1e39, -1.0, 0.25, 0.5], "a number is beyond"),
        ((*DEEP, "split_conditions"), [0.5, 2.0, 1e38, 1e38, 0.5], "a prediction may be beyond"),
        ((*DEEP, "loss_changes"), [1e300, 1.0, 0.0, 0.0, 0.0], "a number is beyond"),
        ((*DEEP, "default_left"), [2, 0, 0, 0, 0], "default_left"),
        ((*DEEP, "default_left"), "left", "default_left"),
        (("learner",), None, "learner"),
    ],
)
def test_what_no_model_of_ours_says_is_refused(path: Path, value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        trees_of(changed((path, value)), p=2)


def test_the_reason_is_one_short_printable_line() -> None:
    with pytest.raises(ValueError) as caught:
        trees_of(changed(((*BOOSTER, "name"), "\x1b[31m\n" + "x" * 100_000)), p=2)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_what_xgboost_adds_or_allows_is_not_refused() -> None:
    assert trees_of(changed((DEEP, chain_of(64))), p=2).depth == 64
    assert trees_of(changed(((*DEEP, "split_indices"), [0, 1, 9, 9, 9])), p=2).depth == 2  # of no use in a leaf
    assert trees_of(changed(((*DEEP, "categories"), [])), p=2).depth == 2


def test_more_nodes_than_ever_fitted_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boost, "_NODES", 7)
    with pytest.raises(ValueError, match="8 nodes, more than 7"):
        trees_of(written(by_hand()), p=2)


NO_MODEL = {
    "nothing": b"",
    "object": b"{}",
    "list": b"[]",
    "null": b"null",
    "nan": b"NaN",
    "digits": b"9" * 10_000,
    "no UTF-8": b"\xff\xfe",
    "text of no UTF-8": b'"\xff"',
    "key of no UTF-8": b'{"\xff": 1}',
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000,
    "deep learner": b'{"learner":' + b"[" * 200_000,
    "deep elsewhere": b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "cut short": written(by_hand())[:-1],
}


@pytest.mark.parametrize("model", NO_MODEL.values(), ids=NO_MODEL)
def test_what_is_no_model_is_refused(model: bytes) -> None:
    with pytest.raises(ValueError, match="not the JSON of boosted regression trees"):
        trees_of(model, p=2)


def paths(node: Any, above: Path = ()) -> list[Path]:
    """Every place in a JSON value."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in pairs for place in [(*above, key), *paths(value, (*above, key))]]


numbers = st.integers(-3, 8) | st.integers() | st.floats() | st.sampled_from([2**31, 2**63, -(2**63), 10**400, 1e38])
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5) | st.sampled_from(["nan", "1E40", "[", "[0]"]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
X = np.array([[0.0, 0.0], [np.nan, 1.0], [7.0, np.nan], [-np.inf, np.inf]])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(paths(by_hand())), values | numbers), min_size=1, max_size=3))
def test_a_changed_model_is_refused_or_predicts_finite_numbers(
    changes: list[tuple[Path, Any]],
) -> None:
    finite_or_refused(changed(*changes))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(written(by_hand())) - 1), st.binary(max_size=3)), min_size=1, max_size=4))
def test_changed_bytes_are_refused_or_predict_finite_numbers(changes: list[tuple[int, bytes]]) -> None:
    model = written(by_hand())
    for at, value in changes:
        model = model[:at] + value + model[at + 1 :]
    finite_or_refused(model)


def finite_or_refused(model: bytes) -> None:
    try:
        trees_of(model, p=2)
    except ValueError:
        return
    assert np.all(np.isfinite(predict_boosted(model, X)))
    assert np.all(np.isfinite(gain_importance(model, 2)))


def test_scores_beyond_single_precision_are_as_large_as_it_gets() -> None:
    x = np.array([[-1e300], [-1.0], [1.0], [1e300]] * 10)
    model = boosted(x, np.sign(x[:, 0]), **ONE_TREE_OF_DEPTH_ONE)
    low, high = predict_boosted(model, np.array([[-1e308], [1e308]]))
    assert low < 0 < high


ONE_TREE_OF_DEPTH_ONE: dict[str, Any] = {"rounds": 1, "depth": 1, "rate": 1.0, "subsample": 1.0, "seed": 0}


@pytest.mark.parametrize("seed", range(3))
def test_columns_never_split_on_change_no_byte(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(80, 7)).round(seed)
    x[:, [0, 4]] = 1.0
    x[rng.random(x.shape) < 0.1] = np.nan
    y = np.nan_to_num(x[:, 2]) + 0.1 * rng.normal(size=80)
    settings = boost.SETTINGS | {"rounds": 20}
    model = boost.boosted(x, y, seed=0, **settings)
    used = np.flatnonzero(boost.gain_importance(model, 7))
    assert 0 < len(used) < 7
    assert boost.on_columns(model, used) == boost.boosted(x[:, used], y, seed=0, **settings)
