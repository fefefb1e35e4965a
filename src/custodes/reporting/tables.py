"""Tables in the page: short ones written out, all of them embedded as compact columns."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from custodes.reporting.section import Column, render
from custodes.reporting.wording import UNDEFINED, interval, percent

DIGITS = 5
"""Significant digits of embedded numbers: more than any interval here supports."""


def table_html(
    frame: pl.DataFrame,
    columns: Sequence[Column],
    *,
    id: str,
    caption: str,
    notes: Iterable[str] = (),
    switched: bool = True,
) -> str:
    """A frame as a table, written out; where `switched`, the page shows the rows of one aspect at a time."""
    rows = [
        {"aspect": row["aspect"] if switched else None, "cells": [_cell(row, column) for column in columns]}
        for row in frame.iter_rows(named=True)
    ]
    return render("table.html", id=id, caption=caption, columns=columns, rows=rows, notes=_told(frame, notes))


def _told(frame: pl.DataFrame, notes: Iterable[str]) -> list[tuple[str | None, str]]:
    """Notes once each, with the aspect that they speak of (None: of all)."""
    aspects = frame["aspect"].unique(maintain_order=True).to_list()
    about = {note: [aspect for aspect in aspects if f"aspect {aspect!r}" in note] for note in notes}
    return [(found[0] if found else None, note) for note, found in about.items()]


def _cell(row: Mapping[str, Any], column: Column) -> dict[str, Any]:
    value = row[column.field]
    if column.kind == "text":
        text = ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)
        return {"text": text, "value": text, "number": False}
    if value is None:
        return {"text": UNDEFINED, "value": "", "number": True}
    low, high = row.get(column.low), row.get(column.high)
    if column.kind == "int":
        text = f"{value:,}".replace(",", "\u202f")
    elif column.kind == "percent":
        text = percent(value) if low is None or high is None else f"{percent(value)} [{percent(low)}, {percent(high)}]"
    else:
        text = interval(value, low, high, digits=3 if column.kind == "p" else 2)
    return {"text": text, "value": value, "number": True}


def columnar(frame: pl.DataFrame) -> dict[str, Any]:
    """Columns as lists; labels as positions in a list of distinct ones, numbers rounded."""
    columns: dict[str, Any] = {}
    for name in frame.columns:
        series = frame[name]
        if series.dtype == pl.String:
            known = series.drop_nulls().unique(maintain_order=True)
            place = dict(zip(known.to_list(), range(known.len()), strict=True))
            columns[name] = {"labels": known.to_list(), "codes": [place.get(value, -1) for value in series.to_list()]}
        elif series.dtype.is_float():
            columns[name] = [_short(value) for value in series.to_list()]
        elif series.dtype == pl.List(pl.String):
            columns[name] = [", ".join(value or ()) for value in series.to_list()]
        else:
            columns[name] = series.to_list()
    return {"rows": frame.height, "columns": columns}


def _short(value: float | None) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def packed(value: Any) -> str:
    """JSON, deflated and in base 64: a quarter of the size, and nothing in it can end the element it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), level=9)).decode()


def plain(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Columns for the page's script."""
    return [asdict(column) for column in columns]
