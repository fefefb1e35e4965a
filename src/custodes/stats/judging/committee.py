"""Committees of judges: accuracy of majority votes of subsets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from custodes.stats.arrays import Floats, Ints, Signs

ALL_SUBSETS = 8
"""Up to this number of judges, all subsets are tried. With more judges, a subset is extended by one judge at a time,
always by the judge that gives the highest accuracy."""
LONGEST = 9


def correct(verdicts: Signs, human_verdicts: Signs) -> Floats:
    """Correctness of each verdict: verdicts (..., n), human verdicts (n,) -> (..., n).

    A verdict is half correct if exactly one of the verdict and the human verdict is a tie.

    >>> correct(np.array([1, 0, -1], dtype=np.int8), np.array([1, 1, 1], dtype=np.int8)).tolist()
    [1.0, 0.5, 0.0]
    """
    return np.asarray(1 - np.abs(verdicts.astype(np.float64) - human_verdicts) / 2)


def best_subset(verdicts: Signs, human_verdicts: Signs) -> tuple[int, ...]:
    """Judges whose majority vote has the highest accuracy, from verdicts (judges, n) and human verdicts (n,).

    If several sets of judges are equally accurate, the smallest set is returned.

    >>> truth = np.array([1, 1, -1, 1], dtype=np.int8)
    >>> poor = truth * np.array([[1, 1, 1, -1], [1, 1, -1, 1], [-1, 1, 1, 1]], dtype=np.int8)
    >>> best_subset(poor, truth)
    (0, 1, 2)
    """
    judges = range(len(verdicts))
    if len(verdicts) > ALL_SUBSETS:
        return _greedy_committee(verdicts, human_verdicts)
    subsets = [subset for subset_size in range(1, len(verdicts) + 1) for subset in combinations(judges, subset_size)]
    accuracies = [correct(majority(verdicts[list(subset)]), human_verdicts).mean() for subset in subsets]
    return subsets[int(np.argmax(np.round(accuracies, 12)))]


def _greedy_committee(verdicts: Signs, human_verdicts: Signs) -> tuple[int, ...]:
    chosen_judges: list[int] = []
    vote_sums = np.zeros(verdicts.shape[1], dtype=np.int8)
    accuracies_and_subsets: list[tuple[float, tuple[int, ...]]] = []
    while len(chosen_judges) < LONGEST:
        # In bytes: the same as the mean of `correct`, which takes several times as long.
        error_sum_with_candidate = np.abs(np.sign(vote_sums + verdicts) - human_verdicts).sum(axis=1, dtype=np.int64)
        accuracy_with_candidate = (1 - error_sum_with_candidate / (2 * len(human_verdicts))).round(12)
        accuracy_with_candidate[chosen_judges] = -1.0
        chosen_judges.append(int(accuracy_with_candidate.argmax()))
        vote_sums = vote_sums + verdicts[chosen_judges[-1]]
        accuracies_and_subsets.append((float(accuracy_with_candidate.max()), tuple(sorted(chosen_judges))))
    return max(accuracies_and_subsets, key=lambda step: step[0])[1]


def majority(verdicts: Signs | Sequence[Signs]) -> Signs:
    """Majority vote of judges: (judges, ...) -> (...). The result is the output that more judges prefer, or a tie if
    both are preferred equally often.

    >>> majority(np.array([[1, 1], [1, 0], [-1, -1]])).tolist()
    [1, 0]
    """
    return np.asarray(np.sign(np.sum(verdicts, axis=0, dtype=np.int64)), dtype=np.int8)


def held_out_correctness(verdicts: Signs, human_verdicts: Signs, *, fold: Ints) -> tuple[Floats, Floats]:
    """Correctness of the best subset of judges and of the best single judge, (n,) each.

    verdicts (judges, n), human verdicts (n,), fold (n,). The subset and the judge for a fold are selected on all other
    folds. So the difference between subset and judge has no selection bias.
    """
    best_subset_correctness, best_judge_correctness = np.full((2, human_verdicts.size), np.nan)
    for held_out_fold in np.unique(fold):
        is_held_out = fold == held_out_fold
        training_verdicts, training_human_verdicts = verdicts[:, ~is_held_out], human_verdicts[~is_held_out]
        best_judge = int(correct(training_verdicts, training_human_verdicts).mean(axis=1).round(12).argmax())
        best_subset_judges = list(best_subset(training_verdicts, training_human_verdicts))
        best_subset_correctness[is_held_out] = correct(
            majority(verdicts[best_subset_judges][:, is_held_out]), human_verdicts[is_held_out]
        )
        best_judge_correctness[is_held_out] = correct(verdicts[best_judge, is_held_out], human_verdicts[is_held_out])
    return best_subset_correctness, best_judge_correctness
