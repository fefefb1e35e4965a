"""SQLite and DuckDB files are recognised by their first bytes and opened read-only."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

from custodes.data.loading import compression, load_table
from custodes.data.loading.live_study import ANNOTATION_STUDY
from custodes.data.reading import read
from custodes.errors import InputError, MissingExtraError
from tests.data.loading.files import database, fault
from tests.messages import exactly

RATINGS = "CREATE TABLE ratings AS SELECT 1 AS item, 'A' AS system, 3.5 AS ann UNION ALL SELECT 2, 'B', 4"
KINDS = ["sqlite", "duckdb"]
QUERY_ADVICE = " (a query must be of the form SELECT ... FROM ...)"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["study.db", "study", "study.csv", "it's.sqlite"])
def test_a_database_is_known_by_its_content(tmp_path: Path, kind: str, name: str) -> None:
    path = database(tmp_path / name, kind, RATINGS)
    before = path.read_bytes()
    study = read(path)
    assert study.name == name
    assert study.ratings.frame.select("item", "system", "rater", "score").rows() == [
        ("1", "A", "ann", 3.5),
        ("2", "B", "ann", 4.0),
    ]
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_a_view_or_a_query(tmp_path: Path, kind: str) -> None:
    view = 'CREATE VIEW "the ""best"" ones" AS SELECT * FROM ratings WHERE ann > 3.7'
    path = database(tmp_path / "s.db", kind, RATINGS, view)
    assert load_table(f"{path}::ratings").frame.height == 2
    assert load_table(f'{path}::the "best" ones').frame["system"].to_list() == ["B"]
    query = "SELECT item, system, ann FROM ratings WHERE item = 1"
    table = load_table(f"{path}::{query}")
    assert (table.frame.rows(), table.name) == ([(1, "A", 3.5)], f"s.db::{query}")
    assert load_table(f"{path}::\nwith a as (select 1 as b) select * from a").frame.rows() == [(1,)]
    assert load_table(f"{path}::SELECT 1 AS a,{' ' * 100}'{'x' * 100}' AS b").name == "s.db::SELECT 1 AS a, ..."


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("", "s.db: holds 2 tables; select one with s.db::TABLE: ratings, seconds"),
        ("::rating", "s.db: no table named 'rating' (did you mean 'ratings'?); tables: ratings, seconds"),
        ("::drop table ratings", "s.db: no table named 'drop table ratings'; tables: ratings, seconds"),
        ("::select nothing from ratings", "s.db: "),
        ("::with a as (select 1) insert into ratings select 1, 'C', 1", "s.db: "),
        ("::select * from ratings; drop table ratings", "s.db: "),
        (
            "::select 1 as a where 2 > 9",
            "s.db::select 1 as a where 2 > 9: the table has a header and no rows; give at least one row",
        ),
    ],
)
def test_parts_that_are_refused(tmp_path: Path, kind: str, part: str, message: str) -> None:
    path = database(tmp_path / "s.db", kind, RATINGS, "CREATE TABLE seconds AS SELECT 1 AS a")
    before = path.read_bytes()
    text = fault(f"{path}{part}")
    assert text == message or (message == "s.db: " and text.startswith(message) and text.endswith(QUERY_ADVICE))
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_columns_of_one_name(tmp_path: Path) -> None:
    path = database(tmp_path / "s.db", "sqlite", RATINGS)
    message = "s.db: two columns are called 'a'; rename or remove one of these columns"
    assert fault(f"{path}::select 1 as a, 2 as a") == message


def test_a_database_reaches_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    view = f"CREATE VIEW v AS SELECT * FROM read_csv('{tmp_path}/secret.csv')"
    path = database(tmp_path / "s.duckdb", "duckdb", view)
    for part in ("v", f"SELECT * FROM '{tmp_path}/secret.csv'", f"FROM read_csv('{tmp_path}/secret.csv')"):
        assert fault(f"{path}::{part}")
    lite = database(tmp_path / "s.db", "sqlite", RATINGS)
    assert "not authorized" in fault(f"{lite}::SELECT load_extension('x')")


def test_cells_of_several_types_are_text_and_bytes_that_are_no_text_are_null(tmp_path: Path) -> None:
    rows = "SELECT 1 AS a, 'x' AS b, NULL AS c, x'00ff' AS d UNION ALL SELECT 'y', 2.5, NULL, NULL"
    frame = load_table(database(tmp_path / "s.db", "sqlite", f"CREATE TABLE t AS {rows}")).frame
    assert frame.rows() == [("1", "x", None, None), ("y", "2.5", None, None)]


def test_changes_that_are_not_in_the_file_yet(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(RATINGS)
    connection.commit()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    message = fault(path)
    expected = (
        "in the same folder contains changes that are not in s.db yet; close the program that writes the file, or read "
        "a copy: sqlite3 s.db '.backup copy.db'"
    )
    assert message == f"s.db: s.db-wal {expected}"
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    connection.close()  # closing writes the changes into the file, whose header still says WAL
    assert load_table(path).frame.height == 2
    assert [file.name for file in tmp_path.iterdir()] == ["s.db"]
    (tmp_path / "s.db-wal").touch()
    (tmp_path / "s.db-journal").write_bytes(b"x")
    assert fault(path) == f"s.db: s.db-journal {expected}"
    (tmp_path / "s.db-journal").write_bytes(b"")
    assert load_table(path).frame.height == 2


def test_a_study_of_our_annotation_site_is_recognised(tmp_path: Path) -> None:
    path = database(tmp_path / "study", "sqlite", RATINGS, f"PRAGMA application_id = {ANNOTATION_STUDY}")
    with pytest.raises(InputError, match="^study: battles, .* is missing, so another version of custodes wrote"):
        read(path)
    assert load_table(f"{path}::ratings").frame.height == 2


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_and_empty_databases(tmp_path: Path, kind: str) -> None:
    path = database(tmp_path / "s.db", kind, RATINGS)
    whole = path.read_bytes()
    path.write_bytes(whole[:4500])
    message = fault(path)
    assert message.startswith("s.db: a damaged database, or a database of an unsupported version (")
    assert message.endswith("); copy or download it again")
    assert str(tmp_path) not in message
    path.unlink()
    database(path, kind, RATINGS, "DROP TABLE ratings")
    assert fault(path) == "s.db: the database has no table"


def test_duckdb_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = database(tmp_path / "s.db", "duckdb", RATINGS)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(
        MissingExtraError, match=exactly("s.db: a DuckDB file needs DuckDB: pip install 'custodes[duckdb]'")
    ):
        load_table(path)


def test_cells_of_duckdb_that_have_no_type_here(tmp_path: Path) -> None:
    path = database(tmp_path / "s.db", "duckdb", RATINGS)
    with pytest.raises(InputError, match=r"\As\.db: cannot be read: \w+; select other columns\Z"):
        load_table(f"{path}::SELECT INTERVAL 1 DAY AS a")


def test_texts_count_by_their_length_and_other_cells_as_8_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database(tmp_path / "s.db", "sqlite", RATINGS)
    query = f"{path}::SELECT 'abc' AS a, x'3132' AS b, 7 AS c, NULL AS d"
    monkeypatch.setattr(compression, "LARGEST", 3 + 2 + 8 + 8)
    assert load_table(query).frame.rows() == [("abc", "12", 7, None)]
    monkeypatch.setattr(compression, "LARGEST", 20)
    assert fault(query).startswith("s.db: the content has more than 0 MiB; ")
