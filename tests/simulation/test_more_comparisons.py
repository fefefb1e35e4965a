"""Of the pairs that so many more comparisons are said to decide as likely as not, half or so are decided by then.

Seen (10 replications), an aspect each: SummEval .52 to .77, HANNA .46 to .68 (relevance .36); normal margins .53 to
.61. Less where margins are no bell around 0: one system stands out .26 to .36, two groups level inside .15 to .57.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import custodes as cu
from custodes.evaluate.comparison import compare
from custodes.stats.decisions.more_comparisons import more_comparisons
from custodes.stats.decisions.signtest import SignTest

REPLICATIONS = 10
RULE = SignTest(alpha=0.05)


def outcomes(signs: np.ndarray) -> np.ndarray:
    return np.stack([(signs == sign).sum(axis=-1) for sign in (1, 0, -1)], axis=-1)


def decided_by_then(signs: np.ndarray, seen: int, rng: np.random.Generator) -> tuple[int, int]:
    """Of the undecided pairs (pairs, items) whose forecast the data can check: how many, and how many are decided."""
    counts = np.zeros(2, dtype=int)
    for _ in range(REPLICATIONS):
        order = rng.permutation(signs.shape[1])
        more = more_comparisons(outcomes(signs[:, order[:seen]]), design_effect=1.0, alpha=RULE.alpha)
        for pair in np.flatnonzero((more > 0) & (more <= signs.shape[1] - seen)):
            later = outcomes(signs[pair, order[: seen + int(more[pair])]])
            counts += [1, int(RULE.decisions(later) != 0)]
    return int(counts[0]), int(counts[1])


@pytest.mark.slow
@pytest.mark.parametrize("seen", [20, 40])
@pytest.mark.parametrize(
    ("folder", "human", "metric"), [("summeval", "expert*", "bertscore-f1"), ("hanna", None, "BLEU*")]
)
def test_half_are_decided(shared_data: Path, folder: str, human: str | None, metric: str, seen: int) -> None:
    study = cu.read(shared_data / folder / "ratings.csv.gz")
    rng, of_all = np.random.default_rng(0), np.zeros(2, dtype=int)
    for comparison in compare(study, human=human, metrics=metric):
        checked, decided = decided_by_then(comparison.human_signs, seen, rng)
        print(f"{folder} {comparison.aspect}, {seen} items: {decided / checked:.2f} of {checked}")
        of_all += [checked, decided]
    assert 0.45 <= of_all[1] / of_all[0] <= 0.7


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.05, 0.15, 0.4])
@pytest.mark.parametrize("shape", ["normal", "two groups", "one stands out"])
def test_half_are_decided_of_simulated_margins(shape: str, spread: float) -> None:
    rng, of_all = np.random.default_rng(1), np.zeros(2, dtype=int)
    for _ in range(30):
        quality = rng.normal(size=12)
        if shape == "two groups":
            quality = np.sign(quality) + quality / 10
        if shape == "one stands out":
            quality = quality / 10 + 2 * (np.arange(12) == 0)
        first, second = np.triu_indices(12, 1)
        margin = np.clip(spread * (quality[first] - quality[second]), -0.9, 0.9)
        signs = np.where(rng.random((66, 400)) < (1 + margin[:, None]) / 2, 1, -1)
        of_all += decided_by_then(signs[:, rng.permutation(400)], 40, rng)
    print(f"{shape}, {spread}: {of_all[1] / of_all[0]:.2f} of {of_all[0]}")
    if of_all[0] > 200:
        assert of_all[1] / of_all[0] >= (0.45 if shape == "normal" else 0.1)
