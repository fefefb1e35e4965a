"""The raters table next to a table of scores or verdicts: `scores.raters.csv` for `scores.csv`, as written by
`score`."""

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
    """The raters tables next to a file, by name; there should be at most one.

    For a file in a zip archive (`part`), those in the archive come first; for a link, those next to the link.

    >>> sidecar_raters(Path("nowhere/scores.csv"))
    []
    """
    if part is not None and (inside := _inside(file, part)):
        return inside
    sidecars = [sidecar for name in _names(file.name) if _is_file(sidecar := file.parent / name)]
    target = Path(os.path.realpath(file)) if os.path.islink(file) else file
    if sidecars or target == file or os.path.islink(target):  # a target that is a link belongs to a cycle of links
        return sidecars
    return sidecar_raters(target)


def files_of_sidecar(table: Path) -> list[Path]:
    """The files to which a raters table belongs, by its name.

    >>> files_of_sidecar(Path("nowhere/scores.raters.csv"))
    []
    """
    stem, mark, _ = table.name.rpartition(MARK + ".")
    near = sorted(table.parent.glob(escape(stem) + ".*")) if mark else []
    return [file for file in near if table.name in _names(file.name) and _is_file(file)]


def _names(file: str) -> list[str]:
    """Possible names of the raters table of a file."""
    packed = next((packing.suffix for packing in PACKINGS if file.lower().endswith(packing.suffix)), "")
    stem = Path(file[: len(file) - len(packed)]).stem
    return [stem + MARK + form for form in FORMS] if stem else []


def _inside(archive: Path, part: str) -> list[Path]:
    """The raters tables of a part of a zip archive, as `ARCHIVE::PART`."""
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
    """Whether a file exists; False for an invalid name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def without_sidecars(files: Sequence[Path]) -> list[Path]:
    """The files without those that are raters tables of other files in the list."""
    sidecars = {sidecar.resolve() for file in files for sidecar in sidecar_raters(file)}
    return [file for file in files if file.resolve() not in sidecars]
