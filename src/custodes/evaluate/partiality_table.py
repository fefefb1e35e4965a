"""Table of the partiality of each metric to each system, near copies of metrics, and notes on favoritism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
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
    slice_comparisons: Sequence[RaterComparison], *, alpha: float, confidence: float
) -> dict[str, Any]:
    """Return the columns of `Favoritism.partiality`, with a row for each slice of the items, metric and system.

    `slice_comparisons` has the comparison of one aspect on each slice; without slices, `slice_comparisons` has only the
    comparison on all items. P-values are adjusted for all rows.
    """
    comparison = slice_comparisons[0]
    placements = [
        placement_of(slice_comparison, metric_index)
        for slice_comparison in slice_comparisons
        for metric_index in range(len(slice_comparison.metrics))
    ]
    partiality_tests = partiality(placements, alpha=alpha, confidence=confidence)
    effects_and_ranks_of_bound = {
        bound_suffix: np.stack(
            [
                win_rate_without(placement, shift_of_system)
                for placement, shift_of_system in zip(placements, shifts_of_placements, strict=True)
            ],
            axis=1,
        )
        for bound_suffix, shifts_of_placements in (
            ("", partiality_tests.shift),
            ("_low", partiality_tests.low),
            ("_high", partiality_tests.high),
        )
    }
    is_defined_shift = np.isfinite(partiality_tests.shift)
    is_significant = partiality_tests.p_adjusted <= alpha
    _, metric_ranks, ranks_without_partiality = effects_and_ranks_of_bound[""]
    is_compared_system = np.stack([placement.units > 0 for placement in placements])
    human_scores = np.stack([placement.human for placement in placements])
    return {
        "metric": np.repeat(comparison.metrics * len(slice_comparisons), len(comparison.systems)),
        "system": comparison.systems * len(placements),
        **{
            f"partiality{bound_suffix}": np.where(is_defined_shift, 100 * effects_and_ranks[0], np.nan)
            for bound_suffix, effects_and_ranks in effects_and_ranks_of_bound.items()
        },
        "p_value": partiality_tests.p_value,
        "p_adjusted": partiality_tests.p_adjusted,
        "finding": np.select(
            [partiality_tests.reason > 0, is_significant & (partiality_tests.shift > 0), is_significant],
            [INCONCLUSIVE, FAVOURED, DISFAVOURED],
            "",
        )
        .ravel()
        .tolist(),
        "reason": [REASONS[Reason(reason_code)] for reason_code in partiality_tests.reason.ravel().tolist()],
        "rank_human": np.where(
            is_compared_system,
            1 + (human_scores[:, np.newaxis] > human_scores[:, :, np.newaxis] + 1e-12).sum(axis=2),
            np.nan,
        ),
        "rank": np.where(is_compared_system, metric_ranks, np.nan),
        "rank_without": np.where(is_defined_shift, ranks_without_partiality, np.nan),
    }


def placement_of(comparison: RaterComparison, metric_index: int) -> Placement:
    """Return the positions of the systems by annotators and by one metric, as input of the test of partiality.

    Positions come from scores if annotators and metric scored at least half of their shared items, otherwise from
    verdicts.
    """
    design, item_scores, shared_preferences = comparison.design, comparison.scores, comparison.shared(metric_index)
    has_two_scored_outputs = (np.isfinite(item_scores.human) & np.isfinite(item_scores.metrics[metric_index])).sum(
        axis=1
    ) > 1
    if 2 * has_two_scored_outputs.sum() >= len(np.unique(shared_preferences.item)) and has_two_scored_outputs.any():
        return comparison.scored_people.placement(item_scores.metrics[metric_index])
    human_signs, metric_signs = shared_preferences.signs
    return sign_placement(
        human_signs,
        metric_signs,
        shared_preferences.pair,
        design.pairs,
        items=shared_preferences.item,
        units=design.units[shared_preferences.item],
    )


def near_copies(comparison: RaterComparison, findings: Sequence[str]) -> list[list[str]]:
    """Return the names of the near copies with the same finding, for each metric and system.

    `findings` and the returned list have one entry per metric and system, in the order of the table `partiality`.
    Metrics without scores of outputs have no near copies.
    """
    n_metrics, n_systems = len(comparison.metrics), len(comparison.systems)
    finding_signs = np.array([{FAVOURED: 1, DISFAVOURED: -1}.get(finding, 0) for finding in findings]).reshape(
        n_metrics, n_systems
    )
    # (metrics, metrics, systems)
    has_same_finding = (finding_signs[:, np.newaxis] == finding_signs) & (finding_signs != 0)
    first_metric_indices, second_metric_indices = np.nonzero(np.triu(has_same_finding.any(axis=2), 1))
    is_near_copy = np.zeros((n_metrics, n_metrics), dtype=np.bool_)
    is_near_copy[first_metric_indices, second_metric_indices] = (
        _complementarity(comparison, first_metric_indices, second_metric_indices) <= NEAR_COPY
    )
    is_listed_near_copy = (is_near_copy | is_near_copy.T)[:, :, np.newaxis] & has_same_finding
    return [
        list(compress(comparison.metrics, is_listed_near_copy[metric_index, :, system_index]))
        for metric_index in range(n_metrics)
        for system_index in range(n_systems)
    ]


def _complementarity(comparison: RaterComparison, first_metric_indices: Ints, second_metric_indices: Ints) -> Floats:
    """Return the complementarity of each pair of metrics at the system level by tau-b distance; NaN if undefined."""
    item_scores, design = comparison.scores, comparison.design
    cluster_of_item = design.units[item_scores.items]
    mean_distances_of_chunks = [
        weighted_item_mean(
            rank_distances(
                item_scores.metrics,
                first_metric_indices[pair_slice],
                second_metric_indices[pair_slice],
                rules=["tau-b"],
            )[0],
            units=cluster_of_item,
            weights=np.ones((1, design.n_units)),
            item_weights=design.weights[item_scores.items],
        )[0]
        for pair_slice in chunks(len(first_metric_indices), len(cluster_of_item))
    ]
    return np.concatenate(mean_distances_of_chunks) if mean_distances_of_chunks else np.zeros(0)


def correlation_columns(favi: Floats, sign_agrees: Floats, sample_accuracy: Floats) -> dict[str, Any]:
    """Return the Spearman correlations of |favi| with sign agreement of margins and with sample accuracy.

    All arguments have the shape (metrics, pairs). Each correlation is over all metrics and pairs. The function uses
    |favi| and not the signed Favi-Score, because the sign only depends on which system of the pair is named first.
    """
    abs_favi, values_of_accuracy = (
        np.abs(favi).ravel(),
        {"sign_agrees": sign_agrees, "sample_accuracy": sample_accuracy},
    )
    return {
        "accuracy": list(values_of_accuracy),
        "spearman": [
            float(spearman(abs_favi, accuracy_values.ravel())) for accuracy_values in values_of_accuracy.values()
        ],
        "n": [int(np.isfinite(abs_favi).sum())] * len(values_of_accuracy),
    }


def favoritism_notes(
    aspect_counts: AspectCounts,
    partiality_table: Mapping[str, Any],
    n_shared_items: NDArray[np.int64],
    n_errors: NDArray[np.int64],
) -> list[Note]:
    """Return the notes on the table `partiality` (empty for counts), and on undefined or unstable Favi-Scores.

    `n_shared_items` and `n_errors` (metrics, pairs) are the numbers of shared items and of errors.
    """
    aspect_text, findings = label_of(aspect_counts.aspect), partiality_table.get("finding", [])
    metrics_with_finding = {
        str(metric)
        for metric, finding in zip(partiality_table.get("metric", ()), findings, strict=True)
        if finding in (FAVOURED, DISFAVOURED)
    }
    # Without scores for the aspect, findings may reflect quality on another aspect.
    overall_score_metrics = [metric for metric in aspect_counts.overall if metric in metrics_with_finding]
    mask_and_text_of_rule = {
        "favi-no-shared-items": (n_shared_items == 0, "have no item rated by both annotators and metric"),
        "favi-no-errors": ((n_shared_items > 0) & (n_errors == 0), "have no error, so their Favi-Score is undefined"),
        "favi-few-errors": (
            (n_errors > 0) & (n_errors < FEW_ERRORS),
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
            len(overall_score_metrics),
            f"these metrics have no score{aspect_text}, so their score without an aspect is used, and apparent "
            f"partiality may reflect quality on another aspect: {join_labels(overall_score_metrics)}",
        ),
        *(
            (
                rule,
                int(is_affected_combination.sum()),
                f"{int(is_affected_combination.sum())} of {n_shared_items.size} combinations of metric and system pair "
                f"{rule_text}{aspect_text}",
            )
            for rule, (is_affected_combination, rule_text) in mask_and_text_of_rule.items()
        ),
        aspect=aspect_counts.aspect,
    )
