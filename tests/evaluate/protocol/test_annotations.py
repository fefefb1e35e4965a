"""Annotations that a protocol collects: outcomes, orders, the simulated metric, and the null hypothesis of no
difference."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

from custodes.answers.shared_arguments import NONE
from custodes.evaluate.protocol.annotations import (
    IDEAL_MIXTURE,
    order_answers,
    outcome_of,
    permute_systems,
    rated_pairs,
    simulate_ideal_metric,
)
from custodes.evaluate.rater_comparison import compare
from custodes.stats import ABSENT
from custodes.stats.stopping.allocation import KINDS
from tests.evaluate.protocol.scores import scores_of
from tests.evaluate.studies import study_of


def test_null_permutes_systems_within_items() -> None:
    (comparison,) = compare(study_of(scores_of(6, strength=3.0)))
    rated_answers = rated_pairs(comparison, "m1")
    permutations = [permute_systems(rated_answers, np.random.default_rng(seed)) for seed in range(200)]
    # Every item keeps its number of ties and of (transitive) preferences; no pair keeps its margin.
    for permutation in permutations[:20]:
        assert (np.abs(permutation.human).sum(axis=0) == np.abs(rated_answers.human).sum(axis=0)).all()
        assert (
            (permutation.human == permutation.metric).sum(axis=0)
            == (rated_answers.human == rated_answers.metric).sum(axis=0)
        ).all()
    margins = np.array([permutation.human.mean(axis=1) for permutation in permutations])
    assert np.abs(margins.mean(axis=0)).max() < 5 * margins.std() / np.sqrt(200)
    assert np.abs(rated_answers.human.mean(axis=1)).max() > 0.5


def test_null_has_no_winner_on_the_metrics_further_items_either() -> None:
    (comparison,) = compare(study_of(scores_of(6, strength=3.0)))
    rated_answers = simulate_ideal_metric(rated_pairs(comparison, "m1"), 500, np.random.default_rng(0))
    total = rated_answers.metric_more.sum(axis=0)
    assert abs(total[0] - total[2]) > 0.5 * total.sum()
    more = np.array([permute_systems(rated_answers, np.random.default_rng(seed)).metric_more for seed in range(100)])
    assert (more.sum(axis=2) == 500).all()
    # Wins and losses are exchanged at random and ties stay; proportions of 300,000 answers have an sd below .001.
    even = np.array([(total[0] + total[2]) / 2, total[1], (total[0] + total[2]) / 2]) / total.sum()
    np.testing.assert_allclose(more.sum(axis=(0, 1)) / more.sum(), even, atol=0.005)
    decided = replace(rated_answers, metric_more=rated_answers.metric_more * np.array([1, 0, 1]))  # no ties
    drawn = permute_systems(decided, np.random.default_rng(0)).metric_more.sum(axis=0)
    assert drawn[1] == 0
    assert abs(drawn[0] - drawn[2]) < 0.05 * drawn.sum()


def test_ideal_metric_answers_by_its_matrix() -> None:
    (comparison,) = compare(study_of(scores_of(8, items=4000, systems=3)))
    rated_answers = simulate_ideal_metric(rated_pairs(comparison, "m1"), 50_000, np.random.default_rng(0))
    for h in range(3):
        answers = rated_answers.metric[rated_answers.human == 1 - h]
        shares = np.array([(answers == kind).mean() for kind in (1, 0, -1)])
        assert shares == pytest.approx(IDEAL_MIXTURE[:, h], abs=0.03)
    outcome = rated_answers.outcome / rated_answers.outcome.sum(axis=1, keepdims=True)
    assert rated_answers.metric_more / 50_000 == pytest.approx(outcome @ IDEAL_MIXTURE.T, abs=0.015)


def gappy(seed: int) -> np.ndarray:
    scores = scores_of(seed, items=12, systems=3)
    scores[np.random.default_rng(seed).random(scores.shape) < 0.3] = np.nan
    return scores


def test_what_is_asked_are_the_pairs_that_people_rated() -> None:
    (comparison,) = compare(study_of(gappy(3)))
    rated_answers, alone = rated_pairs(comparison, "m1"), rated_pairs(comparison, NONE)
    rated = [k for k in range(3) if (comparison.human_signs[k] != ABSENT).any()]
    np.testing.assert_array_equal(rated_answers.human, comparison.human_signs[rated])
    np.testing.assert_array_equal(rated_answers.metric, comparison.metric_signs[0][rated])
    assert rated_answers.metric_outcome.tolist() == outcome_of(rated_answers.metric).tolist()
    assert (alone.metric == ABSENT).all()
    assert not alone.metric_outcome.any()
    np.testing.assert_array_equal(alone.human, rated_answers.human)
    for k, (wins, _, losses) in enumerate(rated_answers.outcome):
        theta = beta.sf(0.5, wins + 1, losses + 1)
        assert rated_answers.reference(0.4)[k] == (1 if theta > 0.8 else -1 if theta < 0.2 else 0)


def test_answers_come_in_the_order_of_their_seed() -> None:
    (comparison,) = compare(study_of(gappy(4)))
    rated_answers = rated_pairs(comparison, "m1")
    answers = order_answers([rated_answers, rated_answers, rated_answers], [7, 8, 7])
    np.testing.assert_array_equal(answers.kinds[0], answers.kinds[2])
    assert (answers.kinds[0] != answers.kinds[1]).any()
    np.testing.assert_array_equal(answers.available, np.tile((rated_answers.human != ABSENT).sum(axis=1), (3, 1)))
    # each annotation once, missing ones at the end
    for pair, kinds_of_pair in enumerate(answers.kinds[0]):
        n = answers.available[0, pair]
        assert (kinds_of_pair[:n] < KINDS).all()
        assert (kinds_of_pair[n:] == KINDS).all()
        signs = 1 - kinds_of_pair[:n] // 4
        assert sorted(signs) == sorted(rated_answers.human[pair][rated_answers.human[pair] != ABSENT])


def test_items_annotated_so_far_are_the_first_of_the_order() -> None:
    (comparison,) = compare(study_of(gappy(5)))
    rated_answers = rated_pairs(comparison, "m1")
    answers = order_answers([rated_answers, rated_answers], [1, 2])
    all_items = answers.items(answers.available)
    np.testing.assert_array_equal(all_items.human, np.stack([rated_answers.human] * 2))
    np.testing.assert_array_equal(all_items.systems, rated_answers.systems)
    few = np.minimum(answers.available, [[0], [3]])
    items_of_few = answers.items(few)
    assert ((items_of_few.human != ABSENT).sum(axis=2) == few).all()
    rated_cells = items_of_few.human != ABSENT
    np.testing.assert_array_equal(items_of_few.human[rated_cells], all_items.human[rated_cells])
    for pair in range(len(rated_answers.human)):
        first = 1 - answers.kinds[1, pair, : few[1, pair]] // 4
        assert sorted(items_of_few.human[1, pair][rated_cells[1, pair]]) == sorted(first)
