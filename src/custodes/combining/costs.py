"""Costs of metrics, and the objective of a growing set of metrics as a function of the set's cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.combining.task import Task, keyed
from custodes.combining.trial import Trial
from custodes.data.notes import Note, noted
from custodes.data.table import number_column
from custodes.errors import InputError, OptionError, listed, suggestion
from custodes.stats.arrays import Floats
from custodes.stats.intervals import CORRELATION
from custodes.stats.learning import selection

STEPS = 15

Costs = Mapping[str, float] | str
"""Cost of each metric, or the path of a table `metric, cost` (or `rater, cost`, as written by `score`)."""


def costs_of(of: Task, costs: Costs | None) -> tuple[Floats, list[Note]]:
    """Return the costs (metrics,), and notes that explain why costs of raters files were not used.

    Costs come from `costs`, a mapping or the path of a table. If `costs` is None, they come from the raters files if
    these have a positive cost for each metric, all in one unit; otherwise each metric costs 1.

    Raises `InputError` or `OptionError` for a metric without a cost, an unknown metric, a cost that is not positive, or
    a table with different units.

    """
    if costs is None:
        frame = of.study.raters.only(of.metrics.raters).frame
        declared = frame["cost"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        useful = np.isfinite(declared) & (declared > 0)
        unlike = _unlike_units(of.metrics.names, frame["cost_unit"].fill_null("").to_list())
        if useful.all() and not unlike:
            return declared, []
        if useful.all():
            why = f"their units differ ({unlike}); give all costs in one unit with costs= (--costs FILE)"
        else:
            without = [of.metrics.names[i] for i in np.flatnonzero(~useful)]
            why = f"some metrics have no positive cost: {listed(without)}"
        message = f"the costs of the raters file are not used, because {why}"
        return np.ones(len(useful)), noted(("costs-not-used", bool(useful.any()), message))
    unit: dict[str, str] = {}
    if isinstance(costs, str):
        frame, where = keyed(costs, "metric", "cost", number_column, other="rater", beside=["cost_unit"])
        cost_by_name = dict(frame.select("metric", "cost").iter_rows())
        unit = dict(frame.select("metric", "cost_unit").iter_rows())
    else:
        try:
            cost_by_name, where = {str(name): float(cost) for name, cost in costs.items()}, "costs"
        except (TypeError, ValueError) as problem:
            raise OptionError(f"costs: give a number for each metric ({problem})") from None
    names, raters = of.metrics.names, of.metrics.raters
    strangers = [name for name in cost_by_name if name not in (*names, *raters)]
    if strangers and len(strangers) == len(cost_by_name):
        raise OptionError(
            f"{where}: no metric of the table is in the data ({listed(strangers)}); metrics: "
            f"{listed(names)}{suggestion(strangers[0], names)}"
        )
    price = np.array(
        [cost_by_name.get(n, cost_by_name.get(r)) for n, r in zip(names, raters, strict=True)], dtype=np.float64
    )
    without, bad = ([names[i] for i in np.flatnonzero(fault)] for fault in (~np.isfinite(price), price <= 0))
    if without:
        raise InputError(
            f"{where}: there is no cost of {listed(without)}; give a cost for each metric, or exclude these "
            f"metrics with metrics="
        )
    if bad:
        raise InputError(f"{where}: the cost of {listed(bad)} is not positive; give positive numbers")
    unlike = _unlike_units(names, [unit.get(n, unit.get(r, "")) for n, r in zip(names, raters, strict=True)])
    if unlike:
        raise InputError(f"{where}: units of costs differ ({unlike}); use one unit")
    return price, []


def _unlike_units(names: Sequence[str], units: Sequence[str]) -> str:
    """Return the metrics grouped by the unit of their cost, as text for a message; empty if all units are equal."""
    rows = pl.DataFrame({"unit": units, "name": names}).group_by("unit", maintain_order=True).agg("name").rows()
    return "; ".join(f"{unit or 'no unit'}: {listed(metrics)}" for unit, metrics in rows) if len(rows) > 1 else ""


def path_columns(trial: Trial, price: Floats) -> dict[str, Any]:
    """Return columns with the metrics in the order of held-out gain per cost, and the score after each added metric.

    The gain is that of ridge regression. The order is determined on all data. For the score of a step, metrics are
    selected again without the held-out fold, with a total cost of at most the total cost of the step.
    """
    of, fold = trial.of, trial.folds[0]
    rows = np.flatnonzero((fold >= 0).ravel())
    path = selection.nested_path(
        of.rows(rows),
        of.human.ravel()[rows],
        fold.ravel()[rows],
        groups=of.design.units[rows // len(of.design.systems)],
        included=np.zeros(0, dtype=np.intp),
        steps=STEPS,
        costs=price,
    )
    grid = np.full((len(path.predicted), of.human.size), np.nan)
    grid[:, rows] = path.predicted
    stepwise = replace(trial, predicted=grid.reshape(1, -1, *of.human.shape), folds=[fold])
    return {
        "step": np.arange(1, len(path.order) + 1),
        "metric": [of.metrics.names[i] for i in path.order],
        "cost": price[path.order],
        "total_cost": np.cumsum(price[path.order]),
        **with_interval(
            "score",
            stepwise.scores()[:, 1:],
            trial.terms.confidence,
            clusters=trial.n_clusters,
            bounds=CORRELATION,
        ),
        "chosen": path.chosen,
    }
