"""Any table in the layouts of battles and judge logs makes a valid study or one clear line; it is never changed."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.data.reading import read
from custodes.errors import CustodesError
from tests.data.test_fuzz import check

NAMES = st.sampled_from(["A", "B", "gpt-4", "GPT-4", "tie", "1", "Aster", "left", " "])
SAID = st.sampled_from(
    [
        *(
            "model_a",
            "model_b",
            "tie",
            "both_bad",
            "A",
            "[[B]]",
            "C",
            "left",
            "right",
            "first",
            "second",
            "win",
            "loss",
        ),
        *(
            "A>>B",
            "A=B",
            "B>A",
            "gpt-4",
            "Aster",
            "1",
            "2",
            "0",
            "-1",
            "1.5",
            "0.5",
            "",
            "nan",
            "NaN",
            "error",
            "x",
            None,
        ),
    ]
)
ORDER = st.sampled_from(
    ["ab", "ba", "", "unknown", "original", "swapped", "0", "1", "2", "true", "Aster", "gpt-4", "x"]
)
TALK = st.sampled_from(
    [
        '[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]',
        '[{"content": [{"type": "text", "text": "a"}]}]',
        *('["a", null]', "[3]", "[[]]", "[", '[{"content": 3}]', '[{"content": [3]}]', "{}", "text", "", None),
    ]
)
GAMES = st.sampled_from(
    [
        '[{"score": "A>B"}, {"score": "B>>A"}]',
        *(
            '[{"score": null}, null]',
            "[]",
            "[3]",
            "null",
            "{}",
            "3",
            "",
            None,
            '[{"judgment": "x"}]',
            '[{"score": []}]',
        ),
    ]
)
CELLS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("item", "question_id", "id", "uid", "instruction"), st.sampled_from("1122ab")),
    **dict.fromkeys(("model_a", "model_b", "system_a", "system_b", "model_1", "model_2", "model", "baseline"), NAMES),
    **dict.fromkeys(("generator_1", "generator_2", "generator"), NAMES),
    **dict.fromkeys(("winner", "preference", "g1_winner", "g2_winner"), SAID),
    **dict.fromkeys(("conversation_a", "conversation_b", "response_a", "response_b", "prompt"), TALK),
    **dict.fromkeys(
        ("winner_model_a", "winner_model_b", "winner_tie", "m1_score"), st.sampled_from(["0", "1", "", "x"])
    ),
    **dict.fromkeys(
        ("rater", "judge"), st.sampled_from(["ann", "gpt-4", '["gpt-4", "v1"]', "[]", "[3]", "arena_user_1"])
    ),
    **dict.fromkeys(("annotator", "annotator_index"), st.sampled_from(["0", "1", "gpt4"])),
    **dict.fromkeys(("output_1", "output_2"), st.sampled_from(["x", "y", None])),
    **dict.fromkeys(("turn", "repeat"), st.sampled_from(["1", "2", "", "x"])),
    "games": GAMES,
    "order": ORDER,
    "score": st.sampled_from(["1", "-1", "", "9.5"]),
    **dict.fromkeys(("language", "category", "dataset", "aspect", "input"), st.sampled_from(["en", "de", ""])),
}
GOOD: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("model_a", "system_a", "model_1", "model", "generator_1"), st.sampled_from(["A", "gpt-4", "1"])),
    **dict.fromkeys(
        ("model_b", "system_b", "model_2", "baseline", "generator_2"), st.sampled_from(["B", "Aster", "tie"])
    ),
    **dict.fromkeys(("winner", "preference"), st.sampled_from(["A", "B", "tie", "left", "model_b", "1", "2", ""])),
    **dict.fromkeys(("g1_winner", "g2_winner"), st.sampled_from(["model_1", "model_2", "tie", "error"])),
    **dict.fromkeys(("rater", "judge"), st.sampled_from(["ann", "gpt-4", '["gpt-4", "v1"]', "arena_user_1"])),
    **dict.fromkeys(
        ("conversation_a", "conversation_b", "prompt"), st.sampled_from(['[{"content": "x"}]', '["x"]', ""])
    ),
    "games": st.sampled_from(
        ['[{"score": "A>B"}, {"score": "B>>A"}]', '[{"score": null}, null]', '[{"score": "A=B"}]']
    ),
    "order": st.sampled_from(["ab", "ba", "swapped", "original", "0", ""]),
    "repeat": st.sampled_from(["1", "2", "3", "4"]),
}
"""Cells of tables that are mostly read."""

FAMILIES = {
    "battles": (["item", "model_a", "model_b", "winner"], ["rater", "order", "repeat", "aspect"]),
    "battles by preference": (["item", "system_a", "system_b", "preference"], ["judge", "order"]),
    "alpacaeval": (
        ["instruction", "generator_1", "generator_2", "preference"],
        ["annotator", "output_1", "output_2", "dataset", "input"],
    ),
    "alpacaeval of people": (["instruction", "output_1", "output_2", "preference"], ["annotator_index", "dataset"]),
    "arena": (
        ["question_id", "model_a", "model_b", "winner"],
        ["judge", "turn", "language", "conversation_a", "conversation_b", "order"],
    ),
    "arena in three columns": (
        ["id", "model_a", "model_b", "winner_model_a", "winner_model_b", "winner_tie"],
        ["prompt", "response_a", "response_b"],
    ),
    "pairs": (["question_id", "model_1", "model_2", "g1_winner", "g2_winner"], ["judge", "turn", "m1_score"]),
    "single": (["question_id", "model", "judge", "score"], ["turn"]),
    "arenahard": (["question_id", "model", "judge", "games"], ["category", "baseline"]),
}
JUNK = st.none() | st.text(max_size=3) | st.sampled_from(["\x1b[2J", "\u2028", "1e308", "inf", "\ud7ff"])
TYPED = [st.integers(-2, 3), st.floats(width=32), st.booleans(), st.lists(st.sampled_from("ab"), max_size=2)]


@st.composite
def logs(draw: st.DrawFn) -> pl.DataFrame:
    """The columns of a layout and some that it may have, mostly with cells that fit."""
    needed, more = FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))]
    names = [*needed, *draw(st.lists(st.sampled_from(more), unique=True))]
    height = draw(st.integers(1, 5))
    columns = []
    for name in names:
        kind = draw(st.integers(0, 29))
        fitting = CELLS[name] if kind < 4 else GOOD.get(name, CELLS[name])
        cells = draw(st.sampled_from(TYPED)) if kind == 0 else JUNK if kind == 1 else fitting
        columns.append(pl.Series(name, draw(st.lists(cells, min_size=height, max_size=height)), strict=False))
    return pl.DataFrame(columns)


def try_log(frame: pl.DataFrame, invalid: str) -> None:
    before = frame.clone()
    try:
        study = read(frame, invalid=invalid)  # type: ignore[arg-type]
    except CustodesError as error:
        lines = str(error).splitlines()
    else:
        check(study)
        lines = ["read"]
    assert len(lines) == 1
    assert frame.equals(before)


INVALID = st.sampled_from(["error", "drop", "force"])


@given(frame=logs(), invalid=INVALID)
@settings(max_examples=100)
def test_any_log(frame: pl.DataFrame, invalid: str) -> None:
    try_log(frame, invalid)


@pytest.mark.slow
@given(frame=logs(), invalid=INVALID)
@settings(max_examples=10_000)
def test_any_of_many_logs(frame: pl.DataFrame, invalid: str) -> None:
    try_log(frame, invalid)
