"""Sentences on slices of items that differ significantly from all other items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from custodes.answers.wording import estimate_with_interval, percent, sentence
from custodes.evaluate.partiality_table import INCONCLUSIVE
from custodes.evaluate.slices import NOT_COMPARED
from custodes.evaluate.verdict.view import MOST_NAMED, RATES, AspectResults, Row

FAULTS: Mapping[str, str] = {
    "consistency": "gives the same verdict in both orders",
    "first_rate": "prefers the output shown first",
    "agreement_within_order": "gives the same verdict on repetition",
    "agreement": "gives the same label on repetition",
    "failure_rate": "gives no readable verdict",
}
"""Text for the event that each statistic of `Consistency.slices` counts."""

SUBJECTS = ("agreement", "consistency", "partiality")
"""Subjects of the tables of slices, in the order in which the findings are reported."""


def slices(view: AspectResults) -> Iterator[str]:
    """Yield the most significant findings of agreement, consistency and favoritism, and the number of findings.

    If slices were compared without a finding, or could not be compared, one sentence states this.
    """
    sentence_functions = {"agreement": _agreement, "consistency": _consistency, "favoritism": _favoritism}
    rows_of_question = {question_name: view.rows(question_name, "slices") for question_name in sentence_functions}
    n_findings = 0
    for question_name, slice_rows in rows_of_question.items():
        finding_rows = slice_rows.filter(~pl.col("finding").is_in(["", INCONCLUSIVE]))
        n_findings += finding_rows.height
        named_rows = finding_rows.sort("p_adjusted", maintain_order=True).head(MOST_NAMED)
        yield from map(sentence_functions[question_name], named_rows.to_dicts())
        if finding_rows.height > MOST_NAMED:
            yield f"In all, the table slices of {question_name} has {finding_rows.height} significant findings."
    if all(slice_rows["slice"].n_unique() < 2 for slice_rows in rows_of_question.values()):
        notes = [note for question_name in rows_of_question for note in view.results[question_name].notes]
        messages = [note.message for note in notes if (note.rule, note.aspect) == (NOT_COMPARED, view.aspect)]
        yield from dict.fromkeys(map(sentence, messages))
    elif not n_findings:
        n_tests_of_subject = {
            subject: slice_rows["p_adjusted"].count()
            for subject, slice_rows in zip(SUBJECTS, rows_of_question.values(), strict=True)
        }
        tests_text = ", ".join(f"{subject} {n_tests}" for subject, n_tests in n_tests_of_subject.items() if n_tests)
        yield f"No finding in a slice is significant (number of tests: {tests_text or '0'})."


def _rates(finding_row: Row) -> str:
    return f"in {percent(finding_row['value'])} of cases, elsewhere in {percent(finding_row['other'])}"


def _agreement(finding_row: Row) -> str:
    comparative = "worse" if finding_row["difference"] < 0 else "better"
    return (
        f"On {finding_row['slice']}, {finding_row['metric']} agrees significantly {comparative} with the annotators: "
        f"{_rates(finding_row)}."
    )


def _consistency(finding_row: Row) -> str:
    comparative = "less" if finding_row["difference"] < 0 else "more"
    return (
        f"On {finding_row['slice']}, {finding_row['rater']} {FAULTS[finding_row['statistic']]} significantly "
        f"{comparative} often: {_rates(finding_row)}."
    )


def _favoritism(finding_row: Row) -> str:
    return (
        f"On {finding_row['slice']}, {finding_row['metric']} {RATES[finding_row['finding']]} {finding_row['system']} "
        f"(partiality {estimate_with_interval(finding_row, 'partiality', digits=0)} points of win rate)."
    )
