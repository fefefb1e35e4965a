"""Random studies of scores and preferences with missing values."""

from __future__ import annotations

import numpy as np
import polars as pl

from custodes.data.items import Items
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study


def study(seed: int, *, n_items: int = 40, per_cluster: int = 1, scores: bool = True, orders: bool = False) -> Study:
    """Two annotators and three metrics on five systems.

    Some raters give scores, some give preferences, and most have few of either. With `orders`, preferences have a
    presentation order, which is missing for some.
    """
    rng = np.random.default_rng(seed)
    systems, items = list("EDCBA"), [f"i{i}" for i in range(n_items)]
    rated, results = [], []
    for rater, share in {"ann": 0.2, "bob": 0.3, "m1": 0.3, "m2": 0.0, "m3": 0.6}.items():
        for item in items:
            rated_systems = [system for system in systems if scores and rng.random() < share]
            rated += [(rater, item, system, float(rng.integers(1, 6))) for system in rated_systems]
            for _ in range(rng.integers(0, 3)):
                a, b = rng.choice(systems, 2, replace=False)
                results.append((rater, item, str(a), str(b), int(rng.integers(-1, 2))))
    names = ["rater", "item", "system_a", "system_b", "preference"]
    verdicts = pl.DataFrame(results, schema=names, orient="row").with_columns(
        repeat=pl.int_range(pl.len()).over("rater", "item").cast(pl.String)
    )
    if orders:
        again = verdicts.with_columns(pl.col("preference") * pl.Series(rng.choice([1, 1, -1], len(verdicts))))
        verdicts = pl.concat([verdicts, again]).with_columns(
            order=pl.Series(["ab"] * len(verdicts) + ["ba"] * len(verdicts)),
            preference=pl.when(pl.Series(rng.random(2 * len(verdicts)) < 0.9)).then("preference"),
        )
    cells = pl.DataFrame(rated, schema=["rater", "item", "system", "score"], orient="row")
    clusters = pl.DataFrame({"item": items, "cluster": [f"c{i // per_cluster}" for i in range(n_items)]})
    kinds = {name: "human" if name in ("ann", "bob") else "metric" for name in ("ann", "bob", "m1", "m2", "m3")}
    return Study(
        ratings=Ratings.make(cells)[0] if rated else Ratings(),
        preferences=Preferences.make(verdicts)[0],
        raters=Raters.infer(kinds),
        items=Items.make(clusters)[0],
    )
