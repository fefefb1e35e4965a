"""Scores of a part of the items, for which missing values fill the rest, and means of annotators."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import custodes as cu
from custodes.evaluate.agreement.statistic import Sample
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.rater_comparison import compare
from custodes.evaluate.scores import ItemScores, human_means, without_float_noise
from custodes.stats.partiality.scores import annotator_levels
from custodes.stats.ratios import mean_of_defined
from tests.evaluate.judged_studies import judged
from tests.evaluate.studies import study_of
from tests.messages import exactly


def scores(n_items: int) -> ItemScores:
    """Return scores of two systems on the first and the third of all items."""
    human = np.array([[1.0, 2.0], [3.0, 4.0]])
    return ItemScores(items=np.array([0, 2]), n_items=n_items, persons=human[None], human=human, metrics=-human[None])


def test_items_without_scores_are_missing() -> None:
    missing = [np.nan, np.nan]
    np.testing.assert_array_equal(scores(4).spread(scores(4).human), [[1, 2], missing, [3, 4], missing])


def test_more_cells_than_memory_holds_are_refused() -> None:
    with pytest.raises(
        cu.InputError,
        match=exactly(
            "1000000000000 items x 2 systems do not fit into memory for a question about scores. Select "
            "fewer, or use leaderboard, favoritism, ranking or correction, which read only comparisons"
        ),
    ):
        scores(10**12).spread(scores(10**12).human)


def test_equal_means_are_ties_whatever_the_order_of_their_sums() -> None:
    # The annotators score every output .1, .2, .3 (a mean of .2 or of .20000000000000004) or 1, 2, 3 (2). A metric with
    # these two values ranks the outputs identically; one whose low scores differ by the noise does not.
    orders = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    assert orders[0].sum() / 3 != orders[1].sum() / 3
    human = {(name, "style"): np.tile(orders[:, k], (6, 1)) for k, name in enumerate(("ann", "bob", "cy"))}
    same = np.tile([0.0, 0.0, 1.0, 1.0], (6, 1))
    study = judged({**human, ("same", ""): same, ("other", ""): np.tile([0.1, 0.0, 1.0, 1.0], (6, 1))})
    pairs = cu.complementarity(study, resamples=0).pairs
    complementarities = dict(pairs.filter(pl.col("kind_a") == "human").select("rater_b", "complementarity").rows())
    # tau-b of 4 concordant pairs, where the human ratings tie one of 5 pairs that the other metric does not tie
    assert complementarities["same"] == pytest.approx(0, abs=1e-12)
    assert complementarities["other"] == pytest.approx((1 - 4 / np.sqrt(4 * 5)) / 2)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_snapping_undoes_noise_and_nothing_else(levels: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    exact = np.array(levels, dtype=float)
    spread = np.ptp(exact)
    noisy = exact + 1e-12 * spread * rng.uniform(-1, 1, exact.shape)
    result = without_float_noise(np.append(noisy, np.nan))
    assert np.isnan(result[-1])
    np.testing.assert_allclose(result[:-1], exact, atol=1e-11 * max(spread, 1))
    for i in range(len(exact)):
        np.testing.assert_array_equal(result[:-1] == result[i], exact == exact[i])


def ratings_with_gaps(seed: int, proportion: float) -> np.ndarray:
    """Return ratings from 1 to 5 by three annotators; every annotator lacks this proportion of the ratings."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(60, 5)) + np.linspace(-0.5, 0.5, 5)
    ratings = np.clip(np.round(3 + quality + rng.normal(0, 0.4, (3, 60, 5))), 1, 5)
    ratings[rng.random(ratings.shape) < proportion] = np.nan
    return ratings


def test_means_of_annotators_who_rated_the_same_outputs_are_plain_means() -> None:
    ratings = ratings_with_gaps(0, 0.0)
    ratings[:, 3:9, 2] = np.nan
    means = human_means(ratings)
    np.testing.assert_array_equal(means.values, mean_of_defined(ratings, axis=0))
    assert means.notes("", "") == []


def test_levels_of_annotators_are_the_effects_of_a_regression_on_outputs_and_annotators() -> None:
    ratings = ratings_with_gaps(1, 0.5)
    annotator, output = np.nonzero(np.isfinite(ratings.reshape(3, -1)))
    indicators = np.hstack([np.eye(3)[annotator], np.eye(300)[output]])
    effects = np.linalg.lstsq(indicators, ratings[np.isfinite(ratings)], rcond=None)[0][:3]
    np.testing.assert_allclose(annotator_levels(ratings).values, effects - effects.mean(), atol=1e-9)


@pytest.mark.parametrize("proportion", [0.0, 0.01, 0.5])
def test_agreement_does_not_depend_on_the_severity_of_an_annotator(proportion: float) -> None:
    ratings = ratings_with_gaps(2, proportion)
    metric = np.random.default_rng(3).normal(np.nan_to_num(mean_of_defined(ratings, axis=0)), 1)[None]
    results = [
        cu.agreement(study_of(np.concatenate([ratings + shift[:, None, None], metric]), people=3), resamples=0).metrics
        for shift in (np.zeros(3), np.array([0.0, 0.0, 1.3]))
    ]
    values = [result.select(pl.col(pl.Float64)).row(0) for result in results]
    assert values[0] == pytest.approx(values[1], nan_ok=True)


def test_annotators_without_a_significant_difference_in_severity_have_plain_means() -> None:
    rng = np.random.default_rng(4)
    ratings = np.repeat(rng.integers(1, 6, (1, 300, 4)).astype(float), 3, axis=0)
    ratings += rng.integers(0, 2, ratings.shape)  # the estimated levels differ by sampling error
    ratings[rng.random(ratings.shape) < 0.3] = np.nan
    np.testing.assert_array_equal(human_means(ratings).values, mean_of_defined(ratings, axis=0))
    assert human_means(ratings).notes("", "") == []


@pytest.mark.parametrize(("n_common", "is_uncertain"), [(6, True), (200, False)])
def test_few_common_outputs_are_reported(n_common: int, is_uncertain: bool) -> None:
    ratings = ratings_with_gaps(7, 0.0)[:2].reshape(2, 300)
    ratings[0, 150 + n_common // 2 :] = ratings[1, : 150 - n_common // 2] = np.nan
    rules = [note.rule for note in human_means(ratings.reshape(2, 60, 5)).notes("", "")]
    assert ("few-common-outputs" in rules) is is_uncertain


def test_resamples_of_system_scores_contain_the_error_of_levels() -> None:
    # The second annotator rated the last two systems, and 12 outputs that the first one rated, too.
    ratings = ratings_with_gaps(8, 0.0)[:2]
    ratings[0, :, 3:] = ratings[1, 4:, :3] = np.nan
    study = study_of(np.concatenate([ratings, ratings_with_gaps(9, 0.0)[:1]]), people=2)
    (comparison,) = compare(study)
    times = comparison.design.draw_weights(2000, np.random.default_rng(0))
    samples = [
        Sample(comparison=comparison, times=times, flips=np.ones((1, 60), dtype=np.int8), redraws_levels=is_redrawn)
        for is_redrawn in (True, False)
    ]
    gaps = [sample.system_scores.people[:, 0, 0] - sample.system_scores.people[:, 0, 4] for sample in samples]
    assert gaps[0][0] == gaps[1][0]
    levels = annotator_levels(ratings)
    variance = np.array([1, -1]) @ levels.covariance @ [1, -1]
    # The second annotator gave 1 of 30 of the ratings of the first three systems.
    assert np.var(gaps[0][1:]) - np.var(gaps[1][1:]) == pytest.approx((29 / 30) ** 2 * variance, rel=0.2)
    spa = [STATISTICS["spa"].compute(sample)[:, 0] for sample in samples]
    assert spa[0][0] == spa[1][0]
    assert np.std(spa[0][1:]) > np.std(spa[1][1:])
    assert (
        Sample(comparison=compare(study_of(ratings_with_gaps(8, 0.0)))[0], times=times, flips=times).level_errors
        is None
    )


def test_annotators_without_common_outputs_are_not_compared() -> None:
    ratings = ratings_with_gaps(5, 0.0)[:2]
    ratings[0, :, 3:] = ratings[1, :, :3] = np.nan
    means = human_means(ratings)
    assert (means.n_excluded, means.n_sets) == (120, 1)
    np.testing.assert_array_equal(np.isfinite(means.values), np.tile(np.arange(5) < 3, (60, 1)))
    study = study_of(np.concatenate([ratings, ratings_with_gaps(6, 0.0)[:1]]), people=2)
    problems = cu.check(study).problems.filter(rule="unlinked-annotators")
    assert problems.select("severity", "message").row(0) == (
        "warning",
        "120 outputs have no mean human score, because no common outputs link their annotators to the annotators of "
        "other outputs of the item; let some annotators rate outputs of both groups of annotators",
    )
