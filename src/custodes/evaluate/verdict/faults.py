"""What judges look at beside quality: the order in which outputs are shown, their length, who wrote them."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from custodes.answers.wording import percent, plural, with_ends
from custodes.evaluate.consistency.findings import CONFIDENCE, FAILURES, LENGTH, OWN, POSITION
from custodes.evaluate.consistency.missing import ALL, REASON
from custodes.evaluate.partiality_table import INCONCLUSIVE
from custodes.evaluate.verdict.view import MOST_NAMED, POINTS, PROPORTION, Row, Statement, View, value_of

FAULTS = {
    POSITION: "{points} points of margin between the same two outputs",
    LENGTH: "{points} points of margin beyond what people prefer",
    OWN: "{about} gets {points} points of win rate that its quality does not explain",
    CONFIDENCE: "its chances lie {points} points above the share of comparisons on which people say the same",
    FAILURES: "readable verdicts are missing more often for some than for others, by {about}",
}
"""What stands behind a finding of a kind."""
TOLD = 0.01
"""The share of questions without a verdict from which it is told."""
ONE_ORDER = "{points} points of margin, if lots were drawn for the order of each comparison"


def faults(view: View) -> Iterator[Statement]:
    """How often the best judges change their mind with the order, and what each is found to prefer."""
    asked = view.judges.get("orders", pl.DataFrame(schema={"flip": pl.Float64})).filter(pl.col("flip").is_not_null())
    again = dict(view.judges["repeats"].select("rater", "same").drop_nulls().iter_rows()) if asked.height else {}
    place = {row["metric"]: i for i, row in enumerate(view.standing)}
    for row in sorted(asked.to_dicts(), key=lambda row: place.get(row["rater"], len(place)))[:MOST_NAMED]:
        text = (
            f"{row['rater']} names another winner in {with_ends(row, 'flip', shown=percent)} of"
            f" {plural(row['both'], 'comparison')} when the two outputs change places."
        )
        if row["rater"] in again:
            text += f" Asked again in the same order, it agrees with itself in {percent(again[row['rater']])}."
        yield Statement(kind="faults", text=text, rater=row["rater"], unit=PROPORTION, **value_of(row, "flip"))
    if "findings" not in view.judges:
        return
    yield from _unanswered(view)
    rows = view.judges["findings"].filter(~pl.col("finding").is_in(["", INCONCLUSIVE])).sort("p_adjusted", "p_value")
    found = sorted(rows.to_dicts(), key=lambda row: row["rater"] not in view.leaders)  # whom a reader would trust
    turned = set(view.judges["orders"].filter(pl.col("both") > 0)["rater"])
    yield from (_found(row, row["rater"] in turned) for row in found[:MOST_NAMED])
    if len(found) > MOST_NAMED:
        of_all = view.judges["findings"]["rater"].n_unique()
        text = f"In all, {plural(len(found), 'fault')} were found, in {rows['rater'].n_unique()} of {of_all} raters."
        yield Statement(kind="faults", text=text)


def _unanswered(view: View) -> Iterator[Statement]:
    """What judges were asked and did not answer, and what of it is left out."""
    missing = view.judges["missing"]
    half = dict(view.judges["orders"].filter(pl.col("half") > 0).select("rater", "half").iter_rows())
    lost = missing.filter(pl.col("by") == ALL, (pl.col("failed") >= TOLD) | pl.col("rater").is_in([*half]))
    for row in lost.sort("failed", descending=True, maintain_order=True).head(MOST_NAMED).to_dicts():
        reasons = missing.filter(pl.col("by") == REASON, rater=row["rater"]).select("value", "failed").iter_rows()
        named = ", ".join(f"{reason} {percent(share)}" for reason, share in reasons)
        text = (
            f"{row['rater']} gave no verdict in {with_ends(row, 'failed', shown=percent)} of"
            f" {plural(row['asked'], 'question')}{f' ({named})' if named else ''}."
        )
        if row["rater"] in half:
            text += (
                f" {plural(half[row['rater']], 'comparison')} asked in both orders and answered in one"
                f" {'is' if half[row['rater']] == 1 else 'are'} left out where both orders make one verdict."
            )
        yield Statement(kind="faults", text=text, rater=row["rater"], unit=PROPORTION, **value_of(row, "failed"))


def _found(row: Row, turned: bool) -> Statement:
    """`turned`: whether the judge saw comparisons in both orders; else that it prefers a slot rests on the lots."""
    points = with_ends(row, "estimate", digits=0)
    said = ONE_ORDER if row["kind"] == POSITION and not turned else FAULTS[row["kind"]]
    text = f"{row['rater']} {row['finding']}: {said.format(points=points, about=row['about'])}."
    numbers = value_of(row, "estimate")
    return Statement(kind="faults", text=text, rater=row["rater"], p_value=row["p_adjusted"], unit=POINTS, **numbers)
