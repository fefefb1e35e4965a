from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.errors import InputError
from custodes.evaluate.complementarity.complementarity import Complementarity, complementarity
from custodes.stats.rank_distance import RULES
from tests.evaluate.complementarity.definitions import LEVELS, by_definition, small, texts_of, values_of
from tests.evaluate.judged_studies import drawn, judged
from tests.messages import exactly


@pytest.mark.parametrize("level", LEVELS)
def test_the_table_of_rules_is_what_each_rule_answers(level: str) -> None:
    study = judged(small(5))
    rules = complementarity(study, level=level, resamples=0).rules  # type: ignore[arg-type]
    assert rules.height == 3 * len(RULES)
    for rule in RULES:
        averages = complementarity(study, level=level, distance=rule, resamples=0).averages  # type: ignore[arg-type]
        table = rules.filter(pl.col("distance") == rule)
        assert table["kinds"].to_list() == averages["kinds"].to_list()
        np.testing.assert_allclose(table["complementarity"], averages["complementarity"], atol=1e-12)


@pytest.mark.parametrize(("metrics", "visible"), [(5, 5), (35, 15)])
def test_a_long_table_shows_annotators_and_the_metrics_nearest_to_them(metrics: int, visible: int) -> None:
    truth = drawn(0, 12, 4)
    noise = {f"m{k}": drawn(1 + k, 12, 4) * (k + 1) / 10 for k in range(metrics)}
    study = judged({("ann", ""): truth} | {(name, ""): truth + values for name, values in noise.items()})
    answer = complementarity(study, resamples=0)
    nearest = answer.raters.filter(kind="metric").sort("with_humans", "rater")["rater"].head(visible)
    (view,) = (view for view in answer.views() if view.title == "raters")
    assert {cell for row in view.rows for cell in row} & {*answer.raters["rater"]} == {"human", *nearest}


def same(first: Complementarity, second: Complementarity, rename: dict[str, str] | None = None) -> None:
    """Assert equal distances, intervals and averages regardless of the order of raters."""
    rename = rename or {}

    def keyed(answer: Complementarity, names: dict[str, str]) -> dict[tuple[str, ...], tuple[float, ...]]:
        rows = answer.pairs.select(
            "rater_a", "rater_b", "complementarity", "complementarity_low", "complementarity_high"
        ).rows()
        return {tuple(sorted(names.get(name, name) for name in row[:2])): row[2:] for row in rows}

    first_table, second_table = keyed(first, rename), keyed(second, {})
    assert first_table.keys() == second_table.keys()
    for pair, values in first_table.items():
        assert values == pytest.approx(second_table[pair], abs=1e-9), pair
    for name in ("averages", "gaps"):
        for (*_, a), (*_, b) in zip(first.to_frame(name).rows(), second.to_frame(name).rows(), strict=True):
            assert a == pytest.approx(b, abs=1e-9)


ASKED = st.sampled_from([(level, rule) for level in LEVELS for rule in RULES])


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6), choice=ASKED, power=st.sampled_from([3.0, 1 / 3]))
def test_distances_are_those_of_ranks_symmetric_and_within_0_and_1(seed: int, choice: Any, power: float) -> None:
    scores = small(seed)
    level, rule = choice
    options: dict[str, Any] = {"level": level, "distance": rule, "resamples": 20}
    answer = complementarity(judged(scores), **options)
    assert all(0 <= value <= 1 for value in answer.pairs["complementarity"].drop_nulls())
    # A monotone transformation of metrics has no effect.
    bent = {
        key: values if key[0] == "ann" else np.sign(values) * np.abs(values) ** power * 7 - 2
        for key, values in scores.items()
    }
    same(complementarity(judged(bent), **options), answer)
    # Names of metrics have no effect.
    named = {("zeta" if key[0] == "bleu" else key[0], key[1]): values for key, values in scores.items()}
    same(complementarity(judged(named), **options), answer, {"zeta": "bleu"})


def test_direction_is_data_and_a_metric_that_runs_against_people_is_named() -> None:
    scores = small(2, items=40)
    scores["distance", ""] = -scores["ann", "style"] - scores["ann", "truth"]
    study = judged(scores)
    warned = complementarity(study, resamples=50)
    notes = [note.message for note in warned.notes if note.rule == "negative-agreement"]
    assert notes == [
        "distance gave rankings opposite to those of the annotators. If lower scores are better, declare it in the "
        "raters file (higher_is_better = false); without the declaration, the distances of these metrics mislead"
    ]
    reversed_study = study.describe(raters=pl.DataFrame({"rater": ["dist*"], "higher_is_better": ["false"]}))
    answer = complementarity(reversed_study, resamples=50)
    assert "negative-agreement" not in [note.rule for note in answer.notes]
    before, inverted = values_of(warned), values_of(answer)
    assert inverted["distance", "human:style"] == pytest.approx(1 - before["distance", "human:style"])
    assert inverted["distance", "human:style"] < 0.5 < before["distance", "human:style"]


def test_the_weight_of_an_item_is_how_often_it_counts() -> None:
    scores = small(4, items=6)
    weights = np.array([1, 2, 3, 1, 1, 2])
    twice = {key: np.repeat(values, weights, axis=0) for key, values in scores.items()}
    items = pl.DataFrame({"item": [f"i{i:03}" for i in range(6)], "weight": weights})
    weighted = complementarity(judged(scores).describe(items=items), resamples=0)
    repeated = complementarity(judged(twice), resamples=0)
    same(weighted, repeated)
    for name in ("rules", "components"):
        columns = ["complementarity"] if name == "rules" else ["explained_variance"]
        np.testing.assert_allclose(
            weighted.to_frame(name).select(columns), repeated.to_frame(name).select(columns), atol=1e-9
        )
    utterance = complementarity(judged(scores).describe(items=items), level="utterance", resamples=0)
    assert "weights-unused" in [note.rule for note in utterance.notes]
    same(utterance, complementarity(judged(scores), level="utterance", resamples=0))


def test_annotators_are_compared_one_by_one_on_demand() -> None:
    scores = small(6)
    scores["bob", "style"] = drawn(1, 7, 5).round()
    answer = complementarity(judged(scores), human_raters="annotators", resamples=0)
    assert [n for n in answer.raters["rater"] if n.startswith(("ann", "bob"))] == [
        "ann:style",
        "bob:style",
        "ann:truth",
    ]
    expected = np.nanmean(
        [by_definition(x, y, "tau-b") for x, y in zip(scores["ann", "style"], scores["bob", "style"], strict=True)]
    )
    assert values_of(answer)["ann:style", "bob:style"] == pytest.approx(expected)
    assert answer.averages["pairs"].to_list() == [3, 12, 6]
    together = complementarity(judged(scores), aspect="style", resamples=0)
    messages = [note.message for note in together.notes if note.rule == "no-pairs"]
    assert messages == [
        "there are no two raters to compare for human-human; human_raters='annotators' compares the annotators one by "
        "one"
    ]
    assert answer.provenance.options["human_raters"] == "annotators"


def test_one_of_each_kind_has_one_distance_and_no_map() -> None:
    scores = {key: values for key, values in small(1).items() if key in (("ann", "style"), ("bleu", ""))}
    answer = complementarity(judged(scores), resamples=20)
    assert answer.averages["complementarity"].is_null().to_list() == [True, False, True]
    assert answer.averages["mean_with_diagonal"].is_null().to_list() == [True, False, True]
    assert answer.averages["pairs"].to_list() == [0, 1, 0]
    messages = texts_of(answer, "no-pairs")
    assert messages == ["there are no two raters to compare for human-human, metric-metric"]
    assert answer.gaps["difference"].null_count() == 3
    whole = complementarity(judged(small(1)), resamples=20)
    for name in ("components", "coordinates"):
        assert answer.to_frame(name).height == (name == "components"), name
        assert answer.to_frame(name).schema == whole.to_frame(name).schema, name


def test_few_clusters_are_noted_where_there_are_intervals() -> None:
    messages = texts_of(complementarity(judged(small(1, items=11)), resamples=20), "few-clusters")
    (message,) = messages
    assert message.startswith("there are only 11 clusters of items, so intervals are unreliable")
    assert not texts_of(complementarity(judged(small(1, items=12)), resamples=20), "few-clusters")
    assert not texts_of(complementarity(judged(small(1)), resamples=0), "few-clusters")


def test_mixed_pairs_of_people_are_noted() -> None:
    scores = small(6)
    scores["bob", "style"] = drawn(1, 7, 5).round()
    messages = texts_of(complementarity(judged(scores), human_raters="annotators", resamples=0), "mixed-human-pairs")
    assert messages == [
        "the average human-human mixes pairs of annotators on one aspect, pairs of aspects of one annotator, and pairs "
        "that differ in annotator and aspect; to see the agreement between annotators, select one aspect"
    ]
    assert not texts_of(complementarity(judged(scores), resamples=0), "mixed-human-pairs")
    first = complementarity(judged(scores), human_raters="annotators", aspect="style", resamples=0)
    assert not texts_of(first, "mixed-human-pairs")
    assert not texts_of(complementarity(judged(small(6)), human_raters="annotators", resamples=0), "mixed-human-pairs")


def test_nobody_with_a_ranking_is_refused() -> None:
    scores = {key: values * 0 + 1 for key, values in small(1).items()}
    with pytest.raises(
        InputError,
        match=exactly(
            "small: no two raters rank the same two outputs; select raters whose scores vary on common outputs"
        ),
    ):
        complementarity(judged(scores))


def test_one_cluster_answers_without_intervals() -> None:
    items = pl.DataFrame({"item": [f"i{i:03}" for i in range(7)], "cluster": ["d"] * 7})
    answer = complementarity(judged(small(1)).describe(items=items))
    assert answer.averages["complementarity"].null_count() == 0
    assert answer.averages["complementarity_low"].null_count() == 3
    assert "one-item" in [note.rule for note in answer.notes]


def test_the_mean_with_the_diagonal_counts_each_rater_once_at_distance_0() -> None:
    scores = {
        ("ann", "style"): [1, 2, 3],
        ("ann", "truth"): [1, 3, 2],
        ("first", ""): [1, 2, 3],
        ("reverse", ""): [3, 2, 1],
        ("third", ""): [2, 1, 3],
        ("flat", ""): [1, 1, 1],
    }
    study = judged({key: np.tile(np.array(values, dtype=float), (2, 1)) for key, values in scores.items()})
    averages = complementarity(study, resamples=0).averages
    assert averages["kinds"].to_list() == ["human-human", "human-metric", "metric-metric"]
    # By hand, from discordant pairs of three systems: 1/3; 0, 1, 1/3, 1/3, 2/3, 2/3; 1, 1/3, 2/3. `flat` has no
    # ranking.
    assert averages["complementarity"].to_list() == pytest.approx([1 / 3, 1 / 2, 2 / 3])
    # The blocks of the matrix have 2 x 2, 2 x 3 and 3 x 3 cells.
    assert averages["mean_with_diagonal"].to_list() == pytest.approx([2 / 3 / 4, 1 / 2, 4 / 9])
