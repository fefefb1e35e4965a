"""Data sets in several files: `save_to_disk` folders and Parquet shards; a missing file is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow
import pytest

from custodes.data.loading import holds_table, load_table
from custodes.data.reading import read
from tests.data.loading.files import fault

ONE = pl.DataFrame({"item": [1, 1], "system": ["A", "B"], "ann": [3, 4]})
TWO = pl.DataFrame({"item": [2, 2], "system": ["A", "B"], "ann": [2, 5]})


def saved(folder: Path, frames: list[pl.DataFrame], features: dict[str, Any] | None = None) -> Path:
    """Write a split as `save_to_disk` does: Arrow streams, their names and the features."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"data-{number:05}-of-{len(frames):05}.arrow" for number in range(len(frames))]
    for name, frame in zip(names, frames, strict=True):
        table = frame.to_arrow()
        with pyarrow.ipc.new_stream(folder / name, table.schema) as stream:
            stream.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "x", "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features or {}}))
    return folder


def sharded(folder: Path, names: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        (ONE, TWO)[number % 2].with_columns(item=pl.lit(number)).write_parquet(folder / f"{name}.parquet")
    return folder


def test_a_saved_data_set(tmp_path: Path) -> None:
    path = saved(tmp_path / "mine", [ONE, TWO])
    study = read(path)
    assert (study.name, study.ratings.frame.height, len(study.digest)) == ("mine", 4, 16)
    saved(path, [ONE, ONE.with_columns(item=3)])
    assert read(path).digest != study.digest


def test_splits_of_a_saved_data_set(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    saved(path / "train", [ONE])
    (path / "dataset_dict.json").write_text('{"splits": ["train"]}')
    assert read(path).ratings.frame.height == 2
    saved(path / "test", [TWO])
    (path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert read(f"{path}::test").name == "mine::test"
    assert fault(path) == "mine: holds 2 splits; select one with mine::SPLIT: train, test"


def test_labels_stored_as_numbers_come_by_their_names(tmp_path: Path) -> None:
    frame = ONE.select("item", "system", winner=pl.Series([1, -1]))
    label = {"names": ["model_a", "tie"], "_type": "ClassLabel"}
    other = {"winner": label, "system": label, "gone": label, "item": label | {"_type": "Value"}, "n": [label]}
    path = saved(tmp_path / "mine", [frame.with_columns(n=0)], other)
    assert load_table(path).frame.rows() == [(1, "A", "tie", 0), (1, "B", None, 0)]
    (path / "dataset_info.json").write_text("{}")
    assert load_table(path).frame["winner"].to_list() == [1, -1]


def write(path: Path, **keys: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def test_saved_data_sets_that_are_refused(tmp_path: Path) -> None:
    def refused(message: str) -> None:
        assert fault(path) == message
        saved(path, [ONE, TWO])

    path = saved(tmp_path / "mine", [ONE, TWO])
    (path / "data-00001-of-00002.arrow").unlink()
    refused("mine: data files are missing: data-00001-of-00002.arrow; copy or download the folder again")
    write(path / "state.json", _data_files=[])
    refused("mine: data files are missing: all; copy or download the folder again")
    for files in (7, [7], [{"name": "data-00000-of-00002.arrow"}]):
        write(path / "state.json", _data_files=files)
        refused("mine: state.json lists no data files; save the data set again with save_to_disk")
    for key in ("_indices_data_files", "_indices_files"):
        write(path / "state.json", **{key: [{"filename": "x"}]})
        refused(
            "mine: the data set was saved with a separate list of selected rows; call flatten_indices() before "
            "save_to_disk"
        )
    (path / "state.json").write_text("[]")
    refused("state.json: not a JSON object; save the data set again with save_to_disk")
    (path / "data-00000-of-00002.arrow").write_bytes(b"\xff\xff\xff\xff junk")
    refused("data-00000-of-00002.arrow: not an Arrow file or stream, or a damaged one; write the file again")
    saved(path, [ONE, TWO.rename({"ann": "bob"})])
    names = "data-00000-of-00002.arrow and data-00001-of-00002.arrow"
    refused(f"mine: {names} differ in columns ann, bob; give the path of one file")
    saved(path, [ONE, TWO.with_columns(ann=[2])])
    refused("mine: the files have different types in a column; write the files with equal types, or give one file")
    assert fault(f"{path}::train") == "mine: there is only one split; remove '::train'"
    for splits in ('"train"', '[["train"]]'):
        (path / "dataset_dict.json").write_text(f'{{"splits": {splits}}}')
        refused("mine: dataset_dict.json lists no splits")


SHARDS = [f"train-{number:05}-of-00003" for number in range(3)]


@pytest.mark.parametrize("below", ["", "data"])
def test_shards_of_parquet(tmp_path: Path, below: str) -> None:
    path = sharded(tmp_path / "hub" / below, SHARDS).parent if below else sharded(tmp_path / "hub", SHARDS)
    (path / "README.md").write_text("a card")
    assert read(path).ratings.frame.height == 6
    assert read(f"{path}::train").name == "hub::train"
    files = path / below if below else path
    assert read(files / "train-*.parquet").ratings.frame.height == 6


def test_shards_that_are_missing_or_of_several_splits(tmp_path: Path) -> None:
    path = sharded(tmp_path / "hub", SHARDS)
    (path / "train-00001-of-00003.parquet").unlink()
    lacking = "shards of train are missing (train-00001-of-00003, ...); copy or download the missing shards"
    assert fault(path) == f"hub: 1 of 3 {lacking}"
    (path / "train-00002-of-00003.parquet").unlink()
    assert fault(path) == f"hub: 2 of 3 {lacking}"
    sharded(path, [*SHARDS, "test-00000-of-00001"])
    assert fault(path) == "hub: holds 2 splits; select one with hub::SPLIT: test, train"
    assert read(f"{path}::test").ratings.frame.height == 2
    sharded(path, ["train-00000-of-00004"])
    assert fault(f"{path}::train").startswith("hub: 1 of 4 shards of train are missing (train-00003-of-00004, ...)")


def test_files_of_any_name_are_one_table(tmp_path: Path) -> None:
    assert read(sharded(tmp_path / "out", ["part-0", "part-1"])).ratings.frame.height == 4
    other = sharded(tmp_path / "both", ["notes", "train-00000-of-00001"])
    assert read(f"{other}::notes").ratings.frame.height == 2


def test_other_folders_are_no_table(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")  # a file unrelated to the data
    assert not holds_table(tmp_path)
    assert not holds_table(tmp_path / "nothing")
