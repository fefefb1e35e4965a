from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.agreement import unit_pairs
from custodes.stats.agreement.unit_pairs import UnitPairs


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("cells", [0, 4_000_000], ids=["counted", "tables"])
def test_pairs_of_units_equal_comparisons(weighed: bool, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_pairs, "_CELLS", cells)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        n, n_units = 40, 6
        units = rng.integers(0, n_units - 1, n)  # the last one has none
        people, metrics = rng.integers(0, 5, n) / 2, np.round(rng.normal(size=(3, n)), seed % 3)
        share = rng.random(n) if weighed else np.ones(n)
        parts = rng.normal(size=(2, 2))
        pairs = UnitPairs(people, metrics, share, units=units, n_units=n_units)
        of_people = np.sign(people[:, None] - people)
        within = (units == np.arange(n_units)[:, None]) * share
        for rows, k in (([2, 0], 0), ([1, 2], 1)):
            signs = np.sign(metrics[rows][:, :, None] - metrics[rows][:, None])
            kernel = of_people * signs
            if k:
                kernel = kernel + parts[:, :1, None] * np.abs(of_people) + parts[:, 1:, None] * np.abs(signs)
            expected = within @ kernel @ within.T
            for unit in np.unique(units):
                made = pairs.with_unit(unit, np.array(rows), parts if k else None)
                np.testing.assert_allclose(made, expected[:, unit], atol=1e-12)
                later = pairs.with_unit(unit, np.array(rows), parts if k else None, later=True)
                np.testing.assert_allclose(later, expected[:, unit] * (np.arange(n_units) >= unit), atol=1e-12)
