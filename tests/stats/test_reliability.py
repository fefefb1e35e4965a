from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from custodes.stats.reliability import clustered_margins, effective_number, gini, taste

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=30).filter(any).map(np.array)


@given(COUNTS, st.integers(2, 5))
def test_shares_alone_matter(counts: np.ndarray, times: int) -> None:
    assert gini(counts * times) == pytest.approx(gini(counts))
    assert effective_number(counts * times) == pytest.approx(effective_number(counts))
    assert 0 <= gini(counts) < 1
    assert effective_number(counts) * (1 + 1e-12) >= 1
    assert effective_number(counts) <= (counts > 0).sum() + 1e-9


@given(COUNTS)
def test_gini_is_the_mean_absolute_difference(counts: np.ndarray) -> None:
    difference = np.abs(counts[:, None] - counts[None]).mean()
    assert gini(counts) == pytest.approx(difference / (2 * counts.mean()), abs=1e-12)


def test_nobody_has_no_shares() -> None:
    assert np.isnan(gini(np.zeros(3, dtype=int)))
    assert np.isnan(effective_number(np.zeros(3, dtype=int)))


def uneven(rng: np.random.Generator, *, icc: float) -> tuple[np.ndarray, ...]:
    """Return one group of 8 annotators, each with answers to between a fifth and all of 12 items."""
    is_answered = rng.random((8, 12)) < rng.uniform(0.2, 1, 8)[:, None]
    worker, item = np.nonzero(is_answered)
    effect, of_item = rng.normal(0, np.sqrt(icc), 8), rng.normal(0, 0.5, 12)
    return worker, item, effect[worker] + of_item[item] + rng.normal(0, np.sqrt(1 - icc), len(worker))


@pytest.mark.parametrize("icc", [0.0, 0.2])
def test_taste_does_not_depend_on_the_level_of_scores(icc: float) -> None:
    rng, estimates = np.random.default_rng(3), []
    for _ in range(40):
        worker, item, value = uneven(rng, icc=icc)
        group = np.zeros(len(worker), dtype=int)
        estimates.append(taste(group, item, worker, value).icc)
        for level in (-4.0, 100.0, 1e6):
            assert taste(group, item, worker, value + level).icc == pytest.approx(estimates[-1], abs=1e-8)
    # The variance of items is not individual preference; means of 300 studies: -.000 and .159, sd .07 and .13.
    assert np.mean(estimates) == pytest.approx(icc / 1.25, abs=0.06)


@pytest.mark.parametrize("seed", range(5))
def test_taste_is_a_ratio_of_mean_products_of_answers(seed: int) -> None:
    worker, item, value = uneven(np.random.default_rng(seed), icc=0.2)
    value = value - value.mean()
    products_of_others = [
        value[i] * value[j]
        for i, j in np.ndindex(len(value), len(value))
        if worker[i] != worker[j] and item[i] != item[j]
    ]
    above = spread = 0.0
    for person in np.unique(worker):
        answers = value[worker == person]
        if len(answers) > 1:
            mean_product = np.mean([a * b for i, a in enumerate(answers) for j, b in enumerate(answers) if i != j])
            above += (len(answers) - 1) * (mean_product - np.mean(products_of_others))
            spread += (len(answers) - 1) * (np.mean(value**2) - np.mean(products_of_others))
    assert taste(np.zeros(len(value), dtype=int), item, worker, value + 7).icc == pytest.approx(above / spread)


def test_the_error_of_taste_is_a_jackknife_over_annotators() -> None:
    rng = np.random.default_rng(3)
    group, item, worker = np.zeros(40, dtype=int), np.arange(40), np.repeat(np.arange(8), 5)
    value = rng.normal(size=8)[worker] + rng.normal(size=40)
    left_out = [
        taste(group[kept], item[kept], worker[kept], value[kept]).icc for kept in (worker != k for k in range(8))
    ]
    assert taste(group, item, worker, value).error == pytest.approx(np.std(left_out) * np.sqrt(7))


def test_the_interval_of_taste_holds_it() -> None:
    rng, p_values = np.random.default_rng(2), []
    for _ in range(50):
        worker = np.repeat(np.arange(20), 10)
        value = rng.normal(0, np.sqrt(0.2), 20)[worker] + rng.normal(0, np.sqrt(0.8), 200)
        estimate = taste(np.zeros(200, dtype=int), np.arange(200), worker, value)
        p_values.append(abs(estimate.icc - 0.2) <= 2.09 * estimate.error)
    assert 0.85 < np.mean(p_values) < 0.99  # measured: .92 of 300; 10 annotators: .90, 40: .94


def test_one_person_or_one_answer_each_tells_nothing_of_taste() -> None:
    item, group = np.arange(6), np.zeros(6, dtype=int)
    value = np.array([1.0, 0, 1, 0, 1, 1])
    assert np.isnan(taste(group, item, group, value).icc)
    alone = taste(group, item, item, value)
    assert np.isnan(alone.icc)
    assert alone.answers_per_annotator == 1


def test_margins_have_the_cluster_robust_error_of_statsmodels() -> None:
    rng = np.random.default_rng(0)
    worker = np.repeat(np.arange(30), rng.integers(1, 7, 30))
    pair = rng.integers(0, 2, len(worker))
    tastes, levels = rng.normal(size=30), np.array([0.3, -2.0])
    value = np.sign(rng.normal(size=len(worker)) + tastes[worker] + levels[pair])
    result = clustered_margins(pair, worker, value, pairs=2, confidence=0.9)
    for k in range(2):
        answers, groups = value[pair == k], worker[pair == k]
        fit = sm.OLS(answers, np.ones(len(answers))).fit(cov_type="cluster", cov_kwds={"groups": groups})
        sizes = np.unique(groups, return_counts=True)[1]
        effective = len(answers) ** 2 / (sizes**2).sum()
        reach = stats.t.ppf(0.95, effective - 1) * fit.bse[0]
        assert (result.margin[k], result.people[k]) == (pytest.approx(answers.mean()), len(sizes))
        assert result.effective[k] == pytest.approx(effective)
        assert result.low[k] == pytest.approx(max(answers.mean() - reach, -1))
        assert result.high[k] == pytest.approx(min(answers.mean() + reach, 1))
        assert result.p[k] == pytest.approx(2 * stats.t.sf(abs(answers.mean()) / fit.bse[0], effective - 1))
