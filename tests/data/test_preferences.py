from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.data.notes import Note
from custodes.data.preferences import SCHEMA, Preferences
from tests.data.input_errors import input_error

VERDICTS = ("item", "system_a", "system_b", "preference", "order", "repeat")
CHANCES = ("item", "system_a", "system_b", "preference", "p_a", "p_tie", "p_b", "invalid")


def make(*rows: tuple[object, ...], names: Sequence[str] = VERDICTS) -> tuple[Preferences, list[Note]]:
    """Verdicts of one rater, and notes; a preference of None is a missing verdict."""
    frame = pl.DataFrame([list(row) for row in rows], schema=list(names), orient="row", strict=False)
    return Preferences.make(frame.with_columns(rater=pl.lit("j")), where="v.csv")


def verdicts_of(*rows: tuple[object, ...]) -> Preferences:
    return make(*rows)[0]


def chances(*rows: tuple[object, ...]) -> Preferences:
    return make(*rows, names=CHANCES)[0]


def test_pairs_are_turned_with_verdict_and_order() -> None:
    frame = verdicts_of(
        ("1", "B", "A", 1, "ab", 0), ("2", "A", "B", 1, "ba", 0), ("3", "B", "A", 0, "unknown", 0)
    ).frame
    assert frame.schema == pl.Schema(SCHEMA)
    assert frame.select("system_a", "system_b", "order", "preference").rows() == [
        *(("A", "B", "ba", -1), ("A", "B", "ba", 1), ("A", "B", "", 0))
    ]


VERDICT_ROWS = st.tuples(
    st.sampled_from("ABC"), st.sampled_from("ABC"), st.sampled_from([1, 0, -1]), st.sampled_from(["ab", "ba", ""])
).filter(lambda row: row[0] != row[1])


@given(st.lists(VERDICT_ROWS, min_size=1, max_size=6))
def test_swapping_the_sides_of_every_row_changes_nothing(rows: list[tuple[str, str, int, str]]) -> None:
    turn = {"ab": "ba", "ba": "ab", "": ""}
    original = verdicts_of(*((k, a, b, p, order, 0) for k, (a, b, p, order) in enumerate(rows)))
    swapped = verdicts_of(*((k, b, a, -p, turn[order], 0) for k, (a, b, p, order) in enumerate(rows)))
    assert original.frame.equals(swapped.frame)
    assert (original.frame["system_a"] < original.frame["system_b"]).all()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            ("1", "A", "B", 2, "", 0),
            "v.csv: preference 2 in row 1; allowed: 1 (system_a better), 0 (tie), -1 (system_b better)",
        ),
        (("1", "A", "B", 1, "left", 0), "v.csv: order 'left' in row 1; allowed: ab, ba, unknown"),
        (("1", "A", "A", 1, "", 0), "v.csv: row 1 compares 'A' with itself; a verdict needs two different systems"),
    ],
)
def test_bad_rows_raise(row: tuple[object, ...], message: str) -> None:
    assert input_error(verdicts_of, row) == message


def test_a_doubled_verdict_raises_whichever_way_it_is_written() -> None:
    frame = pl.DataFrame({"item": "1", "system_a": ["A", "B"], "system_b": ["B", "A"], "rater": "j", "preference": 1})
    frame = frame.with_columns(order=pl.Series(["ab", "ba"]))
    message = (
        "v.csv: the same verdict occurs twice, in rows 1, 2 (item '1', system_a 'A', system_b 'B', rater 'j', repeat "
        "'0', order 'ab'); {}if pairs were rated in both presentation orders, give a column 'order' (ab, ba{}), or "
        "name the systems in the displayed order; if pairs were rated repeatedly, number the runs in a column 'repeat'"
        "{}"
    )
    make = partial(Preferences.make, frame, where="v.csv")
    assert input_error(make) == message.format("", "; or --column order=NAME", "")
    assert input_error(make, unused=["note"]) == message.format(
        "", "; or --column order=NAME", "; columns not used: note"
    )
    assert input_error(make, unused=["swapped", "judge", "run"]) == message.format(
        "try --column rater=judge --column order=swapped --column repeat=run; ",
        "",
        "; columns not used: swapped, judge, run",
    )


def test_a_table_without_rows_and_a_negative_time_raise() -> None:
    frame = pl.DataFrame({"item": "1", "system_a": "A", "system_b": "B", "rater": "j", "preference": 1, "seconds": -1})
    assert input_error(Preferences.make, frame.clear()) == ("preferences: no rows; a study needs at least one verdict")
    assert input_error(Preferences.make, frame) == (
        "preferences: seconds -1.0 in row 1; allowed: a number of seconds of at least 0, or empty"
    )
    frame = frame.with_columns(seconds=0.0, repeat=pl.lit(" "), aspect=pl.lit("x"))
    assert Preferences.make(frame)[0].frame.row(0) == ("1", "A", "B", "j", "x", "0", "", 1, None, None, None, 0.0)


def test_what_is_torn_is_counted() -> None:
    verdicts = verdicts_of(("1", "A", "B", 1, "ab", 0), ("1", "A", "B", -1, "ba", 0), ("2", "A", "B", 1, "ab", 0))
    assert [(n.rule, n.count) for n in verdicts.merge_verdicts("mean")[1]] == [("torn-verdicts", 1)]
    assert [(n.rule, n.count) for n in verdicts.merge_verdicts("consistent")[1]] == [("torn-verdicts", 1)]
    assert verdicts.merge_verdicts("first")[1] == []


def test_what_was_asked_and_not_answered_is_kept_beside_the_verdicts() -> None:
    frame = pl.DataFrame(
        {"item": [1, 2, 3], "system_a": "B", "system_b": "A", "rater": "j", "preference": ["", "1", "x"]}
    )
    frame = frame.with_columns(order=pl.lit("ab"), preference=pl.col("preference").replace("x", ""))
    preferences, _ = Preferences.make(frame, unreadable=pl.Series([False, True, True]))
    assert preferences.frame["item"].to_list() == ["2"]
    assert preferences.missing.select("item", "system_a", "order", "why").rows() == [
        ("1", "A", "ba", "empty"),
        ("3", "A", "ba", "unreadable"),
    ]
    assert Preferences().missing.columns == preferences.missing.columns
    assert preferences.select_rows(pl.col("item") == "3").missing.height == 1


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.booleans()), min_size=1, max_size=5))
def test_chances_turn_with_the_systems(rows: list[tuple[float, float, bool]]) -> None:
    parts = [(a * (1 - tie), tie, (1 - a) * (1 - tie), swap) for a, tie, swap in rows]
    original = chances(*((k, "A", "B", 1, a, tie, b, "") for k, (a, tie, b, _) in enumerate(parts)))
    swapped = chances(
        *(
            (k, "B", "A", -1, b, tie, a, "") if swap else (k, "A", "B", 1, a, tie, b, "")
            for k, (a, tie, b, swap) in enumerate(parts)
        )
    )
    assert original.frame.equals(swapped.frame)
    assert original.frame.schema == pl.Schema(SCHEMA)


def test_chances_are_of_three_outcomes_or_unknown() -> None:
    frame = chances((1, "A", "B", 1, 0.7, None, 0.3005, ""), (2, "A", "B", 1, None, None, None, "")).frame
    assert frame.select("p_a", "p_tie", "p_b").rows() == [(0.7, 0.0, 0.3005), (None, None, None)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((1, 0.7, 0.2, 0.2, ""), "v.csv: p_a, p_tie, p_b sum to 1.1 in row 1; their sum must be 1"),
        (
            (1, 0.7, None, None, ""),
            "v.csv: p_a, p_tie, p_b are partly empty in row 1; give all three probabilities, or none",
        ),
        (
            (1, None, 1.0, None, ""),
            "v.csv: p_a, p_tie, p_b are partly empty in row 1; give all three probabilities, or none",
        ),
        ((1, 1.2, 0.0, -0.2, ""), "v.csv: p_a 1.2 in row 1; allowed: a probability from 0 to 1"),
        (
            (0, None, None, None, "refusal"),
            "v.csv: row 1 has both a preference and a reason in 'invalid' ('refusal'); remove the preference or "
            "the reason",
        ),
    ],
)
def test_bad_chances_and_reasons_raise(row: tuple[object, ...], message: str) -> None:
    assert input_error(chances, (1, "A", "B", *row)) == message


def test_the_reason_of_an_invalid_verdict_is_kept() -> None:
    rows = [
        ("1", "B", "A", None, 0.5, 0.25, 0.25, "refusal"),
        ("2", "A", "B", None, None, None, None, ""),
        ("3", "A", "B", 1, None, None, None, ""),
    ]
    preferences, notes = make(*rows, names=CHANCES)
    assert preferences.missing.select("item", "system_a", "why").rows() == [("1", "A", "refusal"), ("2", "A", "empty")]
    assert {note.rule: note.message for note in notes} == {
        "missing-verdict": "v.csv: 1 verdicts are empty and count as not rated",
        "invalid-verdict": "v.csv: 1 verdicts are invalid and count as not rated (refusal 1)",
        "spare-chances": "v.csv: probabilities in 1 rows without a verdict are ignored",
    }


def test_what_was_asked_in_both_orders_and_answered_in_one_does_not_count() -> None:
    verdicts = verdicts_of(
        *((1, "A", "B", 1, "ab", 0), (1, "A", "B", None, "ba", 0)),
        *((2, "A", "B", 1, "ab", 0), (2, "A", "B", 0, "ba", 0)),
        (3, "A", "B", 1, "ab", 0),  # queried in one order by design
        *((4, "A", "B", 1, "ab", 0), (4, "A", "B", None, "ab", 1)),  # one run of one order failed
        *((5, "A", "B", 1, "", 0), (5, "A", "B", None, "", 1)),  # unknown order
        *((6, "B", "A", -1, "ba", 0), (6, "A", "B", None, "ba", 0)),  # the same, with the systems swapped
        *((7, "A", "B", 1, "ab", 0), (7, "A", "B", None, "ba", 0), (7, "A", "B", -1, "ba", 1)),  # queried twice
        *((8, "A", "B", None, "ab", 0), (8, "A", "B", None, "ba", 0)),
    )
    assert verdicts.half_comparisons()["item"].to_list() == ["1", "6"]
    for orders, items in (("mean", "23457"), ("consistent", "345"), ("first", "1234567")):
        settled, notes = verdicts.merge_verdicts(orders)  # type: ignore[arg-type]
        assert "".join(settled["item"]) == items
        counts = {note.rule: note.count for note in notes}
        assert counts.get("half-judged", 0) == (0 if orders == "first" else 2)


ASKED_ROWS = st.tuples(
    st.sampled_from("12"),
    st.sampled_from([("A", "B"), ("A", "C")]),
    st.sampled_from([1, 0, -1, None]),
    st.sampled_from(["ab", "ba", ""]),
)


@given(st.lists(ASKED_ROWS, min_size=1, max_size=8), st.booleans(), st.booleans())
@settings(max_examples=15)
def test_half_judged_comparisons_do_not_hang_on_names_or_orders(
    rows: list[tuple[str, tuple[str, str], int | None, str]], swapped: bool, relabelled: bool
) -> None:
    """Swapping system_a and system_b changes nothing; swapping ab and ba changes only the order."""
    turn = {"ab": "ba", "ba": "ab", "": ""}
    original = verdicts_of(
        *((item, a, b, preference, order, k) for k, (item, (a, b), preference, order) in enumerate(rows))
    )
    turned = []
    for k, (item, (a, b), preference, order) in enumerate(rows):
        label = turn[order] if relabelled else order
        minus = None if preference is None else -preference
        turned.append((item, b, a, minus, turn[label], k) if swapped else (item, a, b, preference, label, k))
    changed = verdicts_of(*turned)
    assert original.half_comparisons().equals(changed.half_comparisons())
    for orders in ("mean", "consistent", "first"):
        before, after = original.merge_verdicts(orders)[0], changed.merge_verdicts(orders)[0]  # type: ignore[arg-type]
        display_order = -after["order"] if relabelled else after["order"]
        assert before.equals(after.with_columns(order=display_order + 0.0))


@pytest.mark.parametrize("orders", ["mean", "consistent", "first"])
def test_a_study_of_half_comparisons_alone_keeps_them_only_by_the_first_verdict(orders: Any) -> None:
    frame = pl.DataFrame(
        {"item": [1, 1, 2, 2, 3], "order": ["ab", "ba", "ba", "ab", "ab"], "preference": [1, None, -1, None, 1]}
    )
    table, _ = Preferences.make(frame.with_columns(system_a=pl.lit("A"), system_b=pl.lit("B"), rater=pl.lit("j")))
    merged, notes = table.merge_verdicts(orders)
    assert table.half_comparisons()["item"].to_list() == ["1", "2"]
    assert merged["item"].to_list() == (["1", "2", "3"] if orders == "first" else ["3"])
    assert [note.count for note in notes] == ([] if orders == "first" else [2])
    assert all(note.message.startswith("2 comparisons are excluded because they were queried") for note in notes)


def test_verdicts_with_a_missing_verdict_of_unknown_order_are_not_half_comparisons() -> None:
    verdicts = verdicts_of((1, "A", "B", 1, "ab", 0), (2, "A", "B", None, "", 0), (2, "A", "B", 1, "ba", 0))
    assert verdicts.half_comparisons().is_empty()
    assert verdicts.merge_verdicts("mean")[0]["item"].to_list() == ["1", "2"]
