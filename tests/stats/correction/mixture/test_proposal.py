"""Proposals: weights by the definition of both densities, one evidence whatever the proposal, and who gets a share."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betainc
from scipy.stats import dirichlet

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture.proposal import (
    Proposal,
    adapted_proposal,
    human_first_proposal,
    plain_proposal,
)
from tests.stats.correction.mixture.test_exact import TABLES, exact_sum

NONE = np.zeros(3)


@pytest.mark.parametrize("name", ["typical", "nothing paired", "many people more"])
def test_log_weights_are_the_density_ratio(name):
    """Posterior over proposal by the definition of both densities, with numerical Jacobians."""
    paired, metric_only, human_only = counts = Counts(*(np.array(x, dtype=float) for x in TABLES[name]))
    for proposal, human_first in (
        (plain_proposal(counts), False),
        (human_first_proposal(counts), True),
    ):
        drawn = proposal.draw(12, np.random.default_rng(0))
        assert drawn.p.shape == (3, 12)
        np.testing.assert_allclose(drawn.pi.sum(axis=(0, 1)), 1)
        constants = []
        for i in range(12):
            pi = drawn.pi[..., i]
            p, q = pi.sum(axis=1), pi.sum(axis=0)
            mu = pi / p[:, np.newaxis]
            target = (paired * np.log(mu)).sum() + ((paired.sum(axis=1) + human_only) * np.log(p)).sum()
            target += (metric_only * np.log(q)).sum() + _log_jacobian(pi, axis=1)
            cells, margin = proposal.cells[0], proposal.margins[0]
            if human_first:
                density = dirichlet.logpdf(p, margin) + sum(dirichlet.logpdf(mu[h], cells[h]) for h in range(3))
                density += _log_jacobian(pi, axis=1)
            else:
                density = dirichlet.logpdf(q, margin) + _log_jacobian(pi, axis=0)
                density += sum(dirichlet.logpdf(pi[:, r] / q[r], cells[:, r]) for r in range(3))
            constants.append(drawn.log_weights[i] - (target - density))
        np.testing.assert_allclose(constants, 0, atol=1e-3)  # differences cost digits where a cell is tiny


def _log_jacobian(pi, *, axis):
    """log |d(margin, shares within) / d pi| at a joint table (3, 3), by central differences in its first 8 cells."""

    def coordinates(free):
        table = np.append(free, 1 - free.sum()).reshape(3, 3)
        margin = table.sum(axis=axis)
        shares = table / np.expand_dims(margin, axis)
        return np.concatenate([margin[:2], (shares[:, :2] if axis == 1 else shares[:2]).ravel()])

    free = pi.ravel()[:8]
    step = 1e-4 * pi.min()
    columns = [(coordinates(free + step * e) - coordinates(free - step * e)) / (2 * step) for e in np.eye(8)]
    return np.linalg.slogdet(np.array(columns))[1]


@pytest.mark.parametrize("name", ["people without ties", "no ties at all", "two classes empty", "a few people more"])
def test_every_proposal_has_the_same_evidence(name):
    """The mean weight is the integral of the posterior's powers, whichever proposal the draws come from."""
    counts = Counts(*(np.array(x, dtype=float) for x in TABLES[name]))
    rng = np.random.default_rng(0)
    proposals = [plain_proposal(counts), adapted_proposal(counts, rng)]
    if name != "a few people more":
        assert (proposals[1].rates != 1).any()
    means = []
    for proposal in proposals:
        drawn = proposal.draw(100_000, rng)
        top = drawn.log_weights.max()
        weights = np.exp(drawn.log_weights - top)
        means.append(top + np.log(weights.mean()))
        assert weights.std() / weights.mean() / np.sqrt(len(weights)) < 0.02
    assert means[0] == pytest.approx(means[1], abs=0.1)


def test_mixture_of_proposals_agrees_with_one():
    counts = Counts(*(np.array(x, dtype=float) for x in TABLES["many people more"]))
    weights, parameters = exact_sum(*TABLES["many people more"])
    rng = np.random.default_rng(0)
    proposal = adapted_proposal(counts, rng)
    assert len(proposal.shares) > 1
    assert proposal.shares.sum() == pytest.approx(1)
    drawn = proposal.draw(50_000, rng)
    got = np.exp(drawn.log_weights - drawn.log_weights.max())
    effective = got.sum() ** 2 / (got @ got)
    assert effective > 5000
    theta = weights @ betainc(parameters[:, 2], parameters[:, 0], 0.5)
    assert got[drawn.p[0] > drawn.p[2]].sum() / got.sum() == pytest.approx(theta, abs=4.5 * 0.5 / np.sqrt(effective))


def test_draws_agree_with_the_closed_form():
    # the metric-first proposal knows nothing of the closed form: it must find the same posterior
    counts = Counts(np.array([[5.0, 1, 0], [1, 2, 2], [0, 1, 2]]), np.zeros(3), np.array([3.0, 0, 1]))
    drawn = plain_proposal(counts).draw(100_000, np.random.default_rng(0))
    weights = np.exp(drawn.log_weights)
    p = drawn.p @ weights / weights.sum()
    np.testing.assert_allclose(p, np.array([10, 6, 5]) / 21, atol=0.003)
    people_first = human_first_proposal(counts).draw(50, np.random.default_rng(0))
    assert np.ptp(people_first.log_weights) < 1e-9  # it is the posterior


@pytest.mark.parametrize(("n", "kappa"), [(0, 1 / 3), (1, 1 / 3), (2, 0.6), (5, 0.6), (6, 1.0), (50, 1.0)])
def test_pseudo_counts_are_the_largest_with_a_finite_fourth_moment(n, kappa):
    # n + 4 > 9 kappa; 5 > 9 * 1/3 but not 9 * .6, 9 > 9 * .6 but not 9, 10 > 9
    paired = np.array([[n, 0, 0], [3, 3, 3], [0, 0, 0]], dtype=float)
    cells = plain_proposal(Counts(paired, np.array([4.0, 2, 1]), NONE)).cells[0]
    np.testing.assert_allclose(cells, paired + np.array([[kappa], [1.0], [1 / 3]]))
    assert n + 4 > 9 * kappa


def test_members_draw_by_their_shares():
    counts = Counts(*(np.array(x, dtype=float) for x in TABLES["many people more"]))
    proposal = adapted_proposal(counts, np.random.default_rng(0))
    drawn = proposal.draw(10_000, np.random.default_rng(1))
    assert abs(drawn.p.shape[1] - 10_000) < len(proposal.shares)
    few = proposal.draw(1, np.random.default_rng(1))
    assert few.p.shape[1] >= len(proposal.shares)  # every member at least once
    # each member draws its margin from a Dirichlet: the mean over all draws is the mean of the members' means
    assert (proposal.rates == 1).all()
    assert 0 < proposal.over_metric.sum() < len(proposal.over_metric)
    numbers = np.maximum(np.rint(proposal.shares * 10_000), 1)
    means = []
    for k in range(len(numbers)):
        axis = 0 if proposal.over_metric[k] else 1
        margin = proposal.margins[k] / proposal.margins[k].sum()
        within = proposal.cells[k] / proposal.cells[k].sum(axis=axis, keepdims=True)
        means.append(within * np.expand_dims(margin, axis))
    mean = np.average(means, axis=0, weights=numbers)
    np.testing.assert_allclose(drawn.pi.mean(axis=2), mean, atol=0.005)


@pytest.mark.parametrize("name", ["no ties at all", "a few people more", "many people more", "one paired"])
def test_the_safe_member_keeps_a_quarter_and_the_rest_are_worth_having(name):
    counts = Counts(*(np.array(x, dtype=float) for x in TABLES[name]))
    proposal = adapted_proposal(counts, np.random.default_rng(0))
    np.testing.assert_allclose(proposal.cells[0], counts.paired + 1 / 3)
    assert proposal.shares[0] >= 0.25
    assert proposal.shares.min() >= 0.02
    assert proposal.shares.sum() == pytest.approx(1)
    # its own weights, were it alone, are at most prod mu^(2/3) <= 9^-3 of the constant
    alone = Proposal(**{part: values[:1] for part, values in vars(proposal).items()} | {"shares": np.ones(1)})
    drawn = alone.draw(2000, np.random.default_rng(1))
    mu = drawn.pi / drawn.p[:, np.newaxis]
    if not counts.human_only.any():
        bounded = drawn.log_weights - 2 / 3 * np.log(mu).sum(axis=(0, 1))
        assert np.ptp(bounded) < 1e-6


def test_swapping_the_systems_mirrors_the_plain_proposal():
    paired, metric_only, human_only = (np.array(x, dtype=float) for x in TABLES["a few people more"])
    one = plain_proposal(Counts(paired, metric_only, human_only))
    other = plain_proposal(Counts(paired[::-1, ::-1], metric_only[::-1], human_only[::-1]))
    np.testing.assert_array_equal(one.cells[0], other.cells[0, ::-1, ::-1])
    np.testing.assert_array_equal(one.margins[0], other.margins[0, ::-1])
    pi = np.random.default_rng(0).dirichlet(np.ones(9), 30).T.reshape(3, 3, 30)
    mirror = pi[::-1, ::-1]
    np.testing.assert_allclose(
        one.log_ratios(pi, pi.sum(axis=1)), other.log_ratios(mirror, mirror.sum(axis=1)), rtol=1e-12
    )
