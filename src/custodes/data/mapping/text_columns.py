"""Conversion of the texts in any table to the table `item, system, text` that the reader `outputs` accepts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any

import polars as pl

from custodes.data.notes import Note, build_notes
from custodes.data.outputs import format_dialogue, parse_turns, select_first_values
from custodes.data.table import label_column
from custodes.errors import InputError

ITEM_ROLES = ("source", "references", "context", "images")
"""Roles of texts with one value per item."""
PAIR = ("output_a", "output_b")
TEXTS = ("text", *ITEM_ROLES, "messages", *PAIR)
"""Roles of texts."""
ANSWERS = ("assistant", "gpt", "bot", "chatbot", "model", "ai", "agent", "chatgpt")
"""Speakers whose turns are outputs."""


@dataclass(frozen=True, kw_only=True)
class TextColumns:
    """The text columns of a table: `roles` (role to column), and `systems` (matched column to system)."""

    roles: Mapping[str, str]
    systems: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.systems) or not {"text", "messages", *PAIR}.isdisjoint(self.roles)

    def assigned_columns(self, column_names: Sequence[str]) -> set[str]:
        """The columns with texts."""
        return {
            *(
                column_name
                for role, name_or_pattern in self.roles.items()
                if role in TEXTS
                for column_name in expand_name(name_or_pattern, column_names)
            ),
            *self.systems,
        }

    def table(self, frame: pl.DataFrame, *, where: str, has_rating_rows: bool) -> tuple[pl.DataFrame, list[Note]]:
        """A table with one row per output: item, system, text, and the columns that describe the item.

        With `has_rating_rows`, rows are ratings, so an output may occur in several rows. Without an item column, the
        item is the source. Without an item column and a source, the item is the row number if a row has the outputs of
        several systems. Without a system column, the system is the name of the file.
        """
        cells_of_role = {role: self._cells(frame, role) for role in ITEM_ROLES if role in self.roles}
        system_and_text_columns: list[tuple[pl.Series | str, pl.Series]] = []
        uses_last_turn = "text" not in self.roles and not self.systems
        if "messages" in self.roles:
            conversation_table = pl.DataFrame(
                [
                    _split_conversation(cell, f"{where}, row {row_number}", uses_last_turn=uses_last_turn)
                    for row_number, cell in enumerate(frame[self.roles["messages"]], start=1)
                ],
                schema=dict.fromkeys(("text", "source", "context"), pl.String),
                orient="row",
            )
            cells_of_role |= {
                role: conversation_table[role] for role in ("source", "context") if role not in self.roles
            }
            system_and_text_columns += (
                [(self._system(frame, where), conversation_table["text"])] if uses_last_turn else []
            )
        system_and_text_columns += [
            (system, convert_to_text(frame[column_name], where=where)) for column_name, system in self.systems.items()
        ]
        side_of_role = {"text": "", **dict(zip(PAIR, ("a", "b"), strict=True))}
        system_and_text_columns += [
            (self._system(frame, where, side), convert_to_text(frame[self.roles[role]], where=where))
            for role, side in side_of_role.items()
            if role in self.roles
        ]
        item_label_series = self._item(
            frame, cells_of_role, where, allows_row_numbers=bool(self.systems) or PAIR[0] in self.roles
        )
        item_text_columns = [cell_series.alias(role) for role, cell_series in cells_of_role.items()]
        output_rows = pl.concat(
            [
                pl.DataFrame([item_label_series, text_series.alias("text"), *item_text_columns]).with_columns(
                    pl.lit(system_labels).alias("system")
                    if isinstance(system_labels, str)
                    else system_labels.alias("system")
                )
                for system_labels, text_series in system_and_text_columns
            ]
        )
        if not has_rating_rows and len(system_and_text_columns) == 1 and "text" in self.roles:
            output_rows = output_rows.with_columns(pl.col("text").fill_null(""))  # each row is an output
        return _select_first_texts(output_rows, where=where, has_rating_rows=has_rating_rows)

    def _item(
        self, frame: pl.DataFrame, cells_of_role: Mapping[str, pl.Series], where: str, *, allows_row_numbers: bool
    ) -> pl.Series:
        item_column_name = self.roles.get("item") or ("item" if "item" in frame.columns else None)
        if item_column_name is not None:
            return label_column(frame, item_column_name, where=where).alias("item")
        if "source" in cells_of_role and cells_of_role["source"].is_not_null().all():
            return cells_of_role["source"].str.strip_chars().alias("item")
        if allows_row_numbers:
            return pl.Series("item", [str(row_number) for row_number in range(1, frame.height + 1)])
        raise InputError(
            f"{where}: no column has the role item, so outputs of an item cannot be joined; map item or source"
        )

    def _system(self, frame: pl.DataFrame, where: str, side: str = "") -> pl.Series | str:
        """The systems of the texts, or of one side of a pair (`a` or `b`). If no column names the systems, the name of
        the file or of the side is used."""
        role = f"system_{side}" if side else "system"
        usual_names = (role, f"model_{side}") if side else (role,)
        column_name = next((name for name in (self.roles.get(role), *usual_names) if name in frame.columns), None)
        if column_name is None:
            return side or PurePath(where).name.partition(".")[0]
        return label_column(frame, column_name, where=where)

    def _cells(self, frame: pl.DataFrame, role: str) -> pl.Series:
        """The cells of a role. If the role has several columns, a cell is a JSON list of the non-empty cells."""
        text_series_list = [
            convert_to_text(frame[column_name], where=role, allows_lists=role != "source")
            for column_name in expand_name(self.roles[role], frame.columns)
        ]
        if len(text_series_list) == 1:
            return text_series_list[0]
        return pl.Series(
            [
                json.dumps([cell_text for cell_text in row_cells if cell_text], ensure_ascii=False)
                for row_cells in zip(*text_series_list, strict=True)
            ]
        )


def expand_name(name: str, column_names: Sequence[str]) -> list[str]:
    """The columns that a name refers to: the column of that name, or columns that match a glob such as `reference_*`.

    >>> expand_name("ref_*", ["ref_1", "ref_2", "id"]), expand_name("id", ["id"])
    (['ref_1', 'ref_2'], ['id'])
    """
    if name in column_names or "*" not in name:
        return [name] if name in column_names else []
    return [column_name for column_name in column_names if fnmatchcase(column_name, name)]


def convert_to_text(column: pl.Series, *, where: str, allows_lists: bool = True) -> pl.Series:
    """A column as text, with lists and objects as JSON."""
    if column.dtype == pl.Object:
        column = pl.Series(column.name, [None if cell is None else str(cell) for cell in column], dtype=pl.String)
    if not column.dtype.is_nested():
        return column.cast(pl.String)
    if not allows_lists:
        raise InputError(f"{where}: column {column.name!r} holds {column.dtype}, expected text")
    return pl.Series(
        column.name,
        [None if cell is None else json.dumps(cell, ensure_ascii=False, default=str) for cell in column.to_list()],
        dtype=pl.String,
    )


def _split_conversation(cell: Any, where: str, *, uses_last_turn: bool) -> tuple[str | None, str | None, str | None]:
    """Output, source and context of a conversation.

    The output is the last answer. The source is the turn of the user before that answer, and the context has all
    earlier turns as a dialogue. The output is None if the last turn is not an answer.
    """
    if cell is None or (isinstance(cell, str) and not cell):
        return None, None, None
    turns = parse_turns(cell)
    if turns is None:
        raise InputError(f"{where}: messages must be a list of turns, each with role and content")
    *earlier_turns, (last_speaker, last_text) = turns
    answer_text = last_text if uses_last_turn and last_speaker.lower() in ANSWERS else None
    earlier_turns = earlier_turns if answer_text is not None else turns
    user_turn_indices = [
        turn_index
        for turn_index, (turn_speaker, _) in enumerate(earlier_turns)
        if turn_speaker.lower() not in (*ANSWERS, "system", "developer")
    ]
    source_text = earlier_turns.pop(user_turn_indices[-1])[1] if user_turn_indices else None
    return answer_text, source_text, format_dialogue(earlier_turns) if earlier_turns else None


def _select_first_texts(
    output_rows: pl.DataFrame, *, where: str, has_rating_rows: bool
) -> tuple[pl.DataFrame, list[Note]]:
    """A table with each output once, and notes. A text that describes an item, such as the source,
    is the first non-empty value of the item."""
    source_rows = output_rows.drop("system", "text")
    text_rows = output_rows.select("item", "system", "text").drop_nulls("text").unique(maintain_order=True)
    first_text_rows, source_rows, notes = select_first_values(text_rows, source_rows, where=where)
    text_rows = (
        first_text_rows
        if has_rating_rows
        else text_rows.filter(~((pl.col("text") == "") & (pl.col("text") != "").any().over("item", "system")))
    )
    n_items_without_output = source_rows.join(text_rows, on="item", how="anti").height
    notes += build_notes(
        (
            "items-without-output",
            n_items_without_output,
            f"{where}: {n_items_without_output} items have no output and are left out",
        )
    )
    return text_rows.join(source_rows, on="item", how="left", maintain_order="left"), notes
