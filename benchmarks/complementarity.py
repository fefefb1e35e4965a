"""Distances between all raters with intervals: system level on HANNA, utterance level on WMT23 English-German.

`python benchmarks/complementarity.py` uses ../shared/data where it is there, else simulated scores of the same size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

import custodes as cu
from custodes.data.panel import Panel
from custodes.data.study import Study
from custodes.stats import bootstrap, rank_distance
from custodes.stats.intervals import percentile_interval
from custodes.stats.system_scores import weighted_item_mean

DATA = Path(__file__).parents[2] / "shared" / "data"
HANNA = DATA / "hanna" / "ratings.csv.gz"
WMT = DATA / "wmt23-en-de" / "mt-metrics-eval-v2.wmt23.en-de.tar.gz"
DISTANCES = ["BaryScore*", "DepthScore*", "InfoLM*"]
RESAMPLES, SCIPY_PAIRS, REPEATS = 1000, 5, 3
TARGETS = {"system": "< 5 s", "ratio": ">= 50 times", "utterance": "< 5 s"}


def hanna() -> tuple[np.ndarray, str]:
    """Scores (raters, items, systems) of human aspects, then metrics; simulated if the data are missing."""
    if not HANNA.exists():
        rng = np.random.default_rng(0)
        scores = rng.normal(size=(78, 96, 11))
        scores[:6] = rng.integers(3, 16, (6, 96, 11)) / 3
        return scores, "of HANNA's size"
    lower = pl.DataFrame({"rater": DISTANCES, "higher_is_better": ["false"] * len(DISTANCES)})
    study = cu.read(HANNA).describe(raters=lower)
    metrics = study.select(metrics="@noaspect").metrics
    humans = [panel(study, study.humans, aspect=aspect).mean(axis=0) for aspect in study.aspects]
    return np.concatenate([humans, panel(study, metrics, aspect=study.aspects[0])]), "HANNA"


def wmt() -> tuple[np.ndarray, str]:
    """Scores (raters, systems, items) with humans first; simulated if the data are missing."""
    if not WMT.exists():
        rng = np.random.default_rng(1)
        scores = rng.normal(size=(44, 13, 557))
        scores[0] = -rng.integers(0, 8, (13, 557))
        scores[0, :, 460:] = np.nan
        return scores, "of WMT23's size"
    study = cu.read(f"{WMT}::wmt23/en-de").select(human="mqm", systems="!synthetic_ref")
    scores = panel(study, [*study.humans, *study.metrics], aspect=study.aspects[0])
    by_item = ~np.isnan(scores).all(axis=(1, 2))  # some metrics have system-level scores only
    return np.ascontiguousarray(scores[by_item].swapaxes(1, 2)), "WMT23 en-de"


def panel(study: Study, raters: list[str] | tuple[str, ...], *, aspect: str) -> np.ndarray:
    """Scores (raters, items, systems) of one aspect."""
    items, systems = study.item_labels().to_list(), study.systems
    return Panel.from_study(study, raters=raters, aspect=aspect, items=items, systems=systems).values


def timed(work: Callable[[], object], *, repeats: int = REPEATS) -> float:
    """Seconds of the fastest of several calls."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def system_level() -> list[tuple[str, str, str]]:
    """All pairs of raters within items, with resampled items; a loop over scipy, scaled up from some pairs."""
    scores, name = hanna()
    n_items = scores.shape[1]
    first, second = np.triu_indices(len(scores), 1)

    def point() -> np.ndarray:
        return rank_distance.rank_distances(scores, first, second, rules=["tau-b"])[0]

    def intervals() -> None:
        weights = bootstrap.bootstrap_weights(n_items, RESAMPLES, np.random.default_rng(2))[1:]
        draws = weighted_item_mean(point(), units=np.arange(n_items), weights=weights)
        percentile_interval(draws, confidence=0.95)

    sample = np.random.default_rng(3).choice(len(first), SCIPY_PAIRS, replace=False)

    def loop() -> None:
        for p in sample:
            for x, y in zip(scores[first[p]], scores[second[p]], strict=True):
                stats.kendalltau(x, y)

    mine, peer = timed(point), timed(loop) * len(first) / SCIPY_PAIRS
    size = f"{name}, {' x '.join(map(str, scores.shape))}"
    return [
        (f"{size}: distances of {len(first)} pairs", f"{mine:.2f} s", ""),
        (f"{size}: with {RESAMPLES} resamples and intervals", f"{timed(intervals):.2f} s", TARGETS["system"]),
        (f"{size}: scipy.stats.kendalltau, the distances only", f"{peer:.0f} s", ""),
        (f"{size}: ratio, the distances only", f"{peer / mine:.0f} times", TARGETS["ratio"]),
    ]


def utterance_level() -> list[tuple[str, str, str]]:
    """All pairs of raters within systems, with the influence of every item and linearised resamples."""
    scores, name = wmt()
    n_items = scores.shape[2]
    first, second = np.triu_indices(len(scores), 1)

    def influence() -> tuple[np.ndarray, np.ndarray]:
        return rank_distance.rank_distance_influence(scores, first, second, rule="tau-b")

    def intervals() -> None:
        weights = bootstrap.bootstrap_weights(n_items, RESAMPLES, np.random.default_rng(4))[1:]
        distances, slopes = influence()
        defined = ~np.isnan(distances)
        mean = np.where(defined, distances, 0.0).sum(axis=1) / np.maximum(defined.sum(axis=1), 1)
        percentile_interval(mean + (weights - 1) @ slopes.T, confidence=0.95)

    size = f"{name}, {' x '.join(map(str, scores.shape))}"
    return [
        (f"{size}: distances and influence of {len(first)} pairs", f"{timed(influence):.2f} s", ""),
        (f"{size}: with {RESAMPLES} linearised resamples", f"{timed(intervals):.2f} s", TARGETS["utterance"]),
    ]


def main() -> None:
    """Run both levels and print a Markdown table."""
    print("| what | measured | target |\n|---|---|---|")
    for what, measured, target in [*system_level(), *utterance_level()]:
        print(f"| {what} | {measured} | {target} |", flush=True)


if __name__ == "__main__":
    main()
