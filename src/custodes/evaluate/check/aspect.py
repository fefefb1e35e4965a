"""Rules for one aspect: for annotators or metrics alone, and for metrics that are compared with annotators."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from custodes.data.comparisons import Comparisons
from custodes.errors import join_labels
from custodes.evaluate.agreement.differences import Tester, chance_tests
from custodes.evaluate.agreement.statistic import Sample
from custodes.evaluate.check.rules import SERIOUS_NOTES, Problem, problem, problems_of
from custodes.evaluate.comparable import label_of
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats import correlation
from custodes.stats.arrays import Floats
from custodes.stats.bootstrap import with_point
from custodes.stats.ratios import mean_of_defined
from custodes.stats.system_scores import blocks_of

FEW_ITEMS = 30
DUPLICATE_CORRELATION = 0.999
MEAN_ROUNDING = 0.0125
"""Largest error of a mean on a scale of 1 to 5 that is rounded to one decimal, relative to the range of the scale."""
FEWEST_MEANS = 20
"""Minimum number of outputs for the rule on means of other raters; with fewer outputs, equality may be chance."""
AGAINST_CONFIDENCE = 0.99
"""Confidence of the test of negative agreement. The confidence is high, because otherwise many metrics that are
unrelated to human ratings would be flagged by chance."""
FLIPS = 1000
"""Number of sign flips in the test of negative agreement."""
COVERAGE_GAP = 0.1
"""A metric is reported if its coverage is lower than the highest coverage of all metrics by more than this fraction."""
ROUNDING = 1e-9
"""Two numbers are equal up to rounding if their relative difference is smaller than this value."""


def compared_problems(comparison: RaterComparison, negated_raters: Set[str]) -> list[Problem]:
    """Return the problems of metrics that are compared with annotators; lower is better for `negated_raters`."""
    human_comparisons = comparison.preferences.select_rater(0)
    return [
        *_annotator_problems(comparison, human_comparisons),
        *_negative_metrics(comparison, negated_raters),
        *(Problem("warning", note.rule, note.message) for note in comparison.notes if note.rule in SERIOUS_NOTES),
        *_coverage_problems(comparison),
        *_common_item_problems(comparison, human_comparisons),
    ]


def _annotator_problems(comparison: RaterComparison, human_comparisons: Comparisons) -> Iterator[Problem]:
    n_items, human_winner_signs = (
        len(np.unique(human_comparisons.item)),
        set(human_comparisons.sign[human_comparisons.sign != 0].tolist()),
    )
    if n_items < FEW_ITEMS:
        yield problem("few-items", few=f"annotators compared outputs of only {n_items} items", fewest=FEW_ITEMS)
    if (
        len(comparison.systems) == 2
        and len(human_winner_signs) == 1
        and not any(note.rule == "sides" for note in comparison.notes)
    ):
        yield problem("one-sided-annotators", side=comparison.systems[0 if 1 in human_winner_signs else 1])


def _negative_metrics(comparison: RaterComparison, negated_raters: Set[str]) -> Iterator[Problem]:
    """Yield metrics with negative Kendall correlation over all outputs, tested by sign flips of blocks of clusters."""
    alpha = 1 - AGAINST_CONFIDENCE
    rater_scores = comparison.scores
    if not (np.isfinite(rater_scores.human) & np.isfinite(rater_scores.metrics)).any():
        return
    flat_metric_scores = rater_scores.metrics.reshape(len(rater_scores.metrics), -1)
    if (
        not comparison.design.has_item_weights
        and not (correlation.kendall(rater_scores.human.ravel(), flat_metric_scores) < 0).any()
    ):
        return  # the tests below take several times as long
    empty_draws = np.empty((0, comparison.design.n_units), dtype=np.int8)
    test_family = chance_tests(
        Tester.from_sample(
            Sample(comparison=comparison, times=with_point(empty_draws), flips=empty_draws),
            n_flips=FLIPS,
            confidence=AGAINST_CONFIDENCE,
            alpha=alpha,
        ),
        "kendall_global",
    )
    negative_metrics = [
        metric
        for metric, is_negative in zip(
            comparison.metrics, test_family.significant(alpha) & (test_family.estimate < 0), strict=True
        )
        if is_negative
    ]
    for is_negated, advice_text in ADVICE.items():
        advised_metrics = [metric for metric in negative_metrics if (metric in negated_raters) is is_negated]
        yield from problems_of(
            "negative-agreement", advised_metrics, alpha=alpha, metrics=join_labels(advised_metrics), advice=advice_text
        )


ADVICE = {
    False: "; if lower values of these metrics are better, declare higher_is_better = false in a raters file",
    True: (
        ". The raters file declares higher_is_better = false for these metrics; if higher is better, declare true; "
        "otherwise do not use these metrics"
    ),
}
"""Advice on metrics with negative agreement, by whether the study declares lower scores as better."""


def _coverage_problems(comparison: RaterComparison) -> list[Problem]:
    """Return metrics that rated fewer of the human-rated comparisons than other metrics."""
    n_comparisons_of_metric = {
        metric: len(comparison.shared(metric_index).item) for metric_index, metric in enumerate(comparison.metrics)
    }
    max_n_comparisons = max(n_comparisons_of_metric.values())
    low_coverage_of_metric = {
        metric: n_comparisons / max_n_comparisons
        for metric, n_comparisons in n_comparisons_of_metric.items()
        if 0 < n_comparisons < (1 - COVERAGE_GAP - ROUNDING) * max_n_comparisons
    }
    return problems_of(
        "coverage-differs",
        [*low_coverage_of_metric],
        metrics=join_labels(
            (f"{metric} ({100 * coverage:.0f} %)" for metric, coverage in low_coverage_of_metric.items()), limit=3
        ),
    )


def _common_item_problems(comparison: RaterComparison, human_comparisons: Comparisons) -> Iterator[Problem]:
    """Yield systems whose human-rated items differ from the human-rated items of other systems."""
    n_common_items_of_pair = _count_common_items(comparison, human_comparisons)
    is_pair_with_common_items = n_common_items_of_pair > 0
    np.fill_diagonal(is_pair_with_common_items, False)
    larger_n_items_of_pair = np.maximum.outer(n_common_items_of_pair.diagonal(), n_common_items_of_pair.diagonal())
    is_system_with_different_items = (
        is_pair_with_common_items & (n_common_items_of_pair < (1 - COVERAGE_GAP - ROUNDING) * larger_n_items_of_pair)
    ).any(axis=0)
    all_system_names = np.array(comparison.systems)
    if is_system_with_different_items.any() and np.isfinite(comparison.scores.human).any():  # only scores have means
        yield problem(
            "different-items",
            all_system_names[is_system_with_different_items].tolist(),
            systems=join_labels(all_system_names[is_system_with_different_items], limit=4),
        )
    block_of_system = blocks_of(is_pair_with_common_items)
    system_blocks = [
        all_system_names[block_of_system == block_number].tolist()
        for block_number in np.unique(block_of_system[n_common_items_of_pair.diagonal() > 0])
    ]
    if len(system_blocks) > 1:
        yield problem(
            "disjoint-systems",
            [system_block[0] for system_block in system_blocks],
            n=len(system_blocks),
            sets="; ".join(join_labels(system_block, limit=3) for system_block in system_blocks[:3]),
        )


def _count_common_items(comparison: RaterComparison, human_comparisons: Comparisons) -> NDArray[np.int64]:
    """Return the number of items for which annotators rated the outputs of both systems, (systems, systems)."""
    from scipy.sparse import csr_array

    scored_item_rows, scored_system_positions = np.nonzero(np.isfinite(comparison.scores.human))
    item_positions = np.concatenate(
        [comparison.scores.items[scored_item_rows], human_comparisons.item, human_comparisons.item]
    )
    rated_output_matrix = csr_array(
        (
            np.ones(len(item_positions), dtype=bool),
            (
                item_positions,
                np.concatenate([scored_system_positions, human_comparisons.first, human_comparisons.second]),
            ),
        ),
        shape=(len(comparison.items), len(comparison.systems)),
    ).astype(np.int64)
    return np.asarray((rated_output_matrix.T @ rated_output_matrix).toarray())


def near_duplicates(comparison: RaterComparison) -> list[Problem]:
    """Return pairs of metrics with a correlation near 1."""
    metric_names, metric_scores = comparison.metrics, comparison.scores.metrics
    metric_scores = metric_scores.reshape(len(metric_names), metric_scores[:1].size)
    pair_names = [
        f"{metric_names[first_index]} / {metric_names[first_index + 1 + index_offset]}"
        for first_index in range(len(metric_names) - 1 if metric_scores.size else 0)
        for index_offset in np.flatnonzero(
            np.abs(correlation.pearson(metric_scores[first_index], metric_scores[first_index + 1 :]))
            > DUPLICATE_CORRELATION
        )
    ]
    return problems_of("near-duplicates", pair_names, correlation=DUPLICATE_CORRELATION, pairs=join_labels(pair_names))


def means_of_others(comparison: RaterComparison) -> Iterator[Problem]:
    """Yield annotators and metrics whose scores are the mean of other raters."""
    annotators = (comparison.people, comparison.scores.persons)
    metrics = (comparison.metrics, comparison.scores.metrics)
    text_of_rater: dict[str, str] = {}  # if two reasons apply to a metric, the last reason is used
    for (raters, scores), (other_raters, other_scores), kind_word, advice_text in (
        (annotators, annotators, "annotators", ", so their ratings count twice; leave it out of the option human"),
        (metrics, metrics, "metrics", ", so it adds no information"),
        (metrics, annotators, "annotators", ", with whom metrics are compared; leave it out of the option metrics"),
    ):
        for rater, rater_scores in zip(raters, scores, strict=True):
            is_other_rater = [other_rater != rater for other_rater in other_raters]
            if _is_mean(rater_scores, other_scores[is_other_rater]):
                others_text = join_labels(list(compress(other_raters, is_other_rater)), limit=4)
                text_of_rater[rater] = f"{kind_word} {others_text}{label_of(comparison.aspect)}{advice_text}"
    for rater, text in text_of_rater.items():
        yield problem("mean-of-others", [rater], rater=rater, others=text)


def _is_mean(rater_scores: Floats, other_scores: Floats) -> bool:
    """Whether `rater_scores` (items, systems) are the means of several other raters' scores (raters, items, systems),
    up to rounding."""
    is_comparable = np.isfinite(rater_scores) & (np.isfinite(other_scores).sum(axis=0) > 1)
    if is_comparable.sum() < FEWEST_MEANS:
        return False
    compared_scores, scores_of_others = rater_scores[is_comparable], other_scores[:, is_comparable]
    tolerance = MEAN_ROUNDING * np.ptp(compared_scores) * (1 + ROUNDING)
    largest_range = (np.fmax.reduce(scores_of_others) - np.fmin.reduce(scores_of_others)).max()
    is_within_tolerance = np.abs(compared_scores - mean_of_defined(scores_of_others, axis=0)) <= tolerance
    return bool(0 < tolerance < largest_range and is_within_tolerance.all())
