"""Dawid and Skene's model: what each person says where a label is right, learnt together with what is right."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.people.answers import Answers, chances, fixed, row_sums
from custodes.stats.ratios import ratio

PSEUDO = 0.5
"""Pseudo-counts of every cell of a person's confusion matrix."""
DIAGONAL = 1.0
"""More of them where the answer is right: who is not known is not thought to be adverse."""
SETTLED = 1e-6


class DawidSkene(NamedTuple):
    """`posterior` (tasks, labels); `confusion` (workers, right label, label said), rows sum to 1; `prior` (labels,)."""

    posterior: Floats
    confusion: Floats
    prior: Floats


def dawid_skene(answers: Answers, *, iterations: int, known: Ints | None = None) -> DawidSkene:
    """Fit by EM from the shares of votes, until no chance moves by `SETTLED`, or for so many steps.

    `known` (tasks,) are labels that are known beforehand (`UNKNOWN`: not). Tasks without answers have the prior.

    >>> rows = np.repeat(np.arange(6), 3), np.tile(np.arange(3), 6), np.array([0, 0, 1, 2, 2, 1] * 3)
    >>> made = dawid_skene(Answers.of(*rows, n_tasks=6, n_workers=3, n_labels=3), iterations=20)
    >>> made.posterior.argmax(axis=1).tolist()
    [0, 2, 0, 2, 0, 2]

    Source: Dawid and Skene 1979; pseudo-counts as Paun et al. 2018 find them needed where people answer little.
    """
    votes = answers.votes
    share = np.nan_to_num(ratio(votes, row_sums(votes)), nan=1 / answers.n_labels)
    return _fitted(answers, fixed(share, known), known, iterations)


def again(answers: Answers, like: DawidSkene, *, iterations: int, weight: Floats) -> DawidSkene:
    """The same with tasks that count `weight` (tasks,) times, from where another fit ended: for resamples."""
    return _fitted(replace(answers, weight=weight), like.posterior, None, iterations)


def _fitted(answers: Answers, posterior: Floats, known: Ints | None, iterations: int) -> DawidSkene:
    model = _model(answers, posterior)
    for _ in range(iterations):
        new = fixed(_posterior(answers, *model), known)
        moved = float(np.abs(new - posterior).max(initial=0.0))
        posterior, model = new, _model(answers, new)
        if moved < SETTLED:
            break
    return DawidSkene(posterior, *model)


def _model(answers: Answers, posterior: Floats) -> tuple[Floats, Floats]:
    """The confusion matrices and the prior that go with chances of the labels."""
    size = (answers.n_workers, answers.n_labels)
    at, weighted = answers.at_worker, posterior * answers.weight[:, np.newaxis]
    counts = [
        np.bincount(at, weights=weighted[:, right][answers.task], minlength=size[0] * size[1]).reshape(size)
        for right in range(answers.n_labels)
    ]
    confusion = np.stack(counts, axis=1) + PSEUDO + DIAGONAL * np.eye(answers.n_labels)
    prior = weighted.sum(axis=0) + PSEUDO
    return confusion / row_sums(confusion), prior / row_sums(prior)


def _posterior(answers: Answers, confusion: Floats, prior: Floats) -> Floats:
    at = answers.at_worker
    logs = np.log(confusion)
    scores: Floats = np.stack(
        [
            np.bincount(answers.task, weights=logs[:, right].ravel()[at], minlength=answers.n_tasks).astype(np.float64)
            for right in range(answers.n_labels)
        ],
        axis=1,
    )
    return chances(scores + np.log(prior))[0]
