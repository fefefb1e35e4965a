"""Simulated studies of any size, for `growth.py` and `waits.py`; equal seeds give equal bytes.

python benchmarks/studies.py scores FILE items=100 systems=3 metrics=3 people=1 aspects=1 seed=0
python benchmarks/studies.py battles FILE battles=1000 models=130 judges=1 seed=0
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl


def scores(*, items: int, systems: int, metrics: int, people: int = 1, aspects: int = 1, seed: int = 0) -> pl.DataFrame:
    """Long scores with effects of system, item and output; annotators rate from 1 to 5, metrics vary in noise."""
    rng = np.random.default_rng(seed)
    quality, ease = rng.normal(size=systems) * 0.4, rng.normal(size=items)
    item = names("item", items).gather(np.repeat(np.arange(items), systems))
    system = names("system", systems).gather(np.tile(np.arange(systems), items))
    parts = []
    truth = np.empty((aspects, items, systems))
    for a in range(aspects):
        truth[a] = quality + ease[:, None] * 0.6 + rng.normal(size=(items, systems))
        for p in range(people):
            human = np.clip(np.rint(3 + truth[a] + rng.normal(size=(items, systems)) * 0.7), 1, 5)
            parts.append(rows(item, system, f"person{p}", "human", f"aspect{a}" if aspects > 1 else "", human))
    for m in range(metrics):
        metric_scores = truth.mean(axis=0) * rng.uniform(0.2, 1) + rng.normal(size=(items, systems))
        parts.append(rows(item, system, f"metric{m:04}", "metric", "", metric_scores.round(6)))
    return pl.concat(parts)


def battles(*, battles: int, models: int, judges: int = 0, seed: int = 0) -> pl.DataFrame:
    """Battles of models with unequal frequencies, a fifth of them ties, by annotators and by judges."""
    rng = np.random.default_rng(seed)
    first = rng.choice(models, size=battles, p=rng.dirichlet(np.full(models, 2.0)))
    second = (first + rng.integers(1, models, size=battles)) % models
    strength = rng.normal(size=models) / 2
    ahead = strength[first] - strength[second] + rng.logistic(size=battles)
    label = names("model-", models)
    pair = pl.DataFrame(
        {"item": names("battle", battles), "model_a": label.gather(first), "model_b": label.gather(second)}
    )
    human = pair.with_columns(winner=winners(ahead, rng.random(battles) < 0.2))
    if not judges:
        return human
    parts = [human.with_columns(rater=pl.lit("people"), kind=pl.lit("human"))]
    for k in range(judges):
        biased = ahead + rng.logistic(size=battles) * 0.7 + 0.15 * (strength[first] > 1) - 0.15 * (strength[second] > 1)
        verdicts = winners(biased, rng.random(battles) < 0.1)
        parts.append(pair.with_columns(winner=verdicts, rater=pl.lit(f"judge{k}"), kind=pl.lit("metric")))
    return pl.concat(parts)


def names(what: str, n: int) -> pl.Series:
    return pl.select(pl.format(what + "{}", pl.int_range(n).cast(pl.String).str.zfill(3))).to_series()


def rows(item: pl.Series, system: pl.Series, rater: str, kind: str, aspect: str, values: np.ndarray) -> pl.DataFrame:
    columns = {"item": item, "system": system, "rater": rater, "kind": kind, "aspect": aspect, "score": values.ravel()}
    return pl.DataFrame(columns)


def winners(ahead: np.ndarray, tied: np.ndarray) -> pl.Series:
    return pl.Series(np.where(tied, "tie", np.where(ahead > 0, "model_a", "model_b")))


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write in the format of the suffix."""
    {".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson, ".csv": frame.write_csv}[path.suffix](path)


if __name__ == "__main__":
    kind, path, *sizes = sys.argv[1:]
    made: dict[str, Any] = {name: int(value) for name, _, value in (size.partition("=") for size in sizes)}
    write({"scores": scores, "battles": battles}[kind](**made), Path(path))
