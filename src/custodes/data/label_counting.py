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
from custodes.data.mapping.label_layout import LabelLayout
from custodes.data.mapping.labels import LAYOUT_ROWS, MOST_WORDS, label_layout
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
"""Maximum number of distinct values of a column of `by`. For numbers, the maximum is `MOST_STEPS`, because a column
with more numbers would be grouped into quartiles."""

FURTHER_ROWS = 1_000
"""If a column is constant in the first rows, this number of further rows with other values in the column is read."""

COLUMNS = ("item", "system", "rater", "kind", "aspect", "repeat", "label", "invalid", "cluster", "probability")
"""Columns of the counts, before `n_outputs` and the columns of `by`."""


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
        human label has separate rows, and so has each output in its cluster. Every other row stands for `n_outputs`
        equal outputs, or for one output in each of `n_outputs` equal clusters.

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
    counting_plan = _build_plan(
        rows, _infer_layout(rows, Columns.make(columns or {})), by=tuple(by), default_system_name=name
    )
    batch_column_name = counting_plan.layout.cluster or counting_plan.layout.item
    row_batches = split_batches(rows, batch_column_name, batches, where=WHERE) if batch_column_name else [rows]
    individual_output_rows, output_kind_count_rows = (
        pl.concat(frames_of_batches)
        for frames_of_batches in zip(
            *[
                counting_plan.count_outputs(row_batch)
                for row_batch in progress(row_batches, total=len(row_batches), desc="counting labels")
            ],
            strict=True,
        )
    )
    return counting_plan.label_rows(individual_output_rows, counting_plan.representatives(output_kind_count_rows))


def _infer_layout(rows: nw.LazyFrame[Any], columns: Columns) -> LabelLayout:
    """The layout of the labels. The layout is derived from the first rows, and from further rows for columns that are
    constant in the first rows."""
    flat_column_names = [
        column_name for column_name, column_type in rows.collect_schema().items() if not column_type.is_nested()
    ]
    first_rows = collect_rows(rows.select(flat_column_names).head(LAYOUT_ROWS))
    sample_frames = [first_rows]
    for column_name in flat_column_names:
        distinct_first_values = first_rows[column_name].drop_nulls().unique()
        if distinct_first_values.len() <= 1 and first_rows.height == LAYOUT_ROWS:
            has_new_value = reduce(
                and_,
                [nw.col(column_name) != first_value for first_value in distinct_first_values],
                ~nw.col(column_name).is_null(),
            )
            sample_frames.append(collect_rows(rows.select(flat_column_names).filter(has_new_value).head(FURTHER_ROWS)))
    sample_rows = pl.concat(sample_frames, how="vertical_relaxed").unique(maintain_order=True)
    layout = label_layout(sample_rows, columns)
    if layout is None:
        raise InputError(
            f"{WHERE}: the table has no column of labels ({join_labels(flat_column_names)}); name the columns of "
            "labels, as in columns={'score': ['human:{rater:sme}', 'metric:{rater:grader}']}"
        )
    reject(
        (
            layout.repeat and sample_rows[layout.repeat].n_unique() > 1,
            f"{WHERE}: column {layout.repeat!r} numbers repeats; keep the rows of one repeat only",
        ),
        (
            layout.rater and not layout.label,
            f"{WHERE}: an output has several rows, one per review (column {layout.rater!r}); keep one row per output, "
            "or pass the table to the function rates",
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
    """A rater in one aspect: the expression for the label of a row, and the distinct values of cells with a label. The
    expression is null for a row without a label."""

    name: str
    kind: str
    aspect: str
    label_expression: nw.Expr
    label_values: list[Any]


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
        Column that groups dependent outputs. It is `cluster` if there are clusters, `item` if there are several
        systems, and otherwise ''.
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

        `n` is the number of times that the output occurs. In a table with one column per rater, this is the number of
        rows. In a table with one row per label, it is the largest number of labels by one rater.
        """
        layout = self.layout
        expression_of_key = {"system": _system_expression(layout, self.name)}
        if layout.item:
            expression_of_key["item"] = nw.col(layout.item).cast(nw.String)
        expression_of_attribute = {column_name: nw.col(column_name) for column_name in self.by}
        if layout.cluster:
            cluster_expression = nw.col(layout.cluster).cast(nw.String).fill_null("")
            expression_of_attribute["cluster"] = (
                nw.when(cluster_expression == "")
                .then(nw.concat_str(nw.lit("item "), expression_of_key["item"]))
                .otherwise(cluster_expression)
            )
        if layout.probability:
            expression_of_attribute["probability"] = nw.col(layout.probability)
        expression_of_label = {
            column_name: column_rater.label_expression for column_name, column_rater in self.raters.items()
        }
        projected_rows = rows.select(**expression_of_key, **expression_of_attribute, **expression_of_label)
        if not layout.item:
            return projected_rows.with_columns(n=nw.lit(1))
        expression_of_indicator = {
            f"n_{column_name}": indicator(~nw.col(column_name).is_null()) for column_name in expression_of_label
        }
        # In a table with a row per label, an output has several rows, but one label of each rater.
        return (
            projected_rows.with_columns(**expression_of_indicator, n_rows=nw.lit(1))
            .group_by(*expression_of_key)
            .agg(
                *(nw.col(column_name).max() for column_name in (*expression_of_attribute, *expression_of_label)),
                *(nw.col(column_name).sum() for column_name in (*expression_of_indicator, "n_rows")),
            )
            .with_columns(n=nw.max_horizontal(*expression_of_indicator) if layout.label else nw.col("n_rows"))
            .drop(*expression_of_indicator, "n_rows")
        )

    @property
    def key_column_names(self) -> list[str]:
        """The columns that decide whether two outputs without a human label are equal."""
        return [
            "system",
            *self.by,
            *(
                label_column_name
                for label_column_name, column_rater in self.raters.items()
                if column_rater.kind != "human"
            ),
        ]

    @property
    def has_human_label(self) -> nw.Expr:
        """Whether an output has a human label."""
        return reduce(
            or_,
            [
                nw.col(column_name).is_in(column_rater.label_values).fill_null(False)
                for column_name, column_rater in self.raters.items()
                if column_rater.kind == "human" and column_rater.label_values
            ],
            nw.lit(False),
        )

    @cached_property
    def output_kinds(self) -> pl.DataFrame:
        """One row per combination of values of the columns `key_column_names` among the outputs without a human
        label."""
        kind_rows = collect_rows(
            self.outputs(self.rows)
            .filter(~self.has_human_label)
            .select(self.key_column_names)
            .unique()
            .head(MOST_KINDS + 1)
        ).sort(self.key_column_names)
        if kind_rows.height > MOST_KINDS:
            raise InputError(
                f"{WHERE}: more than {MOST_KINDS} different combinations of system, labels and {join_labels(self.by)}; "
                "give fewer columns in by="
            )
        return kind_rows

    def count_outputs(self, rows: nw.LazyFrame[Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Two tables. The first has the outputs with a human label, and all other outputs of their clusters. The second
        has one row, with the size `n`, for each set of equal outputs (or of equal clusters) among the remaining
        outputs."""
        output_rows = self.outputs(rows)
        if self.layout.item:
            for duplicate_output_row in collect_rows(output_rows.filter(nw.col("n") > 1).head(1)).iter_rows(named=True):
                raise InputError(
                    f"{WHERE}: the output of {duplicate_output_row['system']} for item "
                    f"{duplicate_output_row['item']!r} occurs {duplicate_output_row['n']} times; name another column "
                    "with item=NAME, or count one run"
                )
        output_rows = output_rows.drop("n")
        if not self.unit:
            return collect_rows(output_rows.filter(self.has_human_label)), collect_rows(
                output_rows.filter(~self.has_human_label).group_by(self.key_column_names).agg(nw.len().alias("n"))
            )
        human_labelled_unit_rows = output_rows.filter(self.has_human_label).select(self.unit).unique()
        indicator_of_kind_column = {
            f"kind{kind_index}": indicator(_has_values(value_of_column))
            for kind_index, value_of_column in enumerate(self.output_kinds.iter_rows(named=True))
        }
        return collect_rows(output_rows.join(human_labelled_unit_rows, on=self.unit, how="semi")), collect_rows(
            output_rows.join(human_labelled_unit_rows, on=self.unit, how="anti")
            .select(self.unit, **indicator_of_kind_column)
            .group_by(self.unit)
            .agg(*(nw.col(kind_column_name).sum() for kind_column_name in indicator_of_kind_column))
            .group_by(*indicator_of_kind_column)
            .agg(nw.len().alias("n"))
        )

    def representatives(self, kind_counts: pl.DataFrame) -> pl.DataFrame:
        """One row for each set of equal outputs. For a set of equal clusters, one row for each output of one of these
        clusters. `n_outputs` is the size of the set."""
        kind_column_names = [column_name for column_name in kind_counts.columns if column_name != "n"]
        kind_counts = (
            kind_counts.group_by(kind_column_names)
            .agg(n_outputs=pl.col("n").sum())
            .sort(kind_column_names, nulls_last=True)
            .with_columns(unit=pl.format("{} {}", pl.lit(self.name), pl.int_range(1, pl.len() + 1)))
        )
        if not self.unit:
            return kind_counts.rename({"unit": "item"})
        if kind_counts.height > MOST_CLUSTERS:
            raise InputError(
                f"{WHERE}: more than {MOST_CLUSTERS} different clusters without a human label (clusters can differ "
                "in systems, labels and columns of by=); give fewer columns in by="
            )
        representative_rows = (
            kind_counts.unpivot(
                kind_column_names, index=["unit", "n_outputs"], variable_name="place", value_name="times"
            )
            .filter(pl.col("times") > 0)
            .select(pl.exclude("times").repeat_by("times").explode())
            .join(self.output_kinds.with_columns(place=pl.format("kind{}", pl.int_range(pl.len()))), on="place")
            .sort("unit", "place")
        )
        if self.unit == "item":
            return representative_rows.rename({"unit": "item"})
        return representative_rows.with_columns(
            item=pl.format("{}.{}", "unit", pl.int_range(1, pl.len() + 1).over("unit"))
        ).rename({"unit": "cluster"})

    def label_rows(self, individual_output_rows: pl.DataFrame, representative_rows: pl.DataFrame) -> pl.DataFrame:
        """A row per output and label."""
        if not self.layout.item:
            individual_output_rows = individual_output_rows.with_columns(
                item=pl.format("{} with human label {}", pl.lit(self.name), pl.int_range(1, pl.len() + 1))
            )
        output_rows = pl.concat(
            [individual_output_rows.with_columns(n_outputs=pl.lit(1)), representative_rows], how="diagonal_relaxed"
        )
        output_rows = output_rows.sort("system", "item")  # engines return rows in any order
        # Missing labels of judges are kept, because these outputs count in rates.
        label_table = pl.concat(
            [
                output_rows.select(
                    *(
                        column_name
                        for column_name in (*COLUMNS, "n_outputs", *self.by)
                        if column_name in output_rows.columns
                    ),
                    rater=pl.lit(column_rater.name),
                    kind=pl.lit(column_rater.kind),
                    aspect=pl.lit(column_rater.aspect),
                    repeat=pl.lit(""),
                    label=label_words(output_rows[column_name]),
                    invalid=pl.lit(""),
                )
                for column_name, column_rater in self.raters.items()
            ]
        ).filter(pl.col("label").is_not_null() | (pl.col("kind") == "metric"))
        return label_table.select(
            column_name for column_name in (*COLUMNS, "n_outputs", *self.by) if column_name in label_table.columns
        )


def _build_plan(
    rows: nw.LazyFrame[Any], layout: LabelLayout, *, by: tuple[str, ...], default_system_name: str
) -> _Plan:
    """The plan of counting a table."""
    column_names = rows.collect_schema().names()
    for column_name in by:
        reject(
            (
                column_name not in column_names,
                f"{WHERE}: by={column_name!r}: no such column{suggestion(column_name, column_names)}",
            ),
            (
                column_name in {*COLUMNS, "n_outputs", layout.item, *layout.systems, *layout.assigned_columns},
                f"{WHERE}: by={column_name!r}: this column has a reserved name or another role; leave the column out "
                "of by",
            ),
        )
        distinct_values = collect_rows(rows.select(column_name).unique().head(MOST_VALUES + 1)).to_series().drop_nulls()
        max_distinct_values = MOST_STEPS if distinct_values.dtype.is_numeric() else MOST_VALUES
        if distinct_values.len() > max_distinct_values:
            raise OptionError(
                f"{WHERE}: by={column_name!r} has more than {max_distinct_values} different values; give a column with "
                "fewer values, such as a column of groups"
            )
    system_rows = collect_rows(
        rows.select(_system_expression(layout, default_system_name).alias("system")).unique().head(2)
    )
    return _Plan(
        rows=rows,
        layout=layout,
        raters={
            f"label{rater_index}": column_rater
            for rater_index, column_rater in enumerate(
                _raters_of_rows(rows, layout) if layout.label else _raters_of_columns(rows, layout)
            )
        },
        by=by,
        unit="cluster" if layout.cluster else "item" if system_rows.height > 1 else "",
        name=default_system_name,
    )


def _has_values(value_of_column: Mapping[str, Any]) -> nw.Expr:
    """Whether a row has these values."""
    return reduce(
        and_,
        [
            nw.col(column_name).is_null() if cell_value is None else nw.col(column_name) == cell_value
            for column_name, cell_value in value_of_column.items()
        ],
    )


def _system_expression(layout: LabelLayout, default_system_name: str) -> nw.Expr:
    """The system of each row."""
    if not layout.systems:
        return nw.lit(default_system_name)
    return nw.concat_str(*(nw.col(column_name).cast(nw.String) for column_name in layout.systems), separator=" ")


def _label_values(distinct_values: pl.Series, *, max_values: int = MOST_WORDS) -> list[Any]:
    """The distinct values of a column that hold a label. Too many values for a column of labels raise `InputError`."""
    if distinct_values.len() > max_values:
        raise InputError(
            f"{WHERE}: column {distinct_values.name!r} has more than {max_values} different values, but only labels "
            "can be counted, not scores or texts; give a column of labels, or pass a sample of the table to the "
            "function rates"
        )
    return distinct_values.filter(label_words(distinct_values).is_not_null()).to_list()


def _raters_of_columns(rows: nw.LazyFrame[Any], layout: LabelLayout) -> Iterator[_Rater]:
    """The raters of a table with one column per rater."""
    for column_name in (*layout.human, *layout.metrics):
        rater_name, aspect = layout.criteria.get(column_name, (column_name, ""))
        yield _Rater(
            name=rater_name,
            kind="human" if column_name in layout.human else "metric",
            aspect=aspect,
            label_expression=nw.col(column_name),
            label_values=_label_values(
                collect_rows(rows.select(column_name).unique().head(MOST_WORDS + 1)).to_series()
            ),
        )


def _raters_of_rows(rows: nw.LazyFrame[Any], layout: LabelLayout) -> Iterator[_Rater]:
    """The raters of a table with a row per label."""
    key_column_names = [
        column_name
        for column_name in dict.fromkeys((layout.rater or layout.kind, layout.kind, layout.aspect))
        if column_name
    ]
    label_combination_rows = collect_rows(rows.select(*key_column_names, layout.label).unique().head(MOST_LABELS))
    _label_values(label_combination_rows[layout.label], max_values=MOST_LABELS - 1)  # refuses too many
    for key_combination, rater_rows in label_combination_rows.sort(key_column_names).group_by(
        key_column_names, maintain_order=True
    ):
        value_of_column = dict(zip(key_column_names, key_combination, strict=True))
        rater_name = str((layout.rater and value_of_column[layout.rater]) or value_of_column[layout.kind])
        yield _Rater(
            name=rater_name,
            kind=KINDS.get(str(label_words(pl.Series([value_of_column[layout.kind]]))[0]), "")
            or ("human" if looks_human(rater_name) else "metric"),
            aspect=str(value_of_column.get(layout.aspect) or ""),
            label_expression=nw.when(_has_values(value_of_column)).then(nw.col(layout.label)),
            label_values=_label_values(rater_rows[layout.label]),
        )
