from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu

pytestmark = pytest.mark.slow

ITEMS, SYSTEMS, STUDIES, MANY = 60, 8, 300, 400
RATERS = (("human", "x"), ("human", "y"), ("metric", "a"), ("metric", "b"), ("metric", "c"))


def draws(items: int, rng: np.random.Generator) -> pl.DataFrame:
    """Draw quality, a bias that the metrics share, and noise; human ratings are whole numbers, so they tie."""
    quality, taste = rng.normal(size=(2, items, SYSTEMS))
    cells = {"item": np.repeat(np.arange(items), SYSTEMS), "system": np.tile([*"ABCDEFGH"], items)}
    frames = []
    for kind, name in RATERS:
        noise = rng.normal(size=(items, SYSTEMS))
        scores = np.round(quality + 0.7 * noise) if kind == "human" else 0.5 * quality + taste + 0.5 * noise
        labels = {"rater": "ann" if kind == "human" else name, "kind": kind, "aspect": name if kind == "human" else ""}
        frame = pl.DataFrame({**cells, "score": scores.ravel()})
        frames.append(frame.with_columns(**{column: pl.lit(label) for column, label in labels.items()}))
    return pl.concat(frames)


@pytest.mark.parametrize("level", ["system", "utterance"])
def test_averages_and_gaps_are_covered(level: str) -> None:
    options: dict[str, Any] = {"level": level, "resamples": 300}
    # The expectation does not depend on the number of items, so studies of one size give the true value at both levels.
    several = [
        cu.complementarity(cu.read(draws(MANY, np.random.default_rng(10**6 + k))), level=level, resamples=0)
        for k in range(15)
    ]
    values = np.mean([study.averages["complementarity"].to_numpy() for study in several], axis=0)
    gaps = np.mean([study.gaps["difference"].to_numpy() for study in several], axis=0)
    held = np.zeros(6)
    for seed in range(STUDIES):
        study = cu.complementarity(cu.read(draws(ITEMS, np.random.default_rng(seed))), rng=seed, **options)
        low, high = study.averages.select("complementarity_low", "complementarity_high").to_numpy().T
        held[:3] += (low <= values) & (values <= high)
        low, high = study.gaps.select("difference_low", "difference_high").to_numpy().T
        held[3:] += (low <= gaps) & (gaps <= high)
    # Three standard errors of 300 studies at 95 % are .038; percentile intervals of 60 items are slightly narrow.
    assert (held / STUDIES > 0.90).all(), held / STUDIES
    assert (held / STUDIES < 0.99).all(), held / STUDIES
