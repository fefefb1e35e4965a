"""Fast runs of `combine`, and helpers to read their tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import custodes as cu
from custodes.combining.combine import Combine, combine
from custodes.combining.methods import METHODS
from custodes.combining.settings import Terms
from custodes.combining.task import outer_folds, task
from custodes.data.study import Study
from tests.combining.tasks import ITEMS, N_SYSTEMS
from tests.evaluate.judged_studies import Scores, judged

QUICK = ("best", "equal", "ridge", "pairwise", "xgboost", "blend")


def content(model: cu.CombinedMetric) -> tuple[object, ...]:
    """Return all parts of the model that affect predictions."""
    return model.columns, model.intercept, model.trees, model.share


def run_combine(study: Study | Scores, **options: Any) -> Combine:
    source = study if isinstance(study, Study) else judged(study)
    return combine(source, **{"method": "ridge", "repeats": 1, "resamples": 0, "unseen": "none", **options})


def column(table: pl.DataFrame, name: str, key: str = "method") -> dict[str, Any]:
    return dict(table.select(key, name).iter_rows())


def rules(result: Combine) -> dict[str, str]:
    return {note.rule: note.message for note in result.notes}


def held_out(result: Combine, method: str, *, items: int = ITEMS, systems: int = N_SYSTEMS) -> np.ndarray:
    """Return the held-out predictions (items, systems), NaN where there is none."""
    grid = np.full((items, systems), np.nan)
    rows = result.held_out.frame.filter(rater=method)
    for item, system, score in rows.select("item", "system", "score").iter_rows():
        grid[int(item[1:]), "ABCDEFGH".index(system)] = score
    return grid


def noise(seed: int, *, p: int = 12) -> Scores:
    """Return more metrics of pure noise than a dozen items can distinguish."""
    rng = np.random.default_rng(seed)
    return {("ann", ""): rng.normal(size=(12, 3))} | {(f"m{k:02}", ""): rng.normal(size=(12, 3)) for k in range(p)}


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def folds_used(study: Study, by: str = "item", **options: Any) -> list[np.ndarray]:
    """Return the outer folds of seed 0."""
    return outer_folds(task(study.select(), target=None), by, **{"repeats": 1, "rng": generator(), **options})


def accuracy(y: np.ndarray, p: np.ndarray) -> float:
    """Return the proportion of pairs of outputs within items (rows) in human order."""
    pairs = [(i, a, b) for i in range(len(y)) for a in range(y.shape[1]) for b in range(a) if y[i, a] != y[i, b]]
    return float(np.mean([(y[i, a] - y[i, b]) * (p[i, a] - p[i, b]) > 0 for i, a, b in pairs]))


def terms(*names: str, **options: Any) -> Terms:
    defaults = {"objective": "kendall", "folds": "item", "repeats": 1, "unseen": "none", "top": None, "costs": None}
    more = {"confidence": 0.95, "resamples": 0, **options}
    return Terms(methods=tuple(METHODS[name] for name in names), **{**defaults, **more})
