"""Costs of metrics, and how the objective changes with the cost of a growing set of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.combining.task import Task, read_keyed_column
from custodes.combining.trial import Trial
from custodes.data.notes import Note, build_notes
from custodes.data.table import number_column
from custodes.errors import InputError, OptionError, join_labels, suggestion
from custodes.stats.arrays import Floats
from custodes.stats.intervals import CORRELATION
from custodes.stats.learning import selection
from custodes.stats.learning.heldout import round_predictions

STEPS = 15

Costs = Mapping[str, float] | str
"""Cost of each metric, or the path of a table `metric, cost` (or `rater, cost`, as written by `score`)."""


def costs_of(task: Task, costs: Costs | None) -> tuple[Floats, list[Note]]:
    """Return the costs (metrics,), and notes that explain why costs of raters files were not used.

    Costs come from `costs`, a mapping or the path of a table. If `costs` is None, costs come from the raters files if
    these files have a positive cost for each metric, all in one unit; otherwise each metric costs 1.

    Raises `InputError` or `OptionError` for a metric without a cost, an unknown metric, a cost that is not positive, or
    a table with different units.

    """
    if costs is None:
        cost_frame = task.study.raters.select_raters(task.metrics.raters).frame
        declared_costs = cost_frame["cost"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        is_positive_cost = np.isfinite(declared_costs) & (declared_costs > 0)
        unequal_units_text = _format_unequal_units(task.metrics.names, cost_frame["cost_unit"].fill_null("").to_list())
        if is_positive_cost.all() and not unequal_units_text:
            return declared_costs, []
        if is_positive_cost.all():
            why_not_used = (
                f"their units differ ({unequal_units_text}); give all costs in one unit with costs= (--costs FILE)"
            )
        else:
            metrics_without_cost = [
                task.metrics.names[metric_index] for metric_index in np.flatnonzero(~is_positive_cost)
            ]
            why_not_used = f"some metrics have no positive cost: {join_labels(metrics_without_cost)}"
        return np.ones(len(is_positive_cost)), build_notes(
            (
                "costs-not-used",
                bool(is_positive_cost.any()),
                f"the costs of the raters file are not used, because {why_not_used}",
            )
        )
    unit_of_metric: dict[str, str] = {}
    if isinstance(costs, str):
        cost_frame, source_name = read_keyed_column(
            costs, "metric", "cost", number_column, alternative_key="rater", text_columns=["cost_unit"]
        )
        cost_of_name = dict(cost_frame.select("metric", "cost").iter_rows())
        unit_of_metric = dict(cost_frame.select("metric", "cost_unit").iter_rows())
    else:
        try:
            cost_of_name, source_name = {str(metric_name): float(cost) for metric_name, cost in costs.items()}, "costs"
        except (TypeError, ValueError) as problem:
            raise OptionError(f"costs: give a number for each metric ({problem})") from None
    metric_names, rater_names = task.metrics.names, task.metrics.raters
    unknown_metrics = [metric_name for metric_name in cost_of_name if metric_name not in (*metric_names, *rater_names)]
    if unknown_metrics and len(unknown_metrics) == len(cost_of_name):
        raise OptionError(
            f"{source_name}: no metric with a cost is in the data ({join_labels(unknown_metrics)}); metrics: "
            f"{join_labels(metric_names)}{suggestion(unknown_metrics[0], metric_names)}"
        )
    metric_costs = np.array(
        [
            cost_of_name.get(metric_name, cost_of_name.get(rater_name))
            for metric_name, rater_name in zip(metric_names, rater_names, strict=True)
        ],
        dtype=np.float64,
    )
    metrics_without_cost, metrics_with_bad_cost = (
        [metric_names[metric_index] for metric_index in np.flatnonzero(is_faulty_metric)]
        for is_faulty_metric in (~np.isfinite(metric_costs), metric_costs <= 0)
    )
    if metrics_without_cost:
        raise InputError(
            f"{source_name}: there is no cost for {join_labels(metrics_without_cost)}; give a cost for each metric, or "
            "exclude these metrics with metrics="
        )
    if metrics_with_bad_cost:
        raise InputError(
            f"{source_name}: the cost of {join_labels(metrics_with_bad_cost)} is not positive; give positive numbers"
        )
    unequal_units_text = _format_unequal_units(
        metric_names,
        [
            unit_of_metric.get(metric_name, unit_of_metric.get(rater_name, ""))
            for metric_name, rater_name in zip(metric_names, rater_names, strict=True)
        ],
    )
    if unequal_units_text:
        raise InputError(f"{source_name}: units of costs differ ({unequal_units_text}); use one unit")
    return metric_costs, []


def _format_unequal_units(metric_names: Sequence[str], units: Sequence[str]) -> str:
    """Return the metrics grouped by the unit of their cost, as text for a message; empty if all units are equal."""
    units_and_metric_names = (
        pl.DataFrame({"unit": units, "name": metric_names}).group_by("unit", maintain_order=True).agg("name").rows()
    )
    return (
        "; ".join(
            f"{unit or 'no unit'}: {join_labels(names_with_unit)}" for unit, names_with_unit in units_and_metric_names
        )
        if len(units_and_metric_names) > 1
        else ""
    )


def path_columns(trial: Trial, metric_costs: Floats) -> dict[str, Any]:
    """Return columns with the metrics in the order of held-out gain per cost, and the score after each added metric.

    Gains are those of ridge regression. The order is determined on all data. For the score of a step, metrics are
    selected again without the held-out fold. The total cost of the selected metrics is at most the total cost of the
    step.
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
