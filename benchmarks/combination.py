"""Weights by Bayesian optimisation compared with bayesian-optimization, and the vectorised objective with a loop.

`python benchmarks/combination.py` uses synthetic data, and ../shared/data/summeval if available. A run of the peer
takes one to three minutes with 8 metrics and about ten with all 34 (`--metrics 34`), ours about a second. The peer
therefore has one seed unless `--peer-seeds` is larger; the total is about five minutes. Requires `pip install
bayesian-optimization`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
from bayes_opt import BayesianOptimization
from scipy import stats

from custodes.stats.learning.bayesopt import maximise
from custodes.stats.learning.objective import objective

SUMMEVAL = Path(__file__).parents[2] / "shared" / "data" / "summeval" / "ratings.csv.gz"
ITEMS, SYSTEMS, METRICS = 100, 16, 34
INITIAL, ITERATIONS = 5, 100
SEGMENTS, COLUMNS, AT_ONCE = 50_000, 20, 100
TARGETS = {"value": ">= -0.005", "time": ">= 10 times", "loop": ">= 20 times"}

Row = tuple[str, str, str]
Agreement = Callable[[np.ndarray], np.ndarray]


def summeval() -> tuple[np.ndarray, np.ndarray]:
    """Mean coherence by the experts (outputs,), and the metrics (outputs, metrics) scaled to [0, 1]."""
    ratings = pl.read_csv(SUMMEVAL, schema_overrides={"item": pl.String, "score": pl.Float64})
    expert = pl.col("rater").str.starts_with("expert") & (pl.col("aspect") == "coherence")
    human = ratings.filter(expert).group_by("item", "system").agg(target=pl.col("score").mean())
    metrics = ratings.filter(kind="metric").pivot("rater", index=["item", "system"], values="score")
    both = human.join(metrics, on=["item", "system"]).sort("item", "system")
    return both["target"].to_numpy(), scaled(
        both.drop("item", "system", "target").fill_null(strategy="mean").to_numpy()
    )


def simulated(rng: np.random.Generator, *, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Metrics of different quality with common noise, some negatively correlated with the target."""
    truth = rng.normal(size=rows)
    shared = rng.normal(size=(rows, 3)) @ rng.normal(0, 0.7, (3, columns))
    scores = truth[:, np.newaxis] * rng.uniform(-0.5, 1, columns) + shared + rng.normal(size=(rows, columns))
    return np.round(truth + rng.normal(0, 0.5, rows)), scaled(scores)


def scaled(scores: np.ndarray) -> np.ndarray:
    """Columns scaled from minimum and maximum to 0 and 1."""
    low, high = scores.min(axis=0), scores.max(axis=0)
    return (scores - low) / (high - low)


def timed(work: Callable[[], float]) -> tuple[float, float]:
    """Result and seconds of one call."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def ours(agreement: Agreement, scores: np.ndarray, seed: int) -> float:
    """Best value of our optimiser."""
    point = maximise(
        lambda points: agreement(points @ scores.T),
        n_dims=scores.shape[1],
        n_initial=INITIAL,
        n_iterations=ITERATIONS,
        rng=np.random.default_rng(seed),
    )
    return float(agreement((point @ scores.T)[np.newaxis])[0])


def peer(agreement: Agreement, scores: np.ndarray, seed: int) -> float:
    """Best value of bayesian-optimization, with -1 for undefined."""
    names = [f"w{k:03}" for k in range(scores.shape[1])]

    def value(**weights: float) -> float:
        point = np.array([weights[name] for name in names])
        return float(np.nan_to_num(agreement((scores @ point)[np.newaxis])[0], nan=-1.0))

    search = BayesianOptimization(
        f=value, pbounds=dict.fromkeys(names, (0.0, 1.0)), random_state=seed, verbose=0, allow_duplicate_points=True
    )
    search.maximize(init_points=INITIAL, n_iter=ITERATIONS)
    return float(search.max["target"])


def search(what: str, agreement: Agreement, scores: np.ndarray, *, seeds: int, peer_seeds: int) -> Iterator[Row]:
    """Best value and seconds, medians over the seeds of each."""
    medians = []
    for name, run, n in (("ours", ours, seeds), ("bayesian-optimization", peer, peer_seeds)):
        runs = [timed(lambda run=run, seed=seed: run(agreement, scores, seed)) for seed in range(n)]  # type: ignore[misc]
        value, seconds = (statistics.median(column) for column in zip(*runs, strict=True))
        medians.append((value, seconds))
        yield f"{what}: {name}, median of {n}", f"tau {value:.4f} in {seconds:.2f} s", ""
    (value, seconds), (peer_value, peer_seconds) = medians
    yield f"{what}: value, ours minus the peer's", f"{value - peer_value:+.4f}", TARGETS["value"]
    yield f"{what}: time, the peer's to ours", f"{peer_seconds / seconds:.0f} times", TARGETS["time"]


def evaluation() -> Iterator[Row]:
    """One set of weights, and a hundred jointly, on many segments; the peer is a loop over segments."""
    rng = np.random.default_rng(1)
    target, scores = simulated(rng, rows=SEGMENTS, columns=COLUMNS)
    low, high = np.quantile(scores, (0.01, 0.99), axis=0)
    weights, columns = rng.random((AT_ONCE, COLUMNS)), np.ascontiguousarray(scores.T)
    agreement = objective("kendall", target, items=np.arange(SEGMENTS))

    def arrays(n: int) -> float:
        normalised = np.clip(columns, low[:, np.newaxis], high[:, np.newaxis])
        normalised -= low[:, np.newaxis]
        normalised /= (high - low)[:, np.newaxis]
        return float(agreement(weights[:n] @ normalised)[0])

    def loop() -> float:
        rows, bounds = scores.tolist(), list(zip(weights[0].tolist(), low.tolist(), high.tolist(), strict=True))
        predictions = []
        for row in rows:
            total = 0.0
            for score, (weight, least, most) in zip(row, bounds, strict=True):
                total += weight * (min(max(score, least), most) - least) / (most - least)
            predictions.append(total)
        return float(stats.kendalltau(predictions, target).statistic)

    (single, one_seconds), (many, many_seconds), (looped, loop_seconds) = (
        min((timed(work) for _ in range(repeats)), key=lambda run: run[1])
        for work, repeats in ((lambda: arrays(1), 5), (lambda: arrays(AT_ONCE), 2), (loop, 3))
    )
    assert np.allclose([single, many], looped, atol=1e-9)
    size = f"objective, {SEGMENTS:,} segments x {COLUMNS} metrics"
    yield f"{size}: arrays", f"{one_seconds * 1e3:.0f} ms", ""
    yield f"{size}: arrays, {AT_ONCE} sets of weights at once", f"{many_seconds * 1e3:.0f} ms", ""
    yield f"{size}: a loop over segments, then scipy", f"{loop_seconds * 1e3:.0f} ms", ""
    yield f"{size}: ratio", f"{loop_seconds / one_seconds:.0f} times", TARGETS["loop"]


def main() -> None:
    """Run all and print a Markdown table."""
    parser = argparse.ArgumentParser(description="Combination of metrics: optimiser and objective.")
    parser.add_argument("--metrics", type=int, default=8, help=f"combine the best so many of {METRICS}")
    parser.add_argument("--seeds", type=int, default=10, help="runs of ours")
    parser.add_argument("--peer-seeds", type=int, default=1, help="runs of bayesian-optimization")
    options = parser.parse_args()
    print("| what | measured | target |\n|---|---|---|")
    problems = {"synthetic": simulated(np.random.default_rng(0), rows=ITEMS * SYSTEMS, columns=METRICS)}
    if SUMMEVAL.exists():
        problems["SummEval coherence"] = summeval()
    show(evaluation())
    for name, (target, scores) in problems.items():
        agreement = objective("kendall", target, items=np.zeros(len(target), dtype=int))
        best = np.argsort(-np.abs(agreement(scores.T)))[: options.metrics]
        what = f"{name}, {len(best)} metrics"
        show(search(what, agreement, scores[:, best], seeds=options.seeds, peer_seeds=options.peer_seeds))


def show(rows: Iterator[Row]) -> None:
    """Print rows of the table as they are computed."""
    for what, measured, target in rows:
        print(f"| {what} | {measured} | {target} |", flush=True)


if __name__ == "__main__":
    main()
