"""Nested tables: values of objects in cells become columns that are named by the path, such as `scores.fluency`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from custodes.data.outputs import parse_turns
from custodes.data.table import series_of
from custodes.errors import join_labels

DEPTH = 8
"""Maximum number of levels of objects to flatten."""
LONGEST = 64
"""Maximum length of a list whose values become columns."""
MAX_COLUMNS = 2000
"""Maximum number of columns of a flattened table."""
MAX_LISTED = 12
"""Maximum number of paths in an error message."""


def nested_columns(frame: pl.DataFrame) -> list[str]:
    """The columns whose cells are objects or lists, or JSON of objects or lists."""
    return [column.name for column in frame.iter_columns() if _is_nested(column)]


def flatten_nested(frame: pl.DataFrame, paths: Iterable[str] = ()) -> pl.DataFrame:
    """The table with a column for each value in nested cells; conversations and lists of texts stay nested. `paths` are
    the paths that a mapping names. For example, `outputs.*.text` gives one row for each entry of the list `outputs`,
    and `tags.0` gives a column for the first position in the list `tags`.

    >>> flatten_nested(pl.DataFrame({"id": [1], "scores": ['{"style": {"ann": [4, 5]}}']})).columns
    ['id', 'scores.style.ann.0', 'scores.style.ann.1']
    """
    named_paths = list(paths)
    for column_name in nested_columns(frame):
        cell_values = _cell_values(frame[column_name])
        starred_paths = [
            named_path for named_path in named_paths if named_path.startswith(f"{column_name}.") and ".*." in named_path
        ]
        if starred_paths and any(
            isinstance(cell_value, list) and cell_value and isinstance(cell_value[0], dict)
            for cell_value in cell_values
        ):
            row_indices_and_entries = [
                (row_index, {"*": list_entry})
                for row_index, cell_value in enumerate(cell_values)
                for list_entry in (cell_value if isinstance(cell_value, list) else [cell_value])
            ]
            frame = frame.select(pl.all().gather([row_index for row_index, _ in row_indices_and_entries])).with_columns(
                _cell_column(column_name, [wrapped_entry for _, wrapped_entry in row_indices_and_entries])
            )
    column_of_path: dict[str, pl.Series] = {}
    for column in frame.iter_columns():
        is_nested = _is_nested(column)
        cells_of_path: dict[str, list[Any]] = {}
        for row_index, cell_value in enumerate(_cell_values(column) if is_nested else ()):
            for leaf_path, leaf_value in _iter_leaves(cell_value, column.name, named_paths, DEPTH):
                cells_of_path.setdefault(leaf_path, [None] * frame.height)[row_index] = leaf_value
        if not is_nested or len(column_of_path) + len(cells_of_path) > MAX_COLUMNS:
            column_of_path[column.name] = column
        else:
            column_of_path |= {
                leaf_path: _cell_column(leaf_path, cells)
                for leaf_path, cells in cells_of_path.items()
                if leaf_path == column.name or leaf_path not in frame
            }
    return pl.DataFrame(list(column_of_path.values()))


def describe_paths(frame: pl.DataFrame) -> str:
    """Advice with the paths of nested values; '' if there are none.

    >>> describe_paths(pl.DataFrame({"id": [1], "outputs": ['[{"system": "a", "bleu": 0.5}]']}))
    '. Paths of nested values: outputs.*.system, outputs.*.bleu'
    """
    nested_frame = frame.select(nested_columns(frame)).head(1)
    entry_paths = [f"{column_name}.*." for column_name in nested_frame.columns]
    nested_paths = [name for name in flatten_nested(nested_frame, entry_paths).columns if name not in frame.columns]
    return f". Paths of nested values: {join_labels(nested_paths, limit=MAX_LISTED)}" if nested_paths else ""


def _is_nested(column: pl.Series) -> bool:
    if column.dtype != pl.String:
        return column.dtype.is_nested()
    cells = column.drop_nulls().str.strip_chars()
    cells = cells.filter(cells != "")
    has_brackets = cells.len() > 0 and cells.str.contains(r"^(\{[\s\S]*\}|\[[\s\S]*\])$").all()
    return bool(has_brackets) and all(isinstance(_parse_cell(cell), dict | list) for cell in cells.head(3))


def _cell_values(column: pl.Series) -> list[Any]:
    return column.to_list() if column.dtype.is_nested() else [_parse_cell(cell) for cell in column]


def _parse_cell(cell: str | None) -> Any:
    """The value of a JSON text, with numbers as written. Text that is not JSON is unchanged."""
    try:
        return None if cell is None else json.loads(cell, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return cell


def _iter_leaves(value: Any, path: str, named_paths: Iterable[str], remaining_depth: int) -> Iterator[tuple[str, Any]]:
    """The values below a path, with their paths."""
    if isinstance(value, dict) and remaining_depth:
        for key, child_value in value.items():
            yield from _iter_leaves(child_value, f"{path}.{key}", named_paths, remaining_depth - 1)
    elif (
        isinstance(value, list)
        and remaining_depth
        and len(value) <= LONGEST
        and _is_expandable(value, path, named_paths)
    ):
        for element_index, child_value in enumerate(value):
            yield from _iter_leaves(child_value, f"{path}.{element_index}", named_paths, remaining_depth - 1)
    elif value is not None:
        yield path, json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else value


def _is_expandable(value: list[Any], path: str, named_paths: Iterable[str]) -> bool:
    """Whether a list becomes columns. Four kinds of list become columns: a list of numbers, a list of objects of
    numbers, a list of one object, and a list with a requested position."""
    has_named_position = any(
        named_path.startswith(f"{path}.") and named_path[len(path) + 1 :].split(".")[0].isdigit()
        for named_path in named_paths
    )
    if has_named_position or (len(value) == 1 and isinstance(value[0], dict) and parse_turns(value) is None):
        return True
    has_objects = bool(value) and all(isinstance(list_entry, dict) and list_entry for list_entry in value)
    # objects such as the ratings of each annotator
    leaf_values = [leaf_value for list_entry in value for leaf_value in list_entry.values()] if has_objects else value
    filled_leaf_values = [leaf_value for leaf_value in leaf_values if leaf_value is not None]
    return all(map(_is_number, filled_leaf_values)) and (has_objects or bool(filled_leaf_values))


def _is_number(value: Any) -> bool:
    """Whether a value is a number, or a text with a number, because numbers from files are text."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _cell_column(name: str, cells: list[Any]) -> pl.Series:
    """Cells as a column; objects and truth values become JSON."""
    return series_of(
        name,
        [
            json.dumps(cell, ensure_ascii=False, default=str) if isinstance(cell, bool | dict | list) else cell
            for cell in cells
        ],
    )
