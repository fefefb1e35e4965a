from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from custodes.stats.arrays import Floats
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.more_battles import _information_to_add, more_battles
from custodes.stats.strength.ranks import ranks
from custodes.stats.strength.strengths import strengths
from custodes.stats.strength.win_rates import pair_rates
from tests.stats.strength.battles import all_pairs, battles


def forecast(battles: Battles, n_systems: int, resamples: int = 500) -> tuple[Floats, Floats]:
    """Return the forecasts of all pairs, and whether each is decided."""
    rng = np.random.default_rng(0)
    fitted = strengths(battles, n_systems=n_systems, ties="davidson", resamples=resamples, rng=rng)
    rates_of = pair_rates(battles, confidence=0.95)
    decided = ranks(fitted, confidence=0.95).apart
    return more_battles(fitted, rates_of, decided, confidence=0.95), decided[rates_of.first, rates_of.second]


def scores_of(seed: int, spread: float) -> Floats:
    rng = np.random.default_rng(seed)
    return spread * np.arange(5) + rng.normal(size=(60, 5))


@pytest.mark.parametrize("seed", range(4))
def test_decided_pairs_have_no_forecast_and_closer_pairs_need_more(seed: int) -> None:
    scores = scores_of(seed, 0.25)
    more, decided = forecast(all_pairs(scores), 5)
    assert decided.any()
    assert not decided.all()
    assert np.isnan(more[decided]).all()
    assert (more[np.isfinite(more)] >= 1).all()
    # Doubling every item adds evidence, so pairs that remain undecided were undecided before.
    twice, later = forecast(all_pairs(np.concatenate([scores, scores])), 5)
    assert (later | ~decided).all()
    assert np.isnan(twice[later]).all()


def test_without_tests_or_without_any_decided_battle_there_is_none() -> None:
    scores = scores_of(0, 0.25)
    more, _ = forecast(all_pairs(scores), 5, resamples=0)
    assert np.isnan(more).all()
    more, _ = forecast(all_pairs(np.zeros((20, 5))), 5)
    assert np.isnan(more).all()


def test_of_one_pair_the_number_follows_from_the_z_test() -> None:
    signs = np.repeat([1, -1], [60, 45])
    more, decided = forecast(battles(np.zeros(105, int), np.ones(105, int), signs), 2)
    assert not decided.any()
    # z grows with the root of the number of comparisons.
    z = (60 - 45) / np.sqrt(105)
    assert more[0] == pytest.approx(105 * ((1.96 / z) ** 2 - 1), rel=0.05)


def test_pairs_with_several_comparisons_in_a_cluster_have_none() -> None:
    signs = np.random.default_rng(0).choice([1, -1], 70)
    data = battles(np.zeros(70, int), np.ones(70, int), signs)
    assert np.isfinite(forecast(data, 2)[0]).all()
    assert np.isnan(forecast(replace(data, unit=data.unit // 2), 2)[0]).all()


def test_systems_with_the_same_outcomes_on_every_item_have_none() -> None:
    scores = scores_of(0, 0.25)
    more, _ = forecast(all_pairs(np.concatenate([scores, scores[:, :1]], axis=1)), 6)
    pairs = list(zip(*np.triu_indices(6, 1), strict=True))
    assert np.isnan(more[pairs.index((0, 5))])
    # and the forecasts of the two against others are equal
    pairs_of = [(more[pairs.index((0, k))], more[pairs.index((k, 5))]) for k in range(1, 5)]
    np.testing.assert_allclose(*zip(*pairs_of, strict=True), rtol=1e-6)


def test_the_added_information_reduces_the_variance_as_far_as_asked() -> None:
    gain, variance, model = np.array([0.3, 2.0, 5.0]), np.array([0.2, 0.2, 0.05]), np.array([0.2, 0.07, 0.05])
    added = _information_to_add(gain, 1 / variance, 1 / model)
    # a weighted mean of two independent estimates with weights 1 / model and `added`
    weight = added / (1 / model + added)
    later = (1 - weight) ** 2 * variance + weight**2 / added
    np.testing.assert_allclose(later, variance / (1 + gain))
    # Under a correct variance model, information adds up.
    np.testing.assert_allclose(added[[0, 2]], (gain / variance)[[0, 2]])


def test_a_pair_with_one_battle_per_cluster_has_a_forecast_if_battles_of_other_pairs_share_clusters() -> None:
    first, second = np.repeat([0, 0], [60, 60]), np.repeat([1, 2], [60, 60])
    units = np.concatenate([np.arange(60), np.arange(60, 120) // 2])
    weights = np.random.default_rng(0).uniform(0.5, 1.5, 120)
    more, _ = forecast(battles(first, second, np.tile([1, -1, 1, -1, 1], 24), unit=units, weight=weights), 3)
    assert np.isfinite(more).tolist()[:2] == [True, False]
