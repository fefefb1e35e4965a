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
    has_system = all("system" in labels_of for _, labels_of in split.values())
    for name in ("item",) if has_system else ("item", "system"):
        if name not in keys:
            raise UnfitError(
                f"{where}: the patterns match score columns, but no column is the {name}; name a column, as in "
                f"{name}=NAME. Columns: {join_labels(mapped.columns, limit=MAX_LISTED)}"
            )
    labels_of = {name: _column_labels(pattern, row_labels, name, keys) for name, (pattern, row_labels) in split.items()}
    texts = [
        name for name in labels_of if count_filled_cells(mapped[name])[0] and not count_filled_cells(mapped[name])[1]
    ]
    labels_of = {name: row_labels for name, row_labels in labels_of.items() if name not in texts}
    if not labels_of:
        raise InputError(
            f"{where}: no column matched by the patterns holds a number ({join_labels(texts)}); name the score columns"
        )
    _check_people(split, labels_of, where=where)
    _check_distinct(labels_of, where=where)
    unused = [name for name in mapped.columns if name not in keys and name not in split]
    notes = build_notes(
        ("unused-columns", len(unused), f"{where}: columns not used: {join_labels(unused)}"),
        *unused_people_notes(mapped, unused, where=where),
        (
            "text-columns",
            len(texts),
            f"{where}: columns matched by a pattern hold text, not scores: {join_labels(texts)}",
        ),
    )
    return melt_scores(mapped, labels_of, keys=keys, where=where), notes


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
    unique = [name for name in keys if name != "kind"]
    hint = "one row per output; number the runs in a column 'repeat'"
    check_unique(rows, unique, where=where, what="output", hint=hint)
    scores = [number_column(frame, name, where=where) for name in columns]
    names = dict.fromkeys(name for labels in columns.values() for name in labels)
    return pl.concat(
        [
            rows.with_columns(
                *(
                    pl.lit(columns[score.name].get(name, ""), dtype=pl.String).alias(name)
                    for name in names
                    if name in columns[score.name] or name not in keys
                ),
                score=score,
            )
            for score in scores
        ]
    )


def unused_people_notes(frame: pl.DataFrame, idle: Iterable[str], *, where: str) -> list[tuple[str, int, str]]:
    """Notes on unused numeric columns that look like human ratings."""
    humans = [name for name in idle if looks_human(name) and count_filled_cells(frame[name])[1]]
    message = f"{where}: columns that look like human ratings are not used: {join_labels(humans)}; name them in columns"
    return [("unused-annotators", len(humans), message)]


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
        name: labels_of
        for name, labels_of in labels.items()
        if labels_of.get("kind") == "human" and {"aspect", "rater"} <= set(split[name][1])
    }
    raters = list(dict.fromkeys(labels_of["rater"] for labels_of in human_labels.values()))
    generic = {rater for rater in raters if set(split_name(rater)) <= AVERAGES | GENERIC}
    for name, labels_of in human_labels.items():
        others = [rater for rater in raters if rater != labels_of["rater"] and rater not in generic]
        if others and (
            labels_of["rater"] in generic or not SCORERS.isdisjoint(map(stem, split_name(labels_of["aspect"])))
        ):
            raise InputError(
                f"{where}: pattern {split[name][0].written!r} reads column {name!r} as aspect {labels_of['aspect']!r} "
                f"rated by annotator {labels_of['rater']!r}; if {name!r} is a metric or an average, list the "
                f"annotators, as in {{rater:{','.join(others[:3])}}} (a comma list of globs)"
            )


def _check_distinct(labels: Mapping[str, Mapping[str, str]], *, where: str) -> None:
    """Raise `InputError` for columns with the same rater, aspect and repeat, and for a rater of two kinds."""
    column_of: dict[tuple[str, ...], str] = {}
    first_use: dict[str, tuple[str, str]] = {}
    for name, row in labels.items():
        key = tuple(row.get(role, "") for role in ("rater", "aspect", "repeat", "system"))
        if key in column_of:
            key_text = ", ".join(f"{role} {label!r}" for role, label in row.items() if label and role != "kind")
            raise InputError(
                f"{where}: columns {column_of[key]!r} and {name!r} have the same {key_text or 'rater'}; "
                "distinguish them by {rater}, {aspect} or {repeat}"
            )
        column_of[key] = name
        other_column, kind = first_use.setdefault(row.get("rater", name), (name, row.get("kind", "")))
        if row.get("kind", "") != kind:
            raise InputError(
                f"{where}: rater {row['rater']!r} is {kind or 'of unknown kind'} in column {other_column!r} and"
                f" {row.get('kind') or 'of unknown kind'} in column {name!r}; give each rater one kind"
            )
