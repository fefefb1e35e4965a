"""Sentences on the agreement of annotators."""

from __future__ import annotations

from collections.abc import Iterator

from custodes.answers.wording import estimate_with_interval, plural, sentence
from custodes.evaluate.verdict.view import AspectResults, Row, applicable

TENTATIVE, RELIABLE = 0.667, 0.8
"""Thresholds of Krippendorff (2004). If alpha is below the first threshold, single ratings support no conclusion. If
alpha is at least the second threshold, single ratings are reliable."""
BY_CHANCE = (
    "the annotators agree no better than by chance on single outputs; check the scale and the names of items and "
    "systems. Means of systems over many items can still differ significantly."
)
UNCLEAR = (
    "the annotators do not agree significantly better than by chance on single outputs, so conclusions need means "
    "over many items or annotators."
)


def reliability(view: AspectResults) -> Iterator[str]:
    """Yield a sentence on the agreement of annotators, for each type of answer."""
    for agreement_row, alpha_scale in _estimated_rows(view):
        alpha_text = estimate_with_interval(agreement_row, f"alpha_{alpha_scale}")
        yield (
            f"{sentence(_grade(agreement_row, f'alpha_{alpha_scale}'))} Krippendorff's α of the "
            f"{agreement_row['answer_type']} is {alpha_text} ({alpha_scale}; 1: perfect agreement, 0: agreement by "
            f"chance; {plural(agreement_row['annotators'], 'annotator')})."
        )


def grades(view: AspectResults) -> list[str]:
    """Return the statement on the reliability of single ratings for each type of answer."""
    return [_grade(agreement_row, f"alpha_{alpha_scale}") for agreement_row, alpha_scale in _estimated_rows(view)]


def _estimated_rows(view: AspectResults) -> Iterator[tuple[Row, str]]:
    """For each type of answer that has an estimate of alpha, yield the row and the scale of alpha (ordinal or
    nominal)."""
    for agreement_row in view.rows("annotators", "agreement").to_dicts():
        alpha_scale = "ordinal" if agreement_row["alpha_ordinal"] is not None else "nominal"
        if agreement_row[f"alpha_{alpha_scale}"] is not None:
            yield agreement_row, alpha_scale


def _grade(agreement_row: Row, alpha_column: str) -> str:
    """Return the statement on the reliability of single ratings; both bounds of the interval must support the
    statement."""
    low, high = agreement_row[f"{alpha_column}_low"], agreement_row[f"{alpha_column}_high"]
    if low is None:
        return "Without an interval, the agreement of the annotators cannot be judged."
    return next(
        applicable(
            (high <= 0, BY_CHANCE),
            (low <= 0 and high < TENTATIVE, UNCLEAR),
            (
                high < TENTATIVE,
                "A single human rating is not reliable, so conclusions need means over many items or annotators.",
            ),
            (low >= RELIABLE, "Single human ratings are reliable."),
            (low >= TENTATIVE, "Single human ratings are reliable enough for tentative conclusions."),
            (True, "The data do not show whether single human ratings are reliable."),
        )
    )
