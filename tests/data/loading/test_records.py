from __future__ import annotations

import json

import numpy as np
import pytest

from custodes.data.loading import compression
from custodes.data.loading.records import from_json, from_lines
from custodes.errors import InputError
from tests.messages import exactly

VALUES = ["text", "", None, 1, 2.50, True, [1, {"x": 2}], {"k": "v"}, "é"]
"""Cells of every type, including nested ones."""


@pytest.mark.parametrize("seed", range(5))
def test_some_lines_at_a_time_are_the_same_table_as_all_at_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    keys = ["a", "b", " c", "d "]
    rows = [
        {str(key): VALUES[rng.integers(len(VALUES))] for key in rng.choice(keys, rng.integers(0, 4), replace=False)}
        for _ in range(17)
    ]
    text = "\n".join(line for row in rows for line in (json.dumps(row), " " * int(rng.integers(0, 2)))) + "\n"
    at_once = from_lines(text, "rows.jsonl")
    monkeypatch.setattr(compression, "BATCH_ROWS", 2)
    table = from_lines(text, "rows.jsonl")
    assert table.equals(at_once)
    assert table.schema == at_once.schema
    assert table.height == len(rows)
    expected = [json.loads(json.dumps(row), parse_float=str, parse_int=str) for row in rows]
    for cells, row in zip(table.iter_rows(named=True), expected, strict=True):
        fields = {key.strip(): value for key, value in row.items()}
        for name, value in cells.items():
            cell = fields.get(name)
            assert value == (cell if cell is None or isinstance(cell, str) else json.dumps(cell, ensure_ascii=False))


def test_a_list_is_the_same_table_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "BATCH_ROWS", 100)
    rows = [{"id": f"0{k}", "n": 1.50, "ok": True, "no": None, "meta": {"a": [k]}} for k in range(5000)]
    text = json.dumps(rows, indent=1)
    table, notes = from_json(text, "rows.json")
    assert table.equals(from_lines("\n".join(map(json.dumps, rows)), "rows.jsonl"))
    assert table.row(7) == ("07", "1.5", "true", None, '{"a": ["7"]}')
    assert not notes


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[{"a": 1}', "malformed JSON at column 10: Expecting ',' delimiter"),
        ('[{"a": 1},]', "malformed JSON at column 11: Expecting value"),
        ('[{"a": 1},\n {"a":}]', "malformed JSON at line 2, column 7: Expecting value"),
        ('[{"a": 1}]\n[]', "malformed JSON at line 2, column 1: Extra data"),
        ('[{"a": 1}, {"a": 1, "a": 2}]', "key 'a' occurs twice in one object"),
        ('{"a": [{"x": 1}], "b": [{"x": 2}]}', "holds 2 lists; select one with x.json::LIST: a, b"),
        (
            '[{"a": 1}, 2, 3, 4, 5, 6, 7]',
            "entry 2, 3, 4, 5, 6 and 1 more is not a JSON object; every entry must be a JSON object",
        ),
        ('[{"a": 1}, 2]', "entry 2 is not a JSON object; every entry must be a JSON object"),
        (
            json.dumps(dict.fromkeys("abcdef", 1)),
            "unknown JSON layout: an object with keys a, b, c, d, e and 1 more; a table is a list of objects, or a "
            ".jsonl file with one object per line",
        ),
    ],
)
def test_faults_of_a_list_are_named(text: str, fault: str) -> None:
    with pytest.raises(InputError, match=exactly(f"x.json: {fault}")):
        from_json(text, "x.json")


def test_rows_that_are_no_object_are_counted_through_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "BATCH_ROWS", 2)
    with pytest.raises(
        InputError, match="^rows.jsonl: row 2, 5 is not a JSON object; every row must be a JSON object$"
    ):
        from_lines('{"a": 1}\n[1]\n{"a": 1}\n{"a": 1}\n2\n', "rows.jsonl")


def test_lines_before_any_key_are_rows() -> None:
    assert from_lines("{}\n{}\n" * compression.BATCH_ROWS + '{"a": "x"}', "rows.jsonl")["a"].to_list()[-2:] == [
        None,
        "x",
    ]
