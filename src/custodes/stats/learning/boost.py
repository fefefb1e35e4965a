"""Gradient-boosted regression trees: XGBoost fits them, NumPy predicts with them.

Fitted trees are nested nodes, in the form that a model file contains. Predictions do not use XGBoost, so that trees
from an untrusted file are never passed to it. XGBoost does not validate nodes, and invalid nodes can crash the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from custodes.errors import MissingExtraError
from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.folds import splits

LARGEST = float(np.finfo(np.float32).max) / 2
"""Maximum absolute prediction of trees: half of the largest single-precision number, so that sums cannot overflow."""


SETTINGS: dict[str, Any] = {"rounds": 100, "depth": 2, "rate": 0.05, "subsample": 0.8}
"""Arguments of `fit_trees`. They were the best of 18 settings on HANNA (six aspects, 72 metrics, without the system
Human) and SummEval (experts, four aspects, 34 metrics).

The mean held-out tau-b over item-grouped folds is .266 on HANNA and .189 on SummEval. With 100 trees and XGBoost's
defaults (depth 6, rate .3), tau-b is .205 and .141. Deeper trees, a higher rate or more trees overfit these small,
noisy data.
"""


class Split(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An inner node of a tree.

    Rows with a value of `column` below `threshold` go to `left`, and all other rows with a value go to `right`. Rows
    with a missing value go to `left` if `missing_left` is true, else to `right`. A child is another split or a leaf. A
    leaf is the number that is added to the prediction.
    """

    column: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    threshold: float
    missing_left: bool
    left: Split | float
    right: Split | float


class Trees(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Boosted regression trees. The prediction is `base` plus one leaf of each tree in `trees`."""

    base: float
    trees: Annotated[tuple[Split | float, ...], msgspec.Meta(min_length=1)]

    def predict(self, x: Floats) -> Floats:
        """Predict rows, in single precision and in the order of the trees, as XGBoost does.

        Parameters
        ----------
        x
            Values (rows, p), NaN = missing.

        Returns
        -------
        :
            Predictions (rows,). The prediction of a row does not depend on the other rows, not even in its last bit.
        """
        with np.errstate(over="ignore"):  # infinity after overflow lies beyond every threshold
            single_precision_x = np.asfortranarray(x, dtype=np.float32)
        predictions = np.full(len(x), self.base, dtype=np.float32)
        for tree in self.trees:
            predictions += _leaves(tree, single_precision_x)
        return predictions.astype(np.float64)

    def renumber_columns(self, new_number_of_column: Mapping[int, int]) -> Trees:
        """The trees with renumbered columns. `new_number_of_column` maps each column in use to its new number."""

        def renumber_node(node: Split | float) -> Split | float:
            if not isinstance(node, Split):
                return node
            return Split(
                new_number_of_column[node.column],
                node.threshold,
                node.missing_left,
                renumber_node(node.left),
                renumber_node(node.right),
            )

        return Trees(self.base, tuple(map(renumber_node, self.trees)))


def fit_trees(
    x: Floats, y: Floats, *, rounds: int, depth: int, rate: float, subsample: float, seed: int
) -> tuple[Trees, Floats]:
    """Fit trees in squared error, on one thread.

    Parameters
    ----------
    x
        Values (rows, p), NaN = missing. Each split sends rows with a missing value to the side that fits better.
    y
        Target (rows,).
    rounds, depth, rate, subsample
        Number and depth of the trees, learning rate, and proportion of the rows that each tree uses.
    seed
        Seed for the selection of the rows that each tree uses. The same arguments give the same trees.

    Returns
    -------
    :
        The trees, and the proportion (p,) that each column contributes to the decrease of squared error. It is 0 for a
        column without a split. All proportions are 0 if there is no split.

    Raises
    ------
    MissingExtraError
        If XGBoost is not installed.

    References
    ----------
    Chen and Guestrin (2016).

    Examples
    --------
    >>> x = np.array([[0.0, 7.0], [1.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
    >>> trees, importance = fit_trees(x, x[:, 0], rounds=50, depth=1, rate=0.5, subsample=1.0, seed=0)
    >>> bool(np.all(np.diff(trees.predict(x)) > 0)), importance.tolist()
    (True, [1.0, 0.0])
    """
    try:
        import xgboost
    except ImportError as problem:
        raise MissingExtraError("boosted trees need XGBoost: pip install 'custodes[learn]'") from problem
    xgboost_options: dict[str, Any] = {"nthread": 1, "verbosity": 0, "seed": seed}
    xgboost_options |= {"max_depth": depth, "learning_rate": rate, "subsample": subsample}
    training_matrix = xgboost.DMatrix(np.clip(x, -LARGEST, LARGEST), label=y, nthread=1)
    booster = xgboost.train(xgboost_options, training_matrix, num_boost_round=rounds)
    learner_json = msgspec.json.decode(booster.save_raw("json"))["learner"]
    xgboost_trees = learner_json["gradient_booster"]["model"]["trees"]
    column_gains = np.zeros(x.shape[1])
    for tree in xgboost_trees:
        np.add.at(column_gains, tree["split_indices"], tree["loss_changes"])  # leaves add 0 to column 0
    base_score = learner_json["learner_model_param"]["base_score"].strip("[]")  # XGBoost 3.1 and later add brackets
    trees = Trees(float(base_score), tuple(_parse_node(tree, 0) for tree in xgboost_trees))
    return trees, column_gains / (column_gains.sum() or 1.0)


def _parse_node(tree: Mapping[str, list[Any]], node_index: int) -> Split | float:
    """A node of a tree in XGBoost's format, which has one list for each attribute of the nodes."""
    threshold_or_leaf = float(np.float32(tree["split_conditions"][node_index]))
    if tree["left_children"][node_index] < 0:
        return threshold_or_leaf
    return Split(
        tree["split_indices"][node_index],
        threshold_or_leaf,
        bool(tree["default_left"][node_index]),
        *(_parse_node(tree, tree[children][node_index]) for children in ("left_children", "right_children")),
    )


def _leaves(node: Split | float, x: NDArray[np.float32]) -> Any:
    """The leaf that each row of x (rows, p) reaches."""
    if not isinstance(node, Split):
        return np.float32(node)
    column_values = x[:, node.column]
    is_left_row = ~(column_values >= node.threshold) if node.missing_left else column_values < node.threshold
    return np.where(is_left_row, _leaves(node.left, x), _leaves(node.right, x))


class PruningStep(NamedTuple):
    """A step of backward elimination: the columns in the model, the column that is removed next, and the score of
    held-out predictions."""

    columns: NDArray[np.intp]
    removed: int
    score: float


def prune_columns(
    x: Floats,
    y: Floats,
    fold: Ints,
    *,
    score: Callable[[Floats, NDArray[Any]], float],
    settings: Mapping[str, Any],
    seed: int,
) -> tuple[tuple[PruningStep, ...], NDArray[np.intp]]:
    """Backward elimination: remove the least important column repeatedly.

    Parameters
    ----------
    x, y, fold
        Values (rows, p), NaN = missing; target (rows,); fold (rows,), -1 for rows that are not used.
    score
        Function of held-out predictions (rows,) and folds (rows,) that returns their score.
    settings, seed
        As in `fit_trees`.

    Returns
    -------
    :
        The steps, from all columns to one, and the columns of the step with the highest score. Among steps with equal
        scores, the step with the fewest columns is used. Each step fits one model per fold, and importance is the mean
        over these models. If columns are equally important, the last one of them is removed.

    Raises
    ------
    MissingExtraError
        If XGBoost is not installed.

    References
    ----------
    Winata et al. (2024), "MetaMetrics", algorithm 1, with the choice on held-out folds instead of the training part.

    Examples
    --------
    >>> x = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, 5.0]] * 4)
    >>> fold = np.repeat([0, 1], 8)
    >>> loss = lambda predicted, fold: -float(((predicted - x[:, 0]) ** 2).mean())
    >>> prune_columns(x, x[:, 0], fold, score=loss, settings=SETTINGS, seed=0)[1].tolist()
    [0]
    """
    remaining_columns = np.arange(x.shape[1])
    steps: list[PruningStep] = []
    while len(remaining_columns):
        predictions, column_importances = np.full(len(y), np.nan), np.zeros(len(remaining_columns))
        for is_training, is_held_out in splits(fold):
            trees, gain_proportions = fit_trees(
                x[np.ix_(is_training, remaining_columns)], y[is_training], seed=seed, **settings
            )
            predictions[is_held_out] = trees.predict(x[np.ix_(is_held_out, remaining_columns)])
            column_importances += gain_proportions
        least_important_position = len(remaining_columns) - 1 - int(np.argmin(column_importances[::-1]))
        steps.append(
            PruningStep(remaining_columns, int(remaining_columns[least_important_position]), score(predictions, fold))
        )
        remaining_columns = np.delete(remaining_columns, least_important_position)
    step_scores = np.nan_to_num([step.score for step in steps], nan=-np.inf)
    return tuple(steps), steps[len(steps) - 1 - int(np.argmax(step_scores[::-1]))].columns
