"""What would fool a reader who compares metrics with people."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from custodes.data.comparisons import Comparisons
from custodes.errors import listed
from custodes.evaluate.agreement.differences import MOST_BLOCKS
from custodes.evaluate.check.problems import Problem
from custodes.evaluate.check.rules import FEW_ITEMS
from custodes.evaluate.comparison import Comparison
from custodes.stats import bootstrap, multiple_testing
from custodes.stats.arrays import Ints
from custodes.stats.bootstrap import with_point
from custodes.stats.pooled_correlation import pooled_correlation
from custodes.stats.system_scores import blocks_of

AGAINST_CONFIDENCE = 0.99
"""One of many metrics of pure noise should rarely be called reversed."""
FEWEST_FLIPS = round(1 / (1 - AGAINST_CONFIDENCE)) - 1
"""Fewer cannot give a p-value this small, which is at least 1 / (resamples + 1)."""
COVERAGE_GAP = 0.1
"""A tenth less than others is told as a warning."""
ROUNDING = 1e-9
SERIOUS_NOTES = ("constant-metric", "no-overlap", "all-ties", "one-item", "sides")


def compared_problems(
    comparison: Comparison, _: np.random.Generator, *, lower: Set[str], resamples: int
) -> list[Problem]:
    """The problems of one aspect; of the raters in `lower` it is said that lower is better."""
    people = comparison.preferences.of_rater(0)
    n_items, decided = len(np.unique(people.item)), people.sign
    shared = [_shared_items(comparison, m) for m in range(len(comparison.metrics))]
    against = _against_people(comparison, shared, resamples)
    sides = set(decided[decided != 0].tolist())
    declared = any(note.rule == "sides" for note in comparison.notes)
    few = f"people compared outputs of only {n_items} items; intervals under {FEW_ITEMS} items are rough"
    reversed_ = f"against people run (Kendall below 0, all metrics tested together at {1 - AGAINST_CONFIDENCE:.0%})"
    turned, plain = ([name for name in against if (name in lower) is down] for down in (True, False))
    distances = f"{reversed_}: {listed(plain)}; are they distances? Say higher_is_better = false in a raters file"
    already = (
        f"{reversed_}: {listed(turned)}, of which higher_is_better = false is said; if higher is better after all, say"
        " true in the raters file, else do not use them"
    )
    one_sided = (
        f"people never prefer the other side to {comparison.systems[0 if 1 in sides else 1]!r}: if these are sides"
        " (chosen, rejected) and not systems, sample accuracy is the number to read; favoritism and rankings say"
        " nothing then"
    )
    untested = (
        f"whether a metric runs against people is not tested: a test at {1 - AGAINST_CONFIDENCE:.0%} needs at least"
        f" {FEWEST_FLIPS} resamples"
    )
    found = (
        (resamples < FEWEST_FLIPS, Problem("info", "few-resamples", untested)),
        (n_items < FEW_ITEMS, Problem("warning", "few-items", few)),
        (plain, Problem("warning", "against-people", distances, plain)),
        (turned, Problem("warning", "against-people", already, turned)),
        (
            len(comparison.systems) == 2 and len(sides) == 1 and not declared,
            Problem("warning", "one-sided-people", one_sided),
        ),
        *((True, Problem("warning", n.rule, n.message)) for n in comparison.notes if n.rule in SERIOUS_NOTES),
    )
    return [problem for holds, problem in found if holds] + _coverage(comparison, people, shared)


def _shared_items(comparison: Comparison, metric: int) -> Ints:
    """The item of every comparison that people and a metric both made."""
    both = comparison.preferences.joint(0, 1 + metric)
    return np.asarray(both.item[both.by_all])


def _against_people(comparison: Comparison, shared: Sequence[Ints], resamples: int) -> list[str]:
    """Metrics whose Kendall over all outputs is below 0, by flips of what each block of clusters contributes."""
    design, scores = comparison.design, comparison.scores
    both = np.asarray((np.isfinite(scores.human) & np.isfinite(scores.metrics)).any(axis=2))
    if not both.any():
        return []
    block = bootstrap.blocks_of_units(design.n_units, most=MOST_BLOCKS)[1][design.units]
    n_blocks = int(block.max()) + 1
    weights = design.item_weights
    draws = pooled_correlation(
        "kendall",
        scores.human,
        scores.metrics,
        units=block[scores.items],
        weights=with_point(1.0 - np.eye(n_blocks)),
        item_weights=None if weights is None else weights[scores.items],
    )
    present = np.zeros((n_blocks, len(both)), dtype=bool)
    for m, compared in enumerate(shared):
        present[block[compared], m] = True
        present[block[scores.items[both[m]]], m] = True
    flips = multiple_testing.Flips.of(n_blocks, resamples if resamples >= FEWEST_FLIPS else 0)
    alpha = 1 - AGAINST_CONFIDENCE
    tests = multiple_testing.flip_tests(
        draws[0], draws[1:], present=present, flips=flips, confidence=AGAINST_CONFIDENCE, alpha=alpha
    )
    clear = tests.significant(alpha) & (tests.estimate < 0)
    return [name for name, against in zip(comparison.metrics, clear, strict=True) if against]


def _coverage(comparison: Comparison, people: Comparisons, shared: Sequence[Ints]) -> list[Problem]:
    """Metrics that rated less than others of what people rated, and systems that got other items than others."""
    rated = np.array([len(own) for own in shared])
    shares = {name: n / rated.max() for name, n in zip(comparison.metrics, rated, strict=True) if n}
    low = [name for name, share in shares.items() if share < 1 - COVERAGE_GAP - ROUNDING]
    told = listed((f"{name} ({100 * shares[name]:.0f} %)" for name in low), limit=3)
    fewer = (
        f"metrics rated less than others of what people compared: {told}; what they agree on may be the easier part, so"
        " two metrics are compared on what both rated"
    )
    counts = _items_in_common(comparison, people)
    joined = counts > 0
    np.fill_diagonal(joined, False)
    most = np.maximum.outer(counts.diagonal(), counts.diagonal())
    apart = joined & (counts < (1 - COVERAGE_GAP - ROUNDING) * most)
    systems = np.array(comparison.systems)
    scored = np.isfinite(comparison.scores.human).any()  # battles have no means
    part = blocks_of(joined)
    sets = [systems[part == k].tolist() for k in np.unique(part[counts.diagonal() > 0])]
    other = (
        f"people rated other items of some systems than of others ({listed(systems[apart.any(axis=0)], limit=4)}): "
        "means of systems would tell how hard their items are, so their scores are fitted beside effects of items"
    )
    strangers = (
        f"systems fall into {len(sets)} sets that share no item that people rated"
        f" ({'; '.join(listed(own, limit=3) for own in sets[:3])}): systems of different sets are not compared"
    )
    found = (
        (low, Problem("warning", "coverage-differs", fewer, low)),
        (scored and apart.any(), Problem("warning", "different-items", other, systems[apart.any(axis=0)].tolist())),
        (len(sets) > 1, Problem("warning", "disjoint-systems", strangers, [own[0] for own in sets])),
    )
    return [problem for holds, problem in found if holds]


def _items_in_common(comparison: Comparison, people: Comparisons) -> NDArray[np.int64]:
    """(systems, systems): of how many items people rated the outputs of both, alone or in a comparison."""
    from scipy.sparse import csr_array

    scored, own = np.nonzero(np.isfinite(comparison.scores.human))
    sides = (people.first, people.second)
    item = np.concatenate([comparison.scores.items[scored], people.item, people.item])
    system = np.concatenate([own, *sides])
    shape = (len(comparison.items), len(comparison.systems))
    cells = csr_array((np.ones(len(item), dtype=bool), (item, system)), shape=shape)
    cells = csr_array((np.ones(cells.nnz, dtype=np.int64), cells.indices, cells.indptr), shape=shape)
    return np.asarray((cells.T @ cells).toarray())
