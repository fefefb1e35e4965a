"""Files of counts, `NAME.counts.json`: counts from a table engine are saved as input of questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from custodes.arguments import check_arguments
from custodes.data.loading.source import read_file_bytes
from custodes.data.notes import Note
from custodes.data.outcome_counts import BY_ORDER, Origin, OutcomeCounts
from custodes.errors import InputError, OptionError, reject
from custodes.files import write_atomically
from custodes.strict_json import decode, digest, prepare_decoder

SUFFIX = ".counts.json"
FORMAT, VERSION = "custodes-counts", 1
TABLES = {"paired": (3, 3), "metric_only": (3,), "human_only": (3,)}
"""The shape of each table of counts for one pair of systems and one metric."""
LABELS = ("system_a", "system_b", "metrics")


@prepare_decoder
class _File(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The content of a file. `counts` has labels, arrays (by name) and lists (by column). `how` has the options of
    counting."""

    format: str
    version: int
    digest: str
    how: dict[str, Any]
    counts: dict[str, Any]


_FILE = msgspec.json.Decoder(_File)


def is_counts(source: Any) -> bool:
    """Whether a source has the name of a counts file."""
    return isinstance(source, str | Path) and str(source).endswith(SUFFIX)


@check_arguments
def write_counts(counts: OutcomeCounts, path: str | Path) -> Path:
    """Write counts to a file `NAME.counts.json`. Questions that accept counts read this file like a study.

    Parameters
    ----------
    counts : OutcomeCounts
        Counts to write.
    path : path
        File; its name must end in .counts.json.

    Returns
    -------
    Path

    Raises
    ------
    OptionError
        For a name that does not end in .counts.json, or a file that cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> rows = [("1", "A", "B", "model_a")]
    >>> table = pl.LazyFrame(rows, schema=["item", "model_a", "model_b", "winner"], orient="row")
    >>> from custodes.data.battle_counting import count_battles
    >>> path = write_counts(count_battles(table), Path(tempfile.mkdtemp()) / "arena.counts.json")
    >>> read_counts(path).items
    {'human': 1}
    """
    if not str(path).endswith(SUFFIX):
        raise OptionError(
            f"cannot write {path}: the name of a counts file must end in .counts.json; choose such a name"
        )
    how = counts.origin.how
    value_of_field: dict[str, Any] = {
        **{field_name: getattr(counts, field_name) for field_name in LABELS},
        **{field_name: getattr(counts, field_name).ravel().tolist() for field_name in TABLES},
        "by_order": None if counts.by_order is None else counts.by_order.to_dict(as_series=False),
        "items": dict(counts.items),
        "notes": [{"rule": note.rule, "message": note.message, "count": note.count} for note in counts.notes],
    }
    file_header = {"format": FORMAT, "version": VERSION, "digest": digest([how, value_of_field])}
    return write_atomically(path, msgspec.json.encode(file_header | {"how": how, "counts": value_of_field}) + b"\n")


@check_arguments
def read_counts(path: str | Path) -> OutcomeCounts:
    """Read counts from a file that `write_counts` or `custodes count` wrote.

    Parameters
    ----------
    path : path
        File NAME.counts.json.

    Returns
    -------
    OutcomeCounts
        The counts; `origin` has the name and the digest of the file, and the options of counting.

    Raises
    ------
    InputError
        For a file that is not a counts file or was edited by hand.

    Examples
    --------
    >>> read_counts("no.counts.json")
    Traceback (most recent call last):
    custodes.errors.InputError: no.counts.json: no such file
    """
    path = Path(path)
    content = read_file_bytes(path)
    try:
        decoded_file = decode(content, _FILE)
        reject(
            (
                decoded_file.digest != digest([decoded_file.how, decoded_file.counts]),
                "the content does not match the digest in the file",
            ),
            (
                (decoded_file.format, decoded_file.version) != (FORMAT, VERSION),
                f"format {decoded_file.format!r}, version {decoded_file.version}, is unknown to this version of "
                "custodes",
            ),
            error=InputError,
        )
        return _parse_counts(
            decoded_file.counts, Origin(how=decoded_file.how, name=path.name, digest=decoded_file.digest[:16])
        )
    except (InputError, KeyError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path.name}: counts cannot be read: {error}; count again with `custodes count`") from None


def _parse_counts(value_of_field: dict[str, Any], origin: Origin) -> OutcomeCounts:
    labels_of_field: dict[str, Any] = {field_name: tuple(value_of_field[field_name]) for field_name in LABELS}
    table_of_field: dict[str, Any] = {
        field_name: np.array(value_of_field[field_name], dtype=np.int64).reshape(
            len(labels_of_field["system_a"]), len(labels_of_field["metrics"]), *table_shape
        )
        for field_name, table_shape in TABLES.items()
    }
    by_order_columns = value_of_field["by_order"]
    return OutcomeCounts(
        **labels_of_field,
        **table_of_field,
        by_order=None if by_order_columns is None else pl.DataFrame(by_order_columns, schema=BY_ORDER),
        items=value_of_field["items"],
        notes=tuple(Note(**note) for note in value_of_field["notes"]),
        origin=origin,
    )
