"""Forward selection and backward elimination of metrics, and the effect of adding or removing each metric.

`in_use` are the positions of the metrics in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.errors import join_labels
from custodes.evaluate.ceiling.prediction_target import Target
from custodes.stats.arrays import Floats, round_for_sorting
from custodes.stats.intervals import ANY, CORRELATION
from custodes.stats.learning import selection


def forward_columns(target: Target, in_use: NDArray[np.intp], steps: int, confidence: float) -> dict[str, Any]:
    """Return the columns of `forward`. The path is selected on all data.

    The score of each step comes from paths that are selected without the held-out fold.
    """
    x, names = _metrics(target)
    path = selection.nested_path(x, target.y, target.fold, groups=target.groups, included_columns=in_use, steps=steps)
    if len(np.unique(target.fold)) == 2:  # with one fold held out, one fold is too few to select a path
        path.predicted[1:], path.chosen[:] = np.nan, np.nan
    draws = target.agreement(path.predicted)
    first_step = 0 if len(in_use) else 1
    return {
        "step": np.arange(first_step, len(path.predicted)),
        "metric": [join_labels(names[in_use], limit=2), *names[path.order]][first_step:],
        **with_interval("kendall", draws[:, first_step:], confidence, clusters=target.n_clusters, bounds=CORRELATION),
        **with_interval(
            "gain",
            np.diff(draws, axis=1, prepend=np.nan)[:, first_step:],
            confidence,
            clusters=target.n_clusters,
            bounds=ANY,
        ),
        "chosen": np.append(np.nan, path.chosen)[first_step:],
    }


def backward_columns(target: Target, in_use: NDArray[np.intp], steps: int, confidence: float) -> dict[str, Any]:
    """Return the columns of `backward`: backward elimination from the metrics in use (default: all metrics).

    Each step removes the metric whose removal increases the held-out squared error least. The same folds select the
    order and score it."""
    x, names = _metrics(target)
    start_metrics = in_use if len(in_use) else np.arange(len(names))
    path = selection.stepwise_path(x, target.y, target.fold, included_columns=start_metrics, steps=steps, removing=True)
    draws = target.agreement(path.predicted)
    return {
        "step": np.arange(1, len(path.order) + 1),
        "metric": names[path.order].tolist(),
        **with_interval("kendall", draws[:, 1:], confidence, clusters=target.n_clusters, bounds=CORRELATION),
        **with_interval("loss", draws[:, :-1] - draws[:, 1:], confidence, clusters=target.n_clusters, bounds=ANY),
    }


def next_columns(target: Target, in_use: NDArray[np.intp], confidence: float) -> dict[str, Any]:
    """Return the columns of `next`, sorted by gain: gain from adding each metric, and loss from removing it.

    A metric is added to the metrics in use (default: none) or removed from them (default: from all metrics).
    """
    x, names = _metrics(target)
    removable = in_use if len(in_use) else np.arange(len(names))
    addable = np.setdiff1d(np.arange(len(names)), in_use)
    predictions_with = selection.toggled_predictions(x, target.y, target.fold, included_columns=in_use)[
        np.append(0, 1 + addable)
    ]
    if not len(in_use):
        predictions_with[1:] = selection.single_column_ranks(x, target.y, target.fold)
    predictions_without = selection.toggled_predictions(x, target.y, target.fold, included_columns=removable)[
        np.append(0, 1 + removable)
    ]
    draws = target.agreement(np.concatenate([predictions_with, predictions_without]))
    # The agreement of a constant prediction counts as 0, not as undefined.
    if not len(in_use):
        draws[:, 0] = 0.0
    if len(removable) == 1:
        draws[:, -1] = 0.0
    gains, losses = np.full((2, len(draws), len(names)), np.nan)
    gains[:, addable] = draws[:, 1 : 1 + len(addable)] - draws[:, :1]
    losses[:, removable] = draws[:, [1 + len(addable)]] - draws[:, 2 + len(addable) :]
    order = np.argsort(-np.nan_to_num(round_for_sorting(gains[0]), nan=-np.inf), kind="stable")
    return {
        "metric": names[order].tolist(),
        **with_interval("added", gains[:, order], confidence, clusters=target.n_clusters, bounds=ANY),
        **with_interval("removed", losses[:, order], confidence, clusters=target.n_clusters, bounds=ANY),
    }


def _metrics(target: Target) -> tuple[Floats, NDArray[np.str_]]:
    """Return the scores (rows, metrics) and the names of the metrics."""
    metrics = target.columns["metrics"]
    return target.x[:, metrics], np.array(target.who.names)[metrics]
