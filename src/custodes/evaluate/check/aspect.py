"""Rules for one aspect: for annotators or metrics alone, and for metrics that are compared with annotators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from custodes.data.comparisons import Comparisons
from custodes.errors import listed
from custodes.evaluate.agreement.differences import Tester, chance_tests
from custodes.evaluate.agreement.statistic import Sample
from custodes.evaluate.check.rules import SERIOUS_NOTES, Problem, problem
from custodes.evaluate.comparable import label_of
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats import correlation
from custodes.stats.arrays import Floats, Ints
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


def either_problems(comparison: RaterComparison) -> Iterator[Problem]:
    """Yield problems that concern only annotators, or only metrics."""
    yield from _means_of_others(comparison)
    yield from _near_duplicates(comparison)


def alone_problems(comparison: RaterComparison) -> Iterator[Problem]:
    """Yield problems of a study with annotators only or metrics only."""
    n_items = len(comparison.items)
    if 0 < n_items < FEW_ITEMS:
        yield problem("few-items", few=f"only {n_items} items were rated", fewest=FEW_ITEMS)


def compared_problems(
    comparison: RaterComparison, _: np.random.Generator, *, lower: Set[str], resamples: int
) -> list[Problem]:
    """Return the problems of metrics that are compared with annotators; lower is better for the raters in `lower`."""
    human = comparison.preferences.of_rater(0)
    joint = [comparison.preferences.joint(0, 1 + metric) for metric in range(len(comparison.metrics))]
    shared = [np.asarray(both.item[both.by_all]) for both in joint]  # items rated by both
    return [
        *_of_people(comparison, human),
        *_against_people(comparison, lower=lower, resamples=resamples),
        *(Problem("warning", note.rule, note.message) for note in comparison.notes if note.rule in SERIOUS_NOTES),
        *_coverage(comparison, shared),
        *_common_items(comparison, human),
    ]


def _of_people(comparison: RaterComparison, human: Comparisons) -> Iterator[Problem]:
    n_items, sides = len(np.unique(human.item)), set(human.sign[human.sign != 0].tolist())
    if n_items < FEW_ITEMS:
        yield problem("few-items", few=f"annotators compared outputs of only {n_items} items", fewest=FEW_ITEMS)
    declared = any(note.rule == "sides" for note in comparison.notes)
    if len(comparison.systems) == 2 and len(sides) == 1 and not declared:
        yield problem("one-sided-annotators", side=comparison.systems[0 if 1 in sides else 1])


def _against_people(comparison: RaterComparison, *, lower: Set[str], resamples: int) -> Iterator[Problem]:
    """Yield metrics with negative Kendall correlation over all outputs, tested by sign flips of blocks of clusters."""
    alpha = 1 - AGAINST_CONFIDENCE
    if resamples < FEWEST_FLIPS:
        yield problem("few-resamples", alpha=alpha, fewest=FEWEST_FLIPS)
    scores = comparison.scores
    if not (np.isfinite(scores.human) & np.isfinite(scores.metrics)).any():
        return
    outputs = scores.metrics.reshape(len(scores.metrics), -1)
    if comparison.design.item_weights is None and not (correlation.kendall(scores.human.ravel(), outputs) < 0).any():
        return  # the tests below take several times as long
    no_draws = np.empty((0, comparison.design.n_units), dtype=np.int8)
    sample = Sample(comparison=comparison, times=with_point(no_draws), flips=no_draws)
    n_flips = resamples if resamples >= FEWEST_FLIPS else 0
    tester = Tester.of(sample, n=n_flips, confidence=AGAINST_CONFIDENCE, alpha=alpha)
    tests = chance_tests(tester, "kendall_global")
    clear = tests.significant(alpha) & (tests.estimate < 0)
    against = [name for name, below in zip(comparison.metrics, clear, strict=True) if below]
    for is_lower, advice in ADVICE.items():
        if metrics := [name for name in against if (name in lower) is is_lower]:
            yield problem("negative-agreement", metrics, alpha=alpha, metrics=listed(metrics), advice=advice)


ADVICE = {
    False: "; if lower values of these metrics are better, declare higher_is_better = false in a raters file",
    True: (
        ". The raters file declares higher_is_better = false for these metrics; if higher is better, declare true; "
        "otherwise do not use these metrics"
    ),
}
"""Advice on metrics with negative agreement; the key is whether lower is declared as better."""


def _coverage(comparison: RaterComparison, shared: Sequence[Ints]) -> Iterator[Problem]:
    """Yield metrics that rated fewer of the human-rated outputs than other metrics."""
    rated = {name: len(items) for name, items in zip(comparison.metrics, shared, strict=True)}
    most = max(rated.values())
    low = {name: n / most for name, n in rated.items() if 0 < n < (1 - COVERAGE_GAP - ROUNDING) * most}
    if low:
        metrics = listed((f"{name} ({100 * rate:.0f} %)" for name, rate in low.items()), limit=3)
        yield problem("coverage-differs", [*low], metrics=metrics)


def _common_items(comparison: RaterComparison, human: Comparisons) -> Iterator[Problem]:
    """Yield systems whose human-rated items differ from the human-rated items of other systems."""
    counts = _items_in_common(comparison, human)
    joined = counts > 0
    np.fill_diagonal(joined, False)
    most = np.maximum.outer(counts.diagonal(), counts.diagonal())
    differs = (joined & (counts < (1 - COVERAGE_GAP - ROUNDING) * most)).any(axis=0)
    systems = np.array(comparison.systems)
    if differs.any() and np.isfinite(comparison.scores.human).any():  # battles have no means
        yield problem("different-items", systems[differs].tolist(), systems=listed(systems[differs], limit=4))
    part = blocks_of(joined)
    sets = [systems[part == k].tolist() for k in np.unique(part[counts.diagonal() > 0])]
    if len(sets) > 1:
        first = "; ".join(listed(group, limit=3) for group in sets[:3])
        yield problem("disjoint-systems", [group[0] for group in sets], n=len(sets), sets=first)


def _items_in_common(comparison: RaterComparison, human: Comparisons) -> NDArray[np.int64]:
    """Return the number of items for which annotators rated the outputs of both systems, (systems, systems)."""
    from scipy.sparse import csr_array

    scored, system = np.nonzero(np.isfinite(comparison.scores.human))
    item = np.concatenate([comparison.scores.items[scored], human.item, human.item])
    system = np.concatenate([system, human.first, human.second])
    shape = (len(comparison.items), len(comparison.systems))
    cells = csr_array((np.ones(len(item), dtype=bool), (item, system)), shape=shape).astype(np.int64)
    return np.asarray((cells.T @ cells).toarray())


def _near_duplicates(comparison: RaterComparison) -> Iterator[Problem]:
    """Yield pairs of metrics with a correlation near 1."""
    names, scores = comparison.metrics, comparison.scores.metrics
    if scores.size:
        scores = scores.reshape(len(names), -1)
    pairs = [
        f"{names[a]} / {names[a + 1 + b]}"
        for a in range(len(names) - 1 if scores.size else 0)
        for b in np.flatnonzero(np.abs(correlation.pearson(scores[a], scores[a + 1 :])) > DUPLICATE_CORRELATION)
    ]
    if pairs:
        yield problem("near-duplicates", pairs, correlation=DUPLICATE_CORRELATION, pairs=listed(pairs))


def _means_of_others(comparison: RaterComparison) -> Iterator[Problem]:
    """Yield annotators and metrics whose scores are the mean of other raters."""
    where, (people, metrics) = label_of(comparison.aspect), (comparison.people, comparison.metrics)
    persons, scores = comparison.scores.persons, comparison.scores.metrics
    # If several reasons apply to a name, the last reason is used.
    reasons = {
        **dict.fromkeys(_means(metrics, scores), ("metrics", metrics, ", so it is no additional judge")),
        **dict.fromkeys(
            _means(metrics, scores, of=persons),
            ("annotators", people, ", with whom metrics are compared; leave it out of metrics"),
        ),
        **dict.fromkeys(_means(people, persons), ("annotators", people, ", who count twice; leave it out of human")),
    }
    for name in dict.fromkeys((*people, *metrics)):
        if name in reasons:
            kind, group, end = reasons[name]
            others = listed([other for other in group if other != name], limit=4)
            yield problem("mean-of-others", [name], rater=name, others=f"{kind} {others}{where}{end}")


def _means(names: Sequence[str], scores: Floats, of: Floats | None = None) -> Iterator[str]:
    """Yield names of raters whose scores (raters, items, systems) are the mean of several other raters, up to rounding.

    By default, the other raters are the remaining raters in `names`. If `of` is given, `of` has the scores of the other
    raters.
    """
    group = scores if of is None else of
    if len(group) < 2 + (of is None) or not group.size:
        return
    present = np.isfinite(group)
    total, n = np.where(present, group, 0.0).sum(axis=0), present.sum(axis=0)
    spread = np.fmax.reduce(group) - np.fmin.reduce(group)
    for name, values in zip(names, scores, strict=True):
        rated = np.isfinite(values)
        others = n - rated if of is None else n
        both = rated & (others > 1)
        if both.sum() < FEWEST_MEANS:
            continue
        mean = (total - values if of is None else total)[both] / others[both]
        tolerance = MEAN_ROUNDING * np.ptp(values[both]) * (1 + ROUNDING)
        if 0 < tolerance < spread[both].max() and np.abs(values[both] - mean).max() <= tolerance:
            yield name
