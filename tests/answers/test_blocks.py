"""JSON written in blocks of rows equals JSON written at once, for any block size."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl
import pytest

from custodes.answers.formats import json_blocks
from custodes.data import writing

TABLE = pl.DataFrame(
    {
        "name": ['a"b\n', "", "ü", "x", None],
        "value": [1.5, np.nan, None, 1e-300, 1e300],
        "n": [1, None, 3, 4, 5],
        "flag": [True, False, None, True, False],
        "several": [["a"], [], None, ["b", "c"], [""]],
    },
    schema_overrides={"several": pl.List(pl.String)},
)


def whole(answer: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(answer), indent=2)


@pytest.mark.parametrize("rows", [1, 2, 4, 5, 6])
def test_blocks_of_json_are_its_bytes(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROWS", rows)
    about = {"options": {"a": [1, {"b": None}], "none": {}, "list": []}, "told": "line\nline", "bad": float("nan")}
    frames = about | {"inner": {"table": TABLE, "empty": TABLE.head(0)}, "table": TABLE, "no_columns": pl.DataFrame()}
    plain = about | {"inner": {"table": TABLE.to_dicts(), "empty": []}, "table": TABLE.to_dicts(), "no_columns": []}
    assert b"".join(json_blocks(frames)) == whole(plain)
    assert b"".join(json_blocks({})) == b"{}"


@pytest.mark.parametrize("rows", [1, 4, 5, 6])
def test_blocks_of_csv_are_its_bytes(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROWS", rows)
    flat = TABLE.drop("several")
    for table in (flat, flat.head(0)):
        assert b"".join(writing.csv_blocks(table)) == table.write_csv().encode()
