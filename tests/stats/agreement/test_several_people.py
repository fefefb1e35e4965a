"""People who rated the same outputs, together: what each of them gets alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from custodes.stats.agreement import accuracy, correlation, kendall, levels, linear
from custodes.stats.bootstrap import sign_flips


def study(seed: int) -> dict[str, Any]:
    """Three people, metrics of which one lacks outputs and one is constant, clusters of two items, weights of items."""
    rng = np.random.default_rng(seed)
    people = rng.integers(0, 4, (3, 12, 4)).astype(float)
    people[:, 0, 1] = np.nan
    metrics = np.round(people[0] + rng.normal(size=(5, 12, 4)), 1)
    metrics[1, 3:5, 2] = np.nan
    metrics[2] = 1.0
    weights = np.vstack([np.ones(6), rng.integers(0, 3, (20, 6))])
    item_weights = None if seed % 2 else rng.random(12)
    design = {"units": np.arange(12) // 2, "weights": weights, "item_weights": item_weights}
    return {"people": people, "metrics": metrics, "design": design, "flips": sign_flips(6, 50, rng)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("many", [False, True])
def test_people_together_get_what_each_gets_alone(seed: int, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if many:
        monkeypatch.setattr(levels, "MANY", 0)
        monkeypatch.setattr(linear, "MANY", 0)
        monkeypatch.setattr("custodes.stats.arrays.CHUNK", 40)
    own = study(seed)
    people, metrics, design = own["people"], own["metrics"], own["design"]
    for compute, more in (
        (accuracy.spa, {"flips": own["flips"]}),
        (correlation.pooled_spearman, {}),
        (kendall.pooled_kendall, {}),
    ):
        together = compute(people, metrics, **design, **more)
        assert together.shape == (3, 21, 5)
        assert np.isfinite(together[:, 0, [0, 1, 3, 4]]).all()
        for person, values in zip(people, together, strict=True):
            np.testing.assert_allclose(values, compute(person, metrics, **design, **more), atol=1e-12)
