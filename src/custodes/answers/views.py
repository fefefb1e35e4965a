"""Views: the essential columns of a table as text, an estimate with its interval, one view per aspect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from custodes.answers.tables import UNRELIABLE, Column, Table, View
from custodes.answers.wording import FLAG, MARK, UNDEFINED, decimal, digits_of, p_value

HUGE = 1e6


def views(table: Table, frame: pl.DataFrame, name: str, *, every: bool = False, left_out: int = 0) -> Iterable[View]:
    """The views of a frame of a declared table: of its essential columns, or of all if `every`.

    `left_out` is the number of rows not displayed. A column without values is displayed only on request.
    """
    if table.view is not None and not every:
        yield from table.view(frame)
        return
    for part, rows in parts(frame, table.by):
        columns = [each for each in table.columns if every or _is_shown(each, rows[each.name])]
        if table.order and not every:
            rows = rows.sort(table.order, descending=True, nulls_last=True, maintain_order=True)
        cells = [[cell(row, column) for column in columns] for row in rows.iter_rows(named=True)]
        yield View(
            title=titled(name.replace("_", " "), part),
            header=tuple(column.heading for column in columns),
            labels=tuple(column.label for column in columns),
            rows=tuple(map(tuple, cells)),
            numeric=tuple(column.is_number for column in columns),
            best=frozenset(_best(rows, columns)),
            more=f"{left_out} of {frame.height + left_out} rows not shown (--table {name})" if left_out else "",
        )


def titled(title: str, part: str) -> str:
    """A title with the aspect, if there is one."""
    return f"{title} ({part})" if part else title


def parts(frame: pl.DataFrame, by: str | None) -> Iterable[tuple[str, pl.DataFrame]]:
    """The rows of each aspect (or target); one unnamed part without aspects."""
    if not by or frame.is_empty():
        return [("", frame)]
    return [(str(part), rows) for (part,), rows in frame.group_by(by, maintain_order=True)]


def cell(row: Mapping[str, Any], column: Column) -> str:
    """A value as text, with its interval in brackets, or with ± its standard deviation over replications."""
    value = row[column.name]
    if value is None:
        return UNDEFINED
    if column.kind == "p":
        return p_value(value)
    if column.sd and (sd := row[f"{column.name}_sd"]) is not None:
        return f"{number(value, 2)} ± {number(sd, 2)}"
    if column.kind == "flag":
        return FLAG[value]
    low, high = (row[f"{column.name}_{end}"] if column.interval else None for end in ("low", "high"))
    digits = digits_of(low, high, least=3)
    text = ", ".join(value) if column.kind == "labels" else number(value, digits) if column.is_number else str(value)
    if column.interval:
        text += bounds(low, high)
        text += MARK if marked(row, column) else ""
    return text


def marked(row: Mapping[str, Any], column: Column) -> bool:
    """Whether the row marks the interval of this column as unreliable."""
    return column.name in (row.get(UNRELIABLE.name) or ()) and row[f"{column.name}_low"] is not None


def bounds(low: float | None, high: float | None) -> str:
    """The bounds of an interval in brackets; empty without an interval."""
    if low is None or high is None:
        return ""
    digits = digits_of(low, high, least=2)
    return f" [{number(low, digits)}, {number(high, digits)}]"


def number(value: float | None, digits: int) -> str:
    """A number in fixed notation if readable; integers without decimals.

    >>> number(0.1234, 2), number(3.0, 2), number(-0.0, 2), number(None, 2)
    ('0.12', '3', '0', '–')
    """
    if value is None:
        return UNDEFINED
    if abs(value) >= HUGE:
        return f"{value:.4g}"
    if abs(value) >= 1000 or value % 1 == 0:
        return decimal(value, 0)
    return decimal(value, digits)


def _is_shown(column: Column, values: pl.Series) -> bool:
    """Whether a view of essential columns displays this column.

    Undefined labels, intervals and values with a better end are displayed, to show that they are undefined.
    """
    reported = not column.is_number or column.interval or bool(column.best)
    return column.essential and (reported or bool(values.count()))


def _best(rows: pl.DataFrame, columns: Sequence[Column]) -> Iterable[tuple[int, int]]:
    """Positions of the best value of each column that has a better end."""
    for place, column in enumerate(columns):
        if column.best and rows.height > 1 and rows[column.name].count():
            values = rows[column.name]
            top = values.max() if column.best == "high" else values.min()
            yield from ((i, place) for i in values.eq(top).fill_null(False).arg_true().to_list())
