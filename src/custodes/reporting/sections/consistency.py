"""Section: what judges look at beside quality, and whether they stay with their verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from custodes.errors import InputError
from custodes.evaluate.consistency.consistency import Consistency, consistency
from custodes.evaluate.consistency.findings import CONFIDENCE, LENGTH, OWN, POSITION
from custodes.evaluate.consistency.missing import ALL, REASON, SYSTEM
from custodes.evaluate.partiality_table import INCONCLUSIVE
from custodes.plots.consistency import AXES, calibration, faults, flips, symmetry
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import columns_with_values, table_html

TABLES = ("findings", "orders", "confusion", "reliability")
CAPTIONS = {
    POSITION: "Right: what is shown first is preferred to the same output shown second.",
    LENGTH: "Right: longer outputs are preferred more than people prefer them; people's noise is taken account of.",
    OWN: "Right: the judge places a system of its own above its quality by people.",
    CONFIDENCE: "Right: the judge is overconfident: its mean confidence is above its accuracy by human verdicts.",
}
SHOWN = (
    ("findings", "What is claimed of judges"),
    ("orders", "The same comparison in both orders"),
    ("repeats", "The same comparison again"),
    ("missing", "Ties and failures"),
    ("length", "Length"),
    ("own_systems", "Own systems"),
    ("confidence", "Calibration of the probabilities"),
    ("committee", "Effective number of judges"),
    ("panels", "Accuracy of one judge and of majorities"),
)

EXAMINED = ("findings", "orders", "repeats", "length", "confidence", "committee")
"""Without a row in any of these the section has nothing to say."""

NOTES = {
    "findings": ("inconclusive", "no-texts"),
    "orders": ("few-clusters", "half-judged", "one-of-two-orders", "one-order"),
}
"""Which notes stand below which table."""


def _ask(context: Context) -> Consistency:
    made: Consistency = context.ask(consistency)
    if all(made.to_frame(name).is_empty() for name in EXAMINED):
        raise InputError("there are no verdicts, no texts, no own systems, and no two judges beside people")
    return made


def _everywhere(context: Context, name: str) -> pl.DataFrame:
    """A table, with what has no aspect of people under each of theirs: the page shows one at a time."""
    rows = context.results["consistency"].to_frame(name)
    strangers = rows.filter(~pl.col("aspect").is_in(list(context.aspects)))
    copies = [strangers.with_columns(aspect=pl.lit(aspect)) for aspect in context.aspects]
    return pl.concat([rows.filter(pl.col("aspect").is_in(list(context.aspects))), *copies])


def _figures(context: Context) -> Sequence[Figure]:
    found, orders = _everywhere(context, "findings"), _everywhere(context, "orders")
    kinds = [kind for kind in AXES if found.filter(pl.col("kind") == kind)["estimate"].count()]
    made = [
        Figure(
            id=f"consistency-{kind.split()[0]}",
            title=AXES[kind],
            caption=f"{CAPTIONS[kind]} Coloured: beyond chance, all judges and kinds of the study tested together.",
            alt=f"Dots with whiskers: {AXES[kind]}, for every judge; the table below has the numbers.",
            spec=spec_of(faults(empty_rows(), title=AXES[kind]).properties(width="container")),
            table="consistency-findings",
            lines=("rater", "factor"),
            where={"aspect": "{aspect}", "kind": kind},
        )
        for kind in kinds
    ]
    if _everywhere(context, "reliability").height:
        calibrated = Figure(
            id="consistency-calibration",
            title="Calibration of {metric}",
            caption="On the dashed line the judge is calibrated, below it overconfident. Whiskers: intervals"
            " from resampled items.",
            alt="Line with whiskers: accuracy of the judge by its confidence.",
            spec=spec_of(calibration(empty_rows())),
            table="consistency-reliability",
            where={"aspect": "{aspect}", "rater": "{metric}"},
        )
        made.append(calibrated)
    if not orders["flip_rate"].count():
        return made
    return [
        *made,
        Figure(
            id="consistency-flips",
            title="How often the winner changes with the order",
            caption="The same comparison shown in both orders. Whisker: interval from resampled items.",
            alt="Dots with whiskers: share of flips for every judge; the table below has the numbers.",
            spec=spec_of(flips(empty_rows()).properties(width="container")),
            table="consistency-orders",
            lines=("rater",),
            where={"aspect": "{aspect}"},
        ),
        Figure(
            id="consistency-confusion",
            title="Verdicts of {metric} in both orders",
            caption="Green: the verdict stays. Red: what is shown first gains. Blue: what is shown second gains.",
            alt="Three by three table: what a system gets when shown first, by what it gets when shown second.",
            spec=spec_of(symmetry(empty_rows())),
            table="consistency-confusion",
            where={"aspect": "{aspect}", "rater": "{metric}"},
        ),
    ]


def _build(context: Context) -> Mapping[str, Any]:
    """What is claimed first; then the tables that have rows."""
    made = []
    for name, caption in SHOWN:
        rows = _everywhere(context, name)
        asked = not rows.is_empty()
        if name == "findings":
            rows = rows.filter(~pl.col("finding").is_in(["", INCONCLUSIVE]))
        if name == "missing":
            rows = rows.filter(pl.col("factor").is_in([ALL, REASON, SYSTEM]))
        if asked:
            essential = [own for own in context.declared(f"consistency.{name}").columns if own.essential]
            columns = columns_with_values(essential, rows)
            notes = context.notes("consistency", *NOTES.get(name, ("none",)))
            made.append(table_html(rows, columns, id=f"consistency-{name}-table", caption=caption, notes=notes))
    return {"table": "\n".join(made)}


CONSISTENCY = Section(
    question="consistency",
    title="Can a judge be trusted",
    text="A judge should stay with its verdict when the outputs change places or when it is asked again, and look at"
    " quality alone. What is claimed of a judge stands first, where anything could be tested: all judges and kinds of"
    " fault together. Of a judge that is not named there nothing is claimed: no fault was found, or the test is"
    " inconclusive.",
    ask=_ask,
    figures=_figures,
    build=_build,
    extra=lambda context: {f"consistency-{name}": _everywhere(context, name) for name in TABLES},
    compares_systems=False,
)
