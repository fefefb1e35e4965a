from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from custodes.stats.arrays import Floats
from custodes.stats.information_gain import CriticalValue, information_gain
from custodes.stats.strength import more_battles as module
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.more_battles import _information_to_add, more_battles
from custodes.stats.strength.ranks import ranks
from custodes.stats.strength.strengths import strengths
from custodes.stats.strength.win_rates import pair_rates
from tests.stats.strength.battles import all_pairs


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


def test_more_comparisons_are_in_new_clusters_and_lower_the_critical_value(monkeypatch: pytest.MonkeyPatch) -> None:
    values = []

    def gain(z: Floats, seen: Floats, *, critical: CriticalValue) -> Floats:
        pairs = np.arange(len(z))
        values.extend(critical(np.full(len(z), gain), pairs)[0] for gain in (0.0, 1.0, 20.0))
        return information_gain(z, seen, critical=critical)

    monkeypatch.setattr(module, "information_gain", gain)
    data = all_pairs(np.random.default_rng(0).normal(size=(70, 2)))
    more, decided = forecast(replace(data, unit=data.unit // 10), 2)  # seven clusters of ten comparisons
    assert not decided.any()
    # one pair: Student's t, with six degrees of freedom now,
    np.testing.assert_allclose(values[0], t.ppf(0.975, 6), rtol=0.02)
    assert values[0] > values[1] > values[2] > 1.96
    # Fewer clusters than six allow no test at this level, and so no forecast.
    more, _ = forecast(replace(data, unit=data.unit // 14), 2)
    assert np.isnan(more).all()


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
    added = _information_to_add(gain, variance, model)
    # a weighted mean of two independent estimates with weights 1 / model and `added`
    weight = added / (1 / model + added)
    later = (1 - weight) ** 2 * variance + weight**2 / added
    np.testing.assert_allclose(later, variance / (1 + gain))
    # Under a correct variance model, information adds up.
    np.testing.assert_allclose(added[[0, 2]], (gain / variance)[[0, 2]])
