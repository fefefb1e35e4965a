import numpy as np
import pytest
from scipy.stats import kendalltau

from custodes.stats.split_half import attainable, halves


@pytest.mark.parametrize("n", range(2, 8))
def test_halves_are_every_way_once(n: int) -> None:
    ways = halves(n, most=1000, rng=np.random.default_rng(0))
    seen = set()
    for one, other in ways:
        assert sorted([*one, *other]) == list(range(n))
        assert len(one) == n // 2
        seen.add(frozenset([tuple(one), tuple(other)]))
    assert len(seen) == len(ways) == {2: 1, 3: 3, 4: 3, 5: 10, 6: 10, 7: 35}[n]  # C(n, n // 2), halved for even n


def test_many_annotators_are_split_at_random() -> None:
    ways = halves(30, most=7, rng=np.random.default_rng(0))
    assert len(ways) == 7
    assert all(len(one) == 15 == len(other) and not set(one) & set(other) for one, other in ways)


CUTS = {
    "continuous": None,
    "skewed": [-2.0, -1.6, -1.3, -0.9],  # five levels, most ratings at the best
    "binary": [0.3],
    "even": [-1.0, -0.3, 0.3, 1.0],
}


def tau(x: np.ndarray, y: np.ndarray) -> float:
    both = np.isfinite(x) & np.isfinite(y)
    return float(kendalltau(x[both], y[both]).statistic)


def mean(people: np.ndarray) -> np.ndarray:
    rated = np.isfinite(people)
    return np.where(rated, people, 0.0).sum(axis=0) / np.where(rated.any(axis=0), rated.sum(axis=0), np.nan)


def made(people: np.ndarray, *, most: int = 20) -> tuple[float, float]:
    """Return the tau-b of halves, and the attainable tau-b estimated from it."""
    ways = halves(len(people), most=most, rng=np.random.default_rng(0))
    between = np.mean([tau(mean(people[one]), mean(people[other])) for one, other in ways])
    return float(between), attainable(np.array(between), people, ways, rng=np.random.default_rng(5)).item()


@pytest.mark.parametrize(
    ("cuts", "reliability", "total"),
    [
        ("continuous", 0.2, 2),
        ("continuous", 0.9, 3),
        ("skewed", 0.5, 3),
        ("binary", 0.2, 3),
        ("binary", 0.9, 2),
        ("even", 0.5, 5),
    ],
)
def test_attainable_is_what_the_truth_reaches(cuts: str, reliability: float, total: int) -> None:
    # Simulation with known truth: normal opinions with independent normal errors, cut into five levels.
    rng = np.random.default_rng(3)
    truth = rng.normal(size=15_000)
    people = np.sqrt(reliability) * truth + np.sqrt(1 - reliability) * rng.normal(size=(total, truth.size))
    marks = CUTS[cuts]
    people = people if marks is None else np.digitize(people, marks).astype(float)
    _, best = made(people)
    assert best == pytest.approx(tau(truth, people.mean(axis=0)), abs=0.03)


def test_annotators_with_gaps_and_scales_of_their_own() -> None:
    rng = np.random.default_rng(4)
    truth = rng.normal(size=15_000)
    latent = np.sqrt(0.5) * (truth + rng.normal(size=(6, truth.size)))
    people = np.stack(
        [np.digitize(own, cut) for own, cut in zip(latent, np.linspace(-1, 1, 18).reshape(6, 3), strict=True)]
    )
    # All annotators rate a fifth of the outputs; the rest has one annotator each, which dominates the mean.
    alone = rng.permuted(np.arange(6)[:, np.newaxis] + np.zeros_like(people), axis=0) == 0
    people = np.where(alone | (np.arange(truth.size) % 5 == 0), people, np.nan)
    _, best = made(people, most=10)
    assert best == pytest.approx(tau(truth, mean(people)), abs=0.025)


def test_ties_bound_what_is_attainable() -> None:
    rng = np.random.default_rng(1)
    people = np.repeat((rng.random(2000) < 0.3).astype(float)[None], 3, axis=0)
    best = attainable(np.array([1.0, 0.95]), people, halves(3, most=5, rng=rng), rng=rng)
    # Without errors every tie remains: the tau-b of a ranking without ties is at most sqrt(1 - ties).
    assert best[0] == pytest.approx(np.sqrt(2 * 0.3 * 0.7), abs=0.02)
    assert best[1] > best[0]  # a few errors break ties in the mean of all


def test_attainable_at_the_ends() -> None:
    people = np.random.default_rng(0).normal(size=(3, 3000))
    ways = halves(3, most=5, rng=np.random.default_rng(0))
    best = attainable(np.array([1.0, 0.0, -0.3, np.nan]), people, ways, rng=np.random.default_rng(0))
    assert best[0] == pytest.approx(1.0, abs=1e-3)
    assert best[1:3].tolist() == [0.0, 0.0]
    assert np.isnan(best[3])
    flat = attainable(np.array([0.5]), np.ones((3, 10)), ways, rng=np.random.default_rng(0))
    assert np.isnan(flat).all()
