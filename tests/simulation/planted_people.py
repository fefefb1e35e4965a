"""Simulated annotators of known competence: honest, biased to a side, or careless."""

from __future__ import annotations

import numpy as np
import polars as pl

SYSTEMS = np.array(["Aster", "Birch", "Cedar", "Dahlia"])
PAIRS = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
STRENGTH = np.array([0.9, 0.5, 0.2, 0.0])


def assignments(
    rng: np.random.Generator, *, people: int, tasks: int, overlap: float, times: int, uneven: bool
) -> np.ndarray:
    """Task and annotator of each answer (n, 2), with `times` annotators for the proportion `overlap` of tasks,
    otherwise one."""
    share = 1 / np.arange(1, people + 1) if uneven else np.ones(people)
    rows = []
    for task in range(tasks):
        many = times if task < overlap * tasks else 1
        rows += [(task, w) for w in rng.choice(people, many, replace=False, p=share / share.sum())]
    return np.array(rows)


def study(
    rng: np.random.Generator,
    *,
    people: int = 20,
    tasks: int = 600,
    overlap: float = 0.12,
    times: int = 2,
    uneven: bool = False,
    sided: float = 0.0,
    careless: float = 0.0,
    ties: float = 0.2,
    skill: tuple[float, float] = (6.0, 2.5),
) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Rows of battles; type of each annotator (people,): side-biased (1), careless (2), or honest (0); Cohen's kappa of
    each.

    An honest annotator knows the answer with a probability from a beta distribution, and otherwise guesses with the
    frequencies of answers. A careless one always guesses uniformly.
    """
    pair = rng.integers(len(PAIRS), size=tasks)
    gap = STRENGTH[PAIRS[pair, 0]] - STRENGTH[PAIRS[pair, 1]]
    win = (1 - ties) * (0.5 + 0.4 * gap)
    shares = np.stack([win, np.full(tasks, ties), 1 - ties - win], axis=1)
    truth = (rng.random((tasks, 1)) > shares.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    usual = shares.mean(axis=0)
    kind = np.zeros(people, dtype=int)
    some = rng.permutation(people)
    kind[some[: round(sided * people)]] = 1
    kind[some[round(sided * people) : round((sided + careless) * people)]] = 2
    knows = np.where(kind == 0, rng.beta(*skill, people), 0.0)
    task, person = assignments(rng, people=people, tasks=tasks, overlap=overlap, times=times, uneven=uneven).T
    first = rng.random(len(task)) < 0.5  # whether the first system is in the first position
    guess = (
        rng.random((len(task), 1)) > np.where((kind == 2)[person][:, None], np.full(3, 1 / 3), usual).cumsum(1)
    ).sum(1)
    label = np.where(rng.random(len(task)) < knows[person], truth[task], guess.clip(0, 2))
    label = np.where(kind[person] == 1, np.where(first, 0, 2), label)
    rows = pl.DataFrame(
        {
            "item": [f"i{t}" for t in task],
            "system_a": SYSTEMS[PAIRS[pair[task], 0]],
            "system_b": SYSTEMS[PAIRS[pair[task], 1]],
            "rater": [f"w{w:03d}x" for w in person],
            "kind": "human",
            "order": np.where(first, "ab", "ba"),
            "preference": 1 - label,
        }
    )
    guesses = np.where((kind == 2)[:, None], 1 / 3, np.where((kind == 1)[:, None], [0.5, 0, 0.5], usual))
    probability = usual[:, None] * (knows[:, None, None] * np.eye(3) + (1 - knows)[:, None, None] * guesses[:, None, :])
    same, chance = (
        np.trace(probability, axis1=1, axis2=2),
        (probability.sum(axis=1) * probability.sum(axis=2)).sum(axis=1),
    )
    return rows, kind, (same - chance) / (1 - chance)
