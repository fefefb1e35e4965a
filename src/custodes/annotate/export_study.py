"""Export of a consistent state of a study to files in open formats. The export is complete or does not exist."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import msgspec
import polars as pl

from custodes.arguments import checked
from custodes.data.loading.live_study import is_study, of_one_state
from custodes.data.loading.load import SIGNATURE, SIGNED, digest_line
from custodes.data.readers.annotation import study_of
from custodes.data.study import Study
from custodes.data.writing import long_tables, table_bytes
from custodes.errors import InputError, OptionError
from custodes.process import UNFINISHED

PLAN = "plan.json"
QUERIES = {
    "answers": "SELECT * FROM answers ORDER BY answer_id",
    "comments": """
SELECT g.label AS rater, i.label AS item, e.at AS at, json_extract(e.json, '$.text') AS text
FROM event e JOIN standing g ON g.worker = e.worker LEFT JOIN assignment a ON a.assignment = e.assignment
LEFT JOIN unit u ON u.unit = a.unit LEFT JOIN item i ON i.item = u.item WHERE e.kind = 'comment' ORDER BY e.event
""",
    "external_ids": "SELECT label AS rater, external_id FROM worker",
}


@checked
def export(path: str | Path, folder: str | Path, *, external_ids: bool = False) -> Path:
    """Export an annotation study to files in a folder, even while the study is being served. The export is complete or
    does not exist.

    battles.csv (or ratings.csv) has the answers that count; second opinions are marked in the column `role`.
    raters.csv, items.csv and outputs.jsonl describe annotators, items and outputs. looks.csv has the interim analyses.
    answers.csv has all answers. These include answers that annotators corrected later, answers to control questions,
    answers of excluded annotators, and answers of incomplete interim analyses. Answers of incomplete interim analyses
    are in no other file, because using them would be an additional interim analysis. comments.csv has the comments, and
    plan.json has the plan. signature.txt has the number of rows of each file, and notes on the study.

    Annotators are named w001, w002 and so on. `external_ids` adds their ids on a platform to raters.csv. An earlier
    export in the folder is replaced. Raises `InputError` for files that are not a study, and `OptionError` for a folder
    that is not writable or contains other files.

    >>> import custodes as cu, tempfile
    >>> study = cu.annotate.new(cu.annotate.demo_texts(items=2), Path(tempfile.mkdtemp()) / "study.db")
    >>> (export(study, Path(tempfile.mkdtemp()) / "out") / "signature.txt").exists()
    True
    """
    files = _files(Path(path), external_ids=external_ids)
    return _written(files, Path(folder))


def _files(path: Path, *, external_ids: bool) -> dict[str, bytes]:
    """Return the content of each file by file name. The signature comes last."""
    if not is_study(path):
        raise InputError(f"{path}: not a study file of annotations; create one with custodes annotate new")
    study, queried, plan = of_one_state(path, lambda opened: _read(opened, path.name))
    workers = queried.pop("external_ids")
    tables = {**long_tables(study), "looks": study.looks, **queried}
    if external_ids:
        tables["raters"] = tables["raters"].join(workers, on="rater", how="left", maintain_order="left")
    files, rows = {}, {}
    for name, table in tables.items():
        if table.height:
            file = f"{name}.jsonl" if name == "outputs" else f"{name}.csv"
            rows[file] = table.height
            files[file] = table_bytes(table, file, quote_formulas=file.endswith(".csv"))
    files[PLAN] = plan
    files[SIGNATURE] = _signature(study, files, rows)
    return files


def _read(opened: sqlite3.Connection, where: str) -> tuple[Study, dict[str, pl.DataFrame], bytes]:
    """Return the content to export from a consistent state: the study, tables by name, and the plan."""
    tables = {}
    for name, query in QUERIES.items():
        cursor = opened.execute(query)
        columns = [column[0] for column in cursor.description]
        tables[name] = pl.DataFrame(cursor.fetchall(), schema=columns, orient="row", infer_schema_length=None)
    (plan,) = opened.execute("SELECT json FROM plan ORDER BY version DESC LIMIT 1").fetchone()
    return study_of(opened, where), tables, msgspec.json.format(plan, indent=2).encode()


def _signature(study: Study, files: Mapping[str, bytes], rows: Mapping[str, int]) -> bytes:
    """Return the text of the signature: the number of rows and the SHA-256 of each file, and notes on the study."""
    lines = [f"{SIGNED}{study.name}", f"custodes: {version('custodes')}", f"digest: {study.digest}"]
    for name, content in files.items():
        held = f"{rows[name]} rows, " if name in rows else ""
        lines.append(f"{name}: {held}{digest_line(content)}")
    lines += [f"note: {note.message}" for note in study.notes]
    return ("\n".join(lines) + "\n").encode()


def _written(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write all files to a folder. The folder appears only when it is complete."""
    target = Path(os.path.realpath(folder))
    if target.exists() and not _is_ours(target):
        raise OptionError(
            f"cannot write {folder}: the folder contains files that do not belong to an export; give a new folder"
        )
    unfinished_folder = target.with_name(f".custodes-{secrets.token_hex(8)}")
    old = target.with_name(f".custodes-{secrets.token_hex(8)}")
    unfinished = {str(unfinished_folder), *(str(unfinished_folder / name) for name in files)}
    UNFINISHED.update(unfinished)
    try:
        unfinished_folder.mkdir(parents=True)
        for name, content in files.items():
            (unfinished_folder / name).write_bytes(content)
        if target.exists():
            target.rename(old)
        unfinished_folder.rename(target)
    except OSError as problem:
        if old.exists() and not target.exists():
            old.rename(target)
        raise OptionError(f"cannot write {folder}: {problem.strerror}; choose another place") from None
    finally:
        for left in (unfinished_folder, old) if target.exists() else (unfinished_folder,):
            with suppress(OSError):
                shutil.rmtree(left)
        UNFINISHED.difference_update(unfinished)
    return folder


def _is_ours(target: Path) -> bool:
    """Whether a path is an empty folder, or a folder that contains only files of an export."""
    if not target.is_dir():
        return False
    held = {entry.name for entry in target.iterdir()}
    signature = target / SIGNATURE
    if not held or not signature.is_file():
        return not held
    named = {line.partition(":")[0] for line in signature.read_text(encoding="utf-8", errors="replace").splitlines()}
    return held <= named | {SIGNATURE}
