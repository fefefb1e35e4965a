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
    for row, scale in _estimated_rows(view):
        alpha_text = estimate_with_interval(row, f"alpha_{scale}")
        yield (
            f"{_grade(row, f'alpha_{scale}')} Krippendorff's α of the {row['answer_type']} is {alpha_text} ({scale}; "
            f"1: perfect agreement, 0: agreement by chance; {plural(row['annotators'], 'annotator')})."
        )


def is_agreement_by_chance(view: AspectResults) -> bool:
    """Return whether the whole interval of alpha is at or below 0 for some type of answer."""
    return any(
        row[f"alpha_{scale}_high"] is not None and row[f"alpha_{scale}_high"] <= 0
        for row, scale in _estimated_rows(view)
    )


def is_agreement_unclear(view: AspectResults) -> bool:
    """Return whether alpha is not significantly above 0 for some type of answer, and may be below `TENTATIVE`."""
    return any(
        None not in (low, high) and low <= 0 < high < TENTATIVE
        for row, scale in _estimated_rows(view)
        for low, high in [(row[f"alpha_{scale}_low"], row[f"alpha_{scale}_high"])]
    )


def _estimated_rows(view: AspectResults) -> Iterator[tuple[Row, str]]:
    """Yield the row of each type of answer with an estimate of alpha, and the scale of alpha: ordinal or nominal."""
    for row in view.agreement_of_annotators:
        scale = "ordinal" if row["alpha_ordinal"] is not None else "nominal"
        if row[f"alpha_{scale}"] is not None:
            yield row, scale


def _grade(row: Row, name: str) -> str:
    """Return the statement on the reliability of single ratings that both bounds of the interval support."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None or high is None:
        return "Without an interval, the agreement of the annotators cannot be judged."
    grades = (
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
    return next(text for is_grade, text in grades if is_grade)
