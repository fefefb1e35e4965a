"""Table of the partiality of each metric to each system, near copies of metrics, and notes on favoritism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.data.notes import Note, build_notes
from custodes.errors import join_labels
from custodes.evaluate.clusters import AspectCounts
from custodes.evaluate.comparable import label_of
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.correlation import spearman
from custodes.stats.partiality.partiality import FEWEST_SYSTEMS, FEWEST_UNITS, Reason, partiality, win_rate_without
from custodes.stats.partiality.placement import Placement, sign_placement
from custodes.stats.rank_distance import rank_distances
from custodes.stats.system_scores import weighted_item_mean

INCONCLUSIVE = "inconclusive"
FAVOURED, DISFAVOURED = "favoured", "disfavoured"

REASONS: Mapping[Reason, str] = {
    Reason.NONE: "",
    Reason.FEW_SYSTEMS: f"fewer than {FEWEST_SYSTEMS} systems to fit the curve",
    Reason.FEW_UNITS: f"the system is rated on fewer than {FEWEST_UNITS} items or clusters",
    Reason.LEVEL: "annotators or the metric rate all systems equally",
    Reason.UNRATED: "the system is not rated by both annotators and metric",
    Reason.UNMET: "the system is not compared with every other system",
    Reason.CONSTANT: "no score varies between items",
    Reason.WIDE: "the score that a fair metric would give the system cannot be predicted from the other systems",
    Reason.APART: "no other system of similar quality",
    Reason.UNCONNECTED: "the system shares no items with the other systems",
}


NEAR_COPY = 0.2
"""Maximum complementarity of near copies, which corresponds to a Kendall's tau-b within items of at least .6.

Variants of one metric (ROUGE-n, BLEU-n, precision and F1) have a complementarity between 0 and .17 on SummEval, HANNA
and DialSummEval.
"""


FEW_ERRORS = 5
"""With fewer errors than this number, a Favi-Score can take only a few values (Favi-Score paper, Robustness)."""


def partiality_columns(
    comparison: RaterComparison,
    slices: Mapping[str, NDArray[np.intp]] | None = None,
    *,
    alpha: float,
    confidence: float,
) -> dict[str, Any]:
    """Return the columns of `Favoritism.partiality`; p-values are adjusted for all metrics and systems of one aspect.

    If `slices` (name: positions of items) is given, there is a row for each slice, metric and system, and p-values are
    adjusted for all rows.
    """
    comparisons = [comparison.on_items(items) for items in slices.values()] if slices is not None else [comparison]
    placements = [
        placement_of(slice_comparison, m)
        for slice_comparison in comparisons
        for m in range(len(slice_comparison.metrics))
    ]
    tests = partiality(placements, alpha=alpha, confidence=confidence)
    effects = {
        name: np.stack(
            [win_rate_without(placement, shift) for placement, shift in zip(placements, shifts, strict=True)], axis=1
        )
        for name, shifts in (("", tests.shift), ("_low", tests.low), ("_high", tests.high))
    }
    is_defined = np.isfinite(tests.shift)
    is_significant = tests.p_adjusted <= alpha
    finding = np.select(
        [tests.reason > 0, is_significant & (tests.shift > 0), is_significant],
        [INCONCLUSIVE, FAVOURED, DISFAVOURED],
        "",
    )
    _, rank, rank_without = effects[""]
    is_compared = np.stack([placement.units > 0 for placement in placements])
    human_scores = np.stack([placement.human for placement in placements])
    human_ranks = 1 + (human_scores[:, np.newaxis] > human_scores[:, :, np.newaxis] + 1e-12).sum(axis=2)
    return {
        "metric": np.repeat(comparison.metrics * len(comparisons), len(comparison.systems)),
        "system": comparison.systems * len(placements),
        **{f"partiality{suffix}": np.where(is_defined, 100 * values[0], np.nan) for suffix, values in effects.items()},
        "p_value": tests.p_value,
        "p_adjusted": tests.p_adjusted,
        "finding": finding.ravel().tolist(),
        "reason": [REASONS[Reason(code)] for code in tests.reason.ravel().tolist()],
        "rank_human": np.where(is_compared, human_ranks, np.nan),
        "rank": np.where(is_compared, rank, np.nan),
        "rank_without": np.where(is_defined, rank_without, np.nan),
    }


def placement_of(comparison: RaterComparison, m: int) -> Placement:
    """Return the positions of the systems by annotators and by one metric, as input of the test of partiality.

    Positions come from scores if annotators and metric scored at least half of the items that they share, and from
    verdicts if not.
    """
    design, scores, shared_preferences = comparison.design, comparison.scores, comparison.shared(m)
    is_scored_item = (np.isfinite(scores.human) & np.isfinite(scores.metrics[m])).sum(axis=1) > 1
    if 2 * is_scored_item.sum() >= len(np.unique(shared_preferences.item)) and is_scored_item.any():
        return comparison.scored_people.placement(scores.metrics[m])
    human, metric = shared_preferences.signs
    return sign_placement(
        human,
        metric,
        shared_preferences.pair,
        design.pairs,
        items=shared_preferences.item,
        units=design.units[shared_preferences.item],
    )


def near_copies(comparison: RaterComparison, finding: Sequence[str]) -> list[list[str]]:
    """Return the names of the near copies with the same finding, for each metric and system.

    `finding` and the returned list have one entry per metric and system, in the order of the table `partiality`.
    Metrics without scores of outputs have no near copies.
    """
    n_metrics, n_systems = len(comparison.metrics), len(comparison.systems)
    codes = np.select([np.array(finding) == name for name in (FAVOURED, DISFAVOURED)], [1, -1], 0)
    codes = codes.reshape(n_metrics, n_systems)
    first, second = np.triu_indices(n_metrics, 1)
    has_same_finding = np.concatenate(
        [
            ((codes[first[pair_chunk]] == codes[second[pair_chunk]]) & (codes[first[pair_chunk]] != 0)).any(axis=1)
            for pair_chunk in chunks(len(first), n_systems)
        ]
        or [np.zeros(0, dtype=bool)]
    )
    first, second = first[has_same_finding], second[has_same_finding]
    is_near = _complementarity(comparison, first, second) <= NEAR_COPY
    copies: list[list[str]] = [[] for _ in finding]
    for a, b in zip(first[is_near].tolist(), second[is_near].tolist(), strict=True):
        for system in np.flatnonzero((codes[a] == codes[b]) & (codes[a] != 0)).tolist():
            copies[a * n_systems + system].append(comparison.metrics[b])
            copies[b * n_systems + system].append(comparison.metrics[a])
    return copies


def _complementarity(comparison: RaterComparison, first: Ints, second: Ints) -> Floats:
    """Return the complementarity of each pair of metrics at the system level by tau-b distance; NaN if undefined."""
    scores, design = comparison.scores, comparison.design
    units = design.units[scores.items]
    weights = None if design.item_weights is None else design.item_weights[scores.items]
    means = [
        weighted_item_mean(
            rank_distances(scores.metrics, first[pair_chunk], second[pair_chunk], rule="tau-b"),
            units=units,
            weights=np.ones((1, design.n_units)),
            item_weights=weights,
        )[0]
        for pair_chunk in chunks(len(first), len(units))
    ]
    return np.concatenate(means) if means else np.zeros(0)


def correlation_columns(favi: Floats, sign_agrees: Floats, accuracy: Floats) -> dict[str, Any]:
    """Return the Spearman correlations of Favi-Scores with sign agreement of margins and with sample accuracy.

    All arguments have the shape (metrics, pairs). Each correlation is over all metrics and pairs.
    """
    values = {"abs_favi": np.abs(favi), "favi": favi, "sign_agrees": sign_agrees, "sample_accuracy": accuracy}
    compared_columns = [("abs_favi", "sign_agrees"), ("abs_favi", "sample_accuracy"), ("favi", "sample_accuracy")]
    value_pairs = [tuple(values[name].ravel() for name in column_names) for column_names in compared_columns]
    return {
        "score": [first for first, _ in compared_columns],
        "accuracy": [second for _, second in compared_columns],
        "spearman": [float(spearman(*value_pair)) for value_pair in value_pairs],
        "n": [int(np.isfinite(sum(value_pair)).sum()) for value_pair in value_pairs],
    }


def favoritism_notes(
    aspect_counts: AspectCounts, partiality: Mapping[str, Any], n: NDArray[np.int64], errors: NDArray[np.int64]
) -> list[Note]:
    """Return the notes on the table `partiality` (empty for counts), and on undefined or unstable Favi-Scores.

    `n` and `errors` (metrics, pairs) are the numbers of shared items and of errors.
    """
    aspect_text, findings = label_of(aspect_counts.aspect), partiality.get("finding", [])
    metrics_with_finding = {
        str(metric)
        for metric, finding in zip(partiality.get("metric", ()), findings, strict=True)
        if finding in (FAVOURED, DISFAVOURED)
    }
    # Without scores for the aspect, findings may reflect quality on another aspect.
    metrics = [name for name in aspect_counts.overall if name in metrics_with_finding]
    text_of_rule = {
        "favi-no-shared-items": (n == 0, "have no item rated by both annotators and metric"),
        "favi-no-errors": ((n > 0) & (errors == 0), "have no error, so their Favi-Score is undefined"),
        "favi-few-errors": (
            (errors > 0) & (errors < FEW_ERRORS),
            f"have fewer than {FEW_ERRORS} errors, so the Favi-Score is unstable",
        ),
    }
    return build_notes(
        (
            "partiality-counts",
            aspect_counts.comparison is None,
            "counts do not record which comparisons share an item, so partiality cannot be tested; give the study",
        ),
        (
            "partiality-inconclusive",
            findings.count(INCONCLUSIVE),
            f"partiality is inconclusive for {findings.count(INCONCLUSIVE)} of {len(findings)} combinations of metric "
            f"and system{aspect_text} (see the column `reason`)",
        ),
        (
            "overall-score",
            len(metrics),
            f"{join_labels(metrics)}: no score{aspect_text}, so the score without an aspect is used; apparent "
            "partiality may reflect quality on another aspect",
        ),
        *(
            (
                rule,
                int(is_affected.sum()),
                f"{int(is_affected.sum())} of {n.size} combinations of metric and system pair {text}{aspect_text}",
            )
            for rule, (is_affected, text) in text_of_rule.items()
        ),
        aspect=aspect_counts.aspect,
    )
