"""The majority of people's answers."""

from __future__ import annotations

from typing import NamedTuple

from custodes.stats.arrays import Floats, Ints
from custodes.stats.people.answers import Answers, likeliest
from custodes.stats.ratios import ratio


class Majority(NamedTuple):
    """`share` (tasks, labels) of the answers, NaN where there is none; `label` (tasks,) with most votes, `UNKNOWN`
    where two have as many."""

    share: Floats
    label: Ints


def majority(answers: Answers) -> Majority:
    """What most people say of each task.

    >>> import numpy as np
    >>> rows = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 0, 1]), np.array([0, 0, 2, 0, 2])
    >>> majority(Answers.of(*rows, n_tasks=2, n_workers=3, n_labels=3)).label.tolist()
    [0, -1]
    """
    votes = answers.votes
    return Majority(ratio(votes, votes.sum(axis=-1, keepdims=True)), likeliest(votes))
