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
from custodes.arguments import checked
from custodes.data.loading import load_table
from custodes.errors import InputError, listed

PERSON = ("participant id", "workerid", "assignment:worker_id", "worker_id", "external_id", "person")
CODE = ("completion code", "answer.code", "output:code", "code")
STATUS = ("status", "assignmentstatus", "assignment:status")
"""Names of columns on platforms (Prolific's export of submissions, Mechanical Turk's results, Toloka's assignments),
and generic names. Upper and lower case are equivalent."""

OURS, OTHER_CODE, OTHER_PERSON = "ours", "no such code", "another's code"
UNKNOWN, MISSING, TWICE = "unknown", "missing", "twice"


@result
class Reconciled(Result):
    """Comparison of the codes of a platform's list with the codes of a study. See `reconcile`."""

    BY: ClassVar[str] = ""

    codes: pl.DataFrame = table(
        "One row per entry of the list, then one row per annotator who has a code but is not on the list.",
        label("person", "name of the annotator on the platform"),
        label("worker", "label of the annotator in the study; empty if the study does not have the name"),
        label("code", "code in the list"),
        label(
            "verdict",
            "ours: annotator and code match; no such code: the annotator is known, but the code is unknown; "
            "another's code: the code belongs to another annotator; unknown: annotator and code are unknown; "
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


@checked
def reconcile(study: str | Path, codes: str | Path) -> Reconciled:
    """Compare a platform's list of annotators and completion codes (a table) with a study. The study may be running.

    Raises `InputError` if the list has no column of annotators or no column of codes.
    """
    frame = load_table(codes).frame
    now = snapshot_of_file(check(study))
    rows = matched(frame, now.annotators, now.plan, name=Path(codes).name)
    origin = Provenance(
        question="annotate reconcile", study=Path(study).name, digest="", options={}, seed=None, versions=versions()
    )
    return Reconciled.of([Reconciled.part(codes=rows)], (), provenance=origin)


def matched(
    frame: pl.DataFrame, annotators: Sequence[PersonNow], plan: StudyPlan, *, name: str
) -> Iterator[Mapping[str, Any]]:
    """Iterate over the rows of `Reconciled.codes`. Codes that the platform fixed in advance are valid for all
    annotators."""
    persons, codes = _column(frame, PERSON, "annotators", name), _column(frame, CODE, "codes", name)
    states = _column(frame, STATUS, "", name)
    fixed = {code for code in msgspec.structs.astuple(plan.annotators.codes) if code}
    by_id = {one.external_id: one for one in annotators if one.external_id}
    owned = {one.code for one in annotators if one.code} - fixed
    seen = Counter[tuple[str, str]]()
    for person, code, state in zip(persons, codes, states, strict=True):
        person_here = by_id.get(person)
        seen[person, code] += 1
        if seen[person, code] > 1:
            verdict = TWICE
        elif person_here is not None and code and (code in fixed or code == person_here.code):
            verdict = OURS
        elif code in owned:
            verdict = OTHER_PERSON
        else:
            verdict = UNKNOWN if person_here is None else OTHER_CODE
        yield _row(person_here, person, code, verdict, state)
    listed_annotators = set(persons)
    for person_here in annotators:
        if person_here.code and person_here.external_id and person_here.external_id not in listed_annotators:
            yield _row(person_here, person_here.external_id, person_here.code, MISSING, "")


def _row(person_here: PersonNow | None, person: str, code: str, verdict: str, state: str) -> Mapping[str, Any]:
    return {
        "person": person,
        "worker": "" if person_here is None else person_here.label,
        "code": code,
        "verdict": verdict,
        "standing": "" if person_here is None else person_here.standing,
        "answers": 0 if person_here is None else person_here.answers,
        "status": state,
    }


def _column(frame: pl.DataFrame, names: Iterable[str], what: str, name: str) -> list[str]:
    by_lower = {label.strip().lower(): label for label in frame.columns}
    column = next((by_lower[candidate] for candidate in names if candidate in by_lower), None)
    if column is not None:
        return [str(value).strip() for value in frame[column].cast(pl.String).fill_null("").to_list()]
    if what:
        raise InputError(
            f"{name}: the list has no column of {what}; name this column {' or '.join(names)}. Columns: "
            f"{listed(frame.columns)}"
        )
    return [""] * frame.height
