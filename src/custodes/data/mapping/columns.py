"""Column mapping: role of each column, and patterns of score columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import PurePath
from typing import Any

import polars as pl

from custodes.data.items import SCHEMA as ITEM_SCHEMA
from custodes.data.items import item_facts
from custodes.data.mapping.annotator_columns import with_kinds
from custodes.data.mapping.column_vocabulary import is_fact, kind_of_label
from custodes.data.mapping.composed_labels import component_columns
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
from custodes.data.mapping.phrases import compile_phrases, replace_phrases
from custodes.data.mapping.text_columns import PAIR, TEXTS, TextColumns, expand_name
from custodes.data.notes import SYSTEM_OF_FILE, Note, build_notes
from custodes.data.table import count_filled_cells, unused_columns
from custodes.errors import OptionError, join_labels, reject, short_repr, suggestion

FACTS = tuple(name for name in ITEM_SCHEMA if name != "item")
"""Roles that describe items."""

SCORE_ROLES = ("item", "system", "rater", "score", "aspect", "kind", "repeat")
VERDICT_ROLES = ("system_a", "system_b", "winner", "preference", "order")
TABLE_ROLES = (*SCORE_ROLES, *VERDICT_ROLES, *FACTS)
ROLES = (*TABLE_ROLES, "phrase", *TEXTS)
"""Roles of columns. Readers expect columns that have the name of their role."""

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

    `frame` is the table with columns named by roles, `items` is the table of items, and `texts` is the table of texts.
    Each is None if nothing is mapped to it. `wide` is true if patterns converted a wide table to a long table.
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
        if not isinstance(mapping, Mapping):
            raise OptionError(
                f"columns={short_repr(mapping)}: give a mapping of role to column, such as {{'item': 'doc_id', "
                "'system': 'model'}"
            )
        column_of_role = dict(mapping)
        score_patterns = [
            f"{rater_kind}:{column_of_role.pop(rater_kind)}"
            for rater_kind in KINDS
            if isinstance(column_of_role.get(rater_kind), str)
        ]
        score: Any = column_of_role.get("score")
        if isinstance(score, str) and ("{" in score or score.startswith(tuple(f"{kind}:" for kind in KINDS))):
            score = [score]
        has_score_patterns = isinstance(score, Sequence) and not isinstance(score, str)
        if has_score_patterns:
            score_patterns += score
            del column_of_role["score"]
        unknown_roles = [role for role in column_of_role if role not in ROLES]
        reject(
            (
                unknown_roles,
                f"columns: {', '.join(map(repr, unknown_roles[:1]))} is not a role"
                f"{suggestion(str(*unknown_roles[:1]), ROLES)}; roles: {', '.join(ROLES)}",
            ),
            (
                has_score_patterns and not score,
                "columns: score is empty; leave score out, or give at least one column or pattern",
            ),
        )
        reject(
            *(
                (
                    not isinstance(name, str) or not name.strip(),
                    f"columns: {role}={name!r}; the name of a column must be text",
                )
                for role, name in (*column_of_role.items(), *(("score", pattern) for pattern in score_patterns))
            )
        )
        pattern_with_order = next(
            (
                pattern
                for pattern in score_patterns
                if any("order" in pattern_reading.fields for pattern_reading in ColumnPattern.readings(pattern))
            ),
            "",
        )
        column_mapping = cls(roles=column_of_role, patterns=tuple(score_patterns))
        winner_column_or_pattern, text_pattern = column_of_role.get("winner", ""), column_mapping.text_pattern
        winner_fields = (
            ColumnPattern.readings(winner_column_or_pattern)[0].fields
            if "{" in winner_column_or_pattern
            else ("rater",)
        )
        reject(
            (
                {"rater", "order"}.isdisjoint(winner_fields) or "system" in winner_fields,
                f"columns: winner={winner_column_or_pattern!r}: a pattern of verdicts needs "
                "{rater} or {order} and must not have {system}",
            ),
            (
                pattern_with_order,
                f"columns: pattern {pattern_with_order!r}: {{order}} is only allowed in a pattern for winner",
            ),
            (
                text_pattern and set(text_pattern.fields) != {"system"},
                f"columns: text={column_of_role.get('text')!r}: a pattern of texts needs {{system}} and must not have "
                f"other placeholders",
            ),
        )
        return column_mapping

    @property
    def text_pattern(self) -> ColumnPattern | None:
        """The pattern of text columns, if the role `text` has a pattern."""
        pattern_text = self.roles.get("text", "")
        return ColumnPattern.readings(pattern_text)[0] if "{system" in pattern_text else None

    def verdict_columns(self, column_names: Sequence[str]) -> dict[str, dict[str, str]]:
        """The labels in the name of each column that the pattern `winner` matches; empty if `winner` is not a
        pattern."""
        winner_pattern_text = self.roles.get("winner", "")
        if "{" not in winner_pattern_text:
            return {}
        role_names_and_synonyms = {*TABLE_ROLES, *chain(*ROLE_SYNONYMS.values())}
        free_column_names = [
            name for name in column_names if name not in self.roles.values() and name not in role_names_and_synonyms
        ]
        return split_columns(ColumnPattern.readings(winner_pattern_text)[0], free_column_names)

    def verdict_rows(self, frame: pl.DataFrame, *, where: str) -> pl.DataFrame:
        """The table with one row per verdict if `winner` is a pattern; otherwise the unchanged table."""
        label_by_role_of_column = self.verdict_columns(frame.columns)
        if not label_by_role_of_column:
            return frame
        verdict_frames = []
        for column_name, label_by_role in label_by_role_of_column.items():
            reject(
                *(
                    (
                        role in label_by_role and role in (*self.roles, *frame.columns),
                        f"{where}: the {role_noun} are named twice, by the pattern for `winner` and by the column for "
                        f"`{role}`; remove one of them",
                    )
                    for role, role_noun in (("rater", "raters"), ("order", "presentation orders"))
                )
            )
            if "rater" in label_by_role:
                label_by_role = {
                    **label_by_role,
                    "kind": label_by_role.get("kind") or kind_of_label(label_by_role["rater"]) or "metric",
                }
            verdict_frames.append(
                frame.drop(label_by_role_of_column).with_columns(
                    *(pl.lit(label).alias(role) for role, label in label_by_role.items()),
                    winner=frame[column_name].cast(pl.String),
                )
            )
        return pl.concat(verdict_frames)

    def __bool__(self) -> bool:
        return bool(self.roles or self.patterns)

    @property
    def mapping(self) -> dict[str, Any]:
        """The mapping in the form that `make` accepts."""
        return {**self.roles, **({"score": list(self.patterns)} if self.patterns else {})}

    def merge_defaults(self, defaults: Columns) -> Columns:
        """This mapping, with the mapping `defaults` added. Roles and patterns of this mapping take precedence."""
        column_of_role = {**defaults.roles, **self.roles}
        return Columns(
            roles={
                role: column_of_role[role]
                for role in ROLES
                if role in column_of_role and not (role == "score" and self.patterns)
            },
            patterns=self.patterns or (() if "score" in self.roles else defaults.patterns),
        )

    def with_named_properties(self, frame: pl.DataFrame) -> Columns:
        """The mapping. For a table of items and systems, each of the columns `cluster`, `group` and `dataset` is added
        to the mapping if every item has only one value in the column."""
        old_name_of_new_name = self.old_names(frame.columns)
        if "item" not in old_name_of_new_name or {"system", "system_a", "model_a"}.isdisjoint(old_name_of_new_name):
            return self
        item_column_name = old_name_of_new_name["item"]
        column_of_added_role: dict[str, str] = {
            name: name
            for name in ("cluster", "group", "dataset")
            if old_name_of_new_name.get(name) == name
            and frame.select(item_column_name, name).n_unique() == frame[item_column_name].n_unique()
        }
        return replace(self, roles={**self.roles, **column_of_added_role}) if column_of_added_role else self

    def expand_nested(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The table with nested cells expanded to columns, if the mapping has paths into nested cells; otherwise the
        unchanged table."""
        roles = {role: mapped_name for role, mapped_name in self.roles.items() if role != "phrase"}
        mapped_names = [name for role, mapped_name in roles.items() for name in component_columns(role, mapped_name)]
        if not any("." in mapped_name or "*" in mapped_name for mapped_name in (*mapped_names, *self.patterns)):
            return frame
        matched_patterns = self.match_patterns(frame.columns)
        unmatched_names = [
            *(mapped_name for mapped_name in mapped_names if not expand_name(mapped_name, frame.columns)),
            *(pattern for pattern in self.patterns if pattern not in matched_patterns),
        ]
        return flatten_nested(frame, unmatched_names) if unmatched_names and nested_columns(frame) else frame

    def check(self, column_name_lists: Sequence[Sequence[str]]) -> None:
        """Raise `OptionError` for a column that exists in no table, and for a pattern that matches no column.

        `column_name_lists` has the names of the columns of each table.
        """
        reject(
            (
                len(self.roles.keys() & set(PAIR)) == 1,
                f"columns: only one of {' and '.join(PAIR)} is mapped; map both",
            ),
            (
                not column_name_lists,
                "columns: a mapping applies only to tables, and no input is a table; leave columns out",
            ),
        )
        all_column_names = list(
            dict.fromkeys(column_name for table_column_names in column_name_lists for column_name in table_column_names)
        )
        for role, name_or_pattern in self.roles.items():
            if role == "phrase":
                compile_phrases(name_or_pattern)
                if "winner" not in self.roles and "winner" not in all_column_names:
                    raise OptionError(
                        "columns: phrase needs a column of winners; map winner to the column with the phrases"
                    )
            elif role == "text" and self.text_pattern:
                if not any(self.texts(table_column_names).systems for table_column_names in column_name_lists):
                    raise OptionError(
                        f"columns: text={name_or_pattern!r} matches no column that is still without a role; columns: "
                        f"{join_labels(all_column_names, limit=MAX_LISTED)}"
                    )
            elif not (role == "winner" and any(map(self.verdict_columns, column_name_lists))):
                for column_name in component_columns(role, name_or_pattern):
                    if not expand_name(column_name, all_column_names):
                        raise OptionError(
                            f"columns: {role}={column_name!r}: no such "
                            f"column{suggestion(column_name, all_column_names)}; columns: "
                            f"{join_labels(all_column_names, limit=MAX_LISTED)}"
                        )
        free_column_names = {
            column_name: None
            for table_column_names in column_name_lists
            for column_name in _unmapped_columns(self.old_names(table_column_names), self.patterns)
        }
        matched_patterns = {
            pattern for table_column_names in column_name_lists for pattern in self.match_patterns(table_column_names)
        }
        unmatched_pattern = next((pattern for pattern in self.patterns if pattern not in matched_patterns), "")
        reject(
            (
                unmatched_pattern and not _unmapped_columns([*all_column_names, *self.roles], self.patterns),
                f"columns: pattern {unmatched_pattern!r} is not used, because the table already has verdicts (column "
                "winner or preference) or scores (columns rater and score); remove the pattern, or rename that column",
            ),
            (
                unmatched_pattern,
                f"columns: pattern {unmatched_pattern!r} matches no column that is still without a "
                f"role{suggestion(unmatched_pattern, free_column_names, cutoff=0.5)}; columns: "
                f"{join_labels(free_column_names, limit=MAX_LISTED)}",
            ),
        )

    def match_patterns(self, column_names: Sequence[str]) -> set[str]:
        """The patterns that match a column of a table with these columns."""
        return {column_pattern.written for column_pattern, _ in self.split(column_names).values()}

    def apply(self, frame: pl.DataFrame, *, where: str) -> MappingResult:
        """The table with its columns named by roles; the input frame is not modified.

        If a pattern matches, the table becomes a long table of item, system, rater and score. A mapped column takes
        precedence over a column with the name of the role.
        """
        text_mapping = self.texts(frame.columns)
        old_name_of_new_name, match_of_score_column = self.old_names(frame.columns), self.split(frame.columns)
        has_ratings = (
            match_of_score_column
            or {"winner", "preference"} & set(old_name_of_new_name)
            or {"rater", "score"} <= set(old_name_of_new_name)
        )
        text_table, text_notes = (
            text_mapping.table(frame, where=where, has_rating_rows=bool(has_ratings)) if text_mapping else (None, [])
        )
        if text_mapping and not has_ratings:
            mapped_column_names = {
                *text_mapping.assigned_columns(frame.columns),
                *self._present_roles(frame.columns).values(),
                "item",
                "system",
            }
            unused_column_names = [name for name in frame.columns if name not in mapped_column_names]
            number_column_names = [
                name for name in unused_column_names if not is_fact(name) and count_filled_cells(frame[name])[1]
            ]
            if self.patterns and number_column_names:
                raise UnfitError(
                    f"{where}: no pattern matches the columns that hold numbers ({join_labels(number_column_names)}); "
                    "add a pattern"
                )
            text_notes += build_notes(unused_columns(unused_column_names, where=where))
            mapped_table = frame.select(
                pl.col(name).alias(role) for role, name in text_mapping.roles.items() if role == "item"
            )
            item_table = self._extract_item_table(frame, mapped_table, where=where)
            return MappingResult(frame=None, items=item_table, texts=text_table, notes=tuple(text_notes), wide=False)
        mapped_table = frame.select(pl.col(name).alias(new_name) for new_name, name in old_name_of_new_name.items())
        mapped_table, notes = with_kinds(mapped_table, self.roles, where=where)
        overridden_column_texts = [
            f"{name!r} ({role}={self.roles[role]!r} is used)"
            for name, role in _overridden_columns(self._present_roles(frame.columns), frame.columns).items()
        ]
        notes[:0] = build_notes(
            (
                "column-gave-way",
                len(overridden_column_texts),
                f"{where}: columns not used: {join_labels(overridden_column_texts)}",
            )
        )
        if "phrase" in self.roles and "winner" in mapped_table.columns:
            mapped_table, phrase_notes = replace_phrases(mapped_table, self.roles["phrase"], where=where)
            notes += phrase_notes
        if PAIR[0] in text_mapping.roles and not {"system_a", "model_a"} & set(mapped_table.columns):
            mapped_table = mapped_table.with_columns(system_a=pl.lit("a"), system_b=pl.lit("b"))
            note_message = f"{where}: no column names the two systems of a pair, so the systems are called a and b"
            notes.append(Note(rule="nameless-systems", message=note_message))
        item_table = self._extract_item_table(frame, mapped_table, where=where)
        has_no_system_name = (
            not any("system" in label_by_role for _, label_by_role in match_of_score_column.values())
            and "system" not in mapped_table.columns
        )
        key_column_names = [name for name in ROW_KEYS if name in mapped_table.columns]
        if (
            has_no_system_name
            and "item" in key_column_names
            and (match_of_score_column or {"rater", "score"} <= set(mapped_table.columns))
            and not mapped_table.select(key_column_names).is_duplicated().any()
        ):
            system_name = PurePath(where).name.partition(".")[0]
            mapped_table = mapped_table.with_columns(system=pl.lit(system_name))
            note_message = (
                f"{where}: no column names the system, so all rows are of one system, called {system_name} unless "
                "another file names the system"
            )
            notes.append(Note(rule=SYSTEM_OF_FILE, message=note_message))
        notes += text_notes
        if match_of_score_column:
            mapped_table, melt_notes = melt_patterns(mapped_table, match_of_score_column, where=where)
            notes += melt_notes
        return MappingResult(
            frame=mapped_table,
            items=item_table,
            texts=text_table,
            notes=tuple(notes),
            wide=bool(match_of_score_column),
        )

    def texts(self, column_names: Sequence[str]) -> TextColumns:
        """The columns with texts, among these columns of a table."""
        column_of_role = {
            role: name
            for role, name in self.roles.items()
            if name in column_names or (role in TEXTS and expand_name(name, column_names))
        }
        system_of_column = {}
        if self.text_pattern:
            free_column_names = [
                name for name in column_names if name not in column_of_role.values() and name not in TABLE_ROLES
            ]
            system_of_column = {
                name: label_by_role["system"].strip()
                for name, label_by_role in split_columns(self.text_pattern, free_column_names).items()
            }
        return TextColumns(roles=column_of_role, systems=system_of_column)

    def _extract_item_table(
        self, frame: pl.DataFrame, mapped_table: pl.DataFrame, *, where: str
    ) -> pl.DataFrame | None:
        """The table of items; None if no column describes items."""
        column_of_item_role = {role: name for role, name in self._present_roles(frame.columns).items() if role in FACTS}
        if not column_of_item_role:
            return None
        return item_facts(
            mapped_table,
            frame.select(pl.col(name).alias(role) for role, name in column_of_item_role.items()),
            where=where,
        )

    def _present_roles(self, column_names: Sequence[str]) -> dict[str, str]:
        return {role: name for role, name in self.roles.items() if name in column_names}

    def old_names(self, column_names: Sequence[str]) -> dict[str, str]:
        """The old name of each column, by new name. Three kinds of columns are left out. First, columns that describe
        items and are not named like a role. Second, columns with texts. Third, columns that are named like a role
        although a different column is mapped to this role.
        """
        column_of_role, text_mapping = self._present_roles(column_names), self.texts(column_names)
        changed_or_dropped_names = {
            *(
                name
                for role, name in column_of_role.items()
                if role not in FACTS or name not in (*SCORE_ROLES, *VERDICT_ROLES)
            ),
            *_overridden_columns(column_of_role, column_names),
            *(text_mapping.assigned_columns(column_names) if text_mapping else ()),
        }
        column_of_row_role = {
            role: name
            for role, name in column_of_role.items()
            if role not in FACTS and not (text_mapping and role in TEXTS)
        }
        return {**column_of_row_role, **{name: name for name in column_names if name not in changed_or_dropped_names}}

    def split(self, column_names: Sequence[str]) -> dict[str, tuple[ColumnPattern, dict[str, str]]]:
        """The score columns, each with the first pattern that matches and the labels in the name of the column."""
        free_column_names = _unmapped_columns(self.old_names(column_names), self.patterns)
        match_of_column: dict[str, tuple[ColumnPattern, dict[str, str]]] = {}
        for pattern_text in self.patterns:
            for column_pattern in ColumnPattern.readings(pattern_text):
                label_by_role_of_column = split_columns(
                    column_pattern, [name for name in free_column_names if name not in match_of_column]
                )
                match_of_column |= {
                    name: (column_pattern, label_by_role) for name, label_by_role in label_by_role_of_column.items()
                }
                if label_by_role_of_column and not is_path(pattern_text):
                    break
        return {name: match_of_column[name] for name in column_names if name in match_of_column}


def _overridden_columns(column_of_role: Mapping[str, str], column_names: Sequence[str]) -> dict[str, str]:
    """The columns that are named like a role although a different column is mapped to this role. The values are the
    roles."""
    role_of_name = {name: role for role in column_of_role for name in (role, *ROLE_SYNONYMS.get(role, ()))}
    mapped_names = set(column_of_role.values())
    return {name: role_of_name[name] for name in column_names if name in role_of_name and name not in mapped_names}


def _unmapped_columns(column_names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The columns without a role, which patterns may match. The result is empty for a table of verdicts. The result is
    also empty for a long table, except if its column `score` is given as a pattern, as in `human:score`."""
    column_name_list = list(column_names)
    is_long_table = {"rater", "score"} <= set(column_name_list) and "human:score" not in patterns
    if {"winner", "preference"} & set(column_name_list) or is_long_table:
        return []
    return [name for name in column_name_list if name == "score" or name not in TABLE_ROLES]
