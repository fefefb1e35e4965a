"""Presentation order of two systems, from the words in a column of orders, or from the order of names."""

from __future__ import annotations

import polars as pl

from custodes.data.notes import Note, build_notes
from custodes.data.readers.verdict_words import match_system
from custodes.data.table import has_duplicate_key, label_column, refuse, refuse_values

MARKS = r"[\s_\-,/|>()\[\]]"
ORDER_NAMES = {
    **dict.fromkeys(
        ("ab", "a", "afirst", "aleft", "leftisa", "modela", "modelafirst", "systema", "systemafirst", "left"), 1.0
    ),
    **dict.fromkeys(
        ("ba", "b", "bfirst", "bleft", "leftisb", "modelb", "modelbfirst", "systemb", "systembfirst", "right"), -1.0
    ),
}
"""Words for orders, in lower case without blanks and marks; 1 if the system in the first column was shown first."""

FLAGS = {
    **dict.fromkeys(
        ("original", "orig", "normal", "standard", "forward", "unswapped", "notswapped", "false", "no", "n"), 1.0
    ),
    **dict.fromkeys(
        ("swapped", "swap", "reversed", "reverse", "inverted", "flipped", "switched", "true", "yes", "y"), -1.0
    ),
    **dict.fromkeys(("first", "1st"), 1.0),
    **dict.fromkeys(("second", "2nd"), -1.0),
}
"""Words that say whether the outputs were swapped, or whether the order is the first or the second."""

MIN_SHARE = 0.5
"""If at least this proportion of the comparisons of a rater occurs in both orders, the names in all rows of the rater
without an order are read as the displayed order."""

UNKNOWN = ("", "unknown")
OWN_ORDERS = ("ab", "ba", "")
"""Orders in our own format."""
ALLOWED = (
    "ab, ba; original, swapped; first, second (order); left, right (position of the system in the first column); "
    "false, true (true: swapped); 0, 1 (1: swapped); 1, 2 (2: second order); the name of the system shown first; "
    "unknown"
)
COMPARISON = ("item", "low", "high", "rater", "aspect", "repeat")


def read_orders(table: pl.DataFrame, frame: pl.DataFrame, *, where: str, written: bool) -> tuple[pl.Series, list[Note]]:
    """The order of each row, and notes. The order is 1 if the system of the first column was shown first, -1 if the
    system of the second column was shown first, 0 if unknown.

    `table` has item, system_a, system_b, rater and optionally aspect and repeat as text; `frame` may have `order`. If a
    comparison of a rater occurs as (A, B) and as (B, A), the outputs were shown in both orders, and the names are read
    as the displayed order, unless the column of orders contradicts this reading. If at least half of the comparisons of
    a rater occur in both orders, the names in all rows of the rater without an order are read as the displayed order.
    With `written`, the columns are in the format of custodes, so `ab` and `ba` are never names of systems.
    """
    order = label_column(frame, "order", where=where, empty=True)
    order_words = order.str.to_lowercase().str.replace_all(MARKS, "")
    sign_by_flag = pl.select(
        pl.coalesce(_interpret_numbers(order_words, where=where), _look_up_words(order_words, FLAGS))
    ).to_series()
    sign_by_name = match_system(order, table["system_a"].str.strip_chars(), table["system_b"].str.strip_chars())
    if written and order.is_in(OWN_ORDERS).all():
        sign_by_name = sign_by_name.clear(order.len())
    order_sign = pl.select(
        pl.coalesce(sign_by_name, _look_up_words(order_words, ORDER_NAMES), sign_by_flag)
    ).to_series()
    is_unread = order_sign.is_null() & ~order_words.is_in(UNKNOWN) & (table["system_a"] != table["system_b"])
    refuse_values(order, is_unread, where=where, allowed=ALLOWED)
    order_sign = order_sign.fill_null(0.0)
    if not has_duplicate_key(table, ["item", "rater"]).any():  # no comparison occurs twice, so none in two orders
        return order_sign.alias("shown"), []
    is_forward = pl.col("system_a") < pl.col("system_b")
    rows = table.select(
        "rater",
        *(pl.col(name) if name in table.columns else pl.lit("").alias(name) for name in ("item", "aspect", "repeat")),
        low=pl.min_horizontal("system_a", "system_b"),
        high=pl.max_horizontal("system_a", "system_b"),
        turn=pl.when(is_forward).then(1.0).otherwise(-1.0),
        stated=order_sign,
        flagged=sign_by_flag.is_not_null(),
        free=sign_by_flag.is_not_null() | (order_sign == 0),
    )
    if not has_duplicate_key(rows, COMPARISON).any():
        return order_sign.alias("shown"), []
    rows = rows.with_columns(facing=pl.col("turn").n_unique().over(COMPARISON) == 2)
    is_same_first = (pl.col("stated") * pl.col("turn")).n_unique().over(COMPARISON) == 1
    rows = rows.with_columns(
        swapped=pl.col("facing") & is_same_first & pl.col("free"),
        torn=pl.col("facing") & ~is_same_first,
        against=pl.col("facing") & is_same_first & ~pl.col("free"),
    )
    refuse(
        rows["against"],
        lambda numbers, row_index: (
            f"{where}: rows {numbers} name the same two systems in opposite orders, but according to order "
            f"{order[row_index]!r} the same system was shown first in all these rows. If the names are in "
            "the displayed order, write original and swapped"
        ),
    )
    if not rows["swapped"].any():
        return rows["stated"].alias("shown"), []
    swapped_rate = pl.col("swapped").filter(pl.struct(COMPARISON).is_first_distinct()).mean().over("rater")
    has_flagged_swap = (pl.col("swapped") & pl.col("flagged")).any().over("rater") & pl.col("flagged")
    is_as_named = (
        pl.col("free")
        & ~pl.col("torn").any().over("rater")
        & (pl.col("swapped") | has_flagged_swap | ((swapped_rate >= MIN_SHARE) & pl.col("swapped").any().over("rater")))
    )
    rows = rows.with_columns(shown=pl.when(is_as_named).then(1.0).otherwise("stated"))
    n_pairs = rows.filter("swapped").select(COMPARISON).n_unique()
    rows_of_swapping_raters = rows.filter(pl.col("swapped").any().over("rater"))
    n_unknown = rows_of_swapping_raters.filter(pl.col("shown") == 0).height
    unknown_text = (
        f"; the order of {n_unknown} further verdicts is unknown, as too few comparisons occur in both orders"
        if n_unknown
        else ""
    )
    message = (
        f"{where}: {n_pairs} comparisons occur as (A, B) and as (B, A) and are read as the two "
        f"presentation orders; the system named first was shown first{unknown_text}"
    )
    return rows["shown"], build_notes(("order-by-names", n_pairs, message))


def _look_up_words(order_words: pl.Series, code_of_word: dict[str, float]) -> pl.Series:
    return order_words.replace_strict(code_of_word, default=None, return_dtype=pl.Float64)


def _interpret_numbers(order_words: pl.Series, *, where: str) -> pl.Series:
    """Orders from numbers: 0 and 1 mean unswapped and swapped, and 1 and 2 mean the first and the second order. A
    column with only 1 is ambiguous."""
    numbers = order_words.cast(pl.Int64, strict=False)
    distinct_numbers = set(numbers.drop_nulls())
    possible_codings = [
        name
        for name, allowed_numbers in {"0, 1": {0, 1}, "1, 2": {1, 2}}.items()
        if distinct_numbers <= allowed_numbers
    ]
    if distinct_numbers and len(possible_codings) != 1:
        refuse(
            numbers.is_not_null(),
            lambda rows, _: (
                f"{where}: the meaning of order {', '.join(map(str, sorted(distinct_numbers)))} (rows {rows}) is "
                "unclear, as the allowed numbers are 0, 1 (swapped) or 1, 2 (first or second order); write ab or ba"
            ),
        )
    sign_of_number = {0: 1.0, 1: -1.0} if 0 in distinct_numbers else {1: 1.0, 2: -1.0}
    return numbers.replace_strict(sign_of_number, default=None, return_dtype=pl.Float64)
