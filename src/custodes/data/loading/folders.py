"""Folders that hold one table in several files: Parquet shards, and HF datasets written by `save_to_disk`.

Formats: Hugging Face Datasets, 'Process: Save' (`dataset_dict.json` lists splits; in each split, `state.json` lists the
Arrow stream files, and `dataset_info.json` lists the features), and Hugging Face Hub, 'Data files configuration'
(shards are named `SPLIT-00000-of-00003.parquet`, next to the README or in `data`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from custodes.data.loading.records import parse_json
from custodes.data.loading.source import decode_text, read_file_bytes
from custodes.data.table import select_part
from custodes.errors import InputError, join_labels, reject

SPLITS = "dataset_dict.json"
STATE = "state.json"
INFO = "dataset_info.json"
SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})")


def holds_table(folder: Path) -> bool:
    """Whether a folder is a data set in one of these formats."""
    format_file_names = ((SPLITS,), (STATE, INFO))
    return bool(_parquet_files(folder)) or any(
        all(os.path.isfile(folder / file_name) for file_name in file_names) for file_names in format_file_names
    )


def folder_files(folder: Path, part: str | None) -> tuple[list[Path], Any]:
    """The files that together hold the table of a folder, and the description of the features in the folder."""
    folder_name = folder.resolve().name
    if (folder / SPLITS).is_file():
        split_names = _read_json_object(folder / SPLITS).get("splits")
        if not isinstance(split_names, list) or not all(isinstance(split_name, str) for split_name in split_names):
            raise InputError(f"{folder_name}: {SPLITS} lists no splits")
        return _split_files(folder / select_part(part, split_names, name=folder_name, what="split"), folder_name)
    if not (folder / STATE).is_file():
        return _shards(_parquet_files(folder), part, folder_name), {}
    if part is not None:
        raise InputError(f"{folder_name}: there is only one split; remove '::{part}'")
    return _split_files(folder, folder_name)


def stack_tables(frames: Sequence[pl.DataFrame], file_names: Sequence[str], *, where: str) -> pl.DataFrame:
    """The rows of all tables, which must have the same columns."""
    reject(
        *(
            (
                set(frame.columns) != set(frames[0].columns),
                f"{where}: {file_names[0]} and {file_name} differ in columns "
                f"{join_labels(sorted(set(frame.columns) ^ set(frames[0].columns)))}; give the path of one file",
            )
            for frame, file_name in zip(frames, file_names, strict=True)
        ),
        error=InputError,
    )
    try:
        return pl.concat([frame.select(frames[0].columns) for frame in frames], how="vertical_relaxed")
    except pl.exceptions.PolarsError:
        raise InputError(
            f"{where}: the files have different types in a column; write the files with equal types, or give one file"
        ) from None


def _parquet_files(folder: Path) -> list[Path]:
    return sorted(
        parquet_path
        for subfolder in (folder, folder / "data")
        for parquet_path in subfolder.glob("*.parquet")
        if parquet_path.is_file()
    )


def _shards(files: Sequence[Path], part: str | None, where: str) -> list[Path]:
    """The files of one split. If no file is named like a shard, all files form one table."""
    name_match_of_file = {file: SHARD.fullmatch(file.stem) for file in files}
    if part is None and not any(name_match_of_file.values()):
        return list(files)
    files_of_split: dict[str, list[Path]] = {}
    for file, name_match in name_match_of_file.items():
        files_of_split.setdefault(name_match[1] if name_match else file.stem, []).append(file)
    split_name = select_part(part, files_of_split, name=where, what="split")
    shard_files = files_of_split[split_name]
    numbers_and_totals = [
        (int(name_match[2]), int(name_match[3]))
        for name_match in map(name_match_of_file.get, shard_files)
        if name_match
    ]
    n_shards = max((n_declared_shards for _, n_declared_shards in numbers_and_totals), default=0)
    missing_shard_numbers = sorted(set(range(n_shards)) - {shard_number for shard_number, _ in numbers_and_totals})
    if missing_shard_numbers:
        raise InputError(
            f"{where}: {len(missing_shard_numbers)} of {n_shards} shards of {split_name} are missing "
            f"({split_name}-{missing_shard_numbers[0]:05}-of-{n_shards:05}, ...); copy or download the missing shards"
        )
    return shard_files


def _split_files(folder: Path, where: str) -> tuple[list[Path], Any]:
    """The files of a split that `save_to_disk` wrote, and the features of the split."""
    split_state = _read_json_object(folder / STATE)
    file_entries: Any = split_state.get("_data_files")
    reject(
        (
            not isinstance(file_entries, list)
            or not all(isinstance(file_entry, dict) and "filename" in file_entry for file_entry in file_entries),
            f"{where}: {STATE} lists no data files; save the data set again with save_to_disk",
        ),
        (
            split_state.get("_indices_data_files") or split_state.get("_indices_files"),
            f"{where}: the data set was saved with a separate list of selected rows; call flatten_indices() before "
            "save_to_disk",
        ),
        error=InputError,
    )
    files = [folder / str(file_entry["filename"]) for file_entry in file_entries]
    missing_file_names = [file.name for file in files if not file.is_file()]
    if missing_file_names or not files:
        raise InputError(
            f"{where}: data files are missing: {join_labels(missing_file_names) or 'all'}; copy or download the folder "
            "again"
        )
    return files, _read_json_object(folder / INFO).get("features")


def with_class_names(frame: pl.DataFrame, features: Any) -> pl.DataFrame:
    """The table with numbers of labels replaced by the names of the labels; -1 is a missing label."""
    for column_name, feature_description in (features if isinstance(features, dict) else {}).items():
        is_class_label = isinstance(feature_description, dict) and feature_description.get("_type") == "ClassLabel"
        if is_class_label and column_name in frame.columns and frame[column_name].dtype.is_integer():
            frame = frame.with_columns(
                pl.col(column_name).replace_strict(
                    dict(enumerate(feature_description["names"])), default=None, return_dtype=pl.String
                )
            )
    return frame


def _read_json_object(path: Path) -> dict[str, Any]:
    json_object = parse_json(decode_text(read_file_bytes(path), path.name), where=path.name)
    if not isinstance(json_object, dict):
        raise InputError(f"{path.name}: not a JSON object; save the data set again with save_to_disk")
    return json_object
