# ruff: noqa: I001, F401
"""Readers: one file a format, and `read`, which finds the right one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from custodes.data.readers.plugins import plugged
from custodes.data.readers.reader import Invalid, PathReader, TableReader
from custodes.data.readers.tables import Table, check_exists, exists, load_table
from custodes.data.study import Study, join
from custodes.data.table import to_polars
from custodes.errors import InputError, OptionError, listed, suggestion
from custodes.registry import members

from custodes.data.readers.ratings import READER as RATINGS
from custodes.data.readers.battles import READER as BATTLES
from custodes.data.readers.outputs import READER as OUTPUTS
from custodes.data.readers.wide import READER as WIDE
from custodes.data.readers.alpacaeval import READER as ALPACAEVAL
from custodes.data.readers.rewardbench import READER as REWARDBENCH
from custodes.data.readers.llmbar import READER as LLMBAR

from custodes.data.readers.mtme import READER as MTME

__all__ = ["DEMO", "READERS", "Invalid", "read"]

TABLE_READERS = {own.name: own for own in members(globals(), TableReader)}
"""Our formats of tables by name, a line above for each; the first whose columns fit is taken (texts
before wide, which would take them for scores)."""

PATH_READERS = {own.name: own for own in members(globals(), PathReader)}
"""Our formats of folders, archives and logs by name, a line above for each; asked before those of tables."""

DEMO = "demo"
OURS = (*TABLE_READERS, *PATH_READERS)

READERS: tuple[str, ...]
"""The names that `reader=` takes: ours, and those of other packages, which are looked for on the first use."""


def __getattr__(name: str) -> Any:
    if name == "READERS":
        return (*OURS, *plugged(OURS))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def read(
    *sources: Any,
    reader: str | None = None,
    raters: Any = None,
    items: Any = None,
    invalid: Invalid = "error",
) -> Study:
    """One study from files and dataframes, joined on item and system.

    A source is a path (`PATH::wmt23/en-de` for mt-metrics-eval data), a dataframe (pandas, Polars, PyArrow, DuckDB) or
    the word 'demo'. The format is found by suffix and columns, or named by `reader` (one of `READERS`). `raters` and
    `items` are side tables (paths or dataframes, see `Study.describe`). `invalid='drop'` drops and counts verdicts that
    cannot be read. Raises `InputError`, which says what is wrong, where, and the way out.

    >>> import polars as pl
    >>> scores = pl.DataFrame({"item": [1, 1], "system": ["A", "B"], "ann": [4, 2], "bleu": [31.0, 28.5]})
    >>> read(scores).ratings.frame.height
    4
    """
    if not sources:
        raise OptionError("read: no input; give a path, a dataframe, or 'demo'")
    if reader is not None and reader not in OURS and reader not in plugged(OURS):
        known = (*OURS, *plugged(OURS))
        raise OptionError(f"reader={reader!r} is unknown{suggestion(reader, known)}; readers: {', '.join(known)}")
    if invalid not in get_args(Invalid):
        raise OptionError(f"invalid={invalid!r} is unknown; allowed: {', '.join(get_args(Invalid))}")
    study = join([_read_one(source, reader=reader, invalid=invalid) for source in sources])
    if raters is not None:
        table = _table(raters, "raters")
        study = study.describe(raters=table.frame, raters_name=table.name)
    if items is not None:
        table = _table(items, "items")
        study = study.describe(items=table.frame, items_name=table.name)
    return study


def _read_one(source: Any, *, reader: str | None, invalid: Invalid) -> Study:
    if isinstance(source, str) and source == DEMO:
        from custodes.data.simulate import demo_study

        return demo_study()
    named = PATH_READERS.get(reader or "")
    if isinstance(source, str | Path):
        path, part = _path_and_part(source)
        check_exists(path)
        whole = named or (_path_reader(path, part) if reader is None else None)
        if whole:
            return whole.make(path, part=part, invalid=invalid)
    elif named:
        raise OptionError(f"reader={reader!r} takes the path of a file or folder, not a dataframe")
    table = _table(source, "table")
    made = _table_reader(table, reader).make(table.frame, where=table.name, invalid=invalid)
    study: Study = replace(made, digest=table.digest)
    if not study.ratings.frame.height and not study.preferences.frame.height and study.outputs is None:
        raise InputError(f"{table.name}: no row holds a score or a verdict; there is nothing to judge")
    return study


def _path_reader(path: Path, part: str | None) -> PathReader | None:
    """The format of a path that is more than a table; a part or a folder that nothing else knows is for mtme."""
    fitting = next((own for own in PATH_READERS.values() if own.fits(path)), None)
    return fitting or (MTME if part is not None else None)


def _path_and_part(source: str | Path) -> tuple[Path, str | None]:
    """`PATH::PART` as both; a path that exists as written is taken as such."""
    path, sign, part = str(source).partition("::")
    if not sign or exists(Path(source)):
        return Path(source), None
    return Path(path), part


def _table(source: Any, name: str) -> Table:
    if isinstance(source, str | Path):
        return load_table(Path(source))
    frame = to_polars(source, where=name)
    if not frame.height:
        raise InputError(f"{name}: no rows; give at least one")
    return Table(frame=frame, name=name)


def _table_reader(table: Table, reader: str | None) -> TableReader:
    if reader is not None:
        return TABLE_READERS.get(reader) or plugged(OURS)[reader]
    columns = table.frame.columns
    fitting = next((known for known in _table_readers() if known.fits(columns)), None)
    if fitting:
        return fitting
    needs = [(known.name, needed) for known in _table_readers() for needed in known.columns]
    lacking = [(name, needed) for name, needed in needs if not set(needed) <= set(columns)]
    nearest, needed = max(lacking, key=lambda need: len(set(need[1]) & set(columns)) / len(need[1]))
    lacks = " and ".join(_lack(name, columns, needed) for name in needed if name not in columns)
    known = "; ".join(f"{name} ({', '.join(needed)})" for name, needed in needs)
    raise InputError(
        f"{table.name}: columns {listed(columns)} fit no reader; nearest is {nearest}, which lacks {lacks};"
        f" readers: {known}"
    )


def _table_readers() -> Iterator[TableReader]:
    """Ours, then those of other packages, which are not even loaded where ours will do."""
    yield from TABLE_READERS.values()
    yield from plugged(OURS).values()


def _lack(name: str, columns: Sequence[str], needed: Sequence[str]) -> str:
    near = suggestion(name, [column for column in columns if column not in needed])
    return repr(name) + near.replace("did you mean", "is it")
