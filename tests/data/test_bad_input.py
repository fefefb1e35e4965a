"""Each error for a bad file is one line: the problem, file and row, allowed values and the remedy."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from custodes.data.reading import read
from custodes.errors import CustodesError, InputError
from tests.data.input_errors import reading_error
from tests.messages import exactly

HEADER = "item,system,rater,score\n"
READERS = "Map your columns, as in --column item=NAME --column system=NAME"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("s.csv", b" \n\n", ": the file is empty; give a table with a header and at least one row"),
        ("s.csv.gz", b"", ": the file is empty; give a table with a header and at least one row"),
        ("s.csv", HEADER.encode(), ": the table has a header and no rows; give at least one row"),
        ("s.json", b"[]", ": the table has a header and no rows; give at least one row"),
        (
            "s.csv",
            b"item, item,system\n1,2,3\n",
            ": two columns are called 'item'; rename or remove one of these columns",
        ),
        (
            "s.csv",
            b"img1,cap7,2,2\nimg1,cap9,3,4\n",
            ": two columns are called '2'; rename or remove one of these columns; if the first row is data, add a row "
            "of column names",
        ),
        (
            "s.csv",
            HEADER.encode() + b"1,A,ann,4\n2,A,ann,4,5\n",
            ": row 2 has 5 cells, but the header has 4; put a cell that holds ',' in quotes, and write each "
            "quote inside the cell twice",
        ),
        (
            "s.tsv",
            HEADER.replace(",", "\t").encode() + b"1\tA\tann\t4\n2\tA\tan",
            ": row 2 has 3 cells, but the header has 4; the file may be truncated",
        ),
        (
            "s.csv",
            HEADER.replace(",", ";").encode() + b"1;A;ann;1,234\n",
            ": score '1,234' in row 1 is not a number; write numbers with a "
            "decimal point and without thousands separators; if nothing was rated, leave the cell empty",
        ),
        (
            "s.csv",
            HEADER.encode() + b'1,"A,ann,4\n',
            ": the table cannot be read: a quote is not closed, or occurs inside a cell; put a cell that holds "
            "',' in quotes, and write each quote inside the cell twice",
        ),
        (
            "s.csv",
            HEADER.encode() + b"1,A,ann,4\n2,B,J\xf6rg,4\n",
            ": not UTF-8 at byte 39 (line 3); save the file as UTF-8, for example with: iconv -f ENCODING -t UTF-8",
        ),
        (
            "s.csv",
            HEADER.encode("utf-16")[:-1],
            ": not UTF-16 at byte 48 (line 1); save the file as UTF-8, for example with: iconv -f ENCODING -t UTF-8",
        ),
        (
            "s.csv.gz",
            gzip.compress(HEADER.encode() * 9, mtime=0)[:-12],
            ": a damaged or truncated compressed file; copy or download it again",
        ),
        (
            "s.parquet",
            b"PAR1 no PAR1",
            ": not a Parquet file, or a damaged or encrypted Parquet file; write the file again",
        ),
        ("s.xlsx", b"PK", ": not a spreadsheet, or a damaged one; save it again, or as CSV"),
        ("s.txt", b"x", ": the table has a header and no rows; give at least one row"),
        (
            "s.cvs",
            b"x",
            ": unknown suffix '.cvs' (did you mean '.csv'?); allowed: .csv, .tsv, .txt, .jsonl, .ndjson, .json, "
            ".parquet, .arrow, .feather, .ipc, .xlsx, .xlsm, .zip (text files also with .gz, .bz2, .xz), SQLite "
            "and DuckDB files; for mt-metrics-eval also .tar, .tar.gz, .tgz or a folder",
        ),
        (
            "s.jsonl",
            b'{"item": 1}\n\n{"item": 2,}\n',
            ", line 3: malformed JSON at column 12: Expecting property name enclosed in double quotes",
        ),
        ("s.jsonl", b'{"item": 1}\n7\n', ": row 2 is not a JSON object; every row must be a JSON object"),
        ("s.jsonl", b'{"a": 1, "a": 2}\n', ", line 1: key 'a' occurs twice in one object"),
        ("s.jsonl", b"[" * 100_000, ", line 1: the JSON is nested too deeply"),
        (
            "s.json",
            b'{"item": 1}',
            ": the JSON object with keys item is not a known log (annotation, alpacaeval_results, inspect_ai, "
            "lm_eval, helm, every_eval_ever, rewardbench2, texts_folder and 1 more); a table is a list of "
            "objects, or JSON Lines in a .jsonl file",
        ),
        (
            "s.json",
            b"7",
            ": a .json file must hold a list of objects; if the file is JSON Lines, rename it to end in .jsonl",
        ),
        (
            "s.jsonl",
            b'{"item": "\\ud800"}',
            ": a cell holds an unpaired surrogate (\\ud800 to \\udfff), which is not valid text; correct the cell",
        ),
        (
            "s.csv",
            b"item,system,rater,scor\n1,A,ann,4\n",
            f": columns item, system, rater, scor match no reader; the most similar reader is ratings "
            f"(item, system, rater, score), which also needs 'score' (is it 'scor'?). {READERS}",
        ),
        (
            "s.csv",
            b"item,model_a,model_b,winer\n1,A,B,tie\n",
            ": columns item, model_a, model_b, winer match no reader; try --column system_a=model_a --column "
            "system_b=model_b --column winner=winer (in Python columns={'system_a': 'model_a', 'system_b': "
            "'model_b', 'winner': 'winer'})",
        ),
        ("s.csv", HEADER.encode() + b"1,A,ann,\n", ": no row has a score or a verdict; give at least one"),
        (
            "s.csv",
            b"item,model_a,model_b,winner,kind\n1,A,B,tie,human\n",
            ": column 'rater' is missing; columns: item, model_a, model_b, winner, kind; needed: item, model_a, "
            "model_b, winner, rater",
        ),
        ("s.jsonl", b'{"item": 1, "outputs": {}}', ": no outputs; give outputs as an object {system: text}"),
        ("s.jsonl", b'{"item": 1, "outputs": "x"}', ", row 1: malformed JSON at column 1: Expecting value"),
        ("s.jsonl", b'{"item": 1, "outputs": [1]}', ", row 1: outputs must be an object {system: text}"),
        (
            "s.jsonl",
            b'{"item": 1, "outputs": {"A": "x", " A": "y"}}',
            ", row 1: two outputs have the same system, or a system has no name; give each output a different system",
        ),
        (
            "s.jsonl",
            b'{"item": 1, "outputs": {"A": "x"}, "references": [[1]]}',
            ", row 1: references must be a text or a list of texts",
        ),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert reading_error(path) == name + expected


def test_a_missing_file_names_a_near_one(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text(HEADER)
    assert (
        reading_error(tmp_path / "rating.csv") == f"{tmp_path}/rating.csv: no such file (did you mean 'ratings.csv'?)"
    )
    assert reading_error(tmp_path / "no" / "where.csv") == f"{tmp_path}/no/where.csv: no such file"
    assert reading_error(f"{tmp_path}/none.tar::wmt/en-de") == f"{tmp_path}/none.tar: no such file"
    assert reading_error("a\0b.csv") == "a\\x00b.csv: no such file"


def test_a_folder_as_a_table_raises(tmp_path: Path) -> None:
    assert reading_error(tmp_path, reader="ratings") == (
        f"{tmp_path.name}: this is a folder, not a table file; give the path of a table file"
    )
    (tmp_path / "s.csv").write_text(HEADER + "1,A,ann,4\n")
    with pytest.raises(InputError, match="a folder, not a table file"):
        read(tmp_path / "s.csv", raters=tmp_path)


def test_messages_about_side_tables_name_their_file(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(HEADER + "1,A,ann,4\n")
    (tmp_path / "people.csv").write_text("rater,kind\nann,boss\n")
    (tmp_path / "things.tsv").write_text("item\tweight\n1\t-1\n")
    assert reading_error(tmp_path / "s.csv", raters=tmp_path / "people.csv") == (
        "people.csv: kind 'boss' in row 1; allowed: human, metric, or words such as annotator, expert, llm, judge"
    )
    assert reading_error(tmp_path / "s.csv", items=str(tmp_path / "things.tsv")) == (
        "things.tsv: weight -1 in row 1; allowed: 1e-12 to 1e+12, and only ratios of weights matter; to exclude an "
        "item, use --group"
    )


def test_rows_of_mixed_objects_are_named() -> None:
    frame = pd.DataFrame({"item": [1, "b"], "system": "A", "rater": "ann", "score": [4, "good"]})
    assert reading_error(frame) == (
        "table: score 'good' in row 2 is not a number; write numbers with a decimal point and without thousands "
        "separators; if nothing was rated, leave the cell empty"
    )
    lists = pd.DataFrame({"item": [[1], [2]], "system": "A", "rater": "ann", "score": [4, 5]})
    assert reading_error(lists).startswith(
        "table: column 'item' holds List(Int64), which cannot be labels; give text or numbers"
    )


def test_dataframes_that_are_none() -> None:
    twice = pd.DataFrame([["1", "A", 3]], columns=["item", "system", "item"])
    assert reading_error(twice) == "table: a column name occurs twice; rename one, or remove it"
    assert reading_error(pd.DataFrame({"item": []})) == "table: no rows; give at least one"
    assert reading_error(7) == (
        "table: a int is not a table; give a path or a dataframe (pandas, Polars, PyArrow, DuckDB)"
    )


def test_a_list_of_sources_is_read_as_they_are() -> None:
    table = pl.DataFrame({"item": [1, 1], "system": ["A", "B"], "ann": [4, 2]})
    assert read([table]).ratings.frame.equals(read(table).ratings.frame)
    with pytest.raises(CustodesError, match=exactly("read: no input; give a path, a dataframe or 'demo'")):
        read([])
