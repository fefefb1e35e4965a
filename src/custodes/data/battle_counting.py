"""Counts of pairwise verdicts, computed inside a table engine without loading the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Literal

import narwhals as nw
import numpy as np
import polars as pl

from custodes.arguments import check_arguments
from custodes.data.comparisons import HUMAN
from custodes.data.mapping.column_vocabulary import KINDS, kind_of_label
from custodes.data.notes import Note, build_notes
from custodes.data.outcome_counts import (
    BY_ORDER,
    SIGNS,
    OutcomeCounts,
    count_joint_outcomes,
    counting_origin,
    sum_batches,
)
from custodes.data.readers.battles import OWN_COLUMNS, SYSTEMS
from custodes.data.readers.verdict_words import (
    ALLOWED,
    EMPTY,
    FLAGS,
    ORDER_MARKS,
    ORDER_NAMES,
    UNKNOWN,
    interpret_cells,
    look_up,
)
from custodes.data.table_engines import (
    collect_rows,
    conditional_value,
    convert_engine_errors,
    lazy_rows,
    match_aspects,
    resolve_metrics,
    resolve_names,
)
from custodes.data.ties_and_orders import OUTPUTS, Orders, combine_annotators, merge_orders, merging_notes
from custodes.errors import InputError, OptionError, join_labels, reject

WHERE = "count_battles"

Rows = nw.LazyFrame[Any]


@check_arguments
@convert_engine_errors(WHERE)
def count_battles(
    table: Any,
    *,
    human: str | Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
    aspect: str = "",
    systems: Sequence[str] | None = None,
    orders: Literal["mean", "consistent"] = "mean",
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
    `table` is a long table of verdicts in any dataframe that Narwhals supports. It has `item`, two systems (`model_a,
    model_b` or `system_a, system_b`) and `winner` or `preference`. It may also have `rater` (or `judge`), `kind`,
    `aspect`, `order` (ab, ba) and `repeat`. Verdicts may be written with the words that `read` accepts, except words
    for the position on the screen. The engine returns only one row for each combination of pair, rater, order and word
    of the verdict.

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
    verdict_rows, is_custodes_format = _read_rows(table)
    all_count_rows = _count_verdict_words(verdict_rows)
    rater_names = sorted(all_count_rows["rater"].unique())
    annotators = _annotator_names(all_count_rows, human, rater_names)
    metric_names = resolve_metrics(metrics, rater_names, annotators, where=WHERE)
    verdict_count_rows, _ = match_aspects(all_count_rows, annotators, metric_names, aspect)
    if verdict_count_rows.is_empty():
        raise OptionError(
            f"{WHERE}: aspect={aspect!r} has no verdict; aspects: "
            f"{join_labels(map(repr, all_count_rows['aspect'].unique().sort()))}"
        )
    if systems is not None:
        selected_system_names = resolve_names(
            "systems", systems, sorted({*verdict_count_rows["a"], *verdict_count_rows["b"]}), where=WHERE, what="system"
        )
        verdict_count_rows = verdict_count_rows.filter(
            pl.all_horizontal(pl.col("a", "b").is_in(list(selected_system_names)))
        )
    interpreted_count_rows = _interpret_words(verdict_count_rows, is_custodes_format=is_custodes_format)
    verdict_rows = _select_rows_to_count(verdict_rows, interpreted_count_rows)
    rater_item_count_rows = collect_rows(_count_items(verdict_rows))
    notes: list[Note] = []
    signed_rows = _encode_signs(verdict_rows, interpreted_count_rows)
    if len(annotators) > 1 or (rater_item_count_rows["most"] > 1).any():
        merged_rows, notes = _merge_verdicts(signed_rows, verdict_rows, orders)
        signed_rows = _combine_human_rows(merged_rows, annotators)
        sign_count_rows = collect_rows(
            signed_rows.group_by("rater", "system_a", "system_b", "order", "sign").agg(nw.len().alias("n"))
        )
        item_count_rows = collect_rows(_count_items(signed_rows)).select("rater", pl.col("items").cast(pl.Int64))
    else:  # every verdict has its own item, so the counts of words suffice
        signed_rows = _combine_human_rows(signed_rows, annotators)
        sign_count_rows = interpreted_count_rows.drop_nulls("sign").with_columns(
            rater=pl.when(pl.col("rater").is_in(list(annotators))).then(pl.lit(HUMAN)).otherwise("rater")
        )
        item_count_rows = sign_count_rows.group_by("rater").agg(pl.col("n").sum())
    n_missing_verdicts = int(interpreted_count_rows.filter(pl.col("sign").is_null())["n"].sum())
    if n_missing_verdicts == interpreted_count_rows["n"].sum():
        raise InputError(f"{WHERE}: all {n_missing_verdicts} verdicts are empty; give at least one verdict")
    ambiguous_position_count_rows = interpreted_count_rows.filter("is_ambiguous")
    ambiguous_words_text = ", ".join(ambiguous_position_count_rows["word"].unique().sort().head(2))
    raters_with_verdicts = set(sign_count_rows["rater"])
    raters_without_verdicts = [
        rater_name
        for rater_name in (*([HUMAN] if annotators else []), *metric_names)
        if rater_name not in raters_with_verdicts
    ]
    notes += build_notes(
        ("missing-verdict", n_missing_verdicts, f"{n_missing_verdicts} verdicts are empty and count as not rated"),
        (
            "place-or-column",
            int(ambiguous_position_count_rows["n"].sum()),
            f"verdicts such as {ambiguous_words_text} are read as names of columns, not as positions on the screen; "
            "if the verdicts mean positions, write the names of the systems",
        ),
        (
            "no-battle",
            len(raters_without_verdicts),
            f"raters without a valid verdict are missing from all tables: {join_labels(raters_without_verdicts)}",
        ),
    )
    system_names = tuple(sorted({*interpreted_count_rows["a"], *interpreted_count_rows["b"]}))
    counted_metric_names = tuple(rater_name for rater_name in metric_names if rater_name in raters_with_verdicts)
    return OutcomeCounts.from_tables(
        sum_batches(
            [count_joint_outcomes(signed_rows, counted_metric_names)] if counted_metric_names else [],
            systems=system_names,
            metrics=counted_metric_names,
        ),
        systems=system_names,
        metrics=counted_metric_names,
        by_order=_count_by_order(sign_count_rows),
        items=dict(
            item_count_rows.sort("rater").iter_rows()
        ),  # engines return rows in any order, which changes the digest
        notes=tuple(notes),
        origin=counting_origin(human=human, metrics=metrics, systems=systems, aspect=aspect, orders=orders),
    )


def _annotator_names(
    verdict_count_rows: pl.DataFrame, human: str | Sequence[str] | None, rater_names: Sequence[str]
) -> tuple[str, ...]:
    if human is not None:
        return resolve_names("human", human, rater_names, where=WHERE)
    kind_of_rater = {rater_name: kind_of_label(rater_name) for rater_name in rater_names}
    kind_of_rater |= dict(verdict_count_rows.filter(pl.col("kind") != "").select("rater", "kind").unique().iter_rows())
    annotators = tuple(rater_name for rater_name, rater_kind in kind_of_rater.items() if rater_kind == "human")
    if not annotators and "" in kind_of_rater.values():
        raise OptionError(
            f"{WHERE}: no rater is known to be human; name the annotators, as in human='ann', or give "
            f"a column 'kind'. Raters: {join_labels(rater_names)}"
        )
    return annotators


def _count_by_order(sign_count_rows: pl.DataFrame) -> pl.DataFrame:
    """Numbers of wins, ties and losses from signs with their frequencies (`n`)."""
    key_column_names = ("rater", "system_a", "system_b", "order")
    return (
        sign_count_rows.group_by(key_column_names)
        .agg(
            pl.col("n").filter(pl.col("sign") == sign).sum().alias(outcome_name) for outcome_name, sign in SIGNS.items()
        )
        .sort(key_column_names)
        .cast(BY_ORDER)
    )


def _read_rows(table: Any) -> tuple[Rows, bool]:
    """A table with the columns item, a, b, word, rater, kind, aspect, order_word, repeat (all text except the item),
    `empty` and `invalid`.

    The second result is whether the columns are in the format of custodes.
    """
    input_rows = lazy_rows(table, where=WHERE)
    schema = input_rows.collect_schema()
    system_column_names = next(
        (system_column_pair for system_column_pair in SYSTEMS if set(system_column_pair) <= set(schema)), None
    )
    verdict_column_name = next((column_name for column_name in ("winner", "preference") if column_name in schema), None)
    if "item" not in schema or system_column_names is None or verdict_column_name is None:
        raise InputError(
            f"{WHERE}: the table needs the columns item, model_a, model_b (or system_a, system_b) and winner (or "
            f"preference); its columns are {join_labels(schema)}"
        )
    rater_column_name = next((column_name for column_name in ("rater", "judge") if column_name in schema), None)

    def text_expression(column_name: str | None, default_text: str = "") -> nw.Expr:
        if column_name is None or column_name not in schema:
            return nw.lit(default_text)
        value_expression = nw.col(column_name)
        if schema[column_name].is_float():
            value_expression = value_expression.cast(nw.Int64)  # engines print 1.0
        return value_expression.cast(nw.String).fill_null(default_text)

    if schema[verdict_column_name].is_float():
        n_fractional_values = collect_rows(
            input_rows.filter(nw.col(verdict_column_name) != nw.col(verdict_column_name).cast(nw.Int64)).select(
                nw.len()
            )
        ).item()
        if n_fractional_values:
            raise InputError(
                f"{WHERE}: {n_fractional_values} values of {verdict_column_name!r} are not allowed; allowed: 1, 0, -1"
            )
    has_numeric_items = schema["item"].is_numeric()
    item_expression = nw.col("item") if has_numeric_items else nw.col("item").cast(nw.String)
    return input_rows.select(
        item_expression,
        text_expression(system_column_names[0]).alias("a"),
        text_expression(system_column_names[1]).alias("b"),
        text_expression(verdict_column_name).alias("word"),
        text_expression(rater_column_name, "" if rater_column_name else HUMAN).alias("rater"),
        text_expression("kind").alias("kind"),
        text_expression("aspect").alias("aspect"),
        text_expression("order").alias("order_word"),
        text_expression("repeat").alias("repeat"),
        (item_expression.is_null() if has_numeric_items else item_expression.fill_null("") == "").alias("empty"),
        ((text_expression("invalid") != "") & (text_expression(verdict_column_name) != "")).alias("invalid"),
    ), set(schema) >= OWN_COLUMNS


def _count_verdict_words(rows: Rows) -> pl.DataFrame:
    """The number of verdicts by rater, kind, aspect, pair, order and word, from one pass over the table. Missing labels
    raise `InputError`."""
    verdict_count_rows = collect_rows(
        rows.group_by("rater", "kind", "aspect", "a", "b", "word", "order_word", "empty", "invalid").agg(
            nw.len().alias("n")
        )
    )
    verdict_count_rows = verdict_count_rows.with_columns(
        pl.col("n").cast(pl.Int64),
        pl.col("kind").str.strip_chars().str.to_lowercase().str.replace_all(r"[\s-]+", "_").replace(KINDS),
    )
    if not verdict_count_rows.height:
        raise InputError(f"{WHERE}: no rows; give at least one verdict")
    label_columns_expression = pl.col("rater", "aspect", "a", "b")
    condition_of_problem = {
        "have no item": pl.col("empty"),
        "name no system": (pl.col("a") == "") | (pl.col("b") == ""),
        "name no rater": pl.col("rater") == "",
        "compare a system with itself": pl.col("a") == pl.col("b"),
        "have a kind other than human or metric": ~pl.col("kind").is_in(["human", "metric", ""]),
        "have a label with a space before or after it": pl.any_horizontal(
            label_columns_expression != label_columns_expression.str.strip_chars()
        ),
        "have both a verdict and a reason in 'invalid'": pl.col("invalid"),
    }
    n_rows_of_problem = verdict_count_rows.select(
        pl.col("n").filter(condition).sum().alias(problem) for problem, condition in condition_of_problem.items()
    ).row(0, named=True)
    reject(
        *(
            (n_rows, f"{WHERE}: {n_rows} rows {problem}; correct them, or remove them from the table")
            for problem, n_rows in n_rows_of_problem.items()
        ),
        error=InputError,
    )
    return verdict_count_rows.drop("empty", "invalid")


def _interpret_words(verdict_count_rows: pl.DataFrame, *, is_custodes_format: bool) -> pl.DataFrame:
    """The table of frequencies, with added columns for the meaning of each row's word and order.

    `meaning` is 1 if `a` is preferred, and null without a verdict. `first` is 1 if `a` was shown first. `system_a` and
    `system_b` are the systems in alphabetical order. `sign` is 1 if `system_a` is preferred. `order` is 1 if `system_a`
    was shown first. `is_ambiguous` marks rows in which `b` was shown first and the word may mean the position on the
    screen.
    """
    verdict_words = (
        verdict_count_rows["word"].set(verdict_count_rows["word"].str.to_lowercase().is_in(EMPTY), "").alias("winner")
    )
    try:
        verdict_meaning_rows = interpret_cells(
            verdict_words,
            verdict_count_rows["a"],
            verdict_count_rows["b"],
            where=WHERE,
            is_own_format=is_custodes_format,
        )
    except InputError as problem:
        raise InputError(f"{problem} (row numbers refer to the list of distinct verdicts, not to the table)") from None
    is_unreadable_word = (verdict_words != "") & (
        verdict_meaning_rows["preference"].is_null() | verdict_meaning_rows["place"].is_not_null()
    )
    if is_unreadable_word.any():
        unreadable_word_count_rows = (
            verdict_count_rows.filter(is_unreadable_word)
            .group_by("word")
            .agg(pl.col("n").sum())
            .sort("n", "word", descending=[True, False])
        )
        examples_text = join_labels(
            (
                f"{verdict_word[:40]!r} {n_occurrences:,} times"
                for verdict_word, n_occurrences in unreadable_word_count_rows.iter_rows()
            ),
            limit=3,
        )
        excluded_words_text = (
            ", except words for the position shown" * verdict_meaning_rows["place"].is_not_null().any()
        )
        raise InputError(
            f"{WHERE}: {unreadable_word_count_rows['n'].sum():,} of {verdict_count_rows['n'].sum():,} verdicts cannot "
            f"be read ({examples_text}); allowed: {ALLOWED}, or empty{excluded_words_text}. Correct them, or remove "
            "them from the table"
        )
    presentation_order_codes = look_up(
        verdict_count_rows["order_word"].str.to_lowercase().str.replace_all(ORDER_MARKS, ""),
        ORDER_NAMES | FLAGS | dict.fromkeys(UNKNOWN, 0.0),
    )
    if presentation_order_codes.is_null().any():
        unreadable_order_words = (
            verdict_count_rows.filter(presentation_order_codes.is_null())["order_word"].unique().sort()
        )
        raise InputError(
            f"{WHERE}: column 'order' holds {join_labels(map(repr, unreadable_order_words), limit=3)}; allowed: ab, "
            "ba, or empty"
        )
    pair_orientations = np.where(verdict_count_rows["a"] < verdict_count_rows["b"], 1, -1)
    return verdict_count_rows.with_columns(
        verdict_meaning_rows["preference"].alias("meaning").cast(pl.Int64),
        presentation_order_codes.alias("first").cast(pl.Int64),
        (verdict_meaning_rows["unsure"] & (presentation_order_codes < 0)).alias("is_ambiguous"),
        pl.Series("sign", verdict_meaning_rows["preference"] * pair_orientations).cast(pl.Int64),
        pl.Series("order", presentation_order_codes * pair_orientations).cast(pl.Int64),
        system_a=pl.min_horizontal("a", "b"),
        system_b=pl.max_horizontal("a", "b"),
    )


def _select_rows_to_count(rows: Rows, interpreted_count_rows: pl.DataFrame) -> Rows:
    """The rows to count, with the systems in alphabetical order (`low`, `high`). The column `orientation` is 1 if `a`
    is `low` and otherwise -1.
    """
    rater_aspect_conditions = [
        (nw.col("rater") == rater) & (nw.col("aspect") == aspect)
        for rater, aspect in interpreted_count_rows.select("rater", "aspect")
        .unique()
        .sort("rater", "aspect")
        .iter_rows()
    ]
    counted_system_names = sorted({*interpreted_count_rows["a"], *interpreted_count_rows["b"]})
    is_reversed_pair = nw.col("a") > nw.col("b")
    return rows.filter(
        reduce(or_, rater_aspect_conditions),
        nw.col("a").is_in(counted_system_names) & nw.col("b").is_in(counted_system_names),
    ).with_columns(
        nw.when(is_reversed_pair).then(nw.col("b")).otherwise(nw.col("a")).alias("low"),
        nw.when(is_reversed_pair).then(nw.col("a")).otherwise(nw.col("b")).alias("high"),
        conditional_value(is_reversed_pair, -1, 1).alias("orientation"),
    )


def _encode_signs(rows: Rows, interpreted_count_rows: pl.DataFrame) -> Rows:
    """The rows with their signs and orders, in the form that `merge_orders` takes.

    A word whose meaning differs between rows must be the exact name of a system.
    """
    word_meaning_rows = (
        interpreted_count_rows.group_by("word")
        .agg(
            pl.col("meaning").unique(), names=((pl.col("word") == pl.col("a")) | (pl.col("word") == pl.col("b"))).all()
        )
        .filter(~pl.col("names"))
    )
    ambiguous_words = word_meaning_rows.filter(pl.col("meaning").list.len() > 1)["word"].sort()
    if ambiguous_words.len():
        raise InputError(
            f"{WHERE}: verdicts {join_labels(map(repr, ambiguous_words), limit=3)} match no system "
            "name exactly; write model_a, model_b or tie"
        )
    is_first_system_name, is_second_system_name = (nw.col("word") == nw.col(column_name) for column_name in ("a", "b"))
    exact_name_code = (
        nw.when(is_first_system_name).then(nw.lit(1)).otherwise(nw.when(is_second_system_name).then(nw.lit(-1)))
    )
    return rows.select(
        "rater",
        "item",
        nw.col("low").alias("system_a"),
        nw.col("high").alias("system_b"),
        (
            nw.col("orientation")
            * _code_expression(
                "word",
                dict(word_meaning_rows.select("word", pl.col("meaning").list.first()).iter_rows()),
                exact_name_code,
            )
        ).alias("sign"),
        (
            nw.col("orientation")
            * _code_expression(
                "order_word", dict(interpreted_count_rows.select("order_word", "first").iter_rows()), nw.lit(0)
            )
        ).alias("order"),
    )


def _code_expression(column_name: str, code_of_word: Mapping[str, int | None], default_code: nw.Expr) -> nw.Expr:
    """The code (1, 0 or -1) of the word in a column; a word without a code gets `default_code`."""
    code_expression = default_code
    for code in (1, 0, -1):
        if words_with_code := [word for word, word_code in code_of_word.items() if word_code == code]:
            code_expression = (
                nw.when(nw.col(column_name).is_in(words_with_code)).then(nw.lit(code)).otherwise(code_expression)
            )
    return code_expression


def _combine_human_rows(comparisons: Rows, annotators: Sequence[str]) -> Rows:
    """The comparisons that have a sign. The annotators are combined, so there is one row per item, pair and rater."""
    column_names = ("rater", *OUTPUTS, "sign", "order")
    rows_with_verdict = comparisons.filter(~nw.col("sign").is_null()).with_columns(nw.col("sign").cast(nw.Int8))
    is_human_row = nw.col("rater").is_in(list(annotators))
    human_rows = rows_with_verdict.filter(is_human_row)
    if len(annotators) > 1:
        human_rows = combine_annotators(human_rows, "vote")
    return nw.concat(
        [
            human_rows.with_columns(rater=nw.lit(HUMAN)).select(*column_names),
            rows_with_verdict.filter(~is_human_row).select(*column_names),
        ]
    )


def _count_items(rows: Rows) -> Rows:
    """For each rater, the number of `items` with a verdict, and the largest number of rows of one item (`most`)."""
    return (
        rows.group_by("rater", "item")
        .agg(nw.len().alias("rows"))
        .group_by("rater")
        .agg(nw.len().alias("items"), nw.col("rows").max().alias("most"))
    )


def _merge_verdicts(signed_rows: Rows, uninterpreted_rows: Rows, orders: Orders) -> tuple[Rows, list[Note]]:
    """One verdict per comparison and rater (see `merge_orders`), and notes. `uninterpreted_rows` are the
    rows of `signed_rows` before their words were interpreted."""
    duplicate_verdict_key_rows = (
        uninterpreted_rows.group_by("item", "low", "high", "rater", "repeat", "order_word")
        .agg(nw.len().alias("rows"))
        .filter(nw.col("rows") > 1)
    )
    if n_duplicate_verdicts := int(collect_rows(duplicate_verdict_key_rows.select(nw.len())).item()):
        raise InputError(
            f"{WHERE}: {n_duplicate_verdicts} verdicts occur twice (same item, systems, rater, repeat and order). "
            "If the outputs were shown in both orders, give the order in 'order' (ab, ba); "
            "if verdicts are repeats, number the repeats in 'repeat'"
        )
    merged_rows = merge_orders(signed_rows, orders)
    merging_count_rows = collect_rows(
        merged_rows.group_by("rater").agg(nw.col("half").sum(), nw.col("contradictory").sum())
    )
    return merged_rows, merging_notes(
        int(merging_count_rows["half"].sum()), int(merging_count_rows["contradictory"].sum()), orders
    )
