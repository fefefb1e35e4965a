from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from custodes.stats.decisions.more_comparisons import MOST, more_comparisons


def chance(outcome: tuple[int, int, int], spread: float, more: float, *, seed: int = 0) -> float:
    """How often a sign test decides after so many more comparisons: margins, then comparisons, drawn one by one."""
    rng = np.random.default_rng(seed)
    wins, ties, losses = outcome
    seen, n = wins + losses, 40_000
    # posterior of the margin of untied comparisons, prior normal(0, spread), each with variance 1
    variance = 1 / (seen + 1 / spread)
    margin = rng.normal(variance * (wins - losses), np.sqrt(variance), size=n)
    later = round(more * seen / (seen + ties))
    sums = wins - losses + rng.normal(later * margin, np.sqrt(later))
    return float((np.abs(sums) / np.sqrt(seen + later) >= norm.ppf(0.975)).mean())


def test_half_of_the_studies_decide_after_that_many() -> None:
    outcomes = np.array([[30, 10, 20], [45, 0, 10], [12, 30, 22], [26, 4, 24]])
    seen = outcomes[:, 0] + outcomes[:, 2]
    z = (outcomes[:, 0] - outcomes[:, 2]) / np.sqrt(seen)
    spread = (z**2 - 1).sum() / seen.sum()
    more = more_comparisons(outcomes, design_effect=1.0, alpha=0.05)
    assert more[1] == 0
    for i in (0, 2, 3):
        assert chance(tuple(outcomes[i]), spread, more[i]) == pytest.approx(0.5, abs=0.02)


@given(
    st.lists(st.tuples(*[st.integers(0, 60)] * 3), min_size=1, max_size=6),
    st.sampled_from([0.01, 0.05, 0.2]),
)
def test_who_stands_on_which_side_does_not_matter(outcomes: list[tuple[int, int, int]], alpha: float) -> None:
    made = np.array(outcomes)
    some = more_comparisons(made, design_effect=1.0, alpha=alpha)
    np.testing.assert_array_equal(some, more_comparisons(made[:, ::-1], design_effect=1.0, alpha=alpha))
    np.testing.assert_array_equal(some[::-1], more_comparisons(made[::-1], design_effect=1.0, alpha=alpha))
    finite = some[np.isfinite(some)]
    assert (finite >= 0).all()
    assert (finite <= np.ceil(MOST * made.sum(axis=1).max())).all()
    # clusters that double the variance need twice the comparisons for the same z
    twice = more_comparisons(2 * made, design_effect=2.0, alpha=alpha)
    np.testing.assert_allclose(twice, 2 * some, atol=1)


def test_nothing_seen_is_undefined_and_level_pairs_are_out_of_reach() -> None:
    outcomes = np.array([[0, 0, 0], [0, 7, 0], [10, 0, 10], [11, 0, 9]])
    more = more_comparisons(outcomes, design_effect=1.0, alpha=0.05)
    assert np.isnan(more[:2]).all()
    assert np.isinf(more[2:]).all()
