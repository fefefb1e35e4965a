"""What metrics cost, and the path of score against cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.combine.task import Task
from custodes.combine.validation import scores
from custodes.data.notes import Note
from custodes.data.panel import Floats
from custodes.data.readers.tables import load_table
from custodes.data.table import check_columns, check_unique, label_column, number_column
from custodes.errors import InputError, OptionError, listed, suggestion
from custodes.evaluate.result import columns
from custodes.stats.learning import forward
from custodes.stats.learning.objective import Objective
from custodes.stats.resampling import resample

STEPS = 15


def costs_of(of: Task, given: Mapping[str, float] | str | None) -> tuple[Floats, list[Note]]:
    """The cost of each metric (metrics,): as given, from a table `metric, cost`, or from the raters file where that has
    a positive one for each; else 1 each. Notes say where the raters file's were of no use.

    Raises `InputError` or `OptionError` for a metric without a cost, an unknown one, or a cost that is not positive.
    """
    if isinstance(given, str):
        table = load_table(Path(given))
        check_columns(table.frame, where=table.name, required=("metric", "cost"))
        made = pl.DataFrame(
            [
                label_column(table.frame, "metric", where=table.name),
                number_column(table.frame, "cost", where=table.name),
            ]
        )
        check_unique(made, ["metric"], where=table.name, what="metric", hint="one row a metric")
        known, where = dict(made.iter_rows()), table.name
    elif given is not None:
        try:
            known, where = {str(name): float(cost) for name, cost in given.items()}, "costs"
        except (TypeError, ValueError) as problem:
            raise OptionError(f"costs: give a number for each metric ({problem})") from None
    else:
        useful = np.isfinite(of.costs) & (of.costs > 0)
        if useful.all():
            return of.costs, []
        without = [name for name, own in zip(of.names, useful, strict=True) if not own]
        message = f"costs of the raters file not used, as these have no positive one: {listed(without)}"
        return np.ones(len(of.names)), [Note(rule="costs-not-used", message=message)] if useful.any() else []
    strangers = [name for name in known if name not in of.names and name not in of.raters]
    if strangers and len(strangers) == len(known):
        raise OptionError(
            f"{where}: none of its metrics is here ({listed(strangers)}); metrics: {listed(of.names)}"
            f"{suggestion(strangers[0], of.names)}"
        )
    price = [known.get(name, known.get(rater)) for name, rater in zip(of.names, of.raters, strict=True)]
    without = [name for name, cost in zip(of.names, price, strict=True) if cost is None or not np.isfinite(cost)]
    if without:
        raise InputError(f"{where}: no cost of {listed(without)}; give every metric one, or leave it out by metrics=")
    bad = [name for name, cost in zip(of.names, price, strict=True) if cost is not None and cost <= 0]
    if bad:
        raise InputError(f"{where}: the cost of {listed(bad)} is not positive")
    return np.array(price, dtype=np.float64), []


def cost_path(
    of: Task, price: Floats, fold: NDArray[np.intp], weights: Floats, objective: Objective, confidence: float
) -> pl.DataFrame:
    """Metrics in the order of held-out gain per cost (ridge regression), and what each further one buys.

    The order comes from all data; the score at each step is what paths chosen without the held-out fold reach for as
    much money.
    """
    rows = np.flatnonzero((fold >= 0).ravel())
    x = of.scores.reshape(len(of.scores), -1)[:, rows].T
    path = forward.nested_path(
        x,
        of.human.ravel()[rows],
        fold.ravel()[rows],
        groups=of.units[rows // len(of.systems)],
        given=np.zeros(0, dtype=np.intp),
        steps=STEPS,
        costs=price,
    )
    grid = np.full((len(path.predicted), of.human.size), np.nan)
    grid[:, rows] = path.predicted
    predicted = grid.reshape(1, -1, *of.human.shape)
    draws = scores(of, predicted, [fold], objective, weights)[:, 1:]
    low, high = resample.percentile_interval(draws[1:], confidence=confidence)
    return columns(
        {
            "step": np.arange(1, len(path.order) + 1),
            "metric": [of.names[i] for i in path.order],
            "cost": price[path.order],
            "total_cost": np.cumsum(price[path.order]),
            "score": draws[0],
            "low": low,
            "high": high,
            "chosen": path.chosen,
        }
    )
