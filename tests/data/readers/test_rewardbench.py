"""RewardBench scores: two rows a pair, in either order."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.data.reading import read
from custodes.errors import InputError

REWARDS = {"ref": [1, 0, 0, 1], "subset": ["x", "x", "y", "y"], "model": [0.9, 0.1, 0.5, 0.4]}


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ref": [1, 1, 0, 1]}, "table: row 1 and the next are no pair; a pair has one subset, ref 1 and ref 0"),
        (
            {"subset": ["x", "x", "x", "y"]},
            "table: row 3 and the next are no pair; a pair has one subset, ref 1 and ref 0",
        ),
        ({"ref": [1, 0, 2, None]}, "table: ref in row 3, 4 is neither 1 (chosen) nor 0 (rejected)"),
    ],
)
def test_rewardbench_pairs_are_checked(changes: dict[str, list[object]], message: str) -> None:
    with pytest.raises(InputError) as error:
        read(pl.DataFrame(REWARDS | changes))
    assert str(error.value) == message


def test_rewardbench_needs_an_even_number_of_rows() -> None:
    with pytest.raises(InputError, match=r"^table: 3 rows; a pair is two rows, so their number must be even$"):
        read(pl.DataFrame(REWARDS).head(3))
