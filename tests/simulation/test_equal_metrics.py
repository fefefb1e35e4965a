from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from custodes.stats.bootstrap import bootstrap_weights, sign_flips, with_point, without_block
from custodes.stats.correlation import pair_counts, within_item
from custodes.stats.multiple_testing import Family, Flips, bootstrap_tests, flip_tests
from custodes.stats.system_scores import system_fit, weighted_item_mean
from tests.simulation.rates import most

SYSTEMS, ALPHA, PER_DOCUMENT, ICC = 6, 0.05, 10, 0.3
QUALITY = np.linspace(0, 0.3, SYSTEMS)
EQUAL, WORSE = 1.0, 2.0
"""Noise of the best metrics, and of the worse half."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Rates over studies with any false claim between equal metrics; over comparisons, rates of separate false claims,
    and of true differences found jointly."""

    family: float
    single: float
    power: float


def draw(
    rng: np.random.Generator, noise: np.ndarray, items: int, documents: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw human ratings (items, systems), metrics with given noise, and the document of each item.

    Documents have ten items, whose metric errors have an intraclass correlation of .3.
    """
    unit = np.arange(items) // (PER_DOCUMENT if documents else 1)
    truth = QUALITY + rng.normal(size=(items, 1)) + rng.normal(size=(items, SYSTEMS))
    error = rng.normal(size=(len(noise), items, SYSTEMS))
    if documents:
        common = rng.normal(size=(len(noise), unit[-1] + 1, SYSTEMS))[:, unit]
        error = np.sqrt(1 - ICC) * error + np.sqrt(ICC) * common
    human = np.round(truth + 0.5 * rng.normal(size=truth.shape))
    return human, truth + noise[:, None, None] * error, unit


def flipped(human: np.ndarray, metrics: np.ndarray, unit: np.ndarray, rng: np.random.Generator, draws: int) -> Family:
    """Tests of Kendall's tau within items for every pair of metrics."""
    weights, _ = without_block(unit[-1] + 1, most=400)
    tau = within_item(human, metrics, kind="kendall")
    value = weighted_item_mean(tau, units=unit, weights=with_point(weights))
    first, second = np.triu_indices(len(metrics), 1)
    difference = value[:, first] - value[:, second]
    present = np.ones((len(weights), len(first)), dtype=bool)
    flips = Flips(first=sign_flips(len(weights), draws, rng), exact=True)
    return flip_tests(
        difference[0], difference[1:], block_sizes=present, flips=flips, confidence=1 - ALPHA, alpha=ALPHA
    )


def bootstrapped(
    human: np.ndarray, metrics: np.ndarray, unit: np.ndarray, rng: np.random.Generator, draws: int
) -> Family:
    """Tests of pairwise accuracy of system means for every pair of metrics."""
    weights = bootstrap_weights(unit[-1] + 1, draws, rng)
    result = system_fit(
        np.concatenate([human[None], metrics]),
        np.ones(human.shape, dtype=bool),
        units=unit,
        weights=weights,
        item_weights=None,
    )
    pairs = np.ones((len(metrics), SYSTEMS, SYSTEMS), dtype=bool)
    value = pair_counts(np.repeat(result[:, :1], len(metrics), axis=1), result[:, 1:], pairs=pairs).accuracy
    first, second = np.triu_indices(len(metrics), 1)
    difference = (value[:, first] - value[:, second]).T
    return bootstrap_tests(
        lambda part: difference[part],
        difference.shape,
        n_units=unit[-1] + 1,
        n_effective_units=unit[-1] + 1,
        confidence=1 - ALPHA,
        alpha=ALPHA,
    )


def rates(
    metrics: int, items: int, *, half: bool = False, documents: bool = False, studies: int = 1000, test=flipped
) -> Rates:
    """Simulate error rates for metrics that are all equal, or half of them worse."""
    rng = np.random.default_rng([metrics, items, half, documents])
    worse = np.arange(metrics) >= (metrics // 2 if half else metrics)
    noise = np.where(worse, WORSE, EQUAL)
    first, second = np.triu_indices(metrics, 1)
    equal = worse[first] == worse[second]
    family, single, power = np.zeros((3, studies))
    for k in range(studies):
        result = test(*draw(rng, noise, items, documents), rng, 499)
        significant = result.p_adjusted <= ALPHA
        family[k], single[k] = significant[equal].any(), (result.p_value[equal] <= ALPHA).mean()
        power[k] = significant[~equal].mean() if half else np.nan
        # Both use the same null hypothesis: the interval excludes 0 exactly if p is at most alpha.
        assert (((result.low > 0) | (result.high < 0)) == (result.p_value <= ALPHA)).all()
    return Rates(family=float(family.mean()), single=float(single.mean()), power=float(power.mean()))


def off_chance(metrics: int, items: int, *, documents: bool = False, studies: int = 1000) -> float:
    """Proportion of studies in which some metric of pure noise differs significantly from chance."""
    rng = np.random.default_rng([metrics, items, documents])
    wrong = 0
    for _ in range(studies):
        human, _, unit = draw(rng, np.ones(1), items, documents)
        noise = rng.normal(size=(metrics, unit[-1] + 1, SYSTEMS))[:, unit] + rng.normal(size=(metrics, *human.shape))
        weights, _ = without_block(unit[-1] + 1, most=400)
        tau = within_item(human, noise, kind="kendall")
        value = weighted_item_mean(tau, units=unit, weights=with_point(weights))
        present = np.ones((len(weights), metrics), dtype=bool)
        flips = Flips(first=sign_flips(len(weights), 499, rng), exact=True)
        result = flip_tests(value[0], value[1:], block_sizes=present, flips=flips, confidence=1 - ALPHA, alpha=ALPHA)
        wrong += bool((result.p_adjusted <= ALPHA).any())
    return wrong / studies


@pytest.mark.parametrize(("metrics", "half", "documents"), [(10, False, False), (10, True, True)])
def test_equal_metrics_are_rarely_told_apart(metrics: int, half: bool, documents: bool) -> None:
    result = rates(metrics, 120 if documents else 40, half=half, documents=documents, studies=200)
    assert result.family <= most(0.06, 200)


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("metrics", [5, 10, 20, 40])
@pytest.mark.parametrize(
    ("items", "documents"), [(12, False), (40, False), (100, False), (400, False), (120, True), (400, True)]
)
def test_familywise_false_claims(metrics: int, items: int, documents: bool, half: bool) -> None:
    result = rates(metrics, items, half=half, documents=documents)
    print(metrics, items, documents, half, result)
    assert result.family <= most(0.06, 1000)
    assert result.single <= 0.06
    if half and items == 400 and not documents:
        assert result.power >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("metrics", [5, 20, 40])
@pytest.mark.parametrize(("items", "documents"), [(12, False), (40, False), (100, False), (120, True), (400, True)])
def test_noise_is_rarely_off_chance(metrics: int, items: int, documents: bool) -> None:
    result = off_chance(metrics, items, documents=documents)
    print("chance", metrics, items, documents, result)
    assert result <= most(0.06, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("items", "documents"), [(12, False), (40, False), (100, False), (400, False), (400, True)])
def test_familywise_false_claims_of_pairwise_accuracy(items: int, documents: bool, half: bool) -> None:
    result = rates(10, items, half=half, documents=documents, test=bootstrapped)
    print("pairwise", items, documents, half, result)
    assert result.family <= most(0.06, 1000)
    assert result.single <= 0.07
