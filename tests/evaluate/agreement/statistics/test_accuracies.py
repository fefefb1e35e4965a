from __future__ import annotations

import numpy as np
import pytest

from custodes.evaluate.agreement.agreement import agreement
from custodes.evaluate.agreement.statistics.accuracies import chance_accuracy
from tests.evaluate.studies import sample, scores_of, study_of


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


def test_flipped_choices_by_brute_force() -> None:
    # Eight items give 256 ways to exchange the two metrics. p is close to the proportion whose difference in correct
    # choices is at least as large as the observed one (|t| increases with the difference).
    scores = scores_of(3, items=8)
    p_value = agreement(study_of(scores), resamples=4000, compare_by=("sample_accuracy",)).comparisons["p_value"].item()
    a, b = np.triu_indices(4, 1)
    human, *metrics = (np.sign(scores_of_rater[:, a] - scores_of_rater[:, b]) for scores_of_rater in scores)
    right = np.array([(human == scores_of_rater).sum(axis=1) for scores_of_rater in metrics])
    observed = abs((right[0] - right[1]).sum())
    ways = np.array(np.meshgrid(*[[1, -1]] * 8)).reshape(8, -1).T
    exact = (np.abs(ways @ (right[0] - right[1])) >= observed).mean()
    assert p_value == pytest.approx(exact, abs=0.03)


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
