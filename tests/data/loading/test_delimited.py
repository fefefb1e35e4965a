"""Separators and decimal commas of delimited files, and the notes on what was assumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from custodes.data.loading import load_table
from custodes.data.reading import read
from custodes.errors import InputError
from tests.data.loading.files import fault

GERMAN = "item;system;ann;bleu\n1;A;3,5;0,125\n1;B;4;NA\n2;A;;0,25\n"
VALUES = {("1", "A", "ann", 3.5), ("1", "A", "bleu", 0.125), ("1", "B", "ann", 4.0), ("2", "A", "bleu", 0.25)}


def write_file(tmp_path: Path, text: str | bytes, name: str = "s.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("separator", "name"), [(";", "s.csv"), (";", "s.txt"), ("\t", "s.tsv"), ("\t", "s.csv")])
def test_semicolons_and_decimal_commas(tmp_path: Path, encoding: str, separator: str, name: str) -> None:
    study = read(write_file(tmp_path, GERMAN.replace(";", separator).encode(encoding), name))
    assert set(study.ratings.frame.select("item", "system", "rater", "score").rows()) == VALUES
    rules = [note.rule for note in study.notes]
    assert ("separator" in rules) == (name == "s.csv")
    separator_name = {";": "a semicolon", "\t": "a tab"}[separator]
    expected = {
        "separator": (0, f"{name}: cells are separated by {separator_name} (expected a comma)"),
        "decimal-comma": (2, f"{name}: numbers with decimal commas are read in columns ann, bleu"),
    }
    notes = {note.rule: (note.count, note.message) for note in study.notes}
    assert notes.items() & expected.items() == {(rule, expected[rule]) for rule in rules if rule in expected}
    assert "decimal-comma" in rules


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("item,system,ann\n1,A;B;C;D,3\n", ["item", "system", "ann"]),  # semicolons only inside cells
        ("item;system;note, long\n1;A;3,5\n1;B;2,5\n", ["item", "system", "note, long"]),
        ("item|system|ann\n1|A|3\n", ["item", "system", "ann"]),
        ('item,"a;b;c;d",ann\n1,A,3\n', ["item", "a;b;c;d", "ann"]),
        ("item,a;b;c;d\n1,A\n2,B\n", ["item", "a;b;c;d"]),
        ("item,system,ann\r1,A,3\r2,B,4\r", ["item", "system", "ann"]),
        ("item,system,ann\r1,A,3\n2,B,4\r\n", ["item", "system", "ann"]),
    ],
)
def test_the_separator_is_that_which_parts_header_and_rows_alike(tmp_path: Path, text: str, columns: list[str]) -> None:
    assert load_table(write_file(tmp_path, text)).frame.columns == columns


@pytest.mark.parametrize(
    ("cells", "read_as"),
    [
        (["3,5", "4"], ["3.5", "4"]),
        (["1,234", "2,5"], ["1.234", "2.5"]),
        (["0,125", "0,250"], ["0.125", "0.250"]),
        (["1,234", "2,500"], ["1,234", "2,500"]),  # possibly thousands separators
        (["1.234,5", "4"], ["1.234,5", "4"]),
        (["3,5", "2.5"], ["3,5", "2.5"]),
        (["1,234,567", "4"], ["1,234,567", "4"]),
        (["3,5", "good"], ["3,5", "good"]),
        (["-3,5e2", "nan", " 1,5", " NA "], ["-3.5e2", "nan", " 1.5", " NA "]),
    ],
)
def test_a_comma_is_a_decimal_one_only_where_nothing_else_is_possible(
    tmp_path: Path, cells: list[str], read_as: list[str]
) -> None:
    path = write_file(tmp_path, "item;score\n" + "".join(f"{number},5;{cell}\n" for number, cell in enumerate(cells)))
    table = load_table(path)
    assert table.frame["score"].to_list() == read_as
    assert table.frame["item"].to_list()[:2] == ["0,5", "1,5"]  # a label
    assert ("decimal-comma" in [note.rule for note in table.notes]) == (cells != read_as)


def test_a_comma_between_commas_is_never_a_decimal_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^s\.csv: ann '3,5' in row 1 is not a number; write numbers with a decimal"):
        read(write_file(tmp_path, 'item,system,ann\n1,A,"3,5"\n'))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('""""""', "the table has a header and no rows; give at least one row"),
        ("a" * 200_000 + "\n1\n", "the header cannot be read: field larger than field limit (131072)"),
        (
            f"{','.join(map(str, range(10_001)))}\n{'1,' * 10_000}1\n",
            "the table has 10001 columns; at most 10000 can be read. Write one row per rating: item, system, rater, "
            "score",
        ),
    ],
)
def test_hostile_text_is_refused_in_one_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert fault(write_file(tmp_path, text)) == f"s.csv: {message}"


def test_the_largest_tables_that_are_read(tmp_path: Path) -> None:
    text = f"{','.join(map(str, range(10_000)))}\n{'1,' * 9_999}1\n"
    assert load_table(write_file(tmp_path, text)).frame.shape == (1, 10_000)


def test_a_cell_may_be_as_long_as_it_likes(tmp_path: Path) -> None:
    path = write_file(tmp_path, f"item,system,ann\n1,{'A' * 3_000_000},3\n")
    assert len(load_table(path).frame["system"][0]) == 3_000_000
