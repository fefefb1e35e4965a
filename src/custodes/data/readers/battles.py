"""Battles: a table with `item`, two systems (`model_a, model_b` or `system_a, system_b`) and a `winner` or
`preference`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl
import polars.selectors as cs

from custodes.data.mapping.cell_types import CATEGORIES
from custodes.data.mapping.column_vocabulary import NAMES, find_columns, normalise_name, split_name
from custodes.data.notes import Note, build_notes
from custodes.data.preferences import CHANCES, SECONDS, column_option
from custodes.data.raters import Raters, rater_kinds
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.readers.verdict_words import interpret_cells, read_orders, without_empty
from custodes.data.readers.verdicts import read_verdicts
from custodes.data.study import Study
from custodes.data.table import check_columns, label_column, refuse, second_rows
from custodes.errors import InputError, reject

SYSTEMS = (("model_a", "model_b"), ("system_a", "system_b"))
COLUMNS = (
    ("item", *SYSTEMS[0], "winner"),
    ("item", *SYSTEMS[1], "preference"),
    ("item", *SYSTEMS[1], "winner"),
    ("item", *SYSTEMS[0], "preference"),
)
OPTIONAL = ("rater", "kind", "aspect", "order", "repeat", "invalid", *CHANCES, SECONDS)
OWN_COLUMNS = {*COLUMNS[1], "rater", "kind", "aspect", "order", "repeat"}
"""Columns that identify a table in the format of custodes, in which `verdict_words` reads words differently."""

FEW = 20
"""Minimum number of comparisons in both orders at which contradictions raise an error. With fewer comparisons there is
only a note."""

CONTRADICTED, CLEARER = 0.5, 2.0
"""Two limits for verdicts that may mean columns or positions. Verdicts that are read as names of columns raise an error
if both limits are reached. The first limit is the proportion of comparisons with contradictory verdicts in this
reading. The second limit is the ratio of this proportion to the proportion if the verdicts are read as positions."""

ORDERS = {1.0: "ab", -1.0: "ba", 0.0: ""}


def read_battles(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of verdicts. "Both bad" is a tie. If there is no column `rater`, all verdicts are attributed to one
    annotator.

    The name of the judge may be in `judge` instead of `rater`. `invalid` has the reason for a missing verdict, `p_a`,
    `p_tie`, `p_b` have the probabilities of A, a tie and B, and `seconds` has the time. Rows with `role` `second` are
    second opinions (`Study.second`). The module `verdict_words` defines the meaning of cells.
    """
    if "judge" in frame.columns and "rater" not in frame.columns:
        frame = frame.rename({"judge": "rater"})
    present_column_names = set(frame.columns)
    layout_column_names = max(
        COLUMNS, key=lambda columns: (len(set(columns) & present_column_names), columns == COLUMNS[1])
    )
    _, first_system_column_name, second_system_column_name, verdict_column_name = layout_column_names
    reject(
        *(
            (
                {name, synonym} <= present_column_names,
                f"{where}: columns {name!r} and {synonym!r} have the same meaning; remove one",
            )
            for name, synonym in (*zip(*SYSTEMS, strict=True), ("winner", "preference"))
        ),
        error=InputError,
    )
    has_rater_column = "rater" in frame.columns or "kind" in frame.columns
    required_column_names = (*layout_column_names, "rater") if has_rater_column else layout_column_names
    rater_notes = [] if has_rater_column else one_annotator_notes(frame, where=where, missing_column_name="rater")
    is_second_opinion, role_columns = second_rows(frame, where=where)
    optional_column_names = (*OPTIONAL, *role_columns)
    notes = check_columns(frame, where=where, required=required_column_names, optional=optional_column_names)
    verdict_table = pl.DataFrame(
        [
            label_column(frame, "item", where=where),
            label_column(frame, first_system_column_name, where=where).alias("system_a"),
            label_column(frame, second_system_column_name, where=where).alias("system_b"),
            label_column(frame, "rater", where=where)
            if has_rater_column
            else pl.repeat("human", frame.height, eager=True).alias("rater"),
            without_empty(label_column(frame, verdict_column_name, where=where, empty=True)).alias("verdict"),
            *(label_column(frame, name, where=where, empty=True) for name in ("aspect", "repeat", "invalid")),
            *(frame[column_name] for column_name in (*CHANCES, SECONDS) if column_name in frame.columns),
        ]
    )
    verdict_rows, order_notes = interpret_verdicts(
        verdict_table, frame, where=where, verdict_column_name=verdict_column_name
    )
    unused_column_names = [
        column_name
        for column_name in frame.columns
        if column_name not in (*required_column_names, *optional_column_names)
    ]
    preferences, verdict_notes = read_verdicts(
        verdict_rows, where=where, invalid=invalid, unused_column_names=unused_column_names
    )
    notes += [
        *order_notes,
        *verdict_notes,
        *item_per_row_notes(frame, "item", unused_column_names, where=where),
        *rater_notes,
    ]
    kind_of_rater = rater_kinds(frame, where=where) if has_rater_column else {"human": "human"}
    first_opinions, second_opinions = preferences.split_opinions(
        is_second_opinion, verdict_rows["preference"].is_not_null()
    )
    return Study(
        preferences=first_opinions,
        second=second_opinions,
        raters=Raters.infer(kind_of_rater),
        notes=tuple(notes),
        name=where,
    )


def interpret_verdicts(
    verdict_table: pl.DataFrame, frame: pl.DataFrame, *, where: str, verdict_column_name: str
) -> tuple[pl.DataFrame, list[Note]]:
    """`verdict_table` (item, system_a, system_b, rater, verdict, optional aspect and repeat), with the added columns
    `preference` and `order`."""
    verdict_cells = verdict_table["verdict"].alias(verdict_column_name)
    is_own_format = set(frame.columns) >= OWN_COLUMNS
    cell_meaning_rows = interpret_cells(
        verdict_cells, verdict_table["system_a"], verdict_table["system_b"], where=where, is_own_format=is_own_format
    )
    is_position_cell = cell_meaning_rows["place"].is_not_null()
    has_orders = bool((label_column(frame, "order", where=where, empty=True) != "").any())
    rater_labels = verdict_table["rater"]
    # For a rater who names positions, the columns of systems are in displayed order, also for ties.
    is_order_needed = has_orders | ~rater_labels.is_in(rater_labels.filter(is_position_cell).unique().to_list())
    order_signs, notes = pl.repeat(1.0, frame.height, eager=True), list[Note]()
    if is_order_needed.any():
        inferred_order_signs, notes = read_orders(
            verdict_table.filter(is_order_needed),
            frame.filter(is_order_needed),
            where=where,
            is_own_format=is_own_format,
        )
        order_signs = order_signs.scatter(is_order_needed.arg_true(), inferred_order_signs)
    if has_orders and (order_signs != 0).any():
        refuse(
            is_position_cell & (order_signs == 0),
            lambda rows, row_index: (
                f"{where}: {verdict_column_name} {verdict_table['verdict'][row_index]!r} in row {rows} names a "
                "position, but the presentation order of this row is unknown; give the order, or name the system"
            ),
        )
    # If cells name positions and all orders are unknown, the columns of systems are in displayed order.
    order_signs = order_signs.set(is_position_cell & (order_signs == 0), 1.0)
    verdict_rows = verdict_table.with_columns(
        preference=cell_meaning_rows["preference"]
        .set(is_position_cell & (order_signs < 0), None)
        .fill_null(-cell_meaning_rows["place"]),
        order=order_signs.replace_strict(ORDERS, return_dtype=pl.String),
    )
    n_both_bad_verdicts = int(cell_meaning_rows["both_bad"].sum())
    return verdict_rows, [
        *notes,
        *_ambiguous_place_notes(
            verdict_rows, cell_meaning_rows["unsure"], where=where, verdict_column_name=verdict_column_name
        ),
        *build_notes(
            ("both-bad", n_both_bad_verdicts, f'{where}: {n_both_bad_verdicts} verdicts "both bad" count as ties')
        ),
    ]


def one_annotator_notes(frame: pl.DataFrame, *, where: str, missing_column_name: str) -> list[Note]:
    """A note for a table that lacks the column `missing_column_name`, so that its verdicts are attributed to one
    annotator. A column that may name the raters, such as `annotator` or `judge_name`, raises `InputError`."""
    filled_column_names = [
        column_name for column_name in frame.columns if frame[column_name].null_count() < frame.height
    ]
    for rater_column_name in filled_column_names:
        normalised_name = normalise_name(rater_column_name)
        if not {normalised_name, re.sub(r"_(name|id|model)$", "", normalised_name)}.isdisjoint(NAMES["rater"]):
            raise InputError(
                f"{where}: no column has the role rater, but {rater_column_name!r} may name the raters; try "
                f"{column_option('rater', rater_column_name)} (in Python columns={{'rater': {rater_column_name!r}}}), "
                "or remove the column if one person gave all verdicts"
            )
    return [
        Note(
            rule="rater-assumed",
            message=f"{where}: there is no column {missing_column_name!r}, so all verdicts are attributed to one "
            "annotator, 'human'",
        )
    ]


def number_rows(frame: pl.DataFrame, column_names: Sequence[str], *, where: str) -> tuple[pl.DataFrame, list[Note]]:
    """The table and notes. If the table has battles and no column that may be the item, each row becomes an item.

    `column_names` are the names of the columns after mapping. The label of an item contains the name of the table, so
    that rows of two tables are different items.
    """
    present_column_names = set(column_names)
    layout_column_sets = [{*layout_columns} - {"item"} for layout_columns in COLUMNS]
    if not any(layout_columns <= present_column_names for layout_columns in layout_column_sets) or _item_columns(
        list(present_column_names.difference(*layout_column_sets))
    ):
        return frame, []
    note_message = (
        f"{where}: no column names the item. Each row is therefore a separate item, and verdicts in different rows "
        "are never on the same item; if a column has the item, map it to the role item"
    )
    return (
        frame.with_columns(item=pl.format("{}/{}", pl.lit(where), pl.int_range(1, pl.len() + 1))),
        [Note(rule="row-is-item", message=note_message)],
    )


def _item_columns(column_names: Sequence[str]) -> list[str]:
    """The columns that may be the item. Columns such as topic and language only describe items, so they are left
    out."""
    return [name for name in find_columns("item", column_names) if CATEGORIES.isdisjoint(split_name(name))]


def item_per_row_notes(
    frame: pl.DataFrame, item_column_name: str, unused_column_names: Sequence[str], *, where: str, role: str = "item"
) -> list[Note]:
    """A note for a table in which each row is a different item although the values of an unused item column repeat.

    `role` is the role that the note suggests for this column: `item` or `cluster`.
    """
    unused_flat_table = frame.select(cs.by_name(*unused_column_names, require_all=False) - cs.nested())
    for column_name in _item_columns(unused_flat_table.columns):
        is_repeated = 1 < frame[column_name].n_unique() <= frame.height / 2
        if is_repeated and frame[item_column_name].n_unique() == frame.height:
            return [
                Note(
                    rule="item-in-each-row",
                    message=f"{where}: {item_column_name} differs in every row, but values of {column_name!r} repeat; "
                    f"if {column_name!r} is the {role}, try {column_option(role, column_name)}",
                )
            ]
    return []


def _ambiguous_place_notes(
    verdict_table: pl.DataFrame, is_ambiguous_cell: pl.Series, *, where: str, verdict_column_name: str
) -> list[Note]:
    """A note for the case that A or 1 was read as a column, and the displayed order may differ from the order of the
    columns."""
    is_ambiguous_swapped_cell = is_ambiguous_cell & (verdict_table["order"] == "ba")
    if not is_ambiguous_swapped_cell.any():  # both readings agree
        return []
    pair_direction_expression = pl.when(pl.col("system_a") < pl.col("system_b")).then(1.0).otherwise(-1.0)
    sorted_pair_rows = verdict_table.drop_nulls("preference").with_columns(
        low=pl.min_horizontal("system_a", "system_b"),
        high=pl.max_horizontal("system_a", "system_b"),
        taken=pl.col("preference") * pair_direction_expression,
        place=pl.col("preference")
        * pair_direction_expression
        * is_ambiguous_swapped_cell.filter(verdict_table["preference"].is_not_null()).replace_strict(
            {True: -1, False: 1}
        ),
    )
    contradiction_flag_rows = (
        sorted_pair_rows.group_by(cs.by_name("item", "low", "high", "rater", "aspect", "repeat", require_all=False))
        .agg(pl.len(), pl.col("taken", "place").n_unique() > 1)
        .filter(pl.col("len") > 1)
    )
    ambiguous_text = ", ".join(verdict_table.filter(is_ambiguous_cell)["verdict"].unique(maintain_order=True).head(2))
    column_contradiction_rate, position_contradiction_rate = (
        rate or 0.0 for rate in contradiction_flag_rows.select(pl.col("taken", "place").mean()).row(0)
    )
    rates_text = (
        f"{100 * column_contradiction_rate:.0f} % of comparisons have contradictory verdicts if the cells mean "
        "columns, and "
        f"{100 * position_contradiction_rate:.0f} % if the cells mean the position"
    )
    if contradiction_flag_rows.height >= FEW and column_contradiction_rate >= max(
        CONTRADICTED, CLEARER * position_contradiction_rate
    ):
        raise InputError(
            f"{where}: {verdict_column_name} {ambiguous_text} may mean a column or a position and is read as the "
            f"name of a column ({rates_text}). Write left and right for positions, or model_a and model_b for columns"
        )
    return build_notes(
        (
            "place-or-column",
            int(is_ambiguous_swapped_cell.sum()),
            f"{where}: {verdict_column_name} {ambiguous_text} is read as the name of a column, not as a position on "
            f"the screen{f' ({rates_text})' if contradiction_flag_rows.height else ''}; if a position is meant, write "
            "left or right",
        )
    )


READER = TableReader(name="battles", columns=COLUMNS, make=read_battles)
