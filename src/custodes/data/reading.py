"""Read sources into one study: detect the type of each source, map its columns and select the reader."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import polars as pl

from custodes.arguments import check_arguments
from custodes.data.joining import join, with_human_labels
from custodes.data.loading import (
    PROBES,
    RATERS,
    check_exists,
    find_tables,
    is_input_stream,
    is_standard_input,
    load_source,
    load_table,
    path_and_part,
    sidecar_tables,
    without_sidecars,
)
from custodes.data.mapping.cell_types import scored_pairs
from custodes.data.mapping.column_vocabulary import NAMES, find_columns, find_side_pairs
from custodes.data.mapping.columns import FACTS, Columns
from custodes.data.mapping.composed_labels import compose_labels
from custodes.data.mapping.guess import find_certain_mapping, format_options, suggest_mapping
from custodes.data.mapping.labels import label_layout
from custodes.data.mapping.nested import describe_paths, flatten_nested
from custodes.data.mapping.pattern import UnfitError
from custodes.data.mapping.schema import Schema
from custodes.data.mapping.text_columns import TEXTS
from custodes.data.notes import SYSTEM_OF_FILE, Note, build_notes
from custodes.data.probes import read_probes
from custodes.data.readers import BUILTIN_READERS, PATH_READERS, TABLE_READERS
from custodes.data.readers.battles import number_rows
from custodes.data.readers.labels import read_labels
from custodes.data.readers.logs import log_bytes, top_keys
from custodes.data.readers.ratings import read_ratings
from custodes.data.readers.reader import Invalid, PathReader, TableReader, plugin_readers
from custodes.data.study import Study
from custodes.data.table import UNPAIRED_SURROGATE, LoadedTable, digest_of
from custodes.data.writing import RATING_TABLES
from custodes.errors import CustodesError, InputError, OptionError, join_labels, reject, short_repr, suggestion

DEMO, DEMO_TEXTS = "demo", "demo-texts"
"""Example inputs of the package: a study with ratings, and texts without ratings."""

SHARD_NAME = re.compile(r"((part|shard|chunk)?[-_]?\d+|.+-\d{5}-of-\d{5})", re.IGNORECASE)
"""Names of files that are parts of one table."""

SIDE_COLUMNS = ("model_a", "model_b", "system_a", "system_b")
RATINGS = ("item", "system")
VERDICTS = ("item", "system_a", "system_b", "winner")
"""Roles named in the message if a table looks like a table of verdicts."""


@check_arguments
def read(
    *sources: Any,
    reader: str | None = None,
    raters: Any = None,
    items: Any = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    schema: str | Path | None = None,
    invalid: Invalid | None = None,
) -> Study:
    """Read one study from files and dataframes, joined on item and system.

    Parameters
    ----------
    sources : path, dataframe, '-', 'demo', 'demo-texts', or a list of these
        Files, dataframes (pandas, Polars, PyArrow, DuckDB), '-' for standard input, the demo, or texts without ratings.
        `PATH::PART` names a sheet, a table, a split, or a test set of mt-metrics-eval (`PATH::wmt23/en-de`).
    reader : str or None
        Format, one of `READERS` (default: by suffix and columns).
    raters, items : path, dataframe or None
        Side tables, see `Study.describe`. A raters table `scores.raters.csv` in the folder of `scores.csv` is read
        automatically.
    columns : mapping or None
        The column or the path in nested JSON of each role, or several columns, as in '{doc}/{segment}'. `score` also
        accepts patterns such as 'human_{aspect}_{rater}', and `text` patterns such as 'output_{system}'.
    schema : path or None
        TOML file with values of these arguments; arguments of the call take precedence.
    invalid : {'error', 'drop', 'force'}, default 'error'
        What to do with unreadable verdicts: raise an error, drop them if at most 5 % per source and rater are
        unreadable, or drop all.

    Returns
    -------
    Study

    Raises
    ------
    InputError
        For a file or table that cannot be read.
    OptionError
        For an unknown name, or a value that is not allowed.

    Examples
    --------
    >>> import polars as pl
    >>> scores = pl.DataFrame({"doc": [1, 1], "model": ["A", "B"], "ann": [4, 2], "bleu": [31.0, 28.5]})
    >>> read(scores, columns={"item": "doc", "system": "model"}).ratings.frame.height
    4
    """
    if len(sources) == 1 and isinstance(sources[0], list | tuple):
        sources = tuple(sources[0])
    if not sources:
        raise OptionError("read: no input; give a path, a dataframe or 'demo'")
    merged_schema = (Schema() if schema is None else Schema.load(schema)).merge_arguments(
        Columns.make({} if columns is None else columns),
        {"reader": reader, "invalid": invalid, "raters": raters, "items": items},
    )
    reader, raters, items = (merged_schema.reading.get(option_name) for option_name in ("reader", "raters", "items"))
    invalid = merged_schema.reading.get("invalid", "error")
    # The readers of other packages are loaded only for a name that is not built in.
    reader_names = (*BUILTIN_READERS, *(() if reader in (None, *BUILTIN_READERS) else plugin_readers(BUILTIN_READERS)))
    item_roles_in_columns = set(FACTS) & set(merged_schema.columns.roles)
    reject(
        (
            reader not in (None, *reader_names),
            f"reader={short_repr(reader)} is unknown{suggestion(str(reader), reader_names)}; readers: "
            f"{', '.join(reader_names)}",
        ),
        (
            invalid not in get_args(Invalid),
            f"invalid={short_repr(invalid)} is unknown; allowed: {', '.join(get_args(Invalid))}",
        ),
        (
            items is not None and item_roles_in_columns,
            f"items: columns and the items table both give {join_labels(item_roles_in_columns)}; remove one source",
        ),
        (
            sum(is_standard_input(source) for source in (*sources, raters, items)) > 1,
            "standard input can be read only once; give the other inputs as files",
        ),
    )
    opened_sources = [_open_source(source, reader=reader, invalid=invalid) for source in _without_sidecars(sources)]
    if merged_schema.columns:
        opened_sources = [
            replace(source, frame=merged_schema.columns.expand_nested(source.frame))
            if isinstance(source, LoadedTable)
            else source
            for source in opened_sources
        ]
        merged_schema.columns.check(
            [source.frame.columns for source in opened_sources if isinstance(source, LoadedTable)]
        )
    studies = [
        source
        if isinstance(source, Study)
        else _add_side_tables(
            _read_study(source, reader=reader, invalid=invalid, columns=merged_schema.columns), source, raters
        )
        for source in opened_sources
    ]
    if not merged_schema.columns.patterns:
        studies = with_human_labels(studies)
    study = replace(join(studies), selection=merged_schema.selection)
    for table_kind, side_table_source in (("raters", raters), ("items", items)):
        if side_table_source is not None:
            loaded_table = load_source(side_table_source, table_kind)
            study = replace(study, notes=(*study.notes, *loaded_table.notes))
            study = study.describe(**{table_kind: loaded_table.frame, f"{table_kind}_name": loaded_table.name})  # type: ignore[arg-type]
    score_names = [merged_schema.columns.roles.get("score", ""), *study.aspects]
    return replace(study, notes=(*study.notes, *study.raters.undeclared_directions(score_names)))


def _open_source(source: Any, *, reader: str | None, invalid: Invalid) -> Study | LoadedTable:
    """A study, or a table whose reader is not yet determined."""
    if isinstance(source, str) and source == DEMO:
        from custodes.data.simulate import demo_study

        return demo_study()
    if isinstance(source, str) and source == DEMO_TEXTS:
        from custodes.data.simulate import demo_texts

        return LoadedTable(frame=demo_texts(), name=DEMO_TEXTS)
    named_path_reader = PATH_READERS.get(reader or "")
    if isinstance(source, str | Path):
        path, part_name = path_and_part(source)
        check_exists(path)
        path_reader = named_path_reader or (_path_reader(path) if reader is None else None)
        if path_reader and not (path_reader.whole and part_name):
            return path_reader.make(path, part=part_name, invalid=invalid)
    elif named_path_reader:
        raise OptionError(f"reader={reader!r} needs the path of a file or folder, not a dataframe")
    return load_source(source, "table")


def _without_sidecars(sources: Sequence[Any]) -> list[Any]:
    """The sources, without raters tables of other sources: `*.csv` in a shell matches raters tables, too."""
    file_of_source = list(map(_locate_file, sources))
    data_files = {None, *without_sidecars([file for file in file_of_source if file])}
    return [source for source, file in zip(sources, file_of_source, strict=True) if file in data_files]


def _locate_file(source: Any) -> Path | None:
    """The file that a source names; None if the source is not a file."""
    file = path_and_part(source)[0] if isinstance(source, str | Path) else None
    return file if file and os.path.isfile(file) else None


def _add_side_tables(study: Study, table: LoadedTable, raters_source: Any) -> Study:
    """The study with the raters and probes tables that lie next to its files; `raters_source` is not read again."""
    raters_file = _locate_file(raters_source)
    for file in table.files if study.raters.frame.height else ():
        study = _with_probes(study, file)
        raters_paths = sidecar_tables(file, RATERS)
        if raters_file and any(map(raters_file.samefile, raters_paths)):
            continue
        if len(raters_paths) > 1:
            raise InputError(
                f"{file.name}: several raters tables in the same folder "
                f"({join_labels(raters_path.name for raters_path in raters_paths)}); keep one"
            )
        for raters_path in raters_paths:
            try:
                loaded_raters_table = load_table(raters_path)
                study = study.describe(raters=loaded_raters_table.frame, raters_name=loaded_raters_table.name)
            except InputError as error:
                raise InputError(
                    f"{error}; this raters table is read because it is next to {file.name}; correct or rename the table"
                ) from None
            study = replace(study, notes=(*study.notes, *loaded_raters_table.notes)).with_notes(
                (
                    "raters-beside",
                    True,
                    f"{file.name}: kinds and directions of the raters are read from {loaded_raters_table.name} in the "
                    "same folder",
                )
            )
        study = study.with_notes(
            (
                "raters-not-read",
                raters_source is None
                and not raters_paths
                and file.stem in RATING_TABLES
                and file.with_name("raters.csv").is_file(),
                f"raters.csv in the folder of {file.name} is not read automatically; to use it, give it as --raters",
            )
        )
    return study


def _with_probes(study: Study, file: Path) -> Study:
    """The study, with the probes in the folder of a file added."""
    for probes_path in sidecar_tables(file, PROBES):
        loaded_probe_table = load_table(probes_path)
        probe_rows = read_probes(loaded_probe_table.frame, where=loaded_probe_table.name)
        study = replace(
            study,
            probes=pl.concat([study.probes, probe_rows]),
            digest=digest_of(study.digest, probe_rows.write_csv()) if study.digest else "",
        ).with_notes(
            (
                "probes-beside",
                probe_rows.height,
                f"{file.name}: {probe_rows.height} probes are read from {loaded_probe_table.name} in the same folder",
            )
        )
    return study


def takes_raters(file: Path) -> bool:
    """Whether a raters table in the folder of a file is read with it: true for tables of scores or verdicts."""
    with suppress(CustodesError):
        study_or_table = _open_source(file, reader=None, invalid="force")
        if isinstance(study_or_table, LoadedTable):
            study = _read_study(study_or_table, reader=None, invalid="force", columns=Columns.make({}))
            return study.raters.frame.height > 0
    return False


def _read_study(table: LoadedTable, *, reader: str | None, invalid: Invalid, columns: Columns) -> Study:
    """The study in a table. If the columns fit no reader, the error suggests a mapping that reads the table."""
    read_mapped = partial(_read_table, reader=reader, invalid=invalid)
    try:
        return read_mapped(table, columns=columns)
    except UnfitError as error:
        flattened_frame = flatten_nested(table.frame)
        has_mapped_columns = set(columns.roles.values()) & set(table.frame.columns) <= set(flattened_frame.columns)
        frame_to_map = flattened_frame if has_mapped_columns else table.frame
        candidate_frame = compose_labels(replace(table, frame=frame_to_map), columns.roles).frame

        def reads(frame: pl.DataFrame, column_mapping: Columns, min_systems: int = 2) -> bool:
            """Whether a mapping reads a table with at least `min_systems` systems (one system for texts)."""
            try:
                study = read_mapped(replace(table, frame=frame), columns=column_mapping)
            except CustodesError:
                return False
            if not study.raters.frame.height and study.outputs is not None:
                return study.outputs.texts.height > 0
            return len(study.systems) >= min_systems

        text_mapping = None if reader else find_certain_mapping(candidate_frame, columns, partial(reads, min_systems=1))
        if text_mapping is not None:
            study = read_mapped(replace(table, frame=candidate_frame), columns=text_mapping)
            mapping_text = format_options(text_mapping)
            note_message = f"{table.name}: read as texts with {mapping_text}; give other columns if this is wrong"
            return replace(study, notes=(Note(rule="guessed-columns", message=note_message), *study.notes))
        layout = label_layout(candidate_frame, columns) if reader is None else None
        if layout is not None and reads(candidate_frame, layout.columns, 1):
            advice_text = f"; try {format_options(layout.columns)} (in Python columns={layout.columns.mapping})"
        else:
            unnested_column_names = [name for name in candidate_frame.columns if name not in table.frame.columns]
            advice_text = suggest_mapping(candidate_frame, columns, reads, error.wrong, unnested_column_names)
            layout = label_layout(candidate_frame.drop(find_columns("text", candidate_frame.columns)), columns)
            if reader is None and layout is not None and reads(candidate_frame, layout.columns, 1):
                advice_text += f"; to analyse labels instead of texts, {format_options(layout.columns)}"
        raise InputError(
            f"{error.wrong}{advice_text}" if advice_text else f"{error}{describe_paths(table.frame)}"
        ) from None


def _read_table(table: LoadedTable, *, reader: str | None, invalid: Invalid, columns: Columns) -> Study:
    table = compose_labels(table, columns.roles)
    label_study = _read_label_study(table, columns) if reader is None else None
    if label_study is not None:
        return label_study
    new_column_names = [*columns.old_names(table.frame.columns)]
    if columns.verdict_columns(table.frame.columns):
        new_column_names.append("winner")
    numbered_frame, row_number_notes = number_rows(table.frame, new_column_names, where=table.name)
    long_verdict_frame = columns.verdict_rows(numbered_frame, where=table.name)
    mapping_result = columns.with_named_properties(long_verdict_frame).apply(long_verdict_frame, where=table.name)
    if mapping_result.texts is not None:
        text_study: Study = TABLE_READERS["outputs"].make(mapping_result.texts, where=table.name, invalid=invalid)
        if mapping_result.frame is None:
            if reader not in (None, "outputs"):
                raise OptionError(
                    f"reader={reader!r} accepts no columns of texts; leave out the reader or the mapping of texts"
                )
            study = _complete_study(text_study, table, columns, mapping_result.notes)
            return (
                study
                if mapping_result.items is None
                else study.describe(items=mapping_result.items, items_name=table.name)
            )
    assert mapping_result.frame is not None
    table = replace(table, frame=mapping_result.frame)
    if mapping_result.wide and reader not in (None, "wide", "ratings"):
        raise OptionError(
            f"reader={reader!r} does not support patterns of columns; map single columns instead of patterns"
        )
    table_reader = TABLE_READERS["ratings"] if mapping_result.wide else _table_reader(table, reader)
    column_names = table.frame.columns
    likely_order_column_names = (
        find_columns("order", column_names)
        if table_reader is TABLE_READERS["battles"] and "order" not in column_names
        else []
    )
    try:
        study = (partial(read_ratings, unit="cells") if mapping_result.wide else table_reader.make)(
            table.frame, where=table.name, invalid=invalid
        )
    except InputError as error:
        if table_reader is TABLE_READERS["wide"] or likely_order_column_names or not table_reader.fits(column_names):
            raise UnfitError(str(error)) from None
        raise
    except UnicodeEncodeError:  # objects of a dataframe, which Polars converts to text only here
        raise InputError(f"{table.name}: a cell holds {UNPAIRED_SURROGATE}; correct the cell") from None
    if mapping_result.texts is not None:
        study = replace(study, outputs=text_study.outputs, notes=(*study.notes, *text_study.notes))
    study = _complete_study(
        study,
        table,
        columns,
        mapping_result.notes,
        [
            *build_notes(
                (
                    "unused-order",
                    len(likely_order_column_names),
                    f"{table.name}: columns that look like the presentation order are not used: "
                    f"{join_labels(likely_order_column_names)}; map one of them to the role order",
                )
            ),
            *row_number_notes,
        ],
    )
    if (
        study.outputs is None
        and study.looks.is_empty()
        and not any(
            annotation_table.frame.height
            for annotation_table in (study.ratings, study.preferences, study.second_ratings, study.second)
        )
    ):
        raise InputError(f"{table.name}: no row has a score or a verdict; give at least one")
    if mapping_result.items is not None and study.items.frame.height:
        return replace(study, items=study.items.with_properties(mapping_result.items, where=table.name))
    return study if mapping_result.items is None else study.describe(items=mapping_result.items, items_name=table.name)


def _read_label_study(table: LoadedTable, columns: Columns) -> Study | None:
    """The study of a table of labels. None if the table has no labels, or fits a reader other than `wide`."""
    column_names = list(columns.old_names(table.frame.columns))
    fitting_reader = next((reader for reader in TABLE_READERS.values() if reader.fits(column_names)), None)
    layout = label_layout(table.frame, columns) if fitting_reader in (None, TABLE_READERS["wide"]) else None
    if layout is None:
        return None
    if not layout.systems and len(table.files) > 1 and not all(SHARD_NAME.fullmatch(file.stem) for file in table.files):
        file_studies = [
            _read_label_study(compose_labels(load_table(file), columns.roles), columns) for file in table.files
        ]
        label_studies = [study for study in file_studies if study is not None]
        if len(label_studies) == len(file_studies):
            return replace(join(label_studies), name=table.name)
    return _complete_study(
        read_labels(table.frame, layout, where=table.name, is_layout_guessed=not columns.patterns), table, columns, ()
    )


def _complete_study(
    study: Study, table: LoadedTable, columns: Columns, mapping_notes: Sequence[Note], more_notes: Sequence[Note] = ()
) -> Study:
    """The study with the digest and the notes of its table, and with image paths relative to the folder of the file."""
    folders = {file.parent for file in table.files}
    if len(folders) == 1 and study.outputs is not None:
        study = replace(study, outputs=study.outputs.resolve_images(*folders))
    return replace(
        study,
        digest=digest_of(table.digest, repr(columns)) if columns and table.digest else table.digest,
        notes=(*table.notes, *mapping_notes, *study.notes, *more_notes),
        unnamed_system=study.unnamed_system or any(note.rule == SYSTEM_OF_FILE for note in mapping_notes),
    )


def _path_reader(path: Path) -> PathReader | None:
    """The format of a path that is more than a table; streams cannot be inspected before reading."""
    if is_input_stream(path):
        return None
    fitting_reader = next((reader for reader in PATH_READERS.values() if reader.fits(path)), None)
    top_level_keys = top_keys(path) if fitting_reader is None else ()
    if top_level_keys and not find_tables(json.loads(log_bytes(path))):
        raise InputError(
            f"{path.name}: the JSON object with keys {join_labels(sorted(top_level_keys))} is not a known log "
            f"({join_labels(PATH_READERS)}); a table is a list of objects, or JSON Lines in a .jsonl file"
        )
    return fitting_reader


def _table_reader(table: LoadedTable, reader_name: str | None) -> TableReader:
    if reader_name is not None:
        return TABLE_READERS.get(reader_name) or plugin_readers(BUILTIN_READERS)[reader_name]
    column_names = table.frame.columns
    fitting_reader = next((reader for reader in _table_readers() if reader.fits(column_names)), None)
    if fitting_reader:
        return fitting_reader
    if scored_pairs(table.frame) and not {"item", "system", "rater"} & set(column_names):
        return TABLE_READERS["rewardbench2_data"]
    has_paired_systems = bool(
        set(SIDE_COLUMNS) & set(column_names)
        or (find_side_pairs(column_names) and find_columns("winner", column_names))
    )
    columns_and_likely_roles = {
        *column_names,
        *(role for role in NAMES if role not in TEXTS and find_columns(role, column_names)),
        *(SIDE_COLUMNS if has_paired_systems else ()),
    }
    nearest_reader_name, reader_columns = max(
        (
            (reader.name, reader_columns)
            for reader in _table_readers()
            for reader_columns in reader.columns
            if not set(reader_columns) <= set(column_names)
        ),
        key=lambda pair: len(set(pair[1]) & columns_and_likely_roles) / len(pair[1]),
    )
    missing_columns_text = " and ".join(
        repr(name) + suggestion(name, set(column_names).difference(reader_columns)).replace("did you mean", "is it")
        for name in reader_columns
        if name not in column_names
    )
    nearest_reader_text = (
        f"the most similar reader is {nearest_reader_name} ({', '.join(reader_columns)}), which also needs "
        f"{missing_columns_text}. Map your columns"
    )
    raise UnfitError(
        f"{table.name}: columns {join_labels(column_names)} match no reader",
        f"; {nearest_reader_text if columns_and_likely_roles & {*reader_columns} else 'map your columns'}, as in "
        f"{' '.join(f'--column {role}=NAME' for role in (VERDICTS if has_paired_systems else RATINGS))}",
    )


def _table_readers() -> Iterator[TableReader]:
    """The built-in readers, then those of other packages, which are loaded only if no built-in reader fits."""
    yield from TABLE_READERS.values()
    yield from plugin_readers(BUILTIN_READERS).values()
