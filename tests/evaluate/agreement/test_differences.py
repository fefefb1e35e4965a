from __future__ import annotations

import tracemalloc
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from custodes.data.items import Items
from custodes.evaluate.agreement.agreement import agreement
from custodes.evaluate.agreement.differences import Differences
from custodes.evaluate.check.check import check
from custodes.evaluate.verdict.verdict import verdict
from tests.evaluate.studies import scores_of, study_of


def equal_judges(seed: int, items: int = 100) -> np.ndarray:
    """Return human ratings and two judges with equal noise; outputs of the second half of the items differ little."""
    rng = np.random.default_rng(seed)
    spread = np.repeat([1.5, 0.5], items // 2)[:, None]
    scores = spread * rng.normal(size=(items, 5)) + np.array([0.6, 1.0, 1.0])[:, None, None] * rng.normal(
        size=(3, items, 5)
    )
    scores[0] = np.round(scores[0])
    return scores


def test_a_judge_does_not_win_by_silence_on_the_hard_half() -> None:
    # Version 0.1.0 called the metric with missing scores significantly better in 5 of 5 such studies.
    won = 0
    for seed in range(3):
        scores = equal_judges(seed)
        scores[1, 50:] = np.nan
        study = study_of(scores)
        result = agreement(study, resamples=200, compare_by=("kendall_item",), rng=seed)
        silent, complete = (result.metrics.filter(metric=name).row(0, named=True) for name in ("m1", "m2"))
        assert silent["kendall_item"] > complete["kendall_item"] + 0.05  # Its scored outputs are the easy ones.
        row = result.comparisons.row(0, named=True)
        won += row["p_adjusted"] <= 0.05
        # by definition: both metrics on the first half
        tau = [
            [stats.kendalltau(h, m).statistic for h, m in zip(scores[0], values, strict=True)] for values in scores[1:]
        ]
        half = np.array(tau)[:, :50]
        assert row["difference"] == pytest.approx(np.nanmean(half[0]) - np.nanmean(half[1]))
        assert row["n"] == 50 * 10
        assert {note.rule for note in result.notes} >= {"coverage-differs"}
        first = "m1" if row["difference"] > 0 else "m2"
        assert result.standing["metric"][0] == first
    assert won <= 1
    problems = check(study).problems.filter(rule="coverage-differs").row(0, named=True)
    assert (problems["severity"], problems["examples"]) == ("warning", ["m1"])
    assert "coverage" not in " ".join(check(study_of(equal_judges(0))).problems["rule"])
    lines = verdict(study, resamples=100).verdict
    assert "clearly better" not in " ".join(lines["text"])


def test_a_metric_equal_to_people_on_few_cells_orders_systems_as_they_do() -> None:
    # Version 0.1.0 gave a pairwise accuracy of .84, because human means were over rated cells and metric means over
    # all.
    rng = np.random.default_rng(1)
    scores = scores_of(1, raters=2, items=60, systems=8) + 3 * rng.normal(size=(60, 1))
    scores[1] = scores[0] + rng.normal(size=(60, 8))
    is_rated = rng.random((60, 8)) < 0.2
    scores[1] = np.where(is_rated, scores[0], scores[1])
    scores[0, ~is_rated] = np.nan
    result = agreement(study_of(scores), resamples=50)
    row = result.metrics.row(0, named=True)
    for name in ("pearson_system", "spearman_system", "kendall_system"):
        assert (row[name], row[f"{name}_low"]) == pytest.approx((1, 1)), name
    assert row["pairwise_accuracy"] == 1
    assert 0.9 < row["pairwise_accuracy_low"] < 1  # A proportion has a positive width at 1.
    assert {note.rule for note in result.notes} >= {"system-scores-fitted"}
    assert "different-items" in check(study_of(scores)).problems["rule"]


def test_batches_sorted_by_difficulty_do_not_turn_systems_round() -> None:
    # Annotators rated each system on a separate batch, which it shares with one neighbour; better systems have harder
    # batches. The metric rated all outputs. Version 0.1.0 gave pairwise accuracy 0 and Pearson -.96 without a warning.
    rng = np.random.default_rng(2)
    quality, hard = np.arange(5.0), np.repeat(4.0 * np.arange(5), 12)[:, None]
    scores = quality - hard + 0.3 * rng.normal(size=(2, 60, 5))
    for batch in range(5):
        away = [k for k in range(5) if k not in (batch, (batch + 1) % 5)]
        scores[0, 12 * batch : 12 * batch + 12, away] = np.nan
    study = study_of(scores)
    row = agreement(study, resamples=0).metrics.row(0, named=True)
    assert row["pairwise_accuracy"] == 1  # of the five pairs with a common item
    assert row["pearson_system"] > 0.95
    severities = dict(check(study).problems.select("rule", "severity").iter_rows())
    assert severities["different-items"] == "warning"


def test_systems_without_a_common_item_are_no_pair() -> None:
    # Two data sets in one file, as in FRANK: systems, items and levels of human and metric scores all differ.
    first, two = scores_of(3, items=40, systems=4), scores_of(4, items=40, systems=3)
    two[0] -= 20
    two[1:] += 50
    pooled = np.full((3, 80, 7), np.nan)
    pooled[:, :40, :4], pooled[:, 40:, 4:] = first, two
    study = study_of(pooled)
    result = agreement(study, resamples=20)
    alone = [agreement(study_of(values), resamples=0).metrics for values in (first, two)]
    for m in range(2):
        row = result.metrics.row(m, named=True)
        # 6 pairs of the first and 3 of the second set, not the 21 pairs of seven systems
        expected = (6 * alone[0]["pairwise_accuracy"][m] + 3 * alone[1]["pairwise_accuracy"][m]) / 9
        assert row["pairwise_accuracy"] == pytest.approx(expected)
        means = [[values.mean(axis=0) - values.mean() for values in (s[0], s[1 + m])] for s in (first, two)]
        x, y = np.concatenate(means, axis=1)
        assert row["pearson_system"] == pytest.approx(np.dot(x, y) / np.sqrt(np.dot(x, x) * np.dot(y, y)))
    (note,) = [values for values in result.notes if values.rule == "pairs-without-common-item"]
    assert note.count == 12
    (problem,) = check(study).problems.filter(rule="disjoint-systems").to_dicts()
    assert problem["severity"] == "warning"
    assert "S0, S1, S2" in problem["message"]


def test_every_pair_of_metrics_has_its_own_ground() -> None:
    # Each of three metrics lacks different cells: each statistic of a pair of metrics equals that of a study of these
    # two on their common outputs.
    scores = scores_of(5, raters=4, items=30)
    rng = np.random.default_rng(0)
    scores[rng.random(scores.shape) < 0.15] = np.nan
    result = agreement(study_of(scores), resamples=50)
    for a, b in ((1, 2), (1, 3), (2, 3)):
        shared = np.isfinite(scores[[0, a, b]]).all(axis=0)
        alone = agreement(study_of(np.where(shared, scores[[0, a, b]], np.nan)), resamples=0).metrics
        rows = result.comparisons.filter(metric_a=f"m{a}", metric_b=f"m{b}")
        assert rows.height == 5
        for row in rows.to_dicts():
            difference = alone[row["statistic"]][0] - alone[row["statistic"]][1]
            assert row["difference"] == pytest.approx(difference), row["statistic"]
            assert row["n"] == alone["n"][0] == alone["n"][1]


def test_one_null_behind_interval_and_p() -> None:
    # In 0.1.0 p was below .05 while the interval contained 0 in 114 of 561 comparisons of pairwise accuracy on
    # SummEval.
    names = ("kendall_item", "pearson_global", "pairwise_accuracy", "spa", "spearman_system", "acc_eq")
    tests = []
    for seed in range(6):  # of one pair of metrics, whose p-value needs no adjustment
        scores = scores_of(seed, items=40)
        scores[1] += 0.1 * seed * scores[0]
        tests.append(agreement(study_of(scores), resamples=200, compare_by=names).comparisons)
    significant = (pl.col("difference_low") > 0) | (pl.col("difference_high") < 0)
    rows = pl.concat(tests).select(apart=significant, clear=pl.col("p_adjusted") <= 0.05)
    assert rows.height == 6 * 6
    assert rows["apart"].equals(rows["clear"].rename("apart"))
    assert 0 < rows["clear"].sum() < rows.height


def test_item_weights_act_on_every_statistic() -> None:
    # An item of weight 3 counts as three items of its cluster; in 0.1.0 three statistics counted it once.
    scores = scores_of(3, items=9)
    scores[2, [3, 8]] = np.nan  # so that the metrics have different weights
    items = [f"i{k}" for k in range(9)]
    weighted = study_of(scores).describe(items=pl.DataFrame({"item": items, "weight": [3.0] + [1.0] * 8}))
    copies = np.array([0, 0, *range(9)])
    table = pl.DataFrame({"item": [f"i{k}" for k in range(11)], "cluster": [items[k] for k in copies]})
    repeated = study_of(scores[:, copies]).describe(items=table)
    first, two, plain = (agreement(values, resamples=100) for values in (weighted, repeated, study_of(scores)))
    for name in [values for values in first.metrics.columns if values not in ("n", "metric", "aspect", "group")]:
        np.testing.assert_allclose(first.metrics[name], two.metrics[name], err_msg=name)
    for name in ("sample_accuracy", "spa", "acc_eq", "kendall_item"):
        assert not np.allclose(first.metrics[name], plain.metrics[name]), name
    for name in ("difference", "p_adjusted"):
        np.testing.assert_allclose(first.comparisons[name], two.comparisons[name], err_msg=name)
    assert any(note.rule == "item-weights" for note in first.notes)


def test_a_metric_that_ties_on_the_hard_items_gains_nothing() -> None:
    # Two equally good judges; one gives all outputs of the hard half the same score, where correlations are undefined.
    called = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        human = rng.normal(size=(100, 6))
        hard = np.arange(100) < 50
        silent, open_ = human + np.where(hard[:, None], 2.0, 0.5) * rng.normal(size=(2, 100, 6))
        silent[hard] = 0
        result = agreement(study_of(np.stack([human, silent, open_])), resamples=200, compare_by="kendall_item")
        # each metric on its scored items
        assert result.metrics["kendall_item"][0] > result.metrics["kendall_item"][1] + 0.1
        called += result.comparisons["p_adjusted"][0] <= 0.05
    assert called <= 2  # of eight tests at .05


def test_a_metric_with_two_items_silences_nobody() -> None:
    rng = np.random.default_rng(1)
    human = rng.normal(size=(60, 6))
    good, bad = human + 0.5 * rng.normal(size=human.shape), human + 4 * rng.normal(size=human.shape)
    tiny = np.full(human.shape, np.nan)
    tiny[:2] = human[:2]
    alone = agreement(study_of(np.stack([human, good, bad])), resamples=500, compare_by="kendall_item")
    beside = agreement(study_of(np.stack([human, good, bad, tiny])), resamples=500, compare_by="kendall_item")
    assert alone.comparisons["p_adjusted"][0] < 0.01
    rows = {(row["metric_a"], row["metric_b"]): row for row in beside.comparisons.to_dicts()}
    assert rows["m1", "m2"]["p_adjusted"] < 0.01
    assert rows["m1", "m3"]["p_adjusted"] is None


def test_a_difference_has_a_note_without_an_interval_and_bounds_within_the_range_of_the_statistic() -> None:
    labels = [f"i{k}" for k in range(1010)]
    items, _ = Items.make(pl.DataFrame({"item": labels, "cluster": ["large"] * 1000 + labels[1000:]}))
    rows = []
    for seed in range(3):
        noise = np.random.default_rng(seed).normal(size=(4, 1010, 4)) * np.array([0.5, 0.5, 0.9, 2.0])[:, None, None]
        study = replace(study_of(np.random.default_rng(seed + 9).normal(size=(1010, 4)) + noise), items=items)
        rows += agreement(study, resamples=50, compare_by=("kendall_item",), rng=0).comparisons.to_dicts()
    lacks_interval = [row["p_adjusted"] is not None and row["difference_low"] is None for row in rows]
    assert any(lacks_interval)
    assert [row["note"] == "no interval" for row in rows] == lacks_interval
    bounds = [bound for row in rows for bound in (row["difference_low"], row["difference_high"]) if bound is not None]
    assert max(map(abs, bounds), default=0) <= 2


def test_the_order_of_many_metrics_with_different_outputs_needs_little_memory() -> None:
    quality, first, second = np.random.default_rng(0).normal(size=200), *np.triu_indices(200, 1)
    tests: dict[str, Any] = {"spa": SimpleNamespace(estimate=quality[first] - quality[second])}
    differences = Differences(pairs=np.stack([first, second], axis=1), n=np.ones(len(first), dtype=int), tests=tests)
    tracemalloc.start()
    order = differences.order("spa", quality[::-1])
    n_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert order.tolist() == np.argsort(-quality).tolist()
    assert n_bytes < 8 * 10 * 200**2  # a matrix (pairs, metrics) has ten times as many entries
