from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest, norm, t
from statsmodels.stats.multitest import multipletests

import custodes as cu
from custodes.evaluate.decision_graph import format_decisions, pair_matrix
from custodes.evaluate.ranking import MOST_REVERSED, ranking
from tests.evaluate.studies import counts_of, study_of


def test_decisions_are_sign_tests() -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, (2, 60, 3)).astype(float)
    scores[0, :, 0] += rng.integers(0, 2, 60)
    result = ranking(study_of(scores), test="exact", resamples=0)
    for row in result.decisions.iter_rows(named=True):
        r = 0 if row["rater"] == "human" else 1
        a, b = int(row["system_a"][1]), int(row["system_b"][1])
        wins, losses = (int((s * (scores[r, :, a] - scores[r, :, b]) > 0).sum()) for s in (1, -1))
        assert (row["wins"], row["losses"], row["ties"]) == (wins, losses, 60 - wins - losses)
        p = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
        assert row["p_value"] == pytest.approx(p)
        assert row["decision"] == ("=" if p > 0.05 else "+" if wins > losses else "-")


def test_errors_against_people() -> None:
    # Five pairs by hand: the human signs are + + + = =, those of the metric + - = + =.
    table = {
        "+": [[40, 0, 0], [0, 0, 0], [0, 0, 0]],
        "inverted": [[0, 0, 40], [0, 0, 0], [0, 0, 0]],
        "omitted": [[20, 0, 20], [0, 0, 0], [0, 0, 0]],
        "inserted": [[20, 0, 0], [0, 0, 0], [20, 0, 0]],
        "=": [[20, 0, 0], [0, 0, 0], [0, 0, 20]],
    }
    single_pair = counts_of([[[1, 0, 0], [0, 0, 0], [0, 0, 0]]])
    names = list(combinations("ABCD", 2))[:5]
    counts = type(single_pair)(
        paired=np.array(list(table.values()), dtype=np.int64)[:, None],
        metric_only=np.zeros((5, 1, 3), dtype=np.int64),
        human_only=np.zeros((5, 1, 3), dtype=np.int64),
        system_a=tuple(a for a, _ in names),
        system_b=tuple(b for _, b in names),
        metrics=("m",),
    )
    result = ranking(counts, resamples=0)
    # The human ratings win 40 times, the metric loses 40 times: z is the root of 40; one pair is reversed.
    assert result.reversals.rows() == [("", *names[1], ["m"], pytest.approx(2 * norm.sf(40**0.5)))]
    row = result.errors.row(0, named=True)
    assert (row["correct"], row["inversion"], row["omission"], row["insertion"]) == pytest.approx((0.4, 0.2, 0.2, 0.2))
    assert row["correct_low"] is None


def test_reversals_by_definition() -> None:
    rng = np.random.default_rng(7)
    scores = np.array([1.0, 0.7, 0.4, 0.2, 0.0]) * rng.choice([-1, 1], (5, 1, 5)) + rng.normal(size=(5, 80, 5))
    result = ranking(study_of(scores), resamples=0)
    rows = {
        (rater, a, b): (p, wins - losses)
        for rater, a, b, p, wins, losses in result.decisions.select(
            "rater", "system_a", "system_b", "p_value", "wins", "losses"
        ).rows()
    }
    pairs = [(a, b) for rater, a, b in rows if rater == "human"]
    worst = {
        (rater, a, b): max(rows[rater, a, b][0], rows["human", a, b][0])
        for rater in ("m1", "m2", "m3", "m4")
        for a, b in pairs
        if rows[rater, a, b][1] * rows["human", a, b][1] < 0
    }
    holm = multipletests(list(worst.values()), alpha=0.05, method="holm")[0]
    expected: dict[tuple[str, str], list[str]] = {}
    for (rater, a, b), clear in zip(worst, holm, strict=True):
        if clear:
            expected.setdefault((a, b) if rows["human", a, b][1] > 0 else (b, a), []).append(rater)
    assert expected
    assert {(better, worse): metrics for _, better, worse, metrics, _ in result.reversals.rows()} == expected
    sizes = [len(metrics) for metrics in result.reversals["metrics"]]
    assert sizes == sorted(sizes, reverse=True)
    (view,) = (view for view in result.views() if view.title == "reversals")
    assert (len(view.rows), bool(view.more)) == (min(MOST_REVERSED, len(expected)), len(expected) > MOST_REVERSED)


def test_intervals_hold_the_point_and_kld_is_zero_for_people_themselves() -> None:
    rng = np.random.default_rng(4)
    scores = rng.integers(0, 4, (3, 50, 4)).astype(float)
    scores[1] = scores[0]
    errors = ranking(study_of(scores), resamples=200).errors
    first, second = errors.row(0, named=True), errors.row(1, named=True)
    assert (first["correct"], first["kld"], first["kld_high"]) == pytest.approx((1.0, 0.0, 0.0))
    assert second["kld"] > 0
    assert second["correct_low"] <= second["correct"] <= second["correct_high"]


@pytest.mark.parametrize(("wins", "largest", "smallest"), [(11, 0.1, 0.0), (20, 1.0, 0.7)])
def test_the_lower_bound_of_inversions_allows_for_pairs_near_the_threshold(
    wins: int, largest: float, smallest: float
) -> None:
    # Five pairs of a system with each other system. All are inverted, by 11 wins and 2 losses (z = 2.5) or by 20 wins.
    human = np.zeros((100, 6))
    human[:wins, 1:], human[20 : 20 + 2 * (wins < 20), 1:] = -1, 1
    human[:, 1:] += 1e-3 * np.arange(5)
    metric = np.concatenate([np.zeros((100, 1)), np.ones((100, 1)) + np.arange(5)], axis=1)
    errors = ranking(study_of(np.stack([human, metric])), human_ties=0.01, resamples=400).errors.row(0, named=True)
    assert errors["inversion"] == pytest.approx(1 / 3)
    assert smallest / 3 <= errors["inversion_low"] <= largest / 3


def test_a_reversal_is_one_of_the_items_that_both_rated() -> None:
    # The metric equals the human ratings on its few items, where these happen to prefer the other system.
    rng = np.random.default_rng(0)
    human = np.where(rng.random((300, 1)) < 0.8, [1.0, 0.0], [0.0, 1.0])
    human[:100] = np.where(rng.random((100, 1)) < 0.2, [1.0, 0.0], [0.0, 1.0])
    metric = human.copy()
    metric[100:] = np.nan
    result = ranking(study_of(np.stack([human, metric])), resamples=0)
    assert set(result.decisions["decision"]) == {"+", "-"}
    assert result.reversals.is_empty()


def test_replication_is_the_mean_of_resamples_with_a_decision() -> None:
    """Human ratings of two systems in 2 of 6 clusters: about 9 % of resamples have no pair."""
    rows = [
        (str(item), system, rater, kind, float((item * step + ord(system)) % 5))
        for item in range(30)
        for system in "AB"
        for rater, kind, step in (("h", "human", 2), ("m", "metric", 3))
        if kind == "metric" or item < 10 or system == "A"
    ]
    study = cu.read(pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row"))
    clusters = pl.DataFrame({"item": map(str, range(30)), "cluster": [f"c{item // 5}" for item in range(30)]})
    notes = cu.ranking(study.describe(items=clusters), resamples=100).notes
    (message,) = [note.message for note in notes if note.rule == "self-agreement"]
    assert re.search(r"stay the same for \d+ % of pairs", message)


def test_decisions_as_written() -> None:
    assert format_decisions(np.array([[1, 0], [-1, np.nan]])) == ["+", "=", "-", None]
    assert format_decisions(np.array([-1, 0, 1], dtype=np.int8)) == ["-", "=", "+"]


def test_each_system_against_each() -> None:
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    systems, square = pair_matrix(("b", "c"), ("a", "a"), values, 10 * values)
    assert systems == ["a", "b", "c"]
    expected = [[[np.nan, 10 * b, 10 * c], [b, np.nan, np.nan], [c, np.nan, np.nan]] for b, c in values]
    np.testing.assert_array_equal(square, expected)


def test_divergence_is_the_mean_over_pairs_of_posterior_outcome_rates() -> None:
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 4, (3, 40, 4)).astype(float)
    scores[1, :13] = np.nan
    scores[2, :, 3] = np.nan
    scores[0, 30:, 2] = np.nan
    result = ranking(study_of(scores), resamples=0)
    rates = {}
    for row in result.decisions.to_dicts():
        counts = np.array([row["wins"], row["ties"], row["losses"]])
        rates[row["rater"], row["system_a"], row["system_b"]] = (counts + 1) / (counts.sum() + 3), counts.sum()
    for metric in ("m1", "m2"):
        divergences = [
            (p * np.log(p / rates["human", *pair][0])).sum()
            for (rater, *pair), (p, n) in rates.items()
            if rater == metric and n
        ]
        assert len(divergences) == (6 if metric == "m1" else 3)
        assert result.errors.filter(metric=metric)["kld"].item() == pytest.approx(np.mean(divergences))


def test_copies_of_items_in_one_cluster_change_no_error_and_no_interval() -> None:
    rng = np.random.default_rng(6)
    quality = np.array([0.5, 0.3, 0.0, 0.0]) + rng.normal(size=(40, 4))
    scores = np.round(quality + 0.8 * rng.normal(size=(3, 40, 4)))
    plain, copied = study_of(scores), study_of(scores.repeat(3, axis=1))
    items = pl.DataFrame({"item": [f"i{k}" for k in range(120)], "cluster": [f"c{k // 3:02}" for k in range(120)]})
    single = pl.DataFrame({"item": [f"i{k}" for k in range(40)], "cluster": [f"c{k:02}" for k in range(40)]})
    first, second = (
        ranking(study.describe(items=table), resamples=150) for study, table in ((plain, single), (copied, items))
    )
    columns = [name for name in first.errors.columns if not name.startswith("kld")]
    for name in columns:
        if first.errors[name].dtype == pl.Float64:
            np.testing.assert_allclose(first.errors[name], second.errors[name], atol=1e-12, err_msg=name)
    assert first.decisions["p_value"].to_list() == pytest.approx(second.decisions["p_value"].to_list())
    assert second.decisions["design_effect"].to_list() == pytest.approx([3 * 39 / 39] * 18, rel=0.1)
    assert 0 < first.errors["correct"].min() < 1
    messages = [[n.message for n in result.notes if n.rule == "self-agreement"] for result in (first, second)]
    assert messages[0] == messages[1] != []
    # The proportion of human decisions that replicate, with weights of clusters drawn here.
    wins = np.stack([np.sign(scores[0][:, a] - scores[0][:, b]) for a, b in combinations(range(4), 2)])
    weights = rng.multinomial(40, np.full(40, 1 / 40), size=4000)

    def decide(weight: np.ndarray) -> np.ndarray:
        won, lost = (wins > 0) @ weight.T, (wins < 0) @ weight.T
        z = (won - lost) / np.sqrt(np.maximum(won + lost, 1))
        return np.where(np.abs(z) >= norm.isf(0.025), np.sign(z), 0)

    expected = (decide(weights) == decide(np.ones((1, 40)))).mean()
    (share,) = re.findall(r"stay the same for (\d+) %", messages[0][0])
    assert int(share) / 100 == pytest.approx(expected, abs=0.03)


def test_the_interval_of_the_errors_is_that_of_resampled_items() -> None:
    rng = np.random.default_rng(8)
    scores = (0.35 * np.arange(4)) + rng.normal(size=(2, 60, 4))
    row = ranking(study_of(scores), resamples=2000).errors.row(0, named=True)
    signs = np.stack([np.sign(scores[:, :, a] - scores[:, :, b]) for a, b in combinations(range(4), 2)], axis=1)
    weights = rng.multinomial(60, np.full(60, 1 / 60), size=4000)
    z = (signs @ weights.T) / np.sqrt(60)
    decisions = np.where(np.abs(z) >= norm.isf(0.025), np.sign(z), 0)
    human, metric = decisions
    for name, wrong in (
        ("correct", human == metric),
        ("omission", (human != 0) & (metric == 0)),
    ):
        draws = wrong.mean(axis=0)
        n = row[name] * (1 - row[name]) / (draws.var() * 60 / 59)
        z = t.ppf(0.975, 59)
        centre = (row[name] + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * np.sqrt(row[name] * (1 - row[name]) / n + z**2 / (4 * n**2))
        assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx((centre - half, centre + half), abs=0.03)


def test_reversals_are_sorted_by_the_number_of_metrics_then_by_the_first_metric() -> None:
    table = np.zeros((6, 3, 3, 3), dtype=np.int64)
    table[:, :, 0, 0] = 30
    reversed_by = [[2], [1], [0, 2], [], [0], [1, 2]]
    for pair, metrics in enumerate(reversed_by):
        for metric in metrics:
            table[pair, metric] = 0
            table[pair, metric, 0, 2] = 30 + pair
    table[2] = table[2][:, ::-1, ::-1]  # annotators prefer the second system
    pairs = list(combinations("ABCD", 2))
    counts = replace(
        counts_of([[[1, 0, 0], [0, 0, 0], [0, 0, 0]]]),
        paired=table,
        metric_only=np.zeros((6, 3, 3), dtype=np.int64),
        human_only=np.zeros((6, 3, 3), dtype=np.int64),
        system_a=tuple(a for a, _ in pairs),
        system_b=tuple(b for _, b in pairs),
        metrics=("m0", "m1", "m2"),
    )
    result = ranking(counts, resamples=0)
    rows = result.reversals.select("better", "worse", "metrics").rows()
    order = [2, 5, 4, 1, 0]
    expected = [(*(pairs[k][::-1] if k == 2 else pairs[k]), [f"m{m}" for m in reversed_by[k]]) for k in order]
    assert rows == expected
    # Seven opposite combinations are tested; Holm multiplies the smallest p-values by the largest factors.
    raw = sorted((2 * norm.sf(np.sqrt(30 + k)), k, m) for k, metrics in enumerate(reversed_by) for m in metrics)
    adjusted = np.maximum.accumulate([p * (len(raw) - i) for i, (p, *_) in enumerate(raw)])
    largest = {k: max(a for a, (_, pair, _) in zip(adjusted, raw, strict=True) if pair == k) for k in order}
    assert result.reversals["p_adjusted"].to_list() == pytest.approx([largest[k] for k in order])
