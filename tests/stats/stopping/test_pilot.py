"""Probabilities after a pilot: against brute force from the prior, with increasing data, and in simulated studies."""

import numpy as np
import pytest
from scipy.special import expit

from custodes.stats.stopping.pilot import (
    _LIKELY,
    _SPREADS,
    _TAIL,
    _WIDE,
    Pilot,
    _draw_logits,
    overlap,
    posterior_shares,
)

TRIANGLE = np.array([[0, 1], [0, 2], [1, 2]])


def pilot_of(counts: np.ndarray) -> Pilot:
    """Return this many answers of each pair, with every item in one pair only."""
    pair = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    answers = np.repeat(np.tile([1, 0, -1], len(counts)), counts.ravel())
    return Pilot(pair=pair, unit=np.arange(len(pair)), sign=answers, systems=TRIANGLE)


def by_importance(counts: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return posterior means (pairs, 3) from draws of the prior, weighted by their likelihood."""
    spreads = np.array(_SPREADS)

    def effects(sign: int, centre: bool) -> np.ndarray:
        of_system = rng.choice(spreads, size=(draws, 1))
        of_pair = rng.choice(spreads, p=np.exp(-spreads / _LIKELY) / np.exp(-spreads / _LIKELY).sum(), size=(draws, 1))
        systems = of_system * rng.standard_t(_TAIL, size=(draws, 3))
        logits = systems[:, TRIANGLE[:, 0]] + sign * systems[:, TRIANGLE[:, 1]] + of_pair * rng.normal(size=(draws, 3))
        return logits + centre * _WIDE * rng.standard_t(_TAIL, size=(draws, 1))

    win, untied = (expit(effects(sign, centre)) for sign, centre in ((-1, False), (1, True)))
    shares = np.stack([untied * win, 1 - untied, untied * (1 - win)], axis=-1)
    height = (counts * np.log(np.maximum(shares, 1e-300))).sum(axis=(1, 2))
    weight = np.exp(height - height.max())
    return np.einsum("d,dpk->pk", weight / weight.sum(), shares)


@pytest.mark.parametrize("counts", [[[6, 3, 1], [8, 1, 1], [4, 4, 2]], [[2, 6, 2], [5, 5, 0], [3, 5, 2]]])
def test_it_is_the_posterior_of_its_prior(counts: list[list[int]]) -> None:
    rng = np.random.default_rng(0)
    means = posterior_shares(pilot_of(np.array(counts)), n_draws=4000, rng=rng).mean(axis=0)
    # Laplace's approximation has an error of a few points with ten annotations.
    np.testing.assert_allclose(means, by_importance(np.array(counts), 400_000, rng), atol=0.05)


@pytest.mark.parametrize("sign", [-1, 1])
def test_annotations_overlap_as_the_products_with_a_matrix_say(sign: int) -> None:
    rng = np.random.default_rng(0)
    systems = np.stack(np.triu_indices(6, 1), axis=1)[rng.permutation(15)[:9]]
    matrix = np.eye(6)[systems[:, 0]] + sign * np.eye(6)[systems[:, 1]]
    # (pairs, clusters), some without answers
    error, observed = rng.normal(size=(9, 5)), rng.random((9, 5)) < 0.7
    together, separate = matrix.T @ (error * observed), (matrix**2).T @ (error * observed) ** 2
    pair, unit = np.nonzero(observed)
    expected = max(1, (together**2).sum() / separate.sum())
    assert overlap(systems[pair], unit, error[observed], sign) == pytest.approx(expected)


def test_draws_have_the_mean_and_the_covariance_of_the_mode() -> None:
    precision = np.array([[2.0, 0.5, 0.0], [0.5, 3.0, 0.2], [0.0, 0.2, 4.0]])
    column, row, row_precision = np.array([1.0, -0.5, 0.2]), np.array([0.7, -2.0]), np.array([5.0, 8.0])
    matrix = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    modes = column, row, precision, row_precision, np.zeros(2)
    draws = _draw_logits(matrix, *modes, n_draws=200_000, rng=np.random.default_rng(0))
    np.testing.assert_allclose(draws.mean(axis=0), matrix @ column + row, atol=0.01)
    covariance = matrix @ np.linalg.inv(precision) @ matrix.T + np.diag(1 / row_precision)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.02)
