"""Any table under any mapping makes a valid study or raises CustodesError in one line; what came is not changed."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.data.mapping.columns import ROLES
from custodes.data.readers import READERS
from tests.data.test_fuzz import TYPED, tables, try_reading

NAMES = [
    *("doc_id", "model", "annotator", "rating", "human_style_ann1", "human_fluency_ann1", "human_style_expert_1"),
    *("bleu", "text", "winner", "left", "right", "item", "system", "score", "rater", "kind", "", "a{b", "Ä-ß", "x\ny"),
]
PATTERNS = [
    *(
        "human_{aspect}_{rater}",
        "metric:{rater}",
        "human:{rater}",
        "{rater}",
        "{kind}_{rater}",
        "{aspect}_{rater:ann*}",
    ),
    *("{aspect}", "human_{aspect}", "bleu", "{repeat}_{rater}", "{rater", "{}", "{x}", "human:", "{aspect}{rater}"),
]
PARTS = [*("human", "metric", "_", "-", ":", "{", "}", "{{", "}}", "!", "[", "*", "ann", "1"), "{aspect}", "{rater}"]
COLUMNS = st.sampled_from(NAMES)
CELLS = st.sampled_from(["1", "2.5", "", "A", "B", "model_a", "human", "nan", None])


@st.composite
def own_tables(draw: st.DrawFn) -> pl.DataFrame:
    """A table with names of its own, mostly with outputs in its first columns and numbers in the others."""
    if draw(st.integers(0, 4)) == 0:
        return draw(tables())
    height = draw(st.sampled_from([1, 2, 4, 6]))
    columns = {
        "doc_id": pl.Series([f"d{row // 2}" for row in range(height)]),
        "model": pl.Series(["AB"[row % 2] for row in range(height)]),
    }
    for name in draw(st.lists(COLUMNS, max_size=5, unique=True)):
        cells = st.integers(1, 5).map(str) if draw(st.integers(0, 3)) else draw(st.sampled_from([CELLS, *TYPED]))
        columns[name] = pl.Series(draw(st.lists(cells, min_size=height, max_size=height)), strict=False)
    return pl.DataFrame(columns)


PLACES = st.fixed_dictionaries({}, optional={"item": st.just("doc_id"), "system": st.just("model")})
MAPPINGS = st.builds(
    lambda places, roles, score: {**places, **roles, **score},
    st.just({"item": "doc_id", "system": "model"}) | PLACES,
    st.dictionaries(st.sampled_from([*ROLES, "itme"]), COLUMNS, max_size=1),
    st.just({})
    | st.fixed_dictionaries(
        {
            "score": COLUMNS
            | st.lists(
                st.sampled_from(PATTERNS) | st.lists(st.sampled_from(PARTS), max_size=5).map("".join), max_size=3
            )
        }
    ),
)


def try_mapping(frame: pl.DataFrame, columns: dict[str, Any], reader: str | None) -> None:
    before = frame.clone()
    try_reading(frame, columns=columns, reader=reader)
    assert frame.equals(before)
    assert frame.columns == before.columns


ANY = given(frame=own_tables(), columns=MAPPINGS, reader=st.sampled_from([None, None, None, None, *READERS]))


@ANY
@settings(max_examples=100, deadline=None)
def test_any_table_under_any_mapping(frame: pl.DataFrame, columns: dict[str, Any], reader: str | None) -> None:
    try_mapping(frame, columns, reader)


@pytest.mark.slow
@ANY
@settings(max_examples=10_000, deadline=None)
def test_very_many_tables_under_any_mapping(frame: pl.DataFrame, columns: dict[str, Any], reader: str | None) -> None:
    try_mapping(frame, columns, reader)
