"""Folders that hold one table in several files: Parquet shards, and HF datasets written by `save_to_disk`.

Formats: Hugging Face Datasets, 'Process: Save' (`dataset_dict.json` lists splits; in each split, `state.json` lists the
Arrow stream files, and `dataset_info.json` lists the features), and Hugging Face Hub, 'Data files configuration'
(shards are named `SPLIT-00000-of-00003.parquet`, next to the README or in `data`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from custodes.data.loading.records import parse_json
from custodes.data.loading.source import path_exists, read_file_bytes, utf8_text
from custodes.data.table import select_part
from custodes.errors import InputError, join_labels, reject

SPLITS = "dataset_dict.json"
STATE = "state.json"
INFO = "dataset_info.json"
SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})")


def holds_table(folder: Path) -> bool:
    """Whether a folder is a data set in one of these formats."""
    try:
        is_saved = (folder / SPLITS).is_file() or all((folder / name).is_file() for name in (STATE, INFO))
        return is_saved or bool(_parquet_files(folder))
    except OSError:
        return False


def folder_files(folder: Path, part: str | None) -> tuple[list[Path], Any]:
    """The files that together hold the table of a folder, and the description of the features in the folder."""
    name = folder.resolve().name
    try:
        if (folder / SPLITS).is_file():
            splits = _read_json_object(folder / SPLITS).get("splits")
            if not isinstance(splits, list) or not all(isinstance(split, str) for split in splits):
                raise InputError(f"{name}: {SPLITS} lists no splits")
            return _split_files(
                folder / _check_file_name(select_part(part, splits, name=name, what="split"), name), name
            )
        if (folder / STATE).is_file():
            if part is not None:
                raise InputError(f"{name}: there is only one split; remove '::{part}'")
            return _split_files(folder, name)
        return _shards(_parquet_files(folder), part, name), {}
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from None


def stack_tables(frames: Sequence[pl.DataFrame], names: Sequence[str], *, where: str) -> pl.DataFrame:
    """The rows of all tables, which must have the same columns."""
    for frame, name in zip(frames, names, strict=True):
        if set(frame.columns) != set(frames[0].columns):
            differing_columns = sorted(set(frame.columns) ^ set(frames[0].columns))
            raise InputError(
                f"{where}: {names[0]} and {name} differ in columns {join_labels(differing_columns)}; give the path of "
                "one file"
            )
    try:
        columns = frames[0].columns
        return pl.concat([frame.select(columns) for frame in frames], how="vertical_relaxed")
    except pl.exceptions.PolarsError:
        raise InputError(
            f"{where}: the files have different types in a column; write the files with equal types, or give one file"
        ) from None


def _parquet_files(folder: Path) -> list[Path]:
    files = [
        file
        for subfolder in (folder, folder / "data")
        if path_exists(subfolder)
        for file in subfolder.glob("*.parquet")
    ]
    return sorted(file for file in files if file.is_file())


def _shards(files: Sequence[Path], part: str | None, name: str) -> list[Path]:
    """The files of one split. Files that are not named like shards form one table."""
    splits: dict[str, list[Path]] = {}
    for file in files:
        match = SHARD.fullmatch(file.stem)
        splits.setdefault(match[1] if match else "", []).append(file)
    if set(splits) == {""} and part is None:
        return splits[""]
    files_of_split = {file.stem: [file] for file in splits.pop("", [])} | splits
    split = select_part(part, files_of_split, name=name, what="split")
    _check_complete(files_of_split[split], split, name)
    return files_of_split[split]


def _check_complete(files: Sequence[Path], split: str, name: str) -> None:
    matches = [match for match in (SHARD.fullmatch(file.stem) for file in files) if match]
    shard_totals = {int(match[3]) for match in matches}
    if len(shard_totals) > 1:
        raise InputError(
            f"{name}: shards of {split} belong to sets with different numbers of shards "
            f"({join_labels(sorted(shard_totals))}); keep the shards of one set"
        )
    missing_numbers = sorted(set(range(*shard_totals)) - {int(match[2]) for match in matches}) if shard_totals else []
    if missing_numbers:
        first_missing = f"{split}-{missing_numbers[0]:05}-of-{min(shard_totals):05}"
        raise InputError(
            f"{name}: {len(missing_numbers)} of {min(shard_totals)} shards of {split} are missing ({first_missing}, "
            "...); copy or download the missing shards"
        )


def _split_files(folder: Path, name: str) -> tuple[list[Path], Any]:
    """The files of a split that `save_to_disk` wrote, and the features of the split."""
    state = _read_json_object(folder / STATE)
    listing: Any = state.get("_data_files")
    reject(
        (
            not isinstance(listing, list)
            or not all(isinstance(entry, dict) and "filename" in entry for entry in listing),
            f"{name}: {STATE} lists no data files; save the data set again with save_to_disk",
        ),
        (
            state.get("_indices_data_files") or state.get("_indices_files"),
            f"{name}: the data set was saved with a separate list of selected rows; call flatten_indices() before "
            "save_to_disk",
        ),
        error=InputError,
    )
    files = [folder / _check_file_name(str(entry["filename"]), name) for entry in listing]
    missing_files = [file.name for file in files if not file.is_file()]
    if missing_files or not files:
        raise InputError(
            f"{name}: data files are missing: {join_labels(missing_files) or 'all'}; copy or download the folder again"
        )
    return files, _read_json_object(folder / INFO).get("features")


def with_class_names(frame: pl.DataFrame, features: Any) -> pl.DataFrame:
    """The table with numbers of labels replaced by the names of the labels; -1 is a missing label."""
    for column, feature in (features if isinstance(features, dict) else {}).items():
        class_names = (
            feature.get("names") if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" else None
        )
        if isinstance(class_names, list) and column in frame.columns and frame[column].dtype.is_integer():
            name_of_number = {number: str(label) for number, label in enumerate(class_names)}
            label_names = frame[column].replace_strict(name_of_number, default=None, return_dtype=pl.String)
            frame = frame.with_columns(label_names.alias(column))
    return frame


def _read_json_object(path: Path) -> dict[str, Any]:
    value = parse_json(utf8_text(read_file_bytes(path), path.name), where=path.name)
    if not isinstance(value, dict):
        raise InputError(f"{path.name}: not a JSON object; save the data set again with save_to_disk")
    return value


def _check_file_name(name: str, where: str) -> str:
    """The name of a file in the folder. A name that points outside the folder raises `InputError`."""
    if not name or Path(name).name != name or name == "..":
        raise InputError(f"{where}: the entry {name!r} is not the name of a file in the folder")
    return name
