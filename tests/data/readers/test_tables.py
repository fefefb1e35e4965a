"""Tables in one file: long and wide ratings, RewardBench's pairs, LLMBar's judgments."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.data.reading import read
from tests.data.input_errors import reading_error
from tests.data.study_parts import note_counts

LONG = {"item": [1, 1], "system": ["A", "B"], "rater": ["ann", "bleu"], "score": [4.0, 0.5]}
WIDE = {"item": ["1"], "system": ["A"], "bleu": [0.5]}
REWARDS = {"ref": [1, 0, 0, 1], "subset": ["x", "x", "y", "y"], "model": [0.9, 0.1, 0.5, 0.4]}
LLMBAR = {
    "dataset": ["D/x", "D/x"],
    "item": [0, 1],
    "judge": "gpt",
    "prompt": "CoT",
    "repeat": 0,
    "gold": [1, 2],
    "winner_original_order": ["1", ""],
    "winner_swapped_order": ["2", "2"],
}


def test_long_ratings_have_the_kinds_of_their_column_or_of_their_labels() -> None:
    study = read(pl.DataFrame(LONG))
    assert study.raters.kind == {"ann": "human", "bleu": ""}
    assert study.name == "table"
    assert study.ratings.frame.select("item", "system", "rater", "aspect", "score").rows() == [
        ("1", "A", "ann", "", 4.0),
        ("1", "B", "bleu", "", 0.5),
    ]
    study = read(pl.DataFrame(LONG | {"kind": ["human", "metric"], "score": [4.0, None]}))
    assert study.raters.kind == {"ann": "human", "bleu": "metric"}
    assert study.ratings.frame.height == 1
    assert note_counts(study) == {"missing-score": 1}


def test_columns_of_clusters_and_documents_are_clusters() -> None:
    frame = pl.DataFrame({"item": ["1", "1", "2", "2", "3", "3"], "system": ["A", "B"] * 3, "bleu": [0.5, 1.0] * 3})
    clusters = pl.Series("cluster", ["x", "x", "x", "x", "y", "y"])
    study = read(frame.with_columns(clusters))
    assert list(study.raters.kind) == ["bleu"]
    assert study.items.frame["cluster"].to_list() == ["x", "x", "y"]
    for documents in (clusters.alias("Doc ID"), pl.Series("document", [1, 1, 1, 1, 2, 2])):
        with pytest.raises(cu.InputError, match=f"cluster={documents.name}"):
            read(frame.rename({"item": "segment_id"}).with_columns(documents))


def test_a_wide_table_has_a_column_of_scores_for_each_rater() -> None:
    columns = {"item": ["1", "2"], "system": ["A", "A"], "aspect": "x", "repeat": ["", "3"], "H:ann": ["4", ""]}
    study = read(pl.DataFrame(columns | {"bleu": [1.0, 2.0]}))
    assert study.ratings.frame.rows() == [
        ("1", "A", "H:ann", "x", "0", 4.0),
        ("1", "A", "bleu", "x", "0", 1.0),
        ("2", "A", "bleu", "x", "3", 2.0),
    ]
    assert study.raters.kind == {"H:ann": "", "bleu": ""}
    assert note_counts(study) == {"missing-score": 1}
    twice = pl.DataFrame({name: values * 2 for name, values in WIDE.items()} | {"repeat": [0, 1]})
    assert read(twice).ratings.frame.height == 2


def test_rewardbench_in_either_order_of_a_pair() -> None:
    study = read(pl.DataFrame(REWARDS))
    assert study.preferences.frame.select("item", "system_a", "system_b", "rater", "preference").rows() == [
        ("1", "chosen", "rejected", "ref", 1),
        ("2", "chosen", "rejected", "ref", 1),
    ]
    assert study.ratings.frame.select("item", "system", "score").rows() == [
        ("1", "chosen", 0.9),
        ("1", "rejected", 0.1),
        ("2", "rejected", 0.5),
        ("2", "chosen", 0.4),
    ]
    assert study.items.frame.select("item", "group").rows() == [("1", "x"), ("2", "y")]
    assert study.raters.kind == {"ref": "human", "model": "metric"}
    assert study.sides


def test_llmbar_has_two_presentation_orders_and_a_gold_label() -> None:
    study = read(pl.DataFrame(LLMBAR))
    assert study.preferences.frame.select("item", "rater", "order", "preference").rows() == [
        ("D/x/0", "gpt/CoT", "ab", 1),
        ("D/x/0", "gpt/CoT", "ba", -1),
        ("D/x/1", "gpt/CoT", "ba", -1),
        ("D/x/0", "gold", "", 1),
        ("D/x/1", "gold", "", -1),
    ]
    assert study.raters.kind == {"gold": "human", "gpt/CoT": "metric"}
    assert study.items.frame.select("item", "group").rows() == [("D/x/0", "D/x"), ("D/x/1", "D/x")]
    without_runs = read(pl.DataFrame(LLMBAR | {"repeat": ["", ""]}))
    assert without_runs.preferences.frame["preference"].to_list() == [1, -1, -1, 1, -1]
    assert note_counts(study) == {"missing-verdict": 1}
    study = read(pl.DataFrame(LLMBAR | {"winner_swapped_order": ["2", "tie"]}), invalid="force")
    assert study.notes[-1].message == "table: 1 verdicts could not be read and were dropped (gpt/CoT 1)"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            LONG | {"kind": ["human", "boss"]},
            "kind 'boss' in row 2; allowed: human, metric, or words such as annotator, expert, llm, judge",
        ),
        (
            {"item": ["1"], "system": ["A"]},
            "there is no column of scores, only item, system; give one column per rater",
        ),
        (WIDE | {"": [1]}, "a column has no name (perhaps a saved index); name it after its rater, or remove it"),
        (
            WIDE | {"bleu": ["high"]},
            "bleu 'high' in row 1 is not a number; write numbers with a decimal point and without thousands "
            "separators; if nothing was rated, leave the cell empty",
        ),
        (
            {name: values * 2 for name, values in WIDE.items()},
            "the same output occurs twice, in rows 1, 2 (item '1', system 'A'); one row per output; if several "
            "columns together name the item, give all of them, as in item={doc_id}/{segment_id}; number the runs of a "
            "rater in a column 'repeat'",
        ),
        (
            REWARDS | {"ref": [1, 1, 0, 1]},
            "row 1 and the next row are not a pair; the rows of a pair have the same subset, and ref 1 and 0",
        ),
        (
            REWARDS | {"subset": ["x", "x", "x", "y"]},
            "row 3 and the next row are not a pair; the rows of a pair have the same subset, and ref 1 and 0",
        ),
        (
            {name: values for name, values in REWARDS.items() if name != "model"},
            "the table has no column of a reward model, only ref and subset; add at least one column of a reward model",
        ),
        (REWARDS | {"ref": [1, 0, 2, None]}, "ref in row 3, 4 is neither 1 (chosen) nor 0 (rejected)"),
        (
            {name: values[:3] for name, values in REWARDS.items()},
            "the number of rows is odd (3); a pair needs two rows",
        ),
        (
            LLMBAR | {"winner_swapped_order": ["2", "tie"]},
            "1 of 5 verdicts cannot be read ('tie' in row 2); allowed: 1 (output_1), 2 (output_2), or empty; "
            "that is 20.0 % of the file, but invalid='drop' allows at most 5 % per file and rater; correct these "
            "verdicts, or drop all of them with --invalid force (in Python invalid='force')",
        ),
        (
            LLMBAR | {"item": [0, 0], "repeat": [0, 1]},
            "item 'D/x/0' has a different gold label in row 2; give each item one gold label",
        ),
        (LLMBAR | {"gold": [1, 3]}, "gold '3' in row 2; allowed: 1, 2"),
        (
            LLMBAR | {"item": [0, 0], "gold": [1, 1]},
            "the same judgment occurs twice, in rows 1, 2 (dataset 'D/x', item '0', judge 'gpt', prompt 'CoT', "
            "repeat '0'); number the runs of a judge in a column 'repeat', or remove the duplicate row",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_one_line(table: dict[str, Any], message: str) -> None:
    reader = "wide" if {"model", "gold", "rater", "ref"}.isdisjoint(table) else None
    assert reading_error(pl.DataFrame(table), reader=reader) == f"table: {message}"
