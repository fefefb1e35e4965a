from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import betainc
from scipy.stats import dirichlet

from custodes.stats.correction import mixture
from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.draw_sums import weighted_quantiles
from custodes.stats.correction.estimator import Counts, Estimate, decide
from custodes.stats.correction.mixture import mixture_posterior, shared_numbers, weighted_draws, weighted_gammas
from custodes.stats.correction.tempering import agreement, tempering_posterior
from tests.stats.correction.mixture_oracles import NONE, TABLES, FiniteSum, nuts

HARD = {
    "people who disagree with the metric": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [100, 25, 75], [30, 30, 40]),
    "one paired, many people": ([[1, 0, 0], NONE, NONE], [20, 5, 15], [60, 30, 45]),
    "two classes empty": ([[2, 0, 1], NONE, NONE], [196, 0, 4], NONE),
}
VALUES = (
    "theta",
    "theta_error",
    "p",
    "p_low",
    "p_high",
    "margin",
    "margin_low",
    "margin_high",
    "effective_draws",
    "sd",
)


def counts_of(table) -> Counts:
    return Counts(*(np.asarray(part, dtype=float) for part in table))


def posterior(paired, metric_only, human_only, *, seed=0, gamma=None, confidence=0.95):
    counts = counts_of((paired, metric_only, human_only))
    return mixture_posterior(counts, confidence=confidence, gamma=gamma, rng=np.random.default_rng(seed))


def tempered_posterior(table, *, seed=0, precision=0.003, gamma=None):
    row = counts_of(table).rows
    return tempering_posterior(row, seed=[seed], confidence=0.95, precision=precision, gamma=gamma).at(np.array(0))


@pytest.mark.parametrize("name", TABLES)
def test_equals_the_finite_sum(name):
    result, exact = posterior(*TABLES[name]), FiniteSum.of(*TABLES[name])
    assert result.effective_draws >= 1000
    # Without human ratings there is no error.
    assert abs(result.theta - exact.theta) <= 4.5 * result.theta_error + 1e-12
    assert result.theta_error <= 0.005
    np.testing.assert_array_less(np.abs(result.p - exact.mean), 4.5 * exact.sd[:3] / np.sqrt(result.effective_draws))
    assert result.sd == pytest.approx(exact.sd[3], rel=5 / np.sqrt(2 * result.effective_draws))
    # The tails of p under the mixture of Beta distributions, compared within the error of this many draws. Weights are
    # large where a class is rare: over 60 seeds the tails have up to 2.4 times the error of independent draws.
    error = 4 * 2.4 * np.sqrt(0.025 * 0.975 / result.effective_draws)
    np.testing.assert_allclose(exact.below(result.p_low), 0.025, atol=error)
    np.testing.assert_allclose(exact.below(result.p_high), 0.975, atol=error)


def test_interval_of_the_margin_equals_the_finite_sum():
    exact, result = FiniteSum.of(*TABLES["typical"]), posterior(*TABLES["typical"])
    rng = np.random.default_rng(1)
    gammas = rng.standard_gamma(exact.parameters[rng.choice(len(exact.weights), size=200_000, p=exact.weights)])
    margin = (gammas[:, 0] - gammas[:, 2]) / gammas.sum(axis=1)
    # A quantile of n draws has the standard error 2.67 sd / sqrt(n) in the 2.5 % tail of a normal.
    error = 4.5 * 2.67 * margin.std() / np.sqrt(result.effective_draws)
    np.testing.assert_allclose([result.margin_low, result.margin_high], np.quantile(margin, [0.025, 0.975]), atol=error)


@pytest.mark.parametrize("name", ["typical", "no ties at all", "nothing paired", "many people more"])
def test_without_an_interval_moments_equal_the_finite_sum(name):
    result, exact = posterior(*TABLES[name], gamma=0.05, confidence=None), FiniteSum.of(*TABLES[name])
    assert np.isnan([*result.p_low, *result.p_high, result.margin_low, result.margin_high]).all()
    draws = result.effective_draws
    assert abs(result.theta - exact.theta) <= 5 * np.sqrt(exact.theta * (1 - exact.theta) / draws)
    assert result.margin == pytest.approx(exact.mean[0] - exact.mean[2], abs=5 * exact.sd[3] / np.sqrt(draws))
    assert result.margin == pytest.approx(result.p[0] - result.p[2], abs=1e-6)
    assert result.sd == pytest.approx(exact.sd[3], rel=5 / np.sqrt(2 * draws))


def test_without_metric_only_items_human_ratings_decide():
    paired, human_only = np.array([[5, 1, 0], [1, 2, 2], [0, 1, 2]]), np.array([3, 0, 1])
    result = posterior(paired, NONE, human_only)
    human = human_posterior(paired.sum(axis=1) + human_only, confidence=0.95)
    assert result.theta == betainc(3 + 1 + 1, 6 + 3 + 1, 0.5)  # 9 wins and 4 losses, paired items included
    for name in VALUES:
        np.testing.assert_array_equal(getattr(result, name), getattr(human, name))
    assert result.theta_error == 0


tables = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.int64, (n, 3, 3), elements=st.integers(0, 9)),
        hnp.arrays(np.int64, (n, 3), elements=st.integers(0, 15)),
        hnp.arrays(np.int64, (n, 3), elements=st.sampled_from([0, 0, 1, 3])),
    )
)


def same(first: Estimate, second: Estimate) -> None:
    for name in VALUES:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


@settings(max_examples=15, deadline=None)
@given(tables, st.sampled_from([0.95, None]))
def test_a_swap_gives_the_mirror_image(table, confidence):
    paired, metric_only, human_only = table
    options = {"confidence": confidence, "gamma": 0.05}
    first = posterior(paired, metric_only, human_only, **options)
    second = posterior(paired[:, ::-1, ::-1], metric_only[:, ::-1], human_only[:, ::-1], **options)
    np.testing.assert_allclose(second.theta, 1 - first.theta, atol=1e-12)
    np.testing.assert_array_equal(second.p_low[:, ::-1], first.p_low)
    np.testing.assert_array_equal(second.margin_high, -first.margin_low)
    np.testing.assert_array_equal(second.effective_draws, first.effective_draws)


@settings(max_examples=10, deadline=None)
@given(tables, st.sampled_from([0.95, None]))
def test_results_do_not_depend_on_the_other_tables(table, confidence):
    options = {"confidence": confidence, "gamma": 0.05}
    whole = posterior(*table, **options)
    order = np.random.default_rng(0).permutation(len(table[0]))
    same(posterior(*(counts[order] for counts in table), **options), whole.at(order))
    for k in order:
        same(posterior(*(counts[k] for counts in table), **options), whole.at(k))


def test_theta_of_a_mirror_image_is_one_half():
    result = posterior([[8, 2, 1], [0, 3, 0], [1, 2, 8]], [40, 3, 40], [2, 0, 2])
    assert result.theta == 0.5
    assert result.theta_error == 0
    assert result.p[0] == result.p[2]
    assert result.margin_low == -result.margin_high


def test_without_human_ratings_wins_are_as_likely_as_losses():
    by_metric = np.array([[200, 90, 300], [300, 90, 200], [90.5, 200, 300]])
    result = posterior(np.zeros((3, 3, 3)), by_metric, np.zeros((3, 3)))
    np.testing.assert_array_equal(result.theta, 0.5)
    np.testing.assert_array_equal(result.margin, 0)
    np.testing.assert_array_equal(result.margin_low, -result.margin_high)
    np.testing.assert_allclose(result.p, 1 / 3, atol=0.03)


def test_draws_stop_where_theta_is_precise_or_clear():
    table = ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [330, 110, 275], NONE)
    precise = posterior(*table)
    assert 0 < precise.theta_error <= 0.005
    # theta is .66, so after the first draws a decision at .05 is clear.
    clear = posterior(*table, gamma=0.05)
    assert clear.effective_draws < precise.effective_draws
    assert not clear.at_threshold(gamma=0.05)
    assert abs(clear.theta - precise.theta) < 4 * (clear.theta_error + precise.theta_error)
    # theta is .9746, where no number of draws is enough.
    near = posterior([[14, 2, 2], [2, 7, 3], [2, 2, 9]], [120, 30, 50], NONE, gamma=0.05)
    assert near.at_threshold(gamma=0.05)
    assert mixture.MOST_DRAWS / 4 < near.effective_draws <= mixture.MOST_DRAWS


@pytest.mark.parametrize("divisor", [1.0, 1.7])
def test_no_unmarked_decision_depends_on_the_seed(divisor):
    """Over tables of whole and of effective counts, at most 2 of 60 may be marked."""
    rng = np.random.default_rng(5)
    channel = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]])
    p = rng.dirichlet(np.full(3, 3.0), size=60)
    paired = np.stack([rng.multinomial(rng.integers(10, 60), (shares[:, None] * channel).ravel()) for shares in p])
    many = np.repeat([60, 3000], 30)
    metric_only = np.stack([rng.multinomial(n, shares @ channel) for n, shares in zip(many, p, strict=True)])
    decided = []
    for seed in range(4):
        result = posterior(
            paired.reshape(-1, 3, 3) / divisor, metric_only / divisor, np.zeros((60, 3)), seed=seed, gamma=0.05
        )
        marked = result.at_threshold(gamma=0.05)
        decided.append(np.where(marked, 9, decide(result.theta, gamma=0.05)))
        assert marked.sum() <= 4
    assert not any(len(set(decisions) - {9}) > 1 for decisions in np.array(decided).T.tolist())


@pytest.mark.parametrize("name", ["nothing paired", "many people more"])
def test_weights_are_the_density_ratio(name):
    """The weights equal posterior over proposal at draws of exact gammas, with both densities by definition."""
    counts = counts_of(TABLES[name])
    items = counts.paired.sum(axis=1, keepdims=True) + 4 * counts.human_only[:, np.newaxis]
    cells = counts.paired + np.minimum((items + 3.5) / 9, 1)
    rng = np.random.default_rng(0)
    q = rng.dirichlet(cells.sum(axis=0) + counts.metric_only, 8_000)
    nu = np.stack([rng.dirichlet(cells[:, r], 8_000) for r in range(3)], axis=2)
    pi = np.maximum(q[:, np.newaxis] * nu, 1e-300)
    p = pi.sum(axis=2)
    density = dirichlet.logpdf(q.T, cells.sum(axis=0) + counts.metric_only)
    density += ((cells - 1) * np.log(np.maximum(nu, 1e-300))).sum(axis=(1, 2))
    target = (counts.paired * np.log(pi)).sum(axis=(1, 2)) + np.log(q) @ (counts.metric_only + 2)
    log, better = target + np.log(p) @ (counts.human_only - 2) - density, p[:, 0] > p[:, 2]
    weights = np.exp(log - log.max())
    theta, error = weights @ better / weights.sum(), 5 / np.sqrt(weights.sum() ** 2 / (weights @ weights))
    drawn, log_weights = weighted_draws(Counts(*(part[np.newaxis] for part in counts)), shared_numbers(20_000, [0]))
    weights = np.exp(log_weights[0] - log_weights.max())
    assert weights @ (drawn[0, 0] > drawn[2, 0]) / weights.sum() == pytest.approx(theta, abs=error)


@pytest.mark.parametrize("shape", [0.4, 0.9, 1.0, 4.5, 300.0, 40_000.0])
def test_weighted_cubes_of_normal_numbers_are_gammas(shape):
    """Mean and spread agree with those of the distribution within five Monte Carlo errors."""
    draws = 200_000
    values, log_weights = (
        weighted[0].astype(float) for weighted in weighted_gammas(np.array([shape]), shared_numbers(draws, [0]), 2)
    )
    weights = np.exp(log_weights)
    assert weights.max() < 1.01  # a probability of acceptance
    assert weights.mean() > 0.94
    mean = weights @ values / weights.sum()
    assert mean == pytest.approx(shape, abs=5 * np.sqrt(shape / draws))
    spread = weights @ (values - mean) ** 2 / weights.sum()
    # The fourth central moment of a gamma is 3 shape^2 + 6 shape.
    assert spread == pytest.approx(shape, abs=5 * np.sqrt((2 * shape**2 + 6 * shape) / draws))


@settings(deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-5, 5).map(lambda x: round(x, 1))),
    st.floats(0.01, 0.99),
)
def test_weighted_quantiles_of_equal_weights_are_order_statistics(values, probability):
    result = weighted_quantiles(values[np.newaxis], np.full(len(values), 0.3), (probability,))[0, 0]
    assert result == np.sort(values)[int(np.ceil(probability * len(values))) - 1]


@pytest.mark.parametrize("name", HARD)
def test_populations_equal_the_finite_sum(name):
    result, exact = tempered_posterior(HARD[name]), FiniteSum.of(*HARD[name])
    assert abs(result.theta - exact.theta) < 4 * result.theta_error
    assert result.theta_error < 0.01
    assert result.effective_draws > 1000
    np.testing.assert_allclose(result.p, exact.mean, atol=0.02)
    np.testing.assert_allclose(exact.below(result.p_low), 0.025, atol=0.015)
    np.testing.assert_allclose(exact.below(result.p_high), 0.975, atol=0.015)


def test_a_million_items_of_a_metric_that_people_disagree_with():
    """Gibbs chains give R-hat 3 to 4 here. Human ratings almost determine p; the metric's ratings affect mu, not p."""
    table = ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [600_000, 100_000, 300_000], [30, 30, 200])
    result = posterior(*table, gamma=0.05)
    # 45 wins, 39 ties and 213 losses by human ratings alone
    np.testing.assert_allclose(result.p, np.array([45, 39, 213]) / 297, atol=0.03)
    assert result.theta < 0.01


def test_empty_human_classes_and_many_items_that_nuts_misses():
    # theta is .9993 by 24 million draws; NUTS as in the paper gives .9999 and 2,708 divergences.
    result = posterior([[2, 0, 1], NONE, NONE], [99_000, 0, 1000], NONE)
    assert result.effective_draws > 2000
    assert abs(result.theta - 0.9993) < 4.5 * result.theta_error
    assert result.margin_low < 0.93  # NUTS: .95


def test_one_annotated_item_and_a_million_by_the_metric():
    """The result is correct within its error, and there is no decision. Gibbs chains stayed at their start: with one
    seed of three theta was 1.0000 and the lower bound .66."""
    result = posterior([[0, 0, 1], NONE, NONE], [100_000, 0, 900_000], NONE, seed=0, gamma=0.05)
    # .9741 with an error of .0006 by 4 million weighted draws
    assert abs(result.theta - 0.9741) < 4 * np.hypot(result.theta_error, 0.0006)
    assert result.at_threshold(gamma=0.05)


def test_separate_modes_have_their_weights():
    # No human rating is a tie and all metric ratings are ties, so the margin is near 1 or near -1.
    result = posterior([[10, 0, 0], NONE, [1, 0, 9]], [0, 10_000, 0], NONE, gamma=0.05)
    assert result.theta_error < 0.02
    assert abs(result.theta - 0.5) < 4 * result.theta_error + 0.02
    assert result.margin_low < -0.9
    assert result.margin_high > 0.9


def test_populations_that_disagree_are_detected():
    rng = np.random.default_rng(0)
    together = rng.normal(size=(40, 16, 64))
    r_hat, effective = agreement(together)
    assert r_hat < 1.01
    assert effective > 10_000
    r_hat, effective = agreement(together + np.where(np.arange(16) < 5, 3.0, 0.0)[:, np.newaxis])
    assert r_hat > 1.3
    assert effective < 40
    # Constant chains, and chains that agree at first and differ later, do not converge.
    drift = together + np.linspace(0, 2, 40)[:, np.newaxis, np.newaxis]
    assert agreement(drift)[0] > 1.1
    assert agreement(np.ones((4, 2, 3))) == (1.0, 24.0)


def agree(estimate: Estimate, draws: np.ndarray) -> None:
    """Assert that theta, means and bounds agree within the Monte Carlo error of both estimates."""
    diagnostics = pytest.importorskip("numpyro.diagnostics")
    margin = draws[..., 0] - draws[..., 2]
    assert diagnostics.split_gelman_rubin(margin) < 1.05
    effective = min(float(diagnostics.effective_sample_size(margin)), margin.size)
    both = np.sqrt(1 / estimate.effective_draws + 1 / effective)
    better = (margin > 0).mean()
    error = np.hypot(np.sqrt(better * (1 - better) / effective), 1 / effective)
    assert abs(estimate.theta - better) < 4.5 * np.hypot(estimate.theta_error, error)
    p = draws.reshape(-1, 3)
    np.testing.assert_array_less(np.abs(estimate.p - p.mean(axis=0)), 5 * p.std(axis=0) * both)
    # A quantile in a 2.5 % tail has 2.67 times the error of the mean; skewed tails have up to twice that.
    for low, high, values in (
        (estimate.p_low, estimate.p_high, p),
        (estimate.margin_low, estimate.margin_high, margin.ravel()),
    ):
        bounds = np.quantile(values, [0.025, 0.975], axis=0)
        assert (np.abs(np.stack([low, high]) - bounds) < 5 * 5.3 * values.std(axis=0) * both).all()


NUTS_TABLES = {
    "typical": ([[30, 5, 5], [5, 15, 5], [4, 6, 25]], [400, 200, 400], NONE),
    "many people more": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [400, 100, 300], [100, 30, 80]),
    "metric without ties": ([[20, 0, 6], [9, 0, 8], [5, 0, 12]], [520, 0, 480], NONE),
    "anticorrelated": ([[3, 2, 20], [2, 8, 3], [25, 3, 4]], [300, 100, 280], NONE),
    "five paired": ([[2, 0, 0], [0, 1, 0], [0, 1, 1]], [500, 100, 400], NONE),
    "very large": ([[3000, 500, 500], [500, 1500, 500], [1400, 600, 2500]], [100_000, 50_000, 80_000], NONE),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NUTS_TABLES)
def test_nuts_as_the_paper_runs_it(name):
    pytest.importorskip("numpyro", reason="NumPyro is not installed (dependency group test)")
    counts = counts_of(NUTS_TABLES[name])
    agree(posterior(*counts), nuts(counts, chains=5, warmup=2000, draws=10_000))
