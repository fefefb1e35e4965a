from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.agreement import linear
from custodes.stats.learning.objective import OBJECTIVES, Objective
from custodes.stats.learning.pair_sums import pair_sums


@pytest.mark.parametrize("kind", OBJECTIVES)
@pytest.mark.parametrize("whole", [True, False])  # one model compares all outputs, or this one some
@pytest.mark.parametrize("clustered", [True, False])
def test_counting_many_outputs_equals_comparing_them(
    kind: Objective, whole: bool, clustered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng([whole, clustered, len(kind)])
    grid = rng.permutation(60 * 5)[:200]  # outputs of 60 items and 5 systems, in any order, some missing
    item, system = np.divmod(grid, 5)
    unit = item // 4 if clustered else item
    people = rng.integers(1, 5, 200).astype(float)
    said = np.stack([rng.normal(size=200), rng.integers(0, 3, 200), people])
    rows = np.arange(200) if whole else np.sort(rng.permutation(200)[:70])
    compared = pair_sums(kind, people, said, rows, item, (unit, system))
    monkeypatch.setattr(linear, "MANY", 0)
    counted = pair_sums(kind, people, said, rows, item, (unit, system))
    for one, other in zip(compared, counted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert np.abs(compared.column).sum() > 0
