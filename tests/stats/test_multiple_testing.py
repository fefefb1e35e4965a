from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

from custodes.stats import arrays
from custodes.stats.bootstrap import bootstrap_weights, sign_flips, with_point, without_block
from custodes.stats.multiple_testing import Family, Flips, bootstrap_tests, flip_tests, pseudo_values


def means(values: np.ndarray, flips: np.ndarray | Flips, confidence: float = 0.95, alpha: float = 0.05) -> Family:
    """Return tests of the means of columns of values (units, k), NaN for missing."""
    weights, _ = without_block(len(values), most=1000)
    present = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        drawn = with_point(weights) @ np.where(present, values, 0.0) / (with_point(weights) @ present)
    if isinstance(flips, np.ndarray):
        flips = Flips(first=flips.astype(np.int8), exact=True)
    return flip_tests(drawn[0], drawn[1:], block_sizes=present, flips=flips, confidence=confidence, alpha=alpha)


def bootstrapped(draws: np.ndarray, n_units: int) -> Family:
    """Return tests of draws (1 + B, k), the data first."""
    return bootstrap_tests(
        lambda part: draws[:, part].T,
        draws.shape[::-1],
        n_units=n_units,
        n_effective_units=n_units,
        confidence=0.95,
        alpha=0.05,
    )


def test_blocks_are_dealt_in_turn() -> None:
    weights, block = without_block(7, most=3)
    assert block.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert weights.sum(axis=0).tolist() == [2.0] * 7
    assert [np.flatnonzero(row == 0).tolist() for row in weights] == [[0, 3, 6], [1, 4], [2, 5]]
    assert (without_block(3, most=9)[0] == 1 - np.eye(3)).all()


def test_of_means_it_is_fishers_test_and_the_error_is_students() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(8, 3)) + np.array([0.0, 0.7, 2.0])
    flips = np.array(list(product([1, -1], repeat=8)))
    result = means(values, flips)
    for k in range(3):
        exact = (np.abs(flips @ values[:, k]) >= abs(values[:, k].sum()) - 1e-9).sum()
        assert result.p_value[k] == pytest.approx((exact + 1) / 257)
        t = stats.ttest_1samp(values[:, k], 0)
        # Half of the interval is the critical t of the flips times Student's standard error.
        all_t = np.abs([stats.ttest_1samp(flip * values[:, k], 0).statistic for flip in flips])
        critical = np.sort(all_t)[-int(0.05 * 257)]
        error = values[:, k].mean() / t.statistic
        assert result.high[k] - result.estimate[k] == pytest.approx(critical * error)
    np.testing.assert_allclose(result.estimate, values.mean(axis=0))


def test_stepping_down_by_definition() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(30, 5)) + np.array([0.0, 0.1, 0.6, 0.4, 1.0])
    flips = sign_flips(30, 300, rng)
    result = means(values, flips)

    def t(column: np.ndarray) -> np.ndarray:
        return np.asarray(np.abs(stats.ttest_1samp(column, 0, axis=0).statistic))

    observed, null = t(values), np.array([t(flip[:, None] * values) for flip in flips])
    open_tests, worst = list(range(5)), 0.0
    while open_tests:
        first = max(open_tests, key=lambda k: observed[k])
        worst = max(worst, ((null[:, open_tests].max(axis=1) >= observed[first] - 1e-9).sum() + 1) / 301)
        assert result.p_adjusted[first] == pytest.approx(worst)
        open_tests.remove(first)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("digits", [0, 9], ids=["ties", "none"])
def test_an_interval_leaves_out_0_exactly_where_p_is_small(seed: int, digits: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=(12, 40)) + rng.normal(size=40) * 0.7, digits) / 3
    flipped = means(values, sign_flips(12, 199, rng))
    draws = bootstrap_weights(12, 199, rng) @ values / 12
    for result in (flipped, bootstrapped(draws, n_units=12)):
        significant = (result.low > 0) | (result.high < 0)
        np.testing.assert_array_equal(significant, result.p_value <= 0.05)
        assert (result.p_adjusted >= result.p_value).all()
        assert 0 < significant.sum() < 40


def test_units_without_data_do_not_count() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(40, 2)) + 0.5
    values[20:] = np.nan
    flips = sign_flips(40, 500, rng)
    joint, separate = means(values, flips), means(values[:20], flips[:, :20])
    for name in ("low", "high", "p_value", "p_adjusted"):
        np.testing.assert_allclose(getattr(joint, name), getattr(separate, name))


def test_nothing_is_nothing() -> None:
    flips = sign_flips(30, 99, np.random.default_rng(0))
    values = np.zeros((30, 3))
    values[:, 1] = 1.0
    values[:, 2] = np.nan
    result = means(values, flips)
    assert result.p_value[0] == 1  # no difference at all
    assert result.p_value[1] == pytest.approx(1 / 100)  # a constant difference, which only equal signs reproduce
    assert np.isnan(result.p_value[2])
    assert np.isnan(means(values[:4] + 1, flips[:, :4]).low[0])  # too few for an interval
    none = means(values, flips[:0])
    assert np.isnan(none.p_value).all()
    assert np.isnan(none.low).all()


def test_of_many_means_the_bootstrap_is_students() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=(10, 200)) + 0.4
    draws = bootstrap_weights(10, 4000, rng) @ values / 10
    result = bootstrapped(draws, n_units=10)
    expected = stats.ttest_1samp(values, 0, axis=0).pvalue
    assert np.abs(result.p_value - expected).max() < 0.05
    assert np.corrcoef(result.p_value, expected)[0, 1] > 0.99


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_hypotheses_some_at_a_time_equal_all_at_once(monkeypatch: pytest.MonkeyPatch, missing: float) -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=(15, 60)) + rng.normal(size=60)
    draws = bootstrap_weights(15, 99, rng) @ values / 15
    values[rng.random(values.shape) < missing] = np.nan
    draws[1:][rng.random((99, 60)) < missing] = np.nan
    flips = sign_flips(15, 99, rng)

    def families() -> list[Family]:
        return [means(values, flips), bootstrapped(draws, n_units=15)]

    at_once = families()
    monkeypatch.setattr(arrays, "CHUNK", 8 * 99 * 3)  # three hypotheses at a time
    for whole, parts in zip(at_once, families(), strict=True):
        for name in ("estimate", "low", "high", "p_value", "p_adjusted"):
            np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12, atol=1e-15)


def test_a_difference_that_is_rounding_is_none() -> None:
    rng = np.random.default_rng(5)
    values = np.round(rng.normal(size=(20, 50)), 1)
    values -= values.mean(axis=0)
    assert (means(values, sign_flips(20, 500, rng)).p_value == 1).all()


def test_flips_of_few_blocks_are_all_there_are() -> None:
    flips = Flips.from_block_count(8, 1000)
    assert flips.exact
    assert len({tuple(row) for row in np.concatenate([flips.first, -flips.first]).tolist()}) == 254
    rng = np.random.default_rng(0)
    values = rng.normal(size=(8, 3)) + np.array([0.0, 0.7, 2.0])
    everything = np.array(list(product([1, -1], repeat=8)))
    result = means(values, flips)
    for k in range(3):
        exact = (np.abs(everything @ values[:, k]) >= abs(values[:, k].sum()) - 1e-9).mean()
        assert result.p_value[k] == pytest.approx(exact, abs=1e-12)
    assert not result.at_threshold.any()
    for n_blocks, n_flips, exact in ((14, 1, True), (15, 16_382, False), (15, 16_383, True), (15, 1, False)):
        assert Flips.from_block_count(n_blocks, n_flips).exact == exact  # 2^14 - 1 = 16,383
    assert len(Flips.from_block_count(1, 1000).first) == len(Flips.from_block_count(9, 0).first) == 0


@pytest.mark.parametrize("ragged", [False, True])
def test_close_p_values_get_more_flips_and_what_stays_close_is_marked(ragged: bool) -> None:
    """Compared with 60,000 flips, clear decisions are correct and p-values near the level are precise."""
    rng = np.random.default_rng(6)
    values = rng.normal(size=(30, 40)) + rng.normal(size=(30, 1)) + rng.normal(0, 0.8, 40)
    if ragged:
        values[:6, :15] = np.nan
    result, plain = means(values, Flips.from_block_count(30, 200)), means(values, sign_flips(30, 20_000, rng))
    right = result.significant(0.05) == (plain.p_adjusted <= 0.05)
    assert right[~result.at_threshold].all()
    near = np.abs(plain.p_adjusted - 0.05) < 0.015
    assert near.any()
    np.testing.assert_allclose(result.p_adjusted[near], plain.p_adjusted[near], atol=0.008)
    significant = (result.low > 0) | (result.high < 0)
    np.testing.assert_array_equal(significant, result.p_value <= 0.05)
    level = float(plain.p_adjusted[near][0])
    marked = means(values, Flips.from_block_count(30, 200), alpha=level)
    assert marked.at_threshold[near][0]
    assert not marked.significant(level)[marked.at_threshold].any()


def test_a_block_without_data_needs_no_estimate_and_one_with_data_does() -> None:
    rng = np.random.default_rng(4)
    x, present = rng.normal(size=(9, 2)), np.ones((9, 2), dtype=np.bool_)
    present[3, 0] = False
    flips = Flips(first=sign_flips(9, 200, rng), exact=False)

    gap = x.copy()
    gap[3] = np.nan
    whole, with_gap = (
        flip_tests(x.mean(axis=0), values_of, block_sizes=present, flips=flips, confidence=0.9, alpha=0.1).p_value
        for values_of in (x, gap)
    )
    assert np.isfinite(whole).all()
    assert with_gap[0] == whole[0]
    assert np.isnan(with_gap[1])


@pytest.mark.parametrize(
    ("n_blocks", "n_flips", "n_hypotheses", "sizes"),
    [
        (30, 200, 1, [200, 3000, 10_000]),
        (30, 2999, 1, [2999, 3000, 10_000]),
        (30, 3000, 1, [3000, 10_000]),
        (30, 9999, 1, [9999, 10_000]),
        (30, 10_000, 1, [10_000]),
        (100, 200, 5000, [200, 3000, 10_000]),  # 5e9 values are 1e4 flips of 5000 hypotheses and 100 blocks
        (100, 200, 16_666, [200, 3000, 3000]),
        (100, 200, 20_000, [200, 2500]),
        (100, 200, 250_000, [200]),
        (8, 200, 1, [127]),  # all flips
        (30, 0, 1, [0]),
    ],
)
def test_stages_have_more_flips_up_to_a_limit_of_work(
    n_blocks: int, n_flips: int, n_hypotheses: int, sizes: list[int]
) -> None:
    stages = list(Flips.from_block_count(n_blocks, n_flips).stages(n_hypotheses))
    assert [stage.shape for stage in stages] == [(size, n_blocks) for size in sizes]
    assert all((first[:200] != second[:200]).any() for first, second in pairwise(stages))  # independent flips


@pytest.mark.parametrize("n", [199, 200])
def test_the_bootstrap_by_definition(n: int) -> None:
    draws = np.random.default_rng(7).normal(1.0, 0.8, size=(1 + n, 6))
    draws[1 : 1 + n // 2, 1], draws[1 : 2 + n // 2, 2], draws[0, 3] = np.nan, np.nan, np.nan
    draws[:, 4], draws[:, 5] = 0.0, 1.0
    result = bootstrap_tests(
        lambda part: draws[:, part].T, (6, 1 + n), n_units=12, n_effective_units=9.5, confidence=0.9, alpha=0.05
    )
    # Half of the resamples are enough. Without variation only an estimate of 0 has a p-value.
    expected = np.full((4, 6), np.nan)
    expected[:, 4], expected[0, 5] = (0, 0, 0, 1), 1
    for k in (0, 1):
        resamples = draws[1:, k]
        error = np.nanstd(resamples) * np.sqrt(9.5 / 8.5)
        null = np.nan_to_num(np.abs(resamples - np.nanmean(resamples)) / error)
        observed = stats.norm.isf(stats.t.sf(abs(draws[0, k]) / error, 8.5))
        half = stats.t.isf(stats.norm.sf(np.sort(null)[-20]), 8.5) * error  # 20 is 10 % of 200, and of 201
        expected[:, k] = draws[0, k], draws[0, k] - half, draws[0, k] + half, (1 + (null >= observed).sum()) / (1 + n)
    np.testing.assert_allclose([result.estimate, result.low, result.high, result.p_value], expected, atol=1e-12)


def test_the_fewest_units_are_those_whose_equal_signs_would_be_significant() -> None:
    draws = np.random.default_rng(5).normal(size=(200, 1)) + 1.0
    for n_units, confidence, tested in ((3, 0.75, True), (3, 0.76, False), (2, 0.5, True), (2, 0.51, False)):
        result = bootstrap_tests(
            lambda part: draws[:, part].T,
            (1, 200),
            n_units=n_units,
            n_effective_units=n_units,
            confidence=confidence,
            alpha=0.05,
        )
        assert np.isfinite(result.p_value[0]) == tested


def test_pseudo_values_of_blocks_of_unequal_size_are_their_sums() -> None:
    rng, size = np.random.default_rng(0), np.array([[30], [5], [1], [4]])
    values = rng.normal(1, 1, 40)
    block = np.repeat(np.arange(4), size[:, 0])
    left = np.array([[values[block != i].mean()] for i in range(4)])
    expected = np.array([values[block == i].sum() for i in range(4)]) / 10
    assert pseudo_values(np.array([values.mean()]), left, size)[0] == pytest.approx(expected)


def test_the_interval_of_blocks_of_unequal_size_inverts_the_test() -> None:
    rng, size = np.random.default_rng(0), np.array([40] * 6 + [1] * 60)
    flips = Flips(first=sign_flips(len(size), 499, rng), exact=True)
    relative_size = size / size.mean()

    def interval(block_means: np.ndarray) -> tuple[float, float]:
        sums = size * block_means
        left = (sums.sum() - sums) / (size.sum() - size)
        result = flip_tests(
            np.array([sums.sum() / size.sum()]),
            left[:, np.newaxis],
            block_sizes=size[:, np.newaxis],
            flips=flips,
            confidence=0.95,
            alpha=0.05,
        )
        assert (result.low[0] > 0 or result.high[0] < 0) == (result.p_value[0] <= 0.05)
        return float(result.low[0]), float(result.high[0])

    for mean in (0.0, 0.1, 0.2, 0.5):
        block_means = mean + 0.22 * rng.normal(size=len(size))
        bounds = interval(block_means)
        values = relative_size * block_means
        all_t = np.abs(stats.ttest_1samp(flips.first * values, 0, axis=1).statistic)
        for bound in bounds:  # |t| at both bounds is the critical t
            at_bound = abs(stats.ttest_1samp(values - bound * relative_size, 0).statistic)
            assert at_bound == pytest.approx(np.sort(all_t)[-int(0.05 * 500)])
        assert bounds[1] - bounds[0] < 0.5  # .65 if the variance of the sizes counts as an error of .5
    low, high = interval(np.full(len(size), 0.5))  # equal means have no sampling error
    assert low == pytest.approx(0.5) == high


def test_differences_of_all_pairs_together_equal_each_pair_alone() -> None:
    rng = np.random.default_rng(0)
    metrics = rng.normal(size=(40, 12)) + np.linspace(0, 0.6, 12)
    values = metrics[:, :, np.newaxis] - metrics[:, np.newaxis]
    pairs = values[:, *np.triu_indices(12, 1)]
    flips = Flips(first=sign_flips(40, 999, np.random.default_rng(1)), exact=True)
    together = means(pairs, flips)
    for k in range(pairs.shape[1]):
        alone = means(pairs[:, [k]], flips)
        assert together.p_value[k] == alone.p_value[0]
        np.testing.assert_allclose([together.low[k], together.high[k]], [alone.low[0], alone.high[0]], rtol=1e-9)
