"""Words of verdicts: the system that a cell prefers.

A cell names a column (`model_a`, `A`, `1`), a displayed position (`left`, `first`), or a system.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches

import polars as pl

from custodes.data.mapping.column_vocabulary import TIE_WORDS
from custodes.data.table import refuse
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
    sign_by_word = normalised_words.replace_strict(sign_of_word, default=None, return_dtype=pl.Float64)
    position_sign = normalised_words.replace_strict(PLACES, default=None, return_dtype=pl.Float64)
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
    return numbers.replace_strict(sign_of_number, default=None, return_dtype=pl.Float64), sign_of_number is SLOTS
