"""Column mapping: role of each column, and patterns of score columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import polars as pl

from custodes.data.items import SCHEMA as ITEM_SCHEMA
from custodes.data.items import merge_item_rows
from custodes.data.mapping.annotator_columns import with_kinds
from custodes.data.mapping.column_vocabulary import is_fact, looks_human
from custodes.data.mapping.nested import flatten_nested, nested_columns
from custodes.data.mapping.pattern import (
    KINDS,
    MAX_LISTED,
    ROW_KEYS,
    ColumnPattern,
    UnfitError,
    is_path,
    melt_patterns,
    split_columns,
)
from custodes.data.mapping.phrases import compile_phrases, read_phrases
from custodes.data.mapping.text_columns import PAIR, TEXTS, TextColumns, expand_name
from custodes.data.notes import Note, build_notes
from custodes.data.table import count_filled_cells, label_column, typed_column
from custodes.errors import OptionError, join_labels, short_repr, suggestion

FACTS = tuple(name for name in ITEM_SCHEMA if name != "item")
"""Roles that describe items."""

SCORE_ROLES = ("item", "system", "rater", "score", "aspect", "kind", "repeat")
VERDICT_ROLES = ("system_a", "system_b", "winner", "preference", "order")
TABLE_ROLES = (*SCORE_ROLES, *VERDICT_ROLES, *FACTS)
ROLES = (*TABLE_ROLES, "phrase", *TEXTS)
"""Roles of columns; each is the column name that readers expect."""

ROLE_SYNONYMS = {
    "system_a": ("model_a",),
    "system_b": ("model_b",),
    "winner": ("preference",),
    "preference": ("winner",),
}
"""Other names of a role. A column with such a name is ignored if another column is mapped to the role."""


@dataclass(frozen=True, kw_only=True)
class MappingResult:
    """A table after mapping, with notes.

    `frame` is the table with columns named by roles (None if only texts are mapped). `items` is the table of items
    (None without data on items). `texts` is the table of texts (None if no texts are mapped). `wide` is true if
    patterns of column names converted a wide table to a long table.
    """

    frame: pl.DataFrame | None
    items: pl.DataFrame | None
    texts: pl.DataFrame | None = None
    notes: tuple[Note, ...]
    wide: bool


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The column of each role, and the patterns of score columns in order of precedence."""

    roles: Mapping[str, str] = field(default_factory=dict)
    patterns: tuple[str, ...] = ()

    @classmethod
    def make(cls, mapping: Any) -> Columns:
        """The mapping of a user, from role to column. `score` may be one or several patterns, `text` may be a pattern
        with `{system}`, and `human` and `metric` may be paths such as `scores.*`.

        >>> Columns.make({"item": "doc", "score": ["human_{aspect}", "metric:{rater}"]}).patterns
        ('human_{aspect}', 'metric:{rater}')
        """
        if isinstance(mapping, Columns):
            return mapping
        if not isinstance(mapping, Mapping):
            raise OptionError(
                f"columns={short_repr(mapping)}: give a mapping of role to column, such as {{'item': 'doc_id', "
                "'system': 'model'}"
            )
        roles, patterns = dict(mapping), tuple[str, ...]()
        paths = [f"{kind}:{roles.pop(kind)}" for kind in KINDS if isinstance(roles.get(kind), str)]
        for role in roles:
            if role not in ROLES:
                raise OptionError(
                    f"columns: {role!r} is not a role{suggestion(str(role), ROLES)}; roles: {', '.join(ROLES)}"
                )
        winner = roles.get("winner")
        fields = ColumnPattern.readings(winner)[0].fields if isinstance(winner, str) and "{" in winner else ("rater",)
        if "rater" not in fields or "system" in fields:
            raise OptionError(
                f"columns: winner={winner!r}: a pattern of verdicts needs {{rater}} and must not have {{system}}"
            )
        score = roles.get("score")
        is_pattern = isinstance(score, str) and ("{" in score or score.startswith(("human:", "metric:")))
        if is_pattern or (isinstance(score, Sequence) and not isinstance(score, str)):
            patterns = (score,) if isinstance(score, str) else tuple(roles["score"])
            del roles["score"]
            if not patterns:
                raise OptionError("columns: score is empty; leave score out, or give at least one column or pattern")
        patterns = (*paths, *patterns)
        for role, name in (*roles.items(), *(("score", pattern) for pattern in patterns)):
            if not isinstance(name, str) or not name.strip():
                raise OptionError(f"columns: {role}={name!r}; the name of a column must be text")
        for pattern in patterns:
            ColumnPattern.readings(pattern)
        columns = cls(roles=roles, patterns=patterns)
        if columns.text_pattern and set(columns.text_pattern.fields) != {"system"}:
            raise OptionError(
                f"columns: text={roles['text']!r}: a pattern of texts needs {{system}} and must not have other "
                f"placeholders"
            )
        return columns

    @property
    def text_pattern(self) -> ColumnPattern | None:
        """The pattern of text columns, if the role `text` has a pattern."""
        pattern = self.roles.get("text", "")
        return ColumnPattern.readings(pattern)[0] if "{system" in pattern else None

    def verdict_columns(self, columns: Sequence[str]) -> dict[str, dict[str, str]]:
        """The labels in the name of each column that the pattern `winner` matches; empty if `winner` is not a
        pattern."""
        pattern = self.roles.get("winner", "")
        if "{rater" not in pattern:
            return {}
        free_columns = [name for name in columns if name not in self.roles.values() and name not in TABLE_ROLES]
        return split_columns(ColumnPattern.readings(pattern)[0], free_columns)

    def verdict_rows(self, frame: pl.DataFrame, *, where: str) -> pl.DataFrame:
        """The table with one row per verdict if `winner` is a pattern; otherwise the unchanged table."""
        labels_of_column = self.verdict_columns(frame.columns)
        if not labels_of_column:
            return frame
        if "rater" in (*self.roles, *frame.columns):
            raise OptionError(
                f"{where}: the raters are named twice, by the pattern for `winner` and by the column for `rater`; "
                f"remove one of them"
            )
        labels_with_kind = {
            name: {**labels, "kind": labels.get("kind", "human" if looks_human(labels["rater"]) else "metric")}
            for name, labels in labels_of_column.items()
        }
        return pl.concat(
            frame.drop(labels_of_column).with_columns(
                *(pl.lit(label).alias(role) for role, label in labels.items()), winner=frame[name].cast(pl.String)
            )
            for name, labels in labels_with_kind.items()
        )

    def __bool__(self) -> bool:
        return bool(self.roles or self.patterns)

    @property
    def mapping(self) -> dict[str, Any]:
        """The mapping in the form that `make` accepts."""
        return {**self.roles, **({"score": list(self.patterns)} if self.patterns else {})}

    def merge_defaults(self, other: Columns) -> Columns:
        """This mapping, completed by the mapping `other`. Roles and patterns of this mapping take precedence."""
        merged_roles = {**other.roles, **self.roles}
        roles = {
            role: merged_roles[role]
            for role in ROLES
            if role in merged_roles and not (role == "score" and self.patterns)
        }
        patterns = self.patterns or (() if "score" in self.roles else other.patterns)
        return Columns(roles=roles, patterns=patterns)

    def expand_nested(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The table with nested cells expanded to columns, if the mapping has paths into nested cells; otherwise the
        unchanged table."""
        names = [name for role, name in self.roles.items() if role != "phrase"]
        if not any("." in name or "*" in name for name in (*names, *self.patterns)):
            return frame
        matched_patterns = self.match_patterns(frame.columns)
        unmatched_names = [name for name in names if not expand_name(name, frame.columns)]
        unmatched_names += [pattern for pattern in self.patterns if pattern not in matched_patterns]
        return flatten_nested(frame, unmatched_names) if unmatched_names and nested_columns(frame) else frame

    def check(self, tables: Sequence[Sequence[str]]) -> None:
        """Raise `OptionError` for a column that exists in no table, and for a pattern that matches no column.

        `tables` has the columns of each table.
        """
        lone_role = next((name for name in PAIR if name in self.roles and not set(PAIR) <= set(self.roles)), None)
        if lone_role is not None:
            raise OptionError(f"columns: {lone_role} is mapped without {PAIR[1 - PAIR.index(lone_role)]}; map both")
        if not tables:
            raise OptionError("columns: a mapping applies only to tables, and no input is a table; leave columns out")
        column_names = list(dict.fromkeys(name for columns in tables for name in columns))
        for role, name in self.roles.items():
            if role == "phrase":
                compile_phrases(name)
                if "winner" not in self.roles and "winner" not in column_names:
                    raise OptionError(
                        "columns: phrase needs a column of winners; map winner to the column with the phrases"
                    )
            elif role == "text" and self.text_pattern:
                if not any(self.texts(columns).systems for columns in tables):
                    raise OptionError(
                        f"columns: text={name!r} matches no column that is still without a role; columns: "
                        f"{join_labels(column_names, limit=MAX_LISTED)}"
                    )
            elif not expand_name(name, column_names) and not (
                role == "winner" and any(map(self.verdict_columns, tables))
            ):
                raise OptionError(
                    f"columns: {role}={name!r}: no such column{suggestion(name, column_names)}; columns: "
                    f"{join_labels(column_names, limit=MAX_LISTED)}"
                )
        free_columns = {name: None for columns in tables for name in _unmapped_columns(self._old_names(columns))}
        matched_patterns = {pattern for columns in tables for pattern in self.match_patterns(columns)}
        for pattern in self.patterns:
            if pattern not in matched_patterns:
                raise OptionError(
                    f"columns: pattern {pattern!r} matches no column that is still without a "
                    f"role{suggestion(pattern, free_columns, cutoff=0.5)}; columns: "
                    f"{join_labels(free_columns, limit=MAX_LISTED)}"
                )

    def match_patterns(self, columns: Sequence[str]) -> set[str]:
        """The patterns that match a column of a table with these columns."""
        return {pattern.written for pattern, _ in self.split(columns).values()}

    def apply(self, frame: pl.DataFrame, *, where: str) -> MappingResult:
        """The table with its columns named by roles; the input frame is not modified.

        If a pattern matches, the table becomes a long table of item, system, rater and score. A mapped column takes
        precedence over a column with the name of the role.
        """
        texts = self.texts(frame.columns)
        old_names, score_columns = self._old_names(frame.columns), self.split(frame.columns)
        is_rated = score_columns or {"winner", "preference"} & set(old_names) or {"rater", "score"} <= set(old_names)
        item_texts, text_notes = texts.table(frame, where=where, rated=bool(is_rated)) if texts else (None, [])
        if texts and not is_rated:
            used_columns = {
                *texts.assigned_columns(frame.columns),
                *self._present_roles(frame.columns).values(),
                "item",
                "system",
            }
            unused_columns = [name for name in frame.columns if name not in used_columns]
            scores = [name for name in unused_columns if not is_fact(name) and count_filled_cells(frame[name])[1]]
            if self.patterns and scores:
                raise UnfitError(
                    f"{where}: no pattern matches the columns that hold numbers ({join_labels(scores)}); add a pattern"
                )
            text_notes += build_notes(
                ("unused-columns", len(unused_columns), f"{where}: columns not used: {join_labels(unused_columns)}")
            )
            mapped = frame.select(pl.col(name).alias(role) for role, name in texts.roles.items() if role == "item")
            items = self._extract_facts(frame, mapped, where=where)
            return MappingResult(frame=None, items=items, texts=item_texts, notes=tuple(text_notes), wide=False)
        mapped = frame.select(pl.col(name).alias(new_name) for new_name, name in old_names.items())
        mapped, notes = with_kinds(mapped, self.roles, where=where)
        role_of_overridden = _overridden_columns(self._present_roles(frame.columns), frame.columns)
        overridden_texts = [
            f"{name!r} ({role}={self.roles[role]!r} is used)" for name, role in role_of_overridden.items()
        ]
        notes = [
            *build_notes(
                (
                    "column-gave-way",
                    len(overridden_texts),
                    f"{where}: columns not used: {join_labels(overridden_texts)}",
                )
            ),
            *notes,
        ]
        if "phrase" in self.roles and "winner" in mapped.columns:
            mapped, phrase_notes = _with_words(mapped, self.roles["phrase"], where=where)
            notes += phrase_notes
        if PAIR[0] in texts.roles and not {"system_a", "model_a"} & set(mapped.columns):
            mapped = mapped.with_columns(system_a=pl.lit("a"), system_b=pl.lit("b"))
            message = f"{where}: no column names the two systems of a pair, so the systems are called a and b"
            notes += build_notes(("nameless-systems", True, message))
        items = self._extract_facts(frame, mapped, where=where)
        is_one_system = (
            not any("system" in labels for _, labels in score_columns.values()) and "system" not in mapped.columns
        )
        keys = [name for name in ROW_KEYS if name in mapped.columns]
        has_scores = score_columns or {"rater", "score"} <= set(mapped.columns)
        if is_one_system and "item" in keys and has_scores and not mapped.select(keys).is_duplicated().any():
            system = PurePath(where).name.partition(".")[0]
            mapped = mapped.with_columns(system=pl.lit(system))
            message = f"{where}: no column names the system; all rows are of one system, called {system} after the file"
            notes += build_notes(("system-of-file", True, message))
        if not score_columns:
            return MappingResult(frame=mapped, items=items, texts=item_texts, notes=(*notes, *text_notes), wide=False)
        long_table, more_notes = melt_patterns(mapped, score_columns, where=where)
        return MappingResult(
            frame=long_table, items=items, texts=item_texts, notes=(*notes, *text_notes, *more_notes), wide=True
        )

    def texts(self, columns: Sequence[str]) -> TextColumns:
        """The columns with texts, among these columns of a table."""
        text_roles = {
            role: name
            for role, name in self.roles.items()
            if name in columns or (role in TEXTS and expand_name(name, columns))
        }
        system_of_column = {}
        if self.text_pattern:
            free_columns = [name for name in columns if name not in text_roles.values() and name not in TABLE_ROLES]
            system_of_column = {
                name: labels["system"].strip()
                for name, labels in split_columns(self.text_pattern, free_columns).items()
            }
        return TextColumns(roles=text_roles, systems=system_of_column)

    def _extract_facts(self, frame: pl.DataFrame, mapped: pl.DataFrame, *, where: str) -> pl.DataFrame | None:
        """The table of items; None if no column describes items."""
        facts = {role: name for role, name in self._present_roles(frame.columns).items() if role in FACTS}
        if not facts:
            return None
        return item_facts(mapped, frame.select(pl.col(name).alias(role) for role, name in facts.items()), where=where)

    def _present_roles(self, columns: Sequence[str]) -> dict[str, str]:
        return {role: name for role, name in self.roles.items() if name in columns}

    def _old_names(self, columns: Sequence[str]) -> dict[str, str]:
        """The old name of each column, by new name. Three kinds of columns are left out: those that describe items,
        those with texts, and those that are named like a role although a different column is mapped to this role."""
        role_columns, texts = self._present_roles(columns), self.texts(columns)
        dropped_columns = {
            *role_columns.values(),
            *_overridden_columns(role_columns, columns),
            *(texts.assigned_columns(columns) if texts else ()),
        }
        column_of_new_name = {
            role: name for role, name in role_columns.items() if role not in FACTS and not (texts and role in TEXTS)
        }
        return {**column_of_new_name, **{name: name for name in columns if name not in dropped_columns}}

    def split(self, columns: Sequence[str]) -> dict[str, tuple[ColumnPattern, dict[str, str]]]:
        """The score columns, each with the first pattern that matches and the labels in the name of the column."""
        free_columns, match_of_column = (
            _unmapped_columns(self._old_names(columns)),
            dict[str, tuple[ColumnPattern, dict[str, str]]](),
        )
        for pattern in self.patterns:
            for reading in ColumnPattern.readings(pattern):
                labels_of_matches = split_columns(
                    reading, [name for name in free_columns if name not in match_of_column]
                )
                match_of_column |= {name: (reading, labels) for name, labels in labels_of_matches.items()}
                if labels_of_matches and not is_path(pattern):
                    break
            free_columns = [name for name in free_columns if name not in match_of_column]
        return {name: match_of_column[name] for name in columns if name in match_of_column}


def _with_words(mapped: pl.DataFrame, phrases: str, *, where: str) -> tuple[pl.DataFrame, list[Note]]:
    """The table of verdicts with each phrase replaced by a word, and notes."""
    system_columns = [name for name in mapped.columns if name in ("system_a", "system_b", "model_a", "model_b")]
    systems = {str(label) for name in system_columns for label in mapped[name].unique()}
    cells = label_column(mapped, "winner", where=where, empty=True)
    words, reason, notes = read_phrases(cells, phrases, systems=systems, where=where)
    return mapped.with_columns(words.alias("winner"), reason.alias("invalid")), notes


def _overridden_columns(column_of_role: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    """The columns that are named like a role although a different column is mapped to this role. The values are the
    roles."""
    role_of_name = {name: role for role in column_of_role for name in (role, *ROLE_SYNONYMS.get(role, ()))}
    mapped_names = set(column_of_role.values())
    return {name: role_of_name[name] for name in columns if name in role_of_name and name not in mapped_names}


def _unmapped_columns(columns: Iterable[str]) -> list[str]:
    """The columns without a role, which patterns may match. The result is empty for a table of verdicts and for a long
    table."""
    names = list(columns)
    if {"winner", "preference"} & set(names) or {"rater", "score"} <= set(names):
        return []
    return [name for name in names if name == "score" or name not in TABLE_ROLES]


def item_facts(mapped: pl.DataFrame, facts: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """A table with one row per item and the columns that describe items. Two values of one item raise `InputError`."""
    if "item" not in mapped.columns:
        raise OptionError(f"columns: {facts.columns[0]} describes items, but {where} has no column of items; map item")
    fact_columns = [typed_column(facts, name, ITEM_SCHEMA[name], where=where) for name in facts.columns]
    rows = pl.DataFrame([label_column(mapped, "item", where=where, empty=True), *fact_columns])
    rows = rows.filter(pl.col("item") != "").with_columns(pl.col(pl.String).replace("", None))
    return merge_item_rows(rows, where=where)
