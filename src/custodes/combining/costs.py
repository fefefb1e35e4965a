"""Costs of metrics, and the objective of a growing set of metrics as a function of the set's cost."""

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

    Costs come from `costs`, a mapping or the path of a table. If `costs` is None, they come from the raters files if
    these have a positive cost for each metric, all in one unit; otherwise each metric costs 1.

    Raises `InputError` or `OptionError` for a metric without a cost, an unknown metric, a cost that is not positive, or
    a table with different units.

    """
    if costs is None:
        frame = task.study.raters.select_raters(task.metrics.raters).frame
        declared_costs = frame["cost"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        is_positive = np.isfinite(declared_costs) & (declared_costs > 0)
        unlike_units_text = _format_unequal_units(task.metrics.names, frame["cost_unit"].fill_null("").to_list())
        if is_positive.all() and not unlike_units_text:
            return declared_costs, []
        if is_positive.all():
            reason = f"their units differ ({unlike_units_text}); give all costs in one unit with costs= (--costs FILE)"
        else:
            metrics_without_cost = [task.metrics.names[i] for i in np.flatnonzero(~is_positive)]
            reason = f"some metrics have no positive cost: {join_labels(metrics_without_cost)}"
        message = f"the costs of the raters file are not used, because {reason}"
        return np.ones(len(is_positive)), build_notes(("costs-not-used", bool(is_positive.any()), message))
    unit_of_metric: dict[str, str] = {}
    if isinstance(costs, str):
        frame, source_name = read_keyed_column(
            costs, "metric", "cost", number_column, alternative_key="rater", text_columns=["cost_unit"]
        )
        cost_by_name = dict(frame.select("metric", "cost").iter_rows())
        unit_of_metric = dict(frame.select("metric", "cost_unit").iter_rows())
    else:
        try:
            cost_by_name, source_name = {str(name): float(cost) for name, cost in costs.items()}, "costs"
        except (TypeError, ValueError) as problem:
            raise OptionError(f"costs: give a number for each metric ({problem})") from None
    names, raters = task.metrics.names, task.metrics.raters
    unknown_metrics = [name for name in cost_by_name if name not in (*names, *raters)]
    if unknown_metrics and len(unknown_metrics) == len(cost_by_name):
        raise OptionError(
            f"{source_name}: no metric with a cost is in the data ({join_labels(unknown_metrics)}); metrics: "
            f"{join_labels(names)}{suggestion(unknown_metrics[0], names)}"
        )
    metric_costs = np.array(
        [cost_by_name.get(n, cost_by_name.get(r)) for n, r in zip(names, raters, strict=True)], dtype=np.float64
    )
    metrics_without_cost, metrics_with_bad_cost = (
        [names[i] for i in np.flatnonzero(is_fault)] for is_fault in (~np.isfinite(metric_costs), metric_costs <= 0)
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
    unlike_units_text = _format_unequal_units(
        names, [unit_of_metric.get(n, unit_of_metric.get(r, "")) for n, r in zip(names, raters, strict=True)]
    )
    if unlike_units_text:
        raise InputError(f"{source_name}: units of costs differ ({unlike_units_text}); use one unit")
    return metric_costs, []


def _format_unequal_units(names: Sequence[str], units: Sequence[str]) -> str:
    """Return the metrics grouped by the unit of their cost, as text for a message; empty if all units are equal."""
    rows = pl.DataFrame({"unit": units, "name": names}).group_by("unit", maintain_order=True).agg("name").rows()
    return "; ".join(f"{unit or 'no unit'}: {join_labels(metrics)}" for unit, metrics in rows) if len(rows) > 1 else ""


def path_columns(trial: Trial, metric_costs: Floats) -> dict[str, Any]:
    """Return columns with the metrics in the order of held-out gain per cost, and the score after each added metric.

    The gain is that of ridge regression. The order is determined on all data. For the score of a step, metrics are
    selected again without the held-out fold, with a total cost of at most the total cost of the step.
    """
    task, fold = trial.of, trial.folds[0]
    rows = np.flatnonzero((fold >= 0).ravel())
    selection_path = selection.nested_path(
        task.rows(rows),
        task.human.ravel()[rows],
        fold.ravel()[rows],
        groups=task.design.units[rows // len(task.design.systems)],
        included=np.zeros(0, dtype=np.intp),
        steps=STEPS,
        costs=metric_costs,
    )
    predictions = np.full((len(selection_path.predicted), task.human.size), np.nan)
    predictions[:, rows] = round_predictions(selection_path.predicted)
    stepwise_trial = replace(trial, predicted=predictions.reshape(1, -1, *task.human.shape), folds=[fold])
    return {
        "step": np.arange(1, len(selection_path.order) + 1),
        "metric": [task.metrics.names[i] for i in selection_path.order],
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
