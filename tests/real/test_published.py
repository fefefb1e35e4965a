import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.rater_comparison import compare

# Global Pearson as published by the WMT23 metrics task for en-de, MQM, without refA; acc_eq from a prototype of the
# same definition (statistics.md, section 3).
PUBLISHED = {
    "XCOMET-Ensemble-refA": (0.695, 0.604),
    "MetricX-23-refA": (0.585, 0.603),
    "COMET-refA": (0.432, 0.574),
    "BLEU-refA": (0.192, 0.520),
    "GEMBA-MQM-src": (0.502, 0.572),
}


def test_wmt23_pearson_and_acc_eq_to_three_decimals(wmt23: cu.Study) -> None:
    result = cu.agreement(wmt23, human="mqm", systems="!refA", metrics=list(PUBLISHED), resamples=50, compare_by=())
    results = {row["metric"]: row for row in result.metrics.iter_rows(named=True)}
    for metric, (pearson, acc_eq) in PUBLISHED.items():
        assert round(results[metric]["pearson_global"], 3) == pearson
        assert round(results[metric]["acc_eq"], 3) == acc_eq
        assert results[metric]["pearson_global_low"] < pearson < results[metric]["pearson_global_high"]
    (comparison,) = compare(wmt23, human="mqm", systems="!refA", metrics="BLEU-refA")
    # 190 documents among the segments with MQM ratings (statistics.md, section 0).
    rated = comparison.design.units[(comparison.human_signs != -128).any(axis=0)]
    assert len(set(rated.tolist())) == 190


def accuracy_by_threshold(human: np.ndarray, metric: np.ndarray) -> float:
    """acc_eq with every difference of two outputs as a threshold, compared without rounding."""
    first, second = np.triu_indices(human.shape[1], 1)
    order = np.sign(human[:, first] - human[:, second]).ravel()
    differences = (metric[:, first] - metric[:, second]).ravel()
    ends = np.sort(np.abs(differences[order == 0])), np.sort(np.abs(differences[order * differences > 0]))
    thresholds = np.append(0, np.unique(np.abs(differences)))
    ties = np.searchsorted(ends[0], thresholds, side="right")
    concordant = len(ends[1]) - np.searchsorted(ends[1], thresholds, side="right")
    return float((ties + concordant).max() / len(differences))


def test_wmt23_acc_eq_of_rounded_scores_is_that_of_whole_numbers(wmt23: cu.Study) -> None:
    chosen = {"human": "mqm", "systems": "!refA", "metrics": ["cometoid22-wmt22-src", "XCOMET-Ensemble-refA"]}
    (comparison,) = compare(wmt23, **chosen)
    finite = np.isfinite(comparison.human)
    rated = np.ix_(finite.any(axis=1), finite.any(axis=0))  # items have all systems or none
    human = comparison.human[rated]
    scores = dict(zip(comparison.metrics, (value[rated] for value in comparison.metric_scores), strict=True))
    results = dict(cu.agreement(wmt23, **chosen, resamples=0).metrics.select("metric", "acc_eq").iter_rows())
    rounded = scores["cometoid22-wmt22-src"]  # rounded to four digits
    np.testing.assert_allclose(np.rint(rounded * 1e4), rounded * 1e4, atol=1e-8)
    assert results["cometoid22-wmt22-src"] == pytest.approx(
        accuracy_by_threshold(human, np.rint(rounded * 1e4)), abs=1e-12
    )
    assert results["cometoid22-wmt22-src"] == pytest.approx(0.577536, abs=1e-6)
    # mt-metrics-eval has .577734: its threshold lies between two floating-point values of the difference .0032.
    assert accuracy_by_threshold(human, rounded) == pytest.approx(0.577734, abs=1e-6)
    continuous = scores["XCOMET-Ensemble-refA"]
    assert results["XCOMET-Ensemble-refA"] == pytest.approx(accuracy_by_threshold(human, continuous), abs=1e-12)


def test_summeval_ties_and_reproducibility(summeval: cu.Study) -> None:
    # Proportion of tied comparisons with the mean of three experts (statistics.md, section 1).
    ties = dict(cu.check(summeval, human="expert*", metrics="METEOR").summary.select("aspect", "ties").rows())
    assert {aspect: round(share, 2) for aspect, share in ties.items()} == {
        "coherence": 0.11,
        "consistency": 0.67,
        "fluency": 0.55,
        "relevance": 0.15,  # .15475; the prototype rounded it to 16 %
    }
    ranking = cu.ranking(summeval, human="expert*", metrics="METEOR")
    notes = [note.message for note in ranking.notes if note.rule == "self-agreement"]
    messages = {aspect: next(m for m in notes if f"aspect {aspect!r}" in m) for aspect in ties}
    # Replication rate of human decisions on resampled items (statistics.md, section 7): .88 .91 .89 .87.
    for aspect, share in (("relevance", 0.88), ("coherence", 0.91), ("consistency", 0.89), ("fluency", 0.87)):
        match = float(re.search(r"(\d+) % of pairs", messages[aspect])[1]) / 100
        assert abs(match - share) <= 0.015


def test_mean_and_vote_differ_on_few_comparisons(summeval: cu.Study) -> None:
    # 3 to 4 % with few ties (statistics.md, section 1); less if most comparisons tie.
    for aspect, share in (("coherence", 0.033), ("consistency", 0.0015), ("fluency", 0.007), ("relevance", 0.039)):
        setting = {"human": "expert*", "metrics": "METEOR", "aspect": aspect}
        mean, vote = (compare(summeval, aggregate=how, **setting)[0].human_signs for how in ("mean", "vote"))
        assert (mean != vote).mean() == pytest.approx(share, abs=0.0006)


def test_alternative_annotator_test_equals_the_authors_own_numbers(shared_data: Path) -> None:
    expected = pl.read_csv(shared_data / "alttest" / "reference.csv")
    for (dataset, epsilon), rows in expected.group_by("dataset", "epsilon", maintain_order=True):
        study = cu.read(shared_data / "alttest" / f"{dataset}.csv.gz")
        results = {row["metric"]: row for row in cu.rates(study, epsilon=epsilon).replacement.iter_rows(named=True)}
        for row in rows.iter_rows(named=True):
            test = results[row["judge"]]
            assert test["winning_rate"] == pytest.approx(row["winning_rate"], abs=1e-6)
            assert test["winning_rate_outputs"] == test["winning_rate"]
            assert test["advantage_probability"] == pytest.approx(row["advantage_probability"], abs=1e-6)
            assert test["advantage_probability_low"] < test["advantage_probability"]


def test_alpacaeval_win_rates_of_each_model(shared_data: Path) -> None:
    folder = shared_data / "alpacaeval"
    columns = {"": "system", "win_rate": "published", "discrete_win_rate": "published_discrete"}
    published = pl.read_csv(folder / "leaderboard.csv").rename(columns)
    board = cu.leaderboard(cu.read(folder / "results"), resamples=0)
    rows = board.reference.join(published, on="system", how="left").sort("system")
    assert rows["reference"].unique().to_list() == ["gpt4_1106_preview"]
    assert rows.height == 6
    assert "NullModel" in rows["system"]
    np.testing.assert_allclose(100 * rows["win_rate"], rows["published"], atol=1e-9)
    np.testing.assert_allclose(100 * rows["discrete_win_rate"], rows["published_discrete"], atol=1e-9)
    # Published values include effects of instructions and a length penalty.
    controlled = rows.drop_nulls("length_controlled_win_rate")
    distance = 100 * controlled["length_controlled_win_rate"] - controlled["length_controlled_winrate"]
    assert dict(zip(controlled["system"], distance.round(1), strict=True)) == {
        "FuseChat-Gemma-2-9B-Instruct": -0.1,
        "NullModel": -1.7,
        "claude-2": 8.6,
    }
    assert cu.check(cu.read(folder / "results")).problems.filter(rule="constant-outputs")["examples"].to_list() == [
        ["NullModel"]
    ]
