"""Screening against the careful sampler: same theta, means and decisions."""

from unittest.mock import patch

import numpy as np
import pytest
from scipy.special import betainc

from custodes.data.simulate import simulate_counts
from custodes.stats.correction.estimator import Counts, Evidence
from custodes.stats.correction.mixture.exact import mixture_posterior
from custodes.stats.correction.mixture.screening import screened
from custodes.stats.correction.mixture.shared import Numbers
from tests.stats.correction.mixture.test_exact import TABLES, exact_sum

CHANNEL = np.array([[0.8, 0.1, 0.1], [0.25, 0.5, 0.25], [0.1, 0.1, 0.8]])  # Appendix E of the paper, [human, metric]


def tables(seed: int, n_tables: int = 60) -> Counts:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(3, 2.0), size=n_tables)
    few = np.stack([simulate_counts(own, CHANNEL, n=int(rng.integers(1, 60)), rng=rng) for own in p])
    many = np.stack([simulate_counts(own, CHANNEL, n=100, rng=rng).sum(axis=0) for own in p])
    human = rng.integers(0, 6, (n_tables, 3)) * (rng.random((n_tables, 1)) < 0.3)
    few[0] = many[1] = human[1] = 0
    return Counts(few, many, human)


def test_screened_agrees_with_the_careful_sampler() -> None:
    counts = tables(0)
    seen = screened(counts, tail=0.025, rng=np.random.default_rng(1))
    careful = mixture_posterior(
        counts, rng=np.random.default_rng(2), confidence=0.95, precision=0.002, gamma=None, max_draws=400_000
    )
    # Two Monte Carlo errors of a share from the fewest effective draws that are trusted, 64; far less on average.
    error = np.sqrt(careful.theta * (1 - careful.theta) / 64) + 0.005
    gap = np.abs(seen.theta - careful.theta)
    assert (gap < 2 * error).all()
    assert gap.mean() < 0.02
    assert np.quantile(gap, 0.8) < 0.03
    np.testing.assert_allclose(seen.p, careful.p, atol=0.06)
    decision, truth = ((theta > 0.975).astype(int) - (theta < 0.025) for theta in (seen.theta, careful.theta))
    clear = np.minimum(np.abs(careful.theta - 0.025), np.abs(careful.theta - 0.975)) > 0.005
    assert (decision == truth)[clear].all()


def test_swapping_the_systems_mirrors_the_answer() -> None:
    counts = few, many, human = tables(3, 30)
    one = screened(counts, tail=0.025, rng=np.random.default_rng(1))
    other = screened(
        Counts(few[:, ::-1, ::-1], many[:, ::-1], human[:, ::-1]), tail=0.025, rng=np.random.default_rng(1)
    )
    np.testing.assert_allclose(one.theta, 1 - other.theta, atol=0.12)
    np.testing.assert_allclose(one.p, other.p[:, ::-1], atol=0.08)
    assert np.abs(one.theta + other.theta - 1).mean() < 0.03


def one(table, seed: int = 0) -> tuple[Evidence, float]:
    """One table screened, and what its draws are worth."""
    counts = Counts(*(np.array([part]) for part in table))
    with patch.object(Evidence, "quick", wraps=Evidence.quick) as made:
        seen = screened(counts, tail=0.025, rng=np.random.default_rng(seed))
    return seen, made.call_args.kwargs["draws"][0]


@pytest.mark.parametrize("stages", [(256, 1024, 6144), (), (6144,)])
@pytest.mark.parametrize("name", TABLES)
def test_moments_are_those_of_the_exact_sum(name, stages, monkeypatch) -> None:
    # without stages every table goes to the careful sampler
    monkeypatch.setattr("custodes.stats.correction.mixture.screening._STAGES", stages)
    seen, draws = one(TABLES[name])
    weights, parameters = exact_sum(*TABLES[name])
    total = parameters.sum(axis=1)
    margin = (parameters[:, 0] - parameters[:, 2]) / total
    spread = ((parameters[:, 0] + parameters[:, 2]) / total - margin**2) / (total + 1)
    mean = weights @ margin
    sd = np.sqrt(weights @ (spread + margin**2) - mean**2)
    theta = weights @ betainc(parameters[:, 2], parameters[:, 0], 0.5)
    assert seen.theta[0] == pytest.approx(theta, abs=5 * np.sqrt(theta * (1 - theta) / draws))
    assert seen.margin[0] == pytest.approx(mean, abs=5 * sd / np.sqrt(draws))
    assert seen.margin[0] == pytest.approx(seen.p[0, 0] - seen.p[0, 2], abs=1e-6)
    # of a normal the relative error of an sd is 1 / sqrt(2 draws); from an interval it is off where the law is skewed
    assert seen.sd[0] == pytest.approx(sd, rel=5 / np.sqrt(2 * draws) + (0.0 if stages else 0.12))


@pytest.mark.parametrize("mirrored", [False, True])
def test_what_lies_near_a_threshold_gets_more_draws(mirrored) -> None:
    # theta is .77 and .959; 256 draws have an error of .026 and .013, and four of these are asked for
    for wins, more in ((40, False), (56, True)):
        paired, metric_only = np.array([[14, 2, 2], [2, 7, 3], [2, 2, 9]]), np.array([wins, 15, 80 - wins])
        if mirrored:
            paired, metric_only = paired[::-1, ::-1], metric_only[::-1]
        draws = [one((paired, metric_only, np.zeros(3)), seed)[1] for seed in range(9)]
        assert (np.median(draws) > 256) == more


@pytest.mark.parametrize("shape", [1 / 3, 0.9, 1.0, 4.5, 300.0, 40_000.0])
def test_weighted_normal_numbers_are_gammas(shape) -> None:
    """Mean and spread against those of the law, within five Monte Carlo errors."""
    draws = 200_000
    log_weights = np.zeros((1, draws), dtype=np.float32)
    values = Numbers.of(draws, np.random.default_rng(0)).gammas(np.array([shape]), 2, log_weights)[0].astype(float)
    weights = np.exp(log_weights[0].astype(float))
    assert weights.max() < 1.01  # a chance of being accepted
    assert weights.mean() > 0.94
    mean = weights @ values / weights.sum()
    assert mean == pytest.approx(shape, abs=5 * np.sqrt(shape / draws))
    spread = weights @ (values - mean) ** 2 / weights.sum()
    # of a gamma the fourth moment is 3 shape^2 + 6 shape
    assert spread == pytest.approx(shape, abs=5 * np.sqrt((2 * shape**2 + 6 * shape) / draws))


def test_what_is_said_of_a_table_depends_on_it_alone() -> None:
    counts = tables(5, 40)
    order = np.random.default_rng(0).permutation(40)
    whole = screened(counts, tail=0.025, rng=np.random.default_rng(1))
    shuffled = screened(Counts(*(part[order] for part in counts)), tail=0.025, rng=np.random.default_rng(1))
    alone = [
        screened(Counts(*(part[[k]] for part in counts)), tail=0.025, rng=np.random.default_rng(1)) for k in order[:8]
    ]
    for name in ("theta", "margin", "sd", "p"):
        own = getattr(whole, name)[order]
        np.testing.assert_array_equal(getattr(shuffled, name), own)
        np.testing.assert_array_equal(np.concatenate([getattr(one, name) for one in alone]), own[:8])
