"""Decisions between systems by annotators and by each metric, and the errors of the metrics' decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import PreferenceOptions
from custodes.answers.tables import count, label, labels, p_value, score, share, table, with_interval
from custodes.answers.wording import percent
from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note, build_notes
from custodes.data.outcome_counts import ClusterCells, OutcomeCounts
from custodes.data.study import Study
from custodes.evaluate.agreement.statistic import FEWEST
from custodes.evaluate.clusters import (
    AspectCounts,
    cluster_notes,
    counts_by_aspect,
    has_clusters,
    margin_effects,
    null_effects,
)
from custodes.evaluate.comparable import label_of
from custodes.evaluate.decision_graph import PAIR, format_decisions
from custodes.evaluate.parallel import merge_parts
from custodes.evaluate.rater_scores import few_clusters_notes
from custodes.memory import check_memory, count_resample_values
from custodes.progress import Progress, silent
from custodes.stats import ABSENT, decision_errors, intervals
from custodes.stats.arrays import Floats, Signs
from custodes.stats.clusters import null_effect
from custodes.stats.clusters import outcomes as outcome_codes
from custodes.stats.decision_errors import ERRORS, outcome_probabilities
from custodes.stats.equal_clusters import sums_of
from custodes.stats.ratios import mean_of_defined
from custodes.stats.sign_test import Correction, SignTest, Test, adjust

MOST_REVERSED = 5
"""Maximum number of reversed pairs of an aspect that are displayed by default."""


@result
class Ranking(Result):
    """Decisions between systems by annotators and by metrics, and errors of the metrics. See `ranking`."""

    PICTURE = "error_types"

    decisions: pl.DataFrame = table(
        "One row per rater and pair of systems.",
        label("rater", "`human` (combined annotators) or a metric"),
        *PAIR,
        count("wins", "wins of system_a", "A better"),
        count("ties", "ties of system_a and system_b"),
        count("losses", "losses of system_a", "B better"),
        p_value(
            "p_value",
            "p-value of a sign test, adjusted by the method of the option `correction`; the test accounts for clusters",
            "p",
        ),
        label(
            "decision",
            "`+` system_a is better, `-` system_b is better, `=` no significant difference; null without comparisons",
            "Decision (sign test)",
        ),
        score(
            "design_effect",
            "design effect: variance of wins minus losses with clusters divided by the variance with independent "
            "items, at least 1; null without clusters",
            essential=False,
        ),
        essential=False,
    )
    errors: pl.DataFrame = table(
        (
            "One row per metric: how its decisions compare with human decisions. Proportions refer to "
            "the pairs of systems that annotators and metric both compared."
        ),
        label("metric", "name of the metric"),
        share("correct", "annotators and metric make the same decision", interval=True, best="high"),
        share("inversion", "annotators and metric find opposite winners", interval=True, best="low"),
        share("omission", "annotators find a difference, the metric finds none", interval=True, best="low"),
        share("insertion", "annotators find no difference, the metric finds one", best="low"),
        score(
            "kld",
            "Kullback–Leibler divergence of the metric's outcome rates from the human rates, in nats; mean over pairs",
            "KLD (nats)",
            interval=True,
            best="low",
        ),
        order="correct",
    )
    reversals: pl.DataFrame = table(
        (
            "One row per pair of systems on which a metric significantly contradicts the annotators; pairs with the "
            "most contradicting metrics come first."
        ),
        label("better", "the better system by annotators"),
        label("worse", "the worse system by annotators"),
        labels("metrics", "metrics that decide the opposite", "Reversed by"),
        p_value(
            "p_adjusted",
            "largest adjusted p-value of the contradicting metrics. The p-value of a metric is the human p-value or "
            "the metric's p-value, whichever is larger. Holm's method adjusts for all combinations of pair and "
            "metric with opposite margins by annotators and by the metric",
            "p, all tested",
        ),
        rows=lambda ranking: ranking.reversals.filter(pl.int_range(pl.len()).over("aspect") < MOST_REVERSED),
    )


@question(
    "custodes ranking demo --correction holm -o ranking.json",
    test="Sign test: asymptotic (normal) or exact (binomial).",
    correction="Multiplicity correction over the pairs of a rater.",
)
def ranking(
    study: Study | OutcomeCounts,
    *,
    alpha: float = 0.05,
    test: Test = "asymptotic",
    correction: Correction = "none",
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Ranking:
    """Decide which system of each pair is better, by annotators and by each metric, and classify errors of metrics.

    Notes
    -----
    Decisions are sign tests with `correction` over the pairs of a rater. The tests drop ties, and account for clusters
    if items have clusters. The divergence between the outcome rates by the metric and the human outcome rates uses
    posterior means (the paper uses modes). Intervals come from resampled clusters. The proportion of insertions has no
    interval, because the interval would be too narrow. Counts (`count_pairs`) can replace the study, but then there are
    no intervals.

    References
    ----------
    Favi-Score paper, Section 2; Deriu et al. 2023, Tables 4 and 5.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.ranking(cu.read("demo"), resamples=0)
    >>> set(result.decisions["decision"]) <= {"+", "=", "-"}
    True
    """
    return merge_parts(
        Ranking,
        partial(
            _answer,
            sign_test=SignTest(alpha=alpha, test=test, correction=correction),
            confidence=confidence,
            resamples=resamples,
        ),
        counts_by_aspect(study, setting),
        rng=rng,
        progress=progress,
        desc="rank",
    )


def _answer(
    aspect_counts: AspectCounts,
    rng: np.random.Generator,
    *,
    sign_test: SignTest,
    confidence: float,
    resamples: int,
) -> tuple[dict[str, pl.DataFrame], list[Note]]:
    pair_counts, aspect, raters = aspect_counts.counts, aspect_counts.aspect, (HUMAN, *aspect_counts.counts.metrics)
    # (raters, pairs, 3) of win, tie and loss, annotators first
    outcome_counts = np.concatenate([pair_counts.human[None], np.moveaxis(pair_counts.metric, 1, 0)])
    effective_counts = (
        outcome_counts / np.broadcast_to(null_effects(aspect_counts), outcome_counts.shape[:-1])[..., None]
    )
    decisions_of_raters, design_effects = sign_test.decisions(effective_counts), margin_effects(aspect_counts)
    error_type_rates, divergences, replication_rates, inversion_rates = _errors(
        aspect_counts, outcome_counts, sign_test=sign_test, resamples=resamples, rng=rng
    )
    error_columns = {
        column_name: column_values
        for error_index, error_name in enumerate(ERRORS[:-1])
        for column_name, column_values in with_interval(
            error_name,
            error_type_rates[..., error_index],
            confidence,
            clusters=aspect_counts.n_clusters,
            bounds=intervals.SHARE,
        ).items()
    }
    error_columns["inversion_low"] = np.minimum(
        error_columns["inversion_low"],
        decision_errors.lower_rate(inversion_rates, intervals.student_quantile(confidence, aspect_counts.n_clusters)),
    )
    table_of_name = Ranking.part(
        aspect,
        decisions={
            "rater": np.repeat(raters, len(pair_counts.system_a)),
            "system_a": pair_counts.system_a * len(raters),
            "system_b": pair_counts.system_b * len(raters),
            **{
                outcome_name: outcome_counts[..., outcome_index]
                for outcome_index, outcome_name in enumerate(("wins", "ties", "losses"))
            },
            "p_value": np.where(np.isnan(decisions_of_raters), np.nan, sign_test.p_values(effective_counts)),
            "decision": format_decisions(decisions_of_raters),
            "design_effect": np.where(np.isfinite(design_effects), design_effects, np.nan),
        },
        errors={
            "metric": pair_counts.metrics,
            **error_columns,
            ERRORS[-1]: error_type_rates[0, :, -1],
            **with_interval(
                "kld", divergences, confidence, clusters=aspect_counts.n_effective_clusters, bounds=intervals.POSITIVE
            ),
        },
        reversals=_reversals(aspect_counts, sign_test),
    )
    notes = cluster_notes(aspect_counts, design_effects[0])
    defined_replication_rates = replication_rates[np.isfinite(replication_rates)]
    if len(defined_replication_rates):
        message = (
            f"if items are resampled, human decisions{label_of(aspect)} stay the same for "
            f"{percent(float(defined_replication_rates.mean()))} of pairs; do not expect a metric to agree "
            "with the annotators on more pairs"
        )
        notes += build_notes(("self-agreement", True, message), aspect=aspect)
    notes += few_clusters_notes(aspect_counts.n_clusters, resamples, min_units=FEWEST, aspect=aspect)
    return table_of_name, [*aspect_counts.notes, *notes]


def _errors(
    aspect_counts: AspectCounts,
    outcome_counts: NDArray[np.int64],
    *,
    sign_test: SignTest,
    resamples: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the errors of decisions for the data and for B samples of resampled clusters.

    Returns four arrays: the proportions of `ERRORS` (1 + B, metrics, 4); the divergence (1 + B, metrics); the
    proportion of pairs (B,) with the same human decision in the resample as in the data; and the proportion of
    resamples (metrics, pairs) with an inversion. The last value is NaN for a pair that annotators or the metric leave
    undecided. With fewer than two clusters, B is 0.
    """
    n_resamples = resamples if aspect_counts.n_clusters > 1 else 0
    resamples_and_metrics_shape = (1 + n_resamples, len(outcome_counts) - 1)
    error_type_rates, divergences, replication_rates = (
        np.empty((*resamples_and_metrics_shape, len(ERRORS))),
        np.empty(resamples_and_metrics_shape),
        np.empty(1 + n_resamples),
    )
    inversion_counts = np.zeros((len(outcome_counts) - 1, outcome_counts.shape[1]))
    for resample_slice, counts_of_raters in _resample_outcomes(aspect_counts, outcome_counts, n_resamples, rng):
        # The decisions of annotators and metrics use the same resampled clusters.
        human_counts, effective_human_counts = next(counts_of_raters)
        human_decisions = sign_test.decisions(effective_human_counts)
        if resample_slice.start == 0:
            data_human_decisions = human_decisions[0]
        replication_rates[resample_slice] = decision_errors.error_types(data_human_decisions, human_decisions)[:, 0]
        log_human_probabilities = np.log(outcome_probabilities(human_counts))
        for metric_index, (metric_counts, effective_metric_counts) in enumerate(counts_of_raters):
            metric_decisions = sign_test.decisions(effective_metric_counts)
            error_type_rates[resample_slice, metric_index] = decision_errors.error_types(
                human_decisions, metric_decisions
            )
            first_resample_row = 1 if resample_slice.start == 0 else 0
            inversion_counts[metric_index] += (
                (human_decisions[first_resample_row:] * metric_decisions[first_resample_row:]) < 0
            ).sum(axis=0)
            if resample_slice.start == 0:
                inversion_counts[metric_index, np.isnan(human_decisions[0] * metric_decisions[0])] = np.nan
            divergences[resample_slice, metric_index] = mean_of_defined(
                decision_errors.divergence(log_human_probabilities, outcome_probabilities(metric_counts))
            )
    return error_type_rates, divergences, replication_rates[1:], inversion_counts / max(n_resamples, 1)


def _resample_outcomes(
    aspect_counts: AspectCounts, outcome_counts: NDArray[np.int64], resamples: int, rng: np.random.Generator
) -> Iterator[tuple[slice, Iterator[tuple[NDArray[Any], NDArray[Any]]]]]:
    """Yield blocks of rows with outcome counts: the slice of rows, and an iterator over raters.

    Row 0 is the data, and the next B rows are samples of resampled clusters. For each rater, the iterator has the
    counts and the effective counts for sign tests, (rows, pairs, 3).
    """
    if aspect_counts.comparison is None:
        yield (
            slice(0, 1),
            ((rater_outcome_counts, rater_outcome_counts) for rater_outcome_counts in outcome_counts[:, None]),
        )
        return
    check_memory("resamples", resamples, count_resample_values(resamples))
    cluster_cells = aspect_counts.comparison.cells
    count_functions = [
        _outcome_counter(cluster_cells, rater_signs, clustered=has_clusters(aspect_counts))
        for rater_signs in cluster_cells.signs
    ]
    for resample_slice, cluster_weights in cluster_cells.iter_weights(
        resamples, rng, size_per_resample=3 * cluster_cells.n_pairs
    ):
        yield resample_slice, (count_resample(cluster_weights) for count_resample in count_functions)


def _outcome_counter(
    cluster_cells: ClusterCells, rater_signs: Signs, *, clustered: bool
) -> Callable[[Floats], tuple[NDArray[Any], NDArray[Any]]]:
    """Return a function that computes a rater's counts and effective counts, (b, pairs, 3), from bootstrap weights."""
    has_sign = rater_signs != ABSENT
    sum_outcomes = cluster_cells.sums(has_sign, has_sign, cell=1 - rater_signs, width=3)
    sum_functions = []
    if clustered:
        cluster_outcome_rows = cluster_cells.rows(outcome_codes(rater_signs), width=3)
        net_wins_of_row = cluster_outcome_rows.counts[:, 0] - cluster_outcome_rows.counts[:, 2]
        sum_functions = [
            sums_of(
                cluster_outcome_rows.table,
                cluster_outcome_rows.cluster,
                summands,
                n_cells=cluster_cells.n_pairs,
                n_groups=len(cluster_cells.number),
            )
            for summands in (net_wins_of_row**2, net_wins_of_row != 0)
        ]

    def count_resample(cluster_weights: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
        outcome_counts = sum_outcomes(cluster_weights)
        outcome_counts = outcome_counts.reshape(len(outcome_counts) // 3, 3, -1).transpose(2, 0, 1)
        if not clustered:
            return outcome_counts, outcome_counts
        squared_net_win_sums, n_unbalanced_clusters = (
            sum_function(cluster_weights).T for sum_function in sum_functions
        )
        return outcome_counts, outcome_counts / null_effect(
            outcome_counts[..., 0] + outcome_counts[..., 2], squared_net_win_sums, n_unbalanced_clusters
        )[..., None]

    return count_resample


def _reversals(aspect_counts: AspectCounts, sign_test: SignTest) -> dict[str, Any]:
    """Return the pairs of systems that annotators and metrics decide in opposite directions on shared items.

    Pairs are sorted by the number of metrics, then by the first metric. A reversal requires a human decision and a
    metric decision, so its p-value is the larger p-value of two one-sided sign tests (Berger 1982). Holm's method
    adjusts over all metrics and pairs. Pairs decided in the same direction are not tested. The pairs to test are
    selected by the data. To account for the selection, the tested pairs have two-sided p-values (discarding: Zhao,
    Small and Su 2019). This method assumes independent tests. The tests here are dependent, but simulations support the
    use of the method for them.
    """
    pair_counts, joint_outcome_counts = (
        aspect_counts.counts,
        np.moveaxis(aspect_counts.counts.paired, 1, 0),
    )  # (metrics, pairs, 3, 3)
    counts_and_p_values = [
        (
            outcome_counts,
            replace(sign_test, correction="none").p_values(
                outcome_counts
                / null_effects(aspect_counts, shared_with_annotators=True, of_human_ratings=of_human_ratings)[..., None]
            ),
        )
        for outcome_counts, of_human_ratings in (
            (joint_outcome_counts.sum(axis=3), True),
            (joint_outcome_counts.sum(axis=2), False),
        )
    ]
    margin_signs_of_sides = [
        np.sign(outcome_counts[..., 0] - outcome_counts[..., 2]) for outcome_counts, _ in counts_and_p_values
    ]
    reversal_p_values = np.where(
        margin_signs_of_sides[0] * margin_signs_of_sides[1] < 0,
        np.fmax(counts_and_p_values[0][1], counts_and_p_values[1][1]),
        np.nan,
    )
    adjusted_p_values = adjust(reversal_p_values.ravel(), correction="holm").reshape(reversal_p_values.shape)
    is_reversed_pair = adjusted_p_values <= sign_test.alpha
    is_reversed_pair &= margin_signs_of_sides[0] == np.take_along_axis(
        margin_signs_of_sides[0], is_reversed_pair.argmax(axis=0)[None], axis=0
    )
    reversed_pair_indices = np.lexsort((is_reversed_pair.argmax(axis=0), -is_reversed_pair.sum(axis=0)))[
        : is_reversed_pair.any(axis=0).sum()
    ]
    # Human decisions may differ between metrics that rated different items; those of the first metric are reported.
    better_and_worse = [
        (pair_counts.system_a[pair_index], pair_counts.system_b[pair_index])[
            :: int(margin_signs_of_sides[0][is_reversed_pair[:, pair_index].argmax(), pair_index])
        ]
        for pair_index in reversed_pair_indices
    ]
    return {
        "better": [better for better, _ in better_and_worse],
        "worse": [worse for _, worse in better_and_worse],
        "metrics": [
            list(compress(pair_counts.metrics, is_reversed_pair[:, pair_index])) for pair_index in reversed_pair_indices
        ],
        "p_adjusted": [
            float(adjusted_p_values[is_reversed_pair[:, pair_index], pair_index].max())
            for pair_index in reversed_pair_indices
        ],
    }
