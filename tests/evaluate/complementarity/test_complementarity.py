"""Complementarity: every number against its definition by brute force, its symmetries, and who has no ranking."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.evaluate.complementarity.complementarity import Complementarity, complementarity
from custodes.stats.rank_distance import RULES
from tests.evaluate.test_judges import Scores, drawn, judged, rows_of, study_from

LEVELS = ("system", "utterance")


def small(seed: int, *, items: int = 7, systems: int = 5, ties: bool = True, missing: bool = True) -> dict[Any, Any]:
    """Two aspects of people and four metrics, which share some signal."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(items, systems))
    scores = {
        key: truth * weight + rng.normal(size=truth.shape)
        for key, weight in {
            ("ann", "style"): 1.0,
            ("ann", "truth"): 1.5,
            ("bleu", ""): 1.0,
            ("rouge", ""): 0.5,
            ("judge", "style"): 2.0,
            ("judge", "truth"): 0.0,
        }.items()
    }
    for values in scores.values():
        if ties:
            values[:] = values.round()
        if missing:
            values[rng.random(values.shape) < 0.1] = np.nan
    return scores


NAMES = {
    ("ann", "style"): "human:style",
    ("ann", "truth"): "human:truth",
    ("bleu", ""): "bleu",
    ("rouge", ""): "rouge",
    ("judge", "style"): "judge:style",
    ("judge", "truth"): "judge:truth",
}


def ordered_by_place(x: np.ndarray) -> np.ndarray:
    return np.array([np.nan if np.isnan(v) else (np.sum(x < v) + np.sum(x[:i] == v)) for i, v in enumerate(x)])


def by_definition(x: np.ndarray, y: np.ndarray, rule: str) -> float:
    """The distance of two rankings; NaN where there is none."""
    if rule == "ordinal":
        x, y, rule = ordered_by_place(x), ordered_by_place(y), "strict"
    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    if len(x) < 2:
        return np.nan
    if rule == "tau-b":
        if len(set(x)) == 1 or len(set(y)) == 1:
            return np.nan
        return (1 - stats.kendalltau(x, y).statistic) / 2
    signs = [np.sign((x[i] - x[j]) * (y[i] - y[j])) for i, j in combinations(range(len(x)), 2)]
    tied = 0.5 if rule == "half" else 0.0
    return float(np.mean([{-1: 1.0, 0: tied, 1: 0.0}[int(sign)] for sign in signs]))


def distances_by_definition(scores: Scores, rule: str, level: str) -> dict[tuple[str, str], np.ndarray]:
    """Pair of names -> the distance in every item (or system)."""
    return {
        (NAMES[a], NAMES[b]): np.array(
            [
                by_definition(x, y, rule)
                for x, y in zip(
                    scores[a] if level == "system" else scores[a].T,
                    scores[b] if level == "system" else scores[b].T,
                    strict=True,
                )
            ]
        )
        for a, b in combinations(NAMES, 2)
    }


def kinds(a: str, b: str) -> str:
    return "-".join("human" if name.startswith("human") else "metric" for name in (a, b))


def found(made: Complementarity) -> dict[tuple[str, str], float]:
    return {tuple(sorted(row[:2])): row[2] for row in made.pairs.select("rater_a", "rater_b", "complementarity").rows()}


@pytest.mark.parametrize("level", LEVELS)
def test_the_table_of_rules_is_what_each_rule_answers(level: str) -> None:
    study = judged(small(5))
    rules = complementarity(study, level=level, resamples=0).rules  # type: ignore[arg-type]
    assert rules.height == 3 * len(RULES)
    for rule in RULES:
        own = complementarity(study, level=level, distance=rule, resamples=0).averages  # type: ignore[arg-type]
        shown = rules.filter(pl.col("distance") == rule)
        assert shown["kinds"].to_list() == own["kinds"].to_list()
        np.testing.assert_allclose(shown["complementarity"], own["complementarity"], atol=1e-12)


# --- symmetries ----------------------------------------------------------------------------------------------------


def same(one: Complementarity, other: Complementarity, rename: dict[str, str] | None = None) -> None:
    """Equal distances, intervals and averages, whatever the order of the raters."""
    rename = rename or {}

    def keyed(made: Complementarity, names: dict[str, str]) -> dict[tuple[str, ...], tuple[float, ...]]:
        rows = made.pairs.select(
            "rater_a", "rater_b", "complementarity", "complementarity_low", "complementarity_high"
        ).rows()
        return {tuple(sorted(names.get(name, name) for name in row[:2])): row[2:] for row in rows}

    ours, theirs = keyed(one, rename), keyed(other, {})
    assert ours.keys() == theirs.keys()
    for pair, values in ours.items():
        assert values == pytest.approx(theirs[pair], abs=1e-9), pair
    for name in ("averages", "gaps"):
        for (*_, a), (*_, b) in zip(one.to_frame(name).rows(), other.to_frame(name).rows(), strict=True):
            assert a == pytest.approx(b, abs=1e-9)


ASKED = st.sampled_from([(level, rule) for level in LEVELS for rule in RULES])


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6), asked=ASKED, power=st.sampled_from([3.0, 1 / 3]))
def test_distances_are_those_of_ranks_symmetric_and_within_0_and_1(seed: int, asked: Any, power: float) -> None:
    scores = small(seed)
    level, rule = asked
    ask: dict[str, Any] = {"level": level, "distance": rule, "resamples": 20}
    made = complementarity(judged(scores), **ask)
    assert all(0 <= value <= 1 for value in made.pairs["complementarity"].drop_nulls())
    # A monotone transformation of metrics changes nothing.
    bent = {
        key: values if key[0] == "ann" else np.sign(values) * np.abs(values) ** power * 7 - 2
        for key, values in scores.items()
    }
    same(complementarity(judged(bent), **ask), made)
    # Nor do the order of the rows and so of raters, items and systems.
    mixed = rows_of(scores).sample(fraction=1, shuffle=True, seed=seed)
    same(complementarity(study_from(mixed), **ask), made)
    # Nor other names of metrics.
    named = {("zeta" if key[0] == "bleu" else key[0], key[1]): values for key, values in scores.items()}
    same(complementarity(judged(named), **ask), made, {"zeta": "bleu"})


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6), level=st.sampled_from(LEVELS), rule=st.sampled_from(["tau-b", "strict", "half"]))
def test_new_names_of_items_and_systems_change_nothing(seed: int, level: Any, rule: Any) -> None:
    rows = rows_of(small(seed))
    ask: dict[str, Any] = {"level": level, "distance": rule, "resamples": 0}
    turned = rows.with_columns(
        pl.col("item").replace({f"i{i:03}": f"x{(i * 3) % 7}" for i in range(7)}),
        pl.col("system").replace(dict(zip("ABCDE", "QPTSR", strict=True))),
    )
    same(complementarity(study_from(turned), **ask), complementarity(study_from(rows), **ask))


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6), level=st.sampled_from(LEVELS), rule=st.sampled_from(RULES))
def test_a_reversed_metric_is_one_minus_where_nothing_ties(seed: int, level: Any, rule: Any) -> None:
    scores = small(seed, ties=False)
    ask: dict[str, Any] = {"level": level, "distance": rule, "resamples": 0}
    straight, turned = (found(complementarity(judged(s), **ask)) for s in (scores, with_bleu_turned(scores)))
    for pair, value in straight.items():
        assert turned[pair] == pytest.approx(1 - value if "bleu" in pair else value, abs=1e-12)


@pytest.mark.parametrize("rule", ["tau-b", "half"])
def test_a_reversed_metric_is_one_minus_with_ties_too(rule: Any) -> None:
    scores = small(11)
    straight = found(complementarity(judged(scores), distance=rule, resamples=0))
    turned = found(complementarity(judged(with_bleu_turned(scores)), distance=rule, resamples=0))
    for pair, value in straight.items():
        assert turned[pair] == pytest.approx(1 - value if "bleu" in pair else value, abs=1e-12)


def with_bleu_turned(scores: dict[Any, Any]) -> dict[Any, Any]:
    return {key: -values if key[0] == "bleu" else values for key, values in scores.items()}


def test_direction_is_data_and_a_metric_that_runs_against_people_is_named() -> None:
    scores = small(2, items=40)
    scores["distance", ""] = -scores["ann", "style"] - scores["ann", "truth"]
    study = judged(scores)
    warned = complementarity(study, resamples=50)
    notes = [note.message for note in warned.notes if note.rule == "against-people"]
    assert len(notes) == 1
    assert notes[0].startswith("rank against people: distance;")
    turned = study.describe(raters=pl.DataFrame({"rater": ["dist*"], "higher_is_better": ["false"]}))
    made = complementarity(turned, resamples=50)
    assert "against-people" not in [note.rule for note in made.notes]
    before, after = found(warned), found(made)
    assert after["distance", "human:style"] == pytest.approx(1 - before["distance", "human:style"])
    assert after["distance", "human:style"] < 0.5 < before["distance", "human:style"]


def test_a_twin_is_at_0_and_the_opposite_at_1() -> None:
    scores = small(3, ties=False, missing=False)
    scores["twin", ""] = scores["bleu", ""] * 3 + 1
    scores["opposite", ""] = -scores["bleu", ""]
    for level in LEVELS:
        for rule in RULES:
            made = found(complementarity(judged(scores), level=level, distance=rule, resamples=0))  # type: ignore[arg-type]
            assert (made["bleu", "twin"], made["bleu", "opposite"]) == pytest.approx((0, 1), abs=1e-12)


# --- clusters, weights, people -------------------------------------------------------------------------------------


def test_clusters_are_resampled_whole() -> None:
    # Every item five times within a document: five times the rows, no more knowledge.
    scores = small(2, items=12)
    copied = {key: np.repeat(values, 5, axis=0) for key, values in scores.items()}
    documents = pl.DataFrame({"item": [f"i{i:03}" for i in range(60)], "cluster": [f"d{i // 5:02}" for i in range(60)]})
    plain = complementarity(judged(scores), resamples=200)
    clustered = complementarity(judged(copied).describe(items=documents), resamples=200)
    loose = complementarity(judged(copied), resamples=200)
    same(clustered, plain)
    widths = [
        made.averages["complementarity_high"] - made.averages["complementarity_low"] for made in (loose, clustered)
    ]
    np.testing.assert_allclose(*widths, rtol=0.2)  # copies are found where no document is declared


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
    made = complementarity(judged(scores), people="annotators", resamples=0)
    assert [n for n in made.raters["rater"] if n.startswith(("ann", "bob"))] == ["ann:style", "bob:style", "ann:truth"]
    expected = np.nanmean(
        [by_definition(x, y, "tau-b") for x, y in zip(scores["ann", "style"], scores["bob", "style"], strict=True)]
    )
    assert found(made)["ann:style", "bob:style"] == pytest.approx(expected)
    assert made.averages["pairs"].to_list() == [3, 12, 6]
    together = complementarity(judged(scores), aspect="style", resamples=0)
    told = [note.message for note in together.notes if note.rule == "no-pairs"]
    assert told == ["no two raters to compare for human-human; people='annotators' compares people one by one"]
    assert made.provenance.options["people"] == "annotators"


# --- who has no ranking --------------------------------------------------------------------------------------------


def noted(made: Complementarity, rule: str) -> list[str]:
    return [note.message for note in made.notes if note.rule == rule]


def test_one_of_each_kind_has_one_distance_and_no_map() -> None:
    scores = {key: values for key, values in small(1).items() if key in (("ann", "style"), ("bleu", ""))}
    made = complementarity(judged(scores), resamples=20)
    assert made.averages["complementarity"].is_null().to_list() == [True, False, True]
    assert made.averages["pairs"].to_list() == [0, 1, 0]
    told = noted(made, "no-pairs")
    assert told == ["no two raters to compare for human-human, metric-metric"]
    assert made.gaps["difference"].null_count() == 3
    whole = complementarity(judged(small(1)), resamples=20)
    for name in ("components", "coordinates", "clusters", "summary"):
        assert made.to_frame(name).height == (name in ("components", "summary")), name
        assert made.to_frame(name).schema == whole.to_frame(name).schema, name


def test_few_clusters_are_noted_where_there_are_intervals() -> None:
    told = noted(complementarity(judged(small(1, items=11)), resamples=20), "few-clusters")
    (message,) = told
    assert message.startswith("11 clusters of items: intervals are unreliable")
    assert not noted(complementarity(judged(small(1, items=12)), resamples=20), "few-clusters")
    assert not noted(complementarity(judged(small(1)), resamples=0), "few-clusters")


def test_mixed_pairs_of_people_are_noted() -> None:
    scores = small(6)
    scores["bob", "style"] = drawn(1, 7, 5).round()
    told = noted(complementarity(judged(scores), people="annotators", resamples=0), "mixed-human-pairs")
    assert len(told) == 1
    assert told[0].startswith("human-human averages pairs of two people on one aspect")
    assert not noted(complementarity(judged(scores), resamples=0), "mixed-human-pairs")
    one = complementarity(judged(scores), people="annotators", aspect="style", resamples=0)
    assert not noted(one, "mixed-human-pairs")
    assert not noted(complementarity(judged(small(6)), people="annotators", resamples=0), "mixed-human-pairs")


def test_nobody_with_a_ranking_is_refused() -> None:
    scores = {key: values * 0 + 1 for key, values in small(1).items()}
    with pytest.raises(InputError, match="^small: no two raters rank two outputs in common; is every rater constant"):
        complementarity(judged(scores))


def test_one_cluster_answers_without_intervals() -> None:
    items = pl.DataFrame({"item": [f"i{i:03}" for i in range(7)], "cluster": ["d"] * 7})
    made = complementarity(judged(small(1)).describe(items=items))
    assert made.averages["complementarity"].null_count() == 0
    assert made.averages["complementarity_low"].null_count() == 3
    assert "one-item" in [note.rule for note in made.notes]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"level": "systems"}, "level='systems'; allowed: system, utterance .did you mean 'system'"),
        ({"distance": "taub"}, "distance='taub'; allowed: tau-b, strict, half, ordinal .did you mean 'tau-b'"),
        ({"people": "aspect"}, "people='aspect'.*did you mean 'aspects'"),
        ({"confidence": 95}, "confidence=95"),
        ({"resamples": -1}, "resamples=-1"),
        ({"metrics": "blue"}, "did you mean 'bleu'"),
        ({"aspect": "stile"}, "did you mean 'style'"),
        ({"systems": "A"}, "only 1 system"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionError, InputError), match=message):
        complementarity(judged(small(1)), **asked)


# --- the space of raters -------------------------------------------------------------------------------------------


# --- the same answer -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_same_seed_same_answer_whatever_the_order_of_items(level: Any) -> None:
    rows = rows_of(small(1))
    one = complementarity(study_from(rows), level=level, resamples=30, rng=3)
    # The raters stay in their order, their items do not.
    raters = [rows.filter(pl.col("rater") == r, pl.col("aspect") == a) for r, a in NAMES]
    other = complementarity(
        study_from(pl.concat([own.sample(fraction=1, shuffle=True, seed=k) for k, own in enumerate(raters)])),
        level=level,
        resamples=30,
        rng=3,
    )
    for name, table in one.tables().items():
        assert table.equals(other.to_frame(name)), name
    again = complementarity(study_from(rows), level=level, resamples=30, rng=3)
    assert again.to_dict() == one.to_dict()
    assert complementarity(study_from(rows), level=level, resamples=30, rng=4).to_dict() != one.to_dict()


def test_the_demo_is_answered_as_documented() -> None:
    made = cu.complementarity(cu.read("demo"), resamples=20)
    rows = dict(made.raters.select("rater", "with_humans").rows())
    assert min(rows, key=rows.__getitem__) == "learned"
    assert rows["noise"] == max(rows.values()) > 0.45
