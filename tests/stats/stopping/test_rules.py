"""Rules by their definitions: requests of each interim analysis, and conditions that close a pair."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, dirichlet, norm

from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import Counts, Estimate, Estimator, PairItems
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.rules import Rule, analyse_tables, estimates_on

PLAIN = Rule(estimator=ESTIMATORS["human"], gamma=0.05, looks=(10, 20), bounds=(2.5, 1.96), seed=0, budget=1000)
# wins, ties and losses: clear in either direction, just short of it, equal, none
PEOPLE = np.array([[9, 1, 0], [8, 1, 1], [7, 0, 3], [4, 2, 4], [0, 10, 0], [1, 1, 8], [0, 0, 10], [0, 0, 0]])


def decide_by(
    rule: Rule, counts: Counts, *, look: int = 0, last: int = 40
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return decisions, closed pairs and outcome proportions of tables (n,)."""
    n = len(counts.human_only)
    decision, is_open, p = analyse_tables(
        rule,
        counts,
        analysis_index=look,
        n_at_last_analysis=np.full(n, last),
        items=None,
        is_analysed_pair=np.ones(n, dtype=bool),
    )
    return decision, ~is_open, p


def is_judged(
    rule: Rule, human: np.ndarray, *, look: int = 0, last: int = 40
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the same for human counts (n, 3) with a metric without scores."""
    none = np.zeros((len(human), 3, 3), dtype=np.int64)
    return decide_by(rule, Counts(none, np.zeros_like(human), human), look=look, last=last)


def theta_of(human: np.ndarray) -> np.ndarray:
    """Return P(p_win > p_loss) by definition: the proportion of wins among untied comparisons is Beta."""
    return beta.sf(0.5, human[..., 0] + 1, human[..., 2] + 1)


@pytest.mark.parametrize("look", [0, 1])
def test_theta_decides_beyond_the_probability_of_the_bound(look: int) -> None:
    decision, closed, p = is_judged(PLAIN, PEOPLE, look=look)
    tail = norm.sf(PLAIN.bounds[look])
    expected = [1 if theta > 1 - tail else -1 if theta < tail else 0 for theta in theta_of(PEOPLE)]
    assert decision.tolist() == expected
    assert closed.tolist() == [sign != 0 for sign in expected]
    assert sum(expected) == 0
    assert len(set(expected)) == 3
    np.testing.assert_allclose(p, (PEOPLE + 1) / (PEOPLE.sum(axis=1, keepdims=True) + 3))
    assert is_judged(PLAIN, PEOPLE, look=0)[0].tolist() != is_judged(PLAIN, PEOPLE, look=1)[0].tolist()


@pytest.mark.parametrize("human", [[7, 2, 3], [2, 6, 2], [1, 0, 6], [0, 0, 0]])
def test_futility_asks_what_the_rest_can_still_decide(human: list[int]) -> None:
    # Margin and variance of the Dirichlet posterior. At the last interim analysis the standard error is sd * sqrt(n /
    # last), and the margin is distributed around the current one with the rest of the variance (Spiegelhalter, Freedman
    # and Blackburn 1986).
    counts = np.array(human)
    posterior = dirichlet(counts + 1)
    margin = posterior.mean()[0] - posterior.mean()[2]
    covariance = posterior.cov()
    sd = np.sqrt(covariance[0, 0] + covariance[2, 2] - 2 * covariance[0, 2])
    share = counts.sum() / 40
    needed = PLAIN.bounds[-1] * sd * np.sqrt(share)
    rest = sd * np.sqrt(1 - share)
    chance = norm.sf((needed - margin) / rest) + norm.cdf((-needed - margin) / rest)
    for slack, closed in ((1e-6, True), (-1e-6, False)):
        rule = replace(PLAIN, futility=chance * (1 + slack), bounds=(6.0, 1.96))
        assert is_judged(rule, counts[np.newaxis])[1].tolist() == [closed]


def test_a_bound_beyond_what_draws_resolve_never_decides() -> None:
    # Forty wins of forty: theta is 1 - 2^-41, and every draw gives 1. A bound of 5.5 (a tail of 2e-8) requires more
    # precision than thousands of draws have, while human ratings alone decide in closed form.
    counts = Counts(np.array([np.diag([40, 0, 0])]), np.array([[5, 1, 1]]), np.zeros((1, 3), int))
    mirror = Counts(counts.paired[:, ::-1, ::-1], counts.metric_only[:, ::-1], counts.human_only)
    rule = replace(PLAIN, bounds=(5.5, 5.5))
    for name, decision in (("mixture", 0), ("human", 1)):
        changed = replace(rule, estimator=ESTIMATORS[name])
        assert decide_by(changed, counts, last=90)[0].tolist() == [decision], name
        assert decide_by(changed, mirror, last=90)[0].tolist() == [-decision], name


@pytest.mark.parametrize("name", ["ppi", "poststratified", "naive"])
def test_other_estimators_decide_by_their_own_theta(name: str) -> None:
    rng = np.random.default_rng(1)
    paired = rng.multinomial(40, np.array([[5, 1, 1], [1, 3, 1], [1, 1, 3]]).ravel() / 17, size=30).reshape(-1, 3, 3)
    paired[::2] = paired[::2, ::-1, ::-1]
    counts = Counts(paired, rng.multinomial(60, [0.4, 0.3, 0.3], size=30), np.zeros((30, 3), int))
    decision, _, p = decide_by(replace(PLAIN, estimator=ESTIMATORS[name], seed=5), counts, look=1, last=90)
    estimate = ESTIMATORS[name].estimate(counts, confidence=0.95, gamma=0.05, rng=np.random.default_rng(5))
    tail = norm.sf(1.96)
    assert decision.tolist() == [1 if t > 1 - tail else -1 if t < tail else 0 for t in estimate.theta]
    assert decision.any()
    np.testing.assert_array_equal(p, estimate.p)


def test_what_reads_items_answers_for_all_pairs_and_decides_those_judged() -> None:
    items = PairItems(human=np.zeros((2, 2, 1), np.int8), systems=np.array([[0, 1], [1, 2]]), units=np.arange(1))
    theta = np.array([[0.999, 0.5], [0.98, 0.001]])
    margins = Estimate.from_margin(theta - 0.5, theta - 0.6, theta - 0.4, theta)

    def answer(about: PairItems, **_: object) -> Estimate:
        assert about is items
        return margins

    rule = replace(PLAIN, estimator=Estimator(name="all", estimate=answer, needs_items=True))
    # The third of the four tables is not judged, and the first |z|, 2.5, requires a theta of .994.
    is_judged = np.array([[True, True], [False, True]])
    counts = Counts(np.zeros((3, 3, 3), int), np.zeros((3, 3), int), np.tile([3, 0, 3], (3, 1)))
    decision, is_open, p = analyse_tables(
        rule, counts, analysis_index=0, n_at_last_analysis=np.full(3, 40), items=items, is_analysed_pair=is_judged
    )
    assert decision.tolist() == [1, 0, -1]
    assert is_open.tolist() == [False, True, False]
    assert np.isnan(p).all()
    assert p.shape == (3, 3)
    estimates = estimates_on(rule, counts, analysis_index=0, items=items, is_analysed_pair=is_judged)
    assert estimates.theta.tolist() == [0.999, 0.5, 0.001]


@pytest.mark.parametrize("look", [0, 1])
def test_human_estimates_are_mean_preferences_within_the_interval_of_the_posterior(look: int) -> None:
    human = PEOPLE[:-1]
    counts, is_pair = Counts(np.zeros((7, 3, 3), int), np.zeros((7, 3), int), human), np.ones(7, dtype=bool)
    options = {"analysis_index": look, "items": None, "is_analysed_pair": is_pair}
    estimates = estimates_on(PLAIN, counts, **options)
    n, mean = human.sum(axis=1), (human[:, 0] - human[:, 2]) / human.sum(axis=1)
    posterior = human_posterior(human, confidence=1 - 2 * norm.sf(PLAIN.bounds[look]))
    np.testing.assert_allclose(estimates.theta, theta_of(human))
    np.testing.assert_allclose([estimates.margin, estimates.score], [mean, mean])
    np.testing.assert_allclose(estimates.low, np.minimum(posterior.margin_low, mean))
    np.testing.assert_allclose(estimates.high, np.maximum(posterior.margin_high, mean))
    assert estimates.high[0] >= mean[0] > posterior.margin[0]
    # the variance of a sign under equal wins and losses, with a pseudo-count of each outcome
    np.testing.assert_allclose(estimates.error, np.sqrt((human[:, 0] + human[:, 2] + 2) / (n + 3) / n))
    by_metric = estimates_on(replace(PLAIN, estimator=ESTIMATORS["ppi"]), counts, **options)
    np.testing.assert_array_equal(by_metric.score, by_metric.margin)


def test_quick_evidence_is_asked_for_where_no_part_needs_an_interval() -> None:
    called, seeds = [], []

    def estimate(counts: Counts, **options: object) -> Estimate:
        called.append((options["confidence"], round(options["gamma"], 9)))
        seeds.append(options["rng"].integers(1000))
        return human_posterior(counts.human, confidence=options["confidence"])

    estimator = Estimator(name="own", estimate=estimate, quick=True)
    is_judged(replace(PLAIN, estimator=estimator, futility=0.2, gamma=0.1, seed=4), PEOPLE)
    is_judged(replace(PLAIN, estimator=replace(estimator, quick=False), gamma=0.1), PEOPLE)
    assert called == [(None, round(2 * norm.sf(2.5), 9)), (0.9, 0.1)]
    assert seeds[0] == np.random.default_rng(4).integers(1000)
