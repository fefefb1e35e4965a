from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from custodes.stats.judging.committee import (
    best_subset,
    correct,
    held_out_correctness,
    majority,
)

RNG = np.random.default_rng(2)
TRUTH = RNG.choice(np.array([1, -1], dtype=np.int8), size=400)
JUDGES = np.where(RNG.random((5, 400)) < np.array([[0.9], [0.7], [0.7], [0.7], [0.5]]), TRUTH, -TRUTH).astype(np.int8)


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
