"""Files of counts, `NAME.counts.json`: what left an engine, kept for the questions that counts can answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from custodes.arguments import checked
from custodes.data.battle_counts import SCHEMA, BattleCounts
from custodes.data.loading.source import check_exists, file_bytes
from custodes.data.notes import Note
from custodes.data.pairs import PairCounts
from custodes.errors import InputError, OptionError, shown
from custodes.files import write_atomically
from custodes.sealed import decoded, digest, layout

SUFFIX = ".counts.json"
FORMAT, VERSION = "custodes-counts", 1
TABLES = ("paired", "metric_only", "human_only")


@layout
class _File(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Either `pairs` (arrays by name, and labels) or `battles` (a list a column)."""

    format: str
    version: int
    digest: str
    pairs: dict[str, Any] | None = None
    battles: dict[str, Any] | None = None


_FILE = msgspec.json.Decoder(_File)


def is_counts(source: Any) -> bool:
    """Whether a source is a file of counts, by its name."""
    return isinstance(source, str | Path) and str(source).endswith(SUFFIX)


@checked
def write_counts(counts: PairCounts | BattleCounts, path: str | Path) -> Path:
    """Keep counts in a file `NAME.counts.json`, which the questions that take counts read.

    Raises `OptionError` for another name and where it cannot be written.

    >>> import tempfile
    >>> rows = [("1", "A", "B", "model_a")]
    >>> table = pl.LazyFrame(rows, schema=["item", "model_a", "model_b", "winner"], orient="row")
    >>> from custodes.data.battle_counting import count_battles
    >>> place = write_counts(count_battles(table), Path(tempfile.mkdtemp()) / "arena.counts.json")
    >>> read_counts(place).items
    {'human': 1}
    """
    if not is_counts(path):
        raise OptionError(
            f"cannot write {path}: counts are kept in a file named ….counts.json, by which they are known"
        )
    if isinstance(counts, PairCounts):
        held, kind = _held(counts), "pairs"
    else:
        kind = "battles"
        held = {
            "columns": counts.frame.to_dict(as_series=False),
            "items": dict(counts.items),
            "notes": [{"rule": note.rule, "message": note.message, "count": note.count} for note in counts.notes],
            "pairs": None if counts.pairs is None else _held(counts.pairs),
        }
    head = {"format": FORMAT, "version": VERSION, "digest": digest(held)}
    return write_atomically(path, msgspec.json.encode(head | {kind: held}) + b"\n")


def _held(counts: PairCounts) -> dict[str, Any]:
    names: dict[str, Any] = {name: getattr(counts, name) for name in ("system_a", "system_b", "metrics")}
    return names | {name: getattr(counts, name).ravel().tolist() for name in TABLES}


@checked
def read_counts(path: str | Path) -> PairCounts | BattleCounts:
    """The counts of a file that `write_counts` or `custodes count` wrote.

    Raises `InputError` where it is none, or was changed by hand.

    >>> read_counts("no.counts.json")
    Traceback (most recent call last):
    custodes.errors.InputError: no.counts.json: no such file
    """
    place = Path(path)
    check_exists(place)
    try:
        made = decoded(file_bytes(place), _FILE)
        held = made.pairs if made.battles is None else made.battles
        if made.format != FORMAT or made.version != VERSION:
            raise InputError(f"format {shown(made.format)} {made.version} is not {FORMAT} {VERSION}")
        if held is None or made.digest != digest(held):
            raise InputError("its content does not fit its digest")
        return _battles(held) if made.battles is not None else _pairs(held)
    except (InputError, KeyError, TypeError, ValueError, pl.exceptions.PolarsError) as problem:
        raise InputError(f"{place.name}: no counts that can be used: {problem}; count again") from None


def _pairs(held: dict[str, Any]) -> PairCounts:
    names: dict[str, Any] = {name: tuple(held[name]) for name in ("system_a", "system_b", "metrics")}
    n, k = len(names["system_a"]), len(names["metrics"])
    shapes = {"paired": (n, k, 3, 3), "metric_only": (n, k, 3), "human_only": (n, k, 3)}
    arrays: dict[str, Any] = {
        name: np.array(held[name], dtype=np.int64).reshape(shape) for name, shape in shapes.items()
    }
    return PairCounts(**arrays, **names)


def _battles(held: dict[str, Any]) -> BattleCounts:
    return BattleCounts(
        frame=pl.DataFrame(held["columns"], schema=SCHEMA),
        items={str(name): int(n) for name, n in held["items"].items()},
        notes=tuple(Note(**note) for note in held["notes"]),
        pairs=None if held["pairs"] is None else _pairs(held["pairs"]),
    )
