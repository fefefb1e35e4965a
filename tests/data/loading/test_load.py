"""Table files of every suffix, compressed or not, give the same text."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from custodes.data.loading import parse_json
from custodes.data.readers.reader import TableReader
from custodes.data.reading import read
from custodes.errors import InputError

ROWS = [
    {"item": "001", "system": "A", "rater": "ann", "kind": "human", "aspect": "", "repeat": "0", "score": "4"},
    {"item": "001", "system": "B", "rater": "ann", "kind": "human", "aspect": "", "repeat": "0", "score": "2.5"},
    {"item": "001", "system": "A", "rater": "bleu, v2", "kind": "metric", "aspect": "", "repeat": "0", "score": "31"},
]
EXPECTED = [
    ("001", "A", "ann", "", "0", 4.0),
    ("001", "B", "ann", "", "0", 2.5),
    ("001", "A", "bleu, v2", "", "0", 31.0),
]


WRITERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    ".csv": pl.DataFrame.write_csv,
    ".tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    ".jsonl": pl.DataFrame.write_ndjson,
    ".ndjson": pl.DataFrame.write_ndjson,
    ".json": pl.DataFrame.write_json,
    ".parquet": pl.DataFrame.write_parquet,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_suffix_reads_the_same_ratings(tmp_path: Path, suffix: str) -> None:
    plain, packed = tmp_path / f"scores{suffix}", tmp_path / f"scores{suffix}.gz"
    WRITERS[suffix](pl.DataFrame(ROWS), plain)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        study = read(path)
        assert study.ratings.frame.rows() == EXPECTED
        assert study.raters.kind == {"ann": "human", "bleu, v2": "metric"}
        assert study.notes == ()
        assert study.name == path.name
        assert study.digest == hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        assert str(tmp_path) not in repr(study)


def test_suffixes_in_capitals_byte_order_mark_and_windows_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "SCORES.CSV"
    text = pl.DataFrame(ROWS).write_csv().replace("\n", "\r\n").replace("\r\n", f"\r\n{',' * 6}\r\n", 1) + "\r\n\r\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read(str(path)).ratings.frame.rows() == EXPECTED


def test_numbers_in_json_are_labels_as_written(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text(
        '{"item": 7, "system": "A", "rater": 1.50, "score": 4}\n\n{"item": 8, "system": "A", "rater": 1.50}\n'
    )
    study = read(path)
    assert study.ratings.frame.rows() == [("7", "A", "1.50", "", "0", 4.0)]
    assert [note.rule for note in study.notes] == ["missing-score"]


@pytest.mark.parametrize(
    ("columns", "fits"), [("abz", True), ("cd", True), ("ac", False), ("abx", False), ("cdx", False), ("", False)]
)
def test_a_reader_fits_where_all_columns_of_an_alternative_are_and_none_that_rules_it_out(
    columns: str, fits: bool
) -> None:
    reader = TableReader(name="own", columns=(("a", "b"), ("c", "d")), make=read, absent=("x", "y"))
    assert reader.fits(list(columns)) is fits


def test_json_keeps_numbers_as_written() -> None:
    values = {"a": "1.50", "b": ["1e3", "NaN", True, None]}
    assert parse_json('{"a": 1.50, "b": [1e3, NaN, true, null]}', where="x") == values
    for text, fault in (("[1,", "column 4: Expecting value"), ("[1,\n2", "line 2, column 2: Expecting ',' delimiter")):
        with pytest.raises(InputError, match=f"^x: malformed JSON at {fault}$"):
            parse_json(text, where="x")
