"""Tables in JSON (a list of objects) and JSON Lines (one object per line), with numbers kept as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from types import NoneType
from typing import Any

import polars as pl

from custodes.data.loading import compression
from custodes.data.loading.traces import with_spans
from custodes.data.notes import Note, build_notes
from custodes.data.table import UNPAIRED_SURROGATE, select_part, shorten_part, with_column_names
from custodes.errors import InputError, join_labels
from custodes.strict_json import reject_duplicate_keys

# Reused, because constructing a decoder or an encoder takes as long as a small object.
_AS_TEXT = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=reject_duplicate_keys)
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def parse_json(text: str, *, where: str, as_text: bool = True) -> Any:
    """Parse a JSON text. With `as_text` numbers stay text, and duplicate keys raise `InputError`."""
    try:
        return _AS_TEXT.decode(text) if as_text else json.loads(text)
    except json.JSONDecodeError as error:
        position_text = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise InputError(f"{where}: malformed JSON at {position_text}: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{where}: the JSON is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def from_json(text: str, where: str, part: str | None = None) -> tuple[pl.DataFrame, list[Note]]:
    """A list of objects as a frame of text. If the JSON is a single object, the table is the list at the path `part`,
    or the longest list of objects."""
    compression.check_size(compression.JSON_COPIES * len(text), f"{where}: the JSON may take")
    parsed_json = parse_json(text, where=where)
    notes: list[Note] = []
    if isinstance(parsed_json, dict) and "resourceSpans" in parsed_json and part is None:
        parsed_json = [parsed_json]
    if isinstance(parsed_json, dict):
        records_of_path = find_tables(parsed_json)
        paths_by_length = sorted(records_of_path, key=lambda path: len(records_of_path[path]), reverse=True)
        if not paths_by_length:
            raise InputError(
                f"{where}: unknown JSON layout: an object with keys {join_labels(parsed_json, limit=5)}; a table is a "
                "list of objects, or a .jsonl file with one object per line"
            )
        list_lengths = [len(records_of_path[path]) for path in paths_by_length]
        if part is None and list_lengths[:1] != list_lengths[1:2]:
            part, *other_paths = paths_by_length
            other_names_text = join_labels(f"{where}::{path}" for path in other_paths)
            notes = build_notes(
                (
                    "list-in-object",
                    True,
                    f"{where}: the rows are read from the list {part!r}{'; other lists: ' * bool(other_paths)}"
                    f"{other_names_text}",
                )
            )
        parsed_json = records_of_path[select_part(part, records_of_path, name=where, what="list")]
    elif part is not None:
        raise InputError(f"{where}: the file holds one table and has no parts; remove '::{shorten_part(part)}'")
    if not isinstance(parsed_json, list):
        raise InputError(
            f"{where}: a .json file must hold a list of objects; if the file is JSON Lines, rename it to end in .jsonl"
        )
    return from_records(parsed_json, where, "entry"), notes


def find_tables(json_value: Any, path: str = "", remaining_depth: int = 5) -> dict[str, list[dict[str, Any]]]:
    """The lists of objects in an object, by path. Lists inside these lists are left out. An object whose values are
    objects with equal keys is converted to a list with the column `key`.

    >>> list(find_tables({"version": 1, "results": {"rows": [{"id": 1}], "seconds": 2}}))
    ['results.rows']
    """
    if isinstance(json_value, list):
        is_table = path and json_value and all(isinstance(element, dict) for element in json_value)
        return {path: json_value} if is_table else {}
    if not isinstance(json_value, dict) or not remaining_depth:
        return {}
    children = list(json_value.values())
    if len(children) > 1 and all(isinstance(child, dict) and child.keys() == children[0].keys() for child in children):
        return {path or "*": [{"key": key, **child} for key, child in json_value.items()]} if children[0] else {}
    records_of_path: dict[str, list[dict[str, Any]]] = {}
    for key, child in json_value.items():
        records_of_path |= find_tables(child, f"{path}.{key}" if path else key, remaining_depth - 1)
    return records_of_path


def from_lines(text: str, where: str) -> pl.DataFrame:
    """A frame of text from one object per line; blank lines are ignored."""
    compression.check_size(compression.TEXT_COPIES * len(text), f"{where}: the JSON may take")
    # One line at a time, since a list of all lines would take as much memory as the text.
    return from_records(
        (
            parse_json(line_match[0], where=f"{where}, line {line_number}")
            for line_number, line_match in enumerate(re.finditer(r"^.*$", text, re.MULTILINE), start=1)
            if line_match[0].strip()
        ),
        where,
        "row",
    )


def from_records(records: Iterable[Any], where: str, unit: str) -> pl.DataFrame:
    """A frame of text from objects; nested values become JSON, and exports of traces have a row for each span.

    Objects are converted to columns in blocks, since columns take a tenth of the memory of objects.
    """
    record_iterator, batch_frames, n_rows, invalid_record_numbers = (
        with_spans(records, where),
        list[pl.DataFrame](),
        0,
        list[int](),
    )
    while record_batch := list(islice(record_iterator, compression.BATCH_ROWS)):
        invalid_record_numbers += [
            record_number
            for record_number, record in enumerate(record_batch, start=n_rows + 1)
            if not isinstance(record, dict)
        ]
        if not invalid_record_numbers:
            batch_frames.append(_text_frame(record_batch, where))
        n_rows += len(record_batch)
        n_columns = len({column_name for batch_frame in batch_frames for column_name in batch_frame.columns})
        compression.check_size(
            compression.CELL * n_rows * n_columns,
            f"{where}: {n_rows:,} rows of {n_columns:,} columns take",
        )
    if invalid_record_numbers:
        raise InputError(
            f"{where}: {unit} {join_labels(invalid_record_numbers, limit=5)} is not a JSON object; every {unit} must "
            "be a JSON object"
        )
    return (
        pl.concat(batch_frames, how="diagonal").rechunk()
        if any(batch_frame.width for batch_frame in batch_frames)
        else pl.DataFrame()
    )


def _texts(cells: list[Any]) -> list[str | None]:
    """Cells as text; truth values and nested values become JSON."""
    if {*map(type, cells)} <= {str, NoneType}:
        return cells
    return [cell if cell is None or isinstance(cell, str) else _ENCODER.encode(cell) for cell in cells]


def _text_frame(records: Sequence[dict[str, Any]], where: str) -> pl.DataFrame:
    """Objects as a frame of text."""
    column_names = dict.fromkeys(
        column_name for key_tuple in dict.fromkeys(map(tuple, records)) for column_name in key_tuple
    )
    texts_of_column = {
        column_name: _texts([record.get(column_name) for record in records]) for column_name in column_names
    }
    if not texts_of_column:
        return pl.DataFrame(height=len(records))
    try:
        return with_column_names(pl.DataFrame(texts_of_column, dict.fromkeys(column_names, pl.String)), where=where)
    except UnicodeEncodeError:
        raise InputError(f"{where}: a cell holds {UNPAIRED_SURROGATE}; correct the cell") from None
