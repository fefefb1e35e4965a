"""Counts of outputs with equal labels, computed inside a table engine from a table of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_, or_
from typing import Any

import narwhals as nw
import polars as pl

from custodes.arguments import check_arguments
from custodes.data.labels import MOST_STEPS, label_words
from custodes.data.mapping.column_vocabulary import KINDS, looks_human
from custodes.data.mapping.columns import Columns
from custodes.data.mapping.labels import LAYOUT_ROWS, MOST_WORDS, LabelLayout, label_layout
from custodes.data.table_engines import collect_rows, convert_engine_errors, indicator, lazy_rows, split_batches
from custodes.errors import InputError, OptionError, join_labels, reject, suggestion
from custodes.progress import Progress, silent

WHERE = "count_labels"

MOST_KINDS = 500
"""Maximum number of distinct combinations of system, labels and columns of `by`, if outputs share items or clusters."""

MOST_LABELS = 10_000
"""Maximum number of different labels of all raters and aspects, in a table with a row per label."""

MOST_CLUSTERS = 200_000
"""Maximum number of distinct clusters without human labels. Two clusters are distinct if their outputs differ in
system, labels or columns of `by`."""

MOST_VALUES = 50
"""Maximum number of distinct values of a column of `by`. For numbers the maximum is `MOST_STEPS`, since more numbers
would be grouped into quartiles."""

FURTHER_ROWS = 1_000
"""Number of further rows to read for a column that is constant in the first rows. Only rows with other values in this
column are read."""

COLUMNS = ("item", "system", "rater", "kind", "aspect", "repeat", "label", "invalid", "cluster", "probability")
"""Columns of the counts, before `n_outputs` and those of `by`."""


@check_arguments
@convert_engine_errors(WHERE)
def count_labels(
    table: Any,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    by: Sequence[str] = (),
    name: str = "labels",
    batches: int | None = None,
    progress: Progress = silent,
) -> pl.DataFrame:
    """Count the outputs with equal labels in the engine of the table. `rates` reads the result.

    Parameters
    ----------
    table : table
        Labels in a layout that `read` accepts, in any dataframe that Narwhals supports: a Polars scan, a DuckDB
        relation, pandas and others.
    columns : mapping, optional
        Roles of columns, as for `read`.
    by : sequence of str
        Columns to keep, so that `rates` can give results for slices.
    name : str
        Name of the system if the table has no system names. The names of items that stand for several outputs begin
        with this name.
    batches : int, optional
        Number of batches of items, for Polars only (default: by the number of rows).
    progress : progress
        Progress bar.

    Returns
    -------
    DataFrame
        A row per output and label: `item, system, rater, kind, aspect, label, n_outputs` and others. Each output with a
        human label, and each output in the cluster of such an output, has its own rows. Every other row stands for
        `n_outputs` equal outputs, or for one output in each of `n_outputs` equal clusters.

    Raises
    ------
    InputError
        For a table without labels, an output that occurs twice, or a column with many different values.
    OptionError
        For an unknown column.

    Examples
    --------
    >>> import custodes as cu
    >>> labels = {"id": range(5), "judge": ["pass"] * 3 + ["fail"] * 2, "human": ["pass", None, None, None, None]}
    >>> counts = count_labels(pl.LazyFrame(labels))
    >>> counts.select("item", "rater", "label", "n_outputs").rows()
    [('0', 'human', 'pass', 1), ('0', 'judge', 'pass', 1), ('labels 1', 'judge', 'fail', 2), ('labels 2', 'judge', \
'pass', 2)]
    >>> cu.rates(counts).rates["n"].item()
    5
    """
    rows = lazy_rows(table, where=WHERE)
    plan = _build_plan(rows, _infer_layout(rows, Columns.make(columns or {})), by=tuple(by), name=name)
    batch_column = plan.layout.cluster or plan.layout.item
    row_batches = split_batches(rows, batch_column, batches, where=WHERE) if batch_column else [rows]
    batch_counts = [
        plan.count_outputs(row_batch)
        for row_batch in progress(row_batches, total=len(row_batches), desc="counting labels")
    ]
    single_rows, kind_counts = (pl.concat(frames) for frames in zip(*batch_counts, strict=True))
    return plan.label_rows(single_rows, plan.representatives(kind_counts))


def _infer_layout(rows: nw.LazyFrame[Any], columns: Columns) -> LabelLayout:
    """The layout of the labels. It is derived from the first rows, and from further rows for columns that are constant
    in the first rows."""
    flat_columns = [name for name, kind in rows.collect_schema().items() if not kind.is_nested()]
    first_rows = collect_rows(rows.select(flat_columns).head(LAYOUT_ROWS))
    samples = [first_rows]
    for name in flat_columns:
        seen_values = first_rows[name].drop_nulls().unique()
        if seen_values.len() <= 1 and first_rows.height == LAYOUT_ROWS:
            is_unseen_value = reduce(and_, [nw.col(name) != value for value in seen_values], ~nw.col(name).is_null())
            samples.append(collect_rows(rows.select(flat_columns).filter(is_unseen_value).head(FURTHER_ROWS)))
    sample = pl.concat(samples, how="vertical_relaxed").unique(maintain_order=True)
    layout = label_layout(sample, columns)
    if layout is None:
        raise InputError(
            f"{WHERE}: the table has no column of labels ({join_labels(flat_columns)}); name the columns of labels, "
            "as in columns={'score': ['human:{rater:sme}', 'metric:{rater:grader}']}"
        )
    reject(
        (
            layout.repeat and sample[layout.repeat].n_unique() > 1,
            f"{WHERE}: column {layout.repeat!r} numbers repeats; keep the rows of one repeat only",
        ),
        (
            layout.cluster and not layout.item,
            f"{WHERE}: clusters hold several outputs, and no column identifies these outputs; name such a column "
            "with item=NAME",
        ),
        (
            layout.n_outputs,
            f"{WHERE}: column {layout.n_outputs!r} holds counts, so the outputs are counted already; pass the table "
            "to the function rates",
        ),
        error=InputError,
    )
    return layout


@dataclass(frozen=True, kw_only=True)
class _Rater:
    """A rater in one aspect: the expression for the label of a row (null: no label), and the distinct labels."""

    name: str
    kind: str
    aspect: str
    label: nw.Expr
    values: pl.Series


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """How outputs are counted.

    Attributes
    ----------
    rows : table
        All rows.
    layout : LabelLayout
    raters : mapping of str to _Rater
        The raters, by the name of the column of labels in `outputs`.
    by : tuple of str
        Columns that are kept.
    unit : str
        Column that groups dependent outputs: `cluster` if there are clusters, `item` if there are several systems, else
        ''.
    name : str
        Name of the system if the table has no system names. The names of items that stand for several outputs begin
        with this name.
    """

    rows: nw.LazyFrame[Any]
    layout: LabelLayout
    raters: Mapping[str, _Rater]
    by: tuple[str, ...]
    unit: str
    name: str

    def outputs(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """A row per output: item, system, cluster, probability, columns of `by`, a column for each rater, and `n`.

        `n` is the number of times that the output occurs: the number of rows in a table with one column per rater, and
        the largest number of labels by one rater in a table with one row per label.
        """
        layout = self.layout
        key = {"system": _system_expression(layout, self.name)}
        if layout.item:
            key["item"] = nw.col(layout.item).cast(nw.String)
        kept_columns = {name: nw.col(name) for name in self.by}
        if layout.cluster:
            cluster = nw.col(layout.cluster).cast(nw.String).fill_null("")
            own_cluster = nw.concat_str(nw.lit("item "), key["item"])
            kept_columns["cluster"] = nw.when(cluster == "").then(own_cluster).otherwise(cluster)
        if layout.probability:
            kept_columns["probability"] = nw.col(layout.probability)
        labels = {column: rater.label for column, rater in self.raters.items()}
        table = rows.select(**key, **kept_columns, **labels)
        if not layout.item:
            return table.with_columns(n=nw.lit(1))
        label_indicators = {f"n_{name}": indicator(~nw.col(name).is_null()) for name in labels}
        grouped_outputs = (
            table.with_columns(**label_indicators, n_rows=nw.lit(1))
            .group_by(*key)
            .agg(
                *(nw.col(name).max() for name in (*kept_columns, *labels)),
                *(nw.col(n_occurrences).sum() for n_occurrences in (*label_indicators, "n_rows")),
            )
        )
        # In a table with a row per label, an output has several rows, but one label of each rater.
        n_occurrences = nw.max_horizontal(*label_indicators) if layout.label else nw.col("n_rows")
        return grouped_outputs.with_columns(n=n_occurrences).drop(*label_indicators, "n_rows")

    @property
    def key(self) -> list[str]:
        """The columns that decide whether two outputs without a human label are equal."""
        return ["system", *self.by, *(name for name, rater in self.raters.items() if rater.kind != "human")]

    @property
    def has_label(self) -> nw.Expr:
        """Whether an output has a human label."""
        labels_of_column = {
            name: rater.values.filter(label_words(rater.values).is_not_null()).to_list()
            for name, rater in self.raters.items()
            if rater.kind == "human"
        }
        has_labels = [
            nw.col(name).is_in(labels).fill_null(False) for name, labels in labels_of_column.items() if labels
        ]
        return reduce(or_, has_labels, nw.lit(False))

    @cached_property
    def kinds(self) -> pl.DataFrame:
        """One row per combination of values of the columns `key` among the outputs without a human label."""
        distinct_keys = self.outputs(self.rows).filter(~self.has_label).select(self.key).unique()
        kinds = collect_rows(distinct_keys.head(MOST_KINDS + 1)).sort(self.key)
        if kinds.height > MOST_KINDS:
            raise InputError(
                f"{WHERE}: more than {MOST_KINDS} different combinations of system, labels and {join_labels(self.by)}; "
                "give fewer columns in by="
            )
        return kinds

    def count_outputs(self, rows: nw.LazyFrame[Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Two tables. The first has the outputs with a human label, and all other outputs of their clusters. The second
        has one row, with the size `n`, for each set of equal outputs (or of equal clusters) among the remaining
        outputs."""
        outputs = self.outputs(rows)
        if self.layout.item:
            for row in collect_rows(outputs.filter(nw.col("n") > 1).head(1)).iter_rows(named=True):
                raise InputError(
                    f"{WHERE}: the output of {row['system']} for item {row['item']!r} occurs {row['n']} times; name "
                    "another column with item=NAME, or count one run"
                )
        outputs = outputs.drop("n")
        if not self.unit:
            key_counts = outputs.filter(~self.has_label).group_by(self.key).agg(nw.len().alias("n"))
            return collect_rows(outputs.filter(self.has_label)), collect_rows(key_counts)
        labelled_units = outputs.filter(self.has_label).select(self.unit).unique()
        unlabelled_outputs = outputs.join(labelled_units, on=self.unit, how="anti")
        kind_indicators = {
            f"kind{k}": indicator(_has_values(values_of_column))
            for k, values_of_column in enumerate(self.kinds.iter_rows(named=True))
        }
        cluster_kinds = (
            unlabelled_outputs.select(self.unit, **kind_indicators)
            .group_by(self.unit)
            .agg(*(nw.col(n).sum() for n in kind_indicators))
        )
        cluster_counts = cluster_kinds.group_by(*kind_indicators).agg(nw.len().alias("n"))
        return collect_rows(outputs.join(labelled_units, on=self.unit, how="semi")), collect_rows(cluster_counts)

    def representatives(self, kinds: pl.DataFrame) -> pl.DataFrame:
        """One row for each set of equal outputs. For a set of equal clusters, one row for each output of one of these
        clusters. `n_outputs` is the size of the set."""
        kind_columns = [name for name in kinds.columns if name != "n"]
        kinds = kinds.group_by(kind_columns).agg(n_outputs=pl.col("n").sum()).sort(kind_columns, nulls_last=True)
        kinds = kinds.with_columns(unit=pl.format("{} {}", pl.lit(self.name), pl.int_range(1, pl.len() + 1)))
        if not self.unit:
            return kinds.rename({"unit": "item"})
        if kinds.height > MOST_CLUSTERS:
            raise InputError(
                f"{WHERE}: more than {MOST_CLUSTERS} different clusters without a human label (clusters can differ "
                "in systems, labels and columns of by=); give fewer columns in by="
            )
        rows = (
            kinds.unpivot(kind_columns, index=["unit", "n_outputs"], variable_name="place", value_name="times")
            .filter(pl.col("times") > 0)
            .select(pl.exclude("times").repeat_by("times").explode())
            .join(self.kinds.with_columns(place=pl.format("kind{}", pl.int_range(pl.len()))), on="place")
            .sort("unit", "place")
        )
        if self.unit == "item":
            return rows.rename({"unit": "item"})
        item = pl.format("{}.{}", "unit", pl.int_range(1, pl.len() + 1).over("unit"))
        return rows.with_columns(item=item).rename({"unit": "cluster"})

    def label_rows(self, single_outputs: pl.DataFrame, representatives: pl.DataFrame) -> pl.DataFrame:
        """A row per output and label."""
        if not self.layout.item:
            item = pl.format("{} with human label {}", pl.lit(self.name), pl.int_range(1, pl.len() + 1))
            single_outputs = single_outputs.with_columns(item=item)
        rows = pl.concat([single_outputs.with_columns(n_outputs=pl.lit(1)), representatives], how="diagonal_relaxed")
        rows = rows.sort("system", "item")  # engines return rows in any order
        label_tables = [
            rows.select(
                *(name for name in (*COLUMNS, "n_outputs", *self.by) if name in rows.columns),
                rater=pl.lit(rater.name),
                kind=pl.lit(rater.kind),
                aspect=pl.lit(rater.aspect),
                repeat=pl.lit(""),
                label=label_words(rows[name]),
                invalid=pl.lit(""),
            )
            for name, rater in self.raters.items()
        ]
        table = pl.concat(label_tables).drop_nulls("label")
        return table.select(name for name in (*COLUMNS, "n_outputs", *self.by) if name in table.columns)


def _build_plan(rows: nw.LazyFrame[Any], layout: LabelLayout, *, by: tuple[str, ...], name: str) -> _Plan:
    """The plan of counting a table."""
    columns = rows.collect_schema().names()
    for column in by:
        reject(
            (column not in columns, f"{WHERE}: by={column!r}: no such column{suggestion(column, columns)}"),
            (
                column in {*COLUMNS, "n_outputs", layout.item, *layout.systems, *layout.assigned_columns},
                f"{WHERE}: by={column!r}: this column has a reserved name or another role; leave the column out of by",
            ),
        )
        column_values = collect_rows(rows.select(column).unique().head(MOST_VALUES + 1)).to_series().drop_nulls()
        max_values = MOST_STEPS if column_values.dtype.is_numeric() else MOST_VALUES
        if column_values.len() > max_values:
            raise OptionError(
                f"{WHERE}: by={column!r} has more than {max_values} different values; give a column with fewer "
                "values, such as a column of groups"
            )
    n_systems = collect_rows(rows.select(system=_system_expression(layout, name)).unique().head(2)).height
    raters = _raters_of_rows(rows, layout) if layout.label else _raters_of_columns(rows, layout)
    return _Plan(
        rows=rows,
        layout=layout,
        raters={f"label{k}": rater for k, rater in enumerate(raters)},
        by=by,
        unit="cluster" if layout.cluster else "item" if n_systems > 1 else "",
        name=name,
    )


def _has_values(value_of_column: Mapping[str, Any]) -> nw.Expr:
    """Whether a row has these values."""
    return reduce(
        and_,
        [nw.col(name).is_null() if value is None else nw.col(name) == value for name, value in value_of_column.items()],
    )


def _system_expression(layout: LabelLayout, name: str) -> nw.Expr:
    """The system of each row."""
    if not layout.systems:
        return nw.lit(name)
    return nw.concat_str(*(nw.col(column).cast(nw.String) for column in layout.systems), separator=" ")


def _check_few_values(values: pl.Series, *, max_values: int = MOST_WORDS) -> pl.Series:
    """The distinct values of a column. Too many values for a column of labels raise `InputError`."""
    if values.len() > max_values:
        raise InputError(
            f"{WHERE}: column {values.name!r} has more than {max_values} different values, but only labels can be "
            "counted, "
            "not scores or texts; give a column of labels, or pass a sample of the table to the function rates"
        )
    return values


def _raters_of_columns(rows: nw.LazyFrame[Any], layout: LabelLayout) -> Iterator[_Rater]:
    """The raters of a table with one column per rater."""
    for column in (*layout.human, *layout.metrics):
        values = _check_few_values(collect_rows(rows.select(column).unique().head(MOST_WORDS + 1)).to_series())
        rater, aspect = layout.criteria.get(column, (column, ""))
        kind = "human" if column in layout.human else "metric"
        yield _Rater(name=rater, kind=kind, aspect=aspect, label=nw.col(column), values=values)


def _raters_of_rows(rows: nw.LazyFrame[Any], layout: LabelLayout) -> Iterator[_Rater]:
    """The raters of a table with a row per label."""
    key_columns = [name for name in dict.fromkeys((layout.rater or layout.kind, layout.kind, layout.aspect)) if name]
    survey = collect_rows(rows.select(*key_columns, layout.label).unique().head(MOST_LABELS))
    _check_few_values(survey[layout.label], max_values=MOST_LABELS - 1)
    for key_values, rater_rows in survey.sort(key_columns).group_by(key_columns, maintain_order=True):
        value_of_column = dict(zip(key_columns, key_values, strict=True))
        rater = str(value_of_column[layout.rater or layout.kind])
        kind = KINDS.get(str(label_words(pl.Series([value_of_column[layout.kind]]))[0]), "")
        yield _Rater(
            name=rater,
            kind=kind or ("human" if looks_human(rater) else "metric"),
            aspect=str(value_of_column.get(layout.aspect) or ""),
            label=nw.when(_has_values(value_of_column)).then(nw.col(layout.label)),
            values=_check_few_values(rater_rows[layout.label]),
        )
