"""Folders of texts: a folder per system, a file per item."""

from __future__ import annotations

from pathlib import Path

import pytest

import custodes as cu
from tests.data.study_parts import note_counts, note_messages, outputs_of
from tests.messages import exactly


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


FILES = {"Aster/i1.txt": "x\n", "Aster/i2.txt": "y", "Birch/i1.md": "z\n\n", "Birch/.hidden.txt": "h", "notes.txt": "n"}


def test_systems_are_folders_and_items_files(tmp_path: Path) -> None:
    study = cu.read(write(tmp_path / "texts", {**FILES, "prompts/i1.txt": "p", "references/i1.txt": "r\n"}))
    assert outputs_of(study).texts.rows() == [("i1", "Aster", "x"), ("i2", "Aster", "y"), ("i1", "Birch", "z")]
    assert outputs_of(study).sources.select("item", "source", "references").rows() == [
        ("i1", "p", ["r"]),
        ("i2", "", []),
    ]
    assert note_counts(study) == {"texts-folder": 0, "missing-outputs": 1}
    assert note_messages(study) == {
        "texts-folder": "each folder is read as a system (Aster, Birch), and each file as an item",
        "missing-outputs": "1 of 4 outputs have no file",
    }


def test_the_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    digests = {
        cu.read(write(tmp_path / str(number), files)).digest
        for number, files in enumerate([FILES, FILES, {**FILES, "Aster/i1.txt": "w"}, {**FILES, "Birch/i3.txt": "v"}])
    }
    assert len(digests) == 3


def test_folders_that_are_not_of_texts(tmp_path: Path) -> None:
    for number, files in enumerate([{"Aster/i1.txt": "x"}, {"a/x.bin": "x", "b/y.bin": "y"}]):
        with pytest.raises(cu.InputError, match=r"texts \(SYSTEM/ITEM.txt\)"):
            cu.read(write(tmp_path / str(number), files))
    with pytest.raises(cu.InputError, match=exactly("texts: a folder of texts has no parts; remove '::Aster'")):
        cu.read(f"{write(tmp_path / 'texts', FILES)}::Aster")
    with pytest.raises(
        cu.InputError,
        match=exactly("two: the same file of source occurs twice, in rows 1, 2 (item 'i1'); one file per item"),
    ):
        cu.read(write(tmp_path / "two", {**FILES, "prompts/i1.txt": "p", "sources/i1.txt": "q"}))
    with pytest.raises(
        cu.InputError, match=exactly("none: no outputs; give a folder for each system, SYSTEM/ITEM.txt")
    ):
        cu.read(write(tmp_path / "none", {"prompts/i1.txt": "p"}), reader="texts_folder")
