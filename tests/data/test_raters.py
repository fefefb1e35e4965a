from __future__ import annotations

from datetime import date as day

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.data.notes import Note
from custodes.data.raters import Raters, Scale, rater_kinds
from custodes.errors import InputError
from tests.data.input_errors import input_error

RATERS = Raters.infer({"ann": "human", "bob": "", "bleu": "metric", "bert[x]": "metric"})


def described(rows: list[dict[str, object]]) -> tuple[Raters, list[str]]:
    raters, notes = RATERS.merge_side_table(pl.DataFrame(rows), where="raters.csv")
    return raters, [note.message for note in notes]


def test_globs_describe_many_and_a_name_written_out_wins_wherever_it_stands() -> None:
    for rows in (
        [{"rater": "b*", "kind": "metric", "higher_is_better": "no"}, {"rater": "bob", "kind": "human"}],
        [{"rater": "bob", "kind": "human"}, {"rater": "b*", "kind": "metric", "higher_is_better": "no"}],
    ):
        raters, notes = described(rows)
        assert raters.kind == {"ann": "human", "bob": "human", "bleu": "metric", "bert[x]": "metric"}
        assert raters.direction == {"ann": 1.0, "bob": -1.0, "bleu": -1.0, "bert[x]": -1.0}
        assert notes == []


def test_a_name_with_brackets_is_itself_not_a_glob() -> None:
    raters, _ = described(
        [{"rater": "bert[x]", "low": 0, "high": "1", "cost": 0.5, "date": "2023-01-01", "person": "yes"}]
    )
    assert raters.bounds == {"bert[x]": (0.0, 1.0)}
    row = raters.frame.row(3, named=True)
    assert (row["cost"], row["date"], row["person"]) == (0.5, "2023-01-01", True)
    assert raters.frame["person"].to_list() == [False, False, False, True]


@pytest.mark.parametrize("date", ["2002", "2004-07", "2024-02-29", " 2020-01-15 ", "", 2019, 2019.0, day(2020, 1, 15)])
def test_dates_to_the_year_month_or_day(date: object) -> None:
    raters, _ = described([{"rater": "bleu", "date": date}])
    assert raters.frame["date"][2] == (str(date).strip().removesuffix(".0") or None)


@pytest.mark.parametrize(
    "date",
    [
        *("12/2001", "2001-13", "2001-00", "2023-02-29", "2001-1", "01-2001", "20011", "0000", "2001-01-01-01"),
        *("2001-", "2001-01-01T10:00", "\u0662\u0660\u0660\u0661", "99"),
    ],
)
def test_what_is_no_date_is_refused(date: str) -> None:
    with pytest.raises(InputError, match=r"date .* in row 1; allowed: YYYY, YYYY-MM, YYYY-MM-DD$"):
        described([{"rater": "bleu", "date": date}])


def test_what_matches_nothing_and_what_overrules_is_noted() -> None:
    rows = [{"rater": "an", "kind": "", "made": 1}, {"rater": "b[l]*", "kind": "human", "made": 1}]
    _, notes = RATERS.merge_side_table(pl.DataFrame(rows))
    assert [(note.rule, note.count, note.message) for note in notes] == [
        ("idle-rater-row", 1, "raters: 'an' matches no rater (did you mean 'ann'?)"),
        ("unused-columns", 1, "raters: columns not used: made"),
        (
            "kind-overruled",
            1,
            "raters: 'bleu' is human in this table and metric in the data; this table takes precedence",
        ),
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"rater": "BOP"}, {"rater": "x*"}],
            "no rater of this table is in the data (BOP, x*); raters: ann, bob, bleu, bert[x] (did you mean 'bob'?)",
        ),
        ([{"kind": "human"}], "column 'rater' is missing; columns: kind; needed: rater"),
        ([{"rater": ""}], "column 'rater' is empty in row 1; fill in a label"),
        (
            [{"rater": "ann", "kind": "boss"}],
            "kind 'boss' in row 1; allowed: human, metric, or words such as annotator, expert, llm, judge",
        ),
        ([{"rater": "ann", "higher_is_better": "maybe"}], "higher_is_better 'maybe' in row 1; allowed: true, false"),
        *(
            (
                [{"rater": "ann", "low": low, "high": 1}],
                "low is not below high in row 1; correct the bounds of the scale",
            )
            for low in (5, 1)
        ),
        *(
            ([{"rater": "ann", "truncated": value}], f"truncated {value} in row 1; allowed: a proportion from 0 to 1")
            for value in (-0.1, 1.1)
        ),
        ([{"rater": "ann"}] * 2, "the same rater occurs twice, in rows 1, 2 (rater 'ann'); one row per rater"),
    ],
)
def test_bad_side_tables_raise(rows: list[dict[str, object]], message: str) -> None:
    assert input_error(described, rows) == f"raters.csv: {message}"


def test_kinds_of_a_data_file() -> None:
    frame = pl.DataFrame({"rater": ["a", "a", "b", "c", "gpt-4"], "kind": ["human", "", "METRIC", "", None]})
    assert rater_kinds(frame, where="t") == {"a": "human", "b": "metric", "c": "", "gpt-4": "metric"}
    assert list(rater_kinds(frame, where="t")) == ["a", "b", "c", "gpt-4"]
    both = pl.DataFrame({"rater": [*"baab"], "kind": [*("human", "metric") * 2]})
    message = "t: rater 'b', 'a' is both human and metric in column 'kind'; give each rater one kind"
    assert input_error(rater_kinds, both, where="t") == message


def test_own_systems_are_kept_as_patterns_and_nobody_has_any_unless_said() -> None:
    raters, notes = described([{"rater": "b*", "own_system": "gpt-*, Aster"}, {"rater": "bleu", "own_system": ""}])
    assert raters.own_systems == {"bob": "gpt-*, Aster", "bleu": "gpt-*, Aster", "bert[x]": "gpt-*, Aster"}
    assert RATERS.own_systems == {}
    assert notes == []


def test_of_several_globs_the_first_wins_column_by_column() -> None:
    rows = [{"rater": "b*", "cost": 1, "date": None}, {"rater": "bl*", "cost": 2, "date": "2020"}]
    assert described(rows)[0].frame.select("rater", "cost", "date").rows() == [
        *(("ann", None, None), ("bob", 1, None), ("bleu", 1, "2020"), ("bert[x]", 1, None))
    ]


def test_metrics_with_names_of_error_metrics_are_noted_unless_their_direction_is_declared() -> None:
    raters = Raters.infer({"TER@best": "metric", "wer:x": "", "js": "human", "terse": "metric", "edit": "metric"})
    rows = {"rater": ["edit", "wer*"], "higher_is_better": [True, None], "low": [None, 0]}
    (note,) = raters.merge_side_table(pl.DataFrame(rows))[0].undeclared_directions()
    assert (note.rule, note.count) == ("undeclared-direction", 2)
    assert note.message.startswith("for metrics named TER@best, wer:x, lower is usually better, ")
    lower = {"rater": ["*[eE][rR]*"], "higher_is_better": [False]}
    assert [note.count for note in raters.merge_side_table(pl.DataFrame(lower))[0].undeclared_directions()] == [1]


def test_scores_that_may_be_ranks_are_noted_until_a_direction_is_declared() -> None:
    raters = Raters.infer({"human_rank": "human", "ann": "", "rank_bm25": "metric", "crank": "human"})
    (note,) = raters.undeclared_directions(["Rank", "fluency", ""])
    assert (note.rule, note.count) == ("undeclared-direction", 2)
    assert note.message.startswith("the scores 'human_rank', 'Rank' may be ranks, of which 1 is the best, ")
    people = {"rater": ["*"], "higher_is_better": [False]}
    assert raters.merge_side_table(pl.DataFrame(people))[0].undeclared_directions(["Rank"]) == []


def test_a_unit_is_that_of_the_cost_beside_it() -> None:
    def units(raters: Raters) -> list[tuple[float | None, str | None]]:
        return raters.select_raters(["bleu", "bob"]).frame.select("cost", "cost_unit").rows()

    scored, _ = described([{"rater": "bleu", "cost": 0.5, "cost_unit": "cpu-s"}])
    assert units(scored) == [(0.5, "cpu-s"), (None, None)]
    for row, expected in (
        ({"cost": 2.0}, (2, None)),
        ({"cost_unit": "usd"}, (0.5, "usd")),
        ({"low": 0}, (0.5, "cpu-s")),
    ):
        again, _ = scored.merge_side_table(
            pl.DataFrame({"rater": ["bleu"]} | {name: [value] for name, value in row.items()})
        )
        assert units(again)[0] == expected
    globbed, _ = described([{"rater": "b*", "cost_unit": "usd"}, {"rater": "bleu", "cost": 1}])
    assert units(globbed)[0] == (1, "usd")
    priced, _ = Raters.infer({"bleu": "metric"}).merge_side_table(pl.DataFrame({"rater": ["bleu"], "cost": [3.0]}))
    for first, second, expected in ((scored, priced, (0.5, "cpu-s")), (priced, scored, (3, None))):
        assert units(first.merge_with(second)[0])[0] == expected


def test_joined_raters_have_the_first_declared_value_of_each_column() -> None:
    declared = [
        {"higher_is_better": "yes", "low": 0, "high": 1, "person": "no", "date": None, "cost": None},
        {"higher_is_better": "no", "low": 5, "high": 9, "person": "yes", "date": "2021", "cost": 2, "cost_unit": "usd"},
    ]
    declared[0] |= {"own_system": "A", "signature": None, "truncated": 0.5}
    declared[1] |= {"own_system": "B", "signature": "v2", "truncated": 0.25}
    one, other = (
        Raters.infer({"a": "", "x": kind}).merge_side_table(pl.DataFrame({"rater": ["x"], **values}))[0]
        for kind, values in zip(("metric", ""), declared, strict=True)
    )
    for first, second, values in ((one, other, (0, 1, "A", 0.5)), (other, one, (0, 1, "A", 0.5))):
        low, high, own, truncated = values
        merged, notes = first.merge_with(second)
        assert merged.frame.filter(rater="x").row(0) == (
            *("x", "metric", False, low, high, True, "2021", 2, "usd", own, "v2", truncated),
        )
        assert notes == []
        assert merged.directed == {"x"}
        assert list(merged.kind) == (["x", "a"])


HALVES = ({"low": 3}, {"high": 1})  # a scale with one known bound


def test_joined_raters_know_what_either_knows() -> None:
    first = RATERS.merge_side_table(pl.DataFrame({"rater": ["bleu"], "low": [0], "high": [1], "signature": ["v1"]}))[0]
    rows = [{"rater": "bleu", "higher_is_better": "no", "low": 5, "high": 9, "cost": 2.0, "signature": "v2"}]
    second, _ = Raters.infer({"bleu": "metric", "new": ""}).merge_side_table(pl.DataFrame(rows))
    raters, notes = first.merge_with(second)
    assert raters.select_kind("metric") == ("bleu", "bert[x]")
    halves = [
        Raters.infer({"m": ""}).merge_side_table(pl.DataFrame({"rater": ["m"], **bounds}))[0] for bounds in HALVES
    ]
    for one, other in (halves, halves[::-1]):
        assert one.merge_with(other)[0].frame.select("low", "high").row(0) == one.frame.select("low", "high").row(0)
    row = raters.select_raters(["bleu"]).frame.row(0, named=True)
    assert (row["higher_is_better"], row["low"], row["high"], row["cost"], row["signature"]) == (False, 0, 1, 2, "v1")
    message = (
        "raters with the same name in two inputs are treated as one rater, although their signatures differ: bleu (v1, "
        "v2). If the raters differ, rename one of them"
    )
    assert notes == [Note(rule="signatures-differ", message=message, count=1)]
    assert raters.merge_with(raters)[0].frame.equals(raters.frame)
    assert raters.merge_with(raters)[1] == []


@pytest.mark.parametrize(
    ("a", "b", "comparable"),
    [
        *(((-25, 0), (0, 100), False), ((1, 5), (1, 5), True), ((1, 5), (0, 100), False), ((0, 1), (1, 5), False)),
        ((4, 5), (1, 5), True),  # a rater who gave only 4 and 5 on a 1-5 scale: they share 1 of 4
        *(((4, 5), (0, 5), True), ((4, 5), (-0.01, 5), False)),  # exactly a fifth is shared, which is enough, and less
        *(((1, 1), (1, 5), True), ((5, 5), (1, 5), True), ((3, 3), (1, 5), True)),  # a constant rater in the range
        *(((50, 50), (1, 5), False), ((3, 3), (3, 3), True)),  # outside of it, and two constant raters
        ((50, 60, 3), (1, 5), True),  # too few ratings to decide
        # declared scales take precedence over ranges
        *(((1, 5, 20, True), (1, 5, 20, True), True), ((1, 5, 20, True), (1, 7, 20, True), False)),
    ],
)
def test_comparable(a: tuple[float, ...], b: tuple[float, ...], comparable: bool) -> None:
    names, defaults = ("low", "high", "n", "declared"), (0, 0, 400, False)
    first, second = (
        Scale(**dict(zip(names, (*values, *defaults[len(values) :]), strict=True)))  # type: ignore[arg-type]
        for values in (a, b)
    )
    assert first.comparable(second) is second.comparable(first) is comparable


def test_the_observed_range_ignores_what_is_missing_and_may_be_undefined() -> None:
    assert Scale.from_scores(np.array([np.nan, 2.0, 5.0, np.inf])) == Scale(low=2, high=5, n=2)
    empty = Scale.from_scores(np.array([np.nan]))
    assert np.isnan([empty.low, empty.high]).all()
    assert empty.comparable(Scale(low=0, high=100, n=400))


@given(st.floats(-1e3, 1e3), st.floats(0, 1e3), st.floats(-1e3, 1e3), st.floats(0, 1e3), st.booleans(), st.booleans())
def test_comparable_is_symmetric(a: float, wide_a: float, b: float, wide_b: float, said_a: bool, said_b: bool) -> None:
    first, second = Scale(low=a, high=a + wide_a, declared=said_a), Scale(low=b, high=b + wide_b, declared=said_b)
    assert first.comparable(second) is second.comparable(first)
    assert first.comparable(first)
