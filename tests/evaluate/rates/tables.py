"""Tables of labels by a judge and an expert."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl


def table(
    n: int = 600, *, rate: float = 0.7, tpr: float = 0.95, tnr: float = 0.7, labelled: float = 0.25, seed: int = 0
) -> pl.DataFrame:
    """Return labels of one application by a judge, and by an expert on a random part."""
    rng = np.random.default_rng(seed)
    good = rng.random(n) < rate
    judge = np.where(good, rng.random(n) < tpr, rng.random(n) >= tnr)
    expert = pl.Series(np.where(good, "pass", "fail")).set(pl.Series(rng.random(n) >= labelled), None)
    return pl.DataFrame({"id": range(n), "judge": np.where(judge, "pass", "fail"), "expert": expert})


def row(frame: pl.DataFrame, **filters: Any) -> dict[str, Any]:
    (only,) = frame.filter(**filters).to_dicts()
    return only


def versions(rate_a: float, rate_b: float, tnr_b: float, *, seed: int = 1, n: int = 600) -> pl.DataFrame:
    """Return two versions on the same items, labelled by a judge with a TNR of .7 and another."""
    parts = [
        table(n, rate=rate, tnr=tnr, labelled=0.5, seed=seed + k).with_columns(prompt_version=pl.lit(name))
        for k, (name, rate, tnr) in enumerate((("v1", rate_a, 0.7), ("v2", rate_b, tnr_b)))
    ]
    return pl.concat(parts)


def table_of_versions(*, n_labelled: tuple[int, ...]) -> pl.DataFrame:
    """Return versions with different rates, of which annotators labelled the first outputs."""
    return pl.concat(
        [
            table(600, rate=0.9 - 0.5 * k, labelled=1, seed=k).with_columns(
                expert=pl.when(pl.col("id") < n).then("expert"), model=pl.lit("ab"[k])
            )
            for k, n in enumerate(n_labelled)
        ]
    )
