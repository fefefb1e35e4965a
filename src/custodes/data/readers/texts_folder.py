"""A folder of texts, with one folder per system and one file per item, `SYSTEM/ITEM.txt`.

Folders such as `sources`, `references` and `contexts` hold texts of the items.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from custodes.data.loading import holds_table, read_file_bytes, utf8_text
from custodes.data.mapping.column_vocabulary import normalise_name
from custodes.data.notes import build_notes
from custodes.data.readers.outputs import read_outputs
from custodes.data.readers.reader import Invalid, PathReader
from custodes.data.study import Study
from custodes.data.table import digest_of
from custodes.errors import InputError, join_labels

SUFFIXES = (".txt", ".md")
OTHERS = ("system-outputs", "human-scores", "metric-scores")
"""Folders of mt-metrics-eval, whose files have a line per segment."""
ROLES = {
    "source": ("source", "src", "prompt", "input", "question", "document", "article"),
    "references": ("reference", "ref", "gold", "target", "ground_truth"),
    "context": ("context", "background", "evidence"),
}
"""Names of folders (singular or plural) with texts of the items."""


def read_texts_folder(path: Path, *, part: str | None, invalid: Invalid) -> Study:
    """The study of the texts below a folder; an item is the name of a file without its suffix."""
    where = path.resolve().name
    if part is not None:
        raise InputError(f"{where}: a folder of texts has no parts; remove '::{part}'")
    rows: list[tuple[str, str, str]] = []
    facts: dict[str, dict[str, str]] = {role: {} for role in ROLES}
    contents = []
    for folder in _folders(path):
        role = _role(folder.name)
        for file in _texts(folder):
            data = read_file_bytes(file)
            contents.append((file.relative_to(path).as_posix(), data))
            text = utf8_text(data, f"{where}/{folder.name}/{file.name}").rstrip("\r\n")
            if role is None:
                rows.append((file.stem, folder.name, text))
            elif file.stem in facts[role]:
                raise InputError(f"{where}: {file.stem} has two files of {role}; keep one of them")
            else:
                facts[role][file.stem] = text
    if not rows:
        raise InputError(f"{where}: no outputs; give a folder for each system, SYSTEM/ITEM.txt")
    frame = pl.DataFrame(rows, schema=["item", "system", "text"], orient="row")
    texts_of_items = {role: texts for role, texts in facts.items() if texts}
    frame = frame.with_columns(
        pl.col("item").replace_strict(texts, default=None, return_dtype=pl.String).alias(role)
        for role, texts in texts_of_items.items()
    )
    study = read_outputs(frame, where=where, invalid=invalid)
    n_items, systems = frame["item"].n_unique(), frame["system"].unique(maintain_order=True)
    n_missing = n_items * systems.len() - frame.height
    notes = build_notes(
        (
            "texts-folder",
            True,
            f"{where}: each folder is read as a system ({join_labels(systems)}), and each file as an item",
        ),
        ("missing-outputs", n_missing, f"{where}: {n_missing} of {n_items * systems.len()} outputs have no file"),
    )
    digest = digest_of(*(f"{name}\0{data.hex()}\0" for name, data in contents))
    return Study(raters=study.raters, outputs=study.outputs, notes=(*notes, *study.notes), name=where, digest=digest)


def _folders(path: Path) -> Iterator[Path]:
    return (entry for entry in sorted(path.iterdir()) if entry.is_dir() and not entry.name.startswith("."))


def _texts(folder: Path) -> list[Path]:
    files = (file for file in sorted(folder.iterdir()) if not file.name.startswith("."))
    return [file for file in files if file.is_file() and file.suffix.lower() in SUFFIXES]


def _role(name: str) -> str | None:
    """The role of the files in a folder with this name, such as `sources`; None for outputs."""
    singular = normalise_name(name).removesuffix("s")
    return next((role for role, names in ROLES.items() if singular in names), None)


def _fits(path: Path) -> bool:
    try:
        if not path.is_dir() or holds_table(path) or any((path / name).is_dir() for name in OTHERS):
            return False
        system_folders = [folder for folder in _folders(path) if _role(folder.name) is None and _texts(folder)]
    except OSError:
        return False
    return len(system_folders) > 1


READER = PathReader(name="texts_folder", fits=_fits, make=read_texts_folder)
