"""Outputs from a reader have the declared columns."""

from __future__ import annotations

import json
from datetime import date as day
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from custodes.data.outputs import IMAGES, SCHEMA, SOURCES, Outputs, format_dialogue, parse_turns, select_first_values
from custodes.data.reading import read


def test_texts_and_sources_have_the_declared_columns(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(json.dumps({"item": 1, "outputs": {"A": "x"}}) + "\n")
    outputs = read(path).outputs
    assert outputs is not None
    assert dict(outputs.texts.schema) == SCHEMA
    assert dict(outputs.sources.schema) == SOURCES
    assert outputs.sources.rows() == [("1", "", [], [], "", "")]


def of(*rows: dict[str, object], folder: Path) -> Outputs:
    path = folder / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    outputs = read(path).outputs
    assert outputs is not None
    return outputs


def test_an_image_beside_the_file_is_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "img").mkdir()
    (tmp_path / "img" / "a.png").write_bytes(b"")
    rows = [
        {"item": 1, "outputs": {"A": "x"}, "images": ["img/a.png", "img/none.png", "http://x/y.png", str(tmp_path)]},
        {"item": 2, "outputs": {"A": "x"}, "images": "img/a.png"},
        {"item": 3, "outputs": {"A": "x"}, "images": None},
        {"item": 4, "outputs": {"A": "x"}, "images": ["nul\0"]},
    ]
    image_path = str(tmp_path / "img" / "a.png")
    assert of(*rows, folder=tmp_path).sources["images"].to_list() == [
        [image_path, "img/none.png", "http://x/y.png", str(tmp_path)],
        [image_path],
        [],
        ["nul\0"],
    ]


def test_of_two_inputs_what_is_not_empty_counts_and_what_differs_is_told(tmp_path: Path) -> None:
    first = of({"item": 1, "outputs": {"A": "x"}, "source": "s"}, {"item": 2, "outputs": {"A": "y"}}, folder=tmp_path)
    second = of(
        {"item": 1, "outputs": {"A": "z", "B": "b"}, "source": "other", "context": "c", "image": "i.png"},
        {"item": 2, "outputs": {"A": "y"}, "references": ["r"], "meta": {"a": 1}},
        folder=tmp_path,
    )
    both, notes = first.merge_with(second)
    assert both.texts.rows() == [("1", "A", "x"), ("2", "A", "y"), ("1", "B", "b")]
    assert both.sources.rows() == [("1", "s", [], ["i.png"], "c", ""), ("2", "", ["r"], [], "", '{"a": "1"}')]
    assert [(note.rule, note.count, note.message) for note in notes] == [
        ("texts-differ", 1, "two inputs: 1 outputs have several texts; the first text of each output is used"),
        (
            "sources-differ",
            1,
            "two inputs: 1 items have several values of source; the first value of each item is used",
        ),
    ]
    assert both.merge_with(both)[1] == []


@pytest.mark.parametrize(
    ("cell", "turns"),
    [
        (' [{"role": "user", "text": "Hi"}]', [("user", "Hi")]),
        (pl.Series([{"role": "user", "text": "Hi"}]), [("user", "Hi")]),
        (
            [
                {"from": "a", "content": "x"},
                {"speaker": "b", "value": "y"},
                {"author": "c", "text": None, "value": "z"},
            ],
            [("a", "x"), ("b", "y"), ("c", "z")],
        ),
        ([{"role": 1, "from": "a", "text": None}], [("a", "")]),
        ([{"role": "a", "content": [{"text": "x"}, {"image": "i"}, "y", 3, {"text": 4}]}], [("a", "x\ny")]),
        (
            [{"role": "a", "content": {"ä": day(2020, 1, 2)}}, {"role": "b", "text": 5}],
            [("a", '{"ä": "2020-01-02"}'), ("b", "5")],
        ),
        *(
            (cell, None)
            for cell in (
                *("[]", "{}", "text", "[broken", "[" * 100_000, "[1]", [], 3, None, ["x"]),
                *([{"role": "a", "text": "x"}, "y"], [{"role": "", "text": "x"}], [{"text": "x"}], [{"role": "a"}]),
            )
        ),
    ],
)
def test_turns_of_dialogues(cell: Any, turns: list[tuple[str, str]] | None) -> None:
    assert parse_turns(cell) == turns
    assert turns is None or parse_turns(format_dialogue(turns)) == turns


def test_first_values_are_in_the_order_of_the_rows() -> None:
    items = [f"i{k * 7 % 40}" for k in range(40)]
    texts = pl.DataFrame({"item": [*items, *items], "system": "A", "text": [""] * 40 + ["x"] * 40})
    sources = pl.DataFrame(
        {"item": [*items, *items], "source": ["", *"s" * 39, *"s" * 40], "images": [[]] * 40 + [["i"]] * 40}
    )
    texts, sources, notes = select_first_values(texts, sources, where="f")
    assert texts.rows() == [(item, "A", "x") for item in items]
    assert sources.rows() == [(item, "s", ["i"]) for item in items]
    assert notes == []


def test_images_of_an_output_are_those_of_the_first_input(tmp_path: Path) -> None:
    texts, sources = (pl.DataFrame(schema=schema) for schema in (SCHEMA, {"item": pl.String}))
    (tmp_path / "c").touch()
    first, second = (
        Outputs.from_sources(texts, sources, pl.DataFrame(rows, schema=IMAGES, orient="row"))
        for rows in ([("1", "A", "a"), ("1", "A", "b")], [("1", "A", "c"), ("1", "B", "c"), ("2", "A", "d")])
    )
    both = first.merge_with(second)[0].resolve_images(tmp_path)
    images = [("1", "A", "a"), ("1", "A", "b"), ("1", "B", str(tmp_path / "c")), ("2", "A", "d")]
    assert both.images.rows() == images


def test_texts_are_part_of_the_digest_of_a_study_that_came_from_dataframes() -> None:
    digests = {
        read(pl.DataFrame({"item": ["1"], "outputs": [{"A": text}], "image": image})).fingerprint()
        for text, image in (("x", "i"), ("y", "i"), ("x", "j"))
    }
    assert len(digests) == 3
