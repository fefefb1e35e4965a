"""Rules for one aspect: for annotators or metrics alone, and for metrics that are compared with annotators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

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
from custodes.stats.system_scores import blocks_of

FEW_ITEMS = 30
DUPLICATE_CORRELATION = 0.999
MEAN_ROUNDING = 0.0125
"""Largest difference due to rounding a mean to one decimal on a scale of 1 to 5, relative to the range."""
FEWEST_MEANS = 20
"""Minimum number of outputs for the rule on means of other raters; with fewer outputs, equality may be chance."""
AGAINST_CONFIDENCE = 0.99
"""Confidence of the test of negative agreement; it is high so that few of many uninformative metrics are flagged."""
FEWEST_FLIPS = round(1 / (1 - AGAINST_CONFIDENCE)) - 1
"""Minimum number of resamples for this test, because a p-value is at least 1 / (resamples + 1)."""
COVERAGE_GAP = 0.1
"""A metric is reported if its coverage is below the highest coverage of a metric by more than this fraction."""
ROUNDING = 1e-9
"""Two numbers are equal up to rounding if their relative difference is smaller than this value."""


def compared_problems(
    comparison: RaterComparison, _: np.random.Generator, *, lower: Set[str], resamples: int
) -> list[Problem]:
    """Return the problems of metrics that are compared with annotators; lower is better for the raters in `lower`."""
    human = comparison.preferences.select_rater(0)
    return [
        *_annotator_problems(comparison, human),
        *_negative_metrics(comparison, lower=lower, resamples=resamples),
        *(Problem("warning", note.rule, note.message) for note in comparison.notes if note.rule in SERIOUS_NOTES),
        *_coverage(comparison),
        *_common_items(comparison, human),
    ]


def _annotator_problems(comparison: RaterComparison, human: Comparisons) -> Iterator[Problem]:
    n_items, signs = len(np.unique(human.item)), set(human.sign[human.sign != 0].tolist())
    if n_items < FEW_ITEMS:
        yield problem("few-items", few=f"annotators compared outputs of only {n_items} items", fewest=FEW_ITEMS)
    are_sides_declared = any(note.rule == "sides" for note in comparison.notes)
    if len(comparison.systems) == 2 and len(signs) == 1 and not are_sides_declared:
        yield problem("one-sided-annotators", side=comparison.systems[0 if 1 in signs else 1])


def _negative_metrics(comparison: RaterComparison, *, lower: Set[str], resamples: int) -> Iterator[Problem]:
    """Yield metrics with negative Kendall correlation over all outputs, tested by sign flips of blocks of clusters."""
    alpha = 1 - AGAINST_CONFIDENCE
    if resamples < FEWEST_FLIPS:
        yield problem("few-resamples", alpha=alpha, fewest=FEWEST_FLIPS)
    scores = comparison.scores
    if not (np.isfinite(scores.human) & np.isfinite(scores.metrics)).any():
        return
    metric_scores = scores.metrics.reshape(len(scores.metrics), -1)
    if (
        comparison.design.item_weights is None
        and not (correlation.kendall(scores.human.ravel(), metric_scores) < 0).any()
    ):
        return  # the tests below take several times as long
    no_resamples = np.empty((0, comparison.design.n_units), dtype=np.int8)
    sample = Sample(comparison=comparison, times=with_point(no_resamples), flips=no_resamples)
    n_flips = resamples if resamples >= FEWEST_FLIPS else 0
    tester = Tester.from_sample(sample, n=n_flips, confidence=AGAINST_CONFIDENCE, alpha=alpha)
    tests = chance_tests(tester, "kendall_global")
    is_negative = tests.significant(alpha) & (tests.estimate < 0)
    negative_metrics = [
        name for name, is_negative_metric in zip(comparison.metrics, is_negative, strict=True) if is_negative_metric
    ]
    for is_declared_lower, advice in ADVICE.items():
        metrics = [name for name in negative_metrics if (name in lower) is is_declared_lower]
        yield from problems_of("negative-agreement", metrics, alpha=alpha, metrics=join_labels(metrics), advice=advice)


ADVICE = {
    False: "; if lower values of these metrics are better, declare higher_is_better = false in a raters file",
    True: (
        ". The raters file declares higher_is_better = false for these metrics; if higher is better, declare true; "
        "otherwise do not use these metrics"
    ),
}
"""Advice on metrics with negative agreement; the key is whether lower is declared as better."""


def _coverage(comparison: RaterComparison) -> list[Problem]:
    """Return metrics that rated fewer of the comparisons with human ratings than other metrics."""
    n_rated_of_metric = {name: len(comparison.shared(m).item) for m, name in enumerate(comparison.metrics)}
    most_rated = max(n_rated_of_metric.values())
    low_coverage_of_metric = {
        name: n / most_rated
        for name, n in n_rated_of_metric.items()
        if 0 < n < (1 - COVERAGE_GAP - ROUNDING) * most_rated
    }
    metrics_text = join_labels(
        (f"{name} ({100 * rate:.0f} %)" for name, rate in low_coverage_of_metric.items()), limit=3
    )
    return problems_of("coverage-differs", [*low_coverage_of_metric], metrics=metrics_text)


def _common_items(comparison: RaterComparison, human: Comparisons) -> Iterator[Problem]:
    """Yield systems whose human-rated items differ from the human-rated items of other systems."""
    n_common_items = _items_in_common(comparison, human)
    has_common_items = n_common_items > 0
    np.fill_diagonal(has_common_items, False)
    larger_count = np.maximum.outer(n_common_items.diagonal(), n_common_items.diagonal())
    has_different_items = (has_common_items & (n_common_items < (1 - COVERAGE_GAP - ROUNDING) * larger_count)).any(
        axis=0
    )
    systems = np.array(comparison.systems)
    if has_different_items.any() and np.isfinite(comparison.scores.human).any():  # battles have no means
        yield problem(
            "different-items",
            systems[has_different_items].tolist(),
            systems=join_labels(systems[has_different_items], limit=4),
        )
    block_of_system = blocks_of(has_common_items)
    system_sets = [
        systems[block_of_system == k].tolist() for k in np.unique(block_of_system[n_common_items.diagonal() > 0])
    ]
    if len(system_sets) > 1:
        sets_text = "; ".join(join_labels(group, limit=3) for group in system_sets[:3])
        yield problem("disjoint-systems", [group[0] for group in system_sets], n=len(system_sets), sets=sets_text)


def _items_in_common(comparison: RaterComparison, human: Comparisons) -> NDArray[np.int64]:
    """Return the number of items for which annotators rated the outputs of both systems, (systems, systems)."""
    from scipy.sparse import csr_array

    item_row, systems = np.nonzero(np.isfinite(comparison.scores.human))
    items = np.concatenate([comparison.scores.items[item_row], human.item, human.item])
    systems = np.concatenate([systems, human.first, human.second])
    shape = (len(comparison.items), len(comparison.systems))
    is_rated = csr_array((np.ones(len(items), dtype=bool), (items, systems)), shape=shape).astype(np.int64)
    return np.asarray((is_rated.T @ is_rated).toarray())


def near_duplicates(comparison: RaterComparison) -> list[Problem]:
    """Return pairs of metrics with a correlation near 1."""
    names, scores = comparison.metrics, comparison.scores.metrics
    scores = scores.reshape(len(names), scores[:1].size)
    pair_names = [
        f"{names[a]} / {names[a + 1 + b]}"
        for a in range(len(names) - 1 if scores.size else 0)
        for b in np.flatnonzero(np.abs(correlation.pearson(scores[a], scores[a + 1 :])) > DUPLICATE_CORRELATION)
    ]
    return problems_of("near-duplicates", pair_names, correlation=DUPLICATE_CORRELATION, pairs=join_labels(pair_names))


def means_of_others(comparison: RaterComparison) -> Iterator[Problem]:
    """Yield annotators and metrics whose scores are the mean of other raters."""
    aspect_text, (annotators, metrics) = label_of(comparison.aspect), (comparison.people, comparison.metrics)
    annotator_scores, metric_scores = comparison.scores.persons, comparison.scores.metrics
    # If several reasons apply to a name, the last reason is used.
    reason_of_rater = {
        **dict.fromkeys(_means(metrics, metric_scores), ("metrics", metrics, ", so it adds no information")),
        **dict.fromkeys(
            _means(metrics, metric_scores, scores_of_others=annotator_scores),
            ("annotators", annotators, ", with whom metrics are compared; leave it out of metrics"),
        ),
        **dict.fromkeys(
            _means(annotators, annotator_scores), ("annotators", annotators, ", who count twice; leave it out of human")
        ),
    }
    for name in dict.fromkeys((*annotators, *metrics)):
        if name in reason_of_rater:
            kind_word, rater_group, advice = reason_of_rater[name]
            others_text = join_labels([other for other in rater_group if other != name], limit=4)
            yield problem(
                "mean-of-others", [name], rater=name, others=f"{kind_word} {others_text}{aspect_text}{advice}"
            )


def _means(names: Sequence[str], scores: Floats, scores_of_others: Floats | None = None) -> Iterator[str]:
    """Yield names of raters whose scores (raters, items, systems) are the mean of several other raters, up to rounding.

    By default, the other raters are the remaining raters in `names`. `scores_of_others` has the scores
    of other raters instead.
    """
    other_scores = scores if scores_of_others is None else scores_of_others
    if len(other_scores) < 2 + (scores_of_others is None) or not other_scores.size:
        return
    is_present = np.isfinite(other_scores)
    total, n_scores = np.where(is_present, other_scores, 0.0).sum(axis=0), is_present.sum(axis=0)
    ranges = np.fmax.reduce(other_scores) - np.fmin.reduce(other_scores)
    for name, values in zip(names, scores, strict=True):
        is_rated = np.isfinite(values)
        n_others = n_scores - is_rated if scores_of_others is None else n_scores
        is_comparable = is_rated & (n_others > 1)
        if is_comparable.sum() < FEWEST_MEANS:
            continue
        mean = (total - values if scores_of_others is None else total)[is_comparable] / n_others[is_comparable]
        tolerance = MEAN_ROUNDING * np.ptp(values[is_comparable]) * (1 + ROUNDING)
        if 0 < tolerance < ranges[is_comparable].max() and np.abs(values[is_comparable] - mean).max() <= tolerance:
            yield name
