"""Any table under any mapping gives a valid study or a one-line error, and the input is not modified."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.data.mapping.columns import ROLES
from custodes.data.readers import READERS
from tests.data.random_tables import TYPED, tables, try_reading

NAMES = [
    *("doc_id", "model", "annotator", "rating", "human_style_ann1", "human_fluency_ann1", "human_style_expert_1"),
    *("bleu", "text", "winner", "left", "right", "item", "system", "score", "rater", "kind", "", "a{b", "Ä-ß", "x\ny"),
]
PATTERNS = [
    *("human_{aspect}_{rater}", "metric:{rater}", "human:{rater}", "{rater}", "{kind}_{rater}"),
    *("{aspect}_{rater:ann*}",),
    *("{aspect}", "human_{aspect}", "bleu", "{repeat}_{rater}", "{rater", "{}", "{x}", "human:", "{aspect}{rater}"),
]
PARTS = [*("human", "metric", "_", "-", ":", "{", "}", "{{", "}}", "!", "[", "*", "ann", "1"), "{aspect}", "{rater}"]
CELLS = st.sampled_from(["1", "2.5", "", "A", "B", "model_a", "human", "nan", None])
SCORES = st.integers(1, 5).map(str)


@st.composite
def own_tables(draw: st.DrawFn) -> pl.DataFrame:
    """Draw a table with arbitrary names, mostly one output per row with numbers, sometimes in any format."""
    if draw(st.integers(0, 9)) == 0:
        return draw(tables())
    height = draw(st.sampled_from([1, 2, 4, 6]))
    columns = {
        "doc_id": pl.Series([f"d{row // 2}" for row in range(height)]),
        "model": pl.Series(["AB"[row % 2] for row in range(height)]),
    }
    more = draw(st.lists(st.sampled_from(NAMES), max_size=4))
    for name in dict.fromkeys([*(["human_style_ann1"] if draw(st.integers(0, 4)) else []), *more]):
        cells = SCORES if draw(st.integers(0, 5)) else draw(st.sampled_from([CELLS, *TYPED]))
        columns[name] = pl.Series(draw(st.lists(cells, min_size=height, max_size=height)), strict=False)
    return pl.DataFrame(columns)


@st.composite
def mappings(draw: st.DrawFn, frame: pl.DataFrame) -> dict[str, Any]:
    """Draw a mapping of which most roles and patterns refer to columns of the table."""
    column_names = st.sampled_from([*frame.columns, "item"])
    columns = {role: name for role, name in (("item", "doc_id"), ("system", "model")) if name in frame.columns}
    if draw(st.integers(0, 2)) == 0:
        columns[draw(st.sampled_from([*ROLES, "itme"]))] = draw(
            column_names if draw(st.integers(0, 3)) else st.sampled_from(NAMES)
        )
    random_patterns = st.lists(st.sampled_from(PARTS), max_size=5).map("".join)
    pattern = (
        st.sampled_from(PATTERNS[:7])
        if draw(st.integers(0, 1))
        else st.sampled_from(PATTERNS) | column_names | random_patterns
    )
    score = draw(
        st.none()
        | column_names
        | st.lists(pattern, min_size=draw(st.integers(0, 8)) > 0, max_size=2)
        | st.lists(pattern, max_size=1).map(lambda x: [*x, "{rater}"])
    )
    return columns if score is None else {**columns, "score": score}


@pytest.mark.parametrize("examples", [30, pytest.param(10_000, marks=pytest.mark.slow)])
def test_any_table_under_any_mapping(examples: int) -> None:
    @given(data=st.data(), frame=own_tables(), reader=st.sampled_from([*[None] * 30, *READERS]))
    @settings(max_examples=examples)
    def try_mapping(data: st.DataObject, frame: pl.DataFrame, reader: str | None) -> None:
        before = frame.clone()
        try_reading(frame, columns=data.draw(mappings(frame)), reader=reader)
        assert frame.equals(before)
        assert frame.columns == before.columns

    try_mapping()
