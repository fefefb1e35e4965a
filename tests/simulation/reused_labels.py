"""Simulations of a gate with a ledger: false openings over up to 50 candidates, power at the twentieth, adaptive
search.

    python -m tests.simulation.reused_labels [--runs 200] [--only power]

200 labels, accuracy, threshold .80. Errors of candidates have a latent normal correlation. Beside the joint critical
values: Bonferroni with the same spending, and a gate at level .05 without a memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
from scipy.special import ndtri

from custodes.stats.arrays import Bools, Floats
from custodes.stats.intervals import correlation_of
from custodes.stats.stopping.reused_labels import (
    NextTest,
    Precision,
    level_after,
    next_level,
    proportion_z,
    spending_share,
)

LABELS, FLOOR, LEVEL, DRAWS = 200, 0.8, 0.05, 1024
TEST = Precision(FLOOR, trials=LABELS, whole=True)


class Gate:
    """`custodes gate --ledger` for accuracies on a fixed set of labels."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.results, self.critical, self.spent = rng, np.empty((0, LABELS)), list[float](), list[float]()
        self.openings, self.start = 0, 0

    def opens(self, correct: Bools) -> bool:
        self.results = np.vstack([self.results, correct - correct.mean()])
        level = next_level(level_after(self.openings, LEVEL), self.spent)
        correlation = correlation_of(self.results[self.start :])
        test = NextTest(correlation, self.critical, rng=self.rng, n_draws=DRAWS)
        critical = TEST.effective_critical(test.critical(level))
        self.critical.append(critical)
        self.spent.append(test.exceedance_probability(critical))
        is_open = proportion_z(float(correct.sum()), LABELS, FLOOR) > critical
        if is_open:
            self.openings += 1
            self.start, self.critical, self.spent = len(self.results), [], []
        return is_open


class Bonferroni(Gate):
    """Same alpha spending without the joint distribution, all of it for paths without openings."""

    def opens(self, correct: Bools) -> bool:
        self.start += 1
        return proportion_z(float(correct.sum()), LABELS, FLOOR) > -ndtri(LEVEL * spending_share(self.start))


class NoMemory(Gate):
    """Separate tests of candidates at level .05."""

    def opens(self, correct: Bools) -> bool:
        return proportion_z(float(correct.sum()), LABELS, FLOOR) > -ndtri(LEVEL)


class Candidates:
    """Candidates with given accuracies and correlated latent errors."""

    def __init__(self, correlation: float, rng: np.random.Generator) -> None:
        self.correlation, self.rng, self.common = correlation, rng, rng.standard_normal(LABELS)

    def latent(self, near: Floats | None = None) -> Floats:
        """Latent values of a new candidate, correlated with another one or (by default) with all."""
        center = self.common if near is None else near
        weight = np.sqrt(self.correlation) if near is None else self.correlation
        return weight * center + np.sqrt(1 - weight**2) * self.rng.standard_normal(LABELS)

    @staticmethod
    def correct(latent: Floats, accuracy: float) -> Bools:
        return latent < ndtri(accuracy)


def all_at_the_floor(gate: Gate, candidates: Candidates, *, n: int = 50) -> bool:
    """Whether any of n candidates at the threshold opens."""
    return any(gate.opens(candidates.correct(candidates.latent(), FLOOR)) for _ in range(n))


def good_twentieth(gate: Gate, candidates: Candidates, *, at: int = 20) -> bool:
    """Whether a candidate with accuracy .89 opens after 19 with .78."""
    for _ in range(at - 1):
        gate.opens(candidates.correct(candidates.latent(), FLOOR - 0.02))
    return gate.opens(candidates.correct(candidates.latent(), FLOOR + 0.09))


def searcher(gate: Gate, candidates: Candidates, *, good: float, n: int = 50, every: int = 1) -> bool:
    """Whether a searcher who continues after a true opening gets a false one.

    Until the first opening, every `every`-th candidate is good and the others are at the threshold. Later candidates
    are near copies of the opened one, at the threshold.
    """
    near = None
    for k in range(n):
        is_good = near is None and k % every == 0
        latent = candidates.latent(near)
        if gate.opens(candidates.correct(latent, good if is_good else FLOOR)):
            if not is_good:
                return True
            near = latent
    return False


def climber(gate: Gate, candidates: Candidates, *, good: float, n: int = 50) -> bool:
    """Whether a searcher gets a false opening with one good variant of the last opening, then two bad ones, in turn."""
    near = None
    for k in range(n):
        is_good = k % 3 == 0
        latent = candidates.latent(near)
        if gate.opens(candidates.correct(latent, good if is_good else FLOOR)):
            if not is_good:
                return True
            near = latent
    return False


STUDIES: dict[str, Callable[[Gate, Candidates], bool]] = {
    "any false opening, 50 at the floor": all_at_the_floor,
    "power for +.09 at the 20th": good_twentieth,
    "false, copies of an opening at .83": partial(searcher, good=0.83),
    "false, copies of an opening at .92": partial(searcher, good=0.92),
    "false, one of two good, .83": partial(searcher, good=0.83, every=2),
    "false, climber, good at .92": partial(climber, good=0.92),
}
GATES: dict[str, type[Gate]] = {"ledger": Gate, "bonferroni": Bonferroni, "no memory": NoMemory}


def rows(runs: int, only: str) -> Iterator[dict[str, object]]:
    """One row per study and correlation: the rate of each gate, with the standard error for the ledger."""
    for name, study in ((name, study) for name, study in STUDIES.items() if only in name):
        for correlation in (0.5, 0.8, 0.95):
            rates = {}
            for gate, kind in GATES.items():
                rngs = [np.random.default_rng([seed, int(100 * correlation)]) for seed in range(runs)]
                rates[gate] = np.mean([study(kind(rng), Candidates(correlation, rng)) for rng in rngs])
            error = np.sqrt(rates["ledger"] * (1 - rates["ledger"]) / runs)
            yield {"study": name, "correlation": correlation, **rates, "standard error": error}


def critical_values(level: float, correlation: float, *, n: int, rng: np.random.Generator) -> Floats:
    """Critical values of n equally correlated tests with a common level."""
    values = list[float]()
    for k in range(n):
        matrix = np.full((k + 1, k + 1), correlation)
        np.fill_diagonal(matrix, 1.0)
        values.append(NextTest(matrix, values, rng=rng).critical(level * spending_share(k + 1)))
    return np.array(values)


def worst_searcher(gain: float, copy: float, *, correlation: float = 0.3, n: int = 30, runs: int = 60_000) -> float:
    """Rate of false openings with normal statistics, by a searcher who knows the truth.

    All candidates are `gain` standard errors above the threshold until one opens; then n candidates at the threshold
    have the correlation `copy` with it.
    """
    rng = np.random.default_rng(0)
    before = critical_values(level_after(0, LEVEL), correlation, n=n, rng=rng)
    after = critical_values(level_after(1, LEVEL), copy**2, n=n, rng=rng)
    common = np.sqrt(correlation) * rng.standard_normal((runs, 1))
    values = common + np.sqrt(1 - correlation) * rng.standard_normal((runs, n))
    opening = values + gain > before
    opened = values[np.arange(runs), opening.argmax(axis=1)]
    copies = copy * opened[:, np.newaxis] + np.sqrt(1 - copy**2) * rng.standard_normal((runs, n))
    return float((opening.any(axis=1) & (copies > after).any(axis=1)).mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", default="", help="Studies whose name contains this.")
    options = parser.parse_args()
    if options.only in "worst searcher":
        for gain, copy in product((0.5, 1.0, 1.5, 2.0), (0.8, 0.9, 0.97)):
            print(f"worst searcher  gain {gain}  copies {copy}  false {worst_searcher(gain, copy):.4f}")
    for row in rows(options.runs, options.only):
        print("  ".join(f"{key} {value:.3f}" if isinstance(value, float) else str(value) for key, value in row.items()))
