"""The raters table beside a table of scores or verdicts: `scores.raters.csv` beside `scores.csv`, as `score` writes
it."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from glob import escape
from pathlib import Path, PurePosixPath

from custodes.data.loading.compression import PACKINGS

MARK = ".raters"
FORMS = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz")


def sidecar_raters(file: Path, part: str | None = None) -> list[Path]:
    """The raters tables that lie beside a file by their names; there should be one at most.

    Of a file in a zip archive (`part`) those in the archive count first; of a link those beside the link.

    >>> sidecar_raters(Path("nowhere/scores.csv"))
    []
    """
    if part is not None and (inside := _inside(file, part)):
        return inside
    sidecars = [sidecar for name in _names(file.name) if _is_file(sidecar := file.parent / name)]
    target = Path(os.path.realpath(file)) if os.path.islink(file) else file
    if sidecars or target == file or os.path.islink(target):  # a target that is a link is in a circle of links
        return sidecars
    return sidecar_raters(target)


def files_of_sidecar(table: Path) -> list[Path]:
    """The files that a table lies beside as their raters table, by its name.

    >>> files_of_sidecar(Path("nowhere/scores.raters.csv"))
    []
    """
    stem, mark, _ = table.name.rpartition(MARK + ".")
    near = sorted(table.parent.glob(escape(stem) + ".*")) if mark else []
    return [file for file in near if table.name in _names(file.name) and _is_file(file)]


def _names(file: str) -> list[str]:
    """What a raters table beside a file may be called."""
    packed = next((packing.suffix for packing in PACKINGS if file.lower().endswith(packing.suffix)), "")
    stem = Path(file[: len(file) - len(packed)]).stem
    return [stem + MARK + form for form in FORMS] if stem else []


def _inside(archive: Path, part: str) -> list[Path]:
    """The raters tables beside a part of a zip archive, written `ARCHIVE::PART`."""
    if not zipfile.is_zipfile(archive):
        return []
    with zipfile.ZipFile(archive) as opened:
        names = set(opened.namelist())
    member = PurePosixPath(part)
    return [
        Path(f"{archive}::{member.with_name(name)}")
        for name in _names(member.name)
        if str(member.with_name(name)) in names
    ]


def _is_file(path: Path) -> bool:
    """Whether a file is there; a name that no file can have is not."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def without_sidecars(files: Sequence[Path]) -> list[Path]:
    """The same files without those that are raters tables beside others of them."""
    sidecars = {sidecar.resolve() for file in files for sidecar in sidecar_raters(file)}
    return [file for file in files if file.resolve() not in sidecars]
