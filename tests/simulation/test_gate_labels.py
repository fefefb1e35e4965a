"""False outcomes of the comparison of two judges of labels that seldom differ."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtr

import custodes as cu
from tests.simulation.rates import most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "common", "margin", "statistic", "cluster_size"),
    [
        (100, 0.1, 0.05, "accuracy", 1),
        (200, 0.05, 0.05, "balanced_accuracy", 1),
        (400, 0.1, 0.05, "accuracy", 10),
    ],
)
def test_a_judge_that_is_worse_by_the_margin_is_seldom_called_not_worse(
    n: int, common: float, margin: float, statistic: str, cluster_size: int
) -> None:
    rng = np.random.default_rng(0)
    words = np.array(["fail", "pass"])
    outcomes = []
    for _ in range(200):
        expert = rng.random(n) < 0.7
        cluster = np.arange(n) // cluster_size
        cluster_effect = rng.normal(size=cluster.max() + 1)[cluster] * np.sqrt(0.3 * (cluster_size > 1))
        difficulty = ndtr(cluster_effect + rng.normal(size=n) * np.sqrt(1 - 0.3 * (cluster_size > 1)))
        data = pl.DataFrame(
            {
                "id": np.arange(n),
                "cluster": cluster,
                "judge_new": words[(expert ^ (difficulty < common + margin)).astype(int)],
                "judge_old": words[(expert ^ (difficulty < common)).astype(int)],
                "expert": words[expert.astype(int)],
            }
        )
        gate = cu.gate(
            cu.read(data), metric="judge_new", not_worse_than="judge_old", margin=margin, statistic=statistic
        )
        outcomes.append(gate.outcome)
    print(n, statistic, {outcome: outcomes.count(outcome) / 200 for outcome in sorted(set(outcomes))})
    assert outcomes.count("holds") / 200 <= most(0.06, 200)
    assert outcomes.count("fails") / 200 <= most(0.06, 200)
