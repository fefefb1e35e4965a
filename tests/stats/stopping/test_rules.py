"""Rules by their definitions: what each look asks, what closes a pair, and how sure draws may be."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, dirichlet, norm

from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimate import ESTIMATORS, Estimate
from custodes.stats.stopping.betting import betting_interval, log_wealth
from custodes.stats.stopping.rules import Evidence, Rule, Ruling, boundary_of, evidence_of, looks_every, rule_on
from custodes.stats.stopping.sequential import group_sequential_bounds

PLAIN = Rule(
    estimator="human",
    gamma=0.05,
    looks=(10, 20),
    bounds=(2.5, 1.96),
    anytime=False,
    futility=None,
    equivalence=None,
    seed=0,
)
# wins, ties and losses: clear either way, just short of it, equal, nothing
PEOPLE = np.array([[9, 1, 0], [8, 1, 1], [7, 0, 3], [4, 2, 4], [0, 10, 0], [1, 1, 8], [0, 0, 10], [0, 0, 0]])


def judged(rule: Rule, human: np.ndarray, *, look: int = 0, last: int = 40, evidence: Evidence | None = None) -> Ruling:
    """The ruling on people's counts (..., 3) beside a silent metric."""
    none = np.zeros((*human.shape[:-1], 3, 3), dtype=np.int64)
    lasts = np.full(human.shape[:-1], last)
    return rule_on(rule, none, np.zeros_like(human), human, look=look, last=lasts, evidence=evidence)


def theta_of(human: np.ndarray) -> np.ndarray:
    """P(p_win > p_loss), by definition of the posterior: the share of wins among what is untied is Beta."""
    return beta.sf(0.5, human[..., 0] + 1, human[..., 2] + 1)


def test_boundary_options() -> None:
    assert boundary_of((10, 20), boundary="none", gamma=0.1) == pytest.approx([norm.isf(0.05)] * 2)
    assert boundary_of((10, 20), boundary=2.289, gamma=0.1) == (2.289, 2.289)
    for kind in ("pocock", "obrien-fleming"):
        expected = group_sequential_bounds((10, 20, 25), kind=kind, level=0.1)
        assert boundary_of((10, 20, 25), boundary=kind, gamma=0.1) == tuple(expected)
    assert looks_every(10, 10) == (10,)
    assert looks_every(10, 7) == (7,)
    assert looks_every(10, 20) == (10, 20)
    assert looks_every(1, 3) == (1, 2, 3)


@pytest.mark.parametrize("look", [0, 1])
def test_theta_decides_beyond_the_probability_of_the_bound(look: int) -> None:
    ruling = judged(PLAIN, PEOPLE, look=look)
    tail = norm.sf(PLAIN.bounds[look])
    expected = [1 if theta > 1 - tail else -1 if theta < tail else 0 for theta in theta_of(PEOPLE)]
    assert ruling.decision.tolist() == expected
    assert ruling.closed.tolist() == [sign != 0 for sign in expected]
    assert sum(expected) == 0
    assert len(set(expected)) == 3
    np.testing.assert_allclose(ruling.p, (PEOPLE + 1) / (PEOPLE.sum(axis=1, keepdims=True) + 3))
    assert judged(PLAIN, PEOPLE, look=0).decision.tolist() != judged(PLAIN, PEOPLE, look=1).decision.tolist()


def test_paired_and_unpaired_annotations_count_alike() -> None:
    paired = np.array([[[3, 1, 0], [1, 2, 0], [0, 1, 1]]])
    alone = np.array([[4, 0, 1]])
    ruling = rule_on(PLAIN, paired, np.zeros((1, 3), int), alone, look=1, last=np.array([40]), evidence=None)
    same = judged(PLAIN, np.array([[8, 3, 3]]), look=1)
    assert (ruling.decision.tolist(), ruling.p.tolist()) == (same.decision.tolist(), same.p.tolist())


@pytest.mark.parametrize("human", [[7, 2, 3], [2, 6, 2], [1, 0, 6], [0, 0, 0]])
def test_futility_asks_what_the_rest_can_still_decide(human: list[int]) -> None:
    # Margin and variance of the Dirichlet posterior, then: at the last look the standard error is sd * sqrt(n / last),
    # and the margin lies around this one with the rest of the variance (Spiegelhalter, Freedman and Blackburn 1986).
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
        assert judged(rule, counts[np.newaxis]).closed.tolist() == [closed]


def test_equivalence_closes_where_the_interval_lies_within() -> None:
    human = np.array([[10, 80, 10], [12, 80, 8], [30, 5, 25], [2, 1, 2]])
    interval = human_posterior(human, confidence=0.95)
    reach = np.maximum(np.abs(interval.margin_low), np.abs(interval.margin_high))
    assert (np.diff(reach) > 0).all()
    for within in [*reach * 1.0001, *reach * 0.9999]:
        rule = replace(PLAIN, equivalence=float(within), bounds=(9.0, 9.0))
        ruling = judged(rule, human, look=1)
        assert ruling.closed.tolist() == (reach < within).tolist()
        assert not ruling.decision.any()


def test_betting_decides_whatever_the_look() -> None:
    rng = np.random.default_rng(0)
    human = rng.multinomial(30, [0.6, 0.2, 0.2], size=200)
    human[::2] = human[::2, ::-1]
    rule = replace(PLAIN, anytime=True, bounds=(0.0, 9.0))
    wealth = log_wealth(human, margin=np.zeros(200))
    expected = np.where(wealth >= np.log(20), np.sign(human[:, 0] - human[:, 2]), 0)
    assert {-1, 0, 1} == set(expected.tolist())
    for look in (0, 1):
        ruling = judged(rule, human, look=look)
        assert ruling.decision.tolist() == expected.tolist()
        assert ruling.closed.tolist() == (expected != 0).tolist()
    low, high = betting_interval(human, level=0.05)
    within = judged(replace(rule, equivalence=0.5), human)
    assert within.closed.tolist() == ((expected != 0) | ((low > -0.5) & (high < 0.5))).tolist()


def test_betting_gives_up_by_the_wealth_it_can_still_win() -> None:
    # With V untied annotations the wealth at |z| is about sqrt(pi / (2 V)) exp(z^2 / 2) (Laplace's approximation of the
    # average over stakes), never more than exp(z^2 / 2), and must reach 1 / gamma. V at the last look is what the
    # posterior mean of the ties leaves. In the second case V = 1, where the first factor would exceed 1.
    for counts, last in (([3, 4, 2], 40), ([0, 1, 0], 2)):
        win, tie, loss = (np.array(counts) + 1) / (sum(counts) + 3)
        untied = last * (1 - tie)
        bound = np.sqrt(2 * np.log(max(np.sqrt(2 * untied / np.pi), 1) / 0.05))
        sd = np.sqrt((win + loss - (win - loss) ** 2) / (sum(counts) + 4))
        share = sum(counts) / last
        needed, rest = bound * sd * np.sqrt(share), sd * np.sqrt(1 - share)
        chance = norm.sf((needed - win + loss) / rest) + norm.cdf((-needed - win + loss) / rest)
        for slack, closed in ((1e-6, True), (-1e-6, False)):
            rule = replace(PLAIN, anytime=True, futility=chance * (1 + slack))
            assert judged(rule, np.array([counts]), last=last).closed.tolist() == [closed]


def estimate(theta: list[float], draws: float) -> Estimate:
    n = len(theta)
    p = np.tile([0.5, 0.2, 0.3], (n, 1))
    return Estimate(
        p=p,
        p_low=p - 0.1,
        p_high=p + 0.1,
        margin=np.full(n, 0.2),
        margin_low=np.full(n, -0.1),
        margin_high=np.full(n, 0.6),
        theta=np.array(theta),
        effective_draws=np.full(n, draws),
    )


def test_draws_resolve_no_more_than_their_number() -> None:
    # 98 draws, all on one side, and one on either side of a uniform prior: 99/100
    drawn = evidence_of(estimate([0.0, 0.004, 0.5, 1.0], 98.0), gamma=0.1)
    assert drawn.theta.tolist() == pytest.approx([0.01, 0.01, 0.5, 0.99])
    closed = evidence_of(estimate([0.0, 1e-9, 1.0], np.nan), gamma=0.1)
    assert closed.theta.tolist() == [0, 1e-9, 1]
    assert drawn.sd == pytest.approx(np.full(4, 0.7 / (2 * norm.isf(0.05))))
    assert (drawn.margin[0], drawn.low[0], drawn.high[0], drawn.p[0].tolist()) == (0.2, -0.1, 0.6, [0.5, 0.2, 0.3])


def test_a_bound_beyond_what_draws_resolve_never_decides() -> None:
    # Forty wins of forty: theta is 1 - 2^-41, and every draw says 1. A bound of 5.5 (a tail of 2e-8) asks for more than
    # the thousands of draws can tell, while people alone, in closed form, decide.
    paired = np.array([np.diag([40, 0, 0])])
    more = np.array([[5, 1, 1]])
    rule = replace(PLAIN, bounds=(5.5, 5.5))
    for name, decision in (("mixture", 0), ("human", 1)):
        for equivalence in (None, 0.001):
            made = replace(rule, estimator=name, equivalence=equivalence)
            ruling = rule_on(made, paired, more, np.zeros((1, 3), int), look=0, last=np.array([90]), evidence=None)
            assert ruling.decision.tolist() == [decision], (name, equivalence)
        mirrored = rule_on(
            replace(rule, estimator=name),
            paired[:, ::-1, ::-1],
            more[:, ::-1],
            np.zeros((1, 3), int),
            look=0,
            last=np.array([90]),
            evidence=None,
        )
        assert mirrored.decision.tolist() == [-decision], name


@pytest.mark.parametrize("name", ["ppi", "inversion", "poststratified", "naive"])
def test_other_estimators_decide_by_their_own_theta(name: str) -> None:
    rng = np.random.default_rng(1)
    paired = rng.multinomial(40, np.array([[5, 1, 1], [1, 3, 1], [1, 1, 3]]).ravel() / 17, size=30).reshape(-1, 3, 3)
    paired[::2] = paired[::2, ::-1, ::-1]
    more = rng.multinomial(60, [0.4, 0.3, 0.3], size=30)
    none = np.zeros((30, 3), int)
    rule = replace(PLAIN, estimator=name, seed=5)
    ruling = rule_on(rule, paired, more, none, look=1, last=np.full(30, 90), evidence=None)
    own = ESTIMATORS[name](paired, more, none, confidence=0.95, gamma=0.05, rng=np.random.default_rng(5))
    tail = norm.sf(1.96)
    assert ruling.decision.tolist() == [1 if t > 1 - tail else -1 if t < tail else 0 for t in own.theta]
    assert ruling.decision.any()
    np.testing.assert_array_equal(ruling.p, own.p)


def test_evidence_given_replaces_the_estimators() -> None:
    theta = np.array([0.999, 0.5, 0.001])
    same = {name: np.full(3, 0.1) for name in ("margin", "sd", "low", "high")}
    given = Evidence(theta=theta, p=np.full((3, 3), 1 / 3), **same)
    ruling = judged(PLAIN, PEOPLE[[6, 6, 6]], evidence=given)
    assert ruling.decision.tolist() == [1, 0, -1]
    assert (ruling.p == 1 / 3).all()
    some = given.where(np.array([True, False, True]))
    assert some.theta.tolist() == [0.999, 0.001]
    assert some.p.shape == (2, 3)
