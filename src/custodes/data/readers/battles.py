"""Battles: a table with `item`, two systems (`model_a, model_b` or `system_a, system_b`) and a `winner` or
`preference`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from custodes.data.mapping.column_vocabulary import NAMES, find_columns, normalise_name
from custodes.data.notes import Note, build_notes
from custodes.data.preferences import CHANCES, SECONDS, Preferences, column_option
from custodes.data.raters import Raters, rater_kinds
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.readers.verdict_words import interpret_cells, read_orders, without_empty
from custodes.data.readers.verdicts import read_verdicts
from custodes.data.study import Study
from custodes.data.table import check_columns, label_column, refuse, second_rows
from custodes.errors import InputError

SYSTEMS = (("model_a", "model_b"), ("system_a", "system_b"))
SYNONYMS = (*zip(*SYSTEMS, strict=True), ("winner", "preference"))
"""Alternative names of a column, of which a table may have only one."""

COLUMNS = (
    ("item", *SYSTEMS[0], "winner"),
    ("item", *SYSTEMS[1], "preference"),
    ("item", *SYSTEMS[1], "winner"),
    ("item", *SYSTEMS[0], "preference"),
)
ANSWER_COLUMNS = ("invalid", *CHANCES, SECONDS)
OPTIONAL = ("rater", "kind", "aspect", "order", "repeat", *ANSWER_COLUMNS)
OWN_COLUMNS = {*COLUMNS[1], "rater", "kind", "aspect", "order", "repeat"}
"""Columns whose presence shows that a table is in our own format. `verdict_words` reads it differently."""

FEW = 20
"""Minimum number of comparisons in both orders for a refusal because of contradictions. With fewer comparisons there is
only a note."""

CONTRADICTED, CLEARER = 0.5, 2.0
"""Verdicts that are read as names of columns are refused if both limits are reached: the proportion of contradictory
comparisons in this reading, and the ratio of this proportion to the proportion if the words mean positions."""

SIGNS = {True: -1.0, False: 1.0}
ORDERS = {1.0: "ab", -1.0: "ba", 0.0: ""}


def read_battles(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of verdicts. "Both bad" is a tie. If there is no column `rater`, all verdicts are those of one annotator.

    The name of the judge may be in `judge` instead of `rater`. `invalid` has the reason for a missing verdict, `p_a`,
    `p_tie`, `p_b` have the probabilities of A, a tie and B, and `seconds` has the time. Rows with `role` `second` are
    second opinions (`Study.second`). The module `verdict_words` defines the meaning of cells.
    """
    if "judge" in frame.columns and "rater" not in frame.columns:
        frame = frame.rename({"judge": "rater"})
    present_columns = set(frame.columns)
    layout_columns = max(COLUMNS, key=lambda columns: (len(set(columns) & present_columns), columns == COLUMNS[1]))
    _, first_column, second_column, verdict_column = layout_columns
    for synonyms in SYNONYMS:
        if set(synonyms) <= present_columns:
            raise InputError(f"{where}: columns {synonyms[0]!r} and {synonyms[1]!r} have the same meaning; remove one")
    has_raters = "rater" in frame.columns or "kind" in frame.columns
    required = (*layout_columns, "rater") if has_raters else layout_columns
    rater_notes = [] if has_raters else one_annotator_notes(frame, where=where, missing="rater")
    is_second_opinion = second_rows(frame, where=where)
    known_columns = OPTIONAL if is_second_opinion is None else (*OPTIONAL, "role")
    notes = check_columns(frame, where=where, required=required, optional=known_columns)
    optional = [name for name in ("aspect", "repeat") if name in frame.columns]
    table = pl.DataFrame(
        [
            label_column(frame, "item", where=where),
            label_column(frame, first_column, where=where).alias("system_a"),
            label_column(frame, second_column, where=where).alias("system_b"),
            label_column(frame, "rater", where=where)
            if has_raters
            else pl.repeat("human", frame.height, eager=True).alias("rater"),
            *(label_column(frame, name, where=where, empty=True) for name in optional),
            without_empty(label_column(frame, verdict_column, where=where, empty=True)).alias("verdict"),
            *([label_column(frame, "invalid", where=where, empty=True)] if "invalid" in frame.columns else []),
            *(frame[name] for name in (*CHANCES, SECONDS) if name in frame.columns),
        ]
    )
    verdicts, order_notes = interpret_verdicts(table, frame, where=where, column=verdict_column)
    unused_columns = [name for name in frame.columns if name not in (*required, *known_columns)]
    preferences, verdict_notes = read_verdicts(verdicts, where=where, invalid=invalid, unused=unused_columns)
    notes += [
        *order_notes,
        *verdict_notes,
        *item_per_row_notes(frame, "item", unused_columns, where=where),
        *rater_notes,
    ]
    kinds = rater_kinds(frame, where=where) if has_raters else {"human": "human"}
    second_opinions = Preferences.empty()
    if is_second_opinion is not None:
        preferences, second_opinions = preferences.split_opinions(
            is_second_opinion, verdicts["preference"].is_not_null()
        )
    return Study(
        preferences=preferences, second=second_opinions, raters=Raters.infer(kinds), notes=tuple(notes), name=where
    )


def interpret_verdicts(
    table: pl.DataFrame, frame: pl.DataFrame, *, where: str, column: str
) -> tuple[pl.DataFrame, list[Note]]:
    """`table` (item, system_a, system_b, rater, verdict, optional aspect and repeat), completed by `preference` and
    `order`."""
    verdict = table["verdict"].alias(column)
    is_own_format = set(frame.columns) >= OWN_COLUMNS
    meaning = interpret_cells(verdict, table["system_a"], table["system_b"], where=where, written=is_own_format)
    order, notes = read_orders(table, frame, where=where, written=is_own_format)
    is_position = meaning.place.is_not_null()
    if "order" in frame.columns and (order != 0).any():
        refuse(
            is_position & (order == 0),
            lambda rows, row_index: (
                f"{where}: {column} {table['verdict'][row_index]!r} in row {rows} names a position, but the "
                "presentation order of this row is unknown; give the order, or name the system"
            ),
        )
    # If cells name positions and there is no column of orders, the columns of systems are in displayed order.
    order = order.set(is_position & (order == 0), 1.0)
    preference = meaning.preference.set(is_position & (order < 0), None).fill_null(-meaning.place)
    verdicts = table.with_columns(preference=preference, order=order.replace_strict(ORDERS, return_dtype=pl.String))
    n_both_bad = int(meaning.both_bad.sum())
    return verdicts, [
        *notes,
        *_unsure_notes(verdicts, meaning.unsure, where=where, column=column),
        *build_notes(("both-bad", n_both_bad, f'{where}: {n_both_bad} verdicts "both bad" count as ties')),
    ]


def one_annotator_notes(frame: pl.DataFrame, *, where: str, missing: str) -> list[Note]:
    """A note for a table without the column `missing`, whose verdicts are attributed to one annotator. A column that
    may name the raters, such as `annotator` or `judge_name`, raises `InputError`."""
    columns = [name for name in frame.columns if frame[name].null_count() < frame.height]
    bare_names = {name: re.sub(r"_(name|id|model)$", "", normalise_name(name)) for name in columns}
    rater_names = {"judge", *NAMES["rater"]}
    rater_column = next((name for name in columns if {bare_names[name], normalise_name(name)} & rater_names), None)
    if rater_column is not None:
        raise InputError(
            f"{where}: no column has the role rater, but {rater_column!r} may name the raters; try "
            f"{column_option('rater', rater_column)} (in Python columns={{'rater': {rater_column!r}}}), or remove the "
            "column if one person gave all verdicts"
        )
    message = f"{where}: there is no column {missing!r}, so all verdicts are attributed to one annotator, 'human'"
    return build_notes(("rater-assumed", True, message))


def item_per_row_notes(frame: pl.DataFrame, item: str, unused: Sequence[str], *, where: str) -> list[Note]:
    """A note for the case that each row is a different item and the values of an unused column of items repeat."""
    columns = [name for name in unused if name in frame.columns and not frame[name].dtype.is_nested()]
    repeating_columns = [
        name for name in find_columns("item", columns) if 1 < frame[name].n_unique() <= frame.height / 2
    ]
    if not repeating_columns or frame[item].n_unique() < frame.height:
        return []
    message = (
        f"{where}: {item} differs in every row, but values of {repeating_columns[0]!r} repeat; if "
        f"{repeating_columns[0]!r} is the item, try {column_option('item', repeating_columns[0])}"
    )
    return build_notes(("item-in-each-row", True, message))


def _unsure_notes(verdicts: pl.DataFrame, unsure: pl.Series, *, where: str, column: str) -> list[Note]:
    """A note for the case that A or 1 was read as a column, and the displayed order may differ from the order of the
    columns."""
    is_reversed_position = unsure & (verdicts["order"] == "ba")
    if not is_reversed_position.any():
        return []
    direction = pl.when(pl.col("system_a") < pl.col("system_b")).then(1.0).otherwise(-1.0)
    comparisons = verdicts.drop_nulls("preference").with_columns(
        low=pl.min_horizontal("system_a", "system_b"),
        high=pl.max_horizontal("system_a", "system_b"),
        taken=pl.col("preference") * direction,
        place=pl.col("preference")
        * direction
        * is_reversed_position.filter(verdicts["preference"].is_not_null()).replace_strict(SIGNS),
    )
    keys = [name for name in ("item", "low", "high", "rater", "aspect", "repeat") if name in comparisons.columns]
    repeated_comparisons = (
        comparisons.group_by(keys).agg(pl.len(), pl.col("taken", "place").n_unique() > 1).filter(pl.col("len") > 1)
    )
    contradiction_rates = repeated_comparisons.select(pl.col("taken", "place").mean()).row(0)
    words_seen = ", ".join(verdicts.filter(unsure)["verdict"].unique(maintain_order=True).head(2))
    column_rate, position_rate = contradiction_rates if repeated_comparisons.height else (0.0, 0.0)
    rates_text = (
        f"{100 * column_rate:.0f} % of comparisons have contradictory verdicts in this reading, and "
        f"{100 * position_rate:.0f} % if the cells mean the position"
    )
    if repeated_comparisons.height >= FEW and column_rate >= max(CONTRADICTED, CLEARER * position_rate):
        raise InputError(
            f"{where}: {column} {words_seen} may mean a column or a position and is read as a column ({rates_text}). "
            "Write left and right for positions, or model_a and model_b for columns"
        )
    message = (
        f"{where}: {column} {words_seen} is read as a column, whatever the presentation "
        f"order{f' ({rates_text})' if repeated_comparisons.height else ''}; if a position is meant, write left or right"
    )
    return build_notes(("place-or-column", int(is_reversed_position.sum()), message))


READER = TableReader(name="battles", columns=COLUMNS, make=read_battles)
