from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from custodes.stats.judging.committee import (
    best_subset,
    correct,
    effective_size,
    error_correlation,
    held_out_correctness,
    majority,
)

RNG = np.random.default_rng(2)
TRUTH = RNG.choice(np.array([1, -1], dtype=np.int8), size=400)
JUDGES = np.where(RNG.random((5, 400)) < np.array([[0.9], [0.7], [0.7], [0.7], [0.5]]), TRUTH, -TRUTH).astype(np.int8)


def test_errors_correlate_as_numpy_says() -> None:
    errors = 1 - correct(JUDGES, TRUTH)
    once = np.ones((1, 400))
    matrix = np.corrcoef(errors)
    expected = np.mean([matrix[i, j] for i, j in combinations(range(5), 2)])
    assert error_correlation(errors, units=np.arange(400), weights=once).item() == pytest.approx(expected)
    identical = np.stack([errors[1], errors[1]])
    assert error_correlation(identical, units=np.arange(400), weights=once).item() == pytest.approx(1)
    assert effective_size(2, np.array(1.0)) == 1
    with_perfect = np.concatenate([errors, np.zeros((1, 400))])  # no correlation with a judge without errors
    assert error_correlation(with_perfect, units=np.arange(400), weights=once).item() == pytest.approx(expected)


def test_the_best_subset_is_the_best_of_all_subsets() -> None:
    right = {
        members: correct(majority(JUDGES[list(members)]), TRUTH).mean()
        for size in range(1, 6)
        for members in combinations(range(5), size)
    }
    assert right[best_subset(JUDGES, TRUTH)] == max(right.values())


def test_of_many_judges_the_best_is_extended() -> None:
    many = np.where(RNG.random((12, 400)) < 0.7, TRUTH, -TRUTH).astype(np.int8)
    chosen = best_subset(many, TRUTH)
    assert len(chosen) > 1
    assert correct(majority(many[list(chosen)]), TRUTH).mean() > correct(many, TRUTH).mean(axis=1).max()


def test_a_tie_against_a_decision_is_half_right() -> None:
    assert correct(np.array([0, 0], dtype=np.int8), np.array([1, 0], dtype=np.int8)).tolist() == [0.5, 1.0]


def test_what_is_chosen_by_chance_gains_nothing_elsewhere() -> None:
    gains = []
    for seed in range(60):
        noise = np.random.default_rng(seed).choice(np.array([1, -1], dtype=np.int8), size=(5, 100))
        subset, single = held_out_correctness(noise, TRUTH[:100], fold=np.arange(100) % 5)
        gains.append(
            [
                subset.mean(),
                single.mean(),
                correct(majority(noise[list(best_subset(noise, TRUTH[:100]))]), TRUTH[:100]).mean(),
            ]
        )
    subset, single, hindsight = np.mean(gains, axis=0)
    assert subset == pytest.approx(0.5, abs=0.02)
    assert single == pytest.approx(0.5, abs=0.02)
    assert hindsight > 0.55


def test_errors_of_people_count_as_shared_errors_of_judges() -> None:
    rng = np.random.default_rng(0)
    truth = rng.choice(np.array([1, -1], dtype=np.int8), size=20_000)

    def erring(rate: float, n: int) -> np.ndarray:
        return np.where(rng.random((n, truth.size)) < rate, -truth, truth).astype(np.int8)

    judges, once = erring(0.2, 4), np.ones((1, truth.size))
    for rate, expected in ((0.0, 4.0), (0.1, 2.64), (0.2, 2.23)):
        # Conditional on human labels: errors occur with s = (1 - p) e + p (1 - e), and two judges both err with (1 - p)
        # e^2 + p (1 - e)^2: rho = (that - s^2) / (s (1 - s)), and 4 / (1 + 3 rho).
        errors = 1 - correct(judges, erring(rate, 1)[0])
        correlation = error_correlation(errors, units=np.arange(truth.size), weights=once)
        assert effective_size(4, correlation).item() == pytest.approx(expected, abs=0.1)
