"""Do the ends of careful people's margins hold them, and is the far one right where careful people agree?

Run as a script it prints the tables of docs/explanation/statistics.md: `python -m tests.simulation.test_careless`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.simulation.careful_crowd import World, rates
from tests.stats.test_careful_margins import asked

STUDIES = 300
MARGIN = -0.2


@cache
def found(skill: float, spam: float, people: int = 40, margin: float = MARGIN) -> tuple[float, float, float, float]:
    """Mean margin as seen and corrected, coverage of the intervals that have ends, and the share without."""
    rng = np.random.default_rng(20261122)
    seen, corrected, hits, open_ = [], [], [], []
    for _ in range(STUDIES):
        made = asked(rng, skill=skill, spam=spam, people=people, margin=margin)
        own = made.corrected()
        ends = np.isfinite(own.low)
        seen.append(made.sign[made.primary == 1].mean())
        corrected.append(own.margin.mean())
        open_.append(float((~ends).mean()))
        if ends.any():
            hits.append(float(((own.low <= margin) & (margin <= own.high))[ends].mean()))
    return float(np.mean(seen)), float(np.nanmean(corrected)), float(np.mean(hits)), float(np.mean(open_))


@pytest.mark.slow
@pytest.mark.parametrize("spam", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("skill", [1.0, 0.9, 0.75])
def test_within_two_points_and_covered(skill: float, spam: float) -> None:
    _, corrected, coverage, _ = found(skill, spam)
    assert corrected == pytest.approx(MARGIN, abs=0.02)
    assert coverage >= 0.94


@pytest.mark.slow
def test_of_no_difference_none_is_made() -> None:
    _, corrected, coverage, _ = found(0.9, 0.2, margin=0.0)
    assert corrected == pytest.approx(0, abs=0.01)
    assert coverage >= 0.94


@pytest.mark.slow
@pytest.mark.parametrize(("overlap", "stopping"), [(0.12, False), (0.5, False), (0.5, True)])
@pytest.mark.parametrize("careless", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("reliability", [0.6, 0.8, 1.0])
def test_careful_people_lie_between_the_ends(
    reliability: float, careless: float, overlap: float, stopping: bool
) -> None:
    made = rates(World(reliability, careless, overlap, stopping), studies=150)
    assert made.covered >= 0.94  # measured with 300: .968 at least
    assert made.looked >= 0.94


if __name__ == "__main__":
    for overlap, stopping in ((0.12, False), (0.5, False), (0.5, True)):
        for reliability in (0.6, 0.8, 1.0):
            for careless in (0.0, 0.2, 0.4):
                world = World(reliability, careless, overlap, stopping)
                print(*world, *(f"{value:.3f}" for value in rates(world, studies=STUDIES)), flush=True)
    for skill in (1.0, 0.9, 0.75):
        for spam in (0.0, 0.2, 0.4):
            print(skill, spam, *(f"{value:.3f}" for value in found(skill, spam)), flush=True)
