"""The design effect: against its definition, by simulation with a known correlation, and where it must be 1."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.stats import ABSENT
from custodes.stats.clusters import is_clustered, pooled_design_effect
from custodes.stats.correction.estimator import Counts


def documents(rng: np.random.Generator, *, pairs: int, clusters: int, size: int, rho: float) -> np.ndarray:
    """(pairs, items) fair coins, of which a share sqrt(rho) say what their document says: correlation rho."""
    shared = rng.choice([-1, 1], size=(pairs, clusters)).repeat(size, axis=1)
    own = rng.choice([-1, 1], size=shared.shape)
    return np.where(rng.random(shared.shape) < np.sqrt(rho), shared, own).astype(np.int8)


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.3, 0.6])
def test_it_is_that_of_a_known_correlation(rho: float) -> None:
    rng = np.random.default_rng(0)
    signs = documents(rng, pairs=200, clusters=400, size=10, rho=rho)
    found = pooled_design_effect(signs, units=np.repeat(np.arange(400), 10))
    # Kish: 1 + (m - 1) rho
    np.testing.assert_allclose(found, 1 + 9 * rho, rtol=0.03)


def test_few_clusters_are_allowed_for() -> None:
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(10), 10)
    found = [
        pooled_design_effect(documents(rng, pairs=1, clusters=10, size=10, rho=0.3), units=units) for _ in range(300)
    ]
    # the estimate and its standard error: in four of five studies at least the truth, 3.7
    assert np.mean(np.array(found) >= 3.7) > 0.6
    assert np.max(found) <= 10


def test_nothing_changes_without_shared_clusters() -> None:
    signs = np.random.default_rng(2).choice(np.array([1, 0, -1, ABSENT], dtype=np.int8), size=(3, 5, 30))
    assert not is_clustered(np.arange(30))
    assert (pooled_design_effect(signs, units=np.arange(30)) == 1).all()
    # one annotation of each document, the others absent
    signs[..., 1::2] = ABSENT
    units = np.repeat(np.arange(15), 2)
    assert is_clustered(units)
    assert (pooled_design_effect(signs, units=units) == 1).all()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_symmetries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    signs = rng.choice(np.array([1, 0, -1, ABSENT], dtype=np.int8), size=(4, 24))
    units = rng.integers(0, 8, 24)
    found = pooled_design_effect(signs, units=units)
    assert (found >= 1).all()
    order, names = rng.permutation(24), rng.permutation(8)
    np.testing.assert_allclose(pooled_design_effect(signs[:, order], units=units[order]), found)
    np.testing.assert_allclose(pooled_design_effect(signs, units=names[units]), found)
    swapped = np.where(signs == ABSENT, ABSENT, -signs).astype(np.int8)
    np.testing.assert_allclose(pooled_design_effect(swapped, units=units), found)
    np.testing.assert_allclose(pooled_design_effect(np.stack([signs, signs]), units=units), np.stack([found, found]))


def test_documents_that_agree_with_themselves_are_one_annotation_each() -> None:
    units = np.repeat(np.arange(8), 5)
    signs = np.random.default_rng(3).choice(np.array([1, -1], dtype=np.int8), size=(6, 8)).repeat(5, axis=1)
    np.testing.assert_allclose(pooled_design_effect(signs, units=units), 5)
    # no spread at all: they may agree because they share a document
    np.testing.assert_allclose(pooled_design_effect(np.ones((1, 40), dtype=np.int8), units=units), 5)


def test_counts_are_worth_less() -> None:
    counts = Counts(np.full((2, 3, 3), 8), np.full((2, 3), 7), np.full((2, 3), 3))
    made = counts.effective(np.array([1.0, 2.0]))
    assert made.paired[:, 0, 0].tolist() == [8, 4]
    assert made.metric_only[:, 0].tolist() == [7, 3.5]
    assert made.human.sum(axis=-1).tolist() == [81, 40.5]
