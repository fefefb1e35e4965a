from __future__ import annotations

import numpy as np
import pytest

from custodes.evaluate.agreement.agreement import agreement
from tests.evaluate.studies import scores_of, study_of


def spa_of(scores: np.ndarray) -> list[float]:
    return agreement(study_of(scores), resamples=0, compare_by=()).metrics["spa"].to_list()


def test_by_all_swaps_of_the_systems_of_items() -> None:
    # The p-value of "b is better than a" is the proportion of exchanges of the two systems within items whose mean
    # difference is at least the observed one (Thompson et al. 2024). The question draws a thousand exchanges.
    scores = scores_of(6, items=8)
    ways = np.array(np.meshgrid(*[[1, -1]] * 8)).reshape(8, -1).T
    a, b = np.triu_indices(4, 1)

    def p_values(values: np.ndarray) -> np.ndarray:
        difference = values[:, a] - values[:, b]
        return ((ways @ difference) >= difference.sum(axis=0)).mean(axis=0)

    expected = [1 - np.abs(p_values(scores[0]) - p_values(values)).mean() for values in scores[1:]]
    # A proportion of a thousand draws has a standard deviation of at most .016; the mean over six pairs has less.
    assert spa_of(scores) == pytest.approx(expected, abs=0.03)
