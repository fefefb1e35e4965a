"""Tables of a database server: `URI::SELECT ...` through an ADBC driver; a password is never shown.

The scheme names the driver, as Polars finds it: `postgresql://...` is read by adbc-driver-postgresql.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import polars as pl

from custodes.data.loading.database import QUERY
from custodes.data.loading.source import exists
from custodes.data.loading.table import short, with_column_names
from custodes.errors import InputError, MissingExtraError

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)
PARTED = re.compile(r"((?:\[[^\]]*\]|(?!::).)*)(?:::(.*))?", re.DOTALL)
"""What stands before the first `::` outside of brackets (those of an IPv6 address), and what stands after it."""

PLAIN = re.compile(r"(?:[^@/?#]*@)?([^@?#]*)(?:[?#][^@]*)?")
"""User and password; host, port and database; options. An address of another form is not shown at all."""

DOWNLOADED = ("http", "https", "ftp", "s3", "gs", "hf", "az")
FILES = ("sqlite", "duckdb", "file")
HIDDEN = "..."


def is_uri(source: object) -> bool:
    """Whether a source is the address of a server and not a path."""
    if not isinstance(source, str | Path):
        return False
    return bool(URI.fullmatch(str(source))) and not exists(Path(source))


def load_query(source: str | Path) -> tuple[pl.DataFrame, str]:
    """The answer to a query, and what messages call it: scheme, host and database without user and options."""
    match = URI.fullmatch(str(source))
    assert match is not None
    scheme, address = match[1].lower(), match[2]
    if scheme in DOWNLOADED:
        raise InputError(f"{scheme}://{HIDDEN}: nothing is downloaded here; download the file and give its path")
    parted = PARTED.fullmatch(address)
    assert parted is not None
    where, query = parted[1], parted[2]
    plain = PLAIN.fullmatch(where)
    name = f"{scheme}://{plain[1] if plain else HIDDEN}"
    if scheme in FILES:
        raise InputError(f"{name}: give the path of a file, without {scheme}://")
    if not query or not QUERY.match(query):
        raise InputError(f"{name}: say what to read with URI::SELECT ... FROM ...")
    frame = ask(f"{scheme}://{where}", query, name=name)
    return frame, f"{name}::{short(query)}"


def ask(uri: str, query: str, *, name: str) -> pl.DataFrame:
    """The answer of the server at a URI to a query; what it says of an error is shown where it holds no secret."""
    try:
        frame = pl.read_database_uri(query, uri, engine="adbc")
    except ImportError:
        scheme = uri.partition(":")[0]
        raise MissingExtraError(
            f"{name}: no ADBC driver for it; pip install 'custodes[sql]' brings that of PostgreSQL, others are"
            f" called adbc-driver-{scheme}"
        ) from None
    except (Exception, pl.exceptions.PanicException) as error:  # each driver raises its own kinds
        raise InputError(
            f"{name}: the query failed: {_without_secrets(str(error), uri) or type(error).__name__}"
        ) from None
    return with_column_names(frame, where=name)


def _without_secrets(message: str, uri: str) -> str:
    """The first line of an error, unless it holds a part of the URI that may be a secret."""
    first = message.strip().split("\n")[0].strip()
    address = uri.partition("://")[2]
    before, at, _ = address.rpartition("@")
    options = address.partition("?")[2]
    words = [word for word in re.split(r"[:@&=?/]", f"{before if at else ''}&{options}") if word]
    words += [unquote(word) for word in words]
    return "" if any(word in first for word in words) else first
