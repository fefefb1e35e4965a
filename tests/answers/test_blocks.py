"""A result as JSON: frames are lists of rows, and non-finite numbers are null."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl
import pytest

from custodes.answers.formats import to_json
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


def test_frames_are_lists_of_rows() -> None:
    about = {"options": {"a": [1, {"b": None}], "none": {}, "list": []}, "text": "line\nline", "bad": float("nan")}
    frames = about | {"inner": {"table": TABLE, "empty": TABLE.head(0)}, "table": TABLE, "no_columns": pl.DataFrame()}
    plain = about | {"inner": {"table": TABLE.to_dicts(), "empty": []}, "table": TABLE.to_dicts(), "no_columns": []}
    assert to_json(frames) == msgspec.json.format(msgspec.json.encode(plain), indent=2)
    assert msgspec.json.decode(to_json(TABLE))[1] == {
        "name": "",
        "value": None,
        "n": None,
        "flag": False,
        "several": [],
    }


@pytest.mark.parametrize("rows", [1, 4, 5, 6])
def test_blocks_of_csv_are_its_bytes(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROWS", rows)
    flat = TABLE.drop("several")
    for table in (flat, flat.head(0)):
        assert b"".join(writing.csv_blocks(table)) == table.write_csv().encode()
