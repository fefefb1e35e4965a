"""Workbooks: choice of the sheet; numbers, dates and formulas as displayed."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Any

import pytest

from custodes.data.loading import load_table
from custodes.data.loading.spreadsheet import OLE
from custodes.data.reading import read
from custodes.errors import InputError, MissingExtraError
from tests.data.loading.files import fault, unzipped, workbook, zipped
from tests.messages import exactly

HEADER = ["item", "system", "rater", "kind", "score"]
ROWS = [["001", "A", "ann", "human", 3.5], [7, "A", "bleu", "metric", 0.1], ["001", "B", "ann", "human", 4]]


def written(path: Path, sheets: dict[str, list[list[Any]]], at: tuple[int, int] = (0, 0)) -> Path:
    path.write_bytes(workbook(sheets, at))
    return path


@pytest.mark.parametrize("at", [(0, 0), (3, 2)])
def test_the_sheet_with_cells_is_read(tmp_path: Path, at: tuple[int, int]) -> None:
    path = written(tmp_path / "s.xlsx", {"empty": [], "ratings": [HEADER, *ROWS]}, at)
    study = read(path)
    assert study.name == "s.xlsx"
    assert study.ratings.frame.select("item", "system", "rater", "score").rows() == [
        ("001", "A", "ann", 3.5),
        ("7", "A", "bleu", 0.1),
        ("001", "B", "ann", 4.0),
    ]
    assert study.notes == ()


def test_of_several_sheets_one_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "s.xlsx", {"ratings": [HEADER, *ROWS], "people": [["rater"], ["ann"]], "empty": []})
    study = read(f"{path}::ratings", raters=f"{path}::people")
    assert (study.name, study.ratings.frame.height) == ("s.xlsx::ratings", 3)
    for part, message in (
        ("", "s.xlsx: holds 2 sheets; select one with s.xlsx::SHEET: ratings, people"),
        ("::rating", "s.xlsx: no sheet named 'rating' (did you mean 'ratings'?); sheets: ratings, people, empty"),
        ("::empty", "s.xlsx: no cell is filled; give a table with a header and at least one row"),
    ):
        assert fault(f"{path}{part}") == message


def test_dates_formulas_errors_and_empty_rows(tmp_path: Path) -> None:
    day = datetime.datetime(2024, 1, 2)
    rows = [
        ["item", None, "day", "double", "ok"],
        ["a", None, day, ("=1+1", 2), True],
        [None] * 5,
        ["b", None, day, ("=NA()", "#N/A"), False],
        ["c", None, day, ("=1/0", "#DIV/0!"), False],
    ]
    table = load_table(written(tmp_path / "s.xlsx", {"ratings": rows}))
    assert table.frame.rows() == [
        ("a", "2024-01-02 00:00:00", "2", "true"),
        ("b", "2024-01-02 00:00:00", None, "false"),
        ("c", "2024-01-02 00:00:00", None, "false"),
    ]
    assert [(note.rule, note.count, note.message) for note in table.notes] == [
        (
            "cell-error",
            2,
            "s.xlsx: 2 cells hold an error and count as empty (Error(NA) in row 3 of 'double', Error(Div0) in row 4 of"
            " 'double')",
        )
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [["My study"], HEADER, *ROWS],
            "column 2, 3, 4 and 1 more has no name in the first non-empty row (My study); a sheet must start with the "
            "names of its columns",
        ),
        ([["a", "a"], [1, 2]], "two columns are called 'a'; rename or remove one of these columns"),
        ([HEADER], "the table has a header and no rows; give at least one row"),
        ([], "no cell is filled; give a table with a header and at least one row"),
    ],
)
def test_sheets_that_are_refused(tmp_path: Path, rows: list[list[Any]], message: str) -> None:
    assert fault(written(tmp_path / "s.xlsx", {"ratings": rows})) == f"s.xlsx: {message}"


def test_damaged_workbooks_and_a_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "s.xlsx", {"ratings": [HEADER, *ROWS]})
    whole = path.read_bytes()
    for name, data, message in (
        ("s.xlsx", whole[:-40], "a damaged or truncated zip file; copy or download it again"),
        (
            "s.xlsx",
            whole.replace(b"xl/workbook.xml", b"xl/workbook.xmm"),
            "the archive holds no table file; allowed in an archive: .csv, .tsv, .txt, .jsonl, .ndjson, .json, "
            ".parquet, .arrow, .feather, .ipc, .xlsx, .xlsm",
        ),
        *(
            ("s.xlsx", damaged, "not a spreadsheet, or a damaged one; save it again, or as CSV")
            for damaged in (zipped(unzipped(whole) | {"xl/workbook.xml": b"<"}), b"item,score")
        ),
        (
            "s.xls",
            OLE + bytes(600),
            "a spreadsheet in the old .xls format, or a spreadsheet with a password; save the spreadsheet as "
            ".xlsx or CSV",
        ),
    ):
        (tmp_path / name).write_bytes(data)
        assert fault(tmp_path / name) == f"{name}: {message}"
    path.write_bytes(whole)
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(
        MissingExtraError,
        match=exactly(
            "s.xlsx: spreadsheets need fastexcel: pip install 'custodes[excel]', or save the spreadsheet as CSV"
        ),
    ):
        read(path)


def test_cells_far_apart_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "far.xlsx"
    path.write_bytes(workbook({"ratings": [HEADER, *ROWS]}, (1_048_000, 16_000)))
    with pytest.raises(
        InputError, match=r"^far\.xlsx: xl/worksheets/sheet1\.xml covers 1,048,004 rows and 16,005 columns"
    ):
        read(path)
