"""Do the intervals of agreement hold the truth as often as they say, and do tests of differences keep their level?"""

import numpy as np
import pytest

import custodes as cu
from tests.evaluate.test_favoritism import study_of

ITEMS, SYSTEMS, STUDIES, TRUTH_ITEMS = 80, 6, 200, 40_000
QUALITY = np.linspace(0, 1, SYSTEMS)
STATISTICS = ("sample_accuracy", "pearson_global", "spearman_global", "kendall_global", "kendall_item", "acc_eq")


def draw(rng: np.random.Generator, items: int) -> np.ndarray:
    """(raters, items, systems): a person who ties, a good metric and two equally middling ones."""
    truth = QUALITY + rng.normal(size=(items, 1)) + rng.normal(size=(items, SYSTEMS))
    noise = np.array([0.5, 0.7, 1.5, 1.5])[:, None, None]
    scores = truth + noise * rng.normal(size=(4, items, SYSTEMS))
    scores[0] = np.round(scores[0])
    return scores


@pytest.mark.slow
def test_coverage_and_level() -> None:
    rng = np.random.default_rng(0)
    # The truth is the same statistic on very many items, in blocks (Spearman and Kendall over all outputs of a block).
    blocks = [cu.agreement(study_of(draw(rng, 2000)), resamples=0, compare_by=()).metrics for _ in range(20)]
    truth = {name: np.mean([block[name].to_numpy() for block in blocks], axis=0) for name in STATISTICS}
    held = dict.fromkeys(STATISTICS, 0.0)
    rejected = dict.fromkeys(("pearson_global", "sample_accuracy", "kendall_item", "pairwise_accuracy", "acc_eq"), 0)
    power = 0
    for _ in range(STUDIES):
        result = cu.agreement(study_of(draw(rng, ITEMS)), resamples=400, rng=rng)
        for name in STATISTICS:
            low, high = (result.metrics[f"{name}_{side}"].to_numpy() for side in ("low", "high"))
            held[name] += float(np.mean((low <= truth[name]) & (truth[name] <= high))) / STUDIES
        for row in result.comparisons.iter_rows(named=True):
            if (row["metric_a"], row["metric_b"]) == ("m2", "m3"):
                rejected[row["statistic"]] += row["p_value"] <= 0.05
            if (row["metric_a"], row["metric_b"], row["statistic"]) == ("m1", "m2", "pearson_global"):
                power += row["p_value"] <= 0.05
    level = {name: count / STUDIES for name, count in rejected.items()}
    print({name: round(share, 3) for name, share in held.items()}, level, power / STUDIES)
    # 200 studies x 3 metrics a statistic: two standard errors are about .03 below .95.
    for name, share in held.items():
        assert 0.90 <= share <= 0.99, name
    # A true null is rejected in 5 % of cases at most, up to two standard errors of .015; a real difference is found.
    assert all(share <= 0.085 for share in level.values()), level
    assert power / STUDIES > 0.9
