from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import custodes as cu
from custodes.stats.judging.calibration import (
    confidence_and_correctness,
    correct_count_variance,
    estimate_overconfidence,
)
from tests.simulation.calibrated_judges import Sight, calibrated, draw_probabilities
from tests.simulation.rates import is_at_most

STUDIES = 2000
SIGHTS = {
    "one order": Sight(orders=("ab",)),
    "both orders": Sight(),
    "half the noise is that of both orders": Sight(shared=0.5),
    "all of it is": Sight(shared=1.0),
    "three runs in one order": Sight(orders=("ab",), runs=3),
    "two runs in both orders, half the noise in all": Sight(runs=2, shared=0.5),
    "documents of three": Sight(document=3),
}
NOISY = {"people": 3, "blur": 1.0}
SIZES = (60, 300)
CELLS = list(product(SIGHTS, (False, True), SIZES))


def miscalibration_rate(sight: Sight, n: int, studies: int, seed: int = 0) -> float:
    """Proportion of studies in which the probabilities are significantly miscalibrated at .05."""
    rng, number = np.random.default_rng(seed), 0
    for _ in range(studies):
        first, won, document = draw_probabilities(sight, n, rng)
        rows = first.reshape(-1, n)
        chances = np.stack([rows, np.zeros_like(rows), 1 - rows], axis=-1).reshape(-1, 3)
        outcome = np.tile(1 - np.sign(won.sum(axis=0)), len(rows))
        sure, right = confidence_and_correctness(chances, outcome)
        variance = correct_count_variance(chances, np.tile(np.arange(n), len(rows)))
        units = np.tile(document, len(rows))
        test = estimate_overconfidence(sure, right, least_variance=variance, units=units, confidence=0.95)
        number += float(test.p_value) < 0.05
    return number / studies


@pytest.mark.slow
@pytest.mark.parametrize(("name", "noisy", "n"), CELLS)
def test_a_calibrated_judge_is_rarely_called_otherwise(name: str, noisy: bool, n: int) -> None:
    sight = replace(SIGHTS[name], **NOISY) if noisy else SIGHTS[name]
    assert is_at_most(round(miscalibration_rate(sight, n, STUDIES) * STUDIES), STUDIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["both orders", "two runs in both orders, half the noise in all"])
def test_no_claim_of_any_kind_is_made_in_a_whole_study_of_it(name: str) -> None:
    claims = 0
    for seed in range(200):
        result = cu.consistency(calibrated(SIGHTS[name], 150, seed), resamples=0).findings["finding"]
        claims += not set(result) <= {"", "inconclusive"}
    assert is_at_most(claims, 200)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGHTS)
def test_a_judge_that_is_surer_than_what_it_saw_is_named(name: str) -> None:
    # measured: .985 or more
    assert miscalibration_rate(replace(SIGHTS[name], temperature=0.5), 300, 400) >= 0.97
