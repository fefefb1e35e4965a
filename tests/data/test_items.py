from __future__ import annotations

import polars as pl
import pytest

from custodes.data.items import Items, merge_item_rows
from custodes.data.notes import Note
from tests.data.input_errors import input_error


def test_what_is_not_said_is_empty() -> None:
    items, notes = Items.make(pl.DataFrame({"item": [1, 2], "group": ["news", None]}))
    assert items.frame.rows() == [("1", "", "news", "", None, None, None), ("2", "", "", "", None, None, None)]
    assert notes == []


def test_the_extreme_values_of_each_column_are_allowed() -> None:
    columns = {"cluster": ["", "", "x", "x"], "weight": [1e-12, 1e12, 1, None], "probability": [1e-12, 1, None, 0.5]}
    table = pl.DataFrame({"item": [*"abcd"], **columns, "n_outputs": [1, 2, 1, None], "notes": 1}, strict=False)
    items, notes = Items.make(table)
    assert items.frame.select("weight", "probability", "n_outputs").rows() == [
        *((1e-12, 1e-12, 1), (1e12, 1, 2), (1, None, 1), (None, 0.5, None))
    ]
    assert notes == [Note(rule="unused-columns", message="items: columns not used: notes", count=1)]
    assert items.has_equal_outputs
    assert not Items.make(table.filter(item="a"))[0].has_equal_outputs


def test_rows_of_some_items_in_their_order() -> None:
    columns = {"item": ["a", "b"], "cluster": ["x", "y"], "weight": [1.0, 2.5], "probability": [None, 0.1]}
    items, _ = Items.make(pl.DataFrame(columns))
    assert Items().item_rows(pl.Series("item", ["a"])).row(0) == ("a", "", "", "", None, None, None)
    assert items.item_rows(pl.Series(["b", "new", "a"])).rows() == [
        *(("b", "y", "", "", 2.5, 0.1, None), ("new", "", "", "", None, None, None)),
        ("a", "x", "", "", 1.0, None, None),
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"item": ["a", "a"]}, "items.csv: the same item occurs twice, in rows 1, 2 (item 'a'); one row per item"),
        (
            {"item": ["a", "b"], "cluster": ["x", "x"], "n_outputs": [2, None]},
            "items.csv: items of cluster 'x' have different n_outputs; n_outputs is the number of equal clusters "
            "that a cluster stands for, so "
            "give all items of the cluster the same number",
        ),
        ({"item": ["a", ""]}, "items.csv: column 'item' is empty in row 2; fill in a label"),
        ({"group": ["a", "b"]}, "items.csv: column 'item' is missing; columns: group; needed: item"),
        *(
            (
                {"item": ["a", "b"], "probability": [1.0, value]},
                f"items.csv: probability {value:g} in row 2; the probability that an item was annotated lies between "
                "1e-12 and 1",
            )
            for value in (0.0, 1e-308, 1.5, -0.1)
        ),
        *(
            (
                {"item": ["a", "b"], "weight": [1.0, value]},
                f"items.csv: weight {value:g} in row 2; allowed: 1e-12 to 1e+12, and only ratios of weights "
                "matter; to exclude an item, use --group",
            )
            for value in (0.0, -2.0, 1e99, 1e13, 1e-13)
        ),
        *(
            (
                {"item": ["a", "b"], "n_outputs": [1.0, value]},
                f"items.csv: n_outputs {value} in row 2; allowed: a positive whole number",
            )
            for value in (0.0, 1.5, -1.0)
        ),
    ],
)
def test_bad_rows_raise(columns: dict[str, list[object]], message: str) -> None:
    assert input_error(Items.make, pl.DataFrame(columns), where="items.csv") == message


def test_items_that_the_table_lacks_are_counted_unless_it_lacks_all() -> None:
    items, _ = Items.make(pl.DataFrame({"item": ["a1", "b1", "c1", "d1"]}))
    data = pl.Series(["A1", "B2", "a1", "C2", "D2", "E2"])
    assert items.coverage_notes(data, where="items.csv") == [
        Note(
            rule="items-not-described",
            message="items.csv: the table lacks 5 of 6 items of the data (A1, B2, C2 and 2 more)",
            count=5,
        )
    ]
    assert items.coverage_notes(pl.Series(["a1", "d1"]), where="items.csv") == []
    data = data.filter(data != "a1")
    message = "items.csv: no item of this table is in the data (table: {}; data: A1, B2, C2 and 2 more){}"
    assert input_error(items.coverage_notes, data, where="items.csv") == message.format(
        "a1, b1, c1 and 1 more", " (did you mean 'A1'?)"
    )
    assert input_error(Items().coverage_notes, data, where="items.csv") == message.format("", "")


def test_properties_of_items_or_of_their_clusters() -> None:
    items, _ = Items.make(pl.DataFrame({"item": ["a", "b", "c"], "cluster": ["q", "q", "r"], "group": "old"}))
    table = pl.DataFrame({"item": ["q", "c", "z"], "group": ["x", "y", "z"]})
    assert items.with_properties(table, where="t").frame.select("item", "cluster", "group").rows() == [
        *(("a", "q", "x"), ("b", "q", "x"), ("c", "r", "y"))
    ]
    message = (
        "t: the column of items names no item of the data (column: d, e and 1 more; data: a, b and 1 more); give the "
        "properties in a table of items (--items)"
    )
    unknown = table.with_columns(item=pl.Series(["d", "e", "f"]))
    assert input_error(items.with_properties, unknown, where="t") == message


def test_what_two_inputs_say_of_items_adds_up() -> None:
    one, _ = Items.make(pl.DataFrame({"item": ["a", "b"], "group": ["news", ""], "weight": [2, None]}))
    other, _ = Items.make(pl.DataFrame({"item": ["b", "c", "a"], "cluster": ["x", "y", ""], "weight": [3, None, 2]}))
    assert one.merge_with(other).frame.select("item", "cluster", "group", "weight").rows() == [
        *(("a", "", "news", 2.0), ("b", "x", "", 3.0), ("c", "y", "", None))
    ]
    assert one.merge_with(Items()).frame.equals(one.frame)


def test_two_inputs_that_do_not_agree_of_an_item_raise() -> None:
    one, other = (Items.make(pl.DataFrame({"item": ["a"], "group": [group]}))[0] for group in ("news", "sport"))
    message = "item 'a' has several values of group in two inputs ('news', 'sport'); give each item one group"
    assert input_error(one.merge_with, other) == message
    rows = pl.DataFrame({"item": [*"abbbb"], "weight": [1, 2, 3, 4, 5]})
    message = "t: item 'b' has several values of weight (2, 3, 4 and 1 more); give each item one weight"
    assert input_error(merge_item_rows, rows, where="t") == message
