"""Table files: every suffix gives the same text, zipped or not, and labels are as written."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from pathlib import Path

import polars as pl
import pytest

from custodes.data.loading import Table, load_table, parse_json, utf8_text
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


def as_bytes(rows: list[dict[str, str]], suffix: str) -> bytes:
    frame = pl.DataFrame(rows)
    if suffix == ".parquet":
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        return buffer.getvalue()
    if suffix in (".csv", ".tsv"):
        return frame.write_csv(separator="," if suffix == ".csv" else "\t").encode()
    if suffix == ".json":
        return json.dumps(rows).encode()
    return "\n".join(json.dumps(row) for row in rows).encode()


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet"])
def test_every_suffix_reads_the_same_ratings(tmp_path: Path, suffix: str, zipped: str) -> None:
    path = tmp_path / f"scores{suffix}{zipped}"
    data = as_bytes(ROWS, suffix)
    path.write_bytes(gzip.compress(data) if zipped else data)
    study = read(path)
    assert study.ratings.frame.rows() == EXPECTED
    assert study.raters.kind == {"ann": "human", "bleu, v2": "metric"}
    assert study.notes == ()
    assert study.name == f"scores{suffix}{zipped}"
    assert study.digest == hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    assert str(tmp_path) not in repr(study)


def test_suffixes_in_capitals_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    path = tmp_path / "SCORES.CSV"
    text = pl.DataFrame(ROWS).write_csv().replace("\n", "\r\n") + "\r\n\r\n"
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


def test_a_table_knows_its_name_and_digest(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes(as_bytes(ROWS, ".csv"))
    table = load_table(path)
    assert (table.name, table.digest) == ("scores.csv", hashlib.sha256(path.read_bytes()).hexdigest()[:16])
    assert table.frame.dtypes == [pl.String] * 7
    assert Table(frame=table.frame, name="mine").digest == ""


@pytest.mark.parametrize(
    ("columns", "fits"),
    [("abz", True), ("cd", True), ("ac", False), ("abx", False), ("cdx", False), ("", False)],
)
def test_a_reader_fits_where_all_columns_of_an_alternative_are_and_none_that_rules_it_out(
    columns: str, fits: bool
) -> None:
    reader = TableReader(name="own", columns=(("a", "b"), ("c", "d")), make=read, absent=("x", "y"))
    assert reader.fits(list(columns)) is fits


def test_json_keeps_numbers_as_written() -> None:
    assert parse_json('{"a": 1.50, "b": [1e3, NaN, true, null]}', where="x") == {
        "a": "1.50",
        "b": ["1e3", "NaN", True, None],
    }
    for text, message in (
        ('{"a": 1, "a": 2}', "x: key 'a' stands twice in one object"),
        ("[1,", "x: malformed JSON at column 4: Expecting value"),
        ("[1,\n2", "x: malformed JSON at line 2, column 2: Expecting ',' delimiter"),
        ("[" * 100_000, "x: the JSON is nested too deeply"),
    ):
        with pytest.raises(InputError) as error:
            parse_json(text, where="x")
        assert str(error.value) == message


def test_what_is_not_utf8_names_the_byte_and_a_way_out() -> None:
    assert utf8_text(b"\xef\xbb\xbfone\n", "x") == "one\n"
    with pytest.raises(InputError, match=r"^x: not UTF-8 at byte 5 \(line 2\); it may be CP1252 \('für'\), or"):
        utf8_text(b"one\nf\xfcr", "x")
    with pytest.raises(InputError, match="iconv -f UTF-16"):
        utf8_text("one".encode("utf-16"), "x")
    with pytest.raises(InputError, match=r"it is compressed with gzip; let its name end in \.gz"):
        utf8_text(gzip.compress(b"one"), "x")


def test_a_table_of_blank_rows_is_empty_and_ragged_rows_are_named(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("a,b\n1,2\n,\n3,4\n")
    assert load_table(path).frame.rows() == [("1", "2"), ("3", "4")]
    for text, message in (
        ("a,b\n1,2\n1,2,3\n", "row 2 has 3 cells, the header 2; quote a cell"),
        ("a,b\n1,2\n1\n", "row 2 has 1 cells, the header 2; is the file cut off?"),
        ("a,a\n1,2\n", "column 'a' stands twice"),
    ):
        path.write_text(text)
        with pytest.raises(InputError) as error:
            load_table(path)
        assert str(error.value).startswith(f"s.csv: {message}")
