"""What columns may hold, at the limits of each rule."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.data.mapping.cell_types import (
    cluster_role,
    find_items,
    find_systems,
    has_another_role,
    has_text_role,
    holds_judgements,
    invalid_score_cell,
    is_category,
    is_index,
    is_number,
    is_prose,
    is_text,
    is_time,
    looks_like_score,
    may_be_labels,
    may_be_scores,
    may_be_systems,
    scored_pairs,
    varies_within_items,
)


def column(name: str, cells: list) -> pl.Series:
    return pl.Series(name, cells)


def test_numbers_and_row_numbers() -> None:
    assert is_number(column("x", ["1", " 2.5 ", None, ""]))
    assert not is_number(column("x", ["1", "b"]))
    assert not is_number(pl.Series("x", [None, None], dtype=pl.Float64))
    assert is_index(column("x", [*range(5, 15)]))
    for cells in ([*range(9)], [*range(9), 10], [*range(9), None], [*range(9, -1, -1)], [0, *range(9)], ["a"] * 10):
        assert not is_index(column("x", cells))
    assert may_be_scores(column("x", [1, 2, 2]))
    for name, cells in (("tokens", [1, 2]), ("doc_id", [1, 2]), ("n_words", [1, 2]), ("x", [3, 3]), ("x", ["a", "b"])):
        assert not may_be_scores(column(name, cells))
    assert not may_be_scores(column("x", [*range(10)]))
    assert [looks_like_score(name) for name in ("fluency_2", "rating", "bleu", "human_1", "latency", "x")] == [
        *[True] * 4,
        *[False] * 2,
    ]


def test_texts_times_and_prose() -> None:
    assert is_text(column("x", ["a", None]))
    for cells in (["1", "2"], [None, None], [1, 2], ["2024-01-02", "2024-1-3 10:00"], [""]):
        assert not is_text(pl.Series("x", cells, dtype=pl.String if cells == [None, None] else None))
    for cell in ("2024-01-02", "2024-01-02T10:00", "1.2.2024", "1700000000", "1700000000123", "9:05", "10:05:30"):
        assert is_time(column("x", [f" {cell} ", None])), cell
    assert is_time(pl.Series("x", ["2024-01-02"]).str.to_date())
    for cells in (["2024-01-02", "soon"], ["12345"], [None]):
        assert not is_time(pl.Series("x", cells, dtype=pl.String))
    assert is_prose(column("x", ["one two three", "one", "one two three four  five", "", " "]))  # (2 + 0 + 4) / 3
    assert not is_prose(column("x", ["one two three", "one", "one two three four"]))
    assert not is_prose(column("x", [1, 2]))


def test_judgements_have_the_name_or_the_words_of_judgements() -> None:
    assert holds_judgements(column("fluency", [1, 2]))
    assert holds_judgements(column("label", [True, False]))
    assert holds_judgements(column("x", [" Yes ", "no", ""]))
    assert holds_judgements(column("winner", ["A", "B"]))
    assert holds_judgements(column("expert_1", ["fine", "poor"]))
    for name, cells in (
        ("latency", [1, 2]),
        ("x", [True]),
        ("x", ["yes", "maybe"]),
        ("x", [""]),
        ("winner", ["a long answer", "another long answer"]),
        ("winner", [[1], [2]]),
    ):
        assert not holds_judgements(column(name, cells)), (name, cells)


def test_systems_are_several_short_labels_that_repeat() -> None:
    assert may_be_systems(column("x", ["a", "b", " B "]).append(column("x", ["A"])))
    assert may_be_systems(column("x", ["a" * 80, "b"] * 2))
    assert may_be_systems(column("x", [f"s{k}" for k in range(200)] * 2))
    for cells in (
        ["a", "A", "a", "a"],
        ["a", "b", "c"],
        ["a" * 81, "b"] * 2,
        ["yes", "no"] * 3,
        [f"s{k}" for k in range(201)] * 2,
        ["one two three", "one two four"] * 2,
        [1, 2, 1, 2],
    ):
        assert not may_be_systems(column("x", cells)), cells[:3]


def test_categories_and_labels() -> None:
    assert is_category(column("topic", ["a", "b", "c"]))
    assert is_category(column("url", ["a", "b", "c"]))
    assert is_category(column("x", ["a", "b", "a"]))
    assert is_category(column("x", ["a", "b", "c"] * 5))
    assert not is_category(column("x", ["a", "b", "c"] * 4))  # 3 of 12 are more than a fifth
    assert not is_category(column("x", ["one two three", "one two four"] * 5))
    assert not is_category(column("gpt4", ["a", "b", "a"]))
    assert may_be_labels(column("x", ["a", "b", "a", "b"]))
    assert may_be_labels(column("x", [1, 2, 1, 2]))
    for cells in (["a", "b", "a"], [1.0, 2.0, 1.0, 2.0], ["1.5", "2", "1.5", "2"], [[1], [1]]):
        assert not may_be_labels(column("x", cells))


def test_columns_that_vary_within_items() -> None:
    frame = pl.DataFrame({"item": ["a", "a", "b", "b"], "n": [1, 1, 2, 2], "m": [1, 2, 1, 2]})
    assert [varies_within_items(frame, name, "item") for name in ("n", "m", "item")] == [False, True, False]


def test_candidates_of_items_and_systems() -> None:
    columns = {
        "thing": ["a", "b"] * 6,
        "model": ["m"] * 12,
        "checkpoint": ["c", "d"] * 6,
        "prompt": [f"what is thing number {k}" for k in range(12)],
        "doc_id": [k // 2 for k in range(12)],
        "key9": [f"k{k}" for k in range(12)],
        "topic": ["u", "v"] * 6,
        "latency": [*range(12)],
        "day": [f"2024-01-{k + 1:02d}" for k in range(12)],
        "share": [k / 7 for k in range(12)],
        "passed": ["yes", "no"] * 6,
        "constant": [1] * 12,
    }
    frame = pl.DataFrame(columns)
    assert find_items(frame, frame.columns) == ["doc_id", "topic", "prompt", "key9"]
    assert find_items(frame, ["thing", "key9", "constant", "passed"]) == ["key9", "thing"]
    assert find_systems(frame, frame.columns) == (["checkpoint", "model"], ["thing"])
    few = frame.head(4).with_columns(model=pl.Series(list("abcd")))
    assert find_systems(few, ["model"]) == ([], [])  # more than one system per two rows


def test_clusters_contain_items() -> None:
    frame = pl.DataFrame({"item": ["a", "b", "c", "c"], "document": ["d", "d", "e", "e"], "x": ["d", "d", "e", "e"]})
    assert cluster_role(frame, "item") == {"cluster": "document"}
    assert cluster_role(frame, "document") == {}
    for cells in (["d"] * 4, ["d", "e", "f", "f"], ["d", "d", "d", "e"]):  # one; as many as items; an item in two
        assert cluster_role(frame.with_columns(document=pl.Series(cells)), "item") == {}


def test_names_of_other_roles() -> None:
    assert has_another_role("model", "item")
    assert not has_another_role("model", "system")
    assert not has_another_role("zzz")
    names = ("Source", "answer", "gold", "evidence", "qid", "x", "a", "model")
    assert [has_text_role(name) for name in names] == [*[True] * 5, *[False] * 3]


def test_pairs_of_scores() -> None:
    pairs = {"rm": (1.5, 0.5), "n_words": (3, 4), "latency": (1, 2), "human": (1, 2), "text": ("a", "b"), "x": (1, "b")}
    sides = ("chosen", "rejected")
    frame = {f"{name}_{sides[k]}": [cells[k]] for name, cells in pairs.items() for k in range(2)}
    assert scored_pairs(pl.DataFrame({**frame, "lone_chosen": [1]})) == ["rm"]


@pytest.mark.parametrize(
    ("name", "cells", "expected"),
    [
        ("x", ["1", "50%", "4"], "x '50%' in row 2"),
        ("x", ["1", "bad"], "x 'bad' in row 2"),  # half are numbers
        ("x", ["1", "bad", "worse"], ""),
        ("x", ["1.5", "4/5", "#REF!", "fine"], "x '4/5' in row 2"),
        ("fluency", ["3", " fine ", "good", "poor"], ""),
        ("x", ["+1.234,5", "bad"], "x '+1.234,5' in row 1"),
        ("x", ["4 - good", "3 (fair)", "bad", "a"], "x '4 - good' in row 1"),
        ("doc_id", ["1", "50%"], ""),
        ("x", ["1", "n/a", None], ""),
        ("x", ["1", "2"], ""),
    ],
)
def test_the_first_cell_that_is_no_number_is_named(name: str, cells: list, expected: str) -> None:
    frame = pl.DataFrame({"other": ["a"] * len(cells), name: cells})
    assert invalid_score_cell(frame, ["other", name]) == expected
