"""Kinds of output that are calibrated separately: values of a column of items, or quartiles of a metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from custodes.data.panel import Panel
from custodes.data.study import Study
from custodes.errors import OptionError
from custodes.evaluate.design import Design
from custodes.evaluate.slices import quartiles, slice_names, slice_positions, values_of
from custodes.stats.arrays import Bools, Floats, Ints

OPTION = "calibrate_by"


class Calibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shifts of predictions by kind of output; `names` are the values of `column`, or its ranges between `edges`."""

    column: str
    edges: tuple[float, ...]
    names: tuple[str, ...]
    shifts: tuple[float, ...]

    def positions(self, study: Study, items: Sequence[str], systems: Sequence[str]) -> Ints:
        """Return the kind (items * systems,) of each output of a study; -1 if the kind is unknown."""
        return slice_positions(_values(study, items, systems, self.column), self.edges, self.names)


class Kinds(NamedTuple):
    """Kinds of output by a `column`; `position` (items, systems) is the kind of each output, -1 if it is unknown."""

    column: str
    edges: tuple[float, ...]
    names: tuple[str, ...]
    position: Ints

    def calibration(self, shifts: Floats) -> Calibration:
        """Return the kinds with their shifts, in the form of the model file."""
        return Calibration(column=self.column, edges=self.edges, names=self.names, shifts=tuple(shifts.tolist()))


def kinds_of(study: Study, design: Design, rated: Bools, column_name: str) -> Kinds:
    """Return the kinds of the outputs of a design; quartiles are computed from the `rated` (items, systems) outputs.

    Raises `OptionError` if the column is unknown, if there is one kind or too many kinds, or if all outputs of each
    system are of one kind.
    """
    column_values = _values(study, design.items, design.systems, column_name)
    rated_column_values = column_values.filter(pl.Series(rated.ravel()))
    quartile_edges = quartiles(rated_column_values)
    kind_names = slice_names(rated_column_values, quartile_edges, column_name, option=OPTION)
    kind_of_output = slice_positions(column_values, quartile_edges, kind_names).reshape(rated.shape)
    if len(kind_names) < 2:
        raise OptionError(
            f"{OPTION}={column_name!r}: all rated outputs are of one kind; give a column with at least two values"
        )
    if all(
        len(np.unique(output_kinds_of_system[is_rated_output])) <= 1
        for output_kinds_of_system, is_rated_output in zip(kind_of_output.T, rated.T, strict=True)
    ):
        raise OptionError(
            f"{OPTION}={column_name!r}: all outputs of each system are of one kind. A calibration would therefore "
            "favour systems; choose a column that varies within systems"
        )
    return Kinds(column_name, quartile_edges, kind_names, kind_of_output)


def _values(study: Study, items: Sequence[str], systems: Sequence[str], column_name: str) -> pl.Series:
    """Return the values (items * systems,) of a column of items, an attribute of outputs or a metric."""
    if column_name == "system":
        raise OptionError(
            f"{OPTION}='system': a calibration by system would favour systems; give a column of items, or a metric"
        )
    if column_name in study.metrics:
        aspects = study.ratings.frame.filter(pl.col("rater") == column_name)["aspect"].unique()
        if len(aspects) == 1:
            panel = Panel.from_study(study, raters=[column_name], aspect=aspects[0], items=items, systems=systems)
            return pl.Series(study.raters.direction[column_name] * panel.values.ravel()).fill_nan(None)
        raise OptionError(
            f"{OPTION}={column_name!r}: the metric rates {len(aspects)} aspects, and only a metric with one aspect is "
            f"allowed; give another metric or a column of items"
        )
    output_frame = pl.DataFrame(
        {"item": [item for item in items for _ in systems], "system": list(systems) * len(items)},
        schema={"item": pl.String, "system": pl.String},
    )
    return values_of(study, output_frame, column_name, study.metrics, option=OPTION)
