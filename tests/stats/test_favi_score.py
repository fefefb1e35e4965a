from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from custodes.stats.favi_score import ERROR_COST, errors, favi_posterior, favi_score, sample_accuracy

tables = hnp.arrays(np.int64, st.tuples(st.integers(1, 6), st.just(3), st.just(3)), elements=st.integers(0, 50))


def swap(counts):
    return counts[..., ::-1, ::-1]


def margins(counts):
    """Return wins minus losses by humans and by the metric."""
    return tuple(np.asarray(counts, dtype=float).sum(axis=axis) @ [1, 0, -1] for axis in (-1, -2))


def posterior(counts, *, draws=200, seed=0, confidence=0.95):
    return favi_posterior(counts, confidence=confidence, draws=draws, rng=np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("counts", "favi"),
    [
        # worked examples of the Favi-Score paper (von Däniken et al. 2024), rows human, columns metric
        ([[100, 0, 0], [0, 100, 0], [10, 0, 90]], 2.0),
        ([[100, 0, 0], [0, 100, 0], [0, 10, 90]], 1.0),
        ([[90, 0, 10], [0, 100, 0], [10, 0, 90]], 0.0),
        ([[90, 10, 0], [0, 100, 0], [10, 0, 90]], 0.5),
        ([[360, 180, 60], [20, 40, 40], [90, 90, 120]], -50 / 480),
    ],
)
def test_worked_examples(counts, favi):
    assert favi_score(np.array(counts)) == favi


def test_worked_example_outcomes():
    # last example of the paper, its margins counted by hand
    counts = np.array([[360, 180, 60], [20, 40, 40], [90, 90, 120]], dtype=np.uint32)
    assert margins(counts) == (300, 250)
    assert errors(counts) == 480
    assert sample_accuracy(counts) == 0.52


def test_unsigned_counts_do_not_wrap():
    counts = np.array([[1, 0, 0], [0, 0, 0], [0, 3, 9]], dtype=np.uint32)
    assert favi_score(swap(counts)) == -1


def test_without_errors_there_is_no_favoritism():
    counts = np.stack([np.diag([5, 0, 2]), np.zeros((3, 3), dtype=np.int64)])
    result = posterior(counts)
    for undefined in (favi_score(counts), result.low, result.high):
        assert np.isnan(undefined).all()
    assert np.isnan(sample_accuracy(counts)).tolist() == [False, True]
    # Unobserved errors can still flip a decision; without any comparison the result is undefined.
    assert np.isnan(result.flip_probability).tolist() == [False, True]


@given(tables)
def test_by_definition_and_lemma_1(counts):
    for table, favi in zip(counts, favi_score(counts), strict=True):
        mistakes = [(h, m, table[h, m]) for h in range(3) for m in range(3) if h != m]
        total = sum(count for *_, count in mistakes)
        human, metric = margins(table)
        by_margins = metric - human
        if total == 0:
            assert np.isnan(favi)
            assert by_margins == 0
        else:
            assert favi == pytest.approx(sum((h - m) * count for h, m, count in mistakes) / total)
            assert favi == pytest.approx(by_margins / total)
            assert -2 <= favi <= 2


@given(tables)
def test_swapping_the_systems_mirrors_everything(counts):
    np.testing.assert_array_equal(favi_score(swap(counts)), -favi_score(counts))
    np.testing.assert_array_equal(sample_accuracy(swap(counts)), sample_accuracy(counts))
    np.testing.assert_array_equal(errors(swap(counts)), errors(counts))
    first, second = posterior(counts), posterior(swap(counts))
    np.testing.assert_array_equal(second.low, -first.high)
    np.testing.assert_array_equal(second.high, -first.low)
    np.testing.assert_array_equal(second.flip_probability, first.flip_probability)


@given(tables, st.randoms(use_true_random=False))
def test_interval_holds_the_point_and_ignores_the_order_of_tables(counts, random):
    result, favi = posterior(counts), favi_score(counts)
    defined = ~np.isnan(favi)
    assert (np.isnan(result.low) == ~defined).all()
    assert (result.low[defined] <= favi[defined]).all()
    assert (favi[defined] <= result.high[defined]).all()
    assert (result.low[defined] >= -2).all()
    assert (result.high[defined] <= 2).all()
    order = random.sample(range(len(counts)), len(counts))
    for shuffled, straight in zip(posterior(counts[order]), result, strict=True):
        np.testing.assert_array_equal(shuffled, straight[order])


REFERENCE_TABLES = np.array(
    [
        [[90, 10, 0], [0, 100, 0], [10, 0, 90]],
        [[360, 180, 60], [20, 40, 40], [90, 90, 120]],
        [[10, 1, 0], [2, 3, 0], [0, 0, 9]],
        [[2000, 30, 5], [12, 700, 40], [9, 60, 1990]],
        [[0, 0, 0], [0, 0, 0], [3, 0, 0]],
        [[90, 3, 10], [1, 100, 1], [10, 3, 90]],  # symmetric
    ]
)


@pytest.mark.parametrize("table", REFERENCE_TABLES)
def test_posterior_is_the_dirichlet_one(table):
    draws = 100_000
    result = posterior(table, draws=draws, seed=1)
    # independent: Dirichlet(counts + 1/6) over all nine cells, statistics by their definitions in float64
    cells = np.random.default_rng(2).dirichlet(table.ravel() + 1 / 6, size=draws).reshape(-1, 3, 3)
    human, metric = margins(cells)
    favi = (cells * ERROR_COST).sum((1, 2)) / (cells * (ERROR_COST != 0)).sum((1, 2))
    low, high = np.quantile(favi, [0.025, 0.975])
    point = favi_score(table)
    # The sd of a quantile over 100,000 draws is below 0.004 here, that of a difference below 0.006.
    assert result.low == pytest.approx(min(low, point), abs=0.02)
    assert result.high == pytest.approx(max(high, point), abs=0.02)
    assert result.flip_probability == pytest.approx(np.mean(human * metric < 0), abs=0.01)


def test_other_tables_change_nothing_but_the_noise():
    whole = posterior(REFERENCE_TABLES, draws=20_000)
    other_tables = np.random.default_rng(0).integers(0, 50, (300, 3, 3))  # more than one block of draws
    among_others = posterior(np.concatenate([REFERENCE_TABLES, other_tables]), draws=20_000)
    for a, b in zip(whole, among_others, strict=True):
        np.testing.assert_allclose(a, b[: len(a)], atol=0.05)


def test_without_draws_the_posterior_is_undefined():
    for undefined in posterior(REFERENCE_TABLES, draws=0):
        assert undefined.shape == (6,)
        assert np.isnan(undefined).all()
