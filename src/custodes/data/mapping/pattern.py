"""Patterns of column names: `human_{aspect}_{rater}` describes the score columns of a wide table, which become a long
table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from string import Formatter

import polars as pl

from custodes.data.mapping.column_vocabulary import (
    AVERAGES,
    GENERIC,
    SCORERS,
    looks_human,
    name_stems,
    split_name,
)
from custodes.data.mapping.composed_labels import COMPOSE_HINT
from custodes.data.notes import Note, build_notes
from custodes.data.table import (
    check_unique,
    count_filled_cells,
    label_column,
    null_missing_cells,
    number_column,
    unused_columns,
)
from custodes.errors import InputError, OptionError, join_labels, reject, suggestion

FIELDS = ("aspect", "rater", "kind", "repeat", "system", "order")
"""Placeholders for parts of a column's name; `order` is only for columns of verdicts."""
PATHS = {"human": ("aspect", "rater"), "metric": ("rater", "repeat")}
"""For each kind of scores, the meaning of the first and of the second `*` in a path."""
POSITION = "[0-9]*"
"""The glob of a position in a list."""

KINDS = ("human", "metric")
MOST_GAPS = 50
"""Maximum number of separators in a name; with more separators, three placeholders could match in too many ways."""
EXAMPLE = "'human_{aspect}_{rater}'"
ROW_KEYS = ("item", "system", "rater", "aspect", "kind", "repeat")
"""Columns that may identify the rows of a wide table."""
MAX_LISTED = 20
"""Maximum number of columns in an error message."""


class UnfitError(InputError):
    """The columns of a table do not fit the reader, so a mapping may help. The attribute `wrong` describes the problem.
    If no mapping is found, the message ends with the advice in `more`.
    """

    def __init__(self, wrong: str, more: str = "") -> None:
        super().__init__(f"{wrong}{more}")
        self.wrong = wrong


@dataclass(frozen=True, kw_only=True)
class ColumnPattern:
    """A pattern of fixed texts (`texts`) that alternate with placeholders (`fields`). There is one more fixed text than
    placeholders.

    `kind` is the kind of all raters of the pattern; it is '' if a placeholder gives the kind, or if the kind is
    unknown. `globs` limits the labels of placeholders.
    """

    written: str
    kind: str
    texts: tuple[str, ...]
    fields: tuple[str, ...]
    globs: tuple[tuple[str, ...], ...]

    @classmethod
    def readings(cls, pattern_text: str) -> list[ColumnPattern]:
        """Possible meanings of a pattern: the literal text, and the text after the prefix `human:` or `metric:`.

        Callers use the first meaning that matches columns.

        A path such as `human:scores.*` matches the keys of an object, and positions in lists below the keys.

        >>> [reading.kind for reading in ColumnPattern.readings("metric:{rater}")]
        ['metric', 'metric']
        >>> [reading.fields for reading in ColumnPattern.readings("human:scores.*")]
        [(), ('aspect', 'rater'), ('aspect',)]
        """
        if not pattern_text.strip():
            raise OptionError(f"columns: a pattern is empty; give one such as {EXAMPLE}")
        kind_prefix, _, text_after_kind = pattern_text.partition(":")
        bare_patterns = [text_after_kind] if text_after_kind and kind_prefix in KINDS else []
        if is_path(pattern_text):
            first_role, second_role = PATHS[kind_prefix]
            path_pattern = text_after_kind.replace("*", f"{{{first_role}}}", 1).replace("*", f"{{{second_role}}}", 1)
            bare_patterns = [
                *([f"{path_pattern}.{{{second_role}:{POSITION}}}"] if text_after_kind.count("*") == 1 else []),
                path_pattern,
            ]
        return [
            cls._parse_text(pattern_text, pattern_text),
            *(cls._parse_text(pattern_text, bare_pattern, kind=kind_prefix) for bare_pattern in bare_patterns),
        ]

    @classmethod
    def _parse_text(cls, pattern_text: str, bare_pattern: str, kind: str = "") -> ColumnPattern:
        fixed_texts, placeholder_names, placeholder_globs = [""], list[str](), list[tuple[str, ...]]()
        try:
            template_fields = list(Formatter().parse(bare_pattern))
        except ValueError as error:
            raise OptionError(
                f"columns: pattern {pattern_text!r} cannot be read: {error}; an example: {EXAMPLE}"
            ) from None
        for fixed_text, placeholder_name, globs_text, conversion in template_fields:
            fixed_texts[-1] += fixed_text
            if placeholder_name is None:
                continue
            placeholder = f"{placeholder_name}!{conversion}" if conversion else placeholder_name
            if placeholder not in FIELDS:
                raise OptionError(
                    f"columns: pattern {pattern_text!r} has the unknown placeholder "
                    f"{{{placeholder}}}{suggestion(placeholder, FIELDS)}; placeholders: "
                    f"{', '.join(f'{{{name}}}' for name in FIELDS[:-1])}, and {{order}} for verdicts"
                )
            placeholder_names.append(placeholder_name)
            placeholder_globs.append(tuple(glob.strip() for glob in (globs_text or "").split(",") if glob.strip()))
            fixed_texts.append("")
        duplicate_placeholder = next((name for name in placeholder_names if placeholder_names.count(name) > 1), None)
        reject(
            (
                duplicate_placeholder,
                f"columns: pattern {pattern_text!r} holds {{{duplicate_placeholder}}} twice; give each placeholder "
                "once",
            ),
            (
                not all(fixed_texts[1:-1]),
                f"columns: pattern {pattern_text!r} has no text between two placeholders; write the text that "
                "separates them",
            ),
            (
                kind and "kind" in placeholder_names,
                f"columns: pattern {pattern_text!r} gives the kind twice; remove {kind}: or {{kind}}",
            ),
        )
        kind_words = [word for word in re.split(r"[^a-z]+", " ".join(fixed_texts).lower()) if word in KINDS]
        pattern_kind = kind or (kind_words[0] if len(set(kind_words)) == 1 and "kind" not in placeholder_names else "")
        return cls(
            written=pattern_text,
            kind=pattern_kind,
            texts=tuple(fixed_texts),
            fields=tuple(placeholder_names),
            globs=tuple(placeholder_globs),
        )

    def splits(self, column_name: str) -> list[dict[str, str]]:
        """All ways to match a name. Each way maps placeholders to labels. The list is empty if there are too many
        ways."""
        if not self.fields:
            return [{}] if column_name == self.texts[0] else []
        prefix, *inner_texts, suffix = self.texts
        has_many_gaps = len(self.fields) > 2 and sum(map(column_name.count, set(inner_texts))) > MOST_GAPS
        if has_many_gaps or not column_name.startswith(prefix):
            return []
        partial_matches: list[tuple[tuple[str, ...], str]] = [((), column_name[len(prefix) :])]
        for field_index, fixed_text in enumerate(inner_texts):
            partial_matches = [
                (
                    (*placeholder_labels, remaining_text[: text_match.start()]),
                    remaining_text[text_match.start() + len(fixed_text) :],
                )
                for placeholder_labels, remaining_text in partial_matches
                for text_match in re.finditer(f"(?={re.escape(fixed_text)})", remaining_text)
                if self._allows(field_index, remaining_text[: text_match.start()])
            ]
        label_tuples = [
            (*placeholder_labels, remaining_text.removesuffix(suffix))
            for placeholder_labels, remaining_text in partial_matches
            if remaining_text.endswith(suffix)
        ]
        return [
            dict(zip(self.fields, placeholder_labels, strict=True))
            for placeholder_labels in label_tuples
            if self._allows(len(inner_texts), placeholder_labels[-1])
        ]

    def _allows(self, field_index: int, label: str) -> bool:
        if not label.strip() or (self.fields[field_index] == "kind" and label.lower() not in KINDS):
            return False
        return not self.globs[field_index] or any(fnmatchcase(label, glob) for glob in self.globs[field_index])

    @property
    def constant_text(self) -> str:
        """The fixed text of the pattern without outer separators. This text is the rater if there is no placeholder for
        the rater."""
        return re.sub(r"[\W_]+", "_", " ".join(self.texts)).strip("_")


def split_columns(pattern: ColumnPattern, column_names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The labels in the name of each column that matches a pattern.

    A name that matches in several ways is split into labels that occur in unambiguous columns. For example, `ann1` in
    `human_coherence_ann1` decides how `human_factual_consistency_ann1` is split. If several ways remain, `OptionError`
    is raised; the message gives two ways and a pattern that allows only one way.
    """
    splits_of_column = {column_name: splits for column_name in column_names if (splits := pattern.splits(column_name))}
    unambiguous_role_labels = {
        (role, label) for splits in splits_of_column.values() if len(splits) == 1 for role, label in splits[0].items()
    }
    label_by_role_of_column = {}
    for column_name, splits in splits_of_column.items():
        n_unambiguous_labels = [len(unambiguous_role_labels & {*split.items()}) for split in splits]
        best_splits = [
            split for split, n in zip(splits, n_unambiguous_labels, strict=True) if n == max(n_unambiguous_labels)
        ]
        if len(best_splits) > 1:
            first_split_text, second_split_text, *_ = (
                ", ".join(f"{role} {label!r}" for role, label in label_by_role.items()) for label_by_role in best_splits
            )
            example_pattern = pattern.written.replace(
                f"{{{pattern.fields[0]}}}", f"{{{pattern.fields[0]}:{best_splits[1][pattern.fields[0]]}}}"
            )
            raise OptionError(
                f"columns: {column_name!r} matches {pattern.written!r} in two ways ({first_split_text}; "
                f"{second_split_text}); list "
                f"the labels, as in {example_pattern!r} (a comma list of globs)"
            )
        label_by_role_of_column[column_name] = best_splits[0]
    return label_by_role_of_column


def is_path(pattern_text: str) -> bool:
    """Whether a pattern consists of a kind and a path with `*`, as in `human:scores.*`."""
    kind_prefix, colon, path_text = pattern_text.partition(":")
    return bool(colon) and kind_prefix in PATHS and "*" in path_text and "{" not in path_text


def escape_braces(text: str) -> str:
    """A text escaped for a pattern."""
    return text.replace("{", "{{").replace("}", "}}")


def match_columns(pattern_text: str, column_names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """The columns that a pattern matches; empty if the pattern is ambiguous."""
    try:
        reading_matches = [
            split_columns(pattern_reading, column_names) for pattern_reading in ColumnPattern.readings(pattern_text)
        ]
    except OptionError:
        return {}
    return next((label_by_role_of_column for label_by_role_of_column in reading_matches if label_by_role_of_column), {})


def melt_patterns(
    mapped_table: pl.DataFrame, match_of_column: Mapping[str, tuple[ColumnPattern, dict[str, str]]], *, where: str
) -> tuple[pl.DataFrame, list[Note]]:
    """The long table of the score columns, and notes on columns that are not used."""
    key_column_names = [column_name for column_name in ROW_KEYS if column_name in mapped_table.columns]
    has_system_placeholder = all("system" in label_by_role for _, label_by_role in match_of_column.values())
    reject(
        *(
            (
                role not in key_column_names,
                f"{where}: the patterns match score columns, but no column has the role {role}; map one, as in "
                f"{role}=NAME. Columns: {join_labels(mapped_table.columns, limit=MAX_LISTED)}",
            )
            for role in (("item",) if has_system_placeholder else ("item", "system"))
        ),
        error=UnfitError,
    )
    match_of_output_column = {
        column_name: (pattern, label_by_role)
        for column_name, (pattern, label_by_role) in match_of_column.items()
        if {"rater"} <= {*key_column_names} & {*label_by_role} and pattern.kind == "metric"
    }
    if 0 < len(match_of_output_column) < len(match_of_column):
        match_of_rating_column = {
            name: match for name, match in match_of_column.items() if name not in match_of_output_column
        }
        rating_rows, notes = melt_patterns(
            mapped_table.drop(match_of_output_column), match_of_rating_column, where=where
        )
        output_rows = _output_rows(mapped_table, list(match_of_output_column), where=where)
        metric_score_rows, metric_notes = melt_patterns(output_rows, match_of_output_column, where=where)
        return pl.concat([rating_rows, metric_score_rows], how="diagonal_relaxed"), [*notes, *metric_notes]
    label_by_role_of_column = {
        column_name: _column_labels(pattern, label_by_role, column_name, key_column_names)
        for column_name, (pattern, label_by_role) in match_of_column.items()
    }
    mapped_table = mapped_table.with_columns(_truth_numbers(mapped_table[name]) for name in label_by_role_of_column)
    text_column_names = [
        column_name
        for column_name in label_by_role_of_column
        if count_filled_cells(mapped_table[column_name])[0] and not count_filled_cells(mapped_table[column_name])[1]
    ]
    label_by_role_of_column = {
        column_name: label_by_role
        for column_name, label_by_role in label_by_role_of_column.items()
        if column_name not in text_column_names
    }
    if not label_by_role_of_column:
        raise InputError(
            f"{where}: no column matched by the patterns holds a number ({join_labels(text_column_names)}); name the "
            "score columns"
        )
    _check_people(match_of_column, label_by_role_of_column, where=where)
    _check_distinct(label_by_role_of_column, where=where)
    unused_column_names = [
        column_name
        for column_name in mapped_table.columns
        if column_name not in key_column_names and column_name not in match_of_column
    ]
    notes = build_notes(
        unused_columns(unused_column_names, where=where),
        *unused_people_notes(mapped_table, unused_column_names, where=where),
        (
            "text-columns",
            len(text_column_names),
            f"{where}: columns matched by a pattern hold text, not scores: {join_labels(text_column_names)}",
        ),
    )
    return melt_scores(mapped_table, label_by_role_of_column, key_column_names=key_column_names, where=where), notes


def _output_rows(mapped_table: pl.DataFrame, metric_column_names: Sequence[str], *, where: str) -> pl.DataFrame:
    """One row per output from a table with one row per rater and output, which has the scores of metrics in one or
    several rows of the output."""
    output_column_names = [name for name in ("item", "system", "aspect") if name in mapped_table.columns]
    cell_rows = mapped_table.select(
        *output_column_names, *(null_missing_cells(mapped_table[name]) for name in metric_column_names)
    )
    rows_grouped_by_output = cell_rows.group_by(output_column_names, maintain_order=True)
    value_count_rows = rows_grouped_by_output.agg(pl.col(metric_column_names).drop_nulls().n_unique())
    conflicting_rows = value_count_rows.filter(pl.max_horizontal(metric_column_names) > 1)
    if not conflicting_rows.is_empty():
        first_conflicting_row = conflicting_rows.row(0, named=True)
        output_text = ", ".join(f"{name} {first_conflicting_row[name]!r}" for name in output_column_names)
        metrics_text = join_labels(
            [name for name in metric_column_names if first_conflicting_row[name] > 1], limit=MAX_LISTED
        )
        raise InputError(
            f"{where}: rows of one output ({output_text}) have different values in the columns of metrics "
            f"({metrics_text}); give one value of a metric per output, in one or all rows of the output"
        )
    return rows_grouped_by_output.agg(pl.col(metric_column_names).drop_nulls().first())


def _truth_numbers(column: pl.Series) -> pl.Series:
    """The column, with 1 for true and 0 for false if all cells are true, false or empty."""
    if column.dtype != pl.String:
        return column
    numbers = (
        column.str.strip_chars()
        .str.to_lowercase()
        .replace_strict({"true": 1.0, "false": 0.0}, default=None, return_dtype=pl.Float64)
    )
    return numbers if numbers.count() and numbers.count() == count_filled_cells(column)[0] else column


def melt_scores(
    frame: pl.DataFrame,
    label_by_role_of_column: Mapping[str, Mapping[str, str]],
    *,
    key_column_names: Sequence[str],
    where: str,
) -> pl.DataFrame:
    """The long table of the score columns in `label_by_role_of_column`. `key_column_names` identify a row.

    Duplicate keys, empty keys (except item, aspect, kind and repeat) and text among scores raise `InputError`. The
    message gives the row of the wide table.
    """
    key_rows = pl.DataFrame(
        [label_column(frame, name, where=where, empty=name not in ("system", "rater")) for name in key_column_names]
    )
    check_unique(
        key_rows,
        [name for name in key_column_names if name != "kind"],
        where=where,
        what="output",
        hint=f"one row per output; {COMPOSE_HINT}; number the runs of a rater in a column 'repeat'",
    )
    label_column_names = dict.fromkeys(
        name for label_by_role in label_by_role_of_column.values() for name in label_by_role
    )
    return pl.concat(
        [
            key_rows.with_columns(
                *(
                    pl.lit(label_by_role_of_column[score_series.name].get(name, ""), dtype=pl.String).alias(name)
                    for name in label_column_names
                    if name in label_by_role_of_column[score_series.name] or name not in key_column_names
                ),
                score=score_series,
            )
            for score_series in (number_column(frame, name, where=where) for name in label_by_role_of_column)
        ]
    )


def unused_people_notes(
    frame: pl.DataFrame, unused_column_names: Iterable[str], *, where: str
) -> list[tuple[str, int, str]]:
    """Notes on unused numeric columns that look like human ratings."""
    human_column_names = [
        name for name in unused_column_names if looks_human(name) and count_filled_cells(frame[name])[1]
    ]
    return [
        (
            "unused-annotators",
            len(human_column_names),
            f"{where}: columns that look like human ratings are not used: {join_labels(human_column_names)}; name them "
            "in columns",
        )
    ]


def _column_labels(
    pattern: ColumnPattern, label_of_placeholder: Mapping[str, str], column_name: str, key_column_names: Sequence[str]
) -> dict[str, str]:
    """The labels for the rows of a score column, taken from the name of the column.

    If pattern and row give different kinds of rater, the kind in the pattern is used.
    """
    duplicate_role = next((role for role in label_of_placeholder if role in key_column_names and role != "kind"), None)
    if duplicate_role:
        raise OptionError(
            f"columns: the {duplicate_role} is given twice, by the pattern {pattern.written!r} and by a column; remove "
            f"{{{duplicate_role}}} from the pattern, or map no column to {duplicate_role}"
        )
    label_of_role = {role: label.strip() for role, label in label_of_placeholder.items()}
    rater_kind = label_of_role.get("kind", "").lower() or pattern.kind
    if "rater" not in label_of_role and "rater" not in key_column_names:
        label_of_role["rater"] = (pattern.constant_text if pattern.fields else column_name) or rater_kind
        if not label_of_role["rater"]:
            raise OptionError(f"columns: {pattern.written!r} gives no rater; add {{rater}}, or map rater to a column")
    return label_of_role | ({"kind": rater_kind} if rater_kind or "kind" not in key_column_names else {})


def _check_people(
    match_of_column: Mapping[str, tuple[ColumnPattern, dict[str, str]]],
    label_by_role_of_column: Mapping[str, Mapping[str, str]],
    *,
    where: str,
) -> None:
    """Raise `InputError` if a pattern of human ratings matches an average, or splits the name of a metric."""
    label_by_role_of_human_column = {
        name: label_by_role
        for name, label_by_role in label_by_role_of_column.items()
        if label_by_role.get("kind") == "human" and {"aspect", "rater"} <= set(match_of_column[name][1])
    }
    distinct_raters = dict.fromkeys(label_by_role["rater"] for label_by_role in label_by_role_of_human_column.values())
    annotators = [rater for rater in distinct_raters if not set(split_name(rater)) <= AVERAGES | GENERIC]
    for name, label_by_role in label_by_role_of_human_column.items():
        other_annotators = [rater for rater in annotators if rater != label_by_role["rater"]]
        is_metric_name = label_by_role["rater"] not in annotators or not SCORERS.isdisjoint(
            name_stems(label_by_role["aspect"])
        )
        reject(
            (
                other_annotators and is_metric_name,
                f"{where}: pattern {match_of_column[name][0].written!r} reads column {name!r} as aspect "
                f"{label_by_role['aspect']!r} rated by annotator {label_by_role['rater']!r}; if {name!r} is a metric "
                f"or an average, list the annotators, as in {{rater:{','.join(other_annotators[:3])}}} "
                "(a comma list of globs)",
            ),
            error=InputError,
        )


def _check_distinct(label_by_role_of_column: Mapping[str, Mapping[str, str]], *, where: str) -> None:
    """Raise `InputError` for columns with the same rater, aspect and repeat, and for a rater of two kinds."""
    label_roles = ("rater", "aspect", "repeat", "system", "kind")
    label_rows = pl.DataFrame(
        [
            (name, *(label_by_role.get(role, "") for role in label_roles))
            for name, label_by_role in label_by_role_of_column.items()
        ],
        schema=["column", *label_roles],
        orient="row",
    )
    duplicate_rows = label_rows.filter(pl.struct(label_roles[:4]).is_duplicated()).sort(
        label_roles, maintain_order=True
    )
    mixed_kind_rows = label_rows.filter(pl.col("kind").n_unique().over("rater") > 1)
    column_kind_texts = [
        f"{name!r} ({kind or 'unknown'})" for name, kind in mixed_kind_rows.select("column", "kind").iter_rows()
    ]
    reject(
        (
            duplicate_rows.height,
            f"{where}: columns {' and '.join(map(repr, duplicate_rows['column'].head(2)))} have the same rater, aspect "
            "and repeat; distinguish them by {rater}, {aspect} or {repeat}",
        ),
        (
            column_kind_texts,
            f"{where}: rater {''.join(mixed_kind_rows['rater'].head(1))!r} has columns of several kinds: "
            f"{', '.join(column_kind_texts)}; give each rater one kind",
        ),
        error=InputError,
    )
