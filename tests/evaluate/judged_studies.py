from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study

Scores = Mapping[tuple[str, str], np.ndarray]


PEOPLE = ("ann", "bob", "cy")


SYSTEMS = "ABCDEFGHIJKLMN"


def rows_of(scores: Scores) -> pl.DataFrame:
    """Return a dictionary (rater, aspect) -> scores (items, systems), with NaN for missing, as a long table."""
    rows = [
        {"item": f"i{i:03}", "system": SYSTEMS[k], "rater": rater, "aspect": aspect, "score": values[i, k]}
        for (rater, aspect), values in scores.items()
        for i, k in np.argwhere(np.isfinite(values))
    ]
    return pl.DataFrame(rows)


def study_from(rows: pl.DataFrame) -> Study:
    """Return a study from these rows with the annotators ann, bob and cy."""
    kinds = {rater: "human" if rater in PEOPLE else "metric" for rater in rows["rater"].unique(maintain_order=True)}
    return Study(ratings=Ratings.make(rows)[0], raters=Raters.infer(kinds), name="small")


def judged(scores: Scores) -> Study:
    return study_from(rows_of(scores))


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)
