"""Annotators with planted errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from custodes.stats.annotator_quality import CarefulMargins, careful_margins


@dataclass
class Asked:
    """Answers to comparisons of known labels by people who look with known chances, and guess by a style of theirs."""

    sign: np.ndarray
    task: np.ndarray
    person: np.ndarray
    pair: np.ndarray
    primary: np.ndarray
    care: float

    def corrected(self, **changed: np.ndarray) -> CarefulMargins:
        named = {
            "sign": self.sign,
            "task": self.task,
            "person": self.person,
            "pair": self.pair,
            "primary": self.primary,
        }
        given = named | changed
        return careful_margins(**given, unit=given["task"], confidence=0.95)


def asked(
    rng: np.random.Generator,
    *,
    people: int = 40,
    pairs: int = 10,
    n: int = 60,
    spam: float = 0.2,
    overlap: float = 0.12,
    skill: float = 0.9,
    margin: float = -0.2,
) -> Asked:
    care = np.clip(rng.normal(skill, 0.07 * (skill < 1), people), 0, 1)
    care[: round(spam * people)] = 0
    style = np.array([[0.35, 0.3, 0.35], [0.5, 0, 0.5], [0.1, 0.8, 0.1]])[rng.integers(0, 3, people)]
    tasks = pairs * n
    truth = rng.choice([1, 0, -1], size=tasks, p=[0.35 + margin / 2, 0.3, 0.35 - margin / 2])
    first = rng.permutation(np.resize(np.arange(people), tasks))
    again = np.flatnonzero(rng.random(tasks) < overlap)
    task = np.concatenate([np.arange(tasks), again])
    person = np.concatenate([first, (first[again] + rng.integers(1, people, len(again))) % people])
    guess = (rng.random(len(task))[:, np.newaxis] > style[person].cumsum(axis=1)).sum(axis=1).clip(0, 2)
    said = np.where(rng.random(len(task)) < care[person], truth[task], 1 - guess)
    return Asked(
        sign=said.astype(np.float64),
        task=task,
        person=person,
        pair=np.repeat(np.arange(pairs), n),
        primary=(np.arange(len(task)) < tasks).astype(np.float64),
        care=float(care[first].mean()),
    )
