from __future__ import annotations

import numpy as np

from custodes.stats.annotator_models import AnnotatorLabels


def planted(
    rng: np.random.Generator, *, tasks: int, people: int, each: int, knows: np.ndarray, labels: int = 3
) -> tuple[AnnotatorLabels, np.ndarray]:
    """Return labels, with uniform guesses of annotators who do not know the answer, and the true labels."""
    truth = rng.integers(labels, size=tasks)
    task = np.repeat(np.arange(tasks), each)
    worker = np.concatenate([rng.choice(people, each, replace=False) for _ in range(tasks)])
    guess = rng.integers(labels, size=len(task))
    label = np.where(rng.random(len(task)) < knows[worker], truth[task], guess)
    return AnnotatorLabels.from_labels(task, worker, label, n_tasks=tasks, n_workers=people, n_labels=labels), truth
