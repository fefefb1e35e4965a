"""Conditions of adjustments and corrections by their definitions, and cycles of direct comparisons."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2, norm

import custodes as cu
from custodes.data.comparisons import Comparisons
from custodes.data.joining import join
from custodes.evaluate.leaderboard.bradley_terry import (
    match_comparisons,
    order_matters,
    sampling_mismatch,
    unbalanced_order,
)
from custodes.stats import ABSENT
from tests.evaluate.leaderboard.boards import QUICK, battles, by, of


def test_the_order_matters_if_a_tenth_is_known_and_a_pair_was_shown_in_both_orders() -> None:
    pairs, orders = np.zeros(20, dtype=int), np.array([1.0, -1.0] + [0.0] * 18)
    assert order_matters(pairs, orders)
    assert not order_matters(np.append(pairs, 0), np.append(orders, 0.0))
    assert not order_matters(pairs, np.abs(orders))
    assert not order_matters(np.arange(20), orders)
    assert not order_matters(pairs, orders / 2)  # means over both orders are not known orders
    assert not order_matters(pairs, np.zeros(20))
    for n_unknown, known in ((18, True), (19, False)):
        assert order_matters(np.zeros(3, dtype=int), orders[:3], np.array([1, 1, n_unknown])) is known


def test_orders_are_unbalanced_by_a_chi_squared_test_over_clusters() -> None:
    found = []
    expected = (
        "annotators saw one system of a pair first more often than the other system, and the metric saw outputs in "
        "other orders than the annotators. The effect of the order can therefore neither be adjusted for nor averaged "
        "out"
    )
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(10, 60))
        pairs, clusters = rng.integers(1 + seed % 4, size=n) * 3, rng.integers(2 + n // (1 + seed % 3), size=n) + 5
        orders = rng.choice([1.0, -1.0, 0.0, 0.5], n, p=[0.65, 0.15, 0.1, 0.1])
        statistic, freedom = 0.0, 0
        for pair in set(pairs[np.abs(orders) == 1]):
            part = (pairs == pair) & (np.abs(orders) == 1)
            sums = [orders[part & (clusters == cluster)].sum() for cluster in set(clusters[part])]
            statistic += sum(sums) ** 2 / max(sum(value**2 for value in sums), part.sum())
            freedom += 1
        found.append(chi2.sf(statistic, freedom) < 0.01)
        message = unbalanced_order(orders, pairs, clusters)
        assert message == (expected if found[-1] else ""), seed
    assert 10 < sum(found) < 50
    assert unbalanced_order(np.zeros(9), np.zeros(9, dtype=int), np.arange(9)) == ""


def test_numbers_of_annotated_items_have_the_larger_of_two_standard_errors() -> None:
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n_items = int(rng.integers(20, 60))
        cluster_of_item = rng.integers(3 + n_items // (1 + seed % 3), size=n_items)
        probability, annotated = rng.uniform(0.1, 0.9, n_items), rng.random(n_items) < rng.choice([0.5, 0.7])
        item_codes = np.append(np.arange(1, n_items), rng.integers(1, n_items, size=30))  # item 0 has no row
        is_labelled = annotated[item_codes] & (np.arange(len(item_codes)) < n_items - 1)
        surplus = annotated[1:] - probability[1:]
        by_cluster = [surplus[cluster_of_item[1:] == cluster].sum() for cluster in set(cluster_of_item[1:])]
        variance = max((probability[1:] * (1 - probability[1:])).sum(), np.square(by_cluster).sum())
        found.append(2 * norm.sf(abs(surplus.sum()) / np.sqrt(variance)) < 0.01)
        message = sampling_mismatch(
            probability[item_codes], is_labelled, item_codes=item_codes, cluster_of_item=cluster_of_item
        )
        expected = (
            f"annotators rated {annotated[1:].sum()} of {n_items - 1} items, but the probabilities in the items table "
            f"add up to {probability[1:].sum():.3g}"
        )
        assert message == (expected if found[-1] else ""), seed
    assert 4 < sum(found) < 50
    certain = {"item_codes": np.arange(4), "cluster_of_item": np.arange(4)}
    assert sampling_mismatch(np.ones(4), np.ones(4, dtype=bool), **certain) == ""


def test_comparisons_of_a_metric_are_matched_with_those_of_annotators() -> None:
    rng = np.random.default_rng(0)
    metric_signs, human_signs = (rng.choice([1, 0, -1, ABSENT], (3, 1, 12)).astype(np.int8) for _ in range(2))
    names = {"items": [f"i{k}" for k in range(12)], "systems": "ABC"}
    human, metric = (
        Comparisons.from_signs(signs, raters=[name], **names)
        for signs, name in ((human_signs, "human"), (metric_signs, "m"))
    )
    rows, matched = match_comparisons(human, metric)
    both = (human_signs != ABSENT)[:, 0][(metric_signs != ABSENT)[:, 0]]
    assert matched.tolist() == both.tolist()
    expected = human_signs[:, 0][(metric_signs != ABSENT)[:, 0]][both]
    assert human.sign[rows[matched]].tolist() == expected.tolist()


@pytest.mark.parametrize(("cycle", "numbers"), [("ABC", (150, 168, 176)), ("ACB", (168, 150, 176))])
def test_a_cycle_has_its_smallest_win_rate_and_largest_p_value(cycle: str, numbers: tuple[int, int, int]) -> None:
    wins = dict(zip(pairwise([*cycle, "A"]), numbers, strict=True))
    rows = [
        (f"{a}{b}{item}", a, b, 1 if item < won else -1)
        for (a, b), won in ({**wins, **{(s, "D"): 195 for s in "ABC"}}).items()
        for item in range(200)
    ]
    frame = pl.DataFrame(rows, schema=["item", "system_a", "system_b", "preference"], orient="row")
    board = cu.leaderboard(cu.read(by(frame, "ann", "human")), **QUICK)
    (row,) = board.cycles.to_dicts()
    assert (row["cycle"], row["win_rate"]) == (" > ".join([*cycle, "A"]), 0.75)
    p_direct = {frozenset(pair[:2]): pair[2] for pair in board.pairs.select("system_a", "system_b", "p_direct").rows()}
    assert row["p_direct"] == max(p_direct[frozenset(pair)] for pair in wins) > 0
    (message,) = [note.message for note in board.notes if note.rule == "cycle"]
    beats = ", ".join(f"{a} beats {b}" for a, b in wins)
    assert message == (
        f"human: {beats} (each significantly, with at least 75% of the points), so no ranking describes these systems; "
        "read the table pairs instead of the strengths"
    )


def test_a_covariate_that_varies_only_for_the_metric_is_noted() -> None:
    rng = np.random.default_rng(0)
    table = battles(rng, n=200, ties=0).drop("order")
    outputs = [(i, s) for i, a, b in table.select("item", "system_a", "system_b").rows() for s in (a, b)]
    scores = pl.DataFrame(outputs, schema=["item", "system"], orient="row").with_columns(
        rater=pl.lit("words"),
        kind=pl.lit("metric"),
        score=pl.when(pl.col("item") < 100).then(0.0).otherwise(pl.Series(rng.normal(size=len(outputs)))),
    )
    by_raters = pl.concat([by(table.head(100), "ann", "human"), by(table, "judge", "metric")])
    board = cu.leaderboard(join([cu.read(by_raters), cu.read(scores)]), covariates="words", human="ann", resamples=0)
    assert [note.message for note in board.notes if note.rule == "unvaried"] == [
        "human: words does not vary within systems, so strengths are not adjusted for words"
    ]
    assert set(board.effects["rater"]) == {"judge"}


def test_comparisons_without_a_covariate_are_left_out_and_counted() -> None:
    rng = np.random.default_rng(4)
    table = battles(rng, n=300, ties=0).drop("order")
    outputs = [(i, s) for i, a, b in table.select("item", "system_a", "system_b").rows() for s in (a, b)]
    scores = pl.DataFrame(outputs[37:], schema=["item", "system"], orient="row").with_columns(
        rater=pl.lit("words"), kind=pl.lit("metric"), score=pl.Series(rng.normal(size=len(outputs) - 37))
    )
    study = join([cu.read(by(table, "ann", "human")), cu.read(scores)])
    board = cu.leaderboard(study, covariates="words", human="ann", resamples=0)
    (message,) = [note.message for note in board.notes if note.rule == "no-covariate"]
    assert message == "human: 19 comparisons are excluded, because the value of a covariate is missing"
    assert board.pairs.filter(rater="human").select(pl.sum_horizontal("wins", "ties", "losses")).sum().item() == 281
    assert sum(row["battles"] for row in of(board).values()) == 2 * 281
