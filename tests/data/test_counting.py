"""Counting inside an engine against loops by definition, for several engines and sparse studies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from custodes.data.counting import count_pairs
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.simulate import demo_study
from custodes.data.ties_and_orders import Aggregate
from custodes.errors import OptionError
from tests.data.equal_counts import assert_equal_counts
from tests.data.input_errors import input_error
from tests.messages import exactly

duckdb = pytest.importorskip("duckdb")

SYSTEMS = ("A", "B", "a", "Ä", "b10", "b9")
PEOPLE = ("ann", "bob", "eve")
METRICS = ("bleu", "comet")
TIES = {"bleu": 0.25, "comet": 0.0}
DIRECTIONS = {"ann": 1.0, "bleu": 1.0, "comet": -1.0}


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with duckdb.connect() as opened:
        yield opened


def sparse_ratings(seed: int, density: float) -> pl.DataFrame:
    """Return random ratings of few items with aspects, repeats, system-level scores and a rater outside the selection.

    Scores are multiples of 1/4, so means and differences are exact on every engine.
    """
    rng = np.random.default_rng(seed)
    levels = (["1", "2", "3", "4", ""], SYSTEMS, (*PEOPLE, *METRICS), ["", "x"], ["0", "1"])
    names = ["item", "system", "rater", "aspect", "repeat"]
    frame = pl.DataFrame(list(product(*levels)), schema=names, orient="row")
    frame = frame.filter(pl.Series(rng.random(frame.height) < density))
    frame = frame.with_columns(score=pl.Series(rng.integers(0, 9, frame.height) / 4, dtype=pl.Float64))
    # ensure that every rater and system exists and that each aspect has a human rating
    required = [("9", SYSTEMS[0], rater, aspect, "0", 1.0) for rater in (*PEOPLE, *METRICS[:1]) for aspect in ("", "x")]
    required += [("9", SYSTEMS[0], METRICS[1], "", "0", 1.0)]
    required += [("9", system, "other", "", "0", 1.0) for system in SYSTEMS]
    return pl.concat([frame, pl.DataFrame(required, schema=frame.schema, orient="row")])


def by_definition(
    frame: pl.DataFrame,
    *,
    humans: Sequence[str],
    aspect: str,
    aggregate: Aggregate,
    human_ties: float | None,
    systems: Sequence[str],
) -> OutcomeCounts:
    """Count with loops over items and pairs; scores are multiples of 1/4, so no tie depends on rounding."""
    raters = set(frame.filter(aspect=aspect)["rater"])
    aspects = {rater: aspect if rater in raters or rater in humans else "" for rater in (*humans, *METRICS)}
    scores = defaultdict[tuple[str, str, str], list[float]](list)
    for item, system, rater, of, _, score in frame.iter_rows():
        if item and aspects.get(rater) == of:
            scores[rater, item, system].append(score * DIRECTIONS.get(rater, 1.0))
    mean = {key: sum(values) / len(values) for key, values in scores.items()}

    def outcome(difference: float, tie: float) -> int:
        return 1 if abs(difference) <= tie + 1e-6 else 0 if difference > 0 else 2

    pairs = list(combinations(systems, 2))
    tables = np.zeros((len(pairs), len(METRICS), 4, 4), dtype=np.int64)
    for (p, (a, b)), item in product(enumerate(pairs), sorted({item for _, item, _ in mean})):
        means = {
            rater: mean[rater, item, a] - mean[rater, item, b]
            for rater in (*humans, *METRICS)
            if (rater, item, a) in mean and (rater, item, b) in mean
        }
        rater_means = [means[rater] for rater in humans if rater in means]
        human = 3
        if rater_means and aggregate == "mean":
            human = outcome(sum(rater_means) / len(rater_means), human_ties or 0.0)
        elif rater_means:
            human = 1 - int(np.sign(sum(1 - outcome(raters, human_ties or 0.0) for raters in rater_means)))
        for m, name in enumerate(METRICS):
            metric = outcome(means[name], TIES[name]) if name in means else 3
            tables[p, m, human, metric] += human < 3 or metric < 3
    return OutcomeCounts.from_tables(tables, systems=systems, metrics=METRICS)


@given(
    seed=st.integers(0, 2**32 - 1),
    density=st.sampled_from([0.05, 0.3, 0.8]),
    n_people=st.integers(1, 3),
    aspect=st.sampled_from(["", "x"]),
    aggregate=st.sampled_from(["mean", "vote"]),
    human_ties=st.sampled_from([None, 0.0, 0.5]),
    batches=st.sampled_from([None, 1, 3]),
)
@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_engines_count_by_definition(
    connection: Any,
    seed: int,
    density: float,
    n_people: int,
    aspect: str,
    aggregate: Aggregate,
    human_ties: float | None,
    batches: int | None,
) -> None:
    humans, systems, frame = PEOPLE[:n_people], sorted(SYSTEMS), sparse_ratings(seed, density)
    setting: dict[str, Any] = {"aspect": aspect, "aggregate": aggregate, "human_ties": human_ties, "systems": systems}
    expected = by_definition(frame, humans=humans, **setting)
    counting = {**setting, "human": humans, "metrics": METRICS, "ties": TIES, "directions": DIRECTIONS}
    assert_equal_counts(count_pairs(frame.lazy(), batches=batches, **counting), expected)
    assert_equal_counts(count_pairs(connection.from_arrow(frame.to_arrow()), **counting), expected)


@pytest.fixture(scope="module")
def hand() -> pl.DataFrame:
    """Return ratings of two items and three systems, whose counts follow by hand."""
    return pl.DataFrame(
        [
            *(("1", "A", "ann", 5.0), ("1", "B", "ann", 3.0), ("1", "C", "ann", 3.0), ("1", "A", "bleu", 0.1)),
            *(("1", "B", "bleu", 0.3), ("2", "A", "ann", 2.0), ("2", "A", "bleu", 0.4), ("2", "B", "bleu", 0.1)),
        ],
        schema=["item", "system", "rater", "score"],
        orient="row",
    )


def test_a_metric_threshold_reaches_as_far_as_it_says(hand: pl.DataFrame) -> None:
    # Differences of bleu: .1 - .3 on item 1 and .4 - .1 on item 2, in floating point.
    assert count_pairs(hand, human="ann", ties=0.25).paired[0, 0].tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert count_pairs(hand, human="ann", ties={"bleu": 0.4 - 0.1}).metric_only[0, 0].tolist() == [0, 1, 0]


def test_people_tie_up_to_float_noise_of_their_range(hand: pl.DataFrame) -> None:
    # The mean of 0.1 - 0.3 and 0.3 - 0.1 + 5e-10 is rounding error for humans with a range of 2.9; a metric has no tie.
    scores = [("1", "A", 0.1), ("1", "B", 0.3), ("2", "A", 3.0)]
    second_scores = [("1", "A", 0.3 + 1e-9), ("1", "B", 0.1)]
    rows = [(i, s, r, v) for r, values in (("p", scores), ("q", second_scores)) for i, s, v in values]
    rows += [("1", "A", "m", 1e-10), ("1", "B", "m", 0.0)]
    frame = pl.DataFrame(rows, schema=hand.columns, orient="row")
    assert count_pairs(frame, human=["p", "q"]).paired[0, 0].tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_batches_and_kinds_of_table_change_nothing(hand: pl.DataFrame, connection: Any) -> None:
    expected = count_pairs(hand, human="ann")
    numbered = hand.with_columns(pl.col("item").cast(pl.Int64))
    coded = hand.with_columns(pl.col("item", "system", "rater").cast(pl.Categorical))
    blanks = pl.DataFrame(
        [("1", "C", "bleu", None), ("", "C", "bleu", 1.0), (None, "C", "bleu", 1.0)], schema=hand.schema, orient="row"
    )
    unrated = pl.concat([hand, blanks, blanks.with_columns(item=pl.lit("1"), score=float("nan"))])
    for table in (
        hand.lazy(),
        hand.to_arrow(),
        pd.DataFrame(hand.to_dict(as_series=False)),
        numbered,
        coded,
        unrated,
        connection.from_arrow(hand.to_arrow()),
        connection.from_arrow(numbered.to_arrow()),
        connection.from_arrow(unrated.to_arrow()),
    ):
        assert_equal_counts(count_pairs(table, human="ann"), expected)
    progress_calls = []

    def progress(parts: Any, /, *, total: int | None = None, desc: str | None = None) -> Any:
        progress_calls.append((total, desc))
        return parts

    for batches in (1, 2, 8):
        assert_equal_counts(count_pairs(hand, human="ann", batches=batches, progress=progress), expected)
    assert progress_calls == [(1, "counting pairs"), (2, "counting pairs"), (8, "counting pairs")]


def test_a_metric_without_the_aspect_is_taken_by_its_rows_without_one() -> None:
    frame = demo_study().ratings.frame
    plain = {"human": "ann1", "metrics": ["judge", "noise"], "systems": ["Elm", "Fir"]}
    of_aspect = {
        aspect: count_pairs(frame, aspect=aspect, **plain).metric[0]  # type: ignore[arg-type]
        for aspect in ("coherence", "fluency")
    }
    assert of_aspect["coherence"].sum(axis=1).tolist() == [80, 80]
    np.testing.assert_array_equal(of_aspect["coherence"][1], of_aspect["fluency"][1])
    assert (of_aspect["coherence"][0] != of_aspect["fluency"][0]).any()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"human": "an"}, "human='an': no such rater; raters: ann, bleu (did you mean 'ann'?)"),
        ({"human": []}, "human is empty; name at least one annotator"),
        (
            {"human": ["ann", "bleu"]},
            "there is no metric, as all raters are human (ann, bleu); name fewer raters in human=..., or add scores of "
            "a metric",
        ),
        ({"metrics": ["blue"]}, "metrics='blue': no such rater; raters: ann, bleu (did you mean 'bleu'?)"),
        ({"metrics": ["ann"]}, "human and metrics both name ann; give each rater one kind"),
        ({"systems": ["A", "D"]}, "systems='D': no such system; systems: A, B, C"),
        ({"aspect": "x"}, "aspect='x' was rated by no annotator; aspects of the annotators: ''"),
        ({"ties": {"other": 9.0}}, "ties='other': no such rater; raters: ann, bleu"),
        ({"ties": -1.0}, "tie threshold -1.0 is not allowed; give a number of at least 0"),
        ({"ties": {"bleu": np.inf}}, "tie threshold inf is not allowed; give a number of at least 0"),
        ({"human_ties": float("nan")}, "tie threshold nan is not allowed; give a number of at least 0"),
        ({"batches": 0}, "batches=0 must be at least 1"),
        ({"batches": 9}, "batches=9 exceeds the 8 rows with a rating; give a smaller number"),
        ({"directions": {"other": -1.0}}, "directions='other': no such rater; raters: ann, bleu"),
        ({"directions": {"bleu": 0}}, "directions hold 0; allowed: 1 (higher is better), -1 (lower is better)"),
    ],
)
def test_mistakes_are_named(hand: pl.DataFrame, setting: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=exactly(f"count_pairs: {message}")):
        count_pairs(hand, **{"human": "ann"} | setting)


def test_bad_tables_are_refused(hand: pl.DataFrame, connection: Any) -> None:
    for table, message in (
        (
            {},
            "a dict is not a table that can be counted; give a lazy or eager dataframe (Polars, DuckDB, pandas, "
            "PySpark)",
        ),
        (
            hand.drop("score"),
            "column 'score' is missing; columns: item, system, rater; needed: item, system, rater, score",
        ),
        (hand.cast({"score": pl.String}), "column 'score' holds String, expected numbers; convert the column first"),
        (
            hand.with_columns(score=pl.col("score") / 0),
            "a score is infinite; a score must be finite (empty where not rated)",
        ),
    ):
        assert input_error(count_pairs, table, human="ann") == f"count_pairs: {message}"
    relation = connection.from_arrow(hand.to_arrow())
    assert count_pairs(relation, human="ann", batches=1).metrics == ("bleu",)
    message = "count_pairs: batches=2 applies only to tables that Polars counts; leave batches out"
    with pytest.raises(OptionError, match=exactly(message)):
        count_pairs(relation, human="ann", batches=2)
