from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from custodes.stats.stopping.pilot import _WIDER, _WIDER_SHARED
from tests.real import calibrate_forecast
from tests.real.calibrate_forecast import Replay, coverage_with, covered, fitted

PILOTS = 24


@pytest.mark.slow
def test_each_set_is_held_with_the_constants_of_the_others(shared_data: Path) -> None:
    results = {name: calibrate_forecast.replays(shared_data, name, PILOTS) for name in calibrate_forecast.SOURCES}
    # 48 pilots give exactly these constants.
    assert fitted(list(results.values())) == pytest.approx((_WIDER, _WIDER_SHARED), abs=0.25)
    for name, rows in results.items():
        constants = fitted([others for key, others in results.items() if key != name])
        result = coverage_with([row for row in rows if row.by_lot], constants)
        print(name, constants, result)
        error = np.sqrt(0.9 * 0.1 / PILOTS)  # two forecasts of a pilot are dependent
        assert 0.87 - 2 * error <= result.coverage <= 0.95 + 2 * error, name
        assert result.width <= 1.5 * result.width_before, name


def _replay(share: float, *, by_lot: bool) -> Replay:
    return Replay(by_lot, share, middle=0.5, reach=0.1, low=0.4, high=0.6, shared=0.0 if by_lot else 1.0)


def test_constants_are_the_least_that_hold_enough() -> None:
    """One hundred pilots of each kind. The standard error is hundredths of 1.6 times the half-width for separate items,
    and of twice the half-width otherwise."""
    errors = np.arange(1, 101) / 1000
    by_lot = [_replay(0.5 + 1.6 * error, by_lot=True) for error in errors]
    common = [_replay(0.5 - 2.0 * error, by_lot=False) for error in errors]
    factor, more = fitted([by_lot + common])
    target = calibrate_forecast.TARGET
    assert factor == pytest.approx(np.ceil(1.6 * target / 0.05 - 1e-9) * 0.05)
    for rows in (by_lot, common):
        assert covered(rows, factor, more) >= target > covered(rows, factor - 0.05, max(0.0, more - 0.1))
