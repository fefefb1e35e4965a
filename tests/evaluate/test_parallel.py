from __future__ import annotations

import numpy as np
import polars as pl

import custodes as cu
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.evaluate.parallel import map_parts
from custodes.progress import silent


def draws_of(labels: list[str], seed: int = 0) -> dict[str, list[float]]:
    """Return a random number of each part."""

    def answer(label: str, rng: np.random.Generator) -> tuple[str, list[float]]:
        return label, rng.random(4).tolist()

    rng = np.random.default_rng(seed)
    return dict(map_parts(answer, labels, rng=rng, progress=silent, desc="draw", label=str))


def test_a_part_draws_the_same_whatever_the_others_are() -> None:
    whole = draws_of(["style", "truth", "length"])
    assert list(whole) == ["style", "truth", "length"]
    for labels in (["style"], ["truth"], ["length", "style", "truth"]):
        for label, values in draws_of(labels).items():
            assert values == whole[label]


def test_the_answer_about_an_aspect_does_not_depend_on_the_other_aspects() -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"item": f"i{i}", "system": system, "rater": rater, "aspect": aspect, "score": float(rng.integers(0, 4))}
        for aspect in ("style", "truth")
        for rater in ("ann", "m1", "m2")
        for i in range(15)
        for system in "ABC"
    ]
    kinds = {"ann": "human", "m1": "metric", "m2": "metric"}
    study = Study(ratings=Ratings.make(pl.DataFrame(rows))[0], raters=Raters.infer(kinds))
    whole = cu.agreement(study, resamples=100)
    for aspect in ("style", "truth"):
        alone = cu.agreement(study, resamples=100, aspect=aspect)
        assert alone.metrics.equals(whole.metrics.filter(pl.col("aspect") == aspect))
        assert alone.comparisons.equals(whole.comparisons.filter(pl.col("aspect") == aspect))
