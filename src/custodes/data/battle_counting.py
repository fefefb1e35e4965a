"""Counts of pairwise verdicts, computed inside a table engine without loading the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Literal

import narwhals as nw
import numpy as np
import polars as pl

from custodes.arguments import checked
from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note, noted
from custodes.data.outcome_counts import BY_ORDER, SIGNS, OutcomeCounts, counted_by, counted_jointly, summed
from custodes.data.readers.battles import SYSTEMS, WRITTEN
from custodes.data.readers.orders import FLAGS, MARKS, NAMED, UNKNOWN
from custodes.data.readers.verdict_words import ALLOWED, EMPTY, what_is_said
from custodes.data.table_engines import collected, in_engine, lazy_rows, metrics_of, names_of, otherwise
from custodes.data.ties_and_orders import OUTPUTS, combine_annotators, merge_orders
from custodes.errors import InputError, OptionError, listed

WHERE = "count_battles"
SAID = ("winner", "preference")

Orders = Literal["mean", "consistent"]
"""Methods to merge verdicts of both presentation orders (and of repeats), with the same meaning as for a study."""

Rows = nw.LazyFrame[Any]


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
    raters, all verdicts are attributed to one annotator. `metrics` are the metrics to count (default: all raters that
    are not human). If a rater has no verdicts on the `aspect`, its verdicts without an aspect are used. `orders` is the
    rule for merging several verdicts of a rater on one comparison, as in `leaderboard`.

    Examples
    --------
    >>> rows = [("1", "A", "B", "model_a"), ("2", "B", "A", "tie"), ("3", "A", "B", "B")]
    >>> table = pl.LazyFrame(rows, schema=["item", "model_a", "model_b", "winner"], orient="row")
    >>> count_battles(table).by_order.row(0)
    ('human', 'A', 'B', 0.0, 1, 1, 1)
    """
    rows, kinds, written = _rows_of(table)
    survey = _survey_of(rows)
    raters = sorted(survey["rater"].unique())
    people = _people(survey, human, raters, kinds)
    judges = metrics_of(metrics, raters, people, where=WHERE)
    survey = _of_aspect(survey, people=people, judges=judges, aspect=aspect)
    if systems is not None:
        known_systems = sorted({*survey["a"], *survey["b"]})
        chosen = names_of("systems", systems, known_systems, where=WHERE, what="system")
        survey = survey.filter(pl.col("a").is_in(list(chosen)), pl.col("b").is_in(list(chosen)))
    meanings = _understood(survey, written=written)
    rows = _chosen(rows, meanings)
    spread = collected(_of_items(rows))
    notes: list[Note] = []
    if len(people) > 1 or (spread["most"] > 1).any():
        outcomes, notes = _settled(_signed(rows, meanings), rows, people, orders)
        keys = ("rater", "system_a", "system_b", "order", "sign")
        frame = collected(outcomes.group_by(*keys).agg(nw.len().alias("n")))
        items = dict(collected(_of_items(outcomes)).select("rater", pl.col("items").cast(pl.Int64)).iter_rows())
    else:
        outcomes = _combined(_signed(rows, meanings), people)
        name = pl.when(pl.col("rater").is_in(list(people))).then(pl.lit(HUMAN)).otherwise("rater")
        frame = meanings.drop_nulls("sign").with_columns(rater=name)
        items = dict(frame.group_by("rater").agg(pl.col("n").sum()).iter_rows())  # every verdict has its own item
    missing = int(meanings.filter(pl.col("sign").is_null())["n"].sum())
    if missing == meanings["n"].sum():
        raise InputError(f"{WHERE}: all {missing} verdicts are empty; give at least one verdict")
    turned = meanings.filter("turned")
    words = ", ".join(turned["said"].unique().sort().head(2))
    place = (
        f"{words} is read as the name of a column, whatever the presentation order; if a position is meant, write the "
        "name of the system"
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


def _rows_of(table: Any) -> tuple[Rows, bool, bool]:
    """A table with the columns item, a, b, said, rater, kind, aspect, shown, repeat (all text except the item), `empty`
    and `invalid`.

    The second result is whether the kinds of raters are known, and the third result is whether the columns are in the
    format of custodes.
    """
    rows = lazy_rows(table, where=WHERE)
    schema = rows.collect_schema()
    sides = next((names for names in SYSTEMS if set(names) <= set(schema)), None)
    verdict = next((name for name in SAID if name in schema), None)
    if "item" not in schema or sides is None or verdict is None:
        raise InputError(
            f"{WHERE}: columns are {listed(schema)}; needed are item, model_a, model_b (or system_a, system_b) and"
            " winner (or preference)"
        )
    rater = next((name for name in ("rater", "judge") if name in schema), None)

    def text(name: str | None, missing: str = "") -> nw.Expr:
        if name is None or name not in schema:
            return nw.lit(missing)
        number = schema[name].is_float()  # engines format 1.0 differently
        return (nw.col(name).cast(nw.Int64) if number else nw.col(name)).cast(nw.String).fill_null(missing)

    if schema[verdict].is_float():
        odd = collected(rows.filter(nw.col(verdict) != nw.col(verdict).cast(nw.Int64)).select(nw.len())).item()
        if odd:
            raise InputError(f"{WHERE}: {odd} values of {verdict!r} are not allowed; allowed: 1, 0, -1")
    item = nw.col("item") if schema["item"].is_numeric() else nw.col("item").cast(nw.String)
    empty = nw.col("item").is_null() if schema["item"].is_numeric() else item.is_null() | (item == "")
    result = rows.select(
        item.alias("item"),
        text(sides[0]).alias("a"),
        text(sides[1]).alias("b"),
        text(verdict).alias("said"),
        text(rater, "" if rater else HUMAN).alias("rater"),
        text("kind").alias("kind"),
        text("aspect").alias("aspect"),
        text("order").alias("shown"),
        text("repeat").alias("repeat"),
        empty.alias("empty"),
        ((text("invalid") != "") & (text(verdict) != "")).alias("invalid"),
    )
    return result, "kind" in schema or rater is None, set(schema) >= WRITTEN


def _survey_of(rows: Rows) -> pl.DataFrame:
    """The number of times that each rater gave each word for each pair, from one pass over the table. Missing labels
    raise `InputError`."""
    keys = ("rater", "kind", "aspect", "a", "b", "said", "shown")
    survey = collected(rows.group_by(*keys, "empty", "invalid").agg(nw.len().alias("n")))
    kind = pl.col("kind").str.strip_chars().str.to_lowercase()
    survey = survey.with_columns(pl.col("n").cast(pl.Int64), kind.alias("kind"))
    if not survey.height:
        raise InputError(f"{WHERE}: no rows; give at least one verdict")
    labels = [pl.col(name) for name in ("rater", "aspect", "a", "b")]
    for wrong, what in (
        (pl.col("empty"), "have no item"),
        ((pl.col("a") == "") | (pl.col("b") == ""), "name no system"),
        (pl.col("rater") == "", "name no rater"),
        (pl.col("a") == pl.col("b"), "compare a system with itself"),
        (~pl.col("kind").is_in(["human", "metric", ""]), "have a kind that is neither human nor metric"),
        (
            pl.any_horizontal(column != column.str.strip_chars() for column in labels),
            "have a label with a space before or after it",
        ),
        (pl.col("invalid"), "have both a verdict and a reason in 'invalid'"),
    ):
        if n := int(survey.filter(wrong)["n"].sum()):
            raise InputError(f"{WHERE}: {n} rows {what}; correct them, or remove them from the table")
    return survey.drop("empty", "invalid")


def _understood(survey: pl.DataFrame, *, written: bool) -> pl.DataFrame:
    """The frequencies with the meaning of each word and order.

    `meaning` is 1 if `a` is preferred (null: no verdict), and `first` is 1 if `a` was shown first. `system_a` and
    `system_b` are the systems in alphabetical order: `sign` is 1 if `system_a` is preferred, and `order` is 1 if
    `system_a` was shown first. `turned` marks words that may mean a position where `b` was shown first.
    """
    words = survey["said"].set(survey["said"].str.to_lowercase().is_in(EMPTY), "").alias("winner")
    try:
        meaning = what_is_said(words, survey["a"], survey["b"], where=WHERE, written=written)
    except InputError as problem:
        raise InputError(f"{problem} (row numbers refer to the list of distinct verdicts, not to the table)") from None
    wrong = (words != "") & (meaning.preference.is_null() | meaning.place.is_not_null())
    if wrong.any():
        bad = survey.filter(wrong).group_by("said").agg(pl.col("n").sum()).sort("n", "said", descending=[True, False])
        examples = listed((f"{word[:40]!r} {n:,} times" for word, n in bad.iter_rows()), limit=3)
        place = ", except words for the position shown" if meaning.place.drop_nulls().len() else ""
        raise InputError(
            f"{WHERE}: {bad['n'].sum():,} of {survey['n'].sum():,} verdicts cannot be read "
            f"({examples}); allowed: {ALLOWED}, or empty{place}. Correct them, or remove them from "
            "the table"
        )
    order_words = survey["shown"].str.to_lowercase().str.replace_all(MARKS, "")
    order = order_words.replace_strict(
        NAMED | FLAGS | dict.fromkeys(UNKNOWN, 0.0), default=None, return_dtype=pl.Float64
    )
    if order.is_null().any():
        odd = survey.filter(order.is_null())["shown"].unique().sort()
        raise InputError(f"{WHERE}: column 'order' holds {listed(map(repr, odd), limit=3)}; allowed: ab, ba, or empty")
    forward = np.where(survey["a"] < survey["b"], 1, -1)
    return survey.with_columns(
        meaning.preference.alias("meaning").cast(pl.Int64),
        order.alias("first").cast(pl.Int64),
        (meaning.unsure & (order < 0)).alias("turned"),
        pl.Series("sign", meaning.preference * forward).cast(pl.Int64),
        pl.Series("order", order * forward).cast(pl.Int64),
        system_a=pl.min_horizontal("a", "b"),
        system_b=pl.max_horizontal("a", "b"),
    )


def _chosen(rows: Rows, meanings: pl.DataFrame) -> Rows:
    """The rows to count, with the systems in alphabetical order (`low`, `high`), and with `turn`, which is 1 if `a` is
    `low` and otherwise -1."""
    pairs = meanings.select("rater", "aspect").unique().sort("rater", "aspect")
    ours = [(nw.col("rater") == rater) & (nw.col("aspect") == aspect) for rater, aspect in pairs.iter_rows()]
    systems = sorted({*meanings["a"], *meanings["b"]})
    inside = nw.col("a").is_in(systems) & nw.col("b").is_in(systems)
    turned = nw.col("a") > nw.col("b")
    return rows.filter(reduce(or_, ours), inside).with_columns(
        nw.when(turned).then(nw.col("b")).otherwise(nw.col("a")).alias("low"),
        nw.when(turned).then(nw.col("a")).otherwise(nw.col("b")).alias("high"),
        otherwise(turned, -1, 1).alias("turn"),
    )


def _signed(rows: Rows, meanings: pl.DataFrame) -> Rows:
    """The rows with their signs and orders, in the form that `merge_orders` takes.

    Words whose meaning depends on the row must be exact names of systems.
    """
    exact = (pl.col("said") == pl.col("a")) | (pl.col("said") == pl.col("b"))
    words = meanings.group_by("said").agg(pl.col("meaning").unique(), names=exact.all()).filter(~pl.col("names"))
    loose = words.filter(pl.col("meaning").list.len() > 1)["said"].sort()
    if loose.len():
        raise InputError(
            f"{WHERE}: verdicts {listed(map(repr, loose), limit=3)} match no system "
            "name exactly; write model_a, model_b or tie"
        )
    of_word = dict(words.select("said", pl.col("meaning").list.first()).iter_rows())
    of_order = dict(meanings.select("shown", "first").iter_rows())
    second = nw.when(nw.col("said") == nw.col("b")).then(nw.lit(-1))
    by_name = nw.when(nw.col("said") == nw.col("a")).then(nw.lit(1)).otherwise(second)
    return rows.select(
        "rater",
        "item",
        nw.col("low").alias("system_a"),
        nw.col("high").alias("system_b"),
        (nw.col("turn") * _code("said", of_word, by_name)).alias("sign"),
        (nw.col("turn") * _code("shown", of_order, nw.lit(0))).alias("order"),
    )


def _code(column: str, codes: Mapping[str, int | None], unlisted: nw.Expr) -> nw.Expr:
    """The code (1, 0 or -1) of the word in a column, and `unlisted` for a word without a code."""
    expression = unlisted
    for code in (1, 0, -1):
        if words := [word for word, value in codes.items() if value == code]:
            expression = nw.when(nw.col(column).is_in(words)).then(nw.lit(code)).otherwise(expression)
    return expression


def _combined(comparisons: Rows, people: Sequence[str]) -> Rows:
    """The comparisons with a sign, after the annotators are combined: one row per item, pair and rater."""
    columns = ("rater", *OUTPUTS, "sign", "order")
    decided = comparisons.filter(~nw.col("sign").is_null()).with_columns(nw.col("sign").cast(nw.Int8))
    human = nw.col("rater").is_in(list(people))
    combined = combine_annotators(decided.filter(human), "vote") if len(people) > 1 else decided.filter(human)
    combined = combined.with_columns(nw.lit(HUMAN).alias("rater"))
    return nw.concat([frame.select(*columns) for frame in (combined, decided.filter(~human))])


def _of_items(rows: Rows) -> Rows:
    """For each rater, the number of `items` with a verdict, and the largest number of rows of one item (`most`)."""
    of_item = rows.group_by("rater", "item").agg(nw.len().alias("rows"))
    return of_item.group_by("rater").agg(nw.len().alias("items"), nw.col("rows").max().alias("most"))


def _settled(signed: Rows, rows: Rows, people: Sequence[str], orders: Orders) -> tuple[Rows, list[Note]]:
    """The merged comparisons, with the annotators combined, and notes."""
    keys = ("item", "low", "high", "rater", "repeat", "shown")
    twice = rows.group_by(*keys).agg(nw.len().alias("rows")).filter(nw.col("rows") > 1)
    if doubled := int(collected(twice.select(nw.len())).item()):
        raise InputError(
            f"{WHERE}: {doubled} verdicts occur twice (same item, systems, rater, repeat and order). "
            "If they differ in presentation order, give it in 'order' (ab, ba); if they are repeats, "
            "number them in 'repeat'"
        )
    merged = merge_orders(signed, orders)
    counts = collected(merged.group_by("rater").agg(nw.col("half").sum(), nw.col("contradictory").sum()))
    half, torn = int(counts["half"].sum()), int(counts["contradictory"].sum())
    left = "comparisons are left out" if orders == "consistent" else "verdicts are merged as the sign of the mean"
    return _combined(merged, people), noted(
        (
            "half-judged",
            half,
            f"{half} comparisons are excluded because they were queried in both orders and have a verdict in only "
            "one order",
        ),
        (
            "torn-verdicts",
            torn,
            f"{torn} comparisons have verdicts of one rater that differ between presentation orders or repeats; "
            f"these {left}",
        ),
    )
