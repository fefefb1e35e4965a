"""Verdicts in a table of any engine: columns by role, frequencies of words, and meanings of words."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from custodes.data.comparisons import HUMAN
from custodes.data.readers.battles import WRITTEN
from custodes.data.readers.orders import FLAGS, MARKS, NAMED, UNKNOWN
from custodes.data.readers.verdict_words import ALLOWED, EMPTY, what_is_said
from custodes.data.table_engines import collected, lazy_rows
from custodes.errors import InputError, listed

WHERE = "count_battles"
SIDES = (("model_a", "model_b"), ("system_a", "system_b"))
SAID = ("winner", "preference")


def rows_of(table: Any) -> tuple[nw.LazyFrame[Any], bool, bool]:
    """A table with the columns item, a, b, said, rater, kind, aspect, shown, repeat (all text except the item), `empty`
    and `invalid`.

    The second result is whether the table has kinds, and the third result is whether the columns are in the format of
    custodes.
    """
    rows = lazy_rows(table, where=WHERE)
    schema = rows.collect_schema()
    sides = next((names for names in SIDES if set(names) <= set(schema)), None)
    verdict = next((name for name in SAID if name in schema), None)
    if "item" not in schema or sides is None or verdict is None:
        raise InputError(
            f"{WHERE}: columns are {listed(schema)}; needed are item, model_a, model_b (or system_a, system_b) and"
            " winner (or preference)"
        )
    rater = next((name for name in ("rater", "judge") if name in schema), None)

    def text(name: str | None, otherwise: str = "") -> nw.Expr:
        if name is None or name not in schema:
            return nw.lit(otherwise)
        number = schema[name].is_float()  # engines format 1.0 differently
        return (nw.col(name).cast(nw.Int64) if number else nw.col(name)).cast(nw.String).fill_null(otherwise)

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


def survey_of(rows: nw.LazyFrame[Any]) -> pl.DataFrame:
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


def understood(survey: pl.DataFrame, *, written: bool) -> pl.DataFrame:
    """The frequencies with `system_a` < `system_b`, the `sign` of system_a (null: no verdict) and the `order`."""
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
        pl.Series("sign", meaning.preference * forward).cast(pl.Int64),
        pl.Series("order", order * forward + 0.0).cast(pl.Int64),
        (meaning.unsure & (order < 0)).alias("turned"),
        system_a=pl.min_horizontal("a", "b"),
        system_b=pl.max_horizontal("a", "b"),
    )
