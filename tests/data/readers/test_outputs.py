"""Texts by system, with sources and references."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from custodes.data.outputs import parse_turns
from custodes.data.reading import read
from custodes.data.writing import long_tables, write_table
from custodes.errors import InputError
from tests.data.input_errors import reading_error
from tests.data.study_parts import note_messages, outputs_of


def test_outputs(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(
        '{"item": 1, "source": "a", "references": ["r", "s"], "outputs": {"A": "x\\ny", "B": null}}\n'
        '{"item": 2, "references": "r", "outputs": {"A": true}}\n'
    )
    study = read(path)
    assert outputs_of(study).texts.rows() == [("1", "A", "x\ny"), ("2", "A", "true")]
    assert outputs_of(study).sources.select("item", "source", "references").rows() == [
        ("1", "a", ["r", "s"]),
        ("2", "", ["r"]),
    ]
    assert note_messages(study) == {
        "output-not-text": "1 outputs are true or false instead of text and are read as the words true and false"
    }


def test_what_is_known_of_items_in_both_shapes(tmp_path: Path) -> None:
    wide, long = tmp_path / "wide.jsonl", tmp_path / "long.jsonl"
    wide.write_text(
        '{"item": 1, "image": "a.png", "context": "c", "meta": {"year": "1990", "tags": ["x"]},'
        ' "outputs": {"A": "x"}}\n'
        '{"item": 2, "image": ["b.png", "c.png"], "outputs": {"A": "y"}}\n'
    )
    long.write_text(
        '{"item": 1, "system": "A", "text": "x", "image": "a.png", "context": "c", '
        '"meta": {"year": "1990", "tags": ["x"]}}\n'
        '{"item": 2, "system": "A", "text": "y"}\n{"item": 2, "system": "B", "image": ["b.png", "c.png"]}\n'
    )
    expected = [
        ("1", "", [], ["a.png"], "c", '{"year": "1990", "tags": ["x"]}'),
        ("2", "", [], ["b.png", "c.png"], "", ""),
    ]
    for path, empty_outputs in ((wide, []), (long, [("empty-output", 1)])):
        study = read(path)
        assert outputs_of(study).sources.rows() == expected
        assert [(note.rule, note.count) for note in study.notes] == empty_outputs


@pytest.mark.parametrize("columns", [None, {"item": "uid", "system": "model", "text": "response"}])
def test_an_empty_output_is_the_same_in_every_format(tmp_path: Path, columns: dict[str, str] | None) -> None:
    names = columns.values() if columns else ("item", "system", "text")
    rows = [("1", "A", "x"), ("1", "B", None), ("2", "A", ""), ("2", "B", "y"), ("2", "B", None)]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    frame.write_csv(tmp_path / "quoted.csv")
    (tmp_path / "plain.csv").write_text((tmp_path / "quoted.csv").read_text().replace('""', ""))
    frame.write_ndjson(tmp_path / "lines.jsonl")
    for path in sorted(tmp_path.iterdir()):
        study = read(path, columns=columns)
        assert outputs_of(study).texts.sort("item", "system")["text"].to_list() == ["x", "", "", "y"]
        assert note_messages(study)["empty-output"] == (
            "the text of 2 of 4 outputs is empty (B of 1, A of 2); empty texts count as outputs, so remove the rows "
            "of outputs that do not exist"
        )


def test_the_first_text_that_is_not_empty_is_used() -> None:
    empty, full = (pl.DataFrame({"item": ["1"], "system": ["A"], "text": [text]}) for text in ("", "x"))
    study = cu.read(empty, full)
    assert outputs_of(study).texts["text"].to_list() == ["x"]
    assert not [note for note in study.notes if note.rule == "texts-differ"]


def test_dataframes_with_structs_and_lists_in_both_shapes() -> None:
    """A struct has the keys of all rows; a null value counts as absent."""
    facts = {"item": [1, 2], "images": [None, ["a", "b"]], "references": [["r"], None]}
    facts["meta"] = [{"year": 1990, "kind": None}, {"year": None, "kind": "k"}]
    for columns in (
        {"outputs": [{"A": "x", "B": None}, {"A": "y", "B": None}]},
        {"system": ["A", "A"], "text": ["x", "y"]},
    ):
        outputs = outputs_of(read(pl.DataFrame({**facts, **columns})))
        assert outputs.texts.rows() == [("1", "A", "x"), ("2", "A", "y")]
        sources = outputs.sources.select("references", "images", "meta")
        assert sources.rows() == [(["r"], [], '{"year": 1990}'), ([], ["a", "b"], '{"kind": "k"}')]
    late = pl.DataFrame({"item": range(300), "system": "A", "text": "x", "context": [None] * 299 + ["c"]})
    assert outputs_of(read(late)).sources["context"].to_list() == [""] * 299 + ["c"]
    numbers = pl.DataFrame({"item": [1, 2], "system": "A", "text": "x", "context": [1990, None]})
    assert outputs_of(read(numbers)).sources["context"].to_list() == ["1990", ""]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"image": ["i"], "images": ["i"]}, "table: columns 'image' and 'images' have the same meaning; remove one"),
        ({"image": ["[1"]}, "table, row 1: malformed JSON at column 3: Expecting ',' delimiter"),
        ({"images": ['[["a"]]']}, "table, row 1: images must be a text or a list of texts"),
        (
            {"meta": ["[1]"]},
            'table, row 1: meta must be a JSON object, such as {"year": 2024}; plain text belongs in context',
        ),
        ({"meta": ["newspaper"]}, "table, row 1: malformed JSON at column 1: Expecting value"),
        ({"context": [["a"]]}, "table, row 1: context must be a text, or a list of turns with role and text"),
        ({"contxt": ["a"]}, "table: column 'contxt' is unknown (did you mean 'context'?); rename it, or remove it"),
    ],
)
def test_what_is_known_of_items_is_checked(columns: dict[str, list[object]], message: str) -> None:
    assert reading_error(pl.DataFrame({"item": [1], "outputs": [{"A": "x"}], **columns}), reader="outputs") == message


@pytest.mark.parametrize(("name", "value"), [("outputs", {"A": "a \ud800"}), ("text", "a \ud800")])
def test_what_is_no_text_in_a_dataframe_of_objects_is_one_line(name: str, value: object) -> None:
    """A column of texts rejects a lone surrogate, which a file could not store either."""
    table = pl.DataFrame({"item": ["1"], "system": ["A"]}).with_columns(pl.Series(name, [value], pl.Object))
    with pytest.raises(
        InputError, match=r"^table: a cell holds an unpaired surrogate \(\\ud800 to \\udfff\), which is not valid text"
    ):
        read(table if name == "text" else table.drop("system"))


def test_images_of_outputs_in_both_shapes_and_through_a_file(tmp_path: Path) -> None:
    wide, long = tmp_path / "wide.jsonl", tmp_path / "long.csv"
    wide.write_text(
        '{"item": 1, "outputs":'
        ' {"A": {"text": "x", "image": "a.png"}, "B": {"images": ["b.png", "c.png"]}, "C": "y"}}\n'
    )
    long.write_text('item,system,text,output_image\n1,A,x,a.png\n1,B,,"[""b.png"", ""c.png""]"\n1,C,y,\n')
    (tmp_path / "a.png").write_bytes(b"")
    expected = [("1", "A", str(tmp_path / "a.png")), ("1", "B", "b.png"), ("1", "B", "c.png")]
    for path in (wide, long):
        study = read(path)
        assert outputs_of(study).images.rows() == expected
        assert outputs_of(study).texts["system"].to_list() == ["A", "B", "C"]
        again = write_table(long_tables(study)["outputs"], tmp_path / "again.csv")
        assert outputs_of(read(again)).images.rows() == expected


def test_an_output_of_a_struct_says_only_what_it_knows() -> None:
    frame = pl.DataFrame({"item": [1, 2], "outputs": [{"A": {"text": "x", "image": "a"}}, {"A": None}]})
    assert outputs_of(read(frame)).texts.rows() == [("1", "A", "x")]
    unclear = (
        "the text of an output is not a text, or the output has both image and images; give a text, and one of image "
        "and images"
    )
    for cell, message in (
        ('{"A": {"txt": "x"}}', "outputs must be an object {system: text}, or {system: {text, image}}"),
        ('{"A": {"image": "x", "images": ["b"]}}', unclear),
        ('{"A": {"text": ["x"]}}', unclear),
        ("[]", "outputs must be an object {system: text}"),
        (
            '{"A": "x", " A": "y"}',
            "two outputs have the same system, or a system has no name; give each output a different system",
        ),
        (
            '{" ": "y"}',
            "two outputs have the same system, or a system has no name; give each output a different system",
        ),
    ):
        assert (
            reading_error(pl.DataFrame({"item": [0, 1], "outputs": ['{"A": "x"}', cell]})) == f"table, row 2: {message}"
        )
    for columns, message in (
        ({"outputs": ["{}"]}, "no outputs; give outputs as an object {system: text}"),
        ({"system": [None], "text": ["x"]}, "column 'system' is empty in row 1; name the system that wrote each text"),
        (
            {"system": ["A"], "text": ["x"], "bleu": [0.5]},
            "the table has texts and scores (bleu); map both, as in --column text=text --columns 'metric:{rater}'",
        ),
    ):
        assert reading_error(pl.DataFrame({"item": [1], **columns}), reader="outputs") == f"table: {message}"


def test_a_dialogue_is_a_context() -> None:
    lines = ['[{"speaker": "User", "content": "Hi"}]', "[1] a source", '[{"who": "User", "content": "Hi"}]']
    frame = pl.DataFrame({"item": [1, 2, 3], "context": lines, "outputs": [{"A": "x"}] * 3})
    contexts = outputs_of(read(frame)).sources["context"].to_list()
    assert contexts[:2] == ['[{"role": "User", "text": "Hi"}]', "[1] a source"]
    assert parse_turns(contexts[2]) is None
    structs = pl.DataFrame({"item": [1], "context": [[{"role": "User", "text": "Hi"}]], "outputs": [{"A": "x"}]})
    assert outputs_of(read(structs)).sources["context"].to_list() == contexts[:1]
