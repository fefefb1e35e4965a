"""Weights of a combined metric by Bayesian optimisation, with equal bounds and numbers of evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beside import Beside, Work

ROWS, METRICS, INITIAL, ITERATIONS, SEEDS = 400, 6, 5, 60, 1


def data(folder: Path) -> None:
    """Scores that are more or less informative of a target."""
    import numpy as np

    rng = np.random.default_rng(0)
    target = rng.normal(size=ROWS)
    scores = target[:, np.newaxis] * np.linspace(0.1, 0.8, METRICS) + rng.normal(size=(ROWS, METRICS))
    np.savez(folder / "scores.npz", target=target, scores=scores)


def load_data(folder: Path) -> tuple[Any, Any]:
    import numpy as np

    with np.load(folder / "scores.npz") as file:
        return file["target"], file["scores"]


def value(target: Any, predicted: Any) -> float:
    """Spearman correlation with the same code for both sides; 0 for a constant."""
    import numpy as np

    ranks = [np.argsort(np.argsort(value)) for value in (target, predicted)]
    return float(np.corrcoef(*ranks)[0, 1]) if np.ptp(predicted) else 0.0


def ours(folder: Path) -> Work:
    import numpy as np

    from custodes.stats.learning.bayesopt import maximise

    target, scores = load_data(folder)

    def work() -> list[float]:
        point = maximise(
            lambda points: np.array([value(target, scores @ point) for point in points]),
            n_dims=METRICS,
            n_initial=INITIAL,
            n_iterations=ITERATIONS,
            rng=np.random.default_rng(0),
        )
        return [value(target, scores @ point)]

    return work


def theirs(folder: Path) -> Work:
    import numpy as np
    from bayes_opt import BayesianOptimization

    target, scores = load_data(folder)
    names = [f"w{k}" for k in range(METRICS)]

    def work() -> list[float]:
        search = BayesianOptimization(
            f=lambda **weights: value(target, scores @ np.array([weights[name] for name in names])),
            pbounds=dict.fromkeys(names, (0.0, 1.0)),
            random_state=0,
            verbose=0,
            allow_duplicate_points=True,
        )
        search.maximize(init_points=INITIAL, n_iter=ITERATIONS)
        return [float(search.max["target"])]

    return work


COMPARISONS = (
    Beside(
        "bayesian-optimization",
        f"weights of {METRICS} metrics, {INITIAL + ITERATIONS} evaluations, the largest correlation found",
        "bayes_opt",
        data,
        ours,
        theirs,
        0.01,
        because="two searches",
    ),
)
