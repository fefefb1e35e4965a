from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.judging.bias_tests import uneven_p


def asked(failed: np.ndarray, features: np.ndarray, *, units: np.ndarray | None = None, seed: int = 0) -> float:
    units = np.arange(len(failed)) if units is None else units
    return uneven_p(failed, features, units=units, draws=1999, rng=np.random.default_rng(seed))


def test_failures_on_one_side_are_seen_and_few_failures_say_nothing() -> None:
    side = np.repeat([0.0, 1.0], 100)
    failed = np.zeros(200, dtype=bool)
    failed[:12] = True
    assert asked(failed, side[None]) < 0.005
    failed[4:] = False
    assert np.isnan(asked(failed, side[None]))
    assert np.isnan(asked(np.arange(200) < 12, np.zeros((1, 200))))


def test_a_feature_counts_by_its_order_alone_whatever_its_scale() -> None:
    rng = np.random.default_rng(1)
    failed, features = rng.random(300) < 0.1, rng.integers(0, 3, (2, 300)).astype(float)
    assert asked(failed, features) == asked(failed, 10 * features + 3)
    assert asked(failed, features) == pytest.approx(asked(failed, -features), abs=0.05)


def test_one_document_that_fails_is_one_failure() -> None:
    side, units = np.tile([0.0, 1.0], 100), np.repeat(np.arange(100), 2)
    failed = np.zeros(200, dtype=bool)
    failed[1:20:2] = True
    alone = asked(failed, side[None], units=units)
    document = asked(failed, side[None], units=np.where(np.arange(200) < 20, 0, units))
    assert alone < 0.01 < 0.05 < document


@pytest.mark.slow
def test_fair_failures_are_rarely_called_uneven() -> None:
    rng = np.random.default_rng(5)
    p = []
    for _ in range(1000):
        systems = np.stack([rng.permutation(4) for _ in range(150)])
        items = np.repeat(np.arange(150), 4)
        own = rng.normal(size=150)[items] * 1.5 + rng.normal(size=600)
        failed = rng.random(600) < 1 / (1 + np.exp(3 - own))
        features = (systems.ravel() == np.arange(4)[:, None]).astype(float)
        p.append(asked(failed, features, units=items))
    share = float(np.mean(np.array(p) <= 0.05))
    assert share - 1.645 * np.sqrt(share * (1 - share) / 1000) <= 0.05
