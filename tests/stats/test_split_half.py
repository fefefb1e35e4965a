import numpy as np
import pytest
from scipy.stats import kendalltau

from custodes.stats.split_half import attainable_tau, halves


@pytest.mark.parametrize("n", range(2, 8))
def test_halves_are_every_way_once(n: int) -> None:
    ways = halves(n, most=1000, rng=np.random.default_rng(0))
    seen = set()
    for first, second in ways:
        assert sorted([*first, *second]) == list(range(n))
        assert len(first) == n // 2
        seen.add(frozenset([tuple(first), tuple(second)]))
    assert len(seen) == len(ways) == {2: 1, 3: 3, 4: 3, 5: 10, 6: 10, 7: 35}[n]  # C(n, n // 2), halved for even n


def test_many_annotators_are_split_at_random() -> None:
    ways = halves(30, most=7, rng=np.random.default_rng(0))
    assert len(ways) == 7
    assert all(len(first) == 15 == len(second) and not set(first) & set(second) for first, second in ways)


CUTS = {
    "continuous": None,
    "skewed": [-2.0, -1.6, -1.3, -0.9],  # five levels, most ratings at the best
    "binary": [0.3],
}


def tau(x: np.ndarray, y: np.ndarray) -> float:
    common = np.isfinite(x) & np.isfinite(y)
    return float(kendalltau(x[common], y[common]).statistic)


def mean(human: np.ndarray) -> np.ndarray:
    is_rated = np.isfinite(human)
    return np.where(is_rated, human, 0.0).sum(axis=0) / np.where(is_rated.any(axis=0), is_rated.sum(axis=0), np.nan)


def reliability_of(human: np.ndarray, *, most: int = 20) -> tuple[float, float]:
    """Return the tau-b of halves, and the attainable tau-b estimated from it."""
    ways = halves(len(human), most=most, rng=np.random.default_rng(0))
    between = np.mean([tau(mean(human[first]), mean(human[second])) for first, second in ways])
    return float(between), attainable_tau(np.array(between), human, ways, rng=np.random.default_rng(5)).item()


@pytest.mark.parametrize(
    ("cuts", "reliability", "total"),
    [
        ("continuous", 0.2, 2),
        ("continuous", 0.9, 3),
        ("skewed", 0.5, 3),
        ("binary", 0.9, 2),
    ],
)
def test_attainable_is_what_the_truth_reaches(cuts: str, reliability: float, total: int) -> None:
    # Simulation with known truth: normal opinions with independent normal errors, cut into five levels.
    rng = np.random.default_rng(3)
    truth = rng.normal(size=15_000)
    human = np.sqrt(reliability) * truth + np.sqrt(1 - reliability) * rng.normal(size=(total, truth.size))
    marks = CUTS[cuts]
    human = human if marks is None else np.digitize(human, marks).astype(float)
    _, best = reliability_of(human)
    assert best == pytest.approx(tau(truth, human.mean(axis=0)), abs=0.03)


def test_annotators_with_gaps_and_scales_of_their_own() -> None:
    rng = np.random.default_rng(4)
    truth = rng.normal(size=15_000)
    latent = np.sqrt(0.5) * (truth + rng.normal(size=(6, truth.size)))
    human = np.stack(
        [np.digitize(opinions, cut) for opinions, cut in zip(latent, np.linspace(-1, 1, 18).reshape(6, 3), strict=True)]
    )
    # All annotators rate a fifth of the outputs; the rest has one annotator each, which dominates the mean.
    alone = rng.permuted(np.arange(6)[:, np.newaxis] + np.zeros_like(human), axis=0) == 0
    human = np.where(alone | (np.arange(truth.size) % 5 == 0), human, np.nan)
    _, best = reliability_of(human, most=10)
    assert best == pytest.approx(tau(truth, mean(human)), abs=0.025)


def test_ties_bound_what_is_attainable() -> None:
    rng = np.random.default_rng(1)
    human = np.repeat((rng.random(2000) < 0.3).astype(float)[None], 3, axis=0)
    best = attainable_tau(np.array([1.0, 0.95]), human, halves(3, most=5, rng=rng), rng=rng)
    # Without errors every tie remains: the tau-b of a ranking without ties is at most sqrt(1 - ties).
    assert best[0] == pytest.approx(np.sqrt(2 * 0.3 * 0.7), abs=0.02)
    assert best[1] > best[0]  # a few errors break ties in the mean of all


def test_attainable_at_the_ends() -> None:
    human = np.random.default_rng(0).normal(size=(3, 3000))
    ways = halves(3, most=5, rng=np.random.default_rng(0))
    best = attainable_tau(np.array([1.0, 0.0, -0.3, np.nan]), human, ways, rng=np.random.default_rng(0))
    assert best[0] == pytest.approx(1.0, abs=1e-3)
    assert best[1:3].tolist() == [0.0, 0.0]
    assert np.isnan(best[3])
    flat = attainable_tau(np.array([0.5]), np.ones((3, 10)), ways, rng=np.random.default_rng(0))
    assert np.isnan(flat).all()
