"""Comparison of outcome counts."""

from __future__ import annotations

import numpy as np

from custodes.data.outcome_counts import OutcomeCounts


def assert_equal_counts(actual: OutcomeCounts, expected: OutcomeCounts) -> None:
    """Assert that the labels and the tables of counts are equal."""
    for name in ("system_a", "system_b", "metrics", "paired", "metric_only", "human_only"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), err_msg=name)
