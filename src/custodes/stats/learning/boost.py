"""Gradient-boosted regression trees: XGBoost fits them on one thread, its own JSON keeps them, NumPy predicts.

A model that came from elsewhere is checked here and never handed to XGBoost, which a crafted one can crash.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.folds import splits
from custodes.stats.learning.xgboost_library import grown

_CELLS = 1 << 17  # rows x trees at a time, which stay in the processor's cache
_TREES = 10_000  # far above what is ever fitted, low enough to bound the time of a crafted model
_NODES = 1_000_000
_DEEPEST = 64
_REASON = 200  # characters
LARGEST = float(np.finfo(np.float32).max) / 2
"""No prediction is larger: half of single precision, so that no sum can overflow by its rounding."""


class Settings(TypedDict):
    """The size of a boosted model: how many trees, how deep, how much each counts, the share of rows each sees."""

    rounds: int
    depth: int
    rate: float
    subsample: float


SETTINGS: Settings = {"rounds": 100, "depth": 2, "rate": 0.05, "subsample": 0.8}
"""Best of 18 tried on HANNA (six aspects, 72 metrics, Human left out) and SummEval (experts, four aspects, 34 metrics):
mean held-out tau-b .266 and .189 over item-grouped folds, against .205 and .141 for 100 trees of XGBoost's defaults
(depth 6, rate .3). Deeper, faster or more trees overfit these small noisy data."""


class Trees(NamedTuple):
    """Checked trees, their nodes one after the other: where each tree starts (trees,), and of every node (nodes,) the
    children (a leaf is its own), the column and threshold it splits by, whether a missing value goes left, what it adds
    (0 where it is no leaf) and the fall of squared error (0 in a leaf). `depth` is the deepest tree's.
    """

    root: NDArray[np.intp]
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    column: NDArray[np.intp]
    threshold: NDArray[np.float32]
    default_left: NDArray[np.bool_]
    value: NDArray[np.float32]
    gain: Floats
    base: np.float32
    depth: int


_Index = Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]
_Nodes = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class _Tree(msgspec.Struct):
    left_children: Annotated[list[_Index], msgspec.Meta(min_length=1)]
    right_children: list[_Index]
    split_indices: list[_Nodes]
    split_conditions: list[float]
    default_left: list[Literal[0, 1]]
    split_type: list[Literal[0]]
    loss_changes: list[float]


class _Forest(msgspec.Struct):
    trees: Annotated[list[_Tree], msgspec.Meta(min_length=1, max_length=_TREES)]
    tree_info: list[Literal[0]]


class _Booster(msgspec.Struct):
    name: Literal["gbtree"]
    model: _Forest


class _Parameters(msgspec.Struct):
    base_score: str
    num_feature: str
    num_class: Literal["0"]
    num_target: Literal["1"]


class _Objective(msgspec.Struct):
    name: Literal["reg:squarederror"]


class _Learner(msgspec.Struct):
    gradient_booster: _Booster
    learner_model_param: _Parameters
    objective: _Objective


class _Model(msgspec.Struct):
    """Of XGBoost's JSON, what a prediction depends on."""

    learner: _Learner


# Made here and not on first use: types looked up by several threads at once can crash the process.
_MODEL = msgspec.json.Decoder(_Model)
_BASE_SCORE = msgspec.json.Decoder(float | tuple[float])


def boosted(
    x: Floats, y: Floats, *, rounds: int, depth: int, rate: float, subsample: float, seed: int, threads: int = 1
) -> bytes:
    """Fit trees to y (rows,) by x (rows, p), NaN = missing, in squared error: the model in XGBoost's JSON format.

    Each split sends missing values the way that serves best. The same arguments give the same bytes. MissingExtraError
    without XGBoost.

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = boosted(x, x[:, 0], rounds=50, depth=1, rate=0.5, subsample=1.0, seed=0)
    >>> bool(np.all(np.diff(predict_boosted(model, x)) > 0))
    True

    Source: Chen and Guestrin 2016.
    """
    options = {
        "objective": "reg:squarederror",
        "tree_method": "hist",
        "max_depth": depth,
        "learning_rate": rate,
        "subsample": subsample,
        "seed": seed,
        "nthread": threads,
        "verbosity": 0,
    }
    # Trees think in single precision; what is beyond it is as large as it gets.
    return grown(np.clip(x, -LARGEST, LARGEST), y, rounds=rounds, threads=threads, options=options)


def on_columns(model: bytes, kept: NDArray[np.intp]) -> bytes:
    """The same trees on some of their columns (kept,), ascending, which hold all that they split on.

    A column never split on changes no tree, so these are the bytes of trees fitted on `kept` alone.

    >>> x = np.array([[7.0, 0.0], [7.0, 1.0], [7.0, 2.0]])
    >>> model = boosted(x, x[:, 1], rounds=3, depth=1, rate=0.5, subsample=1.0, seed=0)
    >>> predict_boosted(on_columns(model, np.array([1])), x[:, 1:]).tolist() == predict_boosted(model, x).tolist()
    True
    """
    place = {str(column).encode(): str(i).encode() for i, column in enumerate(kept)}

    def moved(found: re.Match[bytes]) -> bytes:
        # A leaf says 0, whether that is a column or not.
        return b'"split_indices":[' + b",".join(place.get(own, b"0") for own in found[1].split(b",")) + b"]"

    model = re.sub(rb'"split_indices":\[([\d,]+)\]', moved, model)
    return re.sub(rb'"num_feature":"\d+"', b'"num_feature":"%d"' % len(kept), model)


def trees_of(model: bytes, *, p: int) -> Trees:
    """Read XGBoost's JSON of boosted regression trees on p columns, and check all that a prediction depends on.

    ValueError, with the reason, for anything else: no JSON, another booster or objective, another number of columns,
    a categorical split, nodes that form no tree, numbers beyond single precision, more than 10 000 trees, a million
    nodes or a depth of 64.

    >>> x = np.array([[0.0], [1.0]])
    >>> trees = trees_of(boosted(x, x[:, 0], rounds=3, depth=1, rate=0.5, subsample=1.0, seed=0), p=1)
    >>> len(trees.root), round(float(trees.base), 6)
    (3, 0.5)

    Source: XGBoost's "Introduction to Model IO".
    """
    try:
        learner = _MODEL.decode(model).learner
        # XGBoost writes the base score as text: 5E-1, since 3.1 [5E-1].
        base = _BASE_SCORE.decode(learner.learner_model_param.base_score)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        reason = "".join(filter(str.isprintable, str(problem)))[:_REASON]  # it may quote the file
        raise ValueError(f"not the JSON of boosted regression trees ({reason})") from None
    if learner.learner_model_param.num_feature != str(p):
        raise ValueError(f"the trees are not of {p} columns")
    return _joined(learner.gradient_booster.model.trees, base[0] if isinstance(base, tuple) else base, p)


def predict_boosted(model: bytes, x: Floats) -> Floats:
    """Predict the rows of x (rows, p), NaN = missing -> (rows,). The same row gives the same bits beside any others.

    XGBoost's own arithmetic, in single precision, without XGBoost. ValueError as in `trees_of`.

    >>> x = np.array([[0.0], [1.0]])
    >>> model = boosted(x, np.array([5.0, 5.0]), rounds=1, depth=1, rate=0.5, subsample=1.0, seed=0)
    >>> predict_boosted(model, x).tolist()
    [5.0, 5.0]
    """
    trees = trees_of(model, p=x.shape[1])
    with np.errstate(over="ignore"):  # beyond single precision is beyond every threshold
        single = np.asarray(x).astype(np.float32)
    step = max(1, _CELLS // len(trees.root))
    parts = [_sums(trees, single[start : start + step]) for start in range(0, len(single), step)]
    return np.concatenate(parts, dtype=np.float64) if parts else np.zeros(0)


def gain_importance(model: bytes, p: int) -> Floats:
    """Give the share of each of the p columns in the fall of squared error over all splits -> (p,), summing to 1.

    0 for a column never split on; all 0 where there is no split at all. ValueError as in `trees_of`.

    >>> x = np.array([[0.0, 7.0], [1.0, 7.0], [2.0, 7.0]])
    >>> gain_importance(boosted(x, x[:, 0], rounds=9, depth=1, rate=0.5, subsample=1.0, seed=0), 2).tolist()
    [1.0, 0.0]
    """
    trees = trees_of(model, p=p)
    gain = np.bincount(trees.column, weights=trees.gain, minlength=p).astype(np.float64)
    total = gain.sum()
    return gain / total if total > 0 else gain


class PruningStep(NamedTuple):
    """The columns in the model, the one that leaves after it, and the held-out score of predictions."""

    kept: NDArray[np.intp]
    removed: int
    score: float


class Pruning(NamedTuple):
    """Every step from all columns down to one, and the columns with the best held-out score."""

    steps: tuple[PruningStep, ...]
    best: NDArray[np.intp]


def pruned(
    x: Floats,
    y: Floats,
    fold: Ints,
    *,
    score: Callable[[Floats, NDArray[Any]], float],
    settings: Settings,
    seed: int,
) -> Pruning:
    """Take out the least important column of x (rows, p) again and again: y and fold (rows,).

    At every step a model a fold is fitted without it; `score` takes the held-out predictions (rows,) and the folds;
    importance is the gain averaged over these models (between equals the later column leaves). The best step has the
    highest score, between equals the fewest columns. MissingExtraError without XGBoost.

    >>> x = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, 5.0]] * 4)
    >>> fold = np.repeat([0, 1], 8)
    >>> loss = lambda predicted, fold: -float(((predicted - x[:, 0]) ** 2).mean())
    >>> pruned(x, x[:, 0], fold, score=loss, settings=SETTINGS, seed=0).best.tolist()
    [0]

    Source: Winata et al. 2024 (MetaMetrics), algorithm 1, with the choice on held-out folds instead of the training
    part.
    """
    kept = np.arange(x.shape[1])
    steps: list[PruningStep] = []
    while len(kept):
        predicted = np.full(len(y), np.nan)
        importance = np.zeros(len(kept))
        for train, held in splits(fold):
            model = boosted(x[np.ix_(train, kept)], y[train], seed=seed, **settings)
            predicted[held] = predict_boosted(model, x[np.ix_(held, kept)])
            importance += gain_importance(model, len(kept))
        least = len(kept) - 1 - int(np.argmin(importance[::-1]))
        steps.append(PruningStep(kept, int(kept[least]), score(predicted, fold)))
        kept = np.delete(kept, least)
    scores = np.nan_to_num([step.score for step in steps], nan=-np.inf)
    return Pruning(tuple(steps), steps[len(steps) - 1 - int(np.argmax(scores[::-1]))].kept)


def _joined(trees: list[_Tree], base: float, p: int) -> Trees:
    """The trees as arrays, once these are known to be trees on p columns that stay within single precision."""
    if any(len({len(getattr(tree, name)) for name in tree.__struct_fields__}) > 1 for tree in trees):
        raise ValueError("the arrays of a tree differ in length")
    sizes = np.array([len(tree.left_children) for tree in trees])
    n = int(sizes.sum())
    if n > _NODES:
        raise ValueError(f"the trees have {n} nodes, more than {_NODES}")

    def every(name: str, dtype: type[Any]) -> NDArray[Any]:
        return np.fromiter(chain.from_iterable(getattr(tree, name) for tree in trees), dtype, count=n)

    root = np.cumsum(sizes) - sizes
    left, right = every("left_children", np.intp), every("right_children", np.intp)
    leaf, depth = _leaves(left, right, root, sizes)
    column, own = every("split_indices", np.intp), np.arange(n)
    condition, gain = every("split_conditions", np.float64), every("loss_changes", np.float64)
    if (column[~leaf] >= p).any():
        raise ValueError(f"a split is on column {column[~leaf].max()} of {p}")
    if max(np.abs(condition).max(), np.abs(gain).max(), abs(base)) > LARGEST:
        raise ValueError("a number is beyond single precision")
    if np.abs(condition[leaf]).sum() + abs(base) > LARGEST:
        raise ValueError("a prediction may be beyond single precision")
    start = np.repeat(root, sizes)
    return Trees(
        root=root,
        left=np.where(leaf, own, start + left),
        right=np.where(leaf, own, start + right),
        column=np.where(leaf, 0, column),
        threshold=condition.astype(np.float32),
        default_left=every("default_left", np.bool_),
        value=np.where(leaf, condition, 0.0).astype(np.float32),
        gain=np.where(leaf, 0.0, gain),
        base=np.float32(base),
        depth=depth,
    )


def _leaves(
    left: NDArray[np.intp], right: NDArray[np.intp], root: NDArray[np.intp], sizes: NDArray[np.intp]
) -> tuple[NDArray[np.bool_], int]:
    """Which nodes (nodes,) are leaves, and the depth of the deepest, once every node hangs on one before it."""
    leaf = (left == -1) & (right == -1)
    start, size = np.repeat(root, sizes), np.repeat(sizes, sizes)
    own, inner = np.arange(len(left)), ~leaf
    below = [start + child for child in (left, right)]
    if any((inner & ((child <= own) | (child >= start + size))).any() for child in below):
        raise ValueError("a child of a node is missing, before the node or beyond its tree")
    if not np.array_equal(np.sort(np.concatenate([child[inner] for child in below])), np.setdiff1d(own, root)):
        raise ValueError("a node has no parent or more than one")
    depth, level = 0, root
    while len(level := level[~leaf[level]]):
        depth += 1
        if depth > _DEEPEST:
            raise ValueError(f"the trees are deeper than {_DEEPEST}")
        level = np.concatenate([child[level] for child in below])
    return leaf, depth


def _sums(trees: Trees, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the trees say of x (rows, p) together -> (rows,), added one after the other as XGBoost does."""
    row, node = np.arange(len(x))[:, np.newaxis], np.tile(trees.root, (len(x), 1))
    for _ in range(trees.depth):
        seen = x[row, trees.column[node]]
        left = (seen < trees.threshold[node]) | (np.isnan(seen) & trees.default_left[node])
        node = np.where(left, trees.left[node], trees.right[node])
    total = np.full(len(x), trees.base)
    for leaf in node.T:
        total += trees.value[leaf]
    return total
