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
from custodes.data.ties_and_orders import OUTPUTS, combine_annotators, merge_orders, merging_notes
from custodes.errors import InputError, OptionError, join_labels

WHERE = "count_battles"
VERDICT_COLUMNS = ("winner", "preference")

Orders = Literal["mean", "consistent"]
"""Methods to merge verdicts of both presentation orders (and of repeats), with the same meaning as for a study."""

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
    `table` is a long table of verdicts in any dataframe that Narwhals supports: `item`, two systems (`model_a, model_b`
    or `system_a, system_b`), `winner` or `preference`, and optionally `rater` (or `judge`), `kind`, `aspect`, `order`
    (ab, ba) and `repeat`. Verdicts may use the words that `read` accepts, except words for the displayed position. The
    engine returns only one row for each combination of pair, rater, order and word of the verdict.

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
    rows, has_kinds, is_own_format = _read_rows(table)
    survey = _survey_words(rows)
    raters = sorted(survey["rater"].unique())
    people = _people(survey, human, raters, has_kinds)
    metric_names = resolve_metrics(metrics, raters, people, where=WHERE)
    aspects = survey["aspect"].unique().sort()
    survey, _ = match_aspects(survey, people, metric_names, aspect)
    if survey.is_empty():
        raise OptionError(f"{WHERE}: aspect={aspect!r} has no verdict; aspects: {join_labels(map(repr, aspects))}")
    if systems is not None:
        known_systems = sorted({*survey["a"], *survey["b"]})
        chosen_systems = resolve_names("systems", systems, known_systems, where=WHERE, what="system")
        survey = survey.filter(pl.col("a").is_in(list(chosen_systems)), pl.col("b").is_in(list(chosen_systems)))
    meanings = _interpret_words(survey, is_own_format=is_own_format)
    rows = _select_rows_to_count(rows, meanings)
    item_counts = collect_rows(_count_items(rows))
    notes: list[Note] = []
    if len(people) > 1 or (item_counts["most"] > 1).any():
        signed_rows, notes = _merge_comparisons(_encode_signs(rows, meanings), rows, people, orders)
        keys = ("rater", "system_a", "system_b", "order", "sign")
        sign_counts = collect_rows(signed_rows.group_by(*keys).agg(nw.len().alias("n")))
        n_items = dict(
            collect_rows(_count_items(signed_rows)).select("rater", pl.col("items").cast(pl.Int64)).iter_rows()
        )
    else:
        signed_rows = _combine_human_rows(_encode_signs(rows, meanings), people)
        rater_name = pl.when(pl.col("rater").is_in(list(people))).then(pl.lit(HUMAN)).otherwise("rater")
        sign_counts = meanings.drop_nulls("sign").with_columns(rater=rater_name)
        n_items = dict(
            sign_counts.group_by("rater").agg(pl.col("n").sum()).iter_rows()
        )  # every verdict has its own item
    n_missing = int(meanings.filter(pl.col("sign").is_null())["n"].sum())
    if n_missing == meanings["n"].sum():
        raise InputError(f"{WHERE}: all {n_missing} verdicts are empty; give at least one verdict")
    turned_rows = meanings.filter("turned")
    unsure_words = ", ".join(turned_rows["said"].unique().sort().head(2))
    position_text = (
        f"verdicts such as {unsure_words} are read as columns, whatever the presentation order; if positions are "
        "meant, write the names of the systems"
    )
    notes += build_notes(
        ("missing-verdict", n_missing, f"{n_missing} verdicts are empty and count as not rated"),
        ("place-or-column", int(turned_rows["n"].sum()), position_text),
    )
    rated_raters = set(sign_counts["rater"])
    silent_raters = [
        rater_name for rater_name in (*([HUMAN] if people else []), *metric_names) if rater_name not in rated_raters
    ]
    silent_text = f"raters without a valid verdict are missing from all tables: {join_labels(silent_raters)}"
    notes += build_notes(("no-battle", len(silent_raters), silent_text))
    origin = counting_origin(human=human, metrics=metrics, systems=systems, aspect=aspect, orders=orders)
    system_labels, metrics = (
        tuple(sorted({*meanings["a"], *meanings["b"]})),
        tuple(rater_name for rater_name in metric_names if rater_name in rated_raters),
    )
    joint_counts = [count_joint_outcomes(signed_rows, metrics)] if metrics else []
    return OutcomeCounts.from_tables(
        sum_batches(joint_counts, systems=system_labels, metrics=metrics),
        systems=system_labels,
        metrics=metrics,
        by_order=_count_by_order(sign_counts),
        items=dict(sorted(n_items.items())),  # engines return rows in any order; the digest needs one
        notes=tuple(notes),
        origin=origin,
    )


def _people(
    survey: pl.DataFrame, human: str | Sequence[str] | None, raters: Sequence[str], has_kinds: bool
) -> tuple[str, ...]:
    if human is not None:
        return resolve_names("human", human, raters, where=WHERE)
    if not has_kinds:
        raise OptionError(
            f"{WHERE}: no rater is known to be human; name the annotators, as in human='ann', or give "
            f"a column 'kind'. Raters: {join_labels(raters)}"
        )
    if survey["kind"].unique().to_list() == [""]:
        return tuple(raters)
    return tuple(sorted(survey.filter(kind="human")["rater"].unique()))


def _count_by_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Numbers of wins, ties and losses from signs with their frequencies (`n`)."""
    keys = ("rater", "system_a", "system_b", "order")
    outcome_counts = {name: pl.col("n").filter(pl.col("sign") == sign).sum() for name, sign in SIGNS.items()}
    return (
        frame.group_by(keys)
        .agg(**outcome_counts)
        .sort(keys)
        .select(pl.col(n).cast(kind) for n, kind in BY_ORDER.items())
    )


def _read_rows(table: Any) -> tuple[Rows, bool, bool]:
    """A table with the columns item, a, b, said, rater, kind, aspect, shown, repeat (all text except the item), `empty`
    and `invalid`.

    The second result is whether the kinds of raters are known, and the third result is whether the columns are in the
    format of custodes.
    """
    rows = lazy_rows(table, where=WHERE)
    schema = rows.collect_schema()
    side_columns = next((names for names in SYSTEMS if set(names) <= set(schema)), None)
    verdict_column = next((name for name in VERDICT_COLUMNS if name in schema), None)
    if "item" not in schema or side_columns is None or verdict_column is None:
        raise InputError(
            f"{WHERE}: the table needs the columns item, model_a, model_b (or system_a, system_b) and winner (or "
            f"preference); its columns are {join_labels(schema)}"
        )
    rater_column = next((name for name in ("rater", "judge") if name in schema), None)

    def text_expression(name: str | None, missing: str = "") -> nw.Expr:
        if name is None or name not in schema:
            return nw.lit(missing)
        is_number = schema[name].is_float()  # engines format 1.0 differently
        return (nw.col(name).cast(nw.Int64) if is_number else nw.col(name)).cast(nw.String).fill_null(missing)

    if schema[verdict_column].is_float():
        n_invalid = collect_rows(
            rows.filter(nw.col(verdict_column) != nw.col(verdict_column).cast(nw.Int64)).select(nw.len())
        ).item()
        if n_invalid:
            raise InputError(f"{WHERE}: {n_invalid} values of {verdict_column!r} are not allowed; allowed: 1, 0, -1")
    item = nw.col("item") if schema["item"].is_numeric() else nw.col("item").cast(nw.String)
    is_empty = nw.col("item").is_null() if schema["item"].is_numeric() else item.is_null() | (item == "")
    verdict_rows = rows.select(
        item.alias("item"),
        text_expression(side_columns[0]).alias("a"),
        text_expression(side_columns[1]).alias("b"),
        text_expression(verdict_column).alias("said"),
        text_expression(rater_column, "" if rater_column else HUMAN).alias("rater"),
        text_expression("kind").alias("kind"),
        text_expression("aspect").alias("aspect"),
        text_expression("order").alias("shown"),
        text_expression("repeat").alias("repeat"),
        is_empty.alias("empty"),
        ((text_expression("invalid") != "") & (text_expression(verdict_column) != "")).alias("invalid"),
    )
    return verdict_rows, "kind" in schema or rater_column is None, set(schema) >= OWN_COLUMNS


def _survey_words(rows: Rows) -> pl.DataFrame:
    """The number of verdicts by rater, kind, aspect, pair, order and word, from one pass over the table. Missing labels
    raise `InputError`."""
    keys = ("rater", "kind", "aspect", "a", "b", "said", "shown")
    survey = collect_rows(rows.group_by(*keys, "empty", "invalid").agg(nw.len().alias("n")))
    kind = pl.col("kind").str.strip_chars().str.to_lowercase()
    survey = survey.with_columns(pl.col("n").cast(pl.Int64), kind.alias("kind"))
    if not survey.height:
        raise InputError(f"{WHERE}: no rows; give at least one verdict")
    label_columns = [pl.col(name) for name in ("rater", "aspect", "a", "b")]
    for is_invalid, problem in (
        (pl.col("empty"), "have no item"),
        ((pl.col("a") == "") | (pl.col("b") == ""), "name no system"),
        (pl.col("rater") == "", "name no rater"),
        (pl.col("a") == pl.col("b"), "compare a system with itself"),
        (~pl.col("kind").is_in(["human", "metric", ""]), "have a kind that is neither human nor metric"),
        (
            pl.any_horizontal(column != column.str.strip_chars() for column in label_columns),
            "have a label with a space before or after it",
        ),
        (pl.col("invalid"), "have both a verdict and a reason in 'invalid'"),
    ):
        if n := int(survey.filter(is_invalid)["n"].sum()):
            raise InputError(f"{WHERE}: {n} rows {problem}; correct them, or remove them from the table")
    return survey.drop("empty", "invalid")


def _interpret_words(survey: pl.DataFrame, *, is_own_format: bool) -> pl.DataFrame:
    """The frequencies, completed by columns with the meaning of the word and of the order in each row.

    `meaning` is 1 if `a` is preferred (null: no verdict), and `first` is 1 if `a` was shown first. `system_a` and
    `system_b` are the systems in alphabetical order: `sign` is 1 if `system_a` is preferred, and `order` is 1 if
    `system_a` was shown first. `turned` marks rows in which `b` was shown first and the word may mean a displayed
    position.
    """
    verdict_words = survey["said"].set(survey["said"].str.to_lowercase().is_in(EMPTY), "").alias("winner")
    try:
        meaning = interpret_cells(verdict_words, survey["a"], survey["b"], where=WHERE, is_own_format=is_own_format)
    except InputError as problem:
        raise InputError(f"{problem} (row numbers refer to the list of distinct verdicts, not to the table)") from None
    is_unread_word = (verdict_words != "") & (meaning.preference.is_null() | meaning.place.is_not_null())
    if is_unread_word.any():
        unread_counts = (
            survey.filter(is_unread_word)
            .group_by("said")
            .agg(pl.col("n").sum())
            .sort("n", "said", descending=[True, False])
        )
        examples = join_labels(
            (f"{verdict_word[:40]!r} {n:,} times" for verdict_word, n in unread_counts.iter_rows()), limit=3
        )
        exception_text = ", except words for the position shown" if meaning.place.drop_nulls().len() else ""
        raise InputError(
            f"{WHERE}: {unread_counts['n'].sum():,} of {survey['n'].sum():,} verdicts cannot be read "
            f"({examples}); allowed: {ALLOWED}, or empty{exception_text}. Correct them, or remove them from "
            "the table"
        )
    order_words = survey["shown"].str.to_lowercase().str.replace_all(ORDER_MARKS, "")
    order_code = look_up(order_words, ORDER_NAMES | FLAGS | dict.fromkeys(UNKNOWN, 0.0))
    if order_code.is_null().any():
        unknown_orders = survey.filter(order_code.is_null())["shown"].unique().sort()
        raise InputError(
            f"{WHERE}: column 'order' holds {join_labels(map(repr, unknown_orders), limit=3)}; allowed: ab, ba, or "
            "empty"
        )
    direction = np.where(survey["a"] < survey["b"], 1, -1)
    return survey.with_columns(
        meaning.preference.alias("meaning").cast(pl.Int64),
        order_code.alias("first").cast(pl.Int64),
        (meaning.unsure & (order_code < 0)).alias("turned"),
        pl.Series("sign", meaning.preference * direction).cast(pl.Int64),
        pl.Series("order", order_code * direction).cast(pl.Int64),
        system_a=pl.min_horizontal("a", "b"),
        system_b=pl.max_horizontal("a", "b"),
    )


def _select_rows_to_count(rows: Rows, meanings: pl.DataFrame) -> Rows:
    """The rows to count, with the systems in alphabetical order (`low`, `high`), and with `turn`, which is 1 if `a` is
    `low` and otherwise -1."""
    pairs = meanings.select("rater", "aspect").unique().sort("rater", "aspect")
    conditions = [(nw.col("rater") == rater) & (nw.col("aspect") == aspect) for rater, aspect in pairs.iter_rows()]
    systems = sorted({*meanings["a"], *meanings["b"]})
    is_known_pair = nw.col("a").is_in(systems) & nw.col("b").is_in(systems)
    is_reversed_pair = nw.col("a") > nw.col("b")
    return rows.filter(reduce(or_, conditions), is_known_pair).with_columns(
        nw.when(is_reversed_pair).then(nw.col("b")).otherwise(nw.col("a")).alias("low"),
        nw.when(is_reversed_pair).then(nw.col("a")).otherwise(nw.col("b")).alias("high"),
        conditional_value(is_reversed_pair, -1, 1).alias("turn"),
    )


def _encode_signs(rows: Rows, meanings: pl.DataFrame) -> Rows:
    """The rows with their signs and orders, in the form that `merge_orders` takes.

    Words whose meaning depends on the row must be exact names of systems.
    """
    is_exact_name = (pl.col("said") == pl.col("a")) | (pl.col("said") == pl.col("b"))
    word_meanings = (
        meanings.group_by("said").agg(pl.col("meaning").unique(), names=is_exact_name.all()).filter(~pl.col("names"))
    )
    ambiguous_words = word_meanings.filter(pl.col("meaning").list.len() > 1)["said"].sort()
    if ambiguous_words.len():
        raise InputError(
            f"{WHERE}: verdicts {join_labels(map(repr, ambiguous_words), limit=3)} match no system "
            "name exactly; write model_a, model_b or tie"
        )
    code_of_word = dict(word_meanings.select("said", pl.col("meaning").list.first()).iter_rows())
    code_of_order = dict(meanings.select("shown", "first").iter_rows())
    code_of_second = nw.when(nw.col("said") == nw.col("b")).then(nw.lit(-1))
    code_by_name = nw.when(nw.col("said") == nw.col("a")).then(nw.lit(1)).otherwise(code_of_second)
    return rows.select(
        "rater",
        "item",
        nw.col("low").alias("system_a"),
        nw.col("high").alias("system_b"),
        (nw.col("turn") * _code_expression("said", code_of_word, code_by_name)).alias("sign"),
        (nw.col("turn") * _code_expression("shown", code_of_order, nw.lit(0))).alias("order"),
    )


def _code_expression(column: str, code_of_word: Mapping[str, int | None], default_code: nw.Expr) -> nw.Expr:
    """The code (1, 0 or -1) of the word in a column, and `default_code` for a word without a code."""
    expression = default_code
    for code in (1, 0, -1):
        if words_of_code := [word for word, word_code in code_of_word.items() if word_code == code]:
            expression = nw.when(nw.col(column).is_in(words_of_code)).then(nw.lit(code)).otherwise(expression)
    return expression


def _combine_human_rows(comparisons: Rows, people: Sequence[str]) -> Rows:
    """The comparisons with a sign, after the annotators are combined: one row per item, pair and rater."""
    columns = ("rater", *OUTPUTS, "sign", "order")
    decided_rows = comparisons.filter(~nw.col("sign").is_null()).with_columns(nw.col("sign").cast(nw.Int8))
    is_human = nw.col("rater").is_in(list(people))
    human_rows = (
        combine_annotators(decided_rows.filter(is_human), "vote") if len(people) > 1 else decided_rows.filter(is_human)
    )
    human_rows = human_rows.with_columns(nw.lit(HUMAN).alias("rater"))
    return nw.concat([frame.select(*columns) for frame in (human_rows, decided_rows.filter(~is_human))])


def _count_items(rows: Rows) -> Rows:
    """For each rater, the number of `items` with a verdict, and the largest number of rows of one item (`most`)."""
    rows_per_item = rows.group_by("rater", "item").agg(nw.len().alias("rows"))
    return rows_per_item.group_by("rater").agg(nw.len().alias("items"), nw.col("rows").max().alias("most"))


def _merge_comparisons(signed_rows: Rows, rows: Rows, people: Sequence[str], orders: Orders) -> tuple[Rows, list[Note]]:
    """The merged comparisons, with the annotators combined, and notes."""
    keys = ("item", "low", "high", "rater", "repeat", "shown")
    duplicate_keys = rows.group_by(*keys).agg(nw.len().alias("rows")).filter(nw.col("rows") > 1)
    if n_duplicates := int(collect_rows(duplicate_keys.select(nw.len())).item()):
        raise InputError(
            f"{WHERE}: {n_duplicates} verdicts occur twice (same item, systems, rater, repeat and order). "
            "If the outputs were shown in both orders, give the order in 'order' (ab, ba); "
            "if verdicts are repeats, number the repeats in 'repeat'"
        )
    merged_rows = merge_orders(signed_rows, orders)
    rater_counts = collect_rows(merged_rows.group_by("rater").agg(nw.col("half").sum(), nw.col("contradictory").sum()))
    n_half, n_contradictory = int(rater_counts["half"].sum()), int(rater_counts["contradictory"].sum())
    return _combine_human_rows(merged_rows, people), merging_notes(n_half, n_contradictory, orders)
