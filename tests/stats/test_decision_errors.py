from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import entropy

from custodes.stats.decision_errors import divergence, error_types, outcome_probabilities

decision = st.sampled_from([1.0, 0.0, -1.0, np.nan])
decided = st.integers(1, 10).flatmap(lambda n: hnp.arrays(np.float64, (3, n), elements=decision))
outcomes = hnp.arrays(np.int64, (2, 4, 3), elements=st.integers(0, 40))

KIND = {
    (1, 1): 0, (0, 0): 0, (-1, -1): 0,  # correct
    (1, -1): 1, (-1, 1): 1,  # inversion
    (1, 0): 2, (-1, 0): 2,  # omission
    (0, 1): 3, (0, -1): 3,  # insertion
}  # fmt: skip


@given(decided)
def test_error_types_by_definition(table):
    human, columns = table[0], table[1:]
    shares = error_types(human, columns)
    for column, share in zip(columns, shares, strict=True):
        kinds = [KIND[h, o] for h, o in zip(human, column, strict=True) if not np.isnan(h + o)]
        if not kinds:
            assert np.isnan(share).all()
            continue
        assert share.tolist() == [kinds.count(k) / len(kinds) for k in range(4)]
        assert share.sum() == pytest.approx(1)


@given(outcomes)
def test_kld_is_scipys_entropy(counts):
    first, human = counts
    empty = (first.sum(-1) == 0) | (human.sum(-1) == 0)
    mean = divergence(np.log(outcome_probabilities(human)), outcome_probabilities(first))
    np.testing.assert_array_equal(np.isnan(mean), empty)
    expected = np.array(
        [entropy((o + 1) / (o.sum() + 3), (h + 1) / (h.sum() + 3)) for o, h in zip(*counts, strict=True)]
    )
    np.testing.assert_allclose(mean[~empty], expected[~empty], atol=1e-12)


def test_kld_by_hand():
    first, human = np.array([3, 1, 0]), np.array([4, 0, 1])
    # (4/7) ln((4/7)/(5/8)) + (2/7) ln((2/7)/(1/8)) + (1/7) ln((1/7)/(2/8))
    expected = 4 / 7 * np.log(32 / 35) + 2 / 7 * np.log(16 / 7) + 1 / 7 * np.log(4 / 7)
    assert divergence(np.log(outcome_probabilities(human)), outcome_probabilities(first)) == pytest.approx(expected)
