"""The mixture posterior: the finite sum it stands for, the swap, closed forms, and tables where samplers fail."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.signal import convolve2d
from scipy.special import betainc, gammaln

from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture.exact import Sample, mixture_posterior
from custodes.stats.correction.mixture.posterior import MixturePosterior

NONE = [0, 0, 0]
TABLES = {
    "typical": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [30, 10, 25], NONE),
    "people without ties": ([[9, 1, 4], [0, 0, 0], [4, 1, 7]], [25, 4, 20], NONE),
    "metric without ties": ([[9, 0, 4], [3, 0, 3], [4, 0, 7]], [25, 0, 20], NONE),
    "no ties at all": ([[9, 0, 2], [0, 0, 0], [3, 0, 7]], [25, 0, 20], NONE),
    "nothing paired": ([NONE, NONE, NONE], [20, 5, 12], NONE),
    "one paired": ([[1, 0, 0], NONE, NONE], [20, 5, 12], NONE),
    "two classes empty": ([[2, 0, 1], NONE, NONE], [60, 0, 5], NONE),
    "many paired": ([[300, 50, 50], [50, 150, 50], [40, 60, 250]], [20, 10, 30], NONE),
    "one metric-only item": ([[3, 1, 0], [0, 2, 0], [1, 0, 0]], [0, 0, 1], NONE),
    "a few people more": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [20, 5, 15], [5, 3, 4]),
    "many people more": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [20, 5, 15], [50, 30, 60]),
    "people alone": ([NONE, NONE, NONE], [20, 5, 15], [12, 5, 6]),
}


def posterior(paired, metric_only, human_only, *, seed=0, precision=0.005, gamma=None, max_draws=200_000):
    return mixture_posterior(
        Counts(np.array(paired), np.array(metric_only), np.array(human_only)),
        rng=np.random.default_rng(seed),
        confidence=0.95,
        precision=precision,
        gamma=gamma,
        max_draws=max_draws,
    )


def exact_sum(paired, metric_only, human_only):
    """Weights (k,) and Dirichlet parameters (k, 3) of p: the posterior is this finite mixture.

    Given how the metric-only items split over the human classes, p and the columns of mu are Dirichlets. The weight of
    a split is a product over metric classes times a function of the class totals alone, so totals are convolved.
    """
    paired, metric_only, human_only = (np.array(x, dtype=float) for x in (paired, metric_only, human_only))
    total = np.ones((1, 1))
    for r in range(3):
        win, loss = np.ogrid[: metric_only[r] + 1, : metric_only[r] + 1]
        tie = metric_only[r] - win - loss
        split = (win, np.maximum(tie, 0), loss)
        log = sum(gammaln(paired[h, r] + split[h] + 1) - gammaln(split[h] + 1) for h in range(3))
        log = np.where(tie >= 0, log, -np.inf)
        total = convolve2d(total, np.exp(log - log.max()))
    win, loss = np.nonzero(total)
    split = np.stack([win, metric_only.sum() - win - loss, loss], axis=1)
    n = paired.sum(axis=1)
    log = np.log(total[win, loss]) + (gammaln(n + split + human_only + 1) - gammaln(n + split + 3)).sum(axis=1)
    weights = np.exp(log - log.max())
    return weights / weights.sum(), n + split + human_only + 1


@pytest.fixture
def draws_alone(monkeypatch):
    """Tables that have a finite sum go to weighted draws all the same, so that it is their oracle."""
    monkeypatch.setattr("custodes.stats.correction.mixture.exact._MOST_CELLS", 0)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.usefixtures("draws_alone")
def test_equals_the_exact_sum(name):
    weights, parameters = exact_sum(*TABLES[name])
    got = posterior(*TABLES[name])
    assert got.method == "exact"
    assert got.effective_draws >= 1000
    theta = weights @ betainc(parameters[:, 2], parameters[:, 0], 0.5)
    # where nobody was asked there is no error
    assert abs(got.theta - theta) <= 4.5 * got.theta_error + 1e-12
    assert got.theta_error <= 0.005

    total = parameters.sum(axis=1, keepdims=True)
    share = parameters / total
    mean = weights @ share
    spread = np.sqrt(weights @ (share * (parameters + 1) / (total + 1)) - mean**2)
    np.testing.assert_array_less(np.abs(got.p - mean), 4.5 * spread / np.sqrt(got.effective_draws))
    # The tails of p under the exact mixture of Beta distributions, against their error at this many draws. Weights are
    # large where a class is rare: over 60 seeds its tails have up to 2.4 times the error of independent draws.
    error = 4 * 2.4 * np.sqrt(0.025 * 0.975 / got.effective_draws)
    for bound, tail in ((got.p_low, 0.025), (got.p_high, 0.975)):
        below = weights @ betainc(parameters, total - parameters, bound)
        np.testing.assert_allclose(below, tail, atol=error)


@pytest.mark.parametrize("summable", [True, False])
def test_margin_interval_equals_the_exact_sum(summable, monkeypatch):
    if not summable:
        monkeypatch.setattr("custodes.stats.correction.mixture.exact._MOST_CELLS", 0)
    weights, parameters = exact_sum(*TABLES["typical"])
    got = posterior(*TABLES["typical"])
    rng = np.random.default_rng(1)
    gammas = rng.standard_gamma(parameters[rng.choice(len(weights), size=200_000, p=weights)])
    margin = (gammas[:, 0] - gammas[:, 2]) / gammas.sum(axis=1)
    low, high = np.quantile(margin, [0.025, 0.975])
    # a quantile of n draws has the standard error 2.67 sd / sqrt(n) in the 2.5 % tail of a normal
    error = 4.5 * 2.67 * margin.std() / np.sqrt(got.effective_draws)
    assert abs(got.margin_low - low) < error
    assert abs(got.margin_high - high) < error


def test_without_metric_only_items_people_decide():
    paired, human_only = np.array([[5, 1, 0], [1, 2, 2], [0, 1, 2]]), np.array([3, 0, 1])
    got = posterior(paired, NONE, human_only)
    human = human_posterior(paired.sum(axis=1) + human_only, confidence=0.95)
    assert got.method == "closed"
    assert got.theta == betainc(3 + 1 + 1, 6 + 3 + 1, 0.5)  # wins 9, losses 4, paired items included
    for name, values in vars(human).items():
        np.testing.assert_array_equal(getattr(got, name), values)
    assert got.theta_error == 0
    assert got.largest_weight == 0


def test_a_faultless_metric_counts_as_people():
    # 10^5 paired items without an error: mu is the identity, so p is Dirichlet(all ratings + 1)
    paired, metric_only = np.diag([40_000, 20_000, 40_000]), np.array([505_000, 200_000, 495_000])
    got = posterior(paired, metric_only, NONE)
    human = human_posterior(paired.sum(axis=1) + metric_only, confidence=0.95)
    np.testing.assert_allclose(got.p, human.p, atol=2e-4)
    np.testing.assert_allclose(got.margin_high - got.margin_low, human.margin_high - human.margin_low, rtol=0.06)
    assert got.theta > 0.999


small = st.tuples(st.integers(1, 4)).map(lambda n: n[0])
tables = small.flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.int64, (n, 3, 3), elements=st.integers(0, 9)),
        hnp.arrays(np.int64, (n, 3), elements=st.integers(0, 15)),
        hnp.arrays(np.int64, (n, 3), elements=st.sampled_from([0, 0, 1, 3])),
    )
)


def same(one: MixturePosterior, other: MixturePosterior) -> None:
    for field in fields(MixturePosterior):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


@settings(max_examples=15, deadline=None)
@given(tables)
def test_swap_is_the_mirror_image(table):
    paired, metric_only, human_only = table
    one = posterior(paired, metric_only, human_only, precision=0.05)
    other = posterior(paired[:, ::-1, ::-1], metric_only[:, ::-1], human_only[:, ::-1], precision=0.05)
    np.testing.assert_allclose(other.theta, 1 - one.theta, atol=1e-12)
    np.testing.assert_array_equal(other.p_low[:, ::-1], one.p_low)
    np.testing.assert_array_equal(other.margin_high, -one.margin_low)
    np.testing.assert_array_equal(other.effective_draws, one.effective_draws)


@settings(max_examples=10, deadline=None)
@given(tables)
def test_results_do_not_depend_on_the_other_tables(table):
    whole = posterior(*table, precision=0.05)
    order = np.random.default_rng(0).permutation(len(table[0]))
    shuffled = posterior(*(counts[order] for counts in table), precision=0.05)
    for i, k in enumerate(order):
        alone = posterior(*(counts[k] for counts in table), precision=0.05)
        for field in fields(MixturePosterior):
            np.testing.assert_array_equal(getattr(whole, field.name)[k], getattr(alone, field.name))
            np.testing.assert_array_equal(getattr(shuffled, field.name)[i], getattr(alone, field.name))


def test_mirror_image_is_one_half():
    got = posterior([[8, 2, 1], [0, 3, 0], [1, 2, 8]], [40, 3, 40], [2, 0, 2])
    assert got.theta == 0.5
    assert got.theta_error == 0
    assert got.p[0] == got.p[2]
    assert got.margin_low == -got.margin_high


def test_where_nobody_was_asked_both_are_as_likely():
    by_metric = np.array([[200, 90, 300], [300, 90, 200], [90.5, 200, 300]])
    got = posterior(np.zeros((3, 3, 3)), by_metric, np.zeros((3, 3)))
    for own in (got.theta, got.margin + 0.5):
        np.testing.assert_array_equal(own, 0.5)
    np.testing.assert_array_equal(got.margin_low, -got.margin_high)
    np.testing.assert_allclose(got.p, 1 / 3, atol=0.02)


@pytest.mark.parametrize("counts", ["whole", "effective"])
def test_first_draws_out_of_shared_numbers_are_as_good_as_a_tables_own(counts, monkeypatch):
    """Theta, means and bounds of tables with many paired items: within five errors of each other."""
    scale = 1 if counts == "whole" else 1 / 1.37
    rng = np.random.default_rng(3)
    joint = rng.dirichlet([4, 1, 1, 1, 2, 1, 1, 1, 4], 12)
    paired = rng.multinomial(120, joint).reshape(-1, 3, 3) * scale
    alone = rng.multinomial(400, joint.reshape(-1, 3, 3).sum(axis=1)) * scale
    human = rng.integers(0, 5, (12, 3)) * scale
    shared = posterior(paired, alone, human, precision=0.02)
    monkeypatch.setattr("custodes.stats.correction.mixture.exact._GOOD", 2.0)
    own = posterior(paired, alone, human, precision=0.02)
    assert (shared.method == "exact").all()
    assert (shared.effective_draws > own.effective_draws).mean() > 0.5
    assert (shared.effective_draws > 0.9 * own.effective_draws).all()
    error = np.hypot(shared.theta_error, own.theta_error)
    np.testing.assert_array_less(np.abs(shared.theta - own.theta), 5 * error + 1e-9)
    sd = (own.margin_high - own.margin_low) / 3.92
    for name, times in (("margin", 1.0), ("margin_low", 2.67), ("margin_high", 2.67)):
        gap = np.abs(getattr(shared, name) - getattr(own, name))
        np.testing.assert_array_less(gap, 5 * times * sd * np.sqrt(2 / own.effective_draws))


@pytest.mark.usefixtures("draws_alone")
def test_the_seed_matters_and_repeats():
    same(posterior(*TABLES["typical"], seed=1), posterior(*TABLES["typical"], seed=1))
    assert posterior(*TABLES["typical"], seed=1).theta != posterior(*TABLES["typical"], seed=2).theta


def test_shapes():
    paired, metric_only, _ = (np.array(x) for x in TABLES["typical"])
    got = posterior(
        np.broadcast_to(paired, (2, 3, 3, 3)), np.broadcast_to(metric_only, (2, 3, 3)), np.zeros((2, 3, 3), int)
    )
    assert got.theta.shape == got.theta_error.shape == got.margin_low.shape == got.method.shape == (2, 3)
    assert got.p.shape == got.p_low.shape == got.p_high.shape == (2, 3, 3)
    assert np.unique(got.theta).size == 1
    none = posterior(np.zeros((0, 4, 3, 3), int), np.zeros((0, 4, 3), int), np.zeros((0, 4, 3), int))
    assert none.theta.shape == (0, 4)
    assert none.p.shape == (0, 4, 3)


@pytest.mark.usefixtures("draws_alone")
def test_draws_stop_when_the_decision_is_clear():
    table = ([[30, 5, 5], [5, 15, 5], [4, 6, 25]], [400, 200, 400], NONE)
    decided, precise = posterior(*table, precision=0.001, gamma=0.05), posterior(*table, precision=0.004)
    assert decided.theta_error > 0.005
    assert abs(decided.theta - 0.975) > 4 * decided.theta_error
    assert precise.theta_error <= 0.004
    assert precise.effective_draws > 2 * decided.effective_draws
    capped = posterior(*table, precision=1e-5, max_draws=80_000)
    assert capped.theta_error > 1e-5
    assert capped.effective_draws <= 80_100


def test_hard_table_that_nuts_misses():
    # theta is .9993 by 24 million draws; NUTS as the paper runs it gives .9999 and 2,708 divergences
    got = posterior([[2, 0, 1], NONE, NONE], [99_000, 0, 1000], NONE, precision=0.0005, max_draws=2**17)
    assert got.effective_draws > 2000
    assert abs(got.theta - 0.9993) < 4.5 * got.theta_error
    assert got.margin_low < 0.93  # NUTS: .95


@pytest.mark.usefixtures("draws_alone")
def test_too_few_effective_draws_go_to_populations():
    table = ([[1, 0, 0], NONE, NONE], [20, 5, 15], [60, 30, 45])
    weights, parameters = exact_sum(*table)
    theta = weights @ betainc(parameters[:, 2], parameters[:, 0], 0.5)
    got = posterior(*table, max_draws=4096)
    assert got.method == "tempered"
    assert got.r_hat < 1.01
    assert abs(got.theta - theta) < 4.5 * got.theta_error
    np.testing.assert_allclose(got.p, weights @ (parameters / parameters.sum(axis=1, keepdims=True)), atol=0.01)


def test_a_sum_takes_over_where_it_is_cheaper_than_draws(monkeypatch):
    monkeypatch.setattr("custodes.stats.correction.mixture.exact._FEW_CELLS", 129**2)
    # theta is .9746, so millions of draws are missing after the first ones
    table = ([[14, 2, 2], [2, 7, 3], [2, 2, 9]], [120, 30, 50], NONE)
    first, second = (posterior(*table, seed=seed, precision=None, gamma=0.05, max_draws=10**6) for seed in (0, 1))
    assert first.method == second.method == "sum"
    assert first.theta == second.theta
    assert first.theta_error < 1e-9
    weights, parameters = exact_sum(*table)
    assert first.theta == pytest.approx(weights @ betainc(parameters[:, 2], parameters[:, 0], 0.5), abs=1e-9)
    clear = posterior([[30, 5, 5], [5, 15, 5], [4, 6, 25]], [60, 60, 76], NONE, gamma=0.05)
    assert clear.method == "exact"


def test_one_annotated_item_and_a_million_by_the_metric(monkeypatch):
    """Seeds agree up to their errors, and none is sure. (Gibbs chains stayed where they started: with one seed of three
    theta was 1.0000 and the interval began at .66.)"""
    monkeypatch.setattr("custodes.stats.correction.mixture.tempering._MOST_ROUNDS", 3)
    # relabelling the metric's answers changes nothing for people
    tables = [([[0, 0, 1], NONE, NONE], [100_000, 0, 900_000]), ([[1, 0, 0], NONE, NONE], [900_000, 0, 100_000])]
    got = [
        posterior(*tables[seed % 2], NONE, seed=seed, precision=None, gamma=0.05, max_draws=30_000) for seed in range(2)
    ]
    # .9741 with an error of .0006 by 4 million weighted draws
    for own in got:
        assert abs(own.theta - 0.9741) < 4 * np.hypot(own.theta_error, 0.0006)
        assert own.at_threshold(gamma=0.05)
        assert own.margin_low < 0.1
        assert not own.r_hat > 1.01


def test_populations_that_do_not_agree_are_not_preferred(monkeypatch):
    for name, times in {"_MOST_ROUNDS": 1, "_THIN": 1, "_STEP_MOVES": 0, "_LAST_MOVES": 0}.items():
        monkeypatch.setattr(f"custodes.stats.correction.mixture.tempering.{name}", times)
    # people never say tie, the metric nothing else: the margin is near 1 or near -1
    got = posterior([[10, 0, 0], NONE, [1, 0, 9]], [0, 10_000, 0], NONE, precision=0.001, max_draws=30_000)
    assert got.method == "exact"
    assert abs(got.theta - 0.5) < 4 * got.theta_error + 0.02


@pytest.mark.parametrize("divisor", [1.0, 1.37])
def test_effective_counts_between_whole_ones(divisor):
    """Without whole counts there is no finite sum, and answers move little with the counts."""
    paired, metric_only, human_only = (np.array(part) / divisor for part in TABLES["a few people more"])
    got = posterior(paired, metric_only, human_only, precision=0.003, max_draws=400_000)
    assert got.method == ("sum" if divisor == 1 else "exact")
    below, above = (
        posterior(paired * c, np.rint(metric_only * c), human_only * c, precision=0.003) for c in (0.9, 1.1)
    )
    assert below.theta - 0.02 < got.theta < above.theta + 0.02
    mirror = posterior(paired[::-1, ::-1], metric_only[::-1], human_only[::-1], precision=0.003, max_draws=400_000)
    assert mirror.theta == pytest.approx(1 - got.theta, abs=1e-12)


def test_effective_counts_are_not_cut_to_whole_ones():
    one, other = (posterior(np.array(TABLES["typical"][0]) * c, [20, 5, 15], NONE).theta for c in (1.3, 1.4))
    assert one != other


def test_a_sample_is_the_posterior():
    got = posterior(*TABLES["typical"])
    sample = Sample(Counts(*(np.array(x) for x in TABLES["typical"])), np.random.default_rng(5))
    sample.extend(20_000)
    drawn = sample.drawn
    assert drawn.size == drawn.p.shape[1] >= 20_000
    np.testing.assert_allclose(drawn.p @ drawn.weights / drawn.weights.sum(), got.p, atol=0.005)


@pytest.mark.slow
def test_intervals_cover_and_theta_is_calibrated():
    """Tables drawn from the model itself: 95 % intervals of the margin cover 95 %, and theta is a probability."""
    rng = np.random.default_rng(0)
    studies = 1500
    p = rng.dirichlet([1, 1, 1], size=studies)
    mu = rng.dirichlet([1, 1, 1], size=(studies, 3))  # [human, metric]
    joint = (p[:, :, np.newaxis] * mu).reshape(studies, 9)
    paired = rng.multinomial(rng.integers(0, 60, size=studies), joint).reshape(studies, 3, 3)
    metric_only = rng.multinomial(300, joint.reshape(studies, 3, 3).sum(axis=1))
    human_only = rng.multinomial(rng.integers(0, 10, size=studies), p)
    got = posterior(paired, metric_only, human_only, precision=0.01)
    margin = p[:, 0] - p[:, 2]
    covered = (got.margin_low <= margin) & (margin <= got.margin_high)
    assert abs(covered.mean() - 0.95) < 4 * np.sqrt(0.95 * 0.05 / studies)
    excess = (margin > 0) - got.theta
    assert abs(excess.mean()) < 4 * np.sqrt((got.theta * (1 - got.theta)).mean() / studies)
    unsure = (got.theta > 0.1) & (got.theta < 0.9)
    assert abs(excess[unsure].mean()) < 4 * 0.5 / np.sqrt(unsure.sum())


@pytest.mark.parametrize(
    ("paired", "metric_only", "expected"),
    [
        ([[14, 2, 2], [2, 7, 3], [2, 2, 9]], [58, 15, 22], 0.967),
        ([[16, 1, 1], [1, 9, 1], [3, 3, 15]], [26, 15, 54], 0.033),
    ],
)
@pytest.mark.usefixtures("draws_alone")
def test_draws_go_on_until_theta_is_clear_of_either_threshold(paired, metric_only, expected):
    # 4096 draws leave an error of .003, which is too near .975 and .025
    weights, parameters = exact_sum(paired, metric_only, NONE)
    theta = weights @ betainc(parameters[:, 2], parameters[:, 0], 0.5)
    assert theta == pytest.approx(expected, abs=0.001)
    got = posterior(paired, metric_only, NONE, precision=1e-6, gamma=0.05, max_draws=10**6)
    distance = min(abs(got.theta - 0.025), abs(got.theta - 0.975))
    assert distance > 4 * got.theta_error
    assert abs(got.theta - theta) < 4.5 * got.theta_error
    assert 4096 < got.effective_draws < 500_000
