from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import custodes as cu
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study

ASPECTS = ("style", "truth", "wit")
KINDS = {"ann": "human", "m1": "metric", "m2": "metric", "own": "metric", "part": "metric", "late": "metric"}


def rows(*, fewer: str) -> Iterator[tuple[str, str, str, str, float]]:
    """Return ratings of metrics with no, one or several aspects and with missing outputs; annotators differ in
    aspects."""
    rng = np.random.default_rng(3)
    for i in range(15):
        for system in "ABC":
            quality = float(rng.normal())
            for rater in ("m1", "m2", "part"):
                if rater != "part" or i > 4:
                    yield f"i{i}", system, rater, "", round(quality + float(rng.normal()), 1)
            for aspect in ASPECTS:
                yield f"i{i}", system, "own", aspect, round(quality + float(rng.normal()), 1)
                if i < 13 or aspect != fewer:
                    yield f"i{i}", system, "ann", aspect, float(np.rint(quality + rng.normal()))
            yield f"i{i}", system, "late", "truth", quality


def study(fewer: str = "") -> Study:
    frame = pl.DataFrame(list(rows(fewer=fewer)), schema=["item", "system", "rater", "aspect", "score"], orient="row")
    return Study(ratings=Ratings.make(frame)[0], raters=Raters.infer(KINDS))


@pytest.mark.parametrize("fewer", ["", "truth"])
def test_an_aspect_alone_gets_the_same_numbers(fewer: str) -> None:
    whole = cu.agreement(study(fewer), resamples=60)
    for aspect in ASPECTS:
        alone = cu.agreement(study(fewer), resamples=60, aspect=aspect)
        for name in ("metrics", "common", "comparisons", "standing"):
            expected = getattr(whole, name).filter(pl.col("aspect") == aspect)
            assert_frame_equal(getattr(alone, name), expected, rel_tol=1e-9, abs_tol=1e-12)


def test_a_metric_of_the_first_aspect_alone() -> None:
    columns = ["item", "system", "rater", "aspect", "score"]
    frame = pl.DataFrame(list(rows(fewer="")), schema=columns, orient="row")
    frame = frame.with_columns(aspect=pl.when(pl.col("rater") == "late").then(pl.lit("style")).otherwise("aspect"))
    whole = Study(ratings=Ratings.make(frame)[0], raters=Raters.infer(KINDS))
    for aspect in ("style", "truth"):
        expected = cu.agreement(whole, resamples=20).metrics.filter(pl.col("aspect") == aspect)
        alone = cu.agreement(whole, resamples=20, aspect=aspect).metrics
        assert ("late" in alone["metric"]) == (aspect == "style")
        assert_frame_equal(alone, expected, rel_tol=1e-9, abs_tol=1e-12)
