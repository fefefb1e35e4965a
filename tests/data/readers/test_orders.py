"""A judge of known position bias gives the same study in every notation of verdicts and orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.reading import read
from custodes.errors import InputError, OptionError
from tests.data.input_errors import reading_error
from tests.data.study_parts import note_counts, note_messages

N_ITEMS = 60
SYSTEMS = ("Aster", "Birch", "Cedar")
Row = dict[str, Any]


def truth() -> list[Row]:
    """Return each comparison in both orders: the names (a, b), whether b was displayed first, and the sign of the
    verdict for a.

    The judge sees the difference in quality with noise and adds 0.6 for the output displayed first.
    """
    rng = np.random.default_rng(5)
    rows = []
    for item in range(N_ITEMS):
        quality = dict(zip(SYSTEMS, rng.normal([0.5, 0, -0.5], 1), strict=True))
        for a, b in (("Birch", "Aster"), ("Aster", "Cedar"), ("Cedar", "Birch")):
            for swapped in (False, True):
                margin = quality[a] - quality[b] + rng.normal() + (-0.6 if swapped else 0.6)
                sign = 0 if abs(margin) < 0.2 else int(np.sign(margin))
                rows.append({"item": f"i{item}", "a": a, "b": b, "swapped": swapped, "sign": sign})
    return rows


TRUTH = truth()


def verdict_rows(words: Sequence[object], order: Sequence[object] = (), *, of: str = "columns") -> list[Row]:
    """Return the verdicts in a notation.

    `words` stand for the first, the second and neither. They refer to the columns (`of="columns"`), to the displayed
    positions (`places`), or to columns whose names are in the displayed order (`names`). `order` holds the words for
    the original and the swapped order.
    """
    rows = []
    for row in TRUTH:
        swapped, a, b = row["swapped"], row["a"], row["b"]
        sign = -row["sign"] if swapped and of != "columns" else row["sign"]
        first, second = (b, a) if swapped and of == "names" else (a, b)
        verdict = {"model_a": first, "model_b": second, "winner": dict(zip((1, -1, 0), words, strict=True))[sign]}
        rows.append({"item": row["item"], **verdict, **({"order": order[swapped]} if order else {})})
    return rows


NAMED = {1: "a", -1: "b"}
PLAIN = verdict_rows(("model_a", "model_b", "tie"), ("ab", "ba"))
BY_NAMES = verdict_rows(("A", "B", "C"), of="names")
NOTATIONS = {
    "BA": verdict_rows(("model_a", "model_b", "tie"), ("AB", "BA")),
    "original, swapped": verdict_rows(("win", "lose", "draw"), ("original", "swapped")),
    "0, 1": verdict_rows(("[[A]]", "[[B]]", "[[C]]"), (0, 1)),
    "1, 2": verdict_rows(("Assistant A", "assistant b", "Tie"), (1, 2)),
    "false, true": verdict_rows(("A>>B", "B>A", "A=B"), (False, True)),
    "the name shown first": [
        row | {"order": row["model_b"] if comparison["swapped"] else row["model_a"]}
        for row, comparison in zip(PLAIN, TRUTH, strict=True)
    ],
    "slots of columns": verdict_rows(("1", "2", "tie"), ("a first", "b first")),
    "left, right": verdict_rows(("left", "right", "tie"), ("left-is-A", "left-is-B"), of="places"),
    "first, second": verdict_rows(("First", "Second", "both bad"), (0, 1), of="places"),
    "names, A": BY_NAMES,
    "names, slots": verdict_rows((1, 2, "tie"), of="names"),
    "names, margins": verdict_rows((1, -1, 0), of="names"),
    "names, shares": verdict_rows((1, 0, 0.5), of="names"),
    "names, alpacaeval": verdict_rows((1, 2, 1.5), of="names"),
    "names, left": verdict_rows(("left", "right", "tie"), of="names"),
    "names, and swapped, too": verdict_rows(("A", "B", "C"), ("original", "swapped"), of="names"),
    "names, left, and swapped, too": verdict_rows(("left", "right", "tie"), (0, 1), of="names"),
    "names, the winner by name": [
        row | {"winner": comparison[NAMED[comparison["sign"]]] if comparison["sign"] else "tie"}
        for row, comparison in zip(BY_NAMES, TRUTH, strict=True)
    ],
    "names, preference": [
        {"item": row["item"], "system_a": row["model_a"], "system_b": row["model_b"], "preference": row["winner"]}
        for row in verdict_rows((1, -1, 0), of="names")
    ],
}


def study_of(rows: list[Row]) -> cu.Study:
    rows = [{name: None if value is None else str(value) for name, value in row.items()} for row in rows]
    return read(pl.DataFrame(rows).with_columns(rater=pl.lit("judge"), kind=pl.lit("metric")))


def verdicts(study: cu.Study) -> pl.DataFrame:
    return study.preferences.frame.sort("item", "system_a", "system_b", "order")


@pytest.mark.parametrize("notation", list(NOTATIONS))
def test_every_notation_is_the_same_study(notation: str) -> None:
    study = study_of(NOTATIONS[notation])
    assert verdicts(study).equals(verdicts(study_of(PLAIN)))


def test_the_bias_is_found_in_names_as_in_an_order_column() -> None:
    plain, names = (cu.consistency(study_of(rows), resamples=20, rng=1) for rows in (PLAIN, NOTATIONS["names, left"]))
    assert names.orders.equals(plain.orders)
    row = plain.orders.row(0, named=True)
    twice: dict[tuple[str, str, str], list[int]] = {}
    for comparison in TRUTH:
        twice.setdefault((comparison["item"], comparison["a"], comparison["b"]), []).append(comparison["sign"])
    same = np.mean([a == b for a, b in twice.values()])
    first = np.mean([-comparison["sign"] if comparison["swapped"] else comparison["sign"] for comparison in TRUTH])
    assert row["n_both_orders"] == len(twice) == 3 * N_ITEMS
    assert row["consistency"] == pytest.approx(same)
    margin = plain.findings.filter(kind="position")["estimate"].item()
    assert margin == pytest.approx(100 * first)
    assert margin > 10


def test_words_for_positions_give_the_order_of_ties_too() -> None:
    rows = [("A1", "B1", "left"), ("B1", "A1", "right"), ("A1", "C1", "both bad"), ("B1", "C1", "tie")]
    frame = pl.DataFrame(
        {"item": ["1", "1", "2", "3"], "rater": "ann", "kind": "human", "order": [None] * 4}
        | dict(zip(("model_a", "model_b", "winner"), zip(*rows, strict=True), strict=True))
    )
    for table in (frame, frame.drop("order")):
        study = read(table)
        assert study.preferences.frame.select("order", "preference").rows() == [
            ("ab", 1),
            ("ba", 1),
            ("ab", 0),
            ("ab", 0),
        ]
        assert note_counts(study) == {"both-bad": 1}


def test_words_for_positions_give_the_order_of_their_rater_only() -> None:
    people = pl.DataFrame(
        {"item": ["1", "2"], "model_a": "A1", "model_b": "B1", "winner": ["left", "tie"], "rater": "ann"}
    )
    judge = people.with_columns(winner=pl.Series(["model_a", "model_b"]), rater=pl.lit("gpt-4"))
    swapped = judge.rename({"model_a": "model_b", "model_b": "model_a"}).select(judge.columns)
    orders = [
        read(pl.concat(tables)).preferences.frame.sort("rater", "item", "order")["order"].to_list()
        for tables in ((people, judge), (people, judge, swapped))
    ]
    assert orders == [["ab", "ab", "", ""], ["ab", "ab", "ab", "ba", "ab", "ba"]]


def test_notes_say_how_words_and_names_were_read() -> None:
    notes = {note.rule: note for note in study_of(NOTATIONS["0, 1"]).notes}
    assert notes["place-or-column"].count == sum(row["swapped"] and row["sign"] != 0 for row in TRUTH)
    assert "if a position is meant, write left or right" in notes["place-or-column"].message
    for quiet in ("original, swapped", "left, right", "names, A"):
        assert "place-or-column" not in {note.rule for note in study_of(NOTATIONS[quiet]).notes}
    assert note_counts(study_of(BY_NAMES))["order-by-names"] == 3 * N_ITEMS


def rows_of(*cells: tuple[str, str, str, str]) -> pl.DataFrame:
    columns = ["model_a", "model_b", "winner", "order"]
    return pl.DataFrame(cells, schema=columns, orient="row").with_columns(item=pl.lit(1), rater=pl.lit("j"))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            rows_of(("A1", "B1", "A", "1")),
            "table: the meaning of order 1 (rows 1) is unclear; allowed numbers are 0, 1 (1: swapped) or 1, "
            "2 (first or second order); write ab or ba",
        ),
        (
            rows_of(("A1", "B1", "A", "0"), ("A1", "B1", "A", "2")),
            "table: the meaning of order 0, 2 (rows 1, 2) is unclear; allowed numbers are 0, 1 (1: swapped) or 1, 2 "
            "(first or second order); write ab or ba",
        ),
        (
            rows_of(("A1", "B1", "A", "sideways")),
            "table: order 'sideways' in row 1; allowed: ab, ba; original, swapped; first, second (order); left, "
            "right (position of the system in the first column); false, true (true: swapped); 0, 1 (1: swapped); "
            "1, 2 (2: second order); the name of the system shown first; unknown",
        ),
        (
            rows_of(("A1", "B1", "left", "ab"), ("A1", "B1", "left", "")),
            "table: winner 'left' in row 2 names a position, but the presentation order of this row is unknown; "
            "give the order, or name the system",
        ),
        (
            rows_of(("A1", "B1", "A", "ab"), ("A1", "B1", "A", "ab")),
            "table: the same verdict occurs twice, in rows 1, 2 (item '1', system_a 'A1', system_b 'B1', rater "
            "'j', repeat '0', order 'ab'); if pairs were rated in both presentation orders, give a column "
            "'order' (ab, ba; or --column order=NAME), or name the systems in the displayed order; if pairs were "
            "rated repeatedly, number the runs in a column 'repeat'",
        ),
        (
            rows_of(("A1", "B1", "A", "ab"), ("B1", "A1", "A", "ba")),
            (
                "table: rows 1, 2 name the same two systems in opposite orders, but according to order 'ab' the same "
                "system was shown first in all these rows. If the names are in the displayed order, write original "
                "and swapped as orders"
            ),
        ),
    ],
)
def test_orders_that_cannot_be_told_are_one_line(frame: pl.DataFrame, message: str) -> None:
    assert reading_error(frame) == message


def test_a_pair_that_stands_twice_in_one_order_is_no_second_order() -> None:
    frame = rows_of(("A1", "B1", "A", ""), ("A1", "B1", "B", "")).drop("order").with_columns(position=pl.Series([0, 1]))
    with pytest.raises(InputError) as error:
        read(frame)
    text = str(error.value)
    assert text.startswith("table: the same verdict occurs twice, in rows 1, 2 (item '1', system_a 'A1',")
    assert "try --column order=position; if" in text
    assert "'repeat'" in text
    assert "columns not used: position" in text


def test_only_the_rater_whose_names_turn_has_orders() -> None:
    frame = pl.DataFrame(
        {
            "item": [1, 1, 1, 2],
            "model_a": ["A1", "B1", "B1", "B1"],
            "model_b": ["B1", "A1", "A1", "A1"],
            "rater": ["j", "j", "ann", "j"],
            "winner": ["A", "A", "A", "B"],
        }
    )
    assert read(frame).preferences.frame.select("item", "rater", "order", "preference").rows() == [
        ("1", "j", "ab", 1),
        ("1", "j", "ba", -1),
        ("1", "ann", "", -1),
        ("2", "j", "ba", 1),
    ]


def test_a_comparison_that_stands_twice_says_nothing_of_the_others() -> None:
    rows = [{"item": k, "model_a": "A1", "model_b": "B1", "rater": "j", "winner": "A"} for k in range(9)]
    study = read(pl.DataFrame([*rows, rows[0] | {"model_a": "B1", "model_b": "A1"}]))
    assert study.preferences.frame["order"].value_counts().sort("order").rows() == [("", 8), ("ab", 1), ("ba", 1)]
    assert [note.message for note in study.notes if note.rule == "order-by-names"] == [
        (
            "table: 1 comparisons occur as (A, B) and as (B, A) and are read as the two "
            "presentation orders; the system named first was shown first; the order of 8 further "
            "verdicts is unknown, as too few comparisons occur in both orders"
        )
    ]


def test_words_that_are_true_of_swapped_names_are_so_in_all_rows() -> None:
    rows = [{"item": k, "model_a": "B1", "model_b": "A1", "order": "swapped"} for k in range(9)]
    frame = pl.DataFrame([*rows, {"item": 0, "model_a": "A1", "model_b": "B1", "order": "original"}])
    study = read(frame.with_columns(rater=pl.lit("j"), winner=pl.lit("A")))
    assert study.preferences.frame["order"].to_list() == ["ba"] * 9 + ["ab"]


@pytest.mark.parametrize(("first", "second"), [("A", "B"), ("A>B", "B>A"), ("1", "2")])
def test_a_word_that_the_data_say_is_the_place_is_refused(first: str, second: str) -> None:
    def frame_of(items: int) -> pl.DataFrame:
        turned = [
            {"item": k, "model_a": "X", "model_b": "Y", "order": order, "winner": word}
            for k in range(items)
            for order, word in (("ab", first), ("ba", second if k % 5 else first))
        ]
        return pl.DataFrame(turned).with_columns(rater=pl.lit("j"))

    assert reading_error(frame_of(20)) == (
        f"table: winner {first}, {second} may mean a column or a position and is read as the name of a "
        "column (80 % of comparisons have contradictory verdicts if the cells mean columns, and 20 % if the cells "
        "mean the "
        "position). Write left and right for positions, or model_a and model_b for columns"
    )
    assert note_messages(read(frame_of(19))) == {
        "place-or-column": f"winner {first}, {second} is read as the name of a column, not as a position on the screen "
        "(79 % of comparisons have contradictory verdicts if the cells mean columns, and 21 % if the cells mean "
        "the position); "
        "if a position is meant, write left or right"
    }


@pytest.mark.parametrize("column", ["item", "rater", "aspect", "repeat"])
def test_verdicts_on_different_questions_contradict_nothing(column: str) -> None:
    frame = rows_of(("A1", "B1", "A", "ab"), ("A1", "B1", "A", "ba")).with_columns(
        aspect=pl.lit("x"), repeat=pl.lit("0")
    )
    reading = (
        "is read as the name of a column, not as a position on the screen{}; if a position is meant, write left or "
        "right"
    )
    rates = (
        " (0 % of comparisons have contradictory verdicts if the cells mean columns, and 100 % if the cells mean the "
        "position)"
    )
    for table, text in ((frame, rates), (frame.with_columns(pl.Series(column, ["3", "4"])), "")):
        assert note_messages(read(table)) == {"place-or-column": f"winner A {reading.format(text)}"}


@pytest.mark.parametrize("role", ["repeat", "aspect"])
def test_a_column_that_may_tell_doubled_rows_apart_is_named(role: str) -> None:
    alternative = {"repeat": "trial", "aspect": "criterion"}[role]
    frame = rows_of(("A1", "B1", "A", ""), ("A1", "B1", "B", "")).with_columns(pl.Series(alternative, ["x", "y"]))
    with pytest.raises(InputError, match=f"; try --column {role}={alternative}; if pairs were rated"):
        read(frame)
    assert read(frame, columns={role: alternative}).preferences.frame[role].to_list() == ["x", "y"]


@pytest.mark.parametrize(
    ("names", "of", "mapping"),
    [
        (("verdict_AB", "verdict_BA"), "places", {"winner": "verdict_{order}", "phrase": "{position}"}),
        (("original_winner", "swapped_winner"), "columns", {"winner": "{order}_winner"}),
    ],
)
def test_a_column_of_verdicts_for_each_order_is_read(names: tuple[str, str], of: str, mapping: dict[str, str]) -> None:
    columns = ["item", "model_a", "model_b"]
    one, two = (pl.DataFrame(verdict_rows(("A", "B", "tie"), of=of))[start::2] for start in (0, 1))
    table = one.rename({"winner": names[0]}).join(two.rename({"winner": names[1]}), on=columns)
    read_table = table.with_columns(judge=pl.lit("judge"))
    assert verdicts(read(read_table, columns=mapping)).equals(verdicts(study_of(PLAIN)))
    for columns, message in (
        ({"winner": mapping["winner"], "order": "item"}, "the presentation orders are named twice"),
        ({"score": "metric:{order}"}, "{order} is only allowed in a pattern for winner"),
    ):
        with pytest.raises(OptionError, match=message):
            read(read_table, columns=columns)


@pytest.mark.parametrize(
    ("numbers", "codes"),
    [([0, 1], [1, -1]), ([1, 2], [1, -1]), ([0, 0], [1, 1]), ([2, 2], [-1, -1]), ([0, None], [1, 0])],
)
def test_order_numbers_count_from_0_or_from_1(numbers: list[int | None], codes: list[int]) -> None:
    frame = pl.DataFrame({"item": [1, 2], "order": numbers, "preference": [1, -1]}).with_columns(
        system_a=pl.lit("A"), system_b=pl.lit("B"), rater=pl.lit("j")
    )
    merged, _ = cu.read(frame).preferences.merge_verdicts("first")
    assert merged["order"].to_list() == codes
