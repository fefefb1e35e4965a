"""JSON and JSON Lines: a list of objects, or one object per line, with numbers as the text they were written in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from custodes.data.loading.size import check_cells, check_records
from custodes.data.loading.table import named_columns
from custodes.errors import InputError, listed
from custodes.sealed import without_twins


def parse_json(text: str, *, where: str) -> Any:
    """JSON with numbers as the text they were written in; a key that stands twice is an error."""
    try:
        return json.loads(text, parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=without_twins)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise InputError(f"{where}: malformed JSON at {at}: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{where}: the JSON is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def from_json(text: str, name: str) -> pl.DataFrame:
    """A list of objects as a frame of text."""
    check_records(text, name)
    records = parse_json(text, where=name)
    if isinstance(records, dict):
        raise InputError(
            f"{name}: JSON of a layout that is not known here: an object with keys {listed(records, limit=5)};"
            " a table is a list of objects, or one object per line in a file named .jsonl"
        )
    if not isinstance(records, list):
        raise InputError(f"{name}: a .json file must hold a list of objects; name JSON Lines .jsonl")
    return from_records(records, name, "entry")


def from_lines(text: str, name: str) -> pl.DataFrame:
    """An object a line as a frame of text; blank lines are passed over."""
    check_records(text, name)
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    records = [parse_json(line, where=f"{name}, line {number}") for number, line in lines]
    return from_records(records, name, "row")


def from_records(records: Sequence[Any], name: str, unit: str) -> pl.DataFrame:
    """Objects as a frame of text; what is nested becomes JSON."""
    strays = [number for number, record in enumerate(records, start=1) if not isinstance(record, dict)]
    if strays:
        raise InputError(f"{name}: {unit} {listed(strays, limit=5)} is no JSON object; every {unit} is one object")
    for number, record in enumerate(records, start=1):
        named_columns(record, where=f"{name}, {unit} {number}")
    records = [{key.strip(): value for key, value in record.items()} for record in records]
    columns = dict.fromkeys(key for record in records for key in record)
    check_cells(len(records), len(columns), name)
    try:
        return pl.DataFrame(
            {column: [_cell(record.get(column)) for record in records] for column in columns},
            schema=dict.fromkeys(columns, pl.String),
        )
    except UnicodeEncodeError:
        raise InputError(f"{name}: holds a lone surrogate (\\ud800 to \\udfff); mend the cell") from None


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
