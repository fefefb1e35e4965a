from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.stats.annotator_models import (
    UNKNOWN,
    AnnotatorLabels,
    dawid_skene,
    mace,
    majority_label,
    row_sums,
    vote_shares,
)
from tests.stats.annotators import planted

Aggregate = Callable[[AnnotatorLabels], np.ndarray]


METHODS: dict[str, Aggregate] = {
    "mace": lambda labels: mace(labels, restarts=2, iterations=15, rng=np.random.default_rng(7)).posterior,
    "dawid-skene": lambda labels: dawid_skene(labels, iterations=50),
    "majority": vote_shares,
}
every_method = pytest.mark.parametrize("name", METHODS)
ROWS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 2)),
    min_size=1,
    max_size=35,
    unique_by=lambda labels: labels[:2],
)


def answers_of(rows: np.ndarray) -> AnnotatorLabels:
    return AnnotatorLabels.from_labels(*rows.T, n_tasks=7, n_workers=5, n_labels=3)


@every_method
@settings(max_examples=20)
@given(rows=ROWS, seed=st.integers(0, 99))
def test_the_order_of_rows_changes_no_bit(name: str, rows: list[tuple[int, int, int]], seed: int) -> None:
    plain = np.array(rows)
    mixed = np.random.default_rng(seed).permutation(plain)
    first, second = METHODS[name](answers_of(plain)), METHODS[name](answers_of(mixed))
    assert first.tobytes() == second.tobytes()


@every_method
@settings(max_examples=20)
@given(rows=ROWS)
def test_turning_all_comparisons_round_swaps_wins_and_losses_exactly(
    name: str, rows: list[tuple[int, int, int]]
) -> None:
    plain = np.array(rows)
    reversed_labels = plain * (1, 1, -1) + (0, 0, 2)
    first, second = METHODS[name](answers_of(plain)), METHODS[name](answers_of(reversed_labels))
    assert np.array_equal(first, second[:, ::-1], equal_nan=True)


@every_method
def test_models_beat_votes_where_some_only_guess(name: str) -> None:
    knows = np.array([0.9] * 5 + [0.0] * 5)
    labels, truth = planted(np.random.default_rng(2), tasks=400, people=10, each=4, knows=knows)
    right = np.mean(majority_label(METHODS[name](labels)) == truth)
    votes = np.mean(majority_label(vote_shares(labels)) == truth)
    assert right >= votes + (0 if name == "majority" else 0.05)  # measured: .71 by votes, .93 by models


def test_guessers_have_no_competence_and_others_theirs() -> None:
    """Estimates from the number of correct answers, as in another program, give guessers a competence of a third."""
    knows = np.array([0.9, 0.8, 0.7, 0.6, 0.0, 0.0])
    labels, _ = planted(np.random.default_rng(4), tasks=2000, people=6, each=4, knows=knows)
    result = mace(labels, restarts=5, iterations=50, rng=np.random.default_rng(0))
    assert result.competence == pytest.approx(knows, abs=0.05)


def test_who_did_not_answer_and_what_nobody_answered_is_not_known() -> None:
    rows = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 0]])
    labels = AnnotatorLabels.from_labels(*rows.T, n_tasks=3, n_workers=3, n_labels=3)
    result = mace(labels, restarts=1, iterations=10, rng=np.random.default_rng(0))
    assert np.isnan(result.competence).tolist() == [False, False, True]
    assert result.posterior[2] == pytest.approx(1 / 3)
    assert np.isnan(vote_shares(labels)[2]).all()
    assert majority_label(np.nan_to_num(vote_shares(labels))).tolist() == [1, 0, UNKNOWN]


@every_method
def test_thousands_of_votes_on_one_task_leave_the_others_alone(name: str) -> None:
    task, worker = np.append(np.zeros(3000, dtype=int), 1), np.append(np.arange(3000), 0)
    labels = AnnotatorLabels.from_labels(task, worker, task, n_tasks=2, n_workers=3000, n_labels=3)
    assert METHODS[name](labels).argmax(axis=1).tolist() == [0, 1]
    assert np.isfinite(METHODS[name](labels)).all()


def test_a_tie_of_votes_is_no_label() -> None:
    rows = np.array([[0, 0, 0], [0, 1, 1], [0, 2, 2], [1, 0, 0], [1, 1, 0], [1, 2, 2], [2, 0, 0], [2, 1, 2], [3, 0, 2]])
    labels = AnnotatorLabels.from_labels(*rows.T, n_tasks=4, n_workers=3, n_labels=3)
    assert majority_label(labels.votes).tolist() == [UNKNOWN, 0, UNKNOWN, 2]


def test_a_weight_counts_a_task_so_often() -> None:
    """A task with weight 2 equals the task twice; tasks of weight 0 get labels and do not affect the model."""
    labels, _ = planted(np.random.default_rng(5), tasks=30, people=4, each=3, knows=np.full(4, 0.7))
    twice = labels.task < 10
    doubled = AnnotatorLabels.from_labels(
        np.concatenate([labels.task, labels.task[twice] + 30]),
        np.concatenate([labels.worker, labels.worker[twice]]),
        np.concatenate([labels.label, labels.label[twice]]),
        n_tasks=40,
        n_workers=4,
        n_labels=3,
    )
    weighted = replace(labels, weight=np.where(np.arange(30) < 10, 2.0, 1.0))
    assert dawid_skene(weighted, iterations=30) == pytest.approx(dawid_skene(doubled, iterations=30)[:30], abs=1e-6)
    first, second = (
        mace(rows, restarts=2, iterations=30, rng=np.random.default_rng(0)) for rows in (weighted, doubled)
    )
    assert first.competence == pytest.approx(second.competence)


def test_the_start_with_the_highest_likelihood_wins() -> None:
    labels, _ = planted(np.random.default_rng(8), tasks=12, people=4, each=3, knows=np.full(4, 0.4))

    best = mace(labels, restarts=5, iterations=20, rng=np.random.default_rng(0))
    singles = [
        mace(labels, restarts=k, iterations=20, rng=np.random.default_rng(0)).log_likelihood for k in range(1, 6)
    ]
    assert singles == sorted(singles)
    assert singles[0] < best.log_likelihood == singles[-1]


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=9))
def test_sums_turned_round_are_the_same_to_the_bit(values: list[float]) -> None:
    labels = np.array(values)
    assert row_sums(labels) == row_sums(labels[::-1])
    assert row_sums(labels) == pytest.approx(labels.sum())
