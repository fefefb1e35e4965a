from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.learning import pair_sums
from custodes.stats.learning.objective import OBJECTIVES, Objective
from custodes.stats.ranks import mid_ranks


@pytest.mark.parametrize("kind", OBJECTIVES)
@pytest.mark.parametrize("whole", [True, False])  # One model compares all outputs, or each model a part.
@pytest.mark.parametrize("clustered", [True, False])
def test_sums_over_pairs_by_definition(kind: Objective, whole: bool, clustered: bool) -> None:
    rng = np.random.default_rng([whole, clustered, len(kind)])
    grid = rng.permutation(60 * 5)[:200]  # outputs of 60 items and 5 systems, in any order, some missing
    item, system = np.divmod(grid, 5)
    unit = item // 4 if clustered else item
    human = rng.integers(1, 5, 200).astype(float)
    predicted = np.stack([rng.normal(size=200), rng.integers(0, 3, 200), human])
    rows = np.arange(200) if whole else np.sort(rng.permutation(200)[:20])
    row_sums, column_sums, same_label_sums = pair_sums.pair_sums(kind, human, predicted, rows, item, (unit, system))

    scores = [mid_ranks(values) if kind == "spearman" else values for values in (human, *predicted)]
    gaps = [values[rows, np.newaxis] - values for values in scores]
    if kind in ("kendall", "accuracy"):
        gaps = [np.sign(gap) for gap in gaps]
    if kind == "accuracy":
        gaps = [gap * (item[rows, np.newaxis] == item) for gap in gaps]
    products = [gaps[0] ** 2]
    for gap in gaps[1:]:
        product = gaps[0] * gap
        products += [(product > 0).astype(float)] * 2 if kind == "accuracy" else [product, gap**2]
    values = np.stack(products)
    np.testing.assert_allclose(row_sums, values.sum(axis=2), atol=1e-9)
    np.testing.assert_allclose(column_sums, values.sum(axis=1), atol=1e-9)
    for inside, label in zip(same_label_sums, (unit, system), strict=True):
        np.testing.assert_allclose(inside, (values * (label[rows, np.newaxis] == label)).sum(axis=2), atol=1e-9)
    assert np.abs(column_sums).sum() > 0
