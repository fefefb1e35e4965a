"""Counts of pairwise verdicts, computed inside a table engine without loading the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import polars as pl

from custodes.arguments import checked
from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note, noted
from custodes.data.origin import counted_by
from custodes.data.outcome_counts import BY_ORDER, SIGNS, OutcomeCounts, counted_jointly, summed
from custodes.data.table_engines import collected, in_engine, metrics_of, names_of
from custodes.data.verdict_merging import MergingPlan, Orders, of_items, settled
from custodes.data.verdict_rows import WHERE, rows_of, survey_of, understood
from custodes.errors import InputError, OptionError, listed


@checked
@in_engine(WHERE)
def count_battles(
    table: Any,
    *,
    human: str | Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
    aspect: str = "",
    systems: Sequence[str] | None = None,
    orders: Orders = "mean",
) -> OutcomeCounts:
    """Count wins, ties and losses of every pair of systems from verdicts, in the engine of the table.

    Returns
    -------
    OutcomeCounts
        Counts by pair of systems and rater, and joint counts of annotators and each metric on the same items.

    Raises
    ------
    InputError
        For a table or verdicts that cannot be read.
    OptionError
        For an unknown name.

    Notes
    -----
    `table` is a long table of verdicts in any dataframe that Narwhals supports: `item`, two systems
    (`model_a, model_b` or `system_a, system_b`), `winner` or `preference`, and optionally `rater` (or `judge`), `kind`,
    `aspect`, `order` (ab, ba) and `repeat`. Verdicts may use the words that `read` accepts, except words for the
    displayed position. The engine returns only one row for each pair, rater, order and word.

    `human` are the annotators, whose votes are combined. The default is all raters of `kind` human; without a column of
    raters, one annotator gave all verdicts. `metrics` are the metrics to count (default: all raters that are not
    human). If a rater has no verdicts on the `aspect`, its verdicts without an aspect are used. `orders` is the rule
    for merging several verdicts of a rater on one comparison, as in `leaderboard`.

    Examples
    --------
    >>> rows = [("1", "A", "B", "model_a"), ("2", "B", "A", "tie"), ("3", "A", "B", "B")]
    >>> table = pl.LazyFrame(rows, schema=["item", "model_a", "model_b", "winner"], orient="row")
    >>> count_battles(table).by_order.row(0)
    ('human', 'A', 'B', 0.0, 1, 1, 1)
    """
    rows, kinds, written = rows_of(table)
    survey = survey_of(rows)
    raters = sorted(survey["rater"].unique())
    people = _people(survey, human, raters, kinds)
    judges = metrics_of(metrics, raters, people, where=WHERE)
    survey = _of_aspect(survey, people=people, judges=judges, aspect=aspect)
    if systems is not None:
        known_systems = sorted({*survey["a"], *survey["b"]})
        chosen = names_of("systems", systems, known_systems, where=WHERE, what="system")
        survey = survey.filter(pl.col("a").is_in(list(chosen)), pl.col("b").is_in(list(chosen)))
    meanings = understood(survey, written=written)
    plan = MergingPlan(said=meanings, people=people, orders=orders)
    rows = plan.chosen(rows)
    spread = collected(of_items(rows))
    notes: list[Note] = []
    if len(people) > 1 or (spread["most"] > 1).any():
        outcomes, notes = settled(plan, rows)
        keys = ("rater", "system_a", "system_b", "order", "sign")
        frame = collected(outcomes.group_by(*keys).agg(nw.len().alias("n")))
        items = dict(collected(of_items(outcomes)).select("rater", pl.col("items").cast(pl.Int64)).iter_rows())
    else:
        outcomes = plan.combined(plan.signed(rows))
        name = pl.when(pl.col("rater").is_in(list(people))).then(pl.lit(HUMAN)).otherwise("rater")
        frame = meanings.drop_nulls("sign").with_columns(rater=name)
        items = dict(frame.group_by("rater").agg(pl.col("n").sum()).iter_rows())  # every verdict has its own item
    missing = int(meanings.filter(pl.col("sign").is_null())["n"].sum())
    if missing == meanings["n"].sum():
        raise InputError(f"{WHERE}: all {missing} verdicts are empty; give at least one verdict")
    turned = meanings.filter("turned")
    words = ", ".join(turned["said"].unique().sort().head(2))
    place = (
        f"{words} is read as the name of a column, whatever the presentation order; if positions are meant, write "
        "left and right"
    )
    notes += noted(
        ("missing-verdict", missing, f"{missing} verdicts are empty and count as not rated"),
        ("place-or-column", int(turned["n"].sum()), place),
    )
    there = set(frame["rater"])
    silent = [name for name in (*([HUMAN] if people else []), *judges) if name not in there]
    message = f"raters without a valid verdict are missing from all tables: {listed(silent)}"
    notes += noted(("no-battle", len(silent), message))
    origin = counted_by(human=human, metrics=metrics, systems=systems, aspect=aspect, orders=orders)
    labels, metrics = tuple(sorted({*meanings["a"], *meanings["b"]})), tuple(name for name in judges if name in there)
    joint = [counted_jointly(outcomes, metrics)] if metrics else []
    return OutcomeCounts.of_tables(
        summed(joint, systems=labels, metrics=metrics),
        systems=labels,
        metrics=metrics,
        by_order=_by_order(frame),
        items=dict(sorted(items.items())),  # engines return rows in any order; the digest needs one
        notes=tuple(notes),
        origin=origin,
    )


def _people(
    survey: pl.DataFrame, human: str | Sequence[str] | None, raters: Sequence[str], kinds: bool
) -> tuple[str, ...]:
    if human is not None:
        return names_of("human", human, raters, where=WHERE)
    if not kinds:
        raise OptionError(
            f"{WHERE}: no rater is known to be human; name the annotators, as in human='ann', or give "
            f"a column 'kind'. Raters: {listed(raters)}"
        )
    if survey["kind"].unique().to_list() == [""]:
        return tuple(raters)
    return tuple(sorted(survey.filter(kind="human")["rater"].unique()))


def _of_aspect(survey: pl.DataFrame, *, people: Sequence[str], judges: Sequence[str], aspect: str) -> pl.DataFrame:
    """The rows of the aspect. If a metric has no rows of the aspect, its rows without an aspect are returned."""
    specific = set(survey.filter(pl.col("aspect") == aspect)["rater"])
    taken = {name: aspect if name in specific or name in people else "" for name in (*people, *judges)}
    table = pl.DataFrame(
        {"rater": list(taken), "aspect": list(taken.values())}, schema=dict.fromkeys(["rater", "aspect"], pl.String)
    )
    chosen = survey.join(table, on=["rater", "aspect"], how="semi")
    if not chosen.height:
        aspects = sorted(survey["aspect"].unique())
        raise OptionError(f"{WHERE}: aspect={aspect!r} has no verdict; aspects: {listed(map(repr, aspects))}")
    return chosen


def _by_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Numbers of wins, ties and losses from signs with their frequencies (`n`)."""
    keys = ("rater", "system_a", "system_b", "order")
    cells = {name: pl.col("n").filter(pl.col("sign") == sign).sum() for name, sign in SIGNS.items()}
    return frame.group_by(keys).agg(**cells).sort(keys).select(pl.col(n).cast(kind) for n, kind in BY_ORDER.items())
