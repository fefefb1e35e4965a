"""Sentences on the agreement of annotators."""

from __future__ import annotations

from collections.abc import Iterator

from custodes.answers.wording import estimate_with_interval, plural
from custodes.evaluate.verdict.view import AspectResults, Row

TENTATIVE, RELIABLE = 0.667, 0.8
"""Thresholds of Krippendorff (2004). If alpha is below the first threshold, single ratings support no conclusion. If
alpha is at least the second threshold, single ratings are reliable."""


def reliability(view: AspectResults) -> Iterator[str]:
    """Yield a sentence on the agreement of annotators, for each type of answer."""
    for agreement_row, alpha_scale in _estimated_rows(view):
        alpha_text = estimate_with_interval(agreement_row, f"alpha_{alpha_scale}")
        yield (
            f"{_grade(agreement_row, f'alpha_{alpha_scale}')} Krippendorff's α of the {agreement_row['answer_type']} "
            f"is {alpha_text} ({alpha_scale}; 1: perfect agreement, 0: agreement by chance; "
            f"{plural(agreement_row['annotators'], 'annotator')})."
        )


def is_agreement_by_chance(view: AspectResults) -> bool:
    """Return whether the whole interval of alpha is at or below 0 for some type of answer."""
    return any(
        agreement_row[f"alpha_{alpha_scale}_high"] is not None and agreement_row[f"alpha_{alpha_scale}_high"] <= 0
        for agreement_row, alpha_scale in _estimated_rows(view)
    )


def is_agreement_unclear(view: AspectResults) -> bool:
    """Return whether alpha is not significantly above 0 for some type of answer, and may be below `TENTATIVE`."""
    return any(
        None not in (low, high) and low <= 0 < high < TENTATIVE
        for agreement_row, alpha_scale in _estimated_rows(view)
        for low, high in [(agreement_row[f"alpha_{alpha_scale}_low"], agreement_row[f"alpha_{alpha_scale}_high"])]
    )


def _estimated_rows(view: AspectResults) -> Iterator[tuple[Row, str]]:
    """Yield the row of each type of answer with an estimate of alpha, and the scale of alpha: ordinal or nominal."""
    for agreement_row in view.agreement_of_annotators:
        alpha_scale = "ordinal" if agreement_row["alpha_ordinal"] is not None else "nominal"
        if agreement_row[f"alpha_{alpha_scale}"] is not None:
            yield agreement_row, alpha_scale


def _grade(agreement_row: Row, alpha_column: str) -> str:
    """Return the statement on the reliability of single ratings that both bounds of the interval support."""
    low, high = agreement_row[f"{alpha_column}_low"], agreement_row[f"{alpha_column}_high"]
    if low is None or high is None:
        return "Without an interval, the agreement of the annotators cannot be judged."
    conditions_and_texts = (
        (
            high <= 0,
            "On single outputs, the annotators agree no better than by chance; check the scale and the names of items "
            "and systems. Means of systems over many items can still differ significantly.",
        ),
        (
            low <= 0 and high < TENTATIVE,
            "On single outputs, the annotators do not agree significantly better than by chance, so conclusions need "
            "means over many items or annotators.",
        ),
        (
            high < TENTATIVE,
            "A single human rating is not reliable, so conclusions need means over many items or annotators.",
        ),
        (low >= RELIABLE, "Single human ratings are reliable."),
        (low >= TENTATIVE, "Single human ratings are reliable enough for tentative conclusions."),
        (True, "It is inconclusive whether single human ratings are reliable."),
    )
    return next(grade_text for is_applicable, grade_text in conditions_and_texts if is_applicable)
