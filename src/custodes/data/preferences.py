"""Preferences: the long table of pairwise verdicts from a file."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import narwhals as nw
import polars as pl

from custodes.data.mapping.column_vocabulary import find_columns
from custodes.data.notes import Note, build_notes
from custodes.data.table import (
    bounded_column,
    check_columns,
    check_unique,
    filter_rows,
    format_counts,
    has_duplicate_key,
    label_column,
    number_column,
    refuse,
    refuse_values,
    to_polars,
)
from custodes.data.ties_and_orders import Orders, merge_orders, merging_notes
from custodes.errors import InputError, join_labels

KEY = ("item", "system_a", "system_b", "rater", "aspect", "repeat", "order")
CHANCES = ("p_a", "p_tie", "p_b")
SECONDS = "seconds"
VALUES = ("preference", *CHANCES, SECONDS)
"""Columns with the content of a verdict. All other columns identify the verdict."""
SCHEMA = {**dict.fromkeys(KEY, pl.String), "preference": pl.Int8, **dict.fromkeys((*CHANCES, SECONDS), pl.Float64)}
MISSING = {**dict.fromkeys((*KEY, "why"), pl.String)}
EMPTY, UNREADABLE = "empty", "unreadable"
SUM_TOLERANCE = 1e-3
"""Maximum deviation of the sum of a verdict's probabilities from 1."""
OPTIONAL = ("aspect", "repeat", "order", "invalid", *CHANCES, SECONDS)
INVALID = "invalid-verdict"
"""The note on verdicts that the file marks as invalid."""
REPEAT_WITHOUT_QUERY = "not asked"
"""Value of `repeat` for a tie of two identical outputs, on which the judge was not queried."""
COMPARISON = ("item", "system_a", "system_b", "rater", "aspect")
ORDER_CODES = pl.col("order").replace_strict({"ab": 1.0, "ba": -1.0, "": 0.0}, return_dtype=pl.Float64)
"""Codes of presentation orders: 1 if system_a was shown first, -1 if system_b was shown first, and 0 if the order is
unknown."""


@dataclass(frozen=True, kw_only=True)
class Preferences:
    """Verdicts of raters on pairs of outputs of one item.

    `frame` has item, system_a, system_b, rater, aspect, repeat, order, preference, p_a, p_tie, p_b and the duration in
    seconds (null: unknown). system_a precedes system_b in alphabetical order. `repeat` is 'not asked' for a tie of two
    identical outputs (see `queried_verdicts`). `order` is 'ab' or 'ba', the order in which the outputs were shown, or
    '' if unknown. `preference` is 1 if system_a is better, 0 for a tie, and -1 if system_b is better. p_a, p_tie and
    p_b are the probabilities of these preferences according to the rater. `missing` has the queries without an answer,
    with the columns up to order and `why` (the reason in the file, or 'empty' or 'unreadable'). Questions treat
    queries without an answer as not rated; `consistency` counts these queries.
    """

    frame: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=SCHEMA))
    missing: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=MISSING))

    @classmethod
    def make(
        cls,
        table: Any,
        *,
        where: str = "preferences",
        ignore: tuple[str, ...] = (),
        unreadable: pl.Series | None = None,
        unused: Sequence[str] = (),
    ) -> tuple[Preferences, list[Note]]:
        """Check a table with the columns `item, system_a, system_b, rater, preference`. Optional columns are `aspect`,
        `repeat`, `order`, `invalid`, `p_a`, `p_tie`, `p_b` and `seconds`.

        The systems of a row are exchanged if system_a > system_b. An empty preference is a missing verdict, which is
        counted and stored in `missing` with the reason in `invalid`. `unreadable` marks rows whose verdict could not be
        read. `unused` are columns of the file that may distinguish duplicate rows.

        >>> verdicts = pl.DataFrame(
        ...     {"item": [1], "system_a": ["B"], "system_b": ["A"], "rater": ["judge"], "preference": [1]}
        ... )
        >>> Preferences.make(verdicts)[0].frame.row(0)
        ('1', 'A', 'B', 'judge', '', '0', '', -1, None, None, None, None)
        """
        input_frame = to_polars(table, where=where)
        notes = check_columns(
            input_frame,
            where=where,
            required=("item", "system_a", "system_b", "rater", "preference"),
            optional=(*OPTIONAL, *ignore),
        )
        if input_frame.height == 0:
            raise InputError(f"{where}: no rows; a study needs at least one verdict")
        verdict_rows = pl.DataFrame(
            [
                *(
                    label_column(input_frame, column_name, where=where)
                    for column_name in ("item", "system_a", "system_b", "rater")
                ),
                label_column(input_frame, "aspect", where=where, empty=True),
                label_column(input_frame, "repeat", where=where, empty=True).replace("", "0"),
                label_column(input_frame, "order", where=where, empty=True).str.to_lowercase().replace("unknown", ""),
                number_column(input_frame, "preference", where=where),
                label_column(input_frame, "invalid", where=where, empty=True),
                *_read_probabilities(input_frame, where=where),
                bounded_column(
                    input_frame, SECONDS, math.inf, where=where, allowed="a number of seconds of at least 0, or empty"
                ),
            ]
        )
        _check_values(verdict_rows, where=where)
        n_ignored_probabilities = verdict_rows.filter(
            pl.col("preference").is_null() & pl.col("p_a").is_not_null()
        ).height
        is_reversed_pair = pl.col("system_a") > pl.col("system_b")
        verdict_rows = verdict_rows.with_columns(
            system_a=pl.min_horizontal("system_a", "system_b"),
            system_b=pl.max_horizontal("system_a", "system_b"),
            order=pl.when(is_reversed_pair).then(pl.col("order").replace({"ab": "ba", "ba": "ab"})).otherwise("order"),
            preference=pl.when(is_reversed_pair).then(-pl.col("preference")).otherwise("preference").cast(pl.Int8),
            p_a=pl.when(is_reversed_pair).then("p_b").otherwise("p_a"),
            p_b=pl.when(is_reversed_pair).then("p_a").otherwise("p_b"),
        )
        column_name_of_role = {
            role: next(iter(find_columns(role, unused)), "") for role in ("rater", "aspect", "order", "repeat")
        }
        column_options_text = " ".join(
            column_option(role, column_name) for role, column_name in column_name_of_role.items() if column_name
        )
        error_hint = (
            f"{f'try {column_options_text}; ' if column_options_text else ''}if pairs were rated in both presentation "
            "orders, give a column 'order' (ab, "
            f"ba{'' if column_name_of_role['order'] else '; or --column order=NAME'}), or name the systems in the "
            "displayed order; if pairs were rated repeatedly, number the runs in a column 'repeat'"
            f"{f'; columns not used: {join_labels(unused)}' if unused else ''}"
        )
        check_unique(verdict_rows, KEY, where=where, what="verdict", hint=error_hint)
        missing_verdict_rows = verdict_rows.with_columns(
            why=pl.when(pl.col("invalid") != "")
            .then("invalid")
            .when(pl.lit(False if unreadable is None else unreadable))
            .then(pl.lit(UNREADABLE))
            .otherwise(pl.lit(EMPTY))
        ).filter(pl.col("preference").is_null())
        invalid_verdict_rows = missing_verdict_rows.filter(pl.col("invalid") != "")
        n_missing_verdicts = missing_verdict_rows.filter(invalid="", why=EMPTY).height
        notes += build_notes(
            (
                "missing-verdict",
                n_missing_verdicts,
                f"{where}: {n_missing_verdicts} verdicts are empty and count as not rated",
            ),
            (
                INVALID,
                invalid_verdict_rows.height,
                f"{where}: {invalid_verdict_rows.height} verdicts are invalid and count as not rated "
                f"({format_counts(invalid_verdict_rows['invalid'])})",
            ),
            (
                "spare-chances",
                n_ignored_probabilities,
                f"{where}: probabilities in {n_ignored_probabilities} rows without a verdict are ignored",
            ),
        )
        return cls(
            frame=verdict_rows.drop_nulls("preference").select(list(SCHEMA)),
            missing=missing_verdict_rows.select(list(MISSING)),
        ), notes

    def select_rows(self, is_selected_row: pl.Expr) -> Preferences:
        """The rows of verdicts and of missing verdicts that satisfy a condition on their common columns."""
        return Preferences(
            frame=filter_rows(self.frame, is_selected_row), missing=filter_rows(self.missing, is_selected_row)
        )

    def split_opinions(self, is_second_row: pl.Series, is_answered_row: pl.Series) -> tuple[Preferences, Preferences]:
        """The first opinions, and the second opinions (answers to a question that another annotator answered first).

        The masks `is_second_row` and `is_answered_row` (whether there is a preference) have one entry per row of
        the original table.
        """
        first_opinions, second_opinions = (
            Preferences(
                frame=filter_rows(self.frame, is_selected_row.filter(is_answered_row)),
                missing=filter_rows(self.missing, is_selected_row.filter(~is_answered_row)),
            )
            for is_selected_row in (~is_second_row, is_second_row)
        )
        return first_opinions, second_opinions

    @property
    def queried_verdicts(self) -> Preferences:
        """The verdicts from queries, without the ties of identical outputs, on which the judge was not queried."""
        return self.select_rows(pl.col("repeat") != REPEAT_WITHOUT_QUERY)

    def half_comparisons(self) -> pl.DataFrame:
        """The comparisons (item, system_a, system_b, rater, aspect) that were queried in both orders and have a verdict
        in only one order.

        >>> rows = {"item": 1, "system_a": "A", "system_b": "B", "rater": "j", "order": ["ab", "ba"]}
        >>> Preferences.make(pl.DataFrame({**rows, "preference": [1, None]}))[0].half_comparisons().height
        1
        """
        if not (self.missing["order"] != "").any():
            return self.missing.select(COMPARISON).clear()
        return self._merge_rows("mean").filter(pl.col("half") == 1).select(COMPARISON)

    def merge_verdicts(self, orders: Orders) -> tuple[pl.DataFrame, list[Note]]:
        """Merge the verdicts in both presentation orders and all repeats (`ties_and_orders.merge_orders`), with notes.

        Returns
        -------
        frame : data frame
            One row per item, system_a, system_b, rater and aspect, in file order, with preference and order. The order
            is 1 if system_a was shown first, -1 if system_b was shown first, and 0 if it is unknown. Merged orders
            have the mean.
        notes : list of Note
            Numbers of comparisons that were excluded or have contradictory verdicts.
        """
        if (
            not (orders != "first" and (self.missing["order"] != "").any())
            and not has_duplicate_key(self.frame, COMPARISON).any()
        ):
            return self.frame.select(*COMPARISON, "preference", ORDER_CODES), []
        merged_rows = self._merge_rows(orders)
        half_comparison_rows = merged_rows.filter(pl.col("half") == 1)
        half_advice = (
            f" ({format_counts(half_comparison_rows['rater'])}). With a verdict in only one order, the position "
            "preference of the rater does not cancel. To keep these comparisons, set orders='first'"
        )
        return merged_rows.drop_nulls("sign").select(
            *COMPARISON, pl.col("sign").cast(pl.Int8).alias("preference"), "order"
        ), merging_notes(
            half_comparison_rows.height, int(merged_rows["contradictory"].sum()), orders, half_advice=half_advice
        )

    def _merge_rows(self, orders: Orders) -> pl.DataFrame:
        """The result of `merge_orders` for all verdicts, in file order."""
        return (
            self.frame.select(COMPARISON)
            .unique(maintain_order=True, keep="first")
            .join(
                merge_orders(
                    nw.from_native(
                        pl.concat(
                            [
                                self.frame.select(*COMPARISON, ORDER_CODES, sign="preference"),
                                self.missing.select(*COMPARISON, ORDER_CODES, sign=pl.lit(None, dtype=pl.Int8)),
                            ]
                        )
                        .with_row_index("row")
                        .lazy()
                    ),
                    orders,
                    key_column_names=COMPARISON,
                )
                .collect()
                .to_native(),
                on=COMPARISON,
                how="left",
                maintain_order="left",
            )
        )


def column_option(role: str, column_name: str) -> str:
    """The option that maps a column to a role."""
    return f"--column {shlex.quote(f'{role}={column_name}')}"


def _read_probabilities(frame: pl.DataFrame, *, where: str) -> list[pl.Series]:
    """The columns p_a, p_tie and p_b. A row must have all three probabilities or none; an empty p_tie counts as 0."""
    probability_rows = pl.DataFrame(
        [
            bounded_column(frame, column_name, 1, where=where, allowed="a probability from 0 to 1")
            for column_name in CHANCES
        ]
    )
    has_probability = probability_rows.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
    refuse(
        has_probability & (probability_rows["p_a"].is_null() | probability_rows["p_b"].is_null()),
        lambda row_numbers, _: (
            f"{where}: p_a, p_tie, p_b are partly empty in row {row_numbers}; give all three probabilities, or none"
        ),
    )
    probability_rows = probability_rows.with_columns(
        p_tie=pl.when(has_probability).then(pl.col("p_tie").fill_null(0.0))
    )
    probability_sums = probability_rows.select(pl.sum_horizontal(pl.all(), ignore_nulls=False)).to_series()
    refuse(
        (probability_sums - 1).abs() > SUM_TOLERANCE,
        lambda row_numbers, row_index: (
            f"{where}: p_a, p_tie, p_b sum to {probability_sums[row_index]:g} in row {row_numbers}; their sum must be 1"
        ),
    )
    return probability_rows.get_columns()


def _check_values(verdicts: pl.DataFrame, *, where: str) -> None:
    refuse(
        ~verdicts["preference"].is_in([1.0, 0.0, -1.0]),
        lambda row_numbers, row_index: (
            f"{where}: preference {verdicts['preference'][row_index]:g} in row {row_numbers}; allowed: 1 (system_a "
            "better), 0 (tie), -1 (system_b better)"
        ),
    )
    refuse(
        verdicts["preference"].is_not_null() & (verdicts["invalid"] != ""),
        lambda row_numbers, row_index: (
            f"{where}: row {row_numbers} has both a preference and a reason in 'invalid' "
            f"({verdicts['invalid'][row_index]!r}); "
            f"remove the preference or the reason"
        ),
    )
    refuse_values(verdicts["order"], ~verdicts["order"].is_in(["ab", "ba", ""]), where=where, allowed="ab, ba, unknown")
    refuse(
        verdicts["system_a"] == verdicts["system_b"],
        lambda row_numbers, row_index: (
            f"{where}: row {row_numbers} compares {verdicts['system_a'][row_index]!r} with itself; a verdict needs two "
            "different systems"
        ),
    )
