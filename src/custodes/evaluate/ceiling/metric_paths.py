"""Forward selection of metrics, and the effect of adding or removing each metric.

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


def forward_columns(
    target: Target, positions_in_use: NDArray[np.intp], steps: int, confidence: float
) -> dict[str, Any]:
    """Return the columns of `forward`. The path is selected on all data.

    The score of each step comes from paths that are selected without the held-out fold.
    """
    x, metric_names = _metric_scores_and_names(target)
    selection_path = selection.nested_path(
        x, target.y, target.fold, groups=target.groups, included_columns=positions_in_use, steps=steps
    )
    if len(np.unique(target.fold)) == 2:  # one remaining fold is not enough to select a path
        selection_path.predicted[1:], selection_path.chosen[:] = np.nan, np.nan
    agreement_draws = target.agreement(selection_path.predicted)
    first_step = 0 if len(positions_in_use) else 1
    return {
        "step": np.arange(first_step, len(selection_path.predicted)),
        "metric": [join_labels(metric_names[positions_in_use], limit=2), *metric_names[selection_path.order]][
            first_step:
        ],
        **with_interval(
            "kendall", agreement_draws[:, first_step:], confidence, clusters=target.n_clusters, bounds=CORRELATION
        ),
        **with_interval(
            "gain",
            np.diff(agreement_draws, axis=1, prepend=np.nan)[:, first_step:],
            confidence,
            clusters=target.n_clusters,
            bounds=ANY,
        ),
        "chosen": np.append(np.nan, selection_path.chosen)[first_step:],
    }


def next_columns(target: Target, positions_in_use: NDArray[np.intp], confidence: float) -> dict[str, Any]:
    """Return the columns of `next`, sorted by gain: gain from adding each metric, and loss from removing it.

    A metric is added to the metrics in use (default: none), or removed from the metrics in use (default: all metrics).
    """
    x, metric_names = _metric_scores_and_names(target)
    removable_positions = positions_in_use if len(positions_in_use) else np.arange(len(metric_names))
    addable_positions = np.setdiff1d(np.arange(len(metric_names)), positions_in_use)
    predictions_with_metric = selection.toggled_predictions(
        x, target.y, target.fold, included_columns=positions_in_use
    )[np.append(0, 1 + addable_positions)]
    if not len(positions_in_use):
        predictions_with_metric[1:] = selection.single_column_ranks(x, target.y, target.fold)
    agreement_draws = target.agreement(
        np.concatenate(
            [
                predictions_with_metric,
                selection.toggled_predictions(x, target.y, target.fold, included_columns=removable_positions)[
                    np.append(0, 1 + removable_positions)
                ],
            ]
        )
    )
    # The agreement of a constant prediction counts as 0, not as undefined.
    if not len(positions_in_use):
        agreement_draws[:, 0] = 0.0
    if len(removable_positions) == 1:
        agreement_draws[:, -1] = 0.0
    gains, losses = np.full((2, len(agreement_draws), len(metric_names)), np.nan)
    gains[:, addable_positions] = agreement_draws[:, 1 : 1 + len(addable_positions)] - agreement_draws[:, :1]
    losses[:, removable_positions] = (
        agreement_draws[:, [1 + len(addable_positions)]] - agreement_draws[:, 2 + len(addable_positions) :]
    )
    metric_indices_by_gain = np.argsort(-np.nan_to_num(round_for_sorting(gains[0]), nan=-np.inf), kind="stable")
    return {
        "metric": metric_names[metric_indices_by_gain].tolist(),
        **with_interval("added", gains[:, metric_indices_by_gain], confidence, clusters=target.n_clusters, bounds=ANY),
        **with_interval(
            "removed", losses[:, metric_indices_by_gain], confidence, clusters=target.n_clusters, bounds=ANY
        ),
    }


def _metric_scores_and_names(target: Target) -> tuple[Floats, NDArray[np.str_]]:
    """Return the scores (rows, metrics) and the names of the metrics."""
    metric_positions = target.columns["metrics"]
    return target.x[:, metric_positions], np.array(target.rater_scores.names)[metric_positions]
