from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.agreement import levels
from custodes.stats.agreement.levels import Levels, Rows, room, running
from custodes.stats.agreement.spearman import resampled
from custodes.stats.agreement.unit_pairs import untied


@pytest.mark.parametrize("digits", [0, 1, 9], ids=["ties", "some ties", "none"])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 300])
def test_sums_along_the_order_of_values_equal_comparisons(n: int, digits: int) -> None:
    rng = np.random.default_rng(n)
    values, share, drawn = np.round(rng.normal(size=n) * 3, digits), rng.random(n), rng.random((4, 3))
    units = rng.integers(0, 4, n)
    times = drawn[units] * share[:, None]
    own = Levels(values)
    tied = own.of_tied(own.those_tied(times))
    upto = running(own.by_level(Rows(times), tied, room(n, 3))).reshape(-1, 3)[own.level]
    np.testing.assert_allclose(upto, (values <= values[:, None]).astype(float) @ times)
    cubes = [[times[values == level].sum(axis=0) ** 3 for level in np.unique(values)]]
    made = own.powers(drawn, tied, share=share, units=units, power=3)
    np.testing.assert_allclose(made, np.sum(cubes, axis=1)[0])


def test_one_resample_at_a_time_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    human, metrics = rng.integers(0, 4, 50).astype(float), np.round(rng.normal(size=(3, 50)), 1)
    metrics[2] = 1.0
    units, weights, share = rng.integers(0, 9, 50), rng.integers(0, 3, (20, 9)), rng.random(50)
    sides = [human, *metrics]
    design = {"units": units, "weights": weights}
    found = resampled(human[np.newaxis], metrics, share, **design), untied(sides, share, **design)
    monkeypatch.setattr(levels, "MANY", 0)
    np.testing.assert_allclose(resampled(human[np.newaxis], metrics, share, **design), found[0], atol=1e-12)
    np.testing.assert_allclose(untied(sides, share, **design), found[1], atol=1e-9)
    assert np.isnan(found[0][..., 2]).all()
    assert np.isnan(found[1][:, 3]).all()
