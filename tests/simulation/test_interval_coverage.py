from __future__ import annotations

import pytest

from tests.simulation.interval_coverage import NAMES, Scenario, coverage, prediction_coverage

OVER_SYSTEMS = ("system_accuracy", "pairwise_accuracy", "pearson_system", "spearman_system", "kendall_system")


def test_with_twelve_items_intervals_over_systems_hold_the_truth() -> None:
    # Percentile intervals covered .30 (system accuracy) and .75 (Pearson) in 50 studies x 4 metrics.
    scenario = Scenario(12, 1, 6, 0.5)
    held = coverage(scenario, 50, 200, OVER_SYSTEMS)
    assert all(value.mean() >= 0.90 for value in held.values()), held


@pytest.mark.slow
@pytest.mark.parametrize("size", [(12, 1), (40, 1), (100, 1), (40, 10), (100, 10)])
def test_coverage_of_every_statistic(size: tuple[int, int]) -> None:
    for systems, spread, studies in ((6, 0.5, 400), (6, 0.15, 400), (15, 0.5, 100)):
        held = coverage(Scenario(*size, systems, spread), studies, 300, NAMES)
        print(size, systems, spread, {name: value.round(2).tolist() for name, value in held.items()})
        # Four metrics per statistic; the Monte Carlo sd of each is .03 with 100 studies.
        assert all(value.mean() >= 0.88 and value.min() >= 0.78 for value in held.values()), held


@pytest.mark.slow
@pytest.mark.parametrize("size", [(12, 1), (40, 1)])
def test_coverage_of_held_out_predictions(size: tuple[int, int]) -> None:
    assert prediction_coverage(Scenario(*size, 6, 0.5), 200, 200) >= 0.88
