"""Files of counts, `NAME.counts.json`: counts from a table engine are saved as input of questions, and can be added."""

from __future__ import annotations

import lzma
import os
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from custodes.arguments import check_arguments
from custodes.data.loading.compression import COMPRESSION_FORMATS, decompress, detect_compression
from custodes.data.loading.source import check_exists, read_file_bytes
from custodes.data.notes import Note
from custodes.data.outcome_counts import BY_ORDER, SIGNS, Origin, OutcomeCounts
from custodes.data.panel import pair_positions
from custodes.data.table import digest_of
from custodes.errors import InputError, OptionError, join_labels, reject, short_repr
from custodes.files import write_atomically
from custodes.strict_json import decode, digest, prepare_decoder

SUFFIX = ".counts.json"
FORMAT, VERSION = "custodes-counts", 1
TABLES = {"paired": (3, 3), "metric_only": (3,), "human_only": (3,)}
"""The shape of each table of counts for one pair of systems and one metric."""
LABELS = ("system_a", "system_b", "metrics")

RULES = ("aspect", "aggregate", "ties", "human_ties", "orders")
"""Options of counting that must be equal in all files."""

SELECTIONS = ("human", "metrics", "systems", "lower")
"""Options of counting that are lists of names. For a sum of files, the lists of all files are merged."""


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
    """Whether the name or the first bytes of a source are those of a counts file, possibly compressed."""
    if not isinstance(source, str | Path):
        return False
    file_path = Path(source)
    uncompressed_name = (
        file_path.name.removesuffix(file_path.suffix)
        if file_path.suffix in {compression_format.suffix for compression_format in COMPRESSION_FORMATS}
        else file_path.name
    )
    return uncompressed_name.endswith(SUFFIX) or (
        uncompressed_name.endswith(".json") and FORMAT.encode() in _first_bytes(file_path)
    )


def _first_bytes(path: Path) -> bytes:
    """The first bytes of the (decompressed) content; empty if the path is not a file or cannot be read."""
    if os.path.isfile(path):
        with suppress(OSError, EOFError, zlib.error, lzma.LZMAError), path.open("rb") as raw_stream:
            compression_format = detect_compression(raw_stream.read(_N_FIRST_BYTES))
            raw_stream.seek(0)
            return (compression_format.open(raw_stream) if compression_format else raw_stream).read(_N_FIRST_BYTES)
    return b""


_N_FIRST_BYTES = 64  # bytes


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
    value_of_field: dict[str, Any] = {
        **{field_name: getattr(counts, field_name) for field_name in LABELS},
        **{field_name: getattr(counts, field_name).ravel().tolist() for field_name in TABLES},
        "by_order": None if counts.by_order is None else counts.by_order.to_dict(as_series=False),
        "items": dict(counts.items),
        "notes": [{"rule": note.rule, "message": note.message, "count": note.count} for note in counts.notes],
    }
    return write_atomically(
        path,
        msgspec.json.encode(
            {
                "format": FORMAT,
                "version": VERSION,
                "digest": digest([counts.origin.how, value_of_field]),
                "how": counts.origin.how,
                "counts": value_of_field,
            }
        )
        + b"\n",
    )


@check_arguments
def read_counts(path: str | Path, *others: str | Path) -> OutcomeCounts:
    """Read counts from files that `write_counts` or `custodes count` wrote, and add the counts of several files.

    Parameters
    ----------
    path, others : path
        Files NAME.counts.json, optionally compressed. No item may be counted in two files.

    Returns
    -------
    OutcomeCounts
        The counts; `origin` has the name and the digest of the file, and the options of counting.

    Raises
    ------
    InputError
        For a file that is not a counts file or was edited by hand, and for files with different options of counting.

    Examples
    --------
    >>> read_counts("no.counts.json")
    Traceback (most recent call last):
    custodes.errors.InputError: no.counts.json: no such file
    """
    return _sum_counts([_read_file(Path(file)) for file in (path, *others)])


def _read_file(path: Path) -> OutcomeCounts:
    """The counts of one file."""
    check_exists(path)
    file_bytes = read_file_bytes(path)
    if compression_format := detect_compression(file_bytes):
        file_bytes = decompress(file_bytes, compression_format, path.name)
    try:
        decoded_file = decode(file_bytes, _FILE)
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
    labels_of_axis: dict[str, Any] = {field_name: tuple(value_of_field[field_name]) for field_name in LABELS}
    n_pairs_and_n_metrics = (len(labels_of_axis["system_a"]), len(labels_of_axis["metrics"]))
    table_of_name: dict[str, Any] = {
        field_name: np.array(value_of_field[field_name], dtype=np.int64).reshape(n_pairs_and_n_metrics + table_shape)
        for field_name, table_shape in TABLES.items()
    }
    by_order_columns = value_of_field["by_order"]
    return OutcomeCounts(
        **labels_of_axis,
        **table_of_name,
        by_order=None if by_order_columns is None else pl.DataFrame(by_order_columns, schema=BY_ORDER),
        items={str(rater_name): int(n_items) for rater_name, n_items in value_of_field["items"].items()},
        notes=tuple(Note(**note) for note in value_of_field["notes"]),
        origin=origin,
    )


def _sum_counts(summands: Sequence[OutcomeCounts]) -> OutcomeCounts:
    """The sum of the counts of several tables without a common item. The result has the raters and systems of all
    tables.

    Raises `InputError` if the options of counting differ.
    """
    if len(summands) == 1:
        return summands[0]
    for first_summand, second_summand in combinations(summands, 2):
        _check_additive(first_summand, second_summand)
    for summand in summands:
        summand_pairs = list(zip(summand.system_a, summand.system_b, strict=True))
        if len({*summand_pairs}) < len(summand_pairs) or any(
            system_a >= system_b for system_a, system_b in summand_pairs
        ):
            raise InputError(f"{summand.origin.name}: give each pair of systems once, in alphabetical order")
    system_names = sorted({*chain.from_iterable((*summand.system_a, *summand.system_b) for summand in summands)})
    metric_names = list(dict.fromkeys(chain.from_iterable(summand.metrics for summand in summands)))
    outcome_tables = np.zeros(
        (len(system_names) * (len(system_names) - 1) // 2, len(metric_names), 4, 4), dtype=np.int64
    )
    for summand in summands:
        pair_indices = pair_positions(
            pl.DataFrame({"system_a": summand.system_a, "system_b": summand.system_b}), system_names
        )
        tables_of_metric = dict(zip(summand.metrics, summand.tables.swapaxes(0, 1), strict=True))
        human_only_tables = np.zeros((len(pair_indices), 4, 4), dtype=np.int64)
        human_only_tables[:, :3, 3] = summand.human
        for metric_index, metric_name in enumerate(metric_names):
            outcome_tables[pair_indices, metric_index] += tables_of_metric.get(metric_name, human_only_tables)
    return OutcomeCounts.from_tables(
        outcome_tables,
        systems=system_names,
        metrics=metric_names,
        by_order=_sum_by_order(summands),
        items=_sum_items(summands),
        notes=tuple(
            replace(note, message=f"{summand.origin.name}: {note.message}")
            for summand in summands
            for note in summand.notes
        ),
        origin=Origin(
            how=_common_options(summands),
            name=" + ".join(summand.origin.name for summand in summands),
            digest=digest_of(*(summand.origin.digest for summand in summands)),
        ),
    )


def _check_additive(first_counts: OutcomeCounts, second_counts: OutcomeCounts) -> None:
    """Raise `InputError` for identical counts, and for counts that differ in kind (scores or verdicts), in the rules of
    counting, or in the kind or direction of a rater."""
    first_options, second_options = first_counts.origin.how, second_counts.origin.how
    first_human_raters, second_human_raters = set(first_options.get("human", ())), set(second_options.get("human", ()))
    raters_of_both_kinds = sorted(
        first_human_raters & set(second_counts.metrics) | second_human_raters & set(first_counts.metrics)
    )
    common_raters = {*first_counts.metrics, *first_human_raters} & {*second_counts.metrics, *second_human_raters}
    raters_of_opposite_direction = sorted(
        (set(first_options.get("lower", ())) ^ set(second_options.get("lower", ()))) & common_raters
    )
    message_prefix = f"{first_counts.origin.name} and {second_counts.origin.name} cannot be added"
    reject(
        (
            first_counts.origin.digest and first_counts.origin.digest == second_counts.origin.digest,
            f"{message_prefix}: both files hold the same counts; give each file once",
        ),
        (
            (first_counts.by_order is None) != (second_counts.by_order is None),
            f"{message_prefix}: one file counts scores and one counts verdicts; give counts of one kind",
        ),
        (
            bool(first_counts.metrics) != bool(second_counts.metrics),
            f"{message_prefix}: one file has counts of metrics and the other has none; count both tables with the same "
            "raters",
        ),
        *(
            (
                first_options.get(rule_name) != second_options.get(rule_name),
                f"{message_prefix}: {rule_name} is {short_repr(first_options.get(rule_name))} in one file and "
                f"{short_repr(second_options.get(rule_name))} in "
                "the other file; count both tables with the same options",
            )
            for rule_name in RULES
        ),
        (
            raters_of_both_kinds,
            f"{message_prefix}: these raters are human in one file and metrics in the other file: "
            f"{join_labels(raters_of_both_kinds)}; give each rater one kind",
        ),
        (
            raters_of_opposite_direction,
            f"{message_prefix}: lower is better for {join_labels(raters_of_opposite_direction)} in only one file; "
            "count both tables with the same option lower",
        ),
        error=InputError,
    )


def _sum_by_order(summands: Sequence[OutcomeCounts]) -> pl.DataFrame | None:
    key_column_names = [column_name for column_name in BY_ORDER if column_name not in SIGNS]
    by_order_tables = [summand.by_order for summand in summands if summand.by_order is not None]
    return (
        pl.concat(by_order_tables).group_by(key_column_names).agg(pl.col(list(SIGNS)).sum()).sort(key_column_names)
        if by_order_tables
        else None
    )


def _sum_items(summands: Sequence[OutcomeCounts]) -> dict[str, int]:
    """The number of items of each rater. A rater is omitted if a file with counts of this rater lacks the number."""
    raters_without_item_count = {
        rater for summand in summands for rater in summand.raters if rater not in summand.items
    }
    return {
        rater: sum(summand.items.get(rater, 0) for summand in summands)
        for rater in sorted({*chain.from_iterable(summand.items for summand in summands)})
        if rater not in raters_without_item_count
    }


def _common_options(summands: Sequence[OutcomeCounts]) -> dict[str, Any]:
    """The options of counting for the sum. An option that selects raters or systems is kept only if all files have this
    option; `lower` is kept if any file has it."""
    options_of_summands = [summand.origin.how for summand in summands]
    rule_options = {
        option_name: option_value
        for option_name, option_value in options_of_summands[0].items()
        if option_name not in SELECTIONS
    }
    return rule_options | {
        option_name: list(
            dict.fromkeys(
                chain.from_iterable(summand_options.get(option_name, ()) for summand_options in options_of_summands)
            )
        )
        for option_name in SELECTIONS
        if all(option_name in summand_options for summand_options in options_of_summands)
        or (option_name == "lower" and any(option_name in summand_options for summand_options in options_of_summands))
    }
