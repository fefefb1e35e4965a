"""LLMBar judgments: two presentation orders, and the gold of an item."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.data.reading import read
from custodes.errors import InputError

JUDGMENTS = {
    "dataset": ["D/x", "D/x"],
    "item": [0, 1],
    "judge": "gpt",
    "prompt": "CoT",
    "repeat": 0,
    "gold": [1, 2],
    "winner_original_order": ["1", ""],
    "winner_swapped_order": ["2", "2"],
}


def test_llmbar() -> None:
    study = read(pl.DataFrame(JUDGMENTS))
    assert study.preferences.frame.drop(
        "system_a", "system_b", "aspect", "repeat", "p_a", "p_tie", "p_b", "seconds"
    ).rows() == [
        ("D/x/0", "gpt/CoT", "ab", 1),
        ("D/x/0", "gpt/CoT", "ba", -1),
        ("D/x/1", "gpt/CoT", "ba", -1),
        ("D/x/0", "gold", "", 1),
        ("D/x/1", "gold", "", -1),
    ]
    assert study.raters.kind == {"gold": "human", "gpt/CoT": "metric"}
    assert study.items.frame.select("item", "group").rows() == [("D/x/0", "D/x"), ("D/x/1", "D/x")]
    assert [(note.rule, note.count) for note in study.notes] == [("missing-verdict", 1)]


def test_llmbar_unreadable_verdicts_name_the_row_of_the_file() -> None:
    frame = pl.DataFrame(JUDGMENTS | {"winner_swapped_order": ["2", "tie"]})
    with pytest.raises(
        InputError, match=r"^table: 1 of 5 verdicts cannot be read \('tie' in row 2\); allowed: 1 \(output_1\)"
    ):
        read(frame)
    assert (
        read(frame, invalid="force").notes[-1].message
        == "table: 1 verdicts could not be read and were dropped (gpt/CoT 1)"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"item": [0, 0], "repeat": [0, 1]}, "table: item 'D/x/0' has another gold in row 2; an item has one gold"),
        ({"gold": [1, 3]}, "table: gold '3' in row 2; allowed: 1, 2"),
        (
            {"item": [0, 0], "gold": [1, 1]},
            "table: the same judgment stands twice, in rows 1, 2 (dataset 'D/x', item '0', judge 'gpt', prompt 'CoT',"
            " repeat '0'); number the runs of a judge in a column 'repeat', or take the doubled row out",
        ),
    ],
)
def test_llmbar_is_checked(changes: dict[str, list[object]], message: str) -> None:
    with pytest.raises(InputError) as error:
        read(pl.DataFrame(JUDGMENTS | changes))
    assert str(error.value) == message
