from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from custodes.data.ratings import Ratings
from custodes.evaluate.agreement.agreement import agreement
from custodes.evaluate.agreement.statistic import output_statistic
from custodes.evaluate.agreement.statistics import STATISTICS
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


def test_system_scores_are_means_over_the_items_drawn() -> None:
    scores = scores_of(9, items=7)
    sampled = sample(scores, 20)
    human, metrics = sampled.system_scores.people, sampled.system_scores.metrics
    assert human.shape == metrics.shape == (21, 2, 4)
    assert (sampled.system_scores.pairs == ~np.eye(4, dtype=bool)).all()
    for draw, times in enumerate(sampled.times.astype(int)):
        np.testing.assert_allclose(human[draw], [np.repeat(scores[0], times, axis=0).mean(axis=0)] * 2)
        np.testing.assert_allclose(metrics[draw], np.repeat(scores[1:], times, axis=1).mean(axis=1))
    assert (sampled.times[0] == 1).all()


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
    bytes_, wide = (replace(sampled, times=times.astype(kind), memo={}) for kind in (np.uint8, np.float64))
    for statistic in STATISTICS.values():
        np.testing.assert_allclose(statistic.compute(bytes_), statistic.compute(wide), atol=1e-12)
        np.testing.assert_allclose(statistic.chance_of(bytes_), statistic.chance_of(wide), atol=1e-12)


def test_what_is_found_whatever_the_resamples_is_found_anew_in_other_clusters() -> None:
    sampled = sample(scores_of(0, items=6), 5)
    before = sampled.acc_eq
    comparison, times = sampled.comparison, np.ones((3, 2))
    joined = replace(comparison, design=replace(comparison.design, units=comparison.design.units % 2))
    for candidate in (joined, comparison):
        changed = replace(sampled, comparison=candidate, times=times if candidate is joined else sampled.times)
        fresh = replace(changed, memo={})
        np.testing.assert_array_equal(changed.acc_eq, fresh.acc_eq)
    np.testing.assert_array_equal(before, fresh.acc_eq)
