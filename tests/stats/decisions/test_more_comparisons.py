from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from custodes.stats.decisions.more_comparisons import MOST, more_comparisons


def test_half_of_the_pairs_are_decided_after_that_many() -> None:
    # truth: margins are normal around 0; every pair goes on until it has what it is said to need
    rng, seen, pairs = np.random.default_rng(3), 60, 2000
    win = (1 + rng.normal(0, 0.15, size=pairs).clip(-0.9, 0.9)) / 2
    wins = rng.binomial(seen, win)
    more = more_comparisons(np.stack([wins, 0 * wins, seen - wins], axis=1), design_effect=1.0, alpha=0.05)
    assert ((more == 0) == (np.abs(2 * wins - seen) / np.sqrt(seen) >= norm.ppf(0.975))).all()
    reach = np.isfinite(more) & (more > 0)
    assert reach.sum() > 400
    n = seen + more[reach].astype(int)
    later = wins[reach] + rng.binomial(n - seen, win[reach])
    decided = np.abs(2 * later - n) / np.sqrt(n) >= norm.ppf(0.975)
    assert 0.45 <= decided.mean() <= 0.72
    # a quarter of them decides fewer
    some = more[reach] > 100
    few = seen + (more[reach][some] / 4).astype(int)
    early = wins[reach][some] + rng.binomial(few - seen, win[reach][some])
    assert (np.abs(2 * early - few) / np.sqrt(few) >= norm.ppf(0.975)).mean() < decided[some].mean() - 0.1


@given(
    st.lists(st.tuples(*[st.integers(0, 60)] * 3), min_size=1, max_size=6),
    st.sampled_from([0.01, 0.05, 0.2]),
)
def test_who_stands_on_which_side_does_not_matter(outcomes: list[tuple[int, int, int]], alpha: float) -> None:
    made = np.array(outcomes)
    some = more_comparisons(made, design_effect=1.0, alpha=alpha)
    np.testing.assert_allclose(some, more_comparisons(made[:, ::-1], design_effect=1.0, alpha=alpha))
    turned = more_comparisons(made[::-1], design_effect=1.0, alpha=alpha)
    np.testing.assert_allclose(some[::-1], turned, rtol=0.1)  # sums round; a step is 7 %
    finite = some[np.isfinite(some)]
    assert (finite >= 0).all()
    assert (finite <= np.ceil(MOST * made.sum(axis=1).max())).all()
    # clusters that double the variance need twice the comparisons for the same z
    twice = more_comparisons(2 * made, design_effect=2.0, alpha=alpha)
    np.testing.assert_allclose(twice, 2 * some, atol=2, rtol=0.1)


def test_nothing_seen_is_undefined_and_level_pairs_are_out_of_reach() -> None:
    outcomes = np.array([[0, 0, 0], [0, 7, 0], [10, 0, 10], [11, 0, 9]])
    more = more_comparisons(outcomes, design_effect=1.0, alpha=0.05)
    assert np.isnan(more[:2]).all()
    assert np.isinf(more[2:]).all()
