"""Selective judging against SciPy's exact binomial intervals, brute force, and the properties of e-processes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from custodes.stats.rates.selective import SPARE, designed_strata, e_values, error_rates, fixed_sequence, upper_bound


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_upper_bound_is_that_of_scipy(confidence: float) -> None:
    for errors, n in ((0, 1), (0, 30), (3, 76), (10, 10), (199, 200)):
        exact = binomtest(errors, n, alternative="less").proportion_ci(confidence, method="exact").high
        bound = upper_bound(np.array(float(errors)), np.array(float(n)), confidence=confidence)
        assert float(bound) == pytest.approx(exact, abs=1e-9)


def exact_bound(errors: int, n: int, confidence: float) -> float:
    """Return the upper bound of Clopper and Pearson."""
    return 1.0 if errors == n else float(beta.ppf(confidence, errors + 1, n - errors))


def sequence(n_errors: list[int], n: list[int], *, most: float, confidence: float) -> tuple[list[bool], int]:
    """Return the fixed sequence test, threshold by threshold."""
    tested, last = [], -1
    stopped = False
    for k, (errors, number) in enumerate(zip(n_errors, n, strict=True)):
        able = number and exact_bound(min(SPARE, number), number, confidence) <= most
        tested.append(bool(able) and not stopped)
        if tested[-1]:
            stopped = exact_bound(errors, number, confidence) > most
            last = last if stopped else k
    return tested, last


def test_fixed_sequence_equals_brute_force() -> None:
    rng = np.random.default_rng(0)
    outcomes = set()
    for _ in range(60):
        n = np.cumsum(rng.integers(0, 60, size=8))
        errors = np.cumsum(rng.binomial(np.diff(n, prepend=0), rng.uniform(0, 0.2)))
        tested, last = fixed_sequence(errors.astype(float), n.astype(float), max_disagreement=0.1, confidence=0.9)
        expected = sequence(errors.tolist(), n.tolist(), most=0.1, confidence=0.9)
        assert (tested.tolist(), last) == expected
        outcomes.add(last)
    assert {-1, 7} <= outcomes


def test_e_values_are_a_martingale_at_the_largest_acceptable_disagreement() -> None:
    """The expectation over all sequences of 10 judgements is 1, and below 1 for a smaller disagreement."""
    paths = np.array(list(product([False, True], repeat=10)))
    for rate, expected in ((0.2, 1.0), (0.1, None)):
        weight = np.prod(np.where(paths, rate, 1 - rate), axis=1)
        mean = float(weight @ np.array([e_values(path, max_disagreement=0.2)[-1] for path in paths]))
        assert mean == pytest.approx(expected) if expected else mean < 0.9


def test_e_values_use_no_later_label() -> None:
    errors = np.random.default_rng(1).random(120) < 0.3
    values = e_values(errors, max_disagreement=0.1)
    for n in (1, 26, 60, 119):
        np.testing.assert_allclose(e_values(errors[:n], max_disagreement=0.1), values[:n])
    assert values[-1] > 1000
    assert e_values(np.zeros(500, dtype=bool), max_disagreement=0.1).max() < 1


def test_error_rates_fall_with_the_confidence_and_average_to_the_counts() -> None:
    errors, n = np.array([[9.0, 2.0, 3.0], [5.0, 1.0, 0.0]]), np.array([[30.0, 30.0, 30.0], [20.0, 20.0, 20.0]])
    rates = error_rates(errors, n)
    assert (np.diff(rates, axis=1) <= 1e-12).all()
    assert (rates * n).sum() == pytest.approx(errors.sum(), rel=0.15)
    assert error_rates(np.zeros((2, 3)), np.zeros((2, 3))) == pytest.approx(0.5)


def test_classes_against_the_order_are_pooled_by_their_numbers_of_labels() -> None:
    errors, n = np.array([[1.0, 20.0]]), np.array([[9.0, 99.0]])
    overall = 21.5 / 109
    smoothed = (errors[0] + overall) / (n[0] + 1)
    pooled = np.average(smoothed, weights=n[0] + 1)  # the rate may not rise with the confidence
    one_label = (21 + overall) / 109  # the only label of the judge
    odds = one_label / (1 - one_label) * pooled / (1 - pooled) / (overall / (1 - overall))
    assert smoothed[0] < smoothed[1]
    assert error_rates(errors, n)[0] == pytest.approx([odds / (1 + odds)] * 2, rel=1e-9)


def test_strata_are_divided_where_each_part_has_enough_labels() -> None:
    stratum = np.repeat([0, 1], 200)
    weight = np.tile(np.repeat([1.0, 4.0, 20.0], [20, 40, 140]), 2)
    labelled = np.random.default_rng(0).random(400) < 1 / weight
    parts = designed_strata(stratum, weight, labelled, min_n_labelled=2)
    for part in np.unique(parts):
        assert len(np.unique(stratum[parts == part])) == 1
        assert labelled[parts == part].sum() >= 2
    assert len(np.unique(parts)) > 4
    assert (designed_strata(stratum, np.ones(400), labelled, min_n_labelled=2) == stratum).all()
    for n_weights, n_parts in ((24, 48), (25, 2)):
        weights = np.arange(400.0) % n_weights + 1
        assert len(np.unique(designed_strata(stratum, weights, weights > 0, min_n_labelled=8))) == n_parts


@pytest.mark.parametrize(
    ("n_labelled", "parts"),  # of the weights 1, 2, 3, 4 in the first stratum; the second has one weight
    [
        ((2, 2, 2, 2), (3, 2, 1, 0)),
        ((2, 1, 1, 2), (2, 1, 1, 0)),
        ((1, 1, 1, 1), (1, 1, 0, 0)),
        ((1, 2, 2, 1), (1, 1, 0, 0)),
        ((0, 0, 0, 2), (0, 0, 0, 0)),
        ((1, 0, 0, 2), (0, 0, 0, 0)),
    ],
)
def test_neighbouring_weights_are_merged_until_each_part_has_two_labels(n_labelled: tuple, parts: tuple) -> None:
    weight, stratum = np.append(np.repeat([1.0, 2, 3, 4], 3), [4.0] * 3), np.repeat([5, 6], [12, 3])
    labelled = np.concatenate([np.arange(3) < n for n in (*n_labelled, 0)])
    expected = np.append(np.repeat(parts, 3), [max(parts) + 1] * 3)
    assert designed_strata(stratum, weight, labelled, min_n_labelled=2).tolist() == expected.tolist()
