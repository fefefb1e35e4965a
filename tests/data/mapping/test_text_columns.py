"""Tables of texts with one row per output."""

from __future__ import annotations

import json
from datetime import date

import polars as pl
import pytest

from custodes.data.mapping.text_columns import TextColumns, convert_to_text, expand_name
from custodes.errors import InputError
from tests.messages import exactly


def read(frame: pl.DataFrame, roles: dict[str, str], *, systems: dict[str, str] | None = None, ratings: bool = False):
    columns = TextColumns(roles=roles, systems=systems or {})
    table, notes = columns.table(frame, where="folder/alpha.v1.csv", has_rating_rows=ratings)
    for note in notes:
        if note.rule == "items-without-output":
            assert note.message == f"folder/alpha.v1.csv: {note.count} items have no output and are left out"
    return table.to_dicts(), [(note.rule, note.count) for note in notes]


def test_without_columns_the_item_is_the_source_and_the_system_the_file() -> None:
    frame = pl.DataFrame({"q": [" one ", "two"], "a": ["x", None]})
    rows, _ = read(frame, {"source": "q", "text": "a"})
    assert rows == [
        {"item": "one", "system": "alpha", "text": "x", "source": " one "},
        {"item": "two", "system": "alpha", "text": "", "source": "two"},
    ]
    rows, notes = read(frame, {"source": "q", "text": "a"}, ratings=True)
    assert [row["item"] for row in rows] == ["one"]
    assert notes == [("items-without-output", 1)]
    with pytest.raises(
        InputError,
        match=exactly(
            "folder/alpha.v1.csv: no column has the role item, so outputs of an item cannot be joined; map "
            "item or source"
        ),
    ):
        read(frame.with_columns(q=pl.Series(["one", None])), {"source": "q", "text": "a"})
    named = frame.with_columns(item=pl.Series(["i", "j"]), system=pl.Series(["s", "t"]))
    assert [(row["item"], row["system"]) for row in read(named, {"text": "a"})[0]] == [("i", "s"), ("j", "t")]


def test_columns_of_systems_have_a_row_each_and_items_are_numbered() -> None:
    frame = pl.DataFrame({"A": ["a1", "a2"], "B": ["b1", None], "ref_1": ["r", "é"], "ref_2": ["", "t"]})
    rows, notes = read(frame, {"references": "ref_*"}, systems={"A": "first", "B": "second"})
    assert [(row["item"], row["system"], row["text"], row["references"]) for row in rows] == [
        ("1", "first", "a1", '["r"]'),
        ("2", "first", "a2", '["é", "t"]'),
        ("1", "second", "b1", '["r"]'),
    ]
    assert notes == []


@pytest.mark.parametrize(
    ("extra", "systems"),
    [
        ({}, ("a", "b")),
        ({"model_a": ["m"], "model_b": ["n"]}, ("m", "n")),
        ({"system_a": ["s"], "system_b": ["t"], "model_a": ["m"], "model_b": ["n"]}, ("s", "t")),
    ],
)
def test_the_two_outputs_of_a_pair_have_the_systems_of_the_row(extra: dict, systems: tuple[str, str]) -> None:
    frame = pl.DataFrame({"x": ["one"], "y": ["two"], **extra})
    rows, _ = read(frame, {"output_a": "x", "output_b": "y"})
    assert [(row["item"], row["system"], row["text"]) for row in rows] == [
        ("1", systems[0], "one"),
        ("1", systems[1], "two"),
    ]
    mapped, _ = read(frame.with_columns(z=pl.lit("Z")), {"output_a": "x", "output_b": "y", "system_a": "z"})
    assert [row["system"] for row in mapped] == ["Z", systems[1]]


def turns(*texts: str) -> str:
    return json.dumps([dict(zip(("role", "content"), text.split(":"), strict=True)) for text in texts])


def test_conversations_are_split_into_context_source_and_output() -> None:
    cells = [
        turns("system:be kind", "user:q1", "assistant:a1", "user:q2", "assistant:a2"),
        turns("user:only", "Assistant:answer"),
        turns("user:open"),
        turns("assistant:hello", "assistant:again"),
        None,
        "",
    ]
    frame = pl.DataFrame({"id": list("abcdef"), "m": cells})
    rows, notes = read(frame, {"item": "id", "messages": "m"})
    texts = {row["item"]: (row["text"], row["source"]) for row in rows}
    assert texts == {"a": ("a2", "q2"), "b": ("answer", "only"), "d": ("again", None)}
    context = {row["item"]: row["context"] for row in rows}
    assert [part in context["a"] for part in ("be kind", "q1", "a1", "q2", "a2")] == [True] * 3 + [False] * 2
    assert context["b"] is None
    assert "hello" in context["d"]
    assert notes[-1] == ("items-without-output", 3)
    nested = frame.with_columns(m=pl.Series([json.loads(cell) if cell else None for cell in cells]))  # lists of structs
    assert read(nested, {"item": "id", "messages": "m"})[0] == rows
    given = frame.with_columns(out=pl.lit("o"), src=pl.lit("s"))
    rows, _ = read(given, {"item": "id", "messages": "m", "text": "out", "source": "src"})
    assert {(row["text"], row["source"]) for row in rows} == {("o", "s")}
    assert "a2" in {row["item"]: row["context"] or "" for row in rows}["a"]  # the last answer is no output here
    message = "folder/alpha.v1.csv, row 2: messages must be a list of turns, each with role and content"
    with pytest.raises(InputError, match=exactly(message)):
        read(
            pl.DataFrame({"id": ["a", "b"], "m": ['[{"role": "user", "content": "q"}]', "plain"]}),
            {"item": "id", "messages": "m"},
        )


def test_outputs_are_listed_once_and_empty_repetitions_are_left_out() -> None:
    frame = pl.DataFrame({"item": ["i", "i", "i", "j"], "system": "s", "a": ["x", None, "x", None]})
    rows, _ = read(frame, {"text": "a"})
    assert [(row["item"], row["text"]) for row in rows] == [("i", "x"), ("j", "")]


def test_truth_columns_and_names() -> None:
    assert not TextColumns(roles={"item": "i", "source": "s"}, systems={})
    for columns in ({"text": "t"}, {"messages": "m"}, {"output_a": "x"}):
        assert TextColumns(roles=columns, systems={})
    both = TextColumns(roles={"item": "i", "references": "r*", "text": "t"}, systems={"S": "s"})
    assert both
    assert both.assigned_columns(["i", "r1", "r2", "t", "S", "u"]) == {"r1", "r2", "t", "S"}
    assert expand_name("a*", ["a*", "ab"]) == ["a*"]
    assert expand_name("A*", ["ab"]) == expand_name("x", ["ab"]) == []
    assert convert_to_text(pl.Series("x", [1, None]), where="w").to_list() == ["1", None]
    assert convert_to_text(pl.Series("x", [["é"], None]), where="w").to_list() == ['["é"]', None]
    assert convert_to_text(pl.Series("x", [[date(2024, 1, 2)]]), where="w").to_list() == ['["2024-01-02"]']
    assert convert_to_text(pl.Series("x", [{1}, None], dtype=pl.Object), where="w").to_list() == ["{1}", None]
    with pytest.raises(InputError, match=exactly("w: column 'x' holds List(String), expected text")):
        convert_to_text(pl.Series("x", [["a"]]), where="w", allows_lists=False)
