"""Placement by rows against its definition over pairs x items."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from custodes.stats import ABSENT
from tests.stats.partiality.dense import by_definition, of_signs


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 4])
def test_rows_place_as_the_definition(share: float, size: int) -> None:
    rng = np.random.default_rng(int(100 * share) + size)
    pairs = np.array([(a, b) for a in range(7) for b in range(a + 1, 7)])
    human, metric = rng.choice(np.array([1, 0, -1], dtype=np.int8), size=(2, len(pairs), 120))
    for own in (human, metric):
        own[rng.random(own.shape) > share] = ABSENT
    units = rng.permutation(np.arange(120) // size)
    found, wanted = of_signs(human, metric, pairs, units=units), by_definition(human, metric, pairs, units=units)
    for field in dataclasses.fields(wanted):
        one, other = getattr(found, field.name), getattr(wanted, field.name)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=field.name)
