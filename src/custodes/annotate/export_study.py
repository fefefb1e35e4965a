"""Export of a consistent state of a study to files in open formats. The export is complete or does not exist."""

from __future__ import annotations

import hashlib
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

from custodes.arguments import check_arguments
from custodes.data.loading.live_study import is_study, read_one_state
from custodes.data.readers.annotation import read_open_study
from custodes.data.study import Study
from custodes.data.writing import long_tables, table_bytes
from custodes.errors import InputError, OptionError
from custodes.process import UNFINISHED

PLAN, SIGNATURE = "plan.json", "signature.txt"
SIGNATURE_PREFIX = "study of people's answers: "
WRITTEN_BY_ANNOTATORS = ("answers", "comments", "raters")
"""Tables with text of annotators, in which formulas are escaped."""
QUERIES = {
    "answers": "SELECT * FROM answers ORDER BY answer_id",
    "comments": """
SELECT g.label AS rater, i.label AS item, e.at AS at, json_extract(e.json, '$.text') AS text
FROM event e JOIN standing g ON g.worker = e.worker LEFT JOIN assignment a ON a.assignment = e.assignment
LEFT JOIN unit u ON u.unit = a.unit LEFT JOIN item i ON i.item = u.item WHERE e.kind = 'comment' ORDER BY e.event
""",
}


@check_arguments
def export(path: str | Path, folder: str | Path) -> Path:
    """Export an annotation study to files in a folder, even while the study is being served. The export is complete or
    does not exist.

    battles.csv (or ratings.csv) has the answers that count, and its column `role` marks second opinions. raters.csv,
    items.csv and outputs.jsonl describe annotators, items and outputs. looks.csv has the interim analyses. answers.csv
    has all answers. These include answers that annotators corrected later, answers to control questions, answers of
    excluded annotators, and answers of incomplete interim analyses. Answers of incomplete interim analyses are in no
    other file, because their use would amount to an additional interim analysis. comments.csv has the comments, and
    plan.json has the plan. signature.txt has the number of rows of each file, and notes on the study.

    Annotators are named w001, w002 and so on. Raises `InputError` for files that are not a study, and `OptionError` for
    a folder that is not writable or not empty.

    >>> import custodes as cu, tempfile
    >>> study = cu.annotate.new(cu.annotate.demo_texts(items=2), Path(tempfile.mkdtemp()) / "study.db")
    >>> (export(study, Path(tempfile.mkdtemp()) / "out") / "signature.txt").exists()
    True
    """
    return _write_files(_files(Path(path)), Path(folder))


def _files(path: Path) -> dict[str, bytes]:
    """Return the content of each file by file name. The signature comes last."""
    if not is_study(path):
        raise InputError(f"{path}: not a study file of annotations; create one with custodes annotate new")
    study, queried_table_of_name, plan_json = read_one_state(
        path, lambda open_connection: _read(open_connection, path.name)
    )
    table_of_name = {**long_tables(study), "looks": study.looks, **queried_table_of_name}
    content_of_file, n_rows_of_file = {}, {}
    for table_name, table in table_of_name.items():
        if table.height:
            file_name = f"{table_name}.jsonl" if table_name == "outputs" else f"{table_name}.csv"
            n_rows_of_file[file_name] = table.height
            content_of_file[file_name] = table_bytes(
                table, file_name, quote_formulas=table_name in WRITTEN_BY_ANNOTATORS
            )
    content_of_file[PLAN] = plan_json
    content_of_file[SIGNATURE] = _signature(study, content_of_file, n_rows_of_file)
    return content_of_file


def _read(connection: sqlite3.Connection, study_name: str) -> tuple[Study, dict[str, pl.DataFrame], bytes]:
    """Return the content to export from a consistent state: the study, tables by name, and the plan."""
    table_of_name = {
        table_name: pl.read_database(query, connection, infer_schema_length=None)
        for table_name, query in QUERIES.items()
    }
    (plan_json,) = connection.execute("SELECT json FROM plan ORDER BY version DESC LIMIT 1").fetchone()
    return read_open_study(connection, study_name), table_of_name, msgspec.json.format(plan_json, indent=2).encode()


def _signature(study: Study, content_of_file: Mapping[str, bytes], n_rows_of_file: Mapping[str, int]) -> bytes:
    """Return the text of the signature: the number of rows and the SHA-256 of each file, and notes on the study."""
    signature_lines = [f"{SIGNATURE_PREFIX}{study.name}", f"custodes: {version('custodes')}", f"digest: {study.digest}"]
    for file_name, file_content in content_of_file.items():
        rows_text = f"{n_rows_of_file[file_name]} rows, " if file_name in n_rows_of_file else ""
        signature_lines.append(f"{file_name}: {rows_text}sha256 {hashlib.sha256(file_content).hexdigest()}")
    signature_lines += [f"note: {note.message}" for note in study.notes]
    return ("\n".join(signature_lines) + "\n").encode()


def _write_files(content_of_file: Mapping[str, bytes], folder: Path) -> Path:
    """Write all files to a folder. The folder appears only when it is complete."""
    target_folder = Path(os.path.realpath(folder))
    if target_folder.exists() and not (target_folder.is_dir() and not any(target_folder.iterdir())):
        raise OptionError(f"cannot write {folder}: it exists and is not an empty folder; give a new folder")
    unfinished_folder = target_folder.with_name(f".custodes-{secrets.token_hex(8)}")
    unfinished_paths = {str(unfinished_folder), *(str(unfinished_folder / file_name) for file_name in content_of_file)}
    UNFINISHED.update(unfinished_paths)
    try:
        unfinished_folder.mkdir(parents=True)
        for file_name, file_content in content_of_file.items():
            (unfinished_folder / file_name).write_bytes(file_content)
        with suppress(FileNotFoundError):
            target_folder.rmdir()
        unfinished_folder.rename(target_folder)
    except OSError as problem:
        raise OptionError(f"cannot write {folder}: {problem.strerror}; choose another place") from None
    finally:
        shutil.rmtree(unfinished_folder, ignore_errors=True)
        UNFINISHED.difference_update(unfinished_paths)
    return folder
