"""Servers: what a query answers, and no password in any message."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pytest

from custodes.data.loading import sql
from custodes.data.reading import read
from custodes.errors import CustodesError, InputError, MissingExtraError

SECRETS = ("sesame", "se/sa@me", "ses?ame", "s%40same", "s@same", "me:sesame")


@pytest.fixture
def server(tmp_path: Path) -> str:
    """The address of a database for the ADBC driver of SQLite, which stands for that of a server."""
    with sqlite3.connect(tmp_path / "s.db") as made:
        made.execute("CREATE TABLE ratings AS SELECT 1 AS item, 'A' AS system, 3.5 AS ann UNION ALL SELECT 2, 'B', 4.0")
    made.close()
    return f"sqlite:file:{tmp_path}/s.db?mode=ro"


def test_a_driver_answers_a_query(server: str) -> None:
    frame = sql.ask(server, "SELECT item, system, ann FROM ratings", name="here")
    assert frame.rows() == [(1, "A", 3.5), (2, "B", 4.0)]
    with pytest.raises(InputError, match="^here: the query failed: .*no such column: absent"):
        sql.ask(server, "SELECT absent FROM ratings", name="here")


def test_a_query_makes_a_study(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(query: str, uri: str, engine: str) -> pl.DataFrame:
        asked.append((query, uri, engine))
        return read_database_uri(query, server, engine=engine)

    read_database_uri = pl.read_database_uri
    monkeypatch.setattr(pl, "read_database_uri", answer)
    study = read(
        "postgresql://me:sesame@host:5432/db?sslmode=off::SELECT *, 1::int AS x FROM ratings".replace("::int", "")
    )
    assert asked[0][1:] == ("postgresql://me:sesame@host:5432/db?sslmode=off", "adbc")
    assert study.name == "postgresql://host:5432/db::SELECT *, 1 AS x FROM ratings"
    assert study.ratings.frame.height == 4
    assert len(study.fingerprint()) == 16
    assert "sesame" not in repr(study)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "address",
    ["postgresql://me:{}@host/db", "postgresql://host/db?user=me&password={}", "postgresql://me:{}@[::1]:5432/db"],
)
@pytest.mark.parametrize("rest", ["", "::", "::DELETE FROM t", "::SELECT 1", "::SELECT '1'::int"])
@pytest.mark.parametrize("as_path", [False, True])
def test_no_message_holds_a_secret(
    secret: str, address: str, rest: str, as_path: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(query: str, uri: str, engine: str) -> pl.DataFrame:
        raise RuntimeError(f"cannot connect to {uri}")

    monkeypatch.setattr(pl, "read_database_uri", fail)
    source = address.format(secret) + rest
    with pytest.raises(CustodesError) as error:
        read(Path(source) if as_path else source)
    told = f"{error.value}{error.value.__cause__ or ''}"
    assert not any(word in told for word in (secret, "sesame", "same", "me:"))
    assert told.startswith("postgresql://")


def test_a_missing_driver_and_addresses_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtraError) as missing:
        read("nosuchbase://host/db::SELECT 1")
    assert str(missing.value) == (
        "nosuchbase://host/db: no ADBC driver for it; pip install 'custodes[sql]' brings that of PostgreSQL, others are"
        " called adbc-driver-nosuchbase"
    )
    for source, message in (
        ("postgresql://host/db::ratings", "postgresql://host/db: say what to read with URI::SELECT ... FROM ..."),
        (
            "https://me:x@example.org/a.csv",
            "https://...: nothing is downloaded here; download the file and give its path",
        ),
        ("sqlite:///a.db::SELECT 1", "sqlite://a.db: give the path of a file, without sqlite://"),
    ):
        with pytest.raises(InputError) as error:
            read(source)
        assert str(error.value) == message
