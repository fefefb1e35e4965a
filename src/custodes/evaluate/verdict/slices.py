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


def slices(view: AspectResults) -> Iterator[str]:
    """Yield the most significant findings of agreement, consistency and favoritism, and the number of findings.

    If slices were compared without a finding, or could not be compared, one sentence states this.
    """
    n_rows, n_tests, n_findings, not_compared_messages = 0, 0, 0, list[str]()
    for question_name, write_sentence in (
        ("agreement", _agreement),
        ("consistency", _consistency),
        ("favoritism", _favoritism),
    ):
        slice_rows = view.rows(question_name, "slices")
        significant_rows = slice_rows.filter(~pl.col("finding").is_in(["", INCONCLUSIVE]))
        finding_rows = significant_rows.sort("p_adjusted", maintain_order=True).to_dicts()
        n_findings += len(finding_rows)
        if slice_rows["slice"].n_unique() > 1:
            n_rows, n_tests = n_rows + slice_rows.height, n_tests + slice_rows["p_adjusted"].count()
        not_compared_messages += view.messages(question_name, NOT_COMPARED)
        yield from map(write_sentence, finding_rows[:MOST_NAMED])
        if len(finding_rows) > MOST_NAMED:
            yield f"In all, the table slices of {question_name} has {len(finding_rows)} significant findings."
    if n_rows and not n_findings:
        yield (
            f"No finding in a slice is significant ({n_tests} tests of agreement, consistency and partiality)."
            if n_tests
            else "No slice has enough items for a test of agreement, consistency or partiality."
        )
    if not n_rows:
        yield from dict.fromkeys(map(sentence, not_compared_messages))


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
