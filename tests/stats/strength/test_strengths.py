from __future__ import annotations

from dataclasses import replace

import choix
import evalica
import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from custodes.errors import InputError
from custodes.stats import ABSENT
from custodes.stats.bootstrap import bootstrap_weights
from custodes.stats.strength.battles import Battles, count_by_kind
from custodes.stats.strength.davidson import fit
from custodes.stats.strength.ranks import ranks
from custodes.stats.strength.strengths import Strengths, fitted, interval, strengths
from tests.stats.strength.battles import Arena, battles, chances, outcomes, swapped

FIVE = Arena(5, 400)


def made(own: Battles, systems: int = 5, *, ties: str = "davidson", resamples: int = 50, seed: int = 0) -> Strengths:
    return strengths(own, n_systems=systems, ties=ties, resamples=resamples, rng=np.random.default_rng(seed))


def centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean()


def test_without_ties_as_choix() -> None:
    own = Arena(5, 400, nu=0.0, order=0.0).draw(np.random.default_rng(1))
    won = [(a, b) if s > 0 else (b, a) for a, b, s in zip(own.first, own.second, own.sign, strict=True)]
    reference = choix.opt_pairwise(5, won, tol=1e-12)  # choix 0.4.1
    for ties in ("davidson", "half"):
        np.testing.assert_allclose(made(own, ties=ties).draws[0], centred(reference), atol=1e-6)


@pytest.mark.parametrize("nu", [0.0, 0.8])
def test_ties_as_half_wins_as_evalica(nu: float) -> None:
    own = Arena(5, 400, nu=nu, order=0.0).draw(np.random.default_rng(2))
    winner = [{1: evalica.Winner.X, 0: evalica.Winner.Draw, -1: evalica.Winner.Y}[int(s)] for s in own.sign]
    names = [f"s{i}" for i in range(5)]
    found = evalica.bradley_terry(  # evalica 0.4.2
        [names[a] for a in own.first], [names[b] for b in own.second], winner, tolerance=1e-14, limit=100_000
    )
    reference = np.log([found.scores[name] for name in names])
    np.testing.assert_allclose(made(own, ties="half").draws[0], centred(reference), atol=1e-6)


def test_davidson_by_brute_force() -> None:
    """The likelihood of Davidson 1970 with an order effect, weights and another covariate, maximised by BFGS."""
    rng = np.random.default_rng(3)
    own = FIVE.draw(rng)
    own = replace(
        own, covariates=np.column_stack([own.covariates, rng.normal(size=400)]), weight=rng.integers(1, 4, 400) / 2
    )

    def loss(x: np.ndarray) -> float:
        eta = x[own.first] - x[own.second] + own.covariates @ x[5:7]
        chance = chances(eta, np.exp(x[7]))[np.arange(400), 1 - own.sign]
        return -own.weight @ np.log(chance) + x[:5].sum() ** 2

    best = minimize(loss, np.zeros(8), method="BFGS", options={"gtol": 1e-8}).x
    found = made(own)
    np.testing.assert_allclose(found.draws[0], best[:5], atol=2e-6)
    np.testing.assert_allclose(found.effects[0], best[5:7], atol=2e-6)
    np.testing.assert_allclose(np.log(found.ties[0]), best[7], atol=2e-6)


def test_covariates_as_statsmodels() -> None:
    """Coefficients, and errors of one battle per cluster (HC0 where leverage is small), of a logistic regression."""
    rng = np.random.default_rng(4)
    arena = Arena(4, 4000, nu=0.0)
    own = arena.draw(rng)
    own = replace(own, covariates=np.column_stack([own.covariates, rng.normal(size=4000)]))
    x = np.zeros((4000, 4))
    x[np.arange(4000), own.first] += 1
    x[np.arange(4000), own.second] -= 1
    regressors = np.column_stack([x[:, 1:] - x[:, :1] * 0, own.covariates])  # system 0 is the reference
    reference = sm.Logit((own.sign > 0).astype(float), regressors).fit(disp=0, tol=1e-12, cov_type="HC0")
    found = made(own, 4, resamples=200)
    relative = found.draws[:, 1:] - found.draws[:, :1]
    np.testing.assert_allclose(relative[0], reference.params[:3], atol=1e-6)
    np.testing.assert_allclose(found.effects[0], reference.params[3:], atol=1e-6)
    errors = np.concatenate([relative[1:].std(axis=0, ddof=1), found.effects[1:].std(axis=0, ddof=1)])
    np.testing.assert_allclose(errors, reference.bse, rtol=5e-3)


def test_errors_by_cluster_as_statsmodels() -> None:
    own = Arena(4, 6000, nu=0.0, order=0.0, size=10, taste=1.0).draw(np.random.default_rng(5))
    x = np.zeros((6000, 4))
    x[np.arange(6000), own.first] += 1
    x[np.arange(6000), own.second] -= 1
    grouped = {"groups": own.unit, "use_correction": False}
    reference = sm.Logit((own.sign > 0).astype(float), x[:, 1:]).fit(disp=0, cov_type="cluster", cov_kwds=grouped)
    found = made(own, 4, resamples=200)
    relative = (found.draws[:, 1:] - found.draws[:, :1])[1:].std(axis=0, ddof=1)
    np.testing.assert_allclose(relative, reference.bse, rtol=1e-2)
    assert (relative > 1.2 * made(replace(own, unit=np.arange(6000)), 4).draws[1:, 1:].std(axis=0)).all()


def test_draws_spread_as_refits_do() -> None:
    """With many battles the bootstrap of scores equals refits on resampled clusters."""
    own, rng = Arena(4, 3000, size=5, taste=0.7).draw(np.random.default_rng(6)), np.random.default_rng(7)
    refits = []
    for often in bootstrap_weights(600, 120, rng)[1:]:
        again = count_by_kind(own, often[own.unit])
        found = fit(again, component=np.zeros(4, dtype=int), ties_are_half=False, penalised=False)
        assert found is not None
        refits.append(found.coefficients)
    drawn = made(own, 4, resamples=120)
    ours = np.column_stack([drawn.draws, drawn.effects, np.log(drawn.ties)])[1:].std(axis=0, ddof=1)
    # The standard deviation of 120 refits has an error of 6 %.
    np.testing.assert_allclose(ours, np.std(refits, axis=0, ddof=1), rtol=0.2)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["davidson", "half"]))
def test_symmetries(seed: int, ties: str) -> None:
    rng = np.random.default_rng(seed)
    own = Arena(5, 150, size=3, taste=0.5).draw(rng)
    own = replace(own, weight=rng.integers(1, 4, 150) / 2)
    base = made(own, ties=ties)

    def errors(found: Strengths) -> np.ndarray:
        return found.draws[1:].std(axis=0)

    turned_round = made(swapped(own), ties=ties)
    np.testing.assert_allclose(turned_round.draws, base.draws, atol=1e-8)
    np.testing.assert_allclose(turned_round.effects, base.effects, atol=1e-8)
    order = rng.permutation(150)
    moved = made(own.where(order), ties=ties)
    np.testing.assert_allclose(moved.draws[0], base.draws[0], atol=1e-8)
    np.testing.assert_allclose(errors(moved), errors(base), rtol=1e-6)
    name = rng.permutation(5)
    renamed = made(replace(own, first=name[own.first], second=name[own.second]), ties=ties)
    np.testing.assert_allclose(renamed.draws[0, name], base.draws[0], atol=1e-8)
    np.testing.assert_allclose(errors(renamed)[name], errors(base), rtol=1e-6)
    np.testing.assert_array_equal(renamed.bounded[name], base.bounded)
    heavier = made(replace(own, weight=7 * own.weight), ties=ties)
    np.testing.assert_allclose(heavier.draws, base.draws, atol=1e-8)
    turned = made(replace(own, sign=-own.sign, covariates=-own.covariates), ties=ties)
    np.testing.assert_allclose(turned.draws[0], -base.draws[0], atol=1e-8)
    np.testing.assert_allclose(turned.effects[0], base.effects[0], atol=1e-8)


def test_without_verdict_or_weight_does_not_count() -> None:
    own = FIVE.draw(np.random.default_rng(9))
    more = battles(
        np.append(own.first, [0, 1]),
        np.append(own.second, [1, 2]),
        np.append(own.sign, [ABSENT, 1]),
        covariates=np.append(own.covariates, [[1.0], [1.0]], axis=0),
        weight=np.append(np.ones(400), [1.0, 0.0]),
    )
    np.testing.assert_allclose(made(more).draws, made(own).draws, atol=1e-12)


def test_groups_that_never_met_are_apart() -> None:
    own = battles([0, 0, 2, 3, 2], [1, 1, 3, 2, 3], [1, -1, 1, 1, 1])
    found = made(own, 5)
    assert found.component.tolist() == [0, 0, 1, 1, 2]
    np.testing.assert_allclose(found.draws[0, :4], [0, 0, np.log(2) / 2, -np.log(2) / 2], atol=1e-8)
    assert np.isnan(found.draws[:, 4]).all()
    np.testing.assert_allclose(found.draws[:, 0], -found.draws[:, 1])
    assert found.bounded.all()


def test_unbeaten_is_finite_by_firth() -> None:
    """20 wins without a loss: Firth's estimate adds half a win and half a loss, log(20.5 / .5)."""
    found = made(battles([0] * 20, [1] * 20, [1] * 20), 2, resamples=200)
    assert found.draws[0, 0] - found.draws[0, 1] == pytest.approx(np.log(20.5 / 0.5), abs=1e-6)
    assert not found.bounded.any()
    low, high = interval(found.draws, confidence=0.95, n_units=found.n_units)
    # The interval must contain the log odds of one loss in 20 (2.94) and those of no loss in a hundred (5.3).
    assert 2 * low[0] < 2.94
    assert 2 * high[0] > 5.3


def test_unbeaten_is_named_and_the_others_are_not() -> None:
    first, second = [0] * 20 + [1, 2] * 30, [1, 2] * 10 + [2, 3] * 30
    sign = [1] * 20 + ([1] * 2 + [-1] * 2 + [0] * 2) * 10
    found = made(battles(first, second, sign), 4)
    assert found.bounded.tolist() == [False, True, True, True]
    assert found.draws[0].argmax() == 0
    assert np.isfinite(found.draws).all()
    beaten = made(battles(second, first, sign), 4)
    np.testing.assert_allclose(beaten.draws[0], -found.draws[0], atol=1e-8)
    assert beaten.bounded.tolist() == [False, True, True, True]


def test_the_penalty_does_nothing_where_there_is_a_maximum() -> None:
    own = battles([0] * 21, [1] * 21, [1] * 20 + [-1])
    found = fitted(own, n_systems=2, ties="davidson")
    assert not found.fit.pseudo.any()
    assert np.ptp(found.fit.coefficients) == pytest.approx(np.log(20), abs=1e-8)


def test_order_that_tells_every_winner_is_finite() -> None:
    shown = np.tile([1.0, -1.0], 30)
    found = made(battles([0] * 60, [1] * 60, shown, covariates=shown[:, np.newaxis]), 2)
    assert found.effects[0, 0] > 2
    assert np.isfinite(found.draws).all()
    assert not found.bounded.any()


def test_nothing_but_ties_is_no_certainty() -> None:
    for ties in ("davidson", "half"):
        found = made(battles([0] * 20, [1] * 20, [0] * 20), 2, ties=ties)
        np.testing.assert_allclose(found.draws[0], 0, atol=1e-12)
        assert found.draws[1:].std() > 0.01


@pytest.mark.parametrize("column", [np.ones(60), np.zeros(60)])
def test_covariates_that_tell_nothing(column: np.ndarray) -> None:
    own = battles([0] * 60, [1] * 60, [1, -1, 1] * 20, covariates=column[:, np.newaxis])
    with pytest.raises(InputError, match="cannot be separated from the strengths; leave out one that does not vary"):
        made(own, 2)


def test_no_verdict() -> None:
    with pytest.raises(InputError, match="no battle has a verdict"):
        made(battles([0], [1], [ABSENT]), 2)


def test_one_cluster_has_no_interval() -> None:
    own = replace(FIVE.draw(np.random.default_rng(1)), unit=np.zeros(400, dtype=int))
    found = made(own)
    low, high = interval(found.draws, confidence=0.95, n_units=found.n_units)
    assert np.isnan(low).all()
    assert np.isnan(high).all()


def test_a_system_of_one_cluster_is_not_sure() -> None:
    """The effect of a system in a single cluster has no error between clusters, but must not look precise."""
    rng = np.random.default_rng(2)
    own = Arena(3, 300, size=10, order=0.0).draw(rng)
    alone = battles(
        np.append(own.first, [0] * 10),
        np.append(own.second, [3] * 10),
        np.append(own.sign, outcomes(chances(np.zeros(10), 0.5), rng)),
        unit=np.append(own.unit, [30] * 10),
    )
    spread = made(alone, 4, resamples=200).draws[1:].std(axis=0)
    assert spread[3] > 2 * spread[:3].max()


def test_a_weight_counts_as_a_cluster_that_says_the_same() -> None:
    """The error is estimated from few heavy battles, with the degrees of freedom of equal clusters (Kish)."""
    own = Arena(3, 60).draw(np.random.default_rng(0))
    heavy = np.where(np.arange(60) < 6, 20.0, 1.0)
    even, uneven = (
        strengths(replace(own, weight=weight), n_systems=3, ties="davidson", resamples=50, rng=np.random.default_rng(1))
        for weight in (np.full(60, 0.3), heavy)
    )
    assert (even.clusters, even.n_units) == (60, pytest.approx(60))
    assert (uneven.clusters, uneven.n_units) == (60, pytest.approx(heavy.sum() ** 2 / (heavy**2).sum()))


def test_few_heavy_battles_do_not_tell_equal_systems_apart() -> None:
    """Weights .05, 1 and 20: with one degree of freedom per battle, 34 of 300 such studies had a significant
    difference."""
    false = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        first = rng.integers(0, 3, 150)
        own = battles(
            first,
            (first + rng.integers(1, 3, 150)) % 3,
            rng.choice([-1, 0, 1], 150, p=[0.4, 0.2, 0.4]),
        )
        own = replace(own, weight=rng.choice([0.05, 1, 20], 150, p=[0.5, 0.45, 0.05]))
        made = strengths(own, n_systems=3, ties="davidson", resamples=60, rng=rng)
        false += bool(ranks(made, confidence=0.95).apart.any())
    assert false <= 14  # A rate of .06 exceeds this with probability .04.
