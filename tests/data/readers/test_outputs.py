"""Texts: outputs by system, with sources and references."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from custodes.data.reading import read


def test_outputs(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(
        '{"item": 1, "source": "a", "references": ["r", "s"], "outputs": {"A": "x\\ny", "B": null}}\n'
        '{"item": 2, "references": "r", "outputs": {"A": true}}\n'
    )
    study = read(path)
    assert study.outputs is not None
    assert study.outputs.texts.rows() == [("1", "A", "x\ny"), ("2", "A", "true")]
    assert study.outputs.sources.rows() == [("1", "a", ["r", "s"]), ("2", "", ["r"])]
    assert [(note.rule, note.count) for note in study.notes] == [("output-not-text", 1)]


def test_outputs_from_a_dataframe_with_structs() -> None:
    frame = pl.DataFrame(
        {"item": [1, 2], "references": [["r"], None], "outputs": [{"A": "x", "B": None}, {"A": "y", "B": "z"}]}
    )
    outputs = read(frame).outputs
    assert outputs is not None
    assert outputs.texts.rows() == [("1", "A", "x"), ("2", "A", "y"), ("2", "B", "z")]
    assert outputs.sources["references"].to_list() == [["r"], []]
