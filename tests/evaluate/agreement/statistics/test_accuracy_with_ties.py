from __future__ import annotations

import numpy as np
import pytest

from custodes.evaluate.agreement.agreement import agreement
from tests.evaluate.studies import scores_of, study_of


def searched(human: np.ndarray, metric: np.ndarray) -> tuple[float, float]:
    """Return the best mean accuracy over items and the smallest threshold that reaches it."""
    a, b = np.triu_indices(human.shape[1], 1)
    truth, difference = np.sign(human[:, a] - human[:, b]), metric[:, a] - metric[:, b]
    accuracies = {}
    for epsilon in [0.0, *np.sort(np.abs(difference).ravel())]:
        chosen = np.where(np.abs(difference) <= epsilon, 0, np.sign(difference))
        share = [np.mean((c == t)[np.isfinite(d)]) for c, t, d in zip(chosen, truth, difference, strict=True)]
        accuracies.setdefault(round(float(np.mean(share)), 12), epsilon)
    best = max(accuracies)
    return best, accuracies[best]


@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_is_that_of_a_search(seed: int) -> None:
    scores = scores_of(seed)
    scores[0] = np.round(scores[0] / 2)
    metrics = agreement(study_of(scores), resamples=0).metrics
    for k, row in enumerate(metrics.iter_rows(named=True), start=1):
        accuracy, epsilon = searched(scores[0], scores[k])
        assert row["acc_eq"] == pytest.approx(accuracy)
        assert row["acc_eq_epsilon"] == pytest.approx(epsilon)


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
