"""Words of verdicts, and the presentation order of two systems.

A cell of a verdict names a column (`model_a`, `A`, `1`), a displayed position (`left`, `first`), or a system. The order
follows from the words in a column of orders, or from the order of the names of the systems.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import polars as pl

from custodes.data.mapping.column_vocabulary import TIE_WORDS
from custodes.data.notes import Note, build_notes
from custodes.data.table import has_duplicate_key, label_column, refuse, refuse_values
from custodes.errors import join_labels

THINGS = ("model", "system", "assistant", "response", "output", "answer")
MARKS = r"""[\s_\-()\[\]{}*"'`.:]"""
"""Characters that are ignored in a word."""

UNSURE = {
    **dict.fromkeys(("a", "a>b", "a>>b", "b<a", "b<<a"), 1.0),
    **dict.fromkeys(("b", "b>a", "b>>a", "a<b", "a<<b"), -1.0),
    **{f"{thing}{mark}": sign for thing in THINGS[2:] for mark, sign in {"a": 1.0, "b": -1.0}.items()},
    **{f"{thing}{mark}": sign for thing in THINGS for mark, sign in {"1": 1.0, "2": -1.0}.items()},
}
"""Words that are read as columns, but may mean positions in data with both presentation orders."""

COLUMNS = {
    **{f"{thing}{mark}": sign for thing in THINGS[:2] for mark, sign in {"a": 1.0, "b": -1.0}.items()},
    **dict.fromkeys(("win", "wins", "won"), 1.0),
    **dict.fromkeys(("lose", "loses", "loss", "lost"), -1.0),
}
PLACES = {"left": 1.0, "first": 1.0, "1st": 1.0, "right": -1.0, "second": -1.0, "2nd": -1.0}
BOTH_BAD = ("bothbad", "tiebothbad", "bothbadtie")
TIES = ("tie", "tied", "ties", "draw", "c", "equal", "same", "even", "a=b", "b=a", "bothgood", *BOTH_BAD, *TIE_WORDS)
EMPTY = ("", "na", "n/a", "nan", "null")
"""Words for a missing verdict, in upper or lower case."""

ALLOWED = (
    "model_a, model_b, tie, both_bad, A, B, C, 1, 2, left, right, the name of a system (full list: documentation, data)"
)
SUGGESTIONS = ("model_a", "model_b", "left", "right", "first", "second")
"""Words that are suggested for an unreadable word."""

SIGNS = ("1", "0", "-1", "")
"""Verdicts in our own format."""
MARGINS = {1.0: 1.0, 0.0: 0.0, -1.0: -1.0}
SLOTS = {1.0: 1.0, 1.5: 0.0, 2.0: -1.0}
SHARES = {1.0: 1.0, 0.5: 0.0, 0.0: -1.0}

ORDER_MARKS = r"[\s_\-,/|>()\[\]]"
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
ALLOWED_ORDERS = (
    "ab, ba; original, swapped; first, second (order); left, right (position of the system in the first column); "
    "false, true (true: swapped); 0, 1 (1: swapped); 1, 2 (2: second order); the name of the system shown first; "
    "unknown"
)
COMPARISON = ("item", "low", "high", "rater", "aspect", "repeat")


@dataclass(frozen=True, kw_only=True)
class VerdictMeaning:
    """The meaning of the cell in each row.

    `preference` is 1 for the first column, 0 for a tie, -1 for the second column, and null if the cell is unreadable or
    empty. `place` is 1 or -1 for cells that prefer the output shown first or second, else null. `unsure` marks cells
    that are read as a column but may name a position. `both_bad` marks cells that mean that both outputs are bad.
    """

    preference: pl.Series
    place: pl.Series
    unsure: pl.Series
    both_bad: pl.Series


def normalise_words(words: pl.Series) -> pl.Series:
    """Words in lower case without marks and blanks.

    >>> normalise_words(pl.Series(["[[A]]", "Tie (both bad)"])).to_list()
    ['a', 'tiebothbad']
    """
    return words.str.to_lowercase().str.replace_all(MARKS, "")


def look_up(cells: pl.Series, code_of_cell: Mapping[Any, float]) -> pl.Series:
    """The code of each cell; null for a cell without a code."""
    return cells.replace_strict(code_of_cell, default=None, return_dtype=pl.Float64)


def without_empty(verdict: pl.Series) -> pl.Series:
    """Cells as text, with '' for a missing verdict."""
    return verdict.set(verdict.str.to_lowercase().is_in(EMPTY), "")


def interpret_cells(
    verdict: pl.Series, first: pl.Series, second: pl.Series, *, where: str, written: bool
) -> VerdictMeaning:
    """The meaning of each cell. `first` and `second` are the names of the systems of each row, in column order.

    With `written`, the columns are in the format of custodes, so 0 is always a tie, and no cell is the name of a system
    if all cells are in `SIGNS`. Raises `InputError` if a number, or a name that is also a word, has two meanings.
    """
    normalised_words = normalise_words(verdict)
    sign_by_number, has_slots = _interpret_numbers(verdict, where=where, allows_ties=written)
    sign_of_word = UNSURE | COLUMNS | dict.fromkeys(TIES, 0.0)
    sign_by_word, position_sign = look_up(normalised_words, sign_of_word), look_up(normalised_words, PLACES)
    sign = pl.select(pl.coalesce(sign_by_number, sign_by_word, position_sign)).to_series()
    sign_by_name = _match_system_names(verdict, first, second)
    if written and verdict.is_in(SIGNS).all():
        sign_by_name = sign_by_name.clear(verdict.len())
    refuse(
        (sign_by_name != sign).fill_null(False),
        lambda rows, row_index: (
            f"{where}: {verdict.name} {verdict[row_index]!r} in row {rows} is ambiguous: the code for one system "
            f"is the name of the other system ({first[row_index]!r}, {second[row_index]!r}); write model_a, model_b "
            "or tie"
        ),
    )
    is_unsure = (
        normalised_words.is_in(list(UNSURE)) | (has_slots & sign_by_number.is_not_null())
    ) & sign_by_name.is_null()
    return VerdictMeaning(
        preference=pl.select(pl.coalesce(sign, sign_by_name)).to_series(),
        place=position_sign.set(sign_by_name.is_not_null(), None),
        unsure=is_unsure & (sign != 0).fill_null(False),
        both_bad=normalised_words.is_in(BOTH_BAD),
    )


def guess_meaning(word: str, systems: Collection[str]) -> str:
    """The probable meaning of an unreadable word; '' if no known word is similar."""
    plain_word = normalise_words(pl.Series([word])).item()
    if any(tie_word in plain_word for tie_word in ("tie", "equal", "same", "both", "neither", "draw")):
        return "tie"
    candidates = {normalise_words(pl.Series([name])).item(): name for name in [*SUGGESTIONS, *systems]}
    return next(
        (candidates[close_word] for close_word in get_close_matches(plain_word, candidates, n=1, cutoff=0.75)), ""
    )


def _match_system_names(verdict: pl.Series, first: pl.Series, second: pl.Series) -> pl.Series:
    """1 or -1 if a cell names the first or the second system of the row, exactly or up to case and surrounding
    marks."""
    cells, *system_labels = (_normalise_labels(column.unique()) for column in (verdict, first, second))
    if not cells.filter(cells != "").is_in(pl.concat(system_labels).implode()).any():
        return pl.repeat(None, verdict.len(), dtype=pl.Float64, eager=True)
    columns = [verdict, first.str.strip_chars(), second.str.strip_chars()]
    exact_sign, normalised_sign = match_system(*columns), match_system(*map(_normalise_labels, columns))
    return pl.select(pl.coalesce(exact_sign, normalised_sign)).to_series()


def match_system(cells: pl.Series, first: pl.Series, second: pl.Series) -> pl.Series:
    """1 if a cell is the first label of the row, -1 if the cell is the second label, null if the cell is both labels,
    neither label or empty.

    >>> match_system(pl.Series(["a", "b", "c"]), pl.Series(["a"] * 3), pl.Series(["b"] * 3)).to_list()
    [1.0, -1.0, None]
    """
    sign = (cells == first).cast(pl.Float64) - (cells == second).cast(pl.Float64)
    return sign.set((sign == 0) | (cells == ""), None)


def _normalise_labels(labels: pl.Series) -> pl.Series:
    """Labels in lower case, without surrounding blanks and marks."""
    return labels.str.strip_chars().str.to_lowercase().str.strip_chars(" \t[](){}\"'*`.")


def _interpret_numbers(verdict: pl.Series, *, where: str, allows_ties: bool) -> tuple[pl.Series, bool]:
    """The meaning of numbers according to the set of numbers in the column, and whether 1 and 2 mean the two
    systems."""
    numbers = verdict.str.replace_all(r"[\s\[\](){}]", "").cast(pl.Float64, strict=False)
    distinct_numbers = set(numbers.drop_nulls().drop_nans().unique())
    numbers_text = join_labels((f"{number:g}" for number in sorted(distinct_numbers)), limit=7)
    refuse(
        numbers < -1,
        lambda rows, _: (
            f"{where}: {verdict.name} is {numbers_text}, a graded scale of unknown direction (row "
            f"{rows}); write 1 if the system of the first column is better, 0 for a tie, -1 otherwise"
        ),
    )
    is_signed_scale = -1.0 in distinct_numbers or not distinct_numbers & {0.5, 2.0}
    refuse(
        (numbers == 0)
        & (-1.0 not in distinct_numbers and (is_signed_scale or 2.0 in distinct_numbers) and not allows_ties),
        lambda rows, _: (
            f"{where}: {verdict.name} is {numbers_text}, where 0 (row {rows}) may be a tie or a system; "
            "write model_a, model_b, tie"
        ),
    )
    sign_of_number = MARGINS if is_signed_scale else SLOTS if 2.0 in distinct_numbers else SHARES
    return look_up(numbers, sign_of_number), sign_of_number is SLOTS


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
    order_words = order.str.to_lowercase().str.replace_all(ORDER_MARKS, "")
    sign_by_flag = pl.select(
        pl.coalesce(_interpret_order_numbers(order_words, where=where), look_up(order_words, FLAGS))
    ).to_series()
    sign_by_name = match_system(order, table["system_a"].str.strip_chars(), table["system_b"].str.strip_chars())
    if written and order.is_in(OWN_ORDERS).all():
        sign_by_name = sign_by_name.clear(order.len())
    order_sign = pl.select(pl.coalesce(sign_by_name, look_up(order_words, ORDER_NAMES), sign_by_flag)).to_series()
    is_unread = order_sign.is_null() & ~order_words.is_in(UNKNOWN) & (table["system_a"] != table["system_b"])
    refuse_values(order, is_unread, where=where, allowed=ALLOWED_ORDERS)
    order_sign = order_sign.fill_null(0.0)
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
    if not has_duplicate_key(rows, COMPARISON).any():  # no comparison occurs twice, so none in two orders
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


def _interpret_order_numbers(order_words: pl.Series, *, where: str) -> pl.Series:
    """Orders from numbers: 0 and 1 mean unswapped and swapped, and 1 and 2 mean the first and the second order. A
    column with only 1 is ambiguous."""
    numbers = order_words.cast(pl.Int64, strict=False)
    distinct_numbers = set(numbers.drop_nulls())
    is_clear = distinct_numbers <= {0, 1, 2} and (0 in distinct_numbers) != (2 in distinct_numbers)
    refuse(
        numbers.is_not_null() & (not is_clear),
        lambda rows, _: (
            f"{where}: the meaning of order {', '.join(map(str, sorted(distinct_numbers)))} (rows {rows}) is "
            "unclear, as the allowed numbers are 0, 1 (swapped) or 1, 2 (first or second order); write ab or ba"
        ),
    )
    sign_of_number = {0: 1.0, 1: -1.0} if 0 in distinct_numbers else {1: 1.0, 2: -1.0}
    return look_up(numbers, sign_of_number)
