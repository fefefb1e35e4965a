"""Battles counted inside an engine equal those of the study read from the same table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import custodes as cu
from custodes.answers.shared_arguments import settings as filled
from custodes.data.battle_counting import count_battles
from custodes.data.comparisons import HUMAN
from custodes.data.counting import count_pairs
from custodes.data.outcome_counts import BY_ORDER, OutcomeCounts
from custodes.data.readers.verdict_words import ALLOWED
from custodes.data.table_engines import convert_engine_errors
from custodes.errors import InputError, OptionError
from custodes.evaluate.clusters import counts_by_aspect
from custodes.evaluate.rater_comparison import compare_any_raters
from tests.data.equal_counts import assert_equal_counts
from tests.data.input_errors import input_error
from tests.messages import exactly

duckdb = pytest.importorskip("duckdb")
SYSTEMS = ("M", "m", "Ä", "b10")
WORDS = ("model_a", "model_b", "tie", "both_bad", "[[B]]", "")


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with duckdb.connect() as opened:
        yield opened


def verdicts(seed: int, *, n_humans: int, orders: bool, repeats: int, items: int = 6) -> pl.DataFrame:
    """Return random verdicts of annotators and a judge: words, system names, empty cells, both orders, repeats."""
    rng = np.random.default_rng(seed)
    rows = []
    for rater in (*(f"p{k}" for k in range(n_humans)), "judge"):
        for item in range(items):
            for i in range(len(SYSTEMS)):
                for j in range(i + 1, len(SYSTEMS)):
                    for order in ("ab", "ba", "") if orders else ("",):
                        for repeat in range(repeats):
                            if rng.random() < 0.5:
                                continue
                            a, b = (SYSTEMS[k] for k in ((i, j) if (item + i + j) % 2 else (j, i)))
                            word = str(rng.choice([*WORDS, a, b]))
                            kind = "metric" if rater == "judge" else "human"
                            rows.append((f"i{item}", a, b, rater, kind, word, order, str(repeat)))
    names = ["item", "model_a", "model_b", "rater", "kind", "winner", "order", "repeat"]
    return pl.DataFrame(rows, schema=names, orient="row")


def of_study(frame: pl.DataFrame, orders: str) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return the counts from the battles of the study's leaderboard."""
    study = cu.read(frame).select()
    comparison = compare_any_raters(study, study.aspects[0], filled({"orders": orders}))
    table, frames, items = comparison.preferences, [], {}
    for rater in table.active_raters:
        comparisons = table.select_rater(table.raters.index(rater))
        items[rater] = len(np.unique(comparisons.item))
        signs = {"wins": 1, "ties": 0, "losses": -1}
        names = [np.array(table.systems, dtype=object)[side] for side in (comparisons.first, comparisons.second)]
        rows = pl.DataFrame(
            {
                "rater": [rater] * len(comparisons),
                "system_a": names[0].tolist(),
                "system_b": names[1].tolist(),
                "order": comparisons.order,
                **{name: (comparisons.sign == sign).astype(np.int64) for name, sign in signs.items()},
            },
            schema=BY_ORDER,
        )
        frames.append(rows)
    keys = ["rater", "system_a", "system_b", "order"]
    return pl.concat(frames).group_by(keys).sum().sort(keys), items


def pairs_of_study(frame: pl.DataFrame, orders: str) -> OutcomeCounts:
    """Return the pairs and the counts that favoritism uses."""
    (comparisons,) = counts_by_aspect(cu.read(frame), filled({"orders": orders}))
    return comparisons.counts


@given(
    seed=st.integers(0, 2**32 - 1),
    n_humans=st.integers(1, 3),
    with_orders=st.booleans(),
    repeats=st.integers(1, 2),
    orders=st.sampled_from(["mean", "consistent"]),
)
@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_engines_and_the_study_count_the_same(
    connection: Any, seed: int, n_humans: int, with_orders: bool, repeats: int, orders: Any
) -> None:
    frame = verdicts(seed, n_humans=n_humans, orders=with_orders, repeats=repeats)
    (by_order, items), pairs = of_study(frame, orders), pairs_of_study(frame, orders)
    for table in (frame.lazy(), connection.from_arrow(frame.to_arrow()), frame.to_pandas()):
        counts = count_battles(table, orders=orders)
        assert counts.outcomes.equals(by_order)
        assert counts.items == items
        assert_equal_counts(counts, pairs)


def test_each_battle_of_an_item_of_its_own_needs_no_settling(connection: Any) -> None:
    """A second annotator without a verdict forces the general path, which must give the same counts."""
    frame = verdicts(3, n_humans=1, orders=False, repeats=1, items=30)
    frame = frame.with_columns(item=pl.int_range(pl.len()).cast(pl.String))
    plain = count_battles(frame)
    silent = frame.head(1).with_columns(rater=pl.lit("p9"), winner=pl.lit(""))
    both = count_battles(pl.concat([frame, silent]))
    assert plain.outcomes.equals(both.outcomes)
    assert (
        plain.items
        == both.items
        == dict(plain.outcomes.group_by("rater").agg(n=pl.sum_horizontal("wins", "ties", "losses").sum()).iter_rows())
    )
    assert plain.outcomes.equals(of_study(frame, "mean")[0])
    shared = pl.concat([frame, frame.with_columns(rater=pl.lit("judge2"), kind=pl.lit("metric"))])
    counts = count_battles(shared)
    assert_equal_counts(counts, pairs_of_study(shared, "mean"))
    assert counts.paired[:, 1].sum() > 0 == counts.paired[:, 0].sum()


def test_a_column_of_signs_and_one_person() -> None:
    frame = pl.DataFrame({"item": [1, 2, 3], "system_a": "B", "system_b": "A", "preference": [1.0, -1.0, None]})
    counts = count_battles(frame)
    assert counts.outcomes.row(0) == (HUMAN, "A", "B", 0.0, 1, 0, 1)
    assert counts.items == {HUMAN: 2}
    assert [note.rule for note in counts.notes] == ["missing-verdict"]


def test_columns_may_have_other_names_and_numbers(connection: Any) -> None:
    frame = pl.DataFrame(
        {
            "item": [7, 7, 8, 9],
            "system_a": "B",
            "system_b": "A",
            "preference": [1.0, 1.0, 0.0, -1.0],
            "judge": "ann",
            "order": ["AB", "a, b", "ba", None],
            "repeat": [1.0, 2.0, None, None],
            "aspect": [None, "", None, None],
            "kind": [" Human ", "human", "HUMAN", "Expert"],
        }
    )
    expected = [("human", "A", "B", *row) for row in ((-1.0, 0, 0, 1), (0.0, 1, 0, 0), (1.0, 0, 1, 0))]
    named = frame.rename({"judge": "rater", "preference": "winner", "system_a": "model_a", "system_b": "model_b"})
    for table in (frame, named, named.with_columns(judge=pl.lit("x"), preference=pl.lit(0))):
        assert count_battles(table).outcomes.rows() == expected
        assert count_battles(connection.from_arrow(table.to_arrow())).outcomes.rows() == expected


def test_an_aspect_and_some_systems() -> None:
    rows = [
        *(("1", "A", "B", "p", "human", "x", "A"), ("1", "A", "B", "p", "human", "y", "B")),
        *(("1", "A", "B", "j", "metric", "", "B"), ("2", "A", "C", "p", "human", "x", "A")),
    ]
    frame = pl.DataFrame(rows, schema=["item", "model_a", "model_b", "rater", "kind", "aspect", "winner"], orient="row")
    counts = count_battles(frame, aspect="x", systems=["A", "B"])
    assert counts.outcomes.rows() == [("human", "A", "B", 0.0, 1, 0, 0), ("j", "A", "B", 0.0, 0, 0, 1)]


PLAIN = {"item": ["1", "2"], "model_a": ["A", "A"], "model_b": ["B", "B"], "winner": ["A", "B"]}
CORRECT = "; correct them, or remove them from the table"


def unreadable(number: str, words: str, exception: str = "") -> str:
    """Return the message on words that are no verdicts."""
    return (
        f"{number} verdicts cannot be read ({words}); allowed: {ALLOWED}, or empty{exception}. Correct them, or remove "
        "them from the table"
    )


@pytest.mark.parametrize(
    ("frame", "options", "error", "message"),
    [
        (
            {"item": ["1"]},
            {},
            InputError,
            "the table needs the columns item, model_a, model_b (or system_a, system_b) and winner (or preference); "
            "its columns are item",
        ),
        (PLAIN | {"winner": ["A", "nobody"]}, {}, InputError, unreadable("1 of 2", "'nobody' 1 times")),
        (
            PLAIN | {"winner": ["left", "A"]},
            {},
            InputError,
            unreadable("1 of 2", "'left' 1 times", ", except words for the position shown"),
        ),
        (
            {name: 1002 * cells for name, cells in PLAIN.items()} | {"winner": [*"xyyzzzwwww", *1994 * "?"]},
            {},
            InputError,
            unreadable("2,004 of 2,004", "'?' 1,994 times, 'w' 4 times, 'z' 3 times and 2 more"),
        ),
        (
            PLAIN | {"model_a": ["Abc", "B"], "model_b": ["B", "Abc"], "winner": ["abc", "abc"]},
            {},
            InputError,
            "verdicts 'abc' match no system name exactly; write model_a, model_b or tie",
        ),
        (PLAIN | {"item": ["1", None]}, {}, InputError, f"1 rows have no item{CORRECT}"),
        (PLAIN | {"item": ["1", ""]}, {}, InputError, f"1 rows have no item{CORRECT}"),
        (PLAIN | {"item": [1, None]}, {}, InputError, f"1 rows have no item{CORRECT}"),
        (PLAIN | {"model_a": ["", "A"]}, {}, InputError, f"1 rows name no system{CORRECT}"),
        (PLAIN | {"model_b": ["B", None]}, {}, InputError, f"1 rows name no system{CORRECT}"),
        (PLAIN | {"rater": ["ann", ""]}, {}, InputError, f"1 rows name no rater{CORRECT}"),
        (PLAIN | {"model_b": ["B", "A"]}, {}, InputError, f"1 rows compare a system with itself{CORRECT}"),
        (PLAIN | {"order": ["ab", "up"]}, {}, InputError, "column 'order' holds 'up'; allowed: ab, ba, or empty"),
        (
            PLAIN | {"item": ["1", "1"]},
            {},
            InputError,
            "1 verdicts occur twice (same item, systems, rater, repeat and order). If the outputs were shown in both "
            "orders, give the order in 'order' (ab, ba); if verdicts are repeats, number the repeats in 'repeat'",
        ),
        (
            PLAIN | {"rater": ["x", "y"]},
            {},
            OptionError,
            "no rater is known to be human; name the annotators, as in human='ann', or give a column 'kind'. Raters: "
            "x, y",
        ),
        (
            PLAIN | {"rater": ["grace", "y"]},
            {"human": "grase"},
            OptionError,
            "human='grase': no such rater; raters: grace, y (did you mean 'grace'?)",
        ),
        (PLAIN | {"aspect": ["y", "x"]}, {"aspect": "q"}, OptionError, "aspect='q' has no verdict; aspects: 'x', 'y'"),
        (PLAIN, {"systems": ["C"]}, OptionError, "systems='C': no such system; systems: A, B"),
        (PLAIN | {"winner": ["", None]}, {}, InputError, "all 2 verdicts are empty; give at least one verdict"),
        (PLAIN | {"winner": ["", "N/A"]}, {}, InputError, "all 2 verdicts are empty; give at least one verdict"),
        (PLAIN | {"winner": [0.5, 1.0]}, {}, InputError, "1 values of 'winner' are not allowed; allowed: 1, 0, -1"),
        ({name: cells[:0] for name, cells in PLAIN.items()}, {}, InputError, "no rows; give at least one verdict"),
        (
            PLAIN | {"model_a": ["A ", "A"]},
            {},
            InputError,
            f"1 rows have a label with a space before or after it{CORRECT}",
        ),
        (
            PLAIN | {"kind": ["human", "boss"]},
            {},
            InputError,
            f"1 rows have a kind other than human or metric{CORRECT}",
        ),
        (
            PLAIN | {"invalid": ["cut", ""]},
            {},
            InputError,
            f"1 rows have both a verdict and a reason in 'invalid'{CORRECT}",
        ),
        (
            PLAIN | {"rater": ["ann", "human"], "kind": ["human", "metric"]},
            {},
            InputError,
            "a metric is named 'human', the name reserved for the combined annotators; rename it in the table",
        ),
    ],
)
def test_mistakes_are_named(
    frame: dict[str, Any], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=exactly(f"count_battles: {message}")):
        count_battles(pl.DataFrame(frame), **options)


def test_rows_of_ambiguous_verdicts_are_those_of_the_distinct_verdicts() -> None:
    message = input_error(count_battles, pl.DataFrame(PLAIN | {"winner": [0, 1]}))
    assert message.replace("row 2", "row 1") == (  # engines return rows in any order
        "count_battles: winner is 0, 1, where 0 (row 1) may be a tie or a system; write model_a, model_b, tie (row "
        "numbers refer to the list of distinct verdicts, not to the table)"
    )


def test_second_opinions_are_not_counted(connection: Any) -> None:
    verdicts = pl.DataFrame(PLAIN | {"winner": ["A", "model_b"], "role": ["primary", "Second"]})
    ratings = pl.DataFrame(
        {
            "item": ["1", "1", "1", "1", "2", "2", "2", "2"],
            "system": ["A", "B"] * 4,
            "rater": ["ann", "ann", "m", "m"] * 2,
            "score": [1, 2] * 4,
            "role": ["", "", None, None, "second", "second", "", ""],
        }
    )
    convert: Any
    for convert in (lambda table: table, lambda table: connection.from_arrow(table.to_arrow())):
        assert count_battles(convert(verdicts)).outcomes.rows() == [("human", "A", "B", 0.0, 1, 0, 0)]
        counts = count_pairs(convert(ratings), human="ann")
        assert (counts.paired.sum(), counts.metric_only.sum()) == (1, 1)


def test_what_was_left_out_is_told_by_every_question_of_the_counts() -> None:
    """By hand: one verdict is empty, and it is the only one of j2."""
    rows = [(item, "A", "B", word, rater) for item in ("1", "2") for rater, word in (("ann", "A"), ("j", "model_b"))]
    rows.append(("1", "A", "B", "", "j2"))
    counts = count_battles(
        pl.DataFrame(rows, schema=["item", "model_a", "model_b", "winner", "rater"], orient="row"), human="ann"
    )
    ask: Any
    for ask in (cu.favoritism, cu.ranking, cu.correction, cu.leaderboard):
        notes = {note.rule: note for note in ask(counts).notes}
        assert notes["missing-verdict"].count == notes["no-battle"].count == 1
        assert notes["missing-verdict"].message == "1 verdicts are empty and count as not rated"
        assert notes["no-battle"].message == "raters without a valid verdict are missing from all tables: j2"


def test_items_stand_in_one_order() -> None:
    """The digest does not depend on the order in which the engine returns items."""
    names = [f"r{i}" for i in range(30)]
    rows = {"item": [*names], "model_a": "A", "model_b": "B", "winner": "tie", "rater": names, "kind": "metric"}
    counts = count_battles(pl.DataFrame(rows).sample(fraction=1.0, shuffle=True, seed=1))
    assert list(counts.items) == sorted(names)


def test_kinds_are_read_as_in_a_study() -> None:
    counts = count_battles(pl.DataFrame(PLAIN | {"rater": ["ann", "bob"], "kind": ["Human", "HUMAN "]}))
    assert counts.raters == ("human",)


def test_what_an_engine_says_when_it_gives_up_is_one_line(tmp_path: Any) -> None:
    path = tmp_path / "gone.parquet"
    pl.DataFrame(PLAIN).write_parquet(path)
    with duckdb.connect() as opened:
        table = opened.read_parquet(str(path))
        path.unlink()
        with pytest.raises(
            InputError, match=r"^count_battles: IO Error: .*; check that the table is complete and still exists"
        ):
            count_battles(table)
    with pytest.raises(InputError, match=r"^count_battles: No such file .*; check that the table"):
        count_battles(pl.scan_parquet(path))


def test_a_word_that_may_speak_of_the_place_is_noted() -> None:
    rows = {"item": [1, 2, 3], "model_a": ["x", "x", "y"], "model_b": ["y", "y", "x"], "winner": ["a", "b", "a"]}
    counts = count_battles(pl.DataFrame(rows | {"order": ["ab", "ba", "ba"]}))
    assert [(note.rule, note.count) for note in counts.notes] == [("place-or-column", 2)]
    assert counts.notes[0].message == (
        "verdicts such as a, b are read as names of columns, not as positions on the screen; if the verdicts mean "
        "positions, write the names of the systems"
    )
    assert not count_battles(pl.DataFrame(rows | {"order": ["ab"] * 3})).notes
    unknown = count_battles(pl.DataFrame(rows | {"order": ["", "", "ba"]}))
    assert [note.count for note in unknown.notes if note.rule == "place-or-column"] == [1]


MEMORY = "give the engine more memory, or count with DuckDB (--engine duckdb), which writes to disk (--spill FOLDER)"
COMPLETE = "check that the table is complete and still exists"


@pytest.mark.parametrize(
    ("problem", "way"),
    [
        (duckdb.OutOfMemoryException("failed to pin block"), f"failed to pin block; {MEMORY}"),
        (duckdb.IOException("\n no space LEFT on device \n then more"), f"no space LEFT on device; {MEMORY}"),
        (pl.exceptions.ComputeError("memory allocation failed"), f"memory allocation failed; {MEMORY}"),
        (pl.exceptions.SchemaError("x" * 301), f"{'x' * 300}; {COMPLETE}"),
        (
            pl.exceptions.SchemaError("at line 1\nCaused by: the first\n Caused by:  the last\nat line 2"),
            f"the last; {COMPLETE}",
        ),
        (pl.exceptions.SchemaError(""), f"SchemaError; {COMPLETE}"),
        (MemoryError(), f"MemoryError; {MEMORY}"),
        (OSError("y" * 301), f"{'y' * 300}; {COMPLETE}"),
    ],
)
def test_only_who_has_no_room_is_told_to_make_some(problem: Exception, way: str) -> None:
    @convert_engine_errors("here")
    def failing() -> None:
        raise problem

    with pytest.raises(InputError, match=exactly(f"here: {way}")):
        failing()
