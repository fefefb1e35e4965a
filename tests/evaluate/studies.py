"""Small studies for the tests of questions, from arrays of scores and of verdicts."""

from __future__ import annotations

import numpy as np
import polars as pl

import custodes as cu
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.evaluate.agreement.statistic import Sample
from custodes.evaluate.rater_comparison import compare
from custodes.stats.bootstrap import sign_flips

# Favi-Score paper, Figures 2 and 3.
GOLDEN = [
    ([[100, 0, 0], [0, 100, 0], [10, 0, 90]], 2.0),
    ([[100, 0, 0], [0, 100, 0], [0, 10, 90]], 1.0),
    ([[90, 0, 10], [0, 100, 0], [10, 0, 90]], 0.0),
    ([[90, 10, 0], [0, 100, 0], [10, 0, 90]], 0.5),
    ([[360, 180, 60], [20, 40, 40], [90, 90, 120]], -50 / 480),
]


def counts_of(tables: list) -> OutcomeCounts:
    paired = np.array(tables, dtype=np.int64)[None]
    empty = np.zeros((1, len(tables), 3), dtype=np.int64)
    return OutcomeCounts(
        paired=paired,
        metric_only=empty,
        human_only=empty,
        system_a=("A",),
        system_b=("B",),
        metrics=tuple(f"m{i}" for i in range(len(tables))),
    )


def study_of(scores: np.ndarray, systems: list[str] | None = None, people: int = 1) -> Study:
    """Return a study of scores (raters, items, systems), NaN for missing; the first `people` raters are annotators."""
    systems = systems or [f"S{k}" for k in range(scores.shape[2])]
    names = ["ann" if r == 0 else f"ann{r}" if r < people else f"m{r}" for r in range(len(scores))]
    rows = [
        {"item": f"i{i}", "system": systems[k], "rater": names[r], "score": scores[r, i, k]}
        for r, i, k in np.argwhere(np.isfinite(scores))
    ]
    kinds = {name: "human" if r < people else "metric" for r, name in enumerate(names)}
    return Study(ratings=Ratings.make(pl.DataFrame(rows))[0], raters=Raters.infer(kinds))


def scores_of(seed: int, raters: int = 3, items: int = 30, systems: int = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=systems) + rng.normal(size=(items, systems))
    scores_by_rater = quality + rng.normal(size=(raters, items, systems))
    scores_by_rater[0] = np.round(scores_by_rater[0])
    return scores_by_rater


def rated(rows: list[tuple], kinds: dict[str, str]) -> Study:
    names = ["item", "system", "rater", "aspect", "score"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return Study(ratings=Ratings.make(frame)[0], raters=Raters.infer(kinds))


def grid(rater: str, aspect: str, scores: list[list[float]]) -> list[tuple]:
    return [(f"i{i}", f"S{k}", rater, aspect, value) for i, row in enumerate(scores) for k, value in enumerate(row)]


def verdicts(rows: list[tuple]) -> Study:
    names = ["item", "system_a", "system_b", "rater", "order", "preference"]
    preferences, _ = Preferences.make(pl.DataFrame(rows, schema=names, orient="row"))
    raters = Raters.infer({row[3]: "human" if row[3].startswith("h") else "metric" for row in rows})
    return Study(preferences=preferences, raters=raters)


def problems_of(study: Study, **options: object) -> dict[str, dict[str, object]]:
    """Return a dictionary from rule to problem."""
    return {row["rule"]: row for row in cu.check(study, **options).problems.iter_rows(named=True)}  # type: ignore[arg-type]


def sample(scores: np.ndarray, resamples: int = 0) -> Sample:
    (comparison,) = compare(study_of(scores))
    rng = np.random.default_rng(0)
    times = comparison.design.draw_weights(resamples, rng)
    return Sample(comparison=comparison, times=times, flips=sign_flips(comparison.design.n_units, 10, rng))
