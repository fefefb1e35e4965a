"""A folder of AlpacaEval's results: `MODEL/ANNOTATOR/annotations.json`, `MODEL/annotations.json`, or the file itself.

Layout: github.com/tatsu-lab/alpaca_eval, `results/`, and what `--output_path` of its command writes.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

import polars as pl

from custodes.data.loading import load_table
from custodes.data.readers.alpacaeval import COLUMNS, MORE, read_alpacaeval
from custodes.data.readers.reader import Invalid, PathReader
from custodes.data.study import Study
from custodes.errors import InputError, listed, suggestion

NAME = "annotations.json"
DEPTHS = (f"*/*/{NAME}", f"*/{NAME}", NAME)


def read_results(path: Path, *, part: str | None, invalid: Invalid) -> Study:
    """A study of the annotations of all models; `part` is a glob of annotators (the folders that hold the files)."""
    found = _files(path)
    files = [file for file in found if part is None or fnmatchcase(file.parent.name, part)]
    if not files:
        annotators = sorted({file.parent.name for file in found})
        raise InputError(
            f"{path.name}: no annotator {part!r}{suggestion(part or '', annotators)}; {listed(annotators)}"
        )
    tables = [(file, load_table(file)) for file in files]
    for file, table in tables:  # what is wrong is told with the file and its row
        read_alpacaeval(table.frame, where=str(file.relative_to(path)), invalid=invalid)
    known = {name for own in COLUMNS for name in own} | set(MORE)
    frames = [table.frame.select(name for name in table.frame.columns if name in known) for _, table in tables]
    study = read_alpacaeval(pl.concat(frames, how="diagonal"), where=path.name, invalid=invalid)
    return replace(study, digest=sha256("".join(table.digest for _, table in tables).encode()).hexdigest()[:16])


def _files(path: Path) -> list[Path]:
    try:
        return sorted(file for depth in DEPTHS for file in path.glob(depth)) if path.is_dir() else []
    except OSError:
        return []


def _fits(path: Path) -> bool:
    return bool(_files(path))


READER = PathReader(name="alpacaeval_results", fits=_fits, make=read_results)
