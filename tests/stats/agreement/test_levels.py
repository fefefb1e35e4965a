from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.agreement.levels import Levels, Rows, room, running


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
