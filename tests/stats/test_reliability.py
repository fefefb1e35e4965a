"""Split halves and what people's disagreement leaves to predict."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from custodes.stats.reliability import attainable, halves


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


@pytest.mark.parametrize(("sizes", "total"), [((1, 1), 2), ((1, 2), 3), ((2, 3), 5)])
@pytest.mark.parametrize("noise", [0.5, 1.5])
def test_attainable_is_what_the_truth_reaches(sizes: tuple[int, int], total: int, noise: float) -> None:
    # Simulation with known truth: normal opinions, independent normal errors.
    rng = np.random.default_rng(3)
    truth = rng.normal(size=20_000)
    people = truth + noise * rng.normal(size=(total, truth.size))
    between = kendalltau(people[: sizes[0]].mean(axis=0), people[sizes[0] :].mean(axis=0)).statistic
    best = kendalltau(truth, people.mean(axis=0)).statistic
    assert attainable(np.array(between), sizes=sizes, total=total).item() == pytest.approx(best, abs=0.01)


def test_attainable_at_the_ends() -> None:
    made = attainable(np.array([1.0, 0.0, -0.3, np.nan]), sizes=(1, 2), total=3)
    assert made[0] == pytest.approx(1.0, abs=1e-6)
    assert made[1:3].tolist() == [0.0, 0.0]
    assert np.isnan(made[3])
