"""Do margins without careless answers keep what they promise, with second opinions on 12 % of comparisons?

Run as a script it prints the table of docs/explanation/statistics.md: `python -m tests.simulation.test_careless`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.stats.people.test_careless import asked

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
    assert coverage >= 0.93


@pytest.mark.slow
def test_of_no_difference_none_is_made() -> None:
    _, corrected, coverage, _ = found(0.9, 0.2, margin=0.0)
    assert corrected == pytest.approx(0, abs=0.01)
    assert coverage >= 0.93


if __name__ == "__main__":
    for skill in (1.0, 0.9, 0.75):
        for spam in (0.0, 0.2, 0.4):
            print(skill, spam, *(f"{value:.3f}" for value in found(skill, spam)), flush=True)
