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
from custodes.stats.strength.strengths import Strengths, fit_battles, interval, strengths
from tests.messages import exactly
from tests.stats.strength.battles import Arena, battles, chances, outcomes, swapped

FIVE = Arena(5, 400)


def fit_strengths(
    data: Battles, systems: int = 5, *, ties: str = "davidson", resamples: int = 50, seed: int = 0
) -> Strengths:
    return strengths(data, n_systems=systems, ties=ties, resamples=resamples, rng=np.random.default_rng(seed))


def centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean()


def test_without_ties_as_choix() -> None:
    data = Arena(5, 400, nu=0.0, order=0.0).draw(np.random.default_rng(1))
    won = [(a, b) if s > 0 else (b, a) for a, b, s in zip(data.first, data.second, data.sign, strict=True)]
    reference = choix.opt_pairwise(5, won, tol=1e-12)  # choix 0.4.1
    for ties in ("davidson", "half"):
        np.testing.assert_allclose(fit_strengths(data, ties=ties).draws[0], centred(reference), atol=1e-6)


def test_ties_as_half_wins_as_evalica() -> None:
    data = Arena(5, 400, nu=0.8, order=0.0).draw(np.random.default_rng(2))
    winner = [{1: evalica.Winner.X, 0: evalica.Winner.Draw, -1: evalica.Winner.Y}[int(s)] for s in data.sign]
    names = [f"s{i}" for i in range(5)]
    result = evalica.bradley_terry(  # evalica 0.4.2
        [names[a] for a in data.first], [names[b] for b in data.second], winner, tolerance=1e-14, limit=100_000
    )
    reference = np.log([result.scores[name] for name in names])
    np.testing.assert_allclose(fit_strengths(data, ties="half").draws[0], centred(reference), atol=1e-6)


def test_davidson_by_brute_force() -> None:
    """The likelihood of Davidson 1970 with an order effect, weights and another covariate, maximised by BFGS."""
    rng = np.random.default_rng(3)
    data = FIVE.draw(rng)
    data = replace(
        data, covariates=np.column_stack([data.covariates, rng.normal(size=400)]), weight=rng.integers(1, 4, 400) / 2
    )

    def loss(x: np.ndarray) -> float:
        eta = x[data.first] - x[data.second] + data.covariates @ x[5:7]
        chance = chances(eta, np.exp(x[7]))[np.arange(400), 1 - data.sign]
        return -data.weight @ np.log(chance) + x[:5].sum() ** 2

    best = minimize(loss, np.zeros(8), method="BFGS", options={"gtol": 1e-8}).x
    result = fit_strengths(data)
    np.testing.assert_allclose(result.draws[0], best[:5], atol=2e-6)
    np.testing.assert_allclose(result.effects[0], best[5:7], atol=2e-6)
    np.testing.assert_allclose(np.log(result.ties[0]), best[7], atol=2e-6)


def test_covariates_as_statsmodels() -> None:
    """Coefficients, and errors of one battle per cluster (HC0 where leverage is small), of a logistic regression."""
    rng = np.random.default_rng(4)
    arena = Arena(4, 4000, nu=0.0)
    data = arena.draw(rng)
    data = replace(data, covariates=np.column_stack([data.covariates, rng.normal(size=4000)]))
    x = np.zeros((4000, 4))
    x[np.arange(4000), data.first] += 1
    x[np.arange(4000), data.second] -= 1
    regressors = np.column_stack([x[:, 1:] - x[:, :1] * 0, data.covariates])  # system 0 is the reference
    reference = sm.Logit((data.sign > 0).astype(float), regressors).fit(disp=0, tol=1e-12, cov_type="HC0")
    result = fit_strengths(data, 4, resamples=200)
    relative = result.draws[:, 1:] - result.draws[:, :1]
    np.testing.assert_allclose(relative[0], reference.params[:3], atol=1e-6)
    np.testing.assert_allclose(result.effects[0], reference.params[3:], atol=1e-6)
    errors = np.concatenate([relative[1:].std(axis=0, ddof=1), result.effects[1:].std(axis=0, ddof=1)])
    np.testing.assert_allclose(errors, reference.bse, rtol=5e-3)


def test_errors_by_cluster_as_statsmodels() -> None:
    data = Arena(4, 6000, nu=0.0, order=0.0, size=10, taste=1.0).draw(np.random.default_rng(5))
    x = np.zeros((6000, 4))
    x[np.arange(6000), data.first] += 1
    x[np.arange(6000), data.second] -= 1
    grouped = {"groups": data.unit, "use_correction": False}
    reference = sm.Logit((data.sign > 0).astype(float), x[:, 1:]).fit(disp=0, cov_type="cluster", cov_kwds=grouped)
    result = fit_strengths(data, 4, resamples=200)
    relative = (result.draws[:, 1:] - result.draws[:, :1])[1:].std(axis=0, ddof=1)
    np.testing.assert_allclose(relative, reference.bse, rtol=1e-2)
    assert (relative > 1.2 * fit_strengths(replace(data, unit=np.arange(6000)), 4).draws[1:, 1:].std(axis=0)).all()


def test_draws_spread_as_refits_do() -> None:
    """With many battles the bootstrap of scores equals refits on resampled clusters."""
    data, rng = Arena(4, 3000, size=5, taste=0.7).draw(np.random.default_rng(6)), np.random.default_rng(7)
    refits = []
    for often in bootstrap_weights(600, 120, rng)[1:]:
        resampled = count_by_kind(data, often[data.unit])
        result = fit(resampled, component=np.zeros(4, dtype=int), ties_are_half=False, penalised=False)
        assert result is not None
        refits.append(result.coefficients)
    estimate = fit_strengths(data, 4, resamples=120)
    deviations = np.column_stack([estimate.draws, estimate.effects, np.log(estimate.ties)])[1:].std(axis=0, ddof=1)
    # The standard deviation of 120 refits has an error of 6 %.
    np.testing.assert_allclose(deviations, np.std(refits, axis=0, ddof=1), rtol=0.2)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["davidson", "half"]))
def test_symmetries(seed: int, ties: str) -> None:
    rng = np.random.default_rng(seed)
    data = Arena(5, 150, size=3, taste=0.5).draw(rng)
    data = replace(data, weight=rng.integers(1, 4, 150) / 2)
    base = fit_strengths(data, ties=ties)

    def errors(result: Strengths) -> np.ndarray:
        return result.draws[1:].std(axis=0)

    exchanged = fit_strengths(swapped(data), ties=ties)
    np.testing.assert_allclose(exchanged.draws, base.draws, atol=1e-8)
    np.testing.assert_allclose(exchanged.effects, base.effects, atol=1e-8)
    order = rng.permutation(150)
    reordered = fit_strengths(data.select_rows(order), ties=ties)
    np.testing.assert_allclose(reordered.draws[0], base.draws[0], atol=1e-8)
    np.testing.assert_allclose(errors(reordered), errors(base), rtol=1e-6)
    name = rng.permutation(5)
    relabelled = fit_strengths(replace(data, first=name[data.first], second=name[data.second]), ties=ties)
    np.testing.assert_allclose(relabelled.draws[0, name], base.draws[0], atol=1e-8)
    np.testing.assert_allclose(errors(relabelled)[name], errors(base), rtol=1e-6)
    np.testing.assert_array_equal(relabelled.bounded[name], base.bounded)
    heavier = fit_strengths(replace(data, weight=7 * data.weight), ties=ties)
    np.testing.assert_allclose(heavier.draws, base.draws, atol=1e-8)
    reversed_result = fit_strengths(replace(data, sign=-data.sign, covariates=-data.covariates), ties=ties)
    np.testing.assert_allclose(reversed_result.draws[0], -base.draws[0], atol=1e-8)
    np.testing.assert_allclose(reversed_result.effects[0], base.effects[0], atol=1e-8)


def test_without_verdict_or_weight_does_not_count() -> None:
    data = FIVE.draw(np.random.default_rng(9))
    more = battles(
        np.append(data.first, [0, 1]),
        np.append(data.second, [1, 2]),
        np.append(data.sign, [ABSENT, 1]),
        covariates=np.append(data.covariates, [[1.0], [1.0]], axis=0),
        weight=np.append(np.ones(400), [1.0, 0.0]),
    )
    np.testing.assert_allclose(fit_strengths(more).draws, fit_strengths(data).draws, atol=1e-12)


def test_groups_that_never_met_are_apart() -> None:
    data = battles([0, 0, 2, 3, 2], [1, 1, 3, 2, 3], [1, -1, 1, 1, 1])
    result = fit_strengths(data, 5)
    assert result.component.tolist() == [0, 0, 1, 1, 2]
    np.testing.assert_allclose(result.draws[0, :4], [0, 0, np.log(2) / 2, -np.log(2) / 2], atol=1e-8)
    assert np.isnan(result.draws[:, 4]).all()
    np.testing.assert_allclose(result.draws[:, 0], -result.draws[:, 1])
    assert result.bounded.all()


def test_unbeaten_is_finite_by_firth() -> None:
    """20 wins without a loss: Firth's estimate adds half a win and half a loss, log(20.5 / .5)."""
    result = fit_strengths(battles([0] * 20, [1] * 20, [1] * 20), 2, resamples=200)
    assert result.draws[0, 0] - result.draws[0, 1] == pytest.approx(np.log(20.5 / 0.5), abs=1e-6)
    assert not result.bounded.any()
    low, high = interval(result.draws, confidence=0.95, n_units=result.n_units)
    # The interval must contain the log odds of one loss in 20 (2.94) and those of no loss in a hundred (5.3).
    assert 2 * low[0] < 2.94
    assert 2 * high[0] > 5.3


def test_unbeaten_is_named_and_the_others_are_not() -> None:
    first, second = [0] * 20 + [1, 2] * 30, [1, 2] * 10 + [2, 3] * 30
    sign = [1] * 20 + ([1] * 2 + [-1] * 2 + [0] * 2) * 10
    result = fit_strengths(battles(first, second, sign), 4)
    assert result.bounded.tolist() == [False, True, True, True]
    assert result.draws[0].argmax() == 0
    assert np.isfinite(result.draws).all()
    beaten = fit_strengths(battles(second, first, sign), 4)
    np.testing.assert_allclose(beaten.draws[0], -result.draws[0], atol=1e-8)
    assert beaten.bounded.tolist() == [False, True, True, True]


def test_the_penalty_does_nothing_where_there_is_a_maximum() -> None:
    data = battles([0] * 21, [1] * 21, [1] * 20 + [-1])
    result = fit_battles(data, n_systems=2, ties="davidson")
    assert not result.fit.pseudo.any()
    assert np.ptp(result.fit.coefficients) == pytest.approx(np.log(20), abs=1e-8)


def test_order_that_tells_every_winner_is_finite() -> None:
    order_sign = np.tile([1.0, -1.0], 30)
    result = fit_strengths(battles([0] * 60, [1] * 60, order_sign, covariates=order_sign[:, np.newaxis]), 2)
    assert result.effects[0, 0] > 2
    assert np.isfinite(result.draws).all()
    assert not result.bounded.any()


def test_nothing_but_ties_is_no_certainty() -> None:
    for ties in ("davidson", "half"):
        result = fit_strengths(battles([0] * 20, [1] * 20, [0] * 20), 2, ties=ties)
        np.testing.assert_allclose(result.draws[0], 0, atol=1e-12)
        assert result.draws[1:].std() > 0.01


@pytest.mark.parametrize("column", [np.ones(60), np.zeros(60)])
def test_covariates_that_tell_nothing(column: np.ndarray) -> None:
    data = battles([0] * 60, [1] * 60, [1, -1, 1] * 20, covariates=column[:, np.newaxis])
    with pytest.raises(
        InputError,
        match=exactly(
            "covariates cannot be separated from the strengths; leave out covariates that are constant, or "
            "that depend only on the systems or on other covariates"
        ),
    ):
        fit_strengths(data, 2)


def test_no_verdict() -> None:
    message = "no battle has a verdict and a weight above 0; give at least one such battle"
    with pytest.raises(InputError, match=f"^{message}$"):
        fit_strengths(battles([0], [1], [ABSENT]), 2)


def test_one_cluster_has_no_interval() -> None:
    data = replace(FIVE.draw(np.random.default_rng(1)), unit=np.zeros(400, dtype=int))
    result = fit_strengths(data)
    low, high = interval(result.draws, confidence=0.95, n_units=result.n_units)
    assert np.isnan(low).all()
    assert np.isnan(high).all()


def test_a_system_of_one_cluster_is_not_sure() -> None:
    """The effect of a system in a single cluster has no error between clusters, but must not look precise."""
    rng = np.random.default_rng(2)
    data = Arena(3, 300, size=10, order=0.0).draw(rng)
    extended = battles(
        np.append(data.first, [0] * 10),
        np.append(data.second, [3] * 10),
        np.append(data.sign, outcomes(chances(np.zeros(10), 0.5), rng)),
        unit=np.append(data.unit, [30] * 10),
    )
    spread = fit_strengths(extended, 4, resamples=200).draws[1:].std(axis=0)
    assert spread[3] > 2 * spread[:3].max()


def test_a_weight_counts_as_a_cluster_that_says_the_same() -> None:
    """The error is estimated from few heavy battles, with the degrees of freedom of equal clusters (Kish)."""
    data = Arena(3, 60).draw(np.random.default_rng(0))
    heavy = np.where(np.arange(60) < 6, 20.0, 1.0)
    even, uneven = (
        strengths(
            replace(data, weight=weight), n_systems=3, ties="davidson", resamples=50, rng=np.random.default_rng(1)
        )
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
        data = battles(
            first,
            (first + rng.integers(1, 3, 150)) % 3,
            rng.choice([-1, 0, 1], 150, p=[0.4, 0.2, 0.4]),
        )
        data = replace(data, weight=rng.choice([0.05, 1, 20], 150, p=[0.5, 0.45, 0.05]))
        estimate = strengths(data, n_systems=3, ties="davidson", resamples=60, rng=rng)
        false += bool(ranks(estimate, confidence=0.95).apart.any())
    assert false <= 14  # A rate of .06 exceeds this with probability .04.


@pytest.mark.parametrize("nu", [0.0, 0.7])
def test_the_penalty_adds_half_won_battles_in_proportion_to_leverage(nu: float) -> None:
    data = Arena(4, 40, nu=nu).draw(np.random.default_rng(5))
    kinds = count_by_kind(data, data.weight)
    fitted = fit(kinds, component=np.zeros(4, dtype=int), ties_are_half=False, penalised=True)
    assert fitted is not None
    assert fitted.has_ties == bool(nu)
    effects, log_nu = fitted.coefficients[4:5], fitted.coefficients[-1] if nu else -np.inf
    x = np.zeros((len(kinds.first), 5))
    x[np.arange(len(x)), kinds.first], x[np.arange(len(x)), kinds.second] = 1, -1
    x[:, 4] = kinds.covariates[:, 0]
    p = chances(x @ np.append(fitted.coefficients[:4], effects), np.exp(log_nu))
    half, tie = np.array([0.5, 0, -0.5]), np.array([0.0, 1, 0])
    moments = [(p @ half**2) - (p @ half) ** 2, p @ tie * (1 - p @ tie), -(p @ half) * (p @ tie)]
    np.testing.assert_allclose(fitted.variance, np.stack(moments, axis=1), atol=1e-8)
    rows = [np.stack([np.append(row, 0.0), [0, 0, 0, 0, 0, 1.0 * bool(nu)]]) for row in x]  # without ties, no log nu
    laws = [np.array([[m[0], m[2]], [m[2], m[1]]]) for m in fitted.variance]
    informations = np.stack([row.T @ law @ row for row, law in zip(rows, laws, strict=True)])
    total = kinds.outcomes.sum(axis=1)
    plain = np.linalg.pinv(np.einsum("k,kij->ij", total, informations))
    leverages = np.einsum("kij,ji->k", informations, plain)
    np.testing.assert_allclose(fitted.pseudo, total * leverages, atol=1e-6)
    assert fitted.pseudo.sum() == pytest.approx(4 + bool(nu))  # 3 strengths, the order and ties
    weighted = total + fitted.pseudo
    np.testing.assert_allclose(
        fitted.inverse, np.linalg.pinv(np.einsum("k,kij->ij", weighted, informations)), atol=1e-6
    )
    score = np.einsum(
        "kji,kj->i",
        np.stack(rows),
        np.stack([kinds.outcomes @ half - weighted * (p @ half), kinds.outcomes[:, 1] - weighted * p[:, 1]], axis=1),
    )
    np.testing.assert_allclose(score, 0, atol=1e-6)
    residual = fitted.residual(fitted.coefficients)
    np.testing.assert_allclose(residual[:, :, 0], half - (p @ half)[:, None], atol=1e-8)
    np.testing.assert_allclose(residual[:, :, 1], tie - p[:, [1]], atol=1e-8)


def test_a_tilt_is_like_additional_wins() -> None:
    data = Arena(4, 200, nu=0.0).draw(np.random.default_rng(5))
    kinds = count_by_kind(data, data.weight)
    more = kinds.outcomes.astype(float)
    more[2] += [1.5, 0, -1.5]  # 1.5 losses of this kind become wins
    tilt = np.zeros(6)
    tilt[[kinds.first[2], kinds.second[2], 4]] = 1.5, -1.5, 1.5 * kinds.covariates[2, 0]
    options = {"component": np.zeros(4, dtype=int), "ties_are_half": False, "penalised": False}
    tilted, moved = fit(kinds, tilt=tilt, **options), fit(replace(kinds, outcomes=more), **options)
    assert tilted is not None
    assert moved is not None
    np.testing.assert_allclose(tilted.coefficients, moved.coefficients, atol=1e-8)
    assert fit(kinds, tilt=1000 * tilt, **options) is None
    assert fit(kinds, tilt=1000 * tilt, **{**options, "penalised": True}) is None


@pytest.mark.parametrize("always", [False, True])
def test_a_fit_moves_by_a_tilt_or_by_one_step_if_there_is_no_fit(always: bool) -> None:
    data = Arena(4, 200, nu=0.0, order=0.0).draw(np.random.default_rng(5))
    if always:  # system 0 wins everything, so the fit is penalised
        data = replace(
            data, sign=np.where(data.first == 0, 1, np.where(data.second == 0, -1, data.sign)).astype(np.int8)
        )
    fitted = fit_battles(data, n_systems=4, ties="half")
    assert bool(fitted.fit.pseudo.any()) == always
    tilt = np.array([0.0, 1.5, -1.5, 0.0, 0.0])
    options = {"component": np.zeros(4, dtype=int), "ties_are_half": True, "penalised": always}
    expected = fit(fitted.battle_counts, tilt=tilt, **options)
    assert expected is not None
    moved = fitted.refit_with_tilt(tilt)
    np.testing.assert_allclose(moved.fit.coefficients, expected.coefficients)
    assert moved.battles is fitted.battles
    beyond = fitted.refit_with_tilt(1000 * tilt).fit.coefficients
    np.testing.assert_allclose(beyond, fitted.fit.coefficients + fitted.fit.inverse @ (1000 * tilt))
