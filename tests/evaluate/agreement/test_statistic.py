from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from custodes.data.ratings import Ratings
from custodes.evaluate.agreement.agreement import agreement
from custodes.evaluate.agreement.statistic import of_outputs
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
        given = replace(study, ratings=Ratings.make(rows)[0])
        with_scores, without = (agreement(s, resamples=200, compare_by=()).metrics for s in (given, study))
        names = [f"{kind}_system{end}" for kind in ("pearson", "spearman", "kendall") for end in ("", "_low", "_high")]
        names += ["pairwise_accuracy", "pairwise_accuracy_low", "pairwise_accuracy_high"]
        np.testing.assert_allclose(with_scores.select(names).to_numpy(), without.select(names).to_numpy(), atol=1e-9)
        assert (without["pearson_system_low"] < without["pearson_system_high"] - 0.01).all()


def test_system_scores_are_means_over_the_items_drawn() -> None:
    scores = scores_of(9, items=7)
    own = sample(scores, 20)
    human, metrics = own.system_scores.people, own.system_scores.metrics
    assert human.shape == metrics.shape == (21, 2, 4)
    assert (own.system_scores.pairs == ~np.eye(4, dtype=bool)).all()
    for draw, times in enumerate(own.times.astype(int)):
        np.testing.assert_allclose(human[draw], [np.repeat(scores[0], times, axis=0).mean(axis=0)] * 2)
        np.testing.assert_allclose(metrics[draw], np.repeat(scores[1:], times, axis=1).mean(axis=1))
    assert (own.times[0] == 1).all()


def test_statistics_of_outputs_are_not_computed_where_nobody_shares_a_score() -> None:
    scores = scores_of(4)
    some = sample(scores, 3)
    own = of_outputs(lambda given: given.times[:, :1] + np.zeros(2))
    assert own(some).tolist() == (some.times[:, :1] + np.zeros(2)).tolist()
    told = some.comparison.scores
    apart = replace(told, metrics=np.where(np.isnan(told.human), told.metrics, np.nan))
    nobody = replace(some, comparison=replace(some.comparison, scores=apart))
    assert np.isnan(own(nobody)).all()
    for statistic in (one for one in STATISTICS.values() if one.name.endswith(("_item", "_global"))):
        assert np.isnan(statistic.compute(nobody)).all()
        assert statistic.compute(nobody).shape == (4, 2)


@pytest.mark.parametrize("weighed", [False, True])
def test_counts_of_one_byte_say_what_counts_of_eight_say(weighed: bool) -> None:
    # Sums over clusters and products of counts exceed the range of a byte by far.
    own = sample(scores_of(0, items=6))
    if weighed:
        weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
        own = replace(own, comparison=replace(own.comparison, design=replace(own.comparison.design, weights=weights)))
    times = np.array([[1] * 6, [255, 200, 0, 130, 255, 17], [0, 0, 255, 255, 255, 0]])
    bytes_, wide = (replace(own, times=times.astype(kind), memo={}) for kind in (np.uint8, np.float64))
    for statistic in STATISTICS.values():
        np.testing.assert_allclose(statistic.compute(bytes_), statistic.compute(wide), atol=1e-12)
        np.testing.assert_allclose(statistic.chance_of(bytes_), statistic.chance_of(wide), atol=1e-12)


def test_what_is_found_whatever_the_resamples_is_found_anew_in_other_clusters() -> None:
    own = sample(scores_of(0, items=6), 5)
    before = own.acc_eq
    comparison, times = own.comparison, np.ones((3, 2))
    joined = replace(comparison, design=replace(comparison.design, units=comparison.design.units % 2))
    for other in (joined, comparison):
        changed = replace(own, comparison=other, times=times if other is joined else own.times)
        fresh = replace(changed, memo={})
        np.testing.assert_array_equal(changed.acc_eq, fresh.acc_eq)
    np.testing.assert_array_equal(before, fresh.acc_eq)
