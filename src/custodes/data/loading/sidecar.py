"""Tables next to a table of scores or verdicts: `score` writes `scores.raters.csv` next to `scores.csv`, and `judge`
writes `verdicts.probes.csv` next to `verdicts.csv`."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from glob import escape
from pathlib import Path, PurePosixPath

from custodes.data.loading.compression import COMPRESSION_FORMATS
from custodes.data.loading.source import path_exists

RATERS, PROBES = ".raters", ".probes"
FORMS = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz")


def sidecar_raters(file: Path, part: str | None = None) -> list[Path]:
    """The raters tables of a file, found by their names in the folder of the file. There should be at most one.

    >>> sidecar_raters(Path("nowhere/scores.csv"))
    []
    """
    return sidecar_tables(file, RATERS, part)


def sidecar_tables(file: Path, mark: str, part: str | None = None) -> list[Path]:
    """The tables in the folder of a file that have the name of the file followed by `mark`, such as `.raters`.

    If the file is in a zip archive (`part`), tables in the archive come first. If the file is a link, tables in the
    folder of the link come first.
    """
    if part is not None and (archived_tables := _archive_sidecars(file, mark, part)):
        return archived_tables
    sidecars = [
        sidecar
        for name in _sidecar_names(file.name, mark)
        if path_exists(sidecar := file.parent / name) and sidecar.is_file()
    ]
    target = Path(os.path.realpath(file)) if os.path.islink(file) else file
    if sidecars or target == file or os.path.islink(target):  # a target that is a link belongs to a cycle of links
        return sidecars
    return sidecar_tables(target, mark)


def files_of_sidecar(table: Path) -> list[Path]:
    """The files to which a table of raters or probes belongs according to its name.

    >>> files_of_sidecar(Path("nowhere/scores.raters.csv"))
    []
    """
    name_parts = [(mark, table.name.rpartition(f"{mark}.")) for mark in (RATERS, PROBES)]
    candidate_files = [
        (mark, file)
        for mark, (stem, mark_text, _) in name_parts
        if mark_text
        for file in table.parent.glob(escape(stem) + ".*")
    ]
    return sorted(
        file
        for mark, file in candidate_files
        if table.name in _sidecar_names(file.name, mark) and path_exists(file) and file.is_file()
    )


def _sidecar_names(file: str, mark: str) -> list[str]:
    """The possible file names of a table that belongs to a file: the name of the file without its suffix, `mark`, and
    the suffix of a table."""
    packed_suffix = next(
        (packing.suffix for packing in COMPRESSION_FORMATS if file.lower().endswith(packing.suffix)), ""
    )
    stem = Path(file[: len(file) - len(packed_suffix)]).stem
    return [stem + mark + table_suffix for table_suffix in FORMS] if stem else []


def _archive_sidecars(archive: Path, mark: str, part: str) -> list[Path]:
    """Paths `ARCHIVE::PART` of the tables in a zip archive whose name is the name of `part` followed by `mark`."""
    if not zipfile.is_zipfile(archive):
        return []
    with zipfile.ZipFile(archive) as zip_file:
        names = set(zip_file.namelist())
    member = PurePosixPath(part)
    return [
        Path(f"{archive}::{member.with_name(name)}")
        for name in _sidecar_names(member.name, mark)
        if str(member.with_name(name)) in names
    ]


def without_sidecars(files: Sequence[Path]) -> list[Path]:
    """The list of files, with each table of raters or probes removed that belongs to another file of the list."""
    marks = (RATERS, PROBES)
    sidecars = {sidecar.resolve() for file in files for mark in marks for sidecar in sidecar_tables(file, mark)}
    return [file for file in files if file.resolve() not in sidecars]
