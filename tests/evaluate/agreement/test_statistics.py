from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from custodes.data.ratings import Ratings
from custodes.evaluate.agreement.agreement import agreement
from custodes.evaluate.agreement.statistic import output_statistic
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.agreement.statistics.accuracies import chance_accuracy
from custodes.evaluate.agreement.statistics.correlations import KINDS
from tests.evaluate.studies import sample, scores_of, study_of


def test_system_scores_of_the_file_move_with_the_items() -> None:
    # These statistics are resampled by the shift of the mean over items. If a score is that mean plus a constant, no
    # statistic of differences between systems may change, nor may its interval.
    scores = scores_of(8, items=12)
    scores[0] += np.random.default_rng(0).normal(size=scores[0].shape)  # without ties, which rounding would break
    study = study_of(scores)
    for rater, name in ((0, "ann"), (1, "m1")):
        means = scores[rater].mean(axis=0) + 3
        whole = [{"item": "", "system": f"S{k}", "rater": name, "score": mean} for k, mean in enumerate(means)]
        rows = pl.concat([study.ratings.frame.select("item", "system", "rater", "score"), pl.DataFrame(whole)])
        shifted = replace(study, ratings=Ratings.make(rows)[0])
        with_scores, without = (agreement(s, resamples=200, compare_by=()).metrics for s in (shifted, study))
        names = [f"{kind}_system{end}" for kind in ("pearson", "spearman", "kendall") for end in ("", "_low", "_high")]
        names += ["pairwise_accuracy", "pairwise_accuracy_low", "pairwise_accuracy_high"]
        np.testing.assert_allclose(with_scores.select(names).to_numpy(), without.select(names).to_numpy(), atol=1e-9)
        assert (without["pearson_system_low"] < without["pearson_system_high"] - 0.01).all()


def test_statistics_of_outputs_are_not_computed_where_nobody_shares_a_score() -> None:
    scores = scores_of(4)
    some = sample(scores, 3)
    pooled = output_statistic(lambda shifted: shifted.times[:, :1] + np.zeros(2))
    assert pooled(some).tolist() == (some.times[:, :1] + np.zeros(2)).tolist()
    scores_by_rater = some.comparison.scores
    undefined = replace(
        scores_by_rater, metrics=np.where(np.isnan(scores_by_rater.human), scores_by_rater.metrics, np.nan)
    )
    empty = replace(some, comparison=replace(some.comparison, scores=undefined))
    assert np.isnan(pooled(empty)).all()
    for statistic in (entry for entry in STATISTICS.values() if entry.name.endswith(("_item", "_global"))):
        assert np.isnan(statistic.compute(empty)).all()
        assert statistic.compute(empty).shape == (4, 2)


@pytest.mark.parametrize("weighed", [False, True])
def test_counts_of_one_byte_say_what_counts_of_eight_say(weighed: bool) -> None:
    # Sums over clusters and products of counts exceed the range of a byte by far.
    sampled = sample(scores_of(0, items=6))
    if weighed:
        weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
        sampled = replace(
            sampled, comparison=replace(sampled.comparison, design=replace(sampled.comparison.design, weights=weights))
        )
    times = np.array([[1] * 6, [255, 200, 0, 130, 255, 17], [0, 0, 255, 255, 255, 0]])
    bytes_, wide = (replace(sampled, times=times.astype(kind)) for kind in (np.uint8, np.float64))
    for statistic in STATISTICS.values():
        np.testing.assert_allclose(statistic.compute(bytes_), statistic.compute(wide), atol=1e-12)
        np.testing.assert_allclose(statistic.chance_of(bytes_), statistic.chance_of(wide), atol=1e-12)


def test_guessing_is_independent_choice_at_the_tie_rates_of_both() -> None:
    # Humans tie 20 of 100 comparisons, the metric 10 of 100: .2 x .1 + .8 x .9 / 2 = .38, by hand.
    human = np.repeat([1, 0, -1], [45, 20, 35])
    metric = np.repeat([1, 0, -1, 1, 0, -1, 1, -1], [30, 5, 10, 10, 5, 5, 20, 15])
    scores = np.stack([np.stack([signs, np.zeros(100)], axis=1) for signs in (human, metric)])
    result = agreement(study_of(scores), resamples=0, compare_by=())
    assert result.metrics["sample_accuracy_chance"].to_list() == [pytest.approx(0.38)]
    assert result.standing["chance"].to_list() == [pytest.approx(0.38)]
    assert result.standing["side"].to_list() == ["unclear"]
    assert result.metrics["group"].to_list() == [None]  # no metric to compare with


def test_three_ways_to_count_right_choices() -> None:
    # Three items and three systems, by hand. Human ratings order A > B > C on two items and tie A and B on the third.
    human = np.array([[3.0, 2, 1], [3, 2, 1], [2, 2, 1]])
    # The metric is right on the first item, reverses B and C on the second, and reverses A and B on the third.
    metric = np.array([[9.0, 5, 1], [9, 1, 5], [1, 2, 0]])
    row = agreement(study_of(np.stack([human, metric])), resamples=0).metrics.row(0, named=True)
    assert row["sample_accuracy"] == pytest.approx((3 + 2 + 2) / 9)
    # Margins: humans AB 2, AC 3, BC 3; the metric AB 1, AC 3, BC 1, so the signs agree. Both means order A > B > C.
    assert (row["system_accuracy"], row["pairwise_accuracy"]) == (1, 1)
    metric[0, 1] = 0.0  # B and C are exchanged in the metric's means and in its margins.
    row = agreement(study_of(np.stack([human, metric])), resamples=0).metrics.row(0, named=True)
    assert (row["system_accuracy"], row["pairwise_accuracy"]) == pytest.approx((2 / 3, 2 / 3))


def test_guessing_of_a_comparison_has_a_value_a_metric() -> None:
    scores = scores_of(4)
    scores[2] = np.round(scores[2])
    a, b = np.triu_indices(4, 1)
    human, *metrics = (np.mean(rater_scores[:, a] == rater_scores[:, b]) for rater_scores in scores)
    expected = [human * tied + (1 - human) * (1 - tied) / 2 for tied in metrics]
    np.testing.assert_allclose(chance_accuracy(sample(scores))[0], expected)
    scores[2] = np.nan
    scores[2, 0, 0] = 1.0  # no pair of outputs, so no choice
    assert np.isnan(chance_accuracy(sample(scores))[0, 1])


def searched(human: np.ndarray, metric: np.ndarray) -> float:
    """Return the best mean accuracy over items among all thresholds."""
    a, b = np.triu_indices(human.shape[1], 1)
    truth, difference = np.sign(human[:, a] - human[:, b]), metric[:, a] - metric[:, b]
    accuracies = []
    for epsilon in [0.0, *np.sort(np.abs(difference).ravel())]:
        chosen = np.where(np.abs(difference) <= epsilon, 0, np.sign(difference))
        share = [np.mean((c == t)[np.isfinite(d)]) for c, t, d in zip(chosen, truth, difference, strict=True)]
        accuracies.append(float(np.mean(share)))
    return max(accuracies)


def test_the_accuracy_with_ties_is_that_of_a_search() -> None:
    scores = scores_of(0)
    scores[0] = np.round(scores[0] / 2)
    metrics = agreement(study_of(scores), resamples=0).metrics
    for k, row in enumerate(metrics.iter_rows(named=True), start=1):
        assert row["acc_eq"] == pytest.approx(searched(scores[0], scores[k]))


def test_people_tie_as_they_are_told_to() -> None:
    scores = scores_of(5)
    rounded = scores.copy()
    rounded[0] = np.floor(scores[0])
    wide, exact = (
        agreement(study_of(metric_scores), resamples=0, human_ties=ties).metrics.row(0, named=True)
        for metric_scores, ties in ((scores, 1.0), (scores, None))
    )
    assert wide["acc_eq"] != exact["acc_eq"]
    # All human ratings are tied, so a metric that ties all outputs is always right.
    assert agreement(study_of(scores), resamples=0, human_ties=1e6).metrics["acc_eq"].to_list() == [1, 1]


REFERENCES = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def two_way(scores: np.ndarray, rated: np.ndarray) -> np.ndarray:
    """Return the effects of systems from a regression on dummies of items and systems."""
    item, system = np.nonzero(rated)
    dummies = np.zeros((len(item), rated.shape[0] + rated.shape[1]))
    dummies[np.arange(len(item)), item] = dummies[np.arange(len(item)), rated.shape[0] + system] = 1
    return np.linalg.lstsq(dummies, scores[rated], rcond=None)[0][rated.shape[0] :]


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_that_one_did_not_rate_do_not_count(kind: str) -> None:
    scores = scores_of(5)
    rng = np.random.default_rng(0)
    scores[rng.random(scores.shape) < 0.15] = np.nan
    row = agreement(study_of(scores), resamples=0).metrics.row(0, named=True)
    human, metric = scores[0], scores[1]
    both = np.isfinite(human) & np.isfinite(metric)
    reference = REFERENCES[kind]
    assert row[f"{kind}_global"] == pytest.approx(reference(human[both], metric[both]).statistic)
    # The score of a system is its least-squares effect, adjusted for items, over the outputs that both raters scored.
    fits = [two_way(values, both) for values in (human, metric)]
    assert row[f"{kind}_system"] == pytest.approx(reference(*fits).statistic)
    within = [
        reference(h[values], m[values]).statistic
        for h, m, values in zip(human, metric, both, strict=True)
        if len(set(h[values])) > 1 and len(set(m[values])) > 1
    ]
    assert row[f"{kind}_item"] == pytest.approx(np.mean(within))


def test_p_values_of_means_over_items_by_brute_force() -> None:
    # Seven items give 128 ways to exchange the two metrics.
    scores = scores_of(11, items=7)
    result = agreement(study_of(scores), resamples=4000, compare_by=("kendall_item",)).comparisons
    tau = np.array(
        [[stats.kendalltau(h, m).statistic for h, m in zip(scores[0], values, strict=True)] for values in scores[1:]]
    )
    assert np.isfinite(tau).all()
    difference = tau[0] - tau[1]
    assert result["difference"].item() == pytest.approx(difference.mean())
    ways = np.array(np.meshgrid(*[[1, -1]] * 7)).reshape(7, -1).T
    exact = (np.abs(ways @ difference) >= abs(difference.sum()) - 1e-9).mean()
    assert result["p_adjusted"].item() == pytest.approx(exact, abs=0.03)
