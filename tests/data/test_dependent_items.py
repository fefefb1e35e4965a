"""Annotators of different items who prefer different systems: the items of an annotator are a cluster."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.dependent_items import (
    CLEAR,
    LEVEL,
    dependent_items,
    items_by_annotator,
    merge_clusters,
    repeated_items,
)
from custodes.data.items import Items
from custodes.data.notes import Note
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study


def assigned(
    seed: int,
    *,
    annotators: int = 5,
    taste: float = 0.0,
    items: int = 100,
    systems: int = 5,
    per_item: int = 1,
    effect: float = 0.0,
    verdicts: bool = False,
) -> Study:
    """Return a study whose items are rated from 1 to 5 by randomly assigned annotators, each with a taste per system;
    S0 is better by `effect` than the other systems, which are equal."""
    rng = np.random.default_rng(seed)
    tastes = rng.normal(0, taste, (annotators, systems))
    quality = np.zeros(systems)
    quality[0] = effect
    rows, pairs = [], []
    for item in range(items):
        outputs = quality + rng.normal(0, 1) + rng.normal(0, 0.5, systems)
        for who in rng.permutation(annotators)[:per_item]:
            scores = np.clip(np.round(3 + outputs + tastes[who] + rng.normal(0, 1, systems)), 1, 5)
            rows += [(f"i{item}", f"S{k}", f"a{who}", score) for k, score in enumerate(scores)]
            pairs += verdicts * [
                (f"i{item}", f"S{a}", f"S{b}", f"a{who}", "human", int(np.sign(scores[a] - scores[b])))
                for a in range(systems)
                for b in range(a + 1, systems)
            ]
    if verdicts:
        schema = ["item", "system_a", "system_b", "rater", "kind", "preference"]
        return cu.read(pl.DataFrame(pairs, schema=schema, orient="row"))
    table = pl.DataFrame(rows, schema=["item", "system", "rater", "score"], orient="row")
    kinds = dict.fromkeys(table["rater"].unique().sort(), "human")
    return Study(ratings=Ratings.make(table)[0], raters=Raters.infer(kinds))


def p_value(study: Study) -> float:
    return items_by_annotator(study, study.humans, [])[1]


@pytest.mark.parametrize("verdicts", [False, True])
def test_items_of_annotators_with_tastes_are_resampled_together(verdicts: bool) -> None:
    study = assigned(0, taste=1.0, verdicts=verdicts)
    board = cu.leaderboard(study, resamples=200)
    message = next(note.message for note in board.notes if note.rule == "annotators-differ")
    assert re.sub("p = [0-9.e-]+", "p", message) == (
        "most items were rated by only one of 5 annotators, and the annotators differ in their preferences among "
        "systems (permutation test, p). Items of one annotator are resampled as one cluster, so results generalise to "
        "further annotators. More annotators make the intervals narrower; more items have little effect"
    )
    summary = cu.check(study).summary
    assert summary["clusters"][0] == 5
    rules = dict(cu.check(study).problems.select("rule", "severity").rows())
    assert rules["annotators-differ"] == "warning"


@pytest.mark.parametrize(("cluster_noun", "taste", "effect"), [("annotator", 0.35, "2.1"), ("cluster", 1.0, "")])
def test_the_verdict_names_the_design_effect(cluster_noun: str, taste: float, effect: str) -> None:
    human_rows = assigned(0, taste=taste).ratings.frame
    rows = pl.concat([human_rows, human_rows.with_columns(rater=pl.lit("m"))])
    kinds = dict.fromkeys(human_rows["rater"].unique().sort(), "human")
    study = Study(ratings=Ratings(frame=rows), raters=Raters.infer({**kinds, "m": "metric"}))
    if cluster_noun != "annotator":  # one declared cluster has items of two annotators
        clusters = human_rows.unique("item", maintain_order=True).select("item", cluster="rater")
        study = study.describe(items=clusters.with_columns(pl.col("cluster").replace({"a4": "a3"})))
    texts = cu.verdict(study, resamples=20).verdict.filter(kind="design")["text"]
    beginning = (
        "Items of one cluster (such as a document or an annotator) may be correlated: the estimated variance of human "
        f"margins is {effect}"
    )
    (text,) = [text for text in texts if text.startswith(beginning)]
    assert text.endswith(
        " times the variance with independent items. Tests and intervals account for this correlation."
    )


def test_results_of_two_annotators_hold_for_these() -> None:
    three = assigned(0, annotators=3, taste=1.0)
    groups, _, n_annotators = items_by_annotator(three, three.humans, [])
    assert len(groups) == n_annotators == 3
    study = assigned(0, annotators=2, taste=1.0)
    assert items_by_annotator(study, study.humans, [])[0] == []
    assert cu.check(study).summary["clusters"][0] == 100
    message = next(
        note.message for note in cu.leaderboard(study, resamples=20).notes if note.rule == "annotators-differ"
    )
    assert message.endswith(
        "Results describe only these annotators; results about annotators in general need at least 3 annotators"
    )


def test_who_rates_the_same_items_is_no_cluster() -> None:
    study = assigned(0, taste=1.0, per_item=3)
    assert not items_by_annotator(study, study.humans, [])[0]
    assert cu.check(study).summary["clusters"][0] == 100


@pytest.mark.parametrize(("n_items", "n_groups"), [(10, 5), (50, 5), (51, 0)])
def test_a_few_items_of_two_annotators_change_nothing(n_items: int, n_groups: int) -> None:
    both = assigned(1, taste=1.0).ratings.frame
    again = both.filter(pl.col("item").is_in([f"i{k}" for k in range(n_items)])).with_columns(
        rater=pl.when(pl.col("rater") == "a0").then(pl.lit("a1")).otherwise(pl.lit("a0"))
    )
    study = assigned(1, taste=1.0)
    frame = pl.concat([both, again]).unique(["item", "system", "rater"], maintain_order=True)
    study = Study(ratings=Ratings(frame=frame), raters=study.raters)
    assert len(items_by_annotator(study, study.humans, [])[0]) == n_groups


def test_declared_clusters_of_several_annotators_stay() -> None:
    study = assigned(0, taste=1.0)
    items = pl.DataFrame({"item": [f"i{k}" for k in range(100)], "cluster": [f"d{k // 10}" for k in range(100)]})
    assert cu.check(study.describe(items=items)).summary["clusters"][0] == 10


def test_one_annotator_and_one_item_each_have_no_test() -> None:
    assert np.isnan(p_value(assigned(0, annotators=1, taste=1.0)))
    frame = assigned(0, annotators=1, items=30).ratings.frame.with_columns(rater=pl.format("a{}", "item"))
    names = dict.fromkeys(frame["rater"].unique().sort(), "human")
    assert np.isnan(p_value(Study(ratings=Ratings(frame=frame), raters=Raters.infer(names))))


def test_the_level_of_the_test_is_held() -> None:
    p_values = np.nan_to_num([p_value(assigned(seed, annotators=8, items=50)) for seed in range(200, 250)], nan=1.0)
    # 50 studies: at most 21 with 12.5 expected, and 4 with 1 expected (binomial probability below .005 each)
    assert (p_values <= LEVEL).sum() <= 21
    assert (p_values <= CLEAR).sum() <= 4


def decided(study: Study, seed: int) -> bool:
    pairs = cu.leaderboard(study, resamples=500, rng=seed).pairs.filter(rater="human")
    return bool((pairs["decision"] != "=").any())


@pytest.mark.slow
@pytest.mark.parametrize(("annotators", "taste"), [(5, 0.3), (5, 1.0), (10, 0.3), (10, 1.0), (20, 1.0)])
def test_equal_systems_are_not_behind(annotators: int, taste: float) -> None:
    wrong = sum(decided(assigned(seed, annotators=annotators, taste=taste), seed) for seed in range(200))
    assert wrong <= 20  # .06 of 200 plus two standard errors


def test_a_declared_cluster_of_items_of_two_annotators_leaves_the_clusters_as_they_are() -> None:
    study = assigned(0, taste=1.0)
    first = dict(study.ratings.frame.select("item", "rater").iter_rows())
    second_item = next(item for item, rater in first.items() if rater != first["i0"])
    assert p_value(study) < LEVEL
    items = pl.DataFrame({"item": ["i0", second_item], "cluster": ["c", "c"]})
    assert np.isnan(p_value(study.describe(items=items)))


RNG = np.random.default_rng(0)
FINE = RNG.random((21, 6))  # six different scores of each item
COARSE = np.where(np.arange(6) == 1, FINE[:, :1], FINE)  # five
BITS = np.array([[item >> cell & 1 for cell in range(6)] for item in range(21)], dtype=float)
TENS = np.array([[item // 10, item % 10, 5] for item in range(21)], dtype=float)


def changed(row: np.ndarray, n_cells: int) -> np.ndarray:
    return np.where(np.arange(len(row)) < n_cells, row + 1, row)


@pytest.mark.parametrize(
    ("scores", "groups"),
    [
        # a copy counts among enough different items
        ([*FINE[:10], FINE[0]], ["0 10"]),
        ([*FINE[:9], FINE[0]], []),
        ([*COARSE[:20], COARSE[0]], ["0 20"]),
        ([*COARSE[:19], COARSE[0]], []),
        # not with few or constant scores
        ([*COARSE[:20, 1:], COARSE[0, 1:]], []),
        ([*FINE[:20], *np.ones((2, 6))], []),
        # unless nearly equal items are as frequent
        ([*FINE[:10], FINE[0], changed(FINE[0], 3)], []),
        ([*FINE[:10], FINE[0], FINE[0, :4]], []),
        ([*FINE[:10], FINE[0], changed(FINE[0], 4)], ["0 10"]),
        ([*FINE[:10], FINE[0], FINE[0], changed(FINE[0], 3)], ["0 10 11"]),
        # every item stands equally often
        ([*BITS[:20], *BITS[:20]], [f"{k} {k + 20}" for k in range(20)]),
        ([*BITS[:19], *BITS[:19]], []),
        ([*BITS[:20], *BITS[:20], BITS[20]], []),
        ([*BITS[:20], *BITS[:20], *BITS[[0, 0]]], ["0 40", "20 41", *(f"{k} {k + 20}" for k in range(1, 20))]),
        ([*TENS, *TENS], [f"{k} {k + 21}" for k in range(21)]),
        ([*TENS[:, :2], *TENS[:, :2]], []),
    ],
)
def test_equal_scores_count_if_a_coincidence_is_unlikely(scores: list[np.ndarray], groups: list[str]) -> None:
    rows = [(f"{item}", f"{system}", "m", score) for item, row in enumerate(scores) for system, score in enumerate(row)]
    table = pl.DataFrame(rows, schema=["item", "system", "rater", "score"], orient="row")
    study = Study(ratings=Ratings.make(table)[0], raters=Raters.infer({"m": "metric"}))
    expected = [tuple(group.split()) for group in groups]
    assert repeated_items(study, []) == expected
    assert repeated_items(study, ["m"]) == expected
    items = pl.DataFrame({"item": [f"{k}" for k in range(len(scores))], "cluster": "c"})
    assert repeated_items(study.describe(items=items), []) == []
    unique = pl.concat([table, table.unique("item").with_columns(rater=pl.lit("a"), score=pl.col("item").cast(float))])
    raters = Raters.infer({"m": "metric", "a": "human"})
    by_metric = repeated_items(Study(ratings=Ratings.make(unique)[0], raters=raters), ["a"])
    assert by_metric == ([] if len(groups) > 1 else expected)


def test_equal_texts_count_if_two_systems_gave_them_and_the_source_is_equal_or_the_texts_are_long() -> None:
    rows = [
        (item, system, f"{text}{system}", source)
        for items, text, source in (
            *(
                ("abijk", "yes", "q"),
                ("cd", "x" * 48, ""),
                ("ef", "x" * 49, ""),
            ),  # 98 and 100 characters of two systems
            *(("lmno", "yes", "r"), ("pq", "no", "q"), ("r", "no", "s")),
        )
        for item in items
        for system in "AB"
    ]
    rows += [(item, "A", "word " * 24, "s") for item in "gh"]  # one output each
    study = cu.read(pl.DataFrame(rows, schema=["item", "system", "text", "source"], orient="row"))
    groups, notes = dependent_items(study, [])
    assert groups == [tuple(items) for items in ("abijk", "ef", "lmno", "pq")]
    message = (
        "9 items repeat another item under a different name, with equal texts or scores (a = b = i = j = ..., e = f, "
        "l = m = n = o and 1 more). Each group of equal items is resampled as one cluster, but estimates count each "
        "item of the group; keep one item of each group"
    )
    assert notes == [Note(rule="repeated-items", message=message, count=9)]


@pytest.mark.parametrize("seed", range(5))
def test_clusters_of_grouped_items_are_connected_components(seed: int) -> None:
    networkx = pytest.importorskip("networkx")
    rng = np.random.default_rng(seed)
    groups = [tuple(f"i{item}" for item in rng.choice(12, 3, replace=False)) for _ in range(3)]
    declared = {f"i{item}": f"c{item // 2}" if item < 6 else "" for item in range(9)}
    items, _ = Items.make(pl.DataFrame({"item": list(declared), "cluster": list(declared.values())}))
    rows = merge_clusters(items, groups).select("item", "cluster").rows()
    assert [item for item, _ in rows] == list(dict.fromkeys([*declared, *(item for group in groups for item in group)]))
    graph = networkx.Graph([(group[0], item) for group in groups for item in group])
    graph.add_edges_from((item, cluster) for item, cluster in declared.items() if cluster)
    graph.add_nodes_from(item for item, _ in rows)
    components = {item: k for k, part in enumerate(networkx.connected_components(graph)) for item in part}
    cluster_of = {item: cluster or item for item, cluster in rows}
    for one, cluster in cluster_of.items():
        for other in cluster_of:
            assert (cluster == cluster_of[other]) == (components[one] == components[other])


def test_many_groups_with_a_common_item_are_one_cluster() -> None:
    numbers = range(1, 20_001)
    items, _ = Items.make(pl.DataFrame({"item": [f"i{k}" for k in (0, *numbers)]}))
    # takes minutes if each group copies the cluster so far
    for groups in ([("i0", f"i{k}") for k in numbers], [(f"i{k - 1}", f"i{k}") for k in numbers]):
        assert merge_clusters(items, groups)["cluster"].unique().to_list() == ["i0"]
