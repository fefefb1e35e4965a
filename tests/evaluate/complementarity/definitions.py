"""Complementarity and distances by their definitions, and small studies."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from custodes.evaluate.complementarity.complementarity import Complementarity
from tests.evaluate.judged_studies import Scores

LEVELS = ("system", "utterance")


def small(seed: int, *, items: int = 7, systems: int = 5, ties: bool = True, missing: bool = True) -> dict[Any, Any]:
    """Return a study of two human aspects and four metrics that share some signal."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(items, systems))
    scores = {
        key: truth * weight + rng.normal(size=truth.shape)
        for key, weight in {
            ("ann", "style"): 1.0,
            ("ann", "truth"): 1.5,
            ("bleu", ""): 1.0,
            ("rouge", ""): 0.5,
            ("judge", "style"): 2.0,
            ("judge", "truth"): 0.0,
        }.items()
    }
    for values in scores.values():
        if ties:
            values[:] = values.round()
        if missing:
            values[rng.random(values.shape) < 0.1] = np.nan
    return scores


NAMES = {
    ("ann", "style"): "human:style",
    ("ann", "truth"): "human:truth",
    ("bleu", ""): "bleu",
    ("rouge", ""): "rouge",
    ("judge", "style"): "judge:style",
    ("judge", "truth"): "judge:truth",
}


def by_definition(x: np.ndarray, y: np.ndarray, rule: str) -> float:
    """Return the distance of two rankings, or NaN where it is undefined."""
    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    if len(x) < 2:
        return np.nan
    if rule == "tau-b":
        if len(set(x)) == 1 or len(set(y)) == 1:
            return np.nan
        return (1 - stats.kendalltau(x, y).statistic) / 2
    signs = [np.sign((x[i] - x[j]) * (y[i] - y[j])) for i, j in combinations(range(len(x)), 2)]
    tied = 0.5 if rule == "half" else 0.0
    return float(np.mean([{-1: 1.0, 0: tied, 1: 0.0}[int(sign)] for sign in signs]))


def distances_by_definition(scores: Scores, rule: str, level: str) -> dict[tuple[str, str], np.ndarray]:
    """Return a dictionary from pairs of names to the distances in every item (or system)."""
    return {
        (NAMES[a], NAMES[b]): np.array(
            [
                by_definition(x, y, rule)
                for x, y in zip(
                    scores[a] if level == "system" else scores[a].T,
                    scores[b] if level == "system" else scores[b].T,
                    strict=True,
                )
            ]
        )
        for a, b in combinations(NAMES, 2)
    }


def kinds(a: str, b: str) -> str:
    return "-".join("human" if name.startswith("human") else "metric" for name in (a, b))


def values_of(answer: Complementarity) -> dict[tuple[str, str], float]:
    return {
        tuple(sorted(row[:2])): row[2] for row in answer.pairs.select("rater_a", "rater_b", "complementarity").rows()
    }


def texts_of(answer: Complementarity, rule: str) -> list[str]:
    return [note.message for note in answer.notes if note.rule == rule]
