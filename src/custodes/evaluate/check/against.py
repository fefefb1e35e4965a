"""What would fool a reader who compares metrics with people."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from custodes.errors import listed
from custodes.evaluate.agreement.differences import MOST_BLOCKS
from custodes.evaluate.check.rules import FEW_ITEMS, Problem
from custodes.evaluate.comparison import Comparison
from custodes.stats import ABSENT
from custodes.stats.agreement.left_out import kendall_left_out
from custodes.stats.agreement.system_scores import blocks_of, common_items
from custodes.stats.arrays import Bools
from custodes.stats.resampling import resample, stepdown

RESAMPLES = 1000
AGAINST_CONFIDENCE = 0.99
"""One of many metrics of pure noise should rarely be called reversed."""
COVERAGE_GAP = 0.1
"""A tenth less than others is told as a warning."""
ROUNDING = 1e-9
SERIOUS_NOTES = ("constant-metric", "no-overlap", "all-ties", "one-item", "sides")


def compared_problems(comparison: Comparison, rng: np.random.Generator, *, lower: Set[str]) -> list[Problem]:
    """The problems of one aspect; of the raters in `lower` it is said that lower is better."""
    rated = comparison.human_signs != ABSENT
    n_items, decided = int(rated.any(axis=0).sum()), comparison.human_signs[rated]
    against = _against_people(comparison, rng)
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
    found = (
        (n_items < FEW_ITEMS, Problem("warning", "few-items", few)),
        (plain, Problem("warning", "against-people", distances, plain)),
        (turned, Problem("warning", "against-people", already, turned)),
        (
            len(comparison.systems) == 2 and len(sides) == 1 and not declared,
            Problem("warning", "one-sided-people", one_sided),
        ),
        *((True, Problem("warning", n.rule, n.message)) for n in comparison.notes if n.rule in SERIOUS_NOTES),
    )
    return [problem for holds, problem in found if holds] + _coverage(comparison)


def _against_people(comparison: Comparison, rng: np.random.Generator) -> list[str]:
    """Metrics whose Kendall over all outputs is below 0, by flips of what each block of clusters contributes."""
    design = comparison.design
    block = stepdown.dealt(design.n_units, most=MOST_BLOCKS)[design.units]
    draws = kendall_left_out(comparison.human, comparison.metric_scores, block=block, item_weights=design.item_weights)
    counts = comparison.scored.any(axis=2) | comparison.rated.any(axis=1)
    present = np.stack([np.bincount(block, weights=own, minlength=len(draws) - 1) > 0 for own in counts], axis=1)
    flips = resample.sign_flips(len(present), RESAMPLES if design.n_units > 1 else 0, rng)
    made = stepdown.flip_tests(draws[0], draws[1:], present=present, flips=flips, confidence=AGAINST_CONFIDENCE)
    clear = (made.p_adjusted <= 1 - AGAINST_CONFIDENCE) & (made.estimate < 0)
    return [name for name, against in zip(comparison.metrics, clear, strict=True) if against]


def _coverage(comparison: Comparison) -> list[Problem]:
    """Metrics that rated less than others of what people rated, and systems that got other items than others."""
    rated = comparison.rated.sum(axis=(1, 2))
    shares = {name: n / rated.max() for name, n in zip(comparison.metrics, rated, strict=True) if n}
    low = [name for name, share in shares.items() if share < 1 - COVERAGE_GAP - ROUNDING]
    told = listed((f"{name} ({100 * shares[name]:.0f} %)" for name in low), limit=3)
    fewer = (
        f"metrics rated less than others of what people compared: {told}; what they agree on may be the easier part, so"
        " two metrics are compared on what both rated"
    )
    cells = _cells_of_people(comparison)
    joined = common_items(cells)
    counts = cells.astype(np.int64).T @ cells.astype(np.int64)
    most = np.maximum.outer(counts.diagonal(), counts.diagonal())
    apart = joined & (counts < (1 - COVERAGE_GAP - ROUNDING) * most)
    systems = np.array(comparison.systems)
    scored = np.isfinite(comparison.human).any()  # battles have no means
    sets = [systems[blocks_of(joined) == k].tolist() for k in np.unique(blocks_of(joined)[cells.any(axis=0)])]
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


def _cells_of_people(comparison: Comparison) -> Bools:
    """(items, systems): which outputs people rated, alone or in a comparison."""
    cells = np.isfinite(comparison.human)
    rated = comparison.human_signs != ABSENT
    for side in comparison.design.pairs.T:
        for system in range(len(comparison.systems)):
            cells[:, system] |= rated[side == system].any(axis=0)
    return cells
