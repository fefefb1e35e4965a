"""Intervals of estimates with the fewest clusters and draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from custodes.stats.intervals import student_interval


def test_two_clusters_and_two_draws_are_enough_and_one_is_not() -> None:
    draws = np.array([1.0, 0.5, 1.5])
    low, high = student_interval(draws, confidence=0.9, n_units=2, bounds=(-np.inf, np.inf))
    half_width = t.ppf(0.95, 1) * np.std(draws[1:], ddof=1) * np.sqrt(2)
    assert [low.item(), high.item()] == pytest.approx([1 - half_width, 1 + half_width])
    for few_draws, n_units in ((draws[:2], 2), (draws, 1)):
        assert np.isnan(student_interval(few_draws, confidence=0.9, n_units=n_units, bounds=(-np.inf, np.inf))).all()
