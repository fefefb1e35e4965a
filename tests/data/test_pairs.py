"""The bridges: scores and verdicts to signs, signs to counts, against loops by definition."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.data.pairs import PairPreferences, majority, people_signs, score_signs, verdict_signs
from custodes.stats import ABSENT


def scores_of(rng: np.random.Generator, shape: tuple[int, ...], missing: float = 0.2) -> np.ndarray:
    values = rng.integers(0, 4, shape).astype(float)
    values[rng.random(shape) < missing] = np.nan
    return values


def sign(a: float, b: float, epsilon: float = 0.0) -> int:
    if np.isnan(a) or np.isnan(b):
        return ABSENT
    return 0 if abs(a - b) <= epsilon else int(np.sign(a - b))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0]))
def test_score_signs_by_definition(seed: int, epsilon: float) -> None:
    values = scores_of(np.random.default_rng(seed), (2, 5, 4))
    signs = score_signs(values, epsilon=np.full((2, 5), epsilon))
    for p, (a, b) in enumerate(combinations(range(4), 2)):
        for r in range(2):
            for i in range(5):
                assert signs[p, r, i] == sign(values[r, i, a], values[r, i, b], epsilon)


def test_people_mean_takes_those_who_rated_both() -> None:
    # ann rated both (2 against 1), bob only the second output, cem both (1 against 4): mean difference -1.
    values = np.array([[[2.0, 1.0]], [[np.nan, 5.0]], [[1.0, 4.0]]])
    assert people_signs(values, None, aggregate="mean", ties=None).tolist() == [[-1]]
    assert people_signs(values, None, aggregate="mean", ties=1.0).tolist() == [[0]]
    assert people_signs(values, None, aggregate="vote", ties=None).tolist() == [[0]]


def test_float_noise_of_a_mean_is_a_tie() -> None:
    values = np.array([[[0.1 + 0.2, 0.3]], [[0.0, 1e-16]], [[0.0, 0.0]]])
    assert people_signs(values, None, aggregate="mean", ties=None).tolist() == [[0]]


@pytest.mark.parametrize(
    ("votes", "outcome"),
    [([1, 1, -1], 1), ([1, 0, 0], 1), ([1, -1, 0], 0), ([1, -1, -1], -1), ([ABSENT, ABSENT], ABSENT), ([ABSENT, 1], 1)],
)
def test_majority(votes: list[int], outcome: int) -> None:
    assert majority(np.array(votes, dtype=np.int8)[None, :, None]).item() == outcome


def test_verdicts_fill_where_there_are_no_scores() -> None:
    settled = pl.DataFrame(
        {"item": ["x", "y"], "system_a": ["A", "B"], "system_b": ["C", "C"], "rater": ["r", "r"], "preference": [1, -1]}
    )
    signs = verdict_signs(settled, raters=["r"], items=["y", "x"], systems=["A", "B", "C"])
    # pairs in the order AB, AC, BC
    assert signs[:, 0].tolist() == [[ABSENT, ABSENT], [ABSENT, 1], [-1, ABSENT]]


def test_a_persons_verdict_counts_only_where_there_are_no_scores() -> None:
    # one pair and three items: scores and a contrary verdict, a verdict alone, neither
    values = np.array([[[2.0, 1.0], [np.nan, 1.0], [np.nan, np.nan]]])
    verdicts = np.array([[[-1, -1, ABSENT]]], dtype=np.int8)
    assert people_signs(values, verdicts, aggregate="vote", ties=None).tolist() == [[1, -1, ABSENT]]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_counts_by_definition_and_swap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    signs = rng.choice(np.array([1, 0, -1, ABSENT], dtype=np.int8), (3, 3, 20))
    names = {"system_a": ("A", "A", "B"), "system_b": ("B", "C", "C")}
    made = PairPreferences(signs=signs, raters=("human", "m", "n"), items=tuple(map(str, range(20))), **names)
    counts = made.counts()
    order = [1, 0, -1]
    for p in range(3):
        for m in range(2):
            human, metric = signs[p, 0], signs[p, m + 1]
            for h in range(3):
                assert counts.human_only[p, m, h] == ((human == order[h]) & (metric == ABSENT)).sum()
                assert counts.metric_only[p, m, h] == ((metric == order[h]) & (human == ABSENT)).sum()
                for k in range(3):
                    assert counts.paired[p, m, h, k] == ((human == order[h]) & (metric == order[k])).sum()
    np.testing.assert_array_equal(counts.human, [[(signs[p, 0] == o).sum() for o in order] for p in range(3)])
    swapped = np.where(signs == ABSENT, ABSENT, -signs).astype(np.int8)
    turned = PairPreferences(
        signs=swapped, raters=made.raters, items=made.items, system_a=names["system_b"], system_b=names["system_a"]
    ).counts()
    np.testing.assert_array_equal(turned.paired, counts.paired[:, :, ::-1, ::-1])
    np.testing.assert_array_equal(turned.metric_only, counts.metric_only[:, :, ::-1])
    doubled = counts + counts
    np.testing.assert_array_equal(doubled.metric, 2 * counts.metric)
