"""The finite sum against enumeration of every split, and where rounding must be noticed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import betainc, gammaln

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture import finite_sum
from custodes.stats.correction.mixture.finite_sum import DRAWS, Summed, summed
from tests.stats.correction.mixture.test_exact import NONE, TABLES, exact_sum

# many human-only items that say otherwise than the metric: without the tilt, rounding hides the posterior
PULLED = ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [60, 10, 40], [30, 30, 400])


def ask(table, seed=0):
    """Of one table."""
    counts = Counts(*(np.array(part, dtype=float) for part in table))
    return Summed(*(values[0] for values in summed(counts.rows[np.newaxis], seed=[seed], confidence=0.95)))


def rows_of(tables):
    return np.stack([Counts(*(np.array(part, dtype=float) for part in table)).rows for table in tables])


@pytest.mark.parametrize("table", [*TABLES.values(), PULLED], ids=[*TABLES, "pulled"])
def test_theta_and_shares_are_those_of_the_sum_by_convolution(table):
    weights, parameters = exact_sum(*table)
    got = ask(table)
    assert abs(got.theta - weights @ betainc(parameters[:, 2], parameters[:, 0], 0.5)) < 1e-11
    np.testing.assert_allclose(got.p, weights @ (parameters / parameters.sum(axis=1, keepdims=True)), atol=1e-11)
    assert got.bound < 1e-9
    total = parameters.sum(axis=1, keepdims=True)
    error = 4.5 * np.sqrt(0.025 * 0.975 / DRAWS)
    for bound, tail in ((got.low[:3], 0.025), (got.high[:3], 0.975)):
        np.testing.assert_allclose(weights @ betainc(parameters, total - parameters, bound), tail, atol=error)


@pytest.mark.parametrize(
    ("paired", "metric_only", "human_only"),
    [
        ([[2, 0, 1], [0, 1, 0], [0, 0, 3]], [3, 2, 4], NONE),
        ([[0, 0, 0], [0, 0, 0], [1, 0, 0]], [5, 0, 2], [4, 0, 1]),
    ],
)
def test_theta_by_every_split(paired, metric_only, human_only):
    """Every way to split each metric class over the human classes, one by one."""
    paired, human_only = np.array(paired, dtype=float), np.array(human_only, dtype=float)

    def splits(m):
        return [(a, m - a - b, b) for a in range(m + 1) for b in range(m + 1 - a)]

    logs, thetas = [], []
    for chosen in product(*(splits(m) for m in metric_only)):
        split = np.array(chosen, dtype=float).T  # [human, metric]
        n, s = paired.sum(axis=1), split.sum(axis=1)
        own = (gammaln(paired + split + 1) - gammaln(split + 1)).sum()
        own += (gammaln(n + human_only + s + 1) - gammaln(n + s + 3)).sum()
        logs.append(own)
        thetas.append(betainc(n[2] + human_only[2] + s[2] + 1, n[0] + human_only[0] + s[0] + 1, 0.5))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    got = ask((paired, metric_only, human_only))
    assert got.theta == pytest.approx(weights @ np.array(thetas), abs=1e-11)


def test_rounding_that_hides_the_sum_is_noticed(monkeypatch):
    good = TABLES["many people more"]
    assert np.isfinite(ask(PULLED).theta)
    monkeypatch.setattr(finite_sum, "_tilt", lambda paired, *_: np.zeros((len(paired), 3)))
    assert all(np.isnan(values).all() for values in ask(PULLED))
    # and changes nothing of another table in the same block
    rows = rows_of([good, PULLED])
    both = summed(rows, seed=[0], confidence=0.95)
    assert np.isnan(both.theta).tolist() == [False, True]
    assert both.theta[0] == ask(good).theta


def test_no_seed_changes_theta_and_a_swap_mirrors_it():
    paired, metric_only, human_only = (np.array(part) for part in TABLES["a few people more"])
    one, other = ask((paired, metric_only, human_only), 1), ask((paired, metric_only, human_only), 2)
    assert one.theta == other.theta
    assert one.low[3] != other.low[3]
    np.testing.assert_allclose([one.low[3], one.high[3]], [other.low[3], other.high[3]], atol=0.03)
    mirror = ask((paired[::-1, ::-1], metric_only[::-1], human_only[::-1]))
    assert mirror.theta == pytest.approx(1 - one.theta, abs=1e-12)
    np.testing.assert_allclose(mirror.p, one.p[::-1], atol=1e-12)


def test_a_thousand_items():
    """The sum against a long run of independent weighted draws."""
    from custodes.stats.correction.mixture.exact import Sample

    table = ([[14, 2, 2], [2, 7, 3], [2, 2, 9]], [580, 150, 220], [3, 1, 5])
    counts = Counts(*(np.array(part, dtype=float) for part in table))
    sample = Sample(counts, np.random.default_rng(0))
    sample.extend(300_000)
    drawn, got = sample.drawn.posterior(confidence=0.95), ask(table)
    assert abs(got.theta - drawn.theta) < 4.5 * drawn.theta_error
    assert drawn.theta_error < 0.001
    np.testing.assert_allclose(got.p, drawn.p, atol=0.002)


def test_a_table_is_answered_alike_in_any_company(monkeypatch):
    """To the bit: other tables, their order, the size of a block, more items than there are here."""
    rows = rows_of([*TABLES.values(), PULLED])
    rows = rows[rows[:, 9:12].sum(axis=1) > 0]
    whole = summed(rows, seed=[3], confidence=0.9)
    assert np.isfinite(np.concatenate([values.ravel() for values in whole])).all()
    monkeypatch.setattr(finite_sum, "_CELLS", 5000)
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = summed(rows[order], seed=[3], confidence=0.9)
    for i, k in enumerate(order):
        alone = summed(rows[[k]], seed=[3], confidence=0.9)
        for one, other, own in zip(whole, shuffled, alone, strict=True):
            np.testing.assert_array_equal(one[k], own[0])
            np.testing.assert_array_equal(other[i], own[0])
    assert all(len(values) == 0 for values in summed(rows[:0], seed=[3], confidence=0.9))


def test_many_items_take_draws_of_their_own(monkeypatch):
    """The same posteriors on both sides of the crossing."""
    rows = rows_of([own for own in TABLES.values() if sum(own[1])])
    few = summed(rows, seed=[0], confidence=0.9)
    monkeypatch.setattr(finite_sum, "_MOST_ITEMS", 0)
    many = summed(rows, seed=[0], confidence=0.9)
    np.testing.assert_allclose(few.theta, many.theta, rtol=1e-10)
    np.testing.assert_array_equal(few.p, many.p)
    # a quantile in a 5 % tail of a normal has 2.1 times the error of a mean, and both have one
    spread = (few.high - few.low) / 3.29
    for one, other in ((few.low, many.low), (few.high, many.high)):
        assert (one != other).any()
        np.testing.assert_array_less(np.abs(one - other), 5 * 2.1 * np.sqrt(2 / DRAWS) * spread + 1e-9)


def test_shared_waits_are_independent_dirichlets():
    """Shares of one table's draws by their moments, and the chance to be ahead by its closed form."""
    shared = finite_sum._Shared.of(60, 40, [7])
    win, loss = np.full((1, DRAWS), 9), np.full((1, DRAWS), 21)
    p_win, p_loss = (own[0] for own in shared.shares(win, loss, np.array([50])))
    for share, n in ((p_win, 9), (p_loss, 21), (1 - p_win - p_loss, 20)):
        mean, sd = n / 50, np.sqrt(n / 50 * (1 - n / 50) / 51)
        assert share.mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(DRAWS))
        assert share.std() == pytest.approx(sd, rel=0.06)
    assert np.corrcoef(p_win, p_loss)[0, 1] == pytest.approx(-np.sqrt(9 * 21 / (41 * 29)), abs=0.06)
    i, j = np.mgrid[1:90:7, 1:90:5]
    np.testing.assert_allclose(shared.ahead[i, j], betainc(j, i, 0.5), rtol=1e-12)
    np.testing.assert_array_equal(shared.waits[:, :20], finite_sum._Shared.of(16, 5, [7]).waits[:, :20])
