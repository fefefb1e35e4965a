"""Score columns of a wide table: their labels, and the long table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from custodes.data.mapping.column_vocabulary import AVERAGES, GENERIC, SCORERS, looks_human, split_name, stem
from custodes.data.mapping.pattern import ColumnPattern, UnfitError
from custodes.data.notes import Note, build_notes
from custodes.data.table import check_unique, count_filled_cells, label_column, number_column
from custodes.errors import InputError, OptionError, join_labels

ROW_KEYS = ("item", "system", "rater", "aspect", "kind", "repeat")
"""Possible keys of the rows of a wide table."""


MAX_LISTED = 20
"""Maximum number of columns in an error message."""


def melt_patterns(
    mapped: pl.DataFrame, split: Mapping[str, tuple[ColumnPattern, dict[str, str]]], *, where: str
) -> tuple[pl.DataFrame, list[Note]]:
    """The long table of the score columns, and notes on columns that are not used."""
    keys = [name for name in ROW_KEYS if name in mapped.columns]
    has_system = all("system" in labels_of_column for _, labels_of_column in split.values())
    for name in ("item",) if has_system else ("item", "system"):
        if name not in keys:
            raise UnfitError(
                f"{where}: the patterns match score columns, but no column has the role {name}; map one, as in "
                f"{name}=NAME. Columns: {join_labels(mapped.columns, limit=MAX_LISTED)}"
            )
    labels_of_column = {
        name: _column_labels(pattern, column_labels, name, keys) for name, (pattern, column_labels) in split.items()
    }
    text_columns = [
        name
        for name in labels_of_column
        if count_filled_cells(mapped[name])[0] and not count_filled_cells(mapped[name])[1]
    ]
    labels_of_column = {
        name: column_labels for name, column_labels in labels_of_column.items() if name not in text_columns
    }
    if not labels_of_column:
        raise InputError(
            f"{where}: no column matched by the patterns holds a number ({join_labels(text_columns)}); name the score "
            "columns"
        )
    _check_people(split, labels_of_column, where=where)
    _check_distinct(labels_of_column, where=where)
    unused_columns = [name for name in mapped.columns if name not in keys and name not in split]
    notes = build_notes(
        ("unused-columns", len(unused_columns), f"{where}: columns not used: {join_labels(unused_columns)}"),
        *unused_people_notes(mapped, unused_columns, where=where),
        (
            "text-columns",
            len(text_columns),
            f"{where}: columns matched by a pattern hold text, not scores: {join_labels(text_columns)}",
        ),
    )
    return melt_scores(mapped, labels_of_column, keys=keys, where=where), notes


def melt_scores(
    frame: pl.DataFrame, columns: Mapping[str, Mapping[str, str]], *, keys: Sequence[str], where: str
) -> pl.DataFrame:
    """The long table of the score columns `columns` (column to labels). `keys` are the columns that identify a row.

    Duplicate keys, empty keys (except item, aspect, kind and repeat) and text among scores raise `InputError`. The
    message gives the row of the wide table.
    """
    rows = pl.DataFrame(
        [label_column(frame, name, where=where, empty=name not in ("system", "rater")) for name in keys]
    )
    key_columns = [name for name in keys if name != "kind"]
    hint = "one row per output; number the runs in a column 'repeat'"
    check_unique(rows, key_columns, where=where, what="output", hint=hint)
    scores = [number_column(frame, name, where=where) for name in columns]
    label_names = dict.fromkeys(name for labels in columns.values() for name in labels)
    return pl.concat(
        [
            rows.with_columns(
                *(
                    pl.lit(columns[score.name].get(name, ""), dtype=pl.String).alias(name)
                    for name in label_names
                    if name in columns[score.name] or name not in keys
                ),
                score=score,
            )
            for score in scores
        ]
    )


def unused_people_notes(
    frame: pl.DataFrame, unused_columns: Iterable[str], *, where: str
) -> list[tuple[str, int, str]]:
    """Notes on unused numeric columns that look like human ratings."""
    human_columns = [name for name in unused_columns if looks_human(name) and count_filled_cells(frame[name])[1]]
    message = (
        f"{where}: columns that look like human ratings are not used: {join_labels(human_columns)}; name them in "
        "columns"
    )
    return [("unused-annotators", len(human_columns), message)]


def _column_labels(
    pattern: ColumnPattern, split: Mapping[str, str], column: str, keys: Sequence[str]
) -> dict[str, str]:
    """The labels for the rows of a score column, taken from the name of the column.

    The kind in a pattern takes precedence over the kind in the row.
    """
    duplicate = next((name for name in split if name in keys and name != "kind"), None)
    if duplicate:
        raise OptionError(
            f"columns: the {duplicate} is given twice, by the pattern {pattern.written!r} and by a column; remove "
            f"{{{duplicate}}} from the pattern, or map no column to {duplicate}"
        )
    labels = {name: label.strip() for name, label in split.items()}
    kind = labels.get("kind", "").lower() or pattern.kind
    if "rater" not in labels and "rater" not in keys:
        labels["rater"] = (pattern.constant_text if pattern.fields else column) or kind
        if not labels["rater"]:
            raise OptionError(f"columns: {pattern.written!r} gives no rater; add {{rater}}, or map rater to a column")
    return labels | ({"kind": kind} if kind or "kind" not in keys else {})


def _check_people(
    split: Mapping[str, tuple[ColumnPattern, dict[str, str]]], labels: Mapping[str, Mapping[str, str]], *, where: str
) -> None:
    """Raise `InputError` if a pattern of human ratings matches an average, or splits the name of a metric."""
    human_labels = {
        name: column_labels
        for name, column_labels in labels.items()
        if column_labels.get("kind") == "human" and {"aspect", "rater"} <= set(split[name][1])
    }
    raters = list(dict.fromkeys(column_labels["rater"] for column_labels in human_labels.values()))
    generic_raters = {rater for rater in raters if set(split_name(rater)) <= AVERAGES | GENERIC}
    for name, column_labels in human_labels.items():
        other_raters = [rater for rater in raters if rater != column_labels["rater"] and rater not in generic_raters]
        if other_raters and (
            column_labels["rater"] in generic_raters
            or not SCORERS.isdisjoint(map(stem, split_name(column_labels["aspect"])))
        ):
            raise InputError(
                f"{where}: pattern {split[name][0].written!r} reads column {name!r} as aspect "
                f"{column_labels['aspect']!r} "
                f"rated by annotator {column_labels['rater']!r}; if {name!r} is a metric or an average, list the "
                f"annotators, as in {{rater:{','.join(other_raters[:3])}}} (a comma list of globs)"
            )


def _check_distinct(labels: Mapping[str, Mapping[str, str]], *, where: str) -> None:
    """Raise `InputError` for columns with the same rater, aspect and repeat, and for a rater of two kinds."""
    column_of_key: dict[tuple[str, ...], str] = {}
    first_column_of_rater: dict[str, tuple[str, str]] = {}
    for name, column_labels in labels.items():
        key = tuple(column_labels.get(role, "") for role in ("rater", "aspect", "repeat", "system"))
        if key in column_of_key:
            key_text = ", ".join(
                f"{role} {label!r}" for role, label in column_labels.items() if label and role != "kind"
            )
            raise InputError(
                f"{where}: columns {column_of_key[key]!r} and {name!r} have the same {key_text or 'rater'}; "
                "distinguish them by {rater}, {aspect} or {repeat}"
            )
        column_of_key[key] = name
        other_column, kind = first_column_of_rater.setdefault(
            column_labels.get("rater", name), (name, column_labels.get("kind", ""))
        )
        if column_labels.get("kind", "") != kind:
            raise InputError(
                f"{where}: rater {column_labels['rater']!r} is {kind or 'of unknown kind'} in column {other_column!r} "
                "and"
                f" {column_labels.get('kind') or 'of unknown kind'} in column {name!r}; give each rater one kind"
            )
