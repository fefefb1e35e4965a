from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from custodes.stats.judging.committee import (
    LONGEST,
    best_subset,
    correct,
    held_out_correctness,
    majority,
)


def accuracy(verdicts: np.ndarray, human: np.ndarray, members: tuple[int, ...]) -> float:
    return round(float(correct(majority(verdicts[list(members)]), human).mean()), 9)


def best_by_trial(verdicts: np.ndarray, human: np.ndarray) -> tuple[int, ...]:
    """Return the best subset of up to eight judges, or the best step of extensions by the best further judge."""
    n = len(verdicts)
    if n <= 8:
        candidates = [members for size in range(1, n + 1) for members in combinations(range(n), size)]
    else:
        candidates = [()]
        for _ in range(LONGEST):
            extensions = [(*candidates[-1], k) for k in range(n) if k not in candidates[-1]]
            candidates.append(max(extensions, key=lambda members: accuracy(verdicts, human, members)))
        candidates = candidates[1:]
    return tuple(sorted(max(candidates, key=lambda members: accuracy(verdicts, human, members))))


@pytest.mark.parametrize("n_judges", [3, 8, 9, 12])
def test_the_committee_of_each_fold_is_the_best_of_the_other_folds(n_judges: int) -> None:
    rng = np.random.default_rng(3)  # with this seed, extensions of one judge miss the best subset of eight judges
    human = rng.choice(np.array([1, 0, -1], dtype=np.int8), size=30)
    verdicts = np.where(rng.random((n_judges, 30)) < 0.6, human, rng.integers(-1, 2, (n_judges, 30))).astype(np.int8)
    assert best_subset(verdicts, human) == best_by_trial(verdicts, human)
    fold = np.arange(30) % 3
    committee, single = held_out_correctness(verdicts, human, fold=fold)
    for k in range(3):
        train, test = fold != k, fold == k
        members = best_by_trial(verdicts[:, train], human[train])
        np.testing.assert_array_equal(committee[test], correct(majority(verdicts[list(members)]), human)[test])
        judge = max(range(n_judges), key=lambda k, train=train: accuracy(verdicts[:, train], human[train], (k,)))
        np.testing.assert_array_equal(single[test], correct(verdicts[judge], human)[test])


@pytest.mark.parametrize("n_judges", [8, 9])
def test_of_equal_committees_the_smallest_is_chosen(n_judges: int) -> None:
    verdicts = np.array([1, -1, 0, 1], dtype=np.int8)
    assert best_subset(np.tile(verdicts, (n_judges, 1)), verdicts) == (0,)


def test_a_tie_against_a_decision_is_half_right() -> None:
    assert correct(np.array([0, 0], dtype=np.int8), np.array([1, 0], dtype=np.int8)).tolist() == [0.5, 1.0]
