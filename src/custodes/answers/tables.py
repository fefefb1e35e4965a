"""Declared tables: each column has a name, a kind and a description, from which frames, views and pages are built.

class Agreement(Result):
    metrics: pl.DataFrame = table(
        "one row per metric",
        label("metric", "name of the metric"),
        count("n", "comparisons that the annotators and the metric rated", essential=False),
        score("kendall", "Kendall's tau-b", interval=True, best="high"),
    )
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.errors import join_labels
from custodes.stats import intervals
from custodes.stats.arrays import Floats

Kind = Literal[
    "label", "letters", "labels", "flag", "count", "share", "difference", "points", "score", "p", "probability"
]
"""Kind of a value.

The kinds stand for these values, in this order: a name; significance letters; several names; true or false; a whole
number; a proportion in [0, 1]; a difference of two proportions; a difference of two proportions in percentage points;
any other number; a p-value; a probability.
"""

POINTS = "points"
RANGES: Mapping[Kind, str] = {"difference": "−1 to 1"}
"""For each kind of column, the range that is added to the label of a column without a unit. Pages write proportions in
per cent, but not differences."""

TYPES: Mapping[Kind, Any] = {
    "label": pl.String,
    "letters": pl.String,
    "labels": pl.List(pl.String),
    "flag": pl.Boolean,
    "count": pl.Int64,
}
"""Types of columns by kind; columns of all other kinds are floats."""

TABLE = "table"
"""Key under which a field of a result stores its declaration."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """The declaration of one column of a table.

    With `interval`, the two columns of the bounds (`x_low`, `x_high`) follow the column `x`. With `sd`, the column of
    the standard deviation over replications (`x_sd`) follows. `label`: the heading in papers and on pages. `unit`: the
    unit of the numbers. `essential`: the column is displayed by default. `best`: whether high or low values are better
    (`""`: neither).
    """

    name: str
    doc: str
    kind: Kind
    label: str
    unit: str
    interval: bool
    sd: bool
    essential: bool
    best: Literal["high", "low", ""]

    @property
    def heading(self) -> str:
        """The name as the header of a view, with the unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the frame, the estimate first."""
        suffixes = ("_low", "_high") if self.interval else ("_sd",) if self.sd else ()
        return (self.name, *(self.name + suffix for suffix in suffixes))

    def bounds(self, row: Mapping[str, Any]) -> tuple[float | None, float | None]:
        """The bounds of the interval in a row, if there is one."""
        return (row[f"{self.name}_low"], row[f"{self.name}_high"]) if self.interval else (None, None)

    @property
    def is_number(self) -> bool:
        """Whether the column is numeric, and aligned to the right."""
        return self.kind not in ("label", "letters", "labels", "flag")


def column(
    name: str,
    doc: str,
    label: str = "",
    *,
    kind: Kind,
    unit: str = "",
    interval: bool = False,
    sd: bool = False,
    essential: bool = True,
    best: Literal["high", "low", ""] = "",
) -> Column:
    """Declare a column. The default label is the name with spaces for underscores; the unit follows the label."""
    unit = unit or (POINTS if kind == POINTS else "")
    label_text = label or name[0].upper() + name[1:].replace("_", " ")
    label_text += f" ({unit or RANGES[kind]})" if unit or kind in RANGES else ""
    return Column(
        name=name,
        doc=doc,
        kind=kind,
        label=label_text,
        unit=unit,
        interval=interval,
        sd=sd,
        essential=essential,
        best=best,
    )


label = partial(column, kind="label")
letters = partial(column, kind="letters")
labels = partial(column, kind="labels")
flag = partial(column, kind="flag")
count = partial(column, kind="count")
share = partial(column, kind="share")
difference = partial(column, kind="difference")
points = partial(column, kind="points")
score = partial(column, kind="score")
p_value = partial(column, kind="p")
probability = partial(column, kind="probability")

TableData = Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""The data of a table: its columns, or its rows."""

AT_THRESHOLD = "at the threshold"
"""Note on a pair (of systems or metrics) whose p-value or probability is too close to the threshold of a decision,
given the Monte Carlo error.

Such a pair counts as undecided.
"""


@dataclass(frozen=True, kw_only=True)
class View:
    """A table as text, for a terminal, a paper or a page.

    `header`: the names of the columns. `labels`: the headings of the columns in papers (empty: the same as `header`).
    `numeric`: whether a column is aligned to the right. `best`: the (row, column) positions of the best values. `more`:
    a text that states what is not displayed.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...] = ()
    numeric: tuple[bool, ...] = ()
    best: frozenset[tuple[int, int]] = frozenset()
    more: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "numeric", self.numeric or (False,) * len(self.header))
        object.__setattr__(self, "labels", self.labels or self.header)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A declared table.

    `by` is the first column of labels. It is '' if there is no such column, and None for the column `BY` of the result.
    `essential`: the table is displayed by default. `order`: the column by which rows are sorted, the highest value
    first. `rows`: a function that selects the most relevant rows from the whole result. `compact`: a function that
    names the estimates in the compact LaTeX form. `view`: a function that replaces the default display.
    """

    doc: str
    columns: tuple[Column, ...]
    by: str | None = None
    essential: bool = True
    order: str = ""
    rows: Callable[[Any], pl.DataFrame] | None = None
    compact: Callable[[Any], Sequence[str]] | None = None
    view: Callable[[pl.DataFrame], Iterable[View]] | None = None

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Polars type of each column, by name."""
        return ({self.by: pl.String} if self.by else {}) | {
            column_name: TYPES.get(column.kind, pl.Float64) for column in self.columns for column_name in column.names
        }

    @cached_property
    def _empty_frame(self) -> pl.DataFrame:
        return pl.DataFrame(schema=self.schema)

    def frame(self, data: TableData, row_label: str = "", *, name: str) -> pl.DataFrame:
        """A frame with the declared columns.

        Parameters
        ----------
        data : mapping or iterable of mappings
            One mapping per row, or a single mapping from column names to values. The values are an array, a sequence,
            or a single value for all rows. NaN becomes null. Without data, the frame is empty.
        row_label : str
            The label of all rows, in the column `by` of the table.
        name : str
            Name of the table in messages.

        Raises
        ------
        ValueError
            If `data` lacks a declared column, or has an undeclared one.
        """
        if not isinstance(data, Mapping):
            data_rows = list(data)
            data = (
                {column_name: [data_row[column_name] for data_row in data_rows] for column_name in data_rows[0]}
                if data_rows
                else {}
            )
        if not data:
            return self._empty_frame.clone()
        values_of_column = ({self.by: row_label} if self.by else {}) | dict(data)
        missing_or_undeclared_names = sorted(values_of_column.keys() ^ self.schema.keys())
        if missing_or_undeclared_names:
            raise ValueError(
                f"table {name!r}: missing or undeclared columns {join_labels(missing_or_undeclared_names)}; declared "
                f"columns: {', '.join(self.schema)}"
            )
        n_rows = min(
            (
                column_values.size if isinstance(column_values, np.ndarray) else len(column_values)
                for column_values in values_of_column.values()
                if not _single(column_values)
            ),
            default=1,
        )
        return pl.DataFrame(
            [
                _series(column_name, values_of_column[column_name], dtype, n_rows)
                for column_name, dtype in self.schema.items()
            ]
        )

    def column(self, name: str) -> Column:
        """The declaration of a column."""
        return next(column for column in self.columns if column.name == name)


def table(doc: str, *columns: Column, **other_fields: Any) -> Any:
    """Declare a field of a result as a table. `other_fields` has values of fields of `Table`."""
    return field(metadata={TABLE: Table(doc=doc, columns=columns, **other_fields)})


def _single(value_or_values: Any) -> bool:
    return value_or_values is None or isinstance(value_or_values, str | bool | int | float | np.generic)


def _series(column_name: str, value_or_values: Any, dtype: Any, n_rows: int) -> pl.Series:
    if _single(value_or_values):
        return pl.Series(
            column_name, [None if value_or_values != value_or_values else value_or_values] * n_rows, dtype=dtype
        )
    if isinstance(value_or_values, np.ndarray):
        value_or_values = pl.Series(
            np.ascontiguousarray(value_or_values).ravel(), nan_to_null=value_or_values.dtype.kind == "f"
        )
    if isinstance(value_or_values, pl.Series):
        return pl.Series(column_name, value_or_values).cast(dtype)
    column_series = pl.Series(column_name, value_or_values, dtype=dtype)
    return column_series.fill_nan(None) if dtype == pl.Float64 else column_series


def with_interval(
    name: str, estimate_and_draws: Floats, confidence: float, *, clusters: float | Floats, bounds: intervals.Bounds
) -> dict[str, Floats]:
    """The columns of an estimate and of its interval bounds.

    Row 0 of `estimate_and_draws` (1 + B, ...) is the estimate; the other B rows come from resamples of clusters.
    `clusters` is the (effective) number of clusters, one for all or one for each estimate, and `bounds` the range of
    the statistic.
    """
    lower_bounds, upper_bounds = intervals.student_interval(
        estimate_and_draws, confidence=confidence, n_units=clusters, bounds=bounds
    )
    return {name: estimate_and_draws[0], f"{name}_low": lower_bounds, f"{name}_high": upper_bounds}


def with_sd(name: str, replicate_values: NDArray[Any]) -> dict[str, float]:
    """The mean over replications as a column, with the standard deviation (undefined for a single replication)."""
    return {
        name: replicate_values.mean(),
        f"{name}_sd": replicate_values.std(ddof=1) if len(replicate_values) > 1 else np.nan,
    }


def with_attributes(doc: str | None, tables: Mapping[str, Table]) -> str | None:
    """The docstring with a section Attributes, which describes the tables, their columns, the notes and the provenance.

    The section precedes the Examples. The result is None if docstrings are stripped.
    """
    if doc is None or not tables:
        return doc
    attribute_lines = ["Attributes", "----------"]
    for table_name, declaration in tables.items():
        attribute_lines += [f"{table_name} : polars.DataFrame", f"    {declaration.doc}", ""]
        attribute_lines += [f"    - `{', '.join(column.names)}`: {column.doc}" for column in declaration.columns]
    attribute_lines += [
        "notes : tuple of Note",
        "    What was left out or is undefined, and why.",
        "provenance : Provenance",
        "    Data, options, seed and versions; `replay` repeats the question.",
    ]
    description_text, *example_sections = re.split(r"^(?=Examples\n-+$)", inspect.cleandoc(doc), flags=re.MULTILINE)
    return "\n\n".join([description_text.rstrip(), "\n".join(attribute_lines), *example_sections])
