"""Answers of people as long arrays, in one order whatever order they came in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints

UNKNOWN = -1
"""The label of a task of which none is known."""

SAME = 1e-9
"""Chances that differ by less are equal: rounding."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Who said what: `task`, `worker`, `label` (n,) are positions from 0, sorted; a worker answers a task once.

    `weight` (tasks,) is how often a task counts. Labels are in an order that can be turned round: of a comparison
    0 win, 1 tie, 2 loss. Make it with `of`, so that the order of rows changes no bit of what is computed.
    """

    task: Ints
    worker: Ints
    label: Ints
    n_tasks: int
    n_workers: int
    n_labels: int
    weight: Floats

    @classmethod
    def of(
        cls,
        task: NDArray[Any],
        worker: NDArray[Any],
        label: NDArray[Any],
        *,
        n_tasks: int,
        n_workers: int,
        n_labels: int,
    ) -> Answers:
        """Answers in any order.

        >>> rows = np.array([1, 0]), np.array([0, 0]), np.array([2, 1])
        >>> Answers.of(*rows, n_tasks=2, n_workers=1, n_labels=3).label.tolist()
        [1, 2]
        """
        order = np.lexsort((label, worker, task))
        task, worker, label = (np.asarray(own, dtype=np.int64)[order] for own in (task, worker, label))
        return cls(
            task=task,
            worker=worker,
            label=label,
            n_tasks=n_tasks,
            n_workers=n_workers,
            n_labels=n_labels,
            weight=np.ones(n_tasks),
        )

    def __len__(self) -> int:
        return len(self.task)

    @property
    def at_task(self) -> Ints:
        """(n,): the place of task and label in a table (tasks, labels)."""
        return self.task * self.n_labels + self.label

    @property
    def at_worker(self) -> Ints:
        """(n,): the place of worker and label in a table (workers, labels)."""
        return self.worker * self.n_labels + self.label

    @property
    def votes(self) -> Floats:
        """(tasks, labels): how often each label was said of a task."""
        counts = np.bincount(self.at_task, minlength=self.n_tasks * self.n_labels)
        return counts.reshape(self.n_tasks, self.n_labels).astype(np.float64)

    @property
    def asked(self) -> Ints:
        """(tasks,): answers to each."""
        return np.bincount(self.task, minlength=self.n_tasks)

    def where(self, rows: Bools) -> Answers:
        """Some of the rows (n,); tasks and workers keep their places."""
        return Answers(
            task=self.task[rows],
            worker=self.worker[rows],
            label=self.label[rows],
            n_tasks=self.n_tasks,
            n_workers=self.n_workers,
            n_labels=self.n_labels,
            weight=self.weight,
        )


def row_sums(values: Floats) -> Floats:
    """Sums over the last axis that stay the same, to the last bit, when it is turned round: (..., k) -> (..., 1).

    >>> row_sums(np.array([0.1, 0.2, 0.3])) == row_sums(np.array([0.3, 0.2, 0.1]))
    array([ True])
    """
    return np.asarray((values + values[..., ::-1]).sum(axis=-1, keepdims=True) / 2)


def chances(scores: Floats) -> tuple[Floats, Floats]:
    """From log weights (tasks, labels): their shares, and the log of their sum (tasks,)."""
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - top)
    total = row_sums(weights)
    return weights / total, (top + np.log(total))[..., 0]


def likeliest(posterior: Floats) -> Ints:
    """(tasks, labels) -> (tasks,): the label with the largest chance, `UNKNOWN` where two have it or none is known.

    >>> likeliest(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist()
    [1, -1]
    """
    top = posterior.max(axis=-1, keepdims=True)
    first = posterior.argmax(axis=-1)
    return np.where((posterior >= top - SAME).sum(axis=-1) == 1, first, UNKNOWN)


def fixed(posterior: Floats, known: Ints | None) -> Floats:
    """The same where tasks have no `known` label (tasks,), and certainty where they have."""
    if known is None:
        return posterior
    sure = np.eye(posterior.shape[-1])[np.maximum(known, 0)]
    return np.where((known != UNKNOWN)[:, np.newaxis], sure, posterior)
