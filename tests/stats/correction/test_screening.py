"""Screening against the careful sampler: same theta, means and decisions."""

import numpy as np

from custodes.data.simulate import simulate_counts
from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture.exact import mixture_posterior
from custodes.stats.correction.mixture.screening import screened

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
