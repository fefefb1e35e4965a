"""Logs of Inspect (inspect_ai): a log in `.eval` (a zip of JSON) or `.json`, or a folder of logs.

The layout is that of the page "Log Files" of the documentation (inspect.aisi.org.uk/eval-logs.html) and of the classes
`EvalLog`, `EvalSample` and `Score` of inspect_ai 0.3 (log version 2). Scores that are words get the values that
`value_to_float` in inspect_ai gives them.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from custodes.data.loading.compression import zip_archive, zip_member
from custodes.data.notes import build_notes
from custodes.data.readers.logs import (
    Label,
    LogRecords,
    format_label,
    layout_type,
    log_reader,
    parse_log,
    parse_number,
    top_keys,
)
from custodes.data.readers.reader import Invalid
from custodes.data.study import Study
from custodes.errors import InputError, join_labels

FORMAT_NAME = "a log of inspect_ai"
SUFFIX = ".eval"
HEADERS = ("header.json", "_journal/start.json")
"""Files with the task and the model, in a finished log and in an unfinished log."""
GRADES = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Scores of words in lower case: c (correct), p (partial), i (incorrect), n (no answer), words for true and false."""
PART = layout_type({"text": (str, "")})
MESSAGE = layout_type({"content": (str | layout_type([PART]), "")})
SAMPLE = layout_type(
    {
        "id": Label,
        "epoch": (int, 1),
        "input": (str | layout_type([MESSAGE]), ""),
        "target": (str | list[str], ""),
        "output": ({"choices": ([{"message": MESSAGE}], [])}, None),
        "scores": ({str: {"value": Any}}, None),
        "attachments": (dict[str, str], {}),
    }
)
LOG = layout_type({"eval": {"task": str, "model": str}, "status": (str, "started"), "samples": ([SAMPLE], None)})


def read_inspect_ai(files: Sequence[Path], *, where: str, invalid: Invalid) -> Study:
    """A study of scores. The item is task/sample, the system is the model, and the rater is the scorer (scorer/value if
    a scorer has several values).

    Epochs are repeats. The group is the task. The text is the last answer of the model.
    """
    log_records = LogRecords(where=where)
    unfinished_log_texts: list[str] = []
    nonnumeric_texts: list[str] = []
    for file in files:
        log, samples = _parsed_log(file, log_records.load(file, file.name))
        task_name, model_name = log.eval.task, log.eval.model
        log_records.run(task_name, model_name, file.name)
        if log.status != "success":
            unfinished_log_texts.append(f"{file.name} ({log.status})")
        for sample in samples:
            item_label = f"{task_name}/{format_label(sample.id)}"
            log_records.groups.setdefault(item_label, task_name)
            log_records.sources.append(
                (
                    item_label,
                    _plain(sample.input, sample.attachments),
                    list(filter(None, [sample.target] if isinstance(sample.target, str) else sample.target)),
                )
            )
            for choice in sample.output.choices[:1] if sample.output else ():
                log_records.texts.append((item_label, model_name, _plain(choice.message.content, sample.attachments)))
            for scorer_name, score in (sample.scores or {}).items():
                value_of_name = score.value if isinstance(score.value, dict) else {"": score.value}
                for value_name, score_value in value_of_name.items():
                    rater_name = f"{scorer_name}/{value_name}" if value_name else scorer_name
                    score_number = parse_number(score_value, GRADES)
                    if score_number is None and score_value is not None:
                        nonnumeric_texts.append(f"{rater_name} {str(score_value)[:40]!r}")
                    else:
                        log_records.score(item_label, model_name, rater_name, score_number, repeat=str(sample.epoch))
    return log_records.study(
        notes=build_notes(
            (
                "unfinished-log",
                len(unfinished_log_texts),
                f"{where}: logs of runs that did not finish successfully: {join_labels(unfinished_log_texts)}",
            ),
            (
                "score-not-number",
                len(nonnumeric_texts),
                f"{where}: {len(nonnumeric_texts)} scores are lists or text, not numbers, and were dropped "
                f"({join_labels(dict.fromkeys(nonnumeric_texts), limit=3)})",
            ),
        )
    )


def _parsed_log(file: Path, file_bytes: bytes) -> tuple[Any, Iterable[Any]]:
    """A log, and an iterator over its samples."""
    if not zipfile.is_zipfile(io.BytesIO(file_bytes)):
        if file.suffix.lower() == SUFFIX:
            raise InputError(f"{file.name}: not a zip file, or a damaged one; copy the log again")
        log = parse_log(file_bytes, LOG, where=file.name, what=FORMAT_NAME)
        if log.samples is None:
            raise InputError(f"{file.name}: the log holds no samples, only a header; run the evaluation again")
        return log, log.samples
    archive = zip_archive(file_bytes, file.name)
    member_names = archive.namelist()
    header_name = next((member_name for member_name in HEADERS if member_name in member_names), None)
    if header_name is None:
        raise InputError(f"{file.name}: contains neither {HEADERS[0]} nor {HEADERS[1]}, so it is not {FORMAT_NAME}")

    def read_member(member_name: str, layout: Any) -> Any:
        member_location = f"{file.name}, {member_name}"
        return parse_log(
            zip_member(archive, member_name, member_location), layout, where=member_location, what=FORMAT_NAME
        )

    return read_member(header_name, LOG), (
        read_member(member_name, SAMPLE)
        for member_name in member_names
        if member_name.startswith("samples/") and member_name.endswith(".json")
    )


def _plain(content: Any, text_of_attachment: dict[str, str]) -> str:
    """The text of `content`, which is a text, a list of parts or a list of messages. Long texts are attachments."""
    if isinstance(content, str):
        return text_of_attachment.get(content.removeprefix("attachment://"), content)
    part_texts = (
        _plain(content_part.text if isinstance(content_part, PART) else content_part.content, text_of_attachment)
        for content_part in content
    )
    return "\n".join(part_text for part_text in part_texts if part_text)


READER = log_reader(
    "inspect_ai",
    what=FORMAT_NAME,
    patterns=[f"*{SUFFIX}", "*.json"],
    depth=1,
    missing_contents="neither a .eval file nor an Inspect log as .json",
    is_log=lambda file: file.suffix.lower() == SUFFIX or {"eval", "version"} <= top_keys(file),
    make=read_inspect_ai,
)
