"""Outputs: what a reader makes has the declared columns."""

from __future__ import annotations

import json
from pathlib import Path

from custodes.data.outputs import SCHEMA, SOURCES
from custodes.data.reading import read


def test_texts_and_sources_have_the_declared_columns(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(json.dumps({"item": 1, "outputs": {"A": "x"}}) + "\n")
    outputs = read(path).outputs
    assert outputs is not None
    assert dict(outputs.texts.schema) == SCHEMA
    assert dict(outputs.sources.schema) == SOURCES
    assert outputs.sources.rows() == [("1", "", [])]
