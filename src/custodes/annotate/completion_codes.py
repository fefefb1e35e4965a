"""Comparison of a platform's list of completion codes with the codes of a study, to decide which annotators are
paid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import polars as pl

from custodes.annotate.plan import StudyPlan
from custodes.annotate.snapshot import PersonNow
from custodes.annotate.study_file import check
from custodes.annotate.study_status import snapshot_of_file
from custodes.answers.question import versions
from custodes.answers.result import Provenance, Result, result
from custodes.answers.tables import count, label, table
from custodes.arguments import check_arguments
from custodes.data.loading import load_table
from custodes.errors import InputError, join_labels

PERSON = ("participant id", "workerid", "assignment:worker_id", "worker_id", "external_id", "person")
CODE = ("completion code", "answer.code", "output:code", "code")
STATUS = ("status", "assignmentstatus", "assignment:status")
"""Names of columns on platforms (Prolific's export of submissions, Mechanical Turk's results, Toloka's assignments),
and generic names. Upper and lower case are equivalent."""

OURS, OTHER_CODE, OTHER_PERSON = "ours", "no such code", "another's code"
UNKNOWN, MISSING, TWICE = "unknown", "missing", "twice"


@result
class CodeReconciliation(Result):
    """Comparison of the codes of a platform's list with the codes of a study. See `reconcile`."""

    BY: ClassVar[str] = ""

    codes: pl.DataFrame = table(
        "One row per entry of the list, then one row per annotator who has a code but is not on the list.",
        label("person", "name of the annotator on the platform"),
        label("worker", "label of the annotator in the study; empty if the study does not have the name"),
        label("code", "code in the list; for `missing`, the code in the study"),
        label(
            "verdict",
            "ours: annotator and code match; no such code: the annotator is known, but the code is unknown; "
            "another's code: the code belongs to another annotator; unknown: no annotator has this name or code; "
            "missing: an annotator has a code but is not on the list; twice: the row repeats an earlier row",
        ),
        label("standing", "status of the annotator: ok, watch, blocked or excluded"),
        count("answers", "number of answers to real comparisons"),
        label("status", "status on the platform", essential=False),
    )

    @property
    def status(self) -> int:
        """Exit status: 1 if a code is wrong or missing, otherwise 0."""
        return int(any(verdict != OURS for verdict in self.codes["verdict"]))


@check_arguments
def reconcile(study: str | Path, codes: str | Path) -> CodeReconciliation:
    """Compare a platform's list of annotators and completion codes (a table) with a study. The study may be running.

    Raises `InputError` if the list has no column of annotators or no column of codes.
    """
    code_list = load_table(codes).frame
    snapshot = snapshot_of_file(check(study))
    code_rows = match_codes(code_list, snapshot.annotators, snapshot.plan, list_name=Path(codes).name)
    provenance = Provenance(
        question="annotate reconcile", study=Path(study).name, digest="", options={}, seed=None, versions=versions()
    )
    return CodeReconciliation.from_parts([CodeReconciliation.part(codes=code_rows)], (), provenance=provenance)


def match_codes(
    code_list: pl.DataFrame, annotators: Sequence[PersonNow], plan: StudyPlan, *, list_name: str
) -> Iterator[Mapping[str, Any]]:
    """Iterate over the rows of `CodeReconciliation.codes`. Codes that the platform fixed in advance are valid for all
    annotators."""
    person_ids, codes = (
        _column(code_list, PERSON, "annotators", list_name),
        _column(code_list, CODE, "codes", list_name),
    )
    platform_statuses = _column(code_list, STATUS, "", list_name)
    fixed_codes = {code for code in msgspec.structs.astuple(plan.annotators.codes) if code}
    annotator_of_id = {annotator.external_id: annotator for annotator in annotators if annotator.external_id}
    personal_codes = {annotator.code for annotator in annotators if annotator.code} - fixed_codes
    n_entries_of_person_and_code = Counter[tuple[str, str]]()
    for person_id, code, platform_status in zip(person_ids, codes, platform_statuses, strict=True):
        annotator = annotator_of_id.get(person_id)
        n_entries_of_person_and_code[person_id, code] += 1
        if n_entries_of_person_and_code[person_id, code] > 1:
            verdict = TWICE
        elif annotator is not None and code and (code in fixed_codes or code == annotator.code):
            verdict = OURS
        elif code in personal_codes:
            verdict = OTHER_PERSON
        else:
            verdict = UNKNOWN if annotator is None else OTHER_CODE
        yield _row(annotator, person_id, code, verdict, platform_status)
    listed_ids = set(person_ids)
    for annotator in annotators:
        if annotator.code and annotator.external_id and annotator.external_id not in listed_ids:
            yield _row(annotator, annotator.external_id, annotator.code, MISSING, "")


def _row(
    annotator: PersonNow | None, person_id: str, code: str, verdict: str, platform_status: str
) -> Mapping[str, Any]:
    return {
        "person": person_id,
        "worker": "" if annotator is None else annotator.label,
        "code": code,
        "verdict": verdict,
        "standing": "" if annotator is None else annotator.standing,
        "answers": 0 if annotator is None else annotator.answers,
        "status": platform_status,
    }


def _column(code_list: pl.DataFrame, candidate_names: Iterable[str], content_text: str, list_name: str) -> list[str]:
    name_of_lower_name = {original_name.strip().lower(): original_name for original_name in code_list.columns}
    column_name = next(
        (name_of_lower_name[candidate] for candidate in candidate_names if candidate in name_of_lower_name), None
    )
    if column_name is not None:
        return [str(value).strip() for value in code_list[column_name].cast(pl.String).fill_null("").to_list()]
    if content_text:
        raise InputError(
            f"{list_name}: the list has no column of {content_text}; name this column {' or '.join(candidate_names)}. "
            f"Columns: {join_labels(code_list.columns)}"
        )
    return [""] * code_list.height
