"""Costs of metrics, and how the objective changes with the cost of a growing set of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from custodes.answers.tables import with_interval
from custodes.combining.task import Task, read_keyed_column
from custodes.combining.trial import Trial
from custodes.data.notes import Note, build_notes
from custodes.data.table import number_column
from custodes.errors import InputError, join_labels
from custodes.stats.arrays import Floats
from custodes.stats.intervals import CORRELATION
from custodes.stats.learning import selection
from custodes.stats.learning.heldout import round_predictions

STEPS = 15

Costs = Mapping[str, float] | str
"""Cost of each metric, or the path of a table `metric, cost` (or `rater, cost`, as written by `score`)."""


def costs_of(task: Task, costs: Costs | None) -> tuple[Floats, list[Note]]:
    """Return the costs (metrics,), and, if costs of raters files were not used, notes with the reason.

    Costs come from `costs`, a mapping or the path of a table. If `costs` is None, costs come from the raters files.
    These files must have a positive cost for each metric, all in one unit; otherwise each metric costs 1.

    Raises `InputError` for a metric without a positive cost, and for a table with different units.
    """
    if isinstance(costs, str):
        cost_frame, source_name = read_keyed_column(
            costs, "metric", "cost", number_column, alternative_key="rater", text_columns=["cost_unit"]
        )
    else:
        cost_frame, source_name = task.study.raters.frame.rename({"rater": "metric"}), "costs"
    cost_of_name = costs if isinstance(costs, Mapping) else dict(cost_frame.select("metric", "cost").iter_rows())
    unit_of_name = {} if isinstance(costs, Mapping) else dict(cost_frame.select("metric", "cost_unit").iter_rows())
    names_and_raters = list(zip(task.metrics.names, task.metrics.raters, strict=True))
    metric_costs = np.array(
        [cost_of_name.get(name, cost_of_name.get(rater)) for name, rater in names_and_raters], dtype=np.float64
    )
    metrics_without_cost = [
        task.metrics.names[metric_index]
        for metric_index in np.flatnonzero(~(np.isfinite(metric_costs) & (metric_costs > 0)))
    ]
    names_of_unit: dict[str, list[str]] = {}
    for name, rater in names_and_raters:
        names_of_unit.setdefault(unit_of_name.get(name, unit_of_name.get(rater)) or "no unit", []).append(name)
    units_text = "; ".join(f"{unit}: {join_labels(names)}" for unit, names in names_of_unit.items())
    problem = f"the units of the costs differ ({units_text})" if len(names_of_unit) > 1 else ""
    if metrics_without_cost:
        problem = f"there is no positive cost for {join_labels(metrics_without_cost)}"
    if problem and costs is not None:
        raise InputError(
            f"{source_name}: {problem}; give a positive cost for each metric, all in one unit, or exclude metrics with "
            "metrics="
        )
    return np.ones(len(metric_costs)) if problem else metric_costs, build_notes(
        (
            "costs-not-used",
            bool(problem) and bool((metric_costs > 0).any()),
            f"the costs of the raters file are not used: {problem}; give all costs in one unit with costs= "
            "(--costs FILE)",
        )
    )


def path_columns(trial: Trial, metric_costs: Floats) -> dict[str, Any]:
    """Return columns with the metrics in the order of held-out gain per cost, and the score after each added metric.

    Gains are those of ridge regression. The order is determined on all data. For the score of a step, metrics are
    selected again without the held-out fold, with at most the total cost of this step.
    """
    task, fold_of_output = trial.of, trial.folds[0]
    output_positions = np.flatnonzero((fold_of_output >= 0).ravel())
    selection_path = selection.nested_path(
        task.rows(output_positions),
        task.human.ravel()[output_positions],
        fold_of_output.ravel()[output_positions],
        groups=task.design.units[output_positions // len(task.design.systems)],
        included_columns=np.zeros(0, dtype=np.intp),
        steps=STEPS,
        costs=metric_costs,
    )
    predictions = np.full((len(selection_path.predicted), task.human.size), np.nan)
    predictions[:, output_positions] = round_predictions(selection_path.predicted)
    stepwise_trial = replace(trial, predicted=predictions.reshape(1, -1, *task.human.shape), folds=[fold_of_output])
    return {
        "step": np.arange(1, len(selection_path.order) + 1),
        "metric": [task.metrics.names[metric_index] for metric_index in selection_path.order],
        "cost": metric_costs[selection_path.order],
        "total_cost": np.cumsum(metric_costs[selection_path.order]),
        **with_interval(
            "score",
            stepwise_trial.scores()[:, 1:],
            trial.terms.confidence,
            clusters=trial.n_clusters,
            bounds=CORRELATION,
        ),
        "chosen": selection_path.chosen,
    }
