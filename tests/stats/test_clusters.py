from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

from custodes.stats import ABSENT, clusters
from custodes.stats.bootstrap import unit_sums
from custodes.stats.clusters import is_clustered, pooled_design_effect
from custodes.stats.correction.estimator import Counts, margin_of
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.sign_test import sign_test
from tests.simulation.clustered_studies import effect_of, studies

BY_COUNTS = [estimator for estimator in ESTIMATORS.values() if not estimator.needs_items]


def rows_of(human: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """(..., 15)"""
    return np.stack([(clusters.joint_outcomes(human, metric) == k).sum(axis=-1) for k in range(15)], axis=-1)


def design_options(n: int = 40, sizes: tuple[int, ...] = (10,) * 40, icc: float = 0.3, annotated: str = "half"):
    return studies(n, sizes, icc=icc, mean=0.4, annotated=annotated, seed=3)


def test_the_effect_is_the_ratio_of_variances_of_statsmodels() -> None:
    human, _, units = design_options(annotated="all")
    table = np.repeat(np.arange(len(human)), human.shape[1])
    cells, unit = clusters.outcomes(human).ravel(), np.tile(units, len(human))
    estimate = clusters.design_effect(
        margin_of, clusters.cluster_rows(table, cells, unit, n_cells=3, n_tables=len(human))
    )
    for signs, effect in zip(human.astype(float), estimate.effect, strict=True):
        fit = sm.OLS(signs, np.ones(signs.size)).fit(
            cov_type="cluster", cov_kwds={"groups": units, "df_correction": True}
        )
        # One pseudo-item in 401 shifts this estimate; statsmodels multiplies by G / (G - 1) and (n - 1) / (n - k) = 1.
        expected = fit.bse[0] ** 2 / (signs.var() / signs.size)
        assert effect == pytest.approx(max(expected, 1), rel=0.04)


def effect_by_items(
    statistic: Callable[[np.ndarray], np.ndarray], cell: np.ndarray, cluster: np.ndarray, n_cells: int
) -> tuple[float, float]:
    """Return the design effect and the effective number of clusters, item by item."""
    influence = clusters.influence(statistic, np.bincount(cell, minlength=n_cells))[cell]
    kind = np.digitize(cell, [9, 12])  # rated by both, by annotators alone, by the metric alone
    expected = np.array([np.mean(influence[kind == k] ** 2) for k in kind])
    inside = [cluster == c for c in np.unique(cluster)]
    size = np.array([(expected[c] > 0).sum() for c in inside])
    independent = np.array([((expected + influence**2) / 2)[c].sum() for c in inside])
    ratio = sum(influence[c].sum() ** 2 for c in inside) / independent.sum()
    rho = np.clip((ratio - 1) / ((independent * size).sum() / independent.sum() - 1), 0, 1)
    variance = independent * (1 + (size - 1) * rho)
    effective = variance.sum() ** 2 / (variance**2).sum()
    return max(ratio * effective / (effective - 1), 1.0), effective


@pytest.mark.parametrize("n_cells", [3, 15])
@pytest.mark.parametrize("kept", [0.0, 0.6, 1.0])  # probability that an item has the cell of its cluster
def test_the_effect_is_that_of_items_one_by_one(n_cells: int, kept: float) -> None:
    def wins_of_both(counts: np.ndarray) -> np.ndarray:
        both = counts[..., [0, 1]].sum(-1) / counts[..., :9].sum(-1)
        return both if n_cells == 3 else both + 2 * counts[..., 9] / counts[..., 9:12].sum(-1)

    def all_kinds(counts: np.ndarray) -> np.ndarray:
        return wins_of_both(counts) - (0 if n_cells == 3 else counts[..., 14] / counts[..., 12:].sum(-1))

    rng = np.random.default_rng(n_cells)
    cluster, copies = np.sort(rng.integers(0, 12, 200)) * 3, rng.integers(1, 4, 36)
    table = rng.integers(0, 2, 200)
    cell = np.where(rng.random(200) < kept, rng.integers(0, n_cells, 36)[cluster], rng.integers(0, n_cells + 1, 200))
    rows = clusters.cluster_rows(table, cell, cluster, n_cells=n_cells, n_tables=2, multiplicity=copies)
    for statistic in (wins_of_both, all_kinds):
        found = clusters.design_effect(statistic, rows)
        for k in (0, 1):
            items = np.flatnonzero((table == k) & (cell < n_cells))
            repeated = np.repeat(items, copies[cluster[items]])
            copy = np.concatenate([np.arange(copies[c]) for c in cluster[items]])
            expected = effect_by_items(statistic, cell[repeated], 10 * cluster[repeated] + copy, n_cells)
            assert found.effect[k] == pytest.approx(expected[0], abs=6e-5)
            assert found.clusters[k] == pytest.approx(expected[1])


def test_influence_is_the_jackknife() -> None:
    # n times the infinitesimal jackknife of a mean is the deviation from it
    counts = np.array([50, 20, 30]) - 1 / 3
    np.testing.assert_allclose(clusters.influence(margin_of, counts) * 100, np.array([1, 0, -1]) - 0.2, atol=1e-6)


@pytest.mark.parametrize("estimator", BY_COUNTS, ids=lambda estimator: estimator.name)
def test_copies_of_items_are_worth_the_items(estimator) -> None:
    # Every item occurs ten times in a cluster, so the true design effect is ten.
    human, metric, _ = studies(20, (1,) * 60, icc=0, mean=0.3, annotated="half", seed=1)
    copied = effect_of(
        estimator.point, np.repeat(human, 10, axis=1), np.repeat(metric, 10, axis=1), np.repeat(np.arange(60), 10)
    )
    # except for C / (C - 1), with C from about 20 annotated items to 60
    assert ((copied.effect > 9.5) & (copied.effect < 11)).all()
    assert (copied.divisor(0.95) > copied.effect).all()


@given(
    st.lists(st.sampled_from([1, 0, -1]), min_size=12, max_size=30).filter(lambda values: np.abs(values).sum() >= 12),
    st.integers(1, 9),
)
def test_a_sign_test_of_copies_is_that_of_the_items(signs: list[int], copies: int) -> None:
    values = np.repeat(signs, copies)
    sums = unit_sums(values, units=np.repeat(np.arange(len(signs)), copies), n_units=len(signs))
    effect = clusters.null_effect(np.abs(values).sum(), (sums**2).sum(), (sums != 0).sum())
    wins, losses = (values == 1).sum(), (values == -1).sum()
    for test in ("asymptotic", "exact"):
        expected = sign_test(np.array(signs.count(1)), np.array(signs.count(-1)), test=test)
        assert sign_test(wins / effect, losses / effect, test=test) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", range(3, 13))
def test_few_clusters_show_no_more_than_their_flips(n: int) -> None:
    effect = clusters.null_effect(np.array(10 * n), np.array(100 * n), np.array(n))  # ten equal items in each cluster
    p_value = sign_test(10 * n / effect, np.array(0.0), test="asymptotic")
    assert p_value == pytest.approx(max(2.0 ** (1 - n), 2 * norm.sf(n**0.5)), rel=1e-6)


@pytest.mark.parametrize("estimator", BY_COUNTS, ids=lambda estimator: estimator.name)
def test_items_alone_in_their_clusters_change_nothing(estimator) -> None:
    human, metric, units = design_options()
    effect = effect_of(estimator.point, human, metric, np.arange(units.size))
    assert (effect.effect == 1).all()
    assert (effect.divisor(0.95) == 1).all()


@pytest.mark.parametrize("estimator", BY_COUNTS, ids=lambda estimator: estimator.name)
def test_one_cluster_says_nothing_of_its_effect(estimator) -> None:
    human, metric, units = design_options()
    effect = effect_of(estimator.point, human, metric, np.zeros_like(units))
    assert np.isinf(effect.effect).all()
    assert np.isinf(effect.divisor(0.95)).all()
    rows = rows_of(human, metric)
    absent = Counts.from_rows(rows).effective(effect.divisor(0.95))
    estimate = estimator.estimate(absent, confidence=0.95, gamma=0.05, rng=np.random.default_rng(0))
    np.testing.assert_allclose(estimate.theta, 0.5)


def test_nothing_rated_is_undefined_and_divides_by_one() -> None:
    absent = np.full((1, 6), ABSENT, dtype=np.int8)
    effect = effect_of(ESTIMATORS["human"].point, absent, absent, np.repeat([0, 1], 3))
    assert np.isnan(effect.effect).all()
    assert effect.divisor(0.95).tolist() == [1.0]


def test_the_mixture_of_effective_counts_is_a_posterior() -> None:
    # The exact sampler against self-normalised draws from the prior: the table is small, so that these are effective.
    counts = Counts(
        np.array([[2.4, 0.3, 0.0], [0.6, 1.2, 0.3], [0.3, 0.0, 1.5]]), np.array([3.3, 1.2, 2.1]), np.zeros(3)
    )
    estimate = ESTIMATORS["mixture"].estimate(counts, confidence=0.95, gamma=None, rng=np.random.default_rng(0))
    rng = np.random.default_rng(1)
    p, mu = rng.dirichlet(np.ones(3), 400_000), rng.dirichlet(np.ones(3), (400_000, 3))
    log = (counts.paired * (np.log(mu) + np.log(p)[..., None])).sum(axis=(1, 2))
    log += np.log(np.einsum("nh,nhr->nr", p, mu)) @ counts.metric_only
    weight = np.exp(log - log.max())
    assert weight.sum() ** 2 / (weight**2).sum() > 5000
    assert estimate.theta == pytest.approx(weight @ (p[:, 0] > p[:, 2]) / weight.sum(), abs=0.02)
    assert estimate.margin == pytest.approx(weight @ (p[:, 0] - p[:, 2]) / weight.sum(), abs=0.015)


def documents(rng: np.random.Generator, *, pairs: int, clusters: int, size: int | list[int], rho: float) -> np.ndarray:
    """Return (pairs, items) fair coins that copy the coin of their document with probability sqrt(rho)."""
    shared = rng.choice([-1, 1], size=(pairs, clusters)).repeat(size, axis=1)
    coins = rng.choice([-1, 1], size=shared.shape)
    return np.where(rng.random(shared.shape) < np.sqrt(rho), shared, coins).astype(np.int8)


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.3, 0.6])
def test_it_is_that_of_a_known_correlation(rho: float) -> None:
    rng = np.random.default_rng(0)
    signs = documents(rng, pairs=200, clusters=400, size=10, rho=rho)
    design_effect = pooled_design_effect(signs, units=np.repeat(np.arange(400), 10))
    # Kish: 1 + (m - 1) rho
    np.testing.assert_allclose(design_effect, 1 + 9 * rho, rtol=0.03)


def test_few_clusters_are_allowed_for() -> None:
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(10), 10)
    estimates = [
        pooled_design_effect(documents(rng, pairs=1, clusters=10, size=10, rho=0.3), units=units) for _ in range(300)
    ]
    # the estimate plus its standard error: in at least four of five studies no less than the truth, 3.7
    assert np.mean(np.array(estimates) >= 3.7) > 0.6
    assert np.max(estimates) <= 10


@pytest.mark.parametrize("sizes", [[60, 20, 10, 5, 5, 2, 2, 2, 2, 2, 1, 1, 1, 1], [80] + [3] * 20])
def test_one_large_cluster_is_allowed_for(sizes: list[int]) -> None:
    rng, units = np.random.default_rng(2), np.repeat(np.arange(len(sizes)), sizes)
    signs = np.stack([documents(rng, pairs=6, clusters=len(sizes), size=sizes, rho=0.3) for _ in range(300)])
    design_effects = np.stack([pooled_design_effect(study, units=units) for study in signs])
    z = signs.sum(axis=-1) / np.sqrt(len(units) * design_effects)
    # the systems do not differ; the rate is above .2 if the factor of the squares is n / (n - 1) for n clusters
    assert np.mean(np.abs(z) > norm.ppf(0.975)) < 0.06


@pytest.mark.parametrize(("sizes", "counts_as"), [([40, 40] + [1] * 30, 110**2 / 3230), ([20] * 5, 5.0)])
def test_fewer_than_six_effective_clusters_count_as_one_annotation_each(sizes: list[int], counts_as: float) -> None:
    # If rho were estimated, .129 and .073 of studies of one pair without a difference would be significant at rho = .5.
    rng, units = np.random.default_rng(4), np.repeat(np.arange(len(sizes)), sizes)
    for rho in (0.0, 0.5):
        design_effects = pooled_design_effect(
            documents(rng, pairs=3, clusters=len(sizes), size=sizes, rho=rho), units=units
        )
        np.testing.assert_allclose(len(units) / design_effects, counts_as)


def test_nothing_changes_without_shared_clusters() -> None:
    signs = np.random.default_rng(2).choice(np.array([1, 0, -1, ABSENT], dtype=np.int8), size=(3, 5, 30))
    assert not is_clustered(np.arange(30))
    assert (pooled_design_effect(signs, units=np.arange(30)) == 1).all()
    # one annotation of each document, the others missing
    signs[..., 1::2] = ABSENT
    units = np.repeat(np.arange(15), 2)
    assert is_clustered(units)
    assert (pooled_design_effect(signs, units=units) == 1).all()


def test_documents_that_agree_with_themselves_are_one_annotation_each() -> None:
    units = np.repeat(np.arange(8), 5)
    signs = np.random.default_rng(3).choice(np.array([1, -1], dtype=np.int8), size=(6, 8)).repeat(5, axis=1)
    np.testing.assert_allclose(pooled_design_effect(signs, units=units), 5)
    # No variation at all: the items may agree because they share a document.
    np.testing.assert_allclose(pooled_design_effect(np.ones((1, 40), dtype=np.int8), units=units), 5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("with_kinds", [False, True])
def test_the_design_effect_of_influences_is_a_ratio_of_variances(seed: int, *, with_kinds: bool) -> None:
    rng = np.random.default_rng(seed)
    n, n_units = 40, 12
    units = rng.integers(0, n_units, n)
    copies = rng.integers(1, 4, n_units)
    influence = rng.normal(size=n) + 0.7 * rng.normal(size=n_units)[units]
    kind = rng.random(n) < 0.3
    kinds = [kind, ~kind] if with_kinds else [np.ones(n, dtype=bool)]
    weight = copies[units].astype(float)
    expected = np.zeros(n)
    for part in kinds:
        expected[part] = np.average(influence[part] ** 2, weights=weight[part])
    by_cluster = np.array([((expected + influence**2) / 2)[units == u].sum() for u in range(n_units)])
    sums = np.array([influence[units == u].sum() for u in range(n_units)])
    effective = (copies * by_cluster).sum() ** 2 / (copies * by_cluster**2).sum()
    effect = (copies * sums**2).sum() / (weight * influence**2).sum() * effective / (effective - 1)
    options = {"kind": kind} if with_kinds else {}
    found = clusters.influence_design_effect(influence, units, multiplicity=weight, **options)
    assert (float(found.effect), float(found.clusters)) == pytest.approx((max(effect, 1.0), effective))
    # Merged clusters are that many equal clusters.
    rows = np.concatenate([np.flatnonzero(units == u) for u in range(n_units) for _ in range(copies[u])])
    labels = np.concatenate([np.full((units == u).sum(), 10 * u + k) for u in range(n_units) for k in range(copies[u])])
    labels = np.unique(labels, return_inverse=True)[1]
    options = {"kind": kind[rows]} if with_kinds else {}
    repeated = clusters.influence_design_effect(influence[rows], labels, **options)
    assert (float(repeated.effect), float(repeated.clusters)) == pytest.approx(
        (float(found.effect), float(found.clusters))
    )


def test_design_effects_of_influences_at_their_limits() -> None:
    alone = clusters.influence_design_effect(np.array([1.0, -2.0]), np.arange(2))
    assert (float(alone.effect), float(alone.clusters)) == (1, np.inf)
    nothing = clusters.influence_design_effect(np.zeros(3), np.zeros(3, dtype=int))
    assert np.isnan(nothing.effect)
    one = clusters.influence_design_effect(np.array([1.0, 2.0]), np.zeros(2, dtype=int))
    assert (float(one.effect), float(one.clusters)) == (np.inf, 1)
    unlike = clusters.influence_design_effect(np.array([1.0, -1.0, 2.0, -2.0]), np.array([0, 0, 1, 1]))
    assert float(unlike.effect) == 1  # sums of 0
    # Outputs without influence may share a cluster.
    idle = clusters.influence_design_effect(
        np.array([1.0, -1.0, 0.0, 0.0]), np.array([0, 1, 0, 1]), kind=np.array([True, True, False, False])
    )
    assert (float(idle.effect), float(idle.clusters)) == (1, np.inf)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_divisors_allow_for_few_clusters_by_the_ratio_of_quantiles(confidence: float) -> None:
    effects = clusters.DesignEffect(np.array([2.0, 1.0, np.inf, 1.0, np.nan]), np.array([6.0, 1.05, 1.0, np.inf, 4.0]))
    tail = (1 + confidence) / 2
    ratios = [(t.ppf(tail, df) / norm.ppf(tail)) ** 2 for df in (5, 0.1)]
    expected = [2 * ratios[0], ratios[1], np.inf, 1.0, 1.0]
    np.testing.assert_allclose(effects.divisor(confidence), expected, rtol=5e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_pooled_effect_by_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units = np.repeat(np.arange(10), 4)[:38]
    lean = rng.normal(size=(3, 10))[:, units] > 0
    signs = np.where(rng.random((3, 38)) < 0.7, np.where(lean, 1, -1), rng.choice([-1, 0, 1], (3, 38))).astype(np.int8)
    signs[rng.random((3, 38)) < 0.2] = ABSENT
    excess, largest, sizes = np.zeros(10), np.zeros(10), []
    for row in signs:
        rated = row != ABSENT
        n, clusters_of_pair = rated.sum(), set(units[rated])
        shares = np.array([(units[rated] == u).mean() for u in clusters_of_pair])
        # the expected square of a sum of residuals, if items of a cluster are equal
        expected_squares = shares**2 * (1 - 2 * shares + (shares**2).sum())
        factor = (shares**2).sum() / expected_squares.sum()
        size = np.mean([(units[rated] == u).sum() for u in units[rated]])
        residual = row - row[rated].mean()
        for u in clusters_of_pair:
            inside = residual[rated & (units == u)]
            within = (inside**2).sum() * n / (n - 1)
            excess[u] += inside.sum() ** 2 * factor - within
            largest[u] += (size - 1) * within
        sizes.append(size)
    rho = excess.sum() / largest.sum()
    error = np.sqrt(((excess - rho * largest) ** 2).sum()) / largest.sum()
    expected = 1 + (np.array(sizes) - 1) * np.clip(rho + error, 0, 1)
    np.testing.assert_allclose(pooled_design_effect(signs, units=units), expected)
