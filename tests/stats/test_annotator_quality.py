from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import rankdata, spearmanr

from custodes.stats import annotator_quality as module
from custodes.stats.annotator_quality import peer_agreement, position_tests, taste_p

ROWS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 4), st.integers(1, 5)),
    min_size=4,
    max_size=35,
    unique_by=lambda row: row[:2],
)


def of_rows(rows: np.ndarray, trusted: np.ndarray | None = None) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return sorted rows and their agreement."""
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    task, worker = rows[:, 0].astype(int), rows[:, 1].astype(int)
    trusted = np.ones(5, dtype=bool) if trusted is None else trusted
    return rows, peer_agreement(task, worker, rows[:, 2].astype(float), n_tasks=8, trusted=trusted)


def test_with_all_tasks_by_all_it_is_the_mean_of_spearman() -> None:
    rng = np.random.default_rng(0)
    value = rng.normal(size=(40, 1)) + rng.normal(size=(40, 4))
    task, worker = np.repeat(np.arange(40), 4), np.tile(np.arange(4), 40)
    result = peer_agreement(task, worker, value.ravel(), n_tasks=40, trusted=np.ones(4, dtype=bool))
    expected = spearmanr(value).statistic
    for w in range(4):
        others = [k for k in range(4) if k != w]
        variance = 1 / (rankdata(value[:, w]) / 40).var()
        assert result[0][worker == w].mean() / variance == pytest.approx(expected[w, others].mean())
        among = np.mean([expected[j, k] for j, k in combinations(others, 2)])
        assert result[1][worker == w].mean() / variance == pytest.approx(among)


def written_out(rows: np.ndarray, trusted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same by loops over answers."""
    shared = [(rows[:, 0] == t).sum() > 1 for t in rows[:, 0]]
    score, spread = np.zeros(len(rows)), np.full(5, np.nan)
    for w in range(5):
        rows_of = np.flatnonzero((rows[:, 1] == w) & shared)
        if len(np.unique(rows[rows_of, 2])) > 1:
            rank = (rankdata(rows[rows_of, 2]) - 0.5) / len(rows_of) - 0.5
            score[rows_of], spread[w] = rank / rank.var(), 1 / rank.var()
    agreement, agreement_of_others = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    for w in np.flatnonzero(np.isfinite(spread)):
        rows_of = np.flatnonzero((rows[:, 1] == w) & shared)
        comparable = [
            k
            for k in range(len(rows))
            if rows[k, 1] != w
            and trusted[rows[k, 1]]
            and np.isfinite(spread[rows[k, 1]])
            and rows[k, 0] in rows[rows_of, 0]
        ]
        if not comparable:
            continue
        centred = {k: score[k] - score[comparable].mean() for k in comparable}
        relative = np.sqrt(sum(z**2 for z in centred.values()) / spread[rows[comparable, 1]].sum())
        for row in rows_of:
            peers = [centred[k] for k in comparable if rows[k, 0] == rows[row, 0]]
            if len(peers) > 1:
                agreement[row] = score[row] * np.mean(peers) * relative
                agreement_of_others[row] = np.mean([a * b for a, b in combinations(peers, 2)])
    return agreement, agreement_of_others


@given(rows=ROWS, trusted=st.lists(st.booleans(), min_size=5, max_size=5))
def test_it_is_what_loops_give(rows: list[tuple[int, int, int]], trusted: list[bool]) -> None:
    ordered, result = of_rows(np.array(rows), np.array(trusted))
    agreement, agreement_of_others = written_out(ordered, np.array(trusted))
    assert result[0] == pytest.approx(agreement, nan_ok=True)
    assert result[1] == pytest.approx(agreement_of_others, nan_ok=True)


@given(rows=ROWS, worker=st.integers(0, 4))
def test_severity_and_use_of_the_scale_do_not_matter(rows: list[tuple[int, int, int]], worker: int) -> None:
    _, plain = of_rows(np.array(rows))
    severe = np.array(rows)
    severe[:, 2] = np.where(severe[:, 1] == worker, severe[:, 2] ** 3 - 40, severe[:, 2])
    _, severe_agreement = of_rows(severe)
    assert np.array_equal(plain[0], severe_agreement[0], equal_nan=True)
    assert np.array_equal(plain[1], severe_agreement[1], equal_nan=True)


def test_coarse_answers_estimate_the_correlation_of_fine_ones() -> None:
    """One answer in ten exceeds the threshold: without the correction the ratio is .58. Errors are normal here, and the
    correction is exact if the regression on ranks is linear."""
    rng = np.random.default_rng(1)
    value = rng.normal(size=(20_000, 1)) + 0.7 * rng.normal(size=(20_000, 3))
    value[:, 0] = value[:, 0] > 1.28 * np.sqrt(1.49)
    task, worker = np.repeat(np.arange(20_000), 3), np.tile(np.arange(3), 20_000)
    result = peer_agreement(task, worker, value.ravel(), n_tasks=20_000, trusted=np.ones(3, dtype=bool))
    first = worker == 0
    assert result[0][first].mean() / result[1][first].mean() == pytest.approx(1, abs=0.15)


POSITIONS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from([1, -1]), st.sampled_from([1, -1])),
    min_size=1,
    max_size=40,
).map(np.array)


def by_enumeration(odds: np.ndarray, n_seen: int) -> float:
    chance = np.zeros(len(odds) + 1)
    for heads in product((0, 1), repeat=len(odds)):
        chance[sum(heads)] += np.prod(np.where(heads, odds, 1 - odds))
    return float(chance[chance <= chance[n_seen] * (1 + 1e-9)].sum())


@given(st.lists(st.floats(0.05, 0.95), min_size=1, max_size=8).map(np.array), st.data())
def test_the_p_value_is_that_of_unlike_coins(odds: np.ndarray, data: st.DataObject) -> None:
    n_seen = data.draw(st.integers(0, len(odds)))
    assert module._poisson_binomial_p(odds, n_seen) == pytest.approx(by_enumeration(odds, n_seen))


@settings(max_examples=40)
@given(POSITIONS)
def test_sides_and_systems_may_be_turned_round(rows: np.ndarray) -> None:
    worker, pair, sign, order = rows.T
    plain = position_tests(worker, pair, sign, order, n_workers=3)
    systems = position_tests(worker, pair, -sign, -order, n_workers=3)
    assert systems.share == pytest.approx(plain.share, nan_ok=True)
    assert systems.p_value == pytest.approx(plain.p_value, nan_ok=True)
    result = position_tests(worker, pair, sign, -order, n_workers=3)
    assert result.share == pytest.approx(1 - plain.share, nan_ok=True)
    assert result.p_value == pytest.approx(plain.p_value, nan_ok=True)


@settings(max_examples=40)
@given(POSITIONS)
def test_the_order_of_rows_changes_no_bit(rows: np.ndarray) -> None:
    mixed = np.random.default_rng(0).permutation(rows)
    first, second = (position_tests(*table.T, n_workers=3).p_value for table in (rows, mixed))
    assert first.tobytes() == second.tobytes()


def test_one_order_only_tells_nothing() -> None:
    n = 30
    result = position_tests(*np.array([[0, 0, 1, 1]] * n).T, n_workers=1)
    assert result.share.item() == 1
    assert np.isnan(result.p_value).all()


def test_long_rows_have_the_same_p_as_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    odds = rng.uniform(0.3, 0.7, 900)
    for n_seen in (400, 450, 480, 500):
        exact = module._poisson_binomial_p(odds, n_seen)
        with monkeypatch.context() as patch:
            patch.setattr(module, "MOST_EXACT", 10)
            assert module._poisson_binomial_p(odds, n_seen) == pytest.approx(exact, rel=0.06, abs=1e-4)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_tastes_are_tested_by_permutations_of_annotators(scale: float) -> None:
    # Tasks 0 and 1 have the same preference and the same annotator: 2 of the 6 partitions in pairs are as extreme.
    preferences = csr_array(scale * np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]]))
    p_value = taste_p(preferences, np.array([0, 0, 2, 2]), np.random.default_rng(0))
    assert p_value == pytest.approx(1 / 3, abs=0.1)
    assert p_value * (1 + module.PERMUTATIONS) == pytest.approx(round(p_value * (1 + module.PERMUTATIONS)))
    # The statistic divides by the number of tasks: one task with a preference against three without any.
    uneven = csr_array(np.array([[3.0], [0.0], [0.0], [0.0]]))
    assert taste_p(uneven, np.array([0, 1, 1, 1]), np.random.default_rng(0)) == pytest.approx(1 / 4, abs=0.1)
    assert taste_p(uneven, np.array([1, 1, 1, 0]), np.random.default_rng(0)) == 1
    for annotator in ([0, 0, 0, 0], [0, 1, 2, 3]):
        assert np.isnan(taste_p(preferences, np.array(annotator), np.random.default_rng(0)))
