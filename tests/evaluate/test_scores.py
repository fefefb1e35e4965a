"""Scores of a part of the items, for which missing values fill the rest, and means of annotators."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import custodes as cu
from custodes.evaluate.scores import ItemScores, without_float_noise
from tests.evaluate.judged_studies import judged


def scores(n_items: int) -> ItemScores:
    """Return scores of two systems on the first and the third of all items."""
    human = np.array([[1.0, 2.0], [3.0, 4.0]])
    return ItemScores(items=np.array([0, 2]), n_items=n_items, persons=human[None], human=human, metrics=-human[None])


def test_items_without_scores_are_missing() -> None:
    missing = [np.nan, np.nan]
    np.testing.assert_array_equal(scores(4).spread(scores(4).human), [[1, 2], missing, [3, 4], missing])


def test_more_cells_than_memory_holds_are_refused() -> None:
    with pytest.raises(cu.InputError, match="1000000000000 items x 2 systems do not fit into memory"):
        scores(10**12).spread(scores(10**12).human)


def test_equal_means_are_ties_whatever_the_order_of_their_sums() -> None:
    # The annotators score every output .1, .2, .3 (a mean of .2 or of .20000000000000004) or 1, 2, 3 (2). A metric with
    # these two values ranks the outputs identically; one whose low scores differ by the noise does not.
    orders = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    assert orders[0].sum() / 3 != orders[1].sum() / 3
    human = {(name, "style"): np.tile(orders[:, k], (6, 1)) for k, name in enumerate(("ann", "bob", "cy"))}
    same = np.tile([0.0, 0.0, 1.0, 1.0], (6, 1))
    study = judged({**human, ("same", ""): same, ("other", ""): np.tile([0.1, 0.0, 1.0, 1.0], (6, 1))})
    pairs = cu.complementarity(study, resamples=0).pairs
    complementarities = dict(pairs.filter(pl.col("kind_a") == "human").select("rater_b", "complementarity").rows())
    # tau-b of 4 concordant pairs, where the human ratings tie one of 5 pairs that the other metric does not tie
    assert complementarities["same"] == pytest.approx(0, abs=1e-12)
    assert complementarities["other"] == pytest.approx((1 - 4 / np.sqrt(4 * 5)) / 2)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_snapping_undoes_noise_and_nothing_else(levels: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    exact = np.array(levels, dtype=float)
    spread = np.ptp(exact)
    noisy = exact + 1e-12 * spread * rng.uniform(-1, 1, exact.shape)
    result = without_float_noise(np.append(noisy, np.nan))
    assert np.isnan(result[-1])
    np.testing.assert_allclose(result[:-1], exact, atol=1e-11 * max(spread, 1))
    for i in range(len(exact)):
        np.testing.assert_array_equal(result[:-1] == result[i], exact == exact[i])
