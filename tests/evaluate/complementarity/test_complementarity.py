"""Complementarity: every number against its definition by brute force, its symmetries, and who has no ranking."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.evaluate.complementarity.complementarity import Complementarity, complementarity
from custodes.stats.complementarity.communities import communities
from custodes.stats.complementarity.rank_distance import RULES
from custodes.stats.resampling.resample import bootstrap_weights
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
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ragged", [False, True])
def test_every_average_against_scipy_and_the_definition(rule: str, level: str, ragged: bool) -> None:
    scores = small(3 + ragged, missing=ragged)
    made = complementarity(judged(scores), distance=rule, level=level, resamples=0)  # type: ignore[arg-type]
    expected = distances_by_definition(scores, rule, level)
    mean = {pair: np.nanmean(own) for pair, own in expected.items()}
    for row in made.pairs.iter_rows(named=True):
        pair = row["rater_a"], row["rater_b"]
        assert row["complementarity"] == pytest.approx(mean[pair], abs=1e-12)
        assert row["n"] == np.isfinite(expected[pair]).sum()
        assert f"{row['kind_a']}-{row['kind_b']}" == kinds(*pair)
        assert row["complementarity_low"] is row["complementarity_high"] is None
    assert made.pairs.height == len(mean) == 15
    average = {}
    for row in made.averages.iter_rows(named=True):
        own = [value for pair, value in mean.items() if kinds(*pair) == row["kinds"]]
        assert row["complementarity"] == pytest.approx(np.mean(own), abs=1e-12)
        assert row["pairs"] == len(own)
        average[row["kinds"]] = row["complementarity"]
    for row in made.gaps.iter_rows(named=True):
        assert row["difference"] == pytest.approx(average[row["kinds_a"]] - average[row["kinds_b"]], abs=1e-12)
    for row in made.raters.iter_rows(named=True):  # equation 4: the mean over the others of that kind
        for column, kind in (("with_humans", "human"), ("with_metrics", "metric")):
            others = [n for n in NAMES.values() if n != row["rater"] and n.startswith("human") == (kind == "human")]
            own = [mean[pair] for pair in mean if row["rater"] in pair and (set(pair) - {row["rater"]}) & set(others)]
            assert len(own) == len(others)
            assert row[column] == pytest.approx(np.mean(own), abs=1e-12)
    lost = sum(np.isnan(own).sum() for own in expected.values())
    assert [note.count for note in made.notes if note.rule == "undefined-distances"] == ([lost] if lost else [])


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


def test_intervals_at_the_system_level_are_those_of_a_brute_force_bootstrap() -> None:
    scores = small(7, items=12)
    documents = np.arange(12) // 2
    items = pl.DataFrame({"item": [f"i{i:03}" for i in range(12)], "cluster": [f"d{d}" for d in documents]})
    for clusters in (documents, np.arange(12)):
        study = judged(scores)
        study = study.describe(items=items) if clusters is documents else study
        made = complementarity(study, resamples=200, confidence=0.9, rng=4)
        weights = bootstrap_weights(clusters.max() + 1, 200, np.random.default_rng(4))
        distances = distances_by_definition(scores, "tau-b", "system")
        drawn = {
            pair: np.array([np.nanmean(np.repeat(own, w[clusters].astype(int))) for w in weights])
            for pair, own in distances.items()
        }
        for row in made.pairs.iter_rows(named=True):
            ends = np.nanquantile(drawn[row["rater_a"], row["rater_b"]], [0.05, 0.95])
            np.testing.assert_allclose([row["complementarity_low"], row["complementarity_high"]], ends, atol=1e-12)
        average = {
            kind: np.nanmean([draws for pair, draws in drawn.items() if kinds(*pair) == kind], axis=0)
            for kind in made.averages["kinds"]
        }
        for row in made.averages.iter_rows(named=True):
            ends = np.nanquantile(average[row["kinds"]], [0.05, 0.95])
            np.testing.assert_allclose([row["complementarity_low"], row["complementarity_high"]], ends, atol=1e-12)
        for row in made.gaps.iter_rows(named=True):
            ends = np.nanquantile(average[row["kinds_a"]] - average[row["kinds_b"]], [0.05, 0.95])
            np.testing.assert_allclose([row["difference_low"], row["difference_high"]], ends, atol=1e-12)
        bleu = made.raters.row(by_predicate=pl.col("rater") == "bleu", named=True)
        own = np.nanmean([draws for pair, draws in drawn.items() if "bleu" in pair and pair[0][:5] == "human"], axis=0)
        ends = np.nanquantile(own, [0.05, 0.95])
        np.testing.assert_allclose([bleu["with_humans_low"], bleu["with_humans_high"]], ends, atol=1e-12)


@pytest.mark.parametrize("rule", ["tau-b", "strict"])
def test_intervals_at_the_utterance_level_are_close_to_those_of_resampled_items(rule: str) -> None:
    # The influence of each item stands for the resample: exact to first order only.
    scores = small(8, items=60, systems=3, ties=rule == "tau-b")
    scores = {key: scores[key] for key in (("ann", "style"), ("bleu", ""), ("judge", "style"))}
    made = complementarity(judged(scores), level="utterance", distance=rule, resamples=200, rng=1)  # type: ignore[arg-type]
    weights = bootstrap_weights(60, 200, np.random.default_rng(1)).astype(int)
    for a, b in combinations(scores, 2):

        def resampled(w: np.ndarray, a: Any = a, b: Any = b) -> float:
            own = zip(np.repeat(scores[a], w, axis=0).T, np.repeat(scores[b], w, axis=0).T, strict=True)
            if rule == "tau-b":
                return float(np.mean([by_definition(x, y, rule) for x, y in own]))
            # A copy of an item against itself is no pair.
            told = [by_definition_between_items(x, y, np.repeat(np.arange(60), w)) for x, y in own]
            return float(np.mean(told))

        draws = np.array([resampled(w) for w in weights])
        row = made.pairs.row(by_predicate=(pl.col("rater_a") == NAMES[a]) & (pl.col("rater_b") == NAMES[b]), named=True)
        assert row["complementarity"] == pytest.approx(resampled(np.ones(60, dtype=int)), abs=1e-12)
        low, high = np.quantile(draws, [0.025, 0.975])
        assert row["complementarity_low"] == pytest.approx(low, abs=0.1 * (high - low))
        assert row["complementarity_high"] == pytest.approx(high, abs=0.1 * (high - low))
        assert row["complementarity_low"] < row["complementarity"] < row["complementarity_high"]


def by_definition_between_items(x: np.ndarray, y: np.ndarray, item: np.ndarray) -> float:
    both = np.isfinite(x) & np.isfinite(y)
    x, y, item = x[both], y[both], item[both]
    other = item[:, None] != item
    against = np.sign(x[:, None] - x) * np.sign(y[:, None] - y) < 0
    return float(against[other].mean())


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
    ask: dict[str, Any] = {"level": level, "distance": rule, "resamples": 10}
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
    assert (widths[0] < 0.7 * widths[1]).all()


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


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("level", LEVELS)
def test_a_rater_that_ranks_nothing_is_null_named_and_outside_every_average(rule: Any, level: Any) -> None:
    scores = small(9)
    by_item, by_system = np.arange(7.0)[:, None] + np.zeros((7, 5)), np.zeros((7, 1)) + np.arange(5.0)
    stuck = by_item if level == "system" else by_system
    more = {**scores, ("flat", ""): np.full((7, 5), 3.0), ("stuck", ""): stuck}
    made = complementarity(judged(more), distance=rule, level=level, resamples=30)
    without = complementarity(judged(scores), distance=rule, level=level, resamples=30)
    idle = pl.col("rater_a").is_in(["flat", "stuck"]) | pl.col("rater_b").is_in(["flat", "stuck"])
    null = made.pairs.filter(idle)
    assert null.height == 6 + 6 + 1
    told = null.select("complementarity", "complementarity_low", "complementarity_high")
    assert told.null_count().row(0) == (13, 13, 13)
    assert null["n"].sum() == 0
    assert made.pairs.filter(~idle).equals(without.pairs)
    for name in ("averages", "gaps", "rules", "components", "coordinates", "clusters"):
        assert_frame_equal(made.to_frame(name), without.to_frame(name), abs_tol=1e-12)
    row = made.raters.row(by_predicate=pl.col("rater") == "stuck", named=True)
    assert row["with_humans"] is row["with_metrics"] is row["position"] is None
    what = "systems of an item" if level == "system" else "items of a system"
    assert dict(made.left_out.rows()) == {"flat": "constant: it ranks nothing", "stuck": f"never tells {what} apart"}
    told = " ".join(note.message for note in made.notes if note.rule == "constant-rater")
    assert "flat" in told
    assert "stuck" in told


def test_items_where_one_ties_all_are_left_out_and_counted() -> None:
    scores = small(9, missing=False, ties=False)
    scores["bleu", ""][2] = 1.0
    made = complementarity(judged(scores), resamples=0)
    n = made.pairs.select(pl.col("n").filter((pl.col("rater_a") == "bleu") | (pl.col("rater_b") == "bleu")))
    assert n["n"].to_list() == [6] * 5
    note = next(note for note in made.notes if note.rule == "undefined-distances")
    assert note.count == 5
    assert note.message.startswith("5 rankings of pairs of raters left out of the means (tau-b)")


def noted(made: Complementarity, rule: str) -> list[str]:
    return [note.message for note in made.notes if note.rule == rule]


@pytest.mark.parametrize("level", LEVELS)
def test_the_space_is_that_of_what_every_rater_ranked(level: Any) -> None:
    scores = small(9, missing=False)
    lost = np.arange(5) == 2 if level == "system" else np.arange(7)[:, None] == 2
    copied = {**scores, ("partial", ""): np.where(lost, np.nan, scores["bleu", ""])}
    made = complementarity(judged(copied), level=level, resamples=20)
    assert found(made)["bleu", "partial"] == pytest.approx(0)
    assert made.left_out.is_empty()
    what = "4 of 5 systems" if level == "system" else "6 of 7 items"
    assert noted(made, "partial-representation") == [
        f"components and coordinates are about {what}: some rater ranked none of the others"
    ]
    assert made.summary["ranked"].to_list() == [4 if level == "system" else 6]
    place = {name: point for name, *point in made.coordinates.select("rater", "x", "y").rows()}
    assert place["partial"] == pytest.approx(place["bleu"])  # on what both ranked they are one
    assert set(made.clusters["rater"]) == {*NAMES.values(), "partial"}
    # The space is that of a study of these things alone.
    kept = {key: np.delete(values, 2, axis=level == "system") for key, values in copied.items()}
    alone = complementarity(judged(kept), level=level, resamples=0)
    for name in ("explained_variance", "cumulative"):
        np.testing.assert_allclose(made.components[name], alone.components[name])
    np.testing.assert_allclose(made.coordinates.select("x", "y"), alone.coordinates.select("x", "y"), atol=1e-9)
    assert not noted(alone, "partial-representation")


@pytest.mark.parametrize("level", LEVELS)
def test_where_too_little_is_shared_raters_with_gaps_have_no_place(level: Any) -> None:
    scores = small(9, missing=False)
    missed = np.arange(5) > 1 if level == "system" else np.arange(7)[:, None] > 1
    scores["partial", ""] = np.where(missed, np.nan, drawn(1, 7, 5))
    made = complementarity(judged(scores), level=level, resamples=20)
    what = "system" if level == "system" else "item"
    assert dict(made.left_out.rows()) == {"partial": f"did not rate every {what}: in no component or coordinate"}
    assert set(made.coordinates["rater"]) == set(NAMES.values())
    assert set(made.clusters["rater"]) == {*NAMES.values(), "partial"}
    assert made.summary["raters"].to_list() == [6]
    assert not noted(made, "partial-representation")


def disjoint() -> dict[Any, Any]:
    """Eight people who agree, four on each half of the items, and two metrics on all."""
    rng = np.random.default_rng(5)
    quality = rng.normal(size=(40, 6))
    scores = {(f"m{k}", ""): quality + rng.normal(size=quality.shape) for k in range(2)}
    for k in range(8):
        own = quality + 0.7 * rng.normal(size=quality.shape)
        scores[f"h{k}", "x"] = np.where((np.arange(40)[:, None] < 20) == (k % 2 == 0), own, np.nan)
    return scores


def study_of(scores: dict[Any, Any]) -> cu.Study:
    rows = rows_of(scores)
    return cu.read(rows.with_columns(kind=pl.col("rater").str.head(1).replace_strict({"m": "metric", "h": "human"})))


def test_raters_without_a_common_item_are_not_taken_for_opposites() -> None:
    made = complementarity(study_of(disjoint()), people="annotators", resamples=20)
    assert made.pairs["complementarity"].null_count() == 16
    assert noted(made, "unconnected-raters") == [
        "16 pairs of raters ranked nothing in common; for the clusters they are as similar as the average"
    ]
    people = dict(made.clusters.filter(kind="human").select("rater", "cluster").rows())
    halves = [{people[f"h{k}:x"] for k in range(start, 8, 2)} for start in (0, 1)]
    assert halves[0] == halves[1]  # as similar as the average: no reason to part those that agree
    # By definition: Louvain on similarities whose gaps hold the mean of the others.
    names = made.raters["rater"].to_list()
    similarity = np.full((10, 10), np.nan)
    for one, other, value in made.pairs.select("rater_a", "rater_b", "complementarity").rows():
        i, j = names.index(one), names.index(other)
        similarity[i, j] = similarity[j, i] = np.nan if value is None else 1 - value
    mean = np.nanmean(similarity)
    expected = communities(np.where(np.isnan(similarity), mean, similarity), seed=0)
    assert [row + 1 for row in expected.tolist()] == made.clusters["cluster"].to_list()
    assert not noted(complementarity(judged(small(1)), resamples=0), "unconnected-raters")


def test_a_rater_at_no_distance_of_anybody_is_in_no_cluster() -> None:
    scores = small(9, missing=False)
    lonely = np.full((8, 5), np.nan)
    lonely[7] = np.arange(5)
    more = {key: np.vstack([values, np.full((1, 5), np.nan)]) for key, values in scores.items()}
    made = complementarity(judged({**more, ("lonely", ""): lonely}), resamples=10)
    assert dict(made.left_out.rows()) == {"lonely": "ranked nothing that others did: in no cluster"}
    assert set(made.clusters["rater"]) == set(NAMES.values())
    assert not noted(made, "unconnected-raters")


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


def test_three_raters_have_components_but_no_clusters() -> None:
    three = dict(list(small(1).items())[:3])
    made = complementarity(judged(three), resamples=20)
    assert made.coordinates.is_empty()
    assert made.clusters.is_empty()
    summary = made.summary.row(0, named=True)
    assert summary["raters"] == 3
    assert summary["dimension"] is not None
    assert summary["clusters"] is summary["modularity"] is summary["clusters_agreement"] is None
    four = dict(list(small(1).items())[:4])
    made = complementarity(judged(four), resamples=20)
    assert made.coordinates.height == made.clusters.height == 4


def test_clusters_without_components() -> None:
    # Each of four missed another three of five systems: no three that all ranked, nobody who ranked all.
    scores: dict[Any, Any] = {}
    for k, name in enumerate(("ann", "m1", "m2", "m3")):
        seen = np.isin(np.arange(5), [k, (k + 1) % 5, (k + 2) % 5])
        scores[name, ""] = np.where(seen, drawn(k, 20, 5), np.nan)
    made = complementarity(judged(scores), resamples=10)
    assert made.components.is_empty()
    assert made.coordinates.is_empty()
    assert made.clusters.height == 4
    summary = made.summary.row(0, named=True)
    assert summary["raters"] is summary["dimension"] is summary["dimension_null"] is None
    assert summary["level"] == "system"
    assert summary["clusters"] >= 1
    assert made.left_out.height == 4


def test_few_clusters_are_noted_where_there_are_intervals() -> None:
    told = noted(complementarity(judged(small(1, items=29)), resamples=10), "few-clusters")
    assert told == ["29 clusters of items: intervals are rough (percentiles of few clusters are too narrow)"]
    assert not noted(complementarity(judged(small(1, items=30)), resamples=10), "few-clusters")
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


def test_two_families_are_two_clusters_in_one_dimension() -> None:
    rng = np.random.default_rng(0)
    one = rng.normal(size=(30, 6))
    scores: dict[Any, Any] = {("ann", "style"): one + 0.2 * rng.normal(size=one.shape)}
    for k in range(3):
        scores[f"like{k}", ""] = one + 0.2 * rng.normal(size=one.shape)
        scores[f"unlike{k}", ""] = -one + 0.2 * rng.normal(size=one.shape)
    made = complementarity(judged(scores), resamples=20)
    assert dict(made.clusters.select("rater", "cluster").rows()) == {
        "human:style": 1,
        **{f"like{k}": 1 for k in range(3)},
        **{f"unlike{k}": 2 for k in range(3)},
    }
    assert made.clusters["stability"].to_list() == [1.0] * 7
    summary = made.summary.row(0, named=True)
    assert (summary["raters"], summary["rankings"], summary["ranked"]) == (7, 30, 6)
    assert (summary["dimension"], summary["clusters"], summary["clusters_agreement"]) == (1, 2, 1)
    assert summary["dimension_low"] <= summary["dimension"] <= summary["dimension_high"] < summary["dimension_null"]
    assert made.components["explained_variance"].sum() == pytest.approx(1)
    x = dict(made.coordinates.select("rater", "x").rows())
    assert np.sign(x["like0"]) == np.sign(x["human:style"]) == -np.sign(x["unlike0"])
    # The heat map: people first, then metrics, each family together.
    order = made.raters.sort("position")["rater"].to_list()
    assert order[0] == "human:style"
    assert len({name[:4] for name in order[1:4]}) == 1


def test_unrelated_raters_span_as_much_as_chance() -> None:
    scores = {("ann", "style"): drawn(0, 30, 6)} | {(f"m{k}", ""): drawn(k + 1, 30, 6) for k in range(8)}
    summary = complementarity(judged(scores), resamples=0).summary.row(0, named=True)
    assert abs(summary["dimension"] - summary["dimension_null"]) <= 1


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
