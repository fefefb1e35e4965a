from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.reliability import Scale, alpha, coincidences, interval_alpha, moments, pair_coincidences

SMALL = (
    st.lists(st.integers(0, 3), min_size=9, max_size=9)
    .map(lambda values: np.array(values).reshape(3, 3))
    .filter(np.any)
)
CODES = st.lists(st.lists(st.integers(-1, 4), min_size=3, max_size=3), min_size=2, max_size=12).map(np.array)
"""(tasks, workers): a label of five, -1 for none."""


def alpha_by_pairs(codes: np.ndarray, kind: str) -> float:
    """Return Krippendorff's alpha from all pairs of values within units and overall."""
    units = [[int(number) for number in row if number >= 0] for row in codes]
    units = [row for row in units if len(row) > 1]
    values = [value for row in units for value in row]
    many = [values.count(label) for label in range(5)]

    def distance(a: int, b: int) -> float:
        a, b = sorted((a, b))
        if kind == "ordinal":
            return (sum(many[a : b + 1]) - (many[a] + many[b]) / 2) ** 2
        return float(a != b) if kind == "nominal" else (a - b) ** 2

    n = len(values)
    if n < 2:
        return np.nan
    observed = sum(distance(a, b) / (len(row) - 1) for row in units for a, b in permutations(row, 2)) / n
    expected = sum(distance(a, b) for a, b in permutations(values, 2)) / (n * (n - 1))
    return 1 - observed / expected if expected else np.nan


def answers_of(codes: np.ndarray) -> AnnotatorLabels:
    task, worker = np.nonzero(codes >= 0)
    return AnnotatorLabels.from_labels(
        task,
        worker,
        codes[task, worker],
        n_tasks=len(codes),
        n_workers=codes.shape[1],
        n_labels=max(5, codes.max() + 1),
    )


def alpha_of(codes: np.ndarray, kind: str) -> float:
    labels_of = answers_of(codes)
    group = np.zeros(len(codes), dtype=int)
    if kind == "interval":
        return float(interval_alpha(moments(labels_of.task, labels_of.label.astype(float), units=group, n_units=1)[0]))
    scale: Any = kind
    return float(alpha(coincidences(labels_of, units=group, n_units=1)[0], scale=scale))


every_kind = pytest.mark.parametrize("kind", ["nominal", "ordinal", "interval"])


@every_kind
@settings(max_examples=40)
@given(codes=CODES)
def test_alpha_is_one_minus_observed_over_expected_disagreement(codes: np.ndarray, kind: str) -> None:
    assert alpha_of(codes, kind) == pytest.approx(alpha_by_pairs(codes, kind), nan_ok=True, abs=1e-9)


@every_kind
def test_alpha_is_that_of_evalica(kind: str) -> None:
    evalica, pd = pytest.importorskip("evalica"), pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    codes = np.clip(rng.integers(0, 5, (60, 1)) + rng.integers(-1, 2, (60, 4)), 0, 4)
    codes[rng.random(codes.shape) < 0.3] = -1
    data = pd.DataFrame(np.where(codes < 0, np.nan, codes).T)
    assert alpha_of(codes, kind) == pytest.approx(evalica.alpha(data, distance=kind).alpha, abs=1e-12)


@settings(max_examples=40)
@given(SMALL)
def test_two_codings_are_units_of_two_answers(table: np.ndarray) -> None:
    codes = np.repeat(np.argwhere(np.ones((3, 3))), table.ravel(), axis=0)
    assert alpha(pair_coincidences(table), scale="nominal").item() == pytest.approx(
        alpha_by_pairs(codes, "nominal"), nan_ok=True
    )


def test_alpha_of_many_tables_is_that_of_each() -> None:
    tables = np.random.default_rng(0).integers(0, 9, (2, 4, 3, 3))
    scales: tuple[Scale, ...] = ("nominal", "ordinal")
    for scale in scales:
        alphas = [[alpha(pair_coincidences(table), scale=scale).item() for table in row] for row in tables]
        np.testing.assert_allclose(alpha(pair_coincidences(tables), scale=scale), alphas)
