"""Slices of a study by a column, and a table that compares ratios between slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import count, difference, label, p_value, share, table
from custodes.data.labels import MOST_STEPS
from custodes.data.mapping.annotator_columns import parse_numbers
from custodes.data.mapping.cell_types import is_number
from custodes.data.notes import Note, build_notes
from custodes.data.panel import label_codes
from custodes.data.preferences import column_option
from custodes.data.study import Study
from custodes.errors import OptionError, join_labels, suggestion
from custodes.evaluate.comparable import label_of
from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.slices import FEWEST_PARTS, slice_tests

KEY = ["item", "system"]
QUARTERS = 4
"""Number of slices of a numeric column with many values."""
MOST_SLICES = 50
NOT_COMPARED = "slices-not-compared"

BY = "Column whose values define slices: group, dataset, cluster, or another column of items."


def slices_of(study: Study, outputs: pl.DataFrame, column: str) -> tuple[tuple[str, ...], Ints]:
    """Return the names of the slices of a column, and the position of the slice of each output (-1: empty value).

    A column of text, or of numbers with few values, has one slice per value. Other columns of numbers are split at
    quartiles.

    Parameters
    ----------
    study : Study
    outputs : DataFrame
        Item and system of each output.
    column : str
        `system`, a column of items, or an attribute of outputs.

    Raises
    ------
    OptionError
        If the study has no column with this name, or if the column has more than `MOST_SLICES` slices.
    """
    return _slices(outputs["system"] if column == "system" else values_of(study, outputs, column, ("system",)), column)


def values_of(
    study: Study, outputs: pl.DataFrame, column: str, further_columns: tuple[str, ...] = (), *, option: str = "by"
) -> pl.Series:
    """Return the values of a column of items, or of an attribute of outputs.

    Error messages list `further_columns` among the allowed columns.
    """
    attribute_names = [] if study.attributes is None else _attribute_names(study.attributes)
    if study.attributes is not None and column in attribute_names:
        attribute_rows = study.attributes.select(*KEY, _restore_numbers(study.attributes[column]))
        return outputs.join(attribute_rows, on=KEY, how="left", maintain_order="left")[column]
    item_table = study.items.frame
    item_column_names = [
        column_name
        for column_name in ("group", "dataset", "cluster")
        if column_name in item_table.columns and (item_table[column_name] != "").any()
    ]
    if column in item_column_names:
        return study.items.item_rows(outputs["item"])[column].replace("", None)
    allowed_column_names = [*further_columns, *attribute_names, *item_column_names]
    group_option_text = column_option("group", column)
    hint_text = f"; if the file has this column, read the file with {group_option_text} and set {option}='group'"
    raise OptionError(
        f"{option}={column!r}: no such column{suggestion(column, allowed_column_names)}; columns: "
        f"{join_labels(allowed_column_names) or 'none'}{'' if study.labels else hint_text}"
    )


def slices_of_items(study: Study, items: Sequence[str], column: str) -> tuple[tuple[str, ...], Ints]:
    """Return the slices of items by a column, for comparisons of systems.

    Raises
    ------
    OptionError
        If the study has no column with this name, the column has too many values, or outputs of one item differ in the
        column.
    """
    output_attributes, item_table = study.attributes, pl.DataFrame({"item": items}, schema={"item": pl.String})
    if column == "system":
        raise OptionError(
            "by='system' is not allowed, because a slice must contain comparisons of systems; give a column of items"
        )
    if output_attributes is None or column not in _attribute_names(output_attributes):
        return _slices(values_of(study, item_table, column), column)
    distinct_values_by_item = output_attributes.group_by("item").agg(pl.col(column).drop_nulls().unique())
    mixed_items = distinct_values_by_item.filter(pl.col(column).list.len() > 1)["item"].sort()
    if len(mixed_items):
        raise OptionError(
            f"by={column!r}: the outputs of {len(mixed_items)} items ({join_labels(mixed_items, limit=2)}) differ in "
            "this column, but all outputs of an item must be in one slice, so that systems can be compared; give a "
            "column of items"
        )
    item_values = item_table.join(
        distinct_values_by_item.with_columns(pl.col(column).list.first()),
        on="item",
        how="left",
        maintain_order="left",
    )[column]
    return _slices(_restore_numbers(item_values), column)


def check_slices(study: Study, selected_study: Study, column: str) -> None:
    """Raise `OptionError` if the column has no slices, or if the selected study has no metrics for a comparison."""
    slices_of_items(study, tuple(study.item_labels()), column)
    if not selected_study.metrics:
        raise OptionError(
            f"by={column!r} has no effect: slices are compared for metrics and judges, and {study.name} has none. To "
            "rank the systems on the items of one group, set group='NAME'"
        )


def _attribute_names(attributes: pl.DataFrame) -> list[str]:
    return [name for name in attributes.columns if name not in KEY]


def _slices(values: pl.Series, column: str) -> tuple[tuple[str, ...], Ints]:
    slice_edges = quartiles(values)
    names_of_slices = slice_names(values, slice_edges, column)
    return names_of_slices, slice_positions(values, slice_edges, names_of_slices)


def _restore_numbers(values: pl.Series) -> pl.Series:
    """Return a column of a text file as numbers, if it has many values and all of them are numbers."""
    has_many_numbers = values.dtype == pl.String and values.n_unique() > MOST_STEPS and is_number(values)
    return parse_numbers(values) if has_many_numbers else values


def quartiles(values: pl.Series) -> tuple[float, ...]:
    """Return the edges between slices of numbers with many values; empty for text and for numbers with few values."""
    if not values.dtype.is_numeric() or values.drop_nulls().n_unique() <= MOST_STEPS:
        return ()
    numeric_values = values.cast(pl.Float64)
    quantiles = (numeric_values.quantile(quarter_number / QUARTERS) for quarter_number in range(1, QUARTERS))
    return tuple(sorted({float(quantile or 0.0) for quantile in quantiles}))


def slice_names(values: pl.Series, edges: Sequence[float], column: str, *, option: str = "by") -> tuple[str, ...]:
    """Return the names of the slices: the ranges between edges, or the values if there are no edges."""
    if edges:
        edge_texts = [f"{edge:g}" for edge in edges]
        return (
            f"<= {edge_texts[0]}",
            *(f"{low_text} to {high_text}" for low_text, high_text in pairwise(edge_texts)),
            f"> {edge_texts[-1]}",
        )
    distinct_values = values.cast(pl.String).drop_nulls().unique().sort().to_list()
    if len(distinct_values) > MOST_SLICES:
        raise OptionError(
            f"{option}={column!r}: the column has {len(distinct_values)} different values, but at most "
            f"{MOST_SLICES} slices are allowed; give a column with fewer values"
        )
    return tuple(distinct_values)


def slice_positions(values: pl.Series, edges: Sequence[float], names: Sequence[str]) -> Ints:
    """Return the position of the slice of each value; -1 for an empty value and for a value without a slice."""
    if not edges:
        return label_codes(values.cast(pl.String), names)
    return np.where(
        values.is_null().to_numpy(),
        -1,
        np.searchsorted(edges, values.cast(pl.Float64).fill_null(np.nan).to_numpy(), side="left"),
    )


def slice_table(rater_column_name: str, doc: str, statistic_doc: str) -> Any:
    """Return the declaration of a table that compares ratios between slices.

    Parameters
    ----------
    rater_column_name : str
        Name of the column of raters.
    doc : str
        Description of the table.
    statistic_doc : str
        Description of the values of the column `statistic`.
    """
    return table(
        doc,
        label(rater_column_name, "name of the rater"),
        label("slice", "value (or range of values) of the column that `by` names"),
        label("statistic", statistic_doc),
        count("n", "number of items (or clusters) that have data in the slice", "n"),
        share("value", "the statistic in the slice", "Slice"),
        share("other", "the statistic in all other slices", "Others"),
        difference("difference", "`value` minus `other`", interval=True),
        p_value(
            "p_adjusted",
            "p-value of a permutation test that `difference` is 0, adjusted for all rows of the aspect. Null if "
            f"fewer than {FEWEST_PARTS} items or clusters have data in the slice or in the other slices",
            "p, all tested",
        ),
        label("finding", "`higher` or `lower` if `p_adjusted` is at most alpha; otherwise empty"),
    )


@dataclass(frozen=True, kw_only=True)
class Ratios:
    """Numerators and denominators of ratios over items (or outputs), for each rater and statistic.

    Attributes
    ----------
    labels : list of (str, str)
        Rater and statistic of each ratio.
    numerator, denominator : arrays of shape (ratios, items)
        The ratio of a slice is the sum of numerators divided by the sum of denominators. A denominator of 0 means that
        the item has no data.
    units : int array of shape (items,)
        Cluster of each item.
    """

    labels: list[tuple[str, str]]
    numerator: Floats
    denominator: Floats
    units: Ints


def slice_notes(column: str, ratios: Ratios, slices: tuple[tuple[str, ...], Ints], aspect: str) -> list[Note]:
    """Return a note with the reason if `slice_columns` has no rows; otherwise, a note on items that are in no slice."""
    names_of_slices, slice_of_item = slices
    nonempty_slice_names = [
        names_of_slices[slice_index] for slice_index in np.unique(slice_of_item[slice_of_item >= 0])
    ]
    reason = ""
    if len(nonempty_slice_names) < 2:
        values_text = f"only the value {nonempty_slice_names[0]!r}" if nonempty_slice_names else "no values"
        reason = f"the column {column!r} has {values_text}"
    elif not ratios.labels:
        reason = "no rater has verdicts in both orders, repeated verdicts or labels, or failures"
    elif not ratios.denominator.any():
        reason = "there is no comparison of two systems"
    if not reason:
        return no_slice_notes(column, slice_of_item, "items", aspect)
    return build_notes((NOT_COMPARED, True, f"slices are not compared{label_of(aspect)}: {reason}"), aspect=aspect)


def no_slice_notes(column: str, slice_positions: Ints, plural: str, aspect: str) -> list[Note]:
    """Return a note on the items or outputs (`plural`) that are in no slice, because their value is empty."""
    n_outside = int((slice_positions < 0).sum())
    return build_notes(
        ("no-slice", n_outside, f"{n_outside} {plural} without a value of {column!r} are in no slice"), aspect=aspect
    )


def slice_columns(
    rater_column_name: str, ratios: Ratios, slices: tuple[tuple[str, ...], Ints], *, confidence: float, alpha: float
) -> dict[str, Any]:
    """Return the columns of a table of slices; items of one cluster and slice are permuted together."""
    names_of_slices, slice_of_item = slices
    used_item_indices = np.flatnonzero(slice_of_item >= 0)
    nonempty_slice_codes, slice_of_used_item = np.unique(slice_of_item[used_item_indices], return_inverse=True)
    if len(nonempty_slice_codes) < 2 or not ratios.denominator.any():
        return {}
    n_units = int(ratios.units.max()) + 1
    unit_and_slice_codes, code_of_used_item = np.unique(
        slice_of_used_item * n_units + ratios.units[used_item_indices], return_inverse=True
    )
    numerator_sums, denominator_sums = (
        unit_sums(
            numerator_or_denominator[:, used_item_indices], units=code_of_used_item, n_units=len(unit_and_slice_codes)
        )
        for numerator_or_denominator in (ratios.numerator, ratios.denominator)
    )
    permutation_tests = slice_tests(
        numerator_sums, denominator_sums, unit_and_slice_codes // n_units, confidence=confidence
    )
    is_significant = permutation_tests.p_adjusted.ravel() <= alpha
    differences = permutation_tests.difference.ravel()
    rater_names, statistic_names = zip(*ratios.labels, strict=True)
    return {
        rater_column_name: np.repeat(rater_names, len(nonempty_slice_codes)).tolist(),
        "slice": [names_of_slices[slice_index] for slice_index in nonempty_slice_codes] * len(ratios.labels),
        "statistic": np.repeat(statistic_names, len(nonempty_slice_codes)).tolist(),
        "n": permutation_tests.n.ravel(),
        "value": permutation_tests.value.ravel(),
        "other": permutation_tests.other.ravel(),
        "difference": differences,
        "difference_low": np.maximum(permutation_tests.low.ravel(), -1.0),
        "difference_high": np.minimum(permutation_tests.high.ravel(), 1.0),
        "p_adjusted": permutation_tests.p_adjusted.ravel(),
        "finding": np.select([is_significant & (differences > 0), is_significant], ["higher", "lower"], "").tolist(),
    }
