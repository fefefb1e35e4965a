"""Agreement with human ratings: loops over scipy, nlpstats, and the algorithms of mt-metrics-eval as loops.

The package "mt-metrics-eval" of the index is a different tool. Tie calibration (Deutsch, Foster and Freitag 2023, "Ties
Matter", Algorithm 1) and soft pairwise accuracy (Thompson, Mathur, Deutsch and Khayrallah 2024) are therefore
implemented here from the papers, independently of this package.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from beside import Beside, Work

ITEMS, SYSTEMS, METRICS = 100, 16, 34
RESAMPLES, PEER_RESAMPLES, PERMUTATIONS, PEER_METRICS = 1000, 10, 1000, 4
PEER_PERMUTATIONS = 200
PAIRS = METRICS * (METRICS - 1) / 2


def data(folder: Path) -> None:
    """Complete study of SummEval's size: human means of three ratings, which tie, and continuous metric scores."""
    import numpy as np

    rng = np.random.default_rng(0)
    truth = rng.normal(size=SYSTEMS) * 0.4 + rng.normal(size=(ITEMS, SYSTEMS))
    human = np.clip(np.rint(3 + truth + rng.normal(size=(3, ITEMS, SYSTEMS)) * 0.7), 1, 5).mean(axis=0)
    share = rng.uniform(0.2, 1, (METRICS, 1, 1))
    metrics = (truth * share + rng.normal(size=(METRICS, ITEMS, SYSTEMS))).round(3)
    flips = rng.choice(np.array([-1, 1], dtype=np.int8), size=(PERMUTATIONS, ITEMS))
    np.savez(folder / "scores.npz", people=human.round(6), metrics=metrics, flips=flips)


def arrays(folder: Path) -> tuple[Any, Any, Any]:
    import numpy as np

    with np.load(folder / "scores.npz") as file:
        return file["people"], file["metrics"], file["flips"]


def study(human: Any, metrics: Any) -> Any:
    """Study from the arrays."""
    import numpy as np
    import polars as pl

    import custodes as cu

    item = np.repeat([f"i{k:03}" for k in range(len(human))], human.shape[1])
    system = np.tile([f"s{k:02}" for k in range(human.shape[1])], len(human))
    cells = {"item": item, "system": system}
    parts = [pl.DataFrame({**cells, "rater": "people", "kind": "human", "score": human.ravel()})]
    for m, scores in enumerate(metrics):
        parts.append(pl.DataFrame({**cells, "rater": f"m{m:02}", "kind": "metric", "score": scores.ravel()}))
    return cu.read(pl.concat(parts))


def every_statistic(folder: Path) -> Work:
    """`agreement` with all statistics, their intervals, and tests between all metrics."""
    import custodes as cu

    ratings = study(*arrays(folder)[:2])

    def work() -> list[float]:
        result = cu.agreement(ratings, resamples=RESAMPLES).metrics.sort("metric")
        names = ("pearson_global", "spearman_global", "kendall_global")
        return [float(value) for name in names for value in result[name]]

    return work


def by_scipy(folder: Path) -> Work:
    """Three correlations for every metric, and for some metrics in some resamples."""
    import numpy as np
    from scipy import stats

    human, metrics, _ = arrays(folder)
    rng = np.random.default_rng(0)
    statistics = (stats.pearsonr, stats.spearmanr, stats.kendalltau)

    def work() -> tuple[list[float], float]:
        began = time.process_time()
        for _ in range(PEER_RESAMPLES):
            resample = rng.integers(ITEMS, size=ITEMS)
            x = human[resample].ravel()
            for metric in metrics[:PEER_METRICS]:
                for statistic in statistics:
                    statistic(x, metric[resample].ravel())
        seconds = (time.process_time() - began) * RESAMPLES * METRICS / (PEER_RESAMPLES * PEER_METRICS)
        return [float(statistic(human.ravel(), y.ravel())[0]) for statistic in statistics for y in metrics], seconds

    return work


def calibrated(folder: Path) -> Work:
    """acc_eq and epsilon of all metrics."""
    import numpy as np

    from custodes.stats.accuracy import acc_eq

    human, metrics, _ = arrays(folder)

    def work() -> list[float]:
        ones = np.ones((1, ITEMS))
        result, _ = acc_eq(human, metrics, human_tie=1e-9, units=np.arange(ITEMS), weights=ones)
        return [float(value) for value in result[0]]

    return work


def calibrated_by_a_loop(folder: Path) -> Work:
    """Loop over the sorted absolute differences of all pairs, each as tie threshold; all items have as many pairs."""
    human, metrics, _ = arrays(folder)
    rows = human.tolist()

    def best_accuracy(metric: list[list[float]]) -> float:
        events, right = [], 0
        for x, y in zip(rows, metric, strict=True):
            for a in range(SYSTEMS):
                for b in range(a + 1, SYSTEMS):
                    difference, metric_difference = x[a] - x[b], round(y[a] - y[b], 6)
                    if abs(difference) <= 1e-9:
                        events.append((abs(metric_difference), 1))
                    elif difference * metric_difference > 0:
                        right += 1
                        events.append((abs(metric_difference), -1))
        events.sort()
        best, at = right, 0
        while at < len(events):
            size = events[at][0]
            while at < len(events) and events[at][0] == size:
                right += events[at][1]
                at += 1
            best = max(best, right)
        return best / (ITEMS * SYSTEMS * (SYSTEMS - 1) / 2)

    return lambda: [best_accuracy(metric.tolist()) for metric in metrics]


def soft(folder: Path) -> Work:
    """Soft pairwise accuracy of all metrics, with given permutations."""
    import numpy as np

    from custodes.stats.accuracy import spa

    human, metrics, flips = arrays(folder)

    def work() -> list[float]:
        result = spa(human, metrics, units=np.arange(ITEMS), weights=np.ones((1, ITEMS)), flips=flips)
        return [float(value) for value in result[0]]

    return work


def soft_by_a_loop(folder: Path) -> Work:
    """A p-value per pair of systems and rater, from swapping the systems on random items; NumPy within a pair."""

    human, metrics, flips = arrays(folder)
    signs = flips.astype(float)

    def p_values(scores: Any) -> list[float]:
        results = []
        for a in range(SYSTEMS):
            for b in range(a + 1, SYSTEMS):
                differences = scores[:, a] - scores[:, b]
                results.append(float(((signs @ differences) >= differences.sum() - 1e-9).mean()))
        return results

    def work() -> list[float]:
        person = p_values(human)
        results = []
        for metric in metrics:
            metric_p = p_values(metric)
            results.append(1 - sum(abs(p - q) for p, q in zip(person, metric_p, strict=True)) / len(person))
        return results

    return work


def compared(folder: Path) -> Work:
    """Tests of all pairs of metrics by within-item tau, computed jointly with the other results of `agreement`."""
    import custodes as cu

    ratings = study(*arrays(folder)[:2])

    def work() -> list[float]:
        result = cu.agreement(ratings, resamples=RESAMPLES, compare_by=["kendall_item"]).metrics.sort("metric")
        return [float(value) for value in result["kendall_item"]]

    return work


def by_nlpstats(folder: Path) -> Work:
    """`correlate` for every metric, and `permutation_test` for the first pair with some permutations."""
    from nlpstats.correlations.correlations import correlate
    from nlpstats.correlations.permutation import permutation_test

    human, metrics, _ = arrays(folder)
    z = human.T

    def work() -> tuple[list[float], float]:
        options = {"coefficient": "kendall", "level": "input"}
        swapped = {"permutation_method": "inputs", "n_resamples": PEER_PERMUTATIONS}
        began = time.process_time()
        permutation_test(metrics[0].T, metrics[1].T, z, **options, **swapped)
        seconds = (time.process_time() - began) * PERMUTATIONS * PAIRS / PEER_PERMUTATIONS
        return [float(correlate(metric.T, z, **options)) for metric in metrics], seconds

    return work


COMPARISONS = (
    Beside(
        "scipy, a loop",
        "bootstrap of Pearson, Spearman and Kendall over all outputs, 34 metrics, 1,000 resamples (the loop: 10"
        " resamples of 4 metrics, scaled up; ours: the whole of `agreement`; the numbers are the estimates)",
        "scipy",
        data,
        every_statistic,
        by_scipy,
        1e-9,
    ),
    Beside(
        "tie calibration as published (mt-metrics-eval's, not the package)",
        "acc_eq of 34 metrics, 100 items x 16 systems; a plain loop from the paper",
        "numpy",
        data,
        calibrated,
        calibrated_by_a_loop,
        1e-9,
    ),
    Beside(
        "SPA as published (mt-metrics-eval's, not the package)",
        "SPA of 34 metrics, 120 pairs of systems, 1,000 permutations, the same flips; a loop over pairs, NumPy within",
        "numpy",
        data,
        soft,
        soft_by_a_loop,
        1e-9,
    ),
    Beside(
        "nlpstats",
        "tests of all 561 pairs of metrics by within-item tau (nlpstats: 200 swaps of items of one pair, scaled"
        " up to 1,000 of all pairs; ours: the whole of `agreement`, its tests by its own draws; numbers: the taus)",
        "nlpstats",
        data,
        compared,
        by_nlpstats,
        1e-9,
    ),
)
