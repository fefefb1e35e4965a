"""Words of verdicts, and the presentation order of two systems.

A cell of a verdict names a column (`model_a`, `A`, `1`), a displayed position (`left`, `first`), or a system. The order
follows from the words in a column of orders, or from the order of the names of the systems.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    **dict.fromkeys(("a", "a>b", "a>>b", "b<a", "b<<a", ">", ">>", "aisbetter"), 1.0),
    **dict.fromkeys(("b", "b>a", "b>>a", "a<b", "a<<b", "<", "<<", "bisbetter"), -1.0),
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
BOTH_BAD = ("bothbad", "botharebad", "tiebothbad", "bothbadtie")
TIES = (
    *("tie", "tied", "ties", "draw", "c", "equal", "same", "even", "a=b", "b=a", "=", "neither", "bothgood"),
    *("botharegood", *BOTH_BAD, *TIE_WORDS),
)
EMPTY = ("", "na", "n/a", "nan", "null")
"""Words for a missing verdict, in upper or lower case."""

ALLOWED = (
    "model_a, model_b, tie, both_bad, A, B, C, 1, 2, left, right, the name of a system (full list: documentation, data)"
)

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
"""If at least this proportion of a rater's comparisons occurs in both orders, the order of the names is the displayed
order in all rows of the rater without an order."""

UNKNOWN = ("", "unknown")
ALLOWED_ORDERS = (
    "ab, ba; original, swapped; first, second (order); left, right (position of the system in the first column); "
    "false, true (true: swapped); 0, 1 (1: swapped); 1, 2 (2: second order); the name of the system shown first; "
    "unknown"
)
COMPARISON = ("item", "low", "high", "rater", "aspect", "repeat")


def normalise_words(words: pl.Series) -> pl.Series:
    """Words in lower case without marks and blanks.

    >>> normalise_words(pl.Series(["[[A]]", "Tie (both bad)"])).to_list()
    ['a', 'tiebothbad']
    """
    return words.str.to_lowercase().str.replace_all(MARKS, "")


def look_up(cells: pl.Series, code_of_cell: Mapping[Any, float]) -> pl.Series:
    """The code of each cell; null for a cell without a code."""
    return cells.replace_strict(code_of_cell, default=None, return_dtype=pl.Float64)


def without_empty(verdict_cells: pl.Series) -> pl.Series:
    """Cells as text, with '' for a missing verdict."""
    return verdict_cells.set(verdict_cells.str.to_lowercase().is_in(EMPTY), "")


def interpret_cells(
    verdict_cells: pl.Series, first_systems: pl.Series, second_systems: pl.Series, *, where: str, is_own_format: bool
) -> pl.DataFrame:
    """A table with the meaning of each cell. `first_systems` and `second_systems` are the systems of the columns.

    `preference` is 1 for the first column, 0 for a tie, -1 for the second column, and null if the cell is unreadable or
    empty. `place` is 1 or -1 for cells that prefer the output shown first or second, else null. `unsure` marks cells
    that are read as a column but may name a position. `both_bad` marks cells that mean that both outputs are bad.

    With `is_own_format`, the columns are in the format of custodes, so 0 is always a tie. If all cells are 1, 0, -1 or
    empty, no cell is then the name of a system. Raises `InputError` if a number, or a name that is also a word, has two
    meanings.
    """
    normalised_words = normalise_words(verdict_cells)
    number_signs, has_system_numbers = _interpret_numbers(verdict_cells, where=where, allows_ties=is_own_format)
    position_word_signs = look_up(normalised_words, PLACES)
    code_signs = number_signs.fill_null(
        look_up(normalised_words, UNSURE | COLUMNS | dict.fromkeys(TIES, 0.0))
    ).fill_null(position_word_signs)
    # A name counts exactly, or up to case and surrounding marks.
    cell_and_system_series = (verdict_cells, first_systems, second_systems)
    system_name_signs = match_system(*cell_and_system_series).fill_null(
        match_system(*map(_normalise_labels, cell_and_system_series))
    )
    if is_own_format and verdict_cells.is_in(["1", "0", "-1", ""]).all():
        system_name_signs = system_name_signs.clear(verdict_cells.len())
    refuse(
        (system_name_signs != code_signs).fill_null(False),
        lambda rows, row_index: (
            f"{where}: {verdict_cells.name} {verdict_cells[row_index]!r} in row {rows} is ambiguous: the code for "
            f"one system is the name of the other system ({first_systems[row_index]!r}, "
            f"{second_systems[row_index]!r}); write model_a, model_b or tie"
        ),
    )
    is_column_or_position_cell = (
        normalised_words.is_in(list(UNSURE)) | (has_system_numbers & number_signs.is_not_null())
    ) & system_name_signs.is_null()
    return pl.DataFrame(
        {
            "preference": code_signs.fill_null(system_name_signs),
            "place": position_word_signs.set(system_name_signs.is_not_null(), None),
            "unsure": is_column_or_position_cell & (code_signs != 0).fill_null(False),
            "both_bad": normalised_words.is_in(BOTH_BAD),
        }
    )


def match_system(cells: pl.Series, first_labels: pl.Series, second_labels: pl.Series) -> pl.Series:
    """1 if a cell is the first label of the row, and -1 if it is the second label. Null if the cell is both labels,
    neither label or empty.

    >>> match_system(pl.Series(["a", "b", "c"]), pl.Series(["a"] * 3), pl.Series(["b"] * 3)).to_list()
    [1.0, -1.0, None]
    """
    match_signs = (cells == first_labels).cast(pl.Float64) - (cells == second_labels).cast(pl.Float64)
    return match_signs.set((match_signs == 0) | (cells == ""), None)


def _normalise_labels(labels: pl.Series) -> pl.Series:
    """Labels in lower case, without surrounding blanks and marks."""
    return labels.str.strip_chars().str.to_lowercase().str.strip_chars(" \t[](){}\"'*`.")


def _interpret_numbers(verdict_cells: pl.Series, *, where: str, allows_ties: bool) -> tuple[pl.Series, bool]:
    """The verdict that each number means, inferred from the distinct numbers in the column; and whether 1 and 2 stand
    for the first and second system."""
    numbers = verdict_cells.str.replace_all(r"[\s\[\](){}]", "").cast(pl.Float64, strict=False)
    distinct_numbers = set(numbers.drop_nulls().drop_nans().unique())
    numbers_text = join_labels((f"{number:g}" for number in sorted(distinct_numbers)), limit=7)
    refuse(
        numbers < -1,
        lambda rows, _: (
            f"{where}: {verdict_cells.name} is {numbers_text}, a graded scale of unknown direction (row "
            f"{rows}); write 1 if the system of the first column is better, 0 for a tie, -1 otherwise"
        ),
    )
    is_signed_scale = -1.0 in distinct_numbers or not distinct_numbers & {0.5, 2.0}
    refuse(
        (numbers == 0)
        & (-1.0 not in distinct_numbers and (is_signed_scale or 2.0 in distinct_numbers) and not allows_ties),
        lambda rows, _: (
            f"{where}: {verdict_cells.name} is {numbers_text}, where 0 (row {rows}) may be a tie or a system; "
            "write model_a, model_b, tie"
        ),
    )
    sign_of_number = MARGINS if is_signed_scale else SLOTS if 2.0 in distinct_numbers else SHARES
    return look_up(numbers, sign_of_number), sign_of_number is SLOTS


def read_orders(
    verdict_table: pl.DataFrame, frame: pl.DataFrame, *, where: str, is_own_format: bool
) -> tuple[pl.Series, list[Note]]:
    """The order of each row, and notes. The order is 1 if the system of the first column was shown first, and -1 if the
    system of the second column was shown first. It is 0 if the order is unknown.

    `verdict_table` has item, system_a, system_b, rater and optionally aspect and repeat as text; `frame` may have
    `order`. If a comparison of a rater occurs as (A, B) and as (B, A), the outputs were shown in both orders. The
    names are then read as the displayed order, unless the column of orders contradicts this reading. If this holds for
    at least half of the comparisons of a rater, the names are read as the displayed order in all rows of the rater
    that lack an order. With `is_own_format`, the columns are in the format of custodes, so `ab` and `ba` are never
    names of systems.
    """
    order_cells = label_column(frame, "order", where=where, empty=True)
    normalised_order_words = order_cells.str.to_lowercase().str.replace_all(ORDER_MARKS, "")
    signs_from_flags = _interpret_order_numbers(normalised_order_words, where=where).fill_null(
        look_up(normalised_order_words, FLAGS)
    )
    signs_from_names = match_system(order_cells, verdict_table["system_a"], verdict_table["system_b"])
    if is_own_format and order_cells.is_in(["ab", "ba", ""]).all():
        signs_from_names = signs_from_names.clear(order_cells.len())
    order_signs = signs_from_names.fill_null(look_up(normalised_order_words, ORDER_NAMES)).fill_null(signs_from_flags)
    is_unread_order = (
        order_signs.is_null()
        & ~normalised_order_words.is_in(UNKNOWN)
        & (verdict_table["system_a"] != verdict_table["system_b"])
    )
    refuse_values(order_cells, is_unread_order, where=where, allowed=ALLOWED_ORDERS)
    order_signs = order_signs.fill_null(0.0)
    comparison_rows = verdict_table.select(
        "rater",
        *(
            pl.col(key_column_name) if key_column_name in verdict_table.columns else pl.lit("").alias(key_column_name)
            for key_column_name in ("item", "aspect", "repeat")
        ),
        low=pl.min_horizontal("system_a", "system_b"),
        high=pl.max_horizontal("system_a", "system_b"),
        turn=pl.when(pl.col("system_a") < pl.col("system_b")).then(1.0).otherwise(-1.0),
        stated=order_signs,
        flagged=signs_from_flags.is_not_null(),
        free=signs_from_flags.is_not_null() | (order_signs == 0),
    )
    if not has_duplicate_key(comparison_rows, COMPARISON).any():  # no comparison occurs twice, so none in two orders
        return order_signs.alias("shown"), []
    is_in_both_orders = pl.col("turn").n_unique().over(COMPARISON) == 2
    shows_same_system_first = (pl.col("stated") * pl.col("turn")).n_unique().over(COMPARISON) == 1
    comparison_rows = comparison_rows.with_columns(
        swapped=is_in_both_orders & shows_same_system_first & pl.col("free"),
        torn=is_in_both_orders & ~shows_same_system_first,
        against=is_in_both_orders & shows_same_system_first & ~pl.col("free"),
    )
    refuse(
        comparison_rows["against"],
        lambda numbers, row_index: (
            f"{where}: rows {numbers} name the same two systems in opposite orders, but according to order "
            f"{order_cells[row_index]!r} the same system was shown first in all these rows. If the names are in the "
            "displayed order, write original and swapped as orders"
        ),
    )
    rater_swap_rate = pl.col("swapped").filter(pl.struct(COMPARISON).is_first_distinct()).mean().over("rater")
    has_rater_swap = pl.col("swapped").any().over("rater")
    is_in_displayed_order = (
        pl.col("free")
        & ~pl.col("torn").any().over("rater")
        & (
            pl.col("swapped")
            | ((pl.col("swapped") & pl.col("flagged")).any().over("rater") & pl.col("flagged"))
            | ((rater_swap_rate >= MIN_SHARE) & has_rater_swap)
        )
    )
    comparison_rows = comparison_rows.with_columns(shown=pl.when(is_in_displayed_order).then(1.0).otherwise("stated"))
    n_swapped_comparisons = comparison_rows.filter("swapped").select(COMPARISON).n_unique()
    n_unknown_orders = comparison_rows.filter(has_rater_swap & (pl.col("shown") == 0)).height
    unknown_orders_text = (
        f"; the order of {n_unknown_orders} further verdicts is unknown, as too few comparisons occur in both orders"
        if n_unknown_orders
        else ""
    )
    return comparison_rows["shown"], build_notes(
        (
            "order-by-names",
            n_swapped_comparisons,
            f"{where}: {n_swapped_comparisons} comparisons occur as (A, B) and as (B, A) and are read as the two "
            f"presentation orders; the system named first was shown first{unknown_orders_text}",
        )
    )


def _interpret_order_numbers(order_words: pl.Series, *, where: str) -> pl.Series:
    """Orders from numbers: 0 and 1 mean unswapped and swapped, and 1 and 2 mean the first and the second order. A
    column with only 1 is ambiguous."""
    numbers = order_words.cast(pl.Int64, strict=False)
    distinct_numbers = set(numbers.drop_nulls())
    is_clear_code = distinct_numbers in ({0}, {2}, {0, 1}, {1, 2})
    refuse(
        numbers.is_not_null() & (not is_clear_code),
        lambda rows, _: (
            f"{where}: the meaning of order {', '.join(map(str, sorted(distinct_numbers)))} (rows {rows}) is "
            "unclear; allowed numbers are 0, 1 (1: swapped) or 1, 2 (first or second order); write ab or ba"
        ),
    )
    return look_up(numbers, {0: 1.0, 1: -1.0} if 0 in distinct_numbers else {1: 1.0, 2: -1.0})
