"""Agreement of each metric with the human ratings, with paired tests between metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import PreferenceOptions, selection_arguments
from custodes.answers.tables import AT_THRESHOLD, count, flag, label, letters, p_value, score, table
from custodes.arguments import check_one_of, value_list
from custodes.data.notes import Note, build_notes
from custodes.data.study import Study
from custodes.errors import InputError, join_labels
from custodes.evaluate.agreement.choices import (
    are_choices,
    compared_count,
    equal_preferences,
    resampled_groups,
)
from custodes.evaluate.agreement.differences import (
    CHOOSING,
    COMPARED,
    NO_INTERVAL,
    ORDERING,
    Differences,
    Tester,
    difference_columns,
    standing_columns,
    used_item_mask,
)
from custodes.evaluate.agreement.statistic import FEWEST, Sample, drawn_flips, group_equal_rows, holds_for_both
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.comparable import NotComparableError, label_of
from custodes.evaluate.parallel import map_parts
from custodes.evaluate.rater_comparison import RaterComparison, compare
from custodes.evaluate.rates.estimates import EstimateSettings
from custodes.evaluate.rates.judges import judge_rows, judge_table, label_accuracies, label_notes
from custodes.evaluate.rates.outputs import labelled_outputs, view_of_positive
from custodes.evaluate.slices import (
    BY,
    no_slice_notes,
    slice_columns,
    slice_notes,
    slice_table,
    slices_of,
    slices_of_items,
)
from custodes.progress import Progress, silent
from custodes.stats import system_scores
from custodes.stats.arrays import Floats

MOST_SYSTEMS = 500
"""Maximum number of systems; the run time grows with the third power of this number."""


@result
class Agreement(Result):
    """How well each metric agrees with the annotators. See `agreement`.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.agreement(cu.read("demo"), aspect="fluency", metrics="judge,noise", resamples=20)
    >>> result.standing.select("metric", "group").rows()
    [('judge', 'a'), ('noise', 'b')]
    """

    PICTURE = "agreement_intervals"

    metrics: pl.DataFrame = table(
        "One row per metric: every statistic with its interval.",
        label("metric", "name of the metric"),
        letters(
            "group",
            "metrics that share a letter do not differ significantly in the statistic that ranks the metrics (all "
            "pairs tested jointly). Null if not tested",
        ),
        count(
            "n",
            "comparisons (item × pair of systems) rated by both annotators and the metric; outputs, if there is one "
            "system",
            "Comparisons",
            essential=False,
        ),
        *(statistic.column for statistic in STATISTICS.values()),
        *(statistic.chance_column for statistic in STATISTICS.values() if statistic.chance_column),
        rows=lambda result: by_standing(result.metrics, result.standing),
        compact=lambda result: list(dict.fromkeys([*result.standing["statistic"][:1], ORDERING, CHOOSING])),
    )
    comparisons: pl.DataFrame = table(
        "One row per pair of metrics and statistic: the difference between the two metrics, with a test.",
        label("metric_a", "first metric", "Metric"),
        label("metric_b", "second metric", "Against"),
        label("statistic", "the statistic compared"),
        count(
            "n", "comparisons (or outputs, if there is one system) rated by annotators and both metrics", "Comparisons"
        ),
        score(
            "difference",
            "statistic of metric_a minus statistic of metric_b, on the outputs that both metrics rated",
            interval=True,
        ),
        p_value(
            "p_adjusted",
            "p-value of the hypothesis that both metrics agree equally with the annotators, adjusted for all pairs "
            "of metrics, per statistic and aspect",
            "p, all pairs",
        ),
        label(
            "note",
            f"reason for caution: empty, `{AT_THRESHOLD}` or `{NO_INTERVAL}`. `{AT_THRESHOLD}`: `alpha` lies within "
            f"the Monte Carlo error of `p_adjusted`, and the difference counts as not significant. `{NO_INTERVAL}`: "
            "nearly all items are in few clusters",
            essential=False,
        ),
        essential=False,
    )
    standing: pl.DataFrame = table(
        "Ranking of the metrics from best to worst, with tests against the chance level.",
        label("metric", "name of the metric"),
        label("statistic", "the statistic that ranks the metrics"),
        score("value", "value of the statistic", interval=True, best="high"),
        score("chance", "chance level of the statistic"),
        p_value(
            "p_chance",
            "p-value of the hypothesis that agreement is at the chance level, adjusted for all metrics of the "
            "aspect; null for a statistic over systems",
            "p, chance level",
        ),
        label(
            "side",
            "`above` or `below` if agreement is significantly above or below the chance level, else `unclear`. Also "
            "`unclear` if `alpha` lies within the Monte Carlo error of `p_chance`",
        ),
        letters("group", "metrics that share a letter do not differ significantly; null if not tested"),
        flag(
            "may_be_best",
            "whether no other metric is significantly better (all pairs tested jointly); null if not tested",
        ),
        essential=False,
    )
    labels: pl.DataFrame = judge_table()
    slices: pl.DataFrame = slice_table(
        "metric",
        "One row per metric and slice, if `by` is set.",
        "`sample_accuracy` (proportion of comparisons in which annotators and metric have the same preference), or "
        "`accuracy` for labels",
    )


@question(
    "custodes agreement ratings.csv --human 'expert*' --aspect coherence",
    compare_by=(
        "Statistics for which differences between metrics are tested. The first one ranks the metrics (default: "
        "Kendall's tau within items). Comma list or repeated."
    ),
    by=BY,
)
def agreement(
    study: Study,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    compare_by: Sequence[str] = COMPARED,
    by: str | None = None,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Agreement:
    """Agreement of each metric with the human ratings, with intervals and paired tests.

    Notes
    -----
    Undefined values are null, with a note.

    Intervals are Student's t intervals from a paired bootstrap over clusters of items; all metrics use the same
    `resamples`. The intervals of system-level correlations and accuracies are intervals for the value that a very large
    number of items would give. There are no intervals from fewer than four clusters.

    For each statistic in `compare_by`, every pair of metrics is compared on the data that the annotators and both
    metrics rated. The interval and the p-value of a difference come from the same draws. For a smooth statistic (such
    as a mean over items), the draws are sign flips of each cluster's contribution. For other statistics, the draws are
    bootstrap resamples. `p_adjusted` is adjusted for all pairs of metrics of one statistic and aspect (step-down
    maximum of t). Two metrics differ significantly if `p_adjusted` is at most `alpha`. Only metrics without a
    significant difference share a significance letter. Tests against chance are adjusted for all metrics of the aspect.

    Labels (pass or fail, or categories) are also compared output by output in the table `labels`, for which one system
    is enough. Categories, and binary labels of a single system, have only this table (and `slices`, if `by` is set).
    Scores of a single system have only statistics over all outputs (`pearson_global`, ...).

    With `by`, the sample accuracy (for labels: the proportion of equal labels) in each slice is compared with its
    value in all other slices. The test permutes items among slices, and p-values are adjusted for all metrics and
    slices.

    References
    ----------
    Favi-Score paper, Definitions 10 and 11; Kocmi et al. 2021; Deutsch et al. 2023; Thompson et al. 2024.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.agreement(cu.read("demo"), resamples=0, compare_by=())
    >>> result.metrics.columns[:5]
    ['aspect', 'metric', 'group', 'n', 'sample_accuracy']
    """
    compare_by = value_list("compare_by", compare_by)
    for statistic_name in compare_by:
        check_one_of("compare_by", statistic_name, STATISTICS)

    def answer_aspect(
        comparison: RaterComparison, rng: np.random.Generator
    ) -> tuple[dict[str, pl.DataFrame], list[Note]]:
        table_of_name, notes = _answer(comparison, draw_sign_flips, resamples, compare_by, confidence, alpha, rng)
        if by and comparison.aspect not in study.labels:
            equal_preference_ratios = equal_preferences(comparison)
            item_slices = slices_of_items(study, comparison.items, by)
            table_of_name |= {
                "slices": Agreement.part(
                    comparison.aspect,
                    slices=slice_columns(
                        "metric", equal_preference_ratios, item_slices, confidence=confidence, alpha=alpha
                    ),
                )["slices"]
            }
            notes += slice_notes(by, equal_preference_ratios, item_slices, comparison.aspect)
        return table_of_name, notes

    if len(study.systems) > MOST_SYSTEMS and len(study.select(**selection_arguments(setting)).systems) > MOST_SYSTEMS:
        raise InputError(
            f"{study.name}: {len(study.systems)} systems, but agreement compares at most {MOST_SYSTEMS}; if the "
            "outputs have no named systems, leave out the column of systems"
        )
    label_tables, notes_on_labels = _label_tables(study, setting, by, confidence=confidence, alpha=alpha, rng=rng)
    try:
        # One system is enough for statistics over outputs; binary labels have their own statistics.
        aspect_comparisons = [
            comparison.human_item_comparison
            for comparison in compare(
                study,
                min_systems=2 if any(label_scale.binary for label_scale in study.labels.values()) else 1,
                **setting,
            )
        ]
    except NotComparableError:
        if not label_tables:
            raise
        aspect_comparisons = []
    generator = np.random.default_rng(rng)
    draw_sign_flips = drawn_flips(generator)
    # All aspects have the same label, so that they share their resamples.
    tables_and_notes = map_parts(
        answer_aspect,
        aspect_comparisons,
        rng=generator,
        progress=progress,
        desc="agreement",
        label=lambda _: "",
        threads=False,  # with threads, the resamples of several aspects would be in memory at the same time
    )
    notes = [*notes_on_labels, *(note for _, aspect_notes in tables_and_notes for note in aspect_notes)]
    return Agreement.from_parts([*label_tables, *(table_of_name for table_of_name, _ in tables_and_notes)], notes)


def _label_tables(
    study: Study, setting: PreferenceOptions, by: str | None, *, confidence: float, alpha: float, rng: Rng
) -> tuple[list[dict[str, pl.DataFrame]], list[Note]]:
    """Return the tables on the agreement of labels, by aspect, and notes; both are empty if the study has no labels."""
    if not study.labels:
        return [], []
    selected_study = study.select(**selection_arguments(setting))
    label_aspects = tuple(aspect for aspect in selected_study.aspects if aspect in study.labels)
    if not label_aspects:
        return [], []
    estimate_settings = EstimateSettings(sampling="random", confidence=confidence, rng=np.random.default_rng(rng))
    tables_of_aspects, notes = [], [*selected_study.notes]
    for outputs in labelled_outputs(selected_study, consensus="vote", aspects=label_aspects):
        slice_table = dict[str, Any]()
        if by:
            slices = slices_of(study, outputs.table, by)
            slice_table = slice_columns("metric", label_accuracies(outputs), slices, confidence=confidence, alpha=alpha)
            notes += no_slice_notes(by, slices[1], "outputs", outputs.aspect)
        label_rows = list(judge_rows(view_of_positive(outputs, None), estimate_settings))
        tables_of_aspects.append(Agreement.part(outputs.aspect, labels=label_rows, slices=slice_table))
        if label_rows:
            notes += outputs.notes
        if study.labels[outputs.aspect].scores:
            # scores of the other label would look like errors
            notes += [note for note in label_notes(outputs, None) if note.rule == "positive-by-order"]
    return tables_of_aspects, notes


def by_standing(metric_rows: pl.DataFrame, standing: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of metrics in the order of the table `standing`; metrics without a rank come last."""
    return (
        metric_rows.join(
            standing.select("aspect", "metric", place=pl.int_range(pl.len())),
            on=["aspect", "metric"],
            how="left",
            maintain_order="left",
        )
        .sort(pl.int_range(pl.len()).min().over("aspect"), "place", nulls_last=True, maintain_order=True)
        .drop("place")
    )


def _answer(
    comparison: RaterComparison,
    draw_sign_flips: Callable[[RaterComparison], NDArray[np.int8]],
    resamples: int,
    compare_by: Sequence[str],
    confidence: float,
    alpha: float,
    rng: np.random.Generator,
) -> tuple[dict[str, pl.DataFrame], list[Note]]:
    design, weight_column_of_cluster = comparison.design, None
    n_units, has_only_choices = design.n_units, are_choices(comparison)
    if (
        has_only_choices and not design.has_item_weights
    ):  # with item weights, clusters with equal preferences can have different weights and are not grouped
        weight_column_of_cluster, bootstrap_weights = resampled_groups(comparison, resamples, rng)
    else:
        bootstrap_weights = design.draw_weights(resamples, rng, dtype=np.uint8)
    # Statistics of preferences need no sign flips.
    sample = Sample(
        comparison=comparison,
        times=bootstrap_weights,
        flips=np.empty((0, n_units), dtype=np.int8) if has_only_choices else draw_sign_flips(comparison),
        columns=weight_column_of_cluster,
    )
    values_of_statistic = {
        statistic_name: statistic.compute(sample) for statistic_name, statistic in STATISTICS.items()
    }
    tester = Tester.from_sample(sample, n_flips=resamples, confidence=confidence, alpha=alpha)
    differences = Differences.from_tester(tester, compare_by)
    standing_table_columns = standing_columns(tester, values_of_statistic, differences)
    letters_of_metric = dict(zip(standing_table_columns["metric"], standing_table_columns["group"], strict=True))
    table_of_name = Agreement.part(
        comparison.aspect,
        metrics={
            "metric": list(comparison.metrics),
            "group": [letters_of_metric.get(metric) for metric in comparison.metrics],
            "n": [compared_count(comparison, metric_index) for metric_index in range(len(comparison.metrics))],
            **{
                column_name: column_values
                for statistic_name, statistic in STATISTICS.items()
                for column_name, column_values in statistic.with_interval(
                    statistic_name, sample, values_of_statistic[statistic_name], confidence
                ).items()
            },
            **{
                statistic.chance_column.name: statistic.chance_of(tester.jackknife_sample)[0]
                for statistic in STATISTICS.values()
                if statistic.chance_column
            },
        },
        comparisons=difference_columns(comparison.metrics, differences),
        standing=standing_table_columns,
    )
    return table_of_name, [
        *comparison.notes,
        *_ground_notes(sample),
        *_ranking_notes(comparison, differences, standing_table_columns, alpha),
        *_undefined_notes(sample, values_of_statistic),
    ]


def _ground_notes(sample: Sample) -> list[Note]:
    """Return notes on metrics and systems that are compared on only a part of the data."""
    comparison = sample.comparison
    if are_choices(comparison):
        return []
    aspect_suffix, is_scored_output = label_of(comparison.aspect), comparison.has_both_scores
    scored_output_masks = [scored_output_mask for scored_output_mask in is_scored_output if scored_output_mask.any()]
    n_different_output_sets = len(group_equal_rows(np.stack(scored_output_masks))) if scored_output_masks else 0
    n_metrics_with_fitted_scores = sum(
        not system_scores.is_complete(scored_output_mask) for scored_output_mask in scored_output_masks
    )
    is_scored_system = np.asarray(is_scored_output.any(axis=1))
    n_unconnected_systems = int(
        (
            holds_for_both(is_scored_system)
            & ~sample.system_scores.pairs
            & ~np.eye(is_scored_system.shape[1], dtype=bool)
        )
        .any(axis=0)
        .sum()
    )
    return build_notes(
        (
            "coverage-differs",
            n_different_output_sets if n_different_output_sets > 1 else 0,
            f"metrics rated different outputs{aspect_suffix}: each pair of metrics is compared on the outputs that "
            "both metrics rated",
        ),
        (
            "system-scores-fitted",
            n_metrics_with_fitted_scores,
            f"for {n_metrics_with_fitted_scores} of {len(scored_output_masks)} metrics, some items lack the human or "
            f"the metric score of a system{aspect_suffix}, so system scores are system effects adjusted for items "
            "instead of means",
        ),
        (
            "pairs-without-common-item",
            n_unconnected_systems // 2,
            f"system-level statistics{aspect_suffix} exclude pairs of systems for which no item has ratings of both "
            "systems by the annotators and by the metric",
        ),
        aspect=comparison.aspect,
    )


def _ranking_notes(
    comparison: RaterComparison, differences: Differences, standing_table_columns: dict[str, Any], alpha: float
) -> list[Note]:
    """Return notes on the statistic that ranks the metrics, and on statistics without a significant difference."""
    tests_of_statistic = {
        statistic_name: test_family
        for statistic_name, test_family in differences.tests.items()
        if np.isfinite(test_family.p_adjusted).any()
    }
    undecided_statistics = [
        statistic_name
        for statistic_name, test_family in tests_of_statistic.items()
        if not test_family.significant(alpha).any()
    ]
    ranking_statistic_label = STATISTICS[standing_table_columns["statistic"]].label
    return [
        *build_notes(
            (
                "standing",
                standing_table_columns["statistic"] in tests_of_statistic,
                f"metrics are ranked by {ranking_statistic_label}; metrics that share a letter do not differ "
                f"significantly (all pairs of metrics of this aspect tested jointly at level {alpha:g})",
            ),
        ),
        *build_notes(
            (
                "no-significant-difference",
                len(undecided_statistics),
                f"no two metrics differ significantly{label_of(comparison.aspect)} by "
                f"{join_labels(undecided_statistics, limit=6)}",
            ),
            aspect=comparison.aspect,
        ),
    ]


def _undefined_notes(sample: Sample, values_of_statistic: dict[str, Floats]) -> list[Note]:
    """Return notes on missing intervals, on the source of system scores, and on correlations that are undefined or not
    informative."""
    comparison, n_units = sample.comparison, sample.comparison.design.n_units
    aspect_suffix = label_of(comparison.aspect)
    has_system_score_in_file = (
        np.isfinite(comparison.metric_system).any(axis=1) | np.isfinite(comparison.human_system).any()
    )
    n_undefined_correlations = int(
        ((np.isfinite(comparison.scores.human) & np.isfinite(comparison.scores.metrics)).sum(axis=2) > 1).sum()
        - used_item_mask(STATISTICS["pearson_item"], sample).sum()
    )
    return build_notes(
        (
            "few-clusters",
            n_units if 1 < n_units < FEWEST and len(sample.times) > 1 else 0,
            f"there are only {n_units} clusters of items{aspect_suffix}, so there are no intervals, because their "
            "coverage would be too low",
        ),
        (
            "two-systems",
            2 if len(comparison.systems) == 2 else 0,
            f"there are only two systems{aspect_suffix}: system-level correlations are 1, -1 or undefined and carry "
            "little information",
        ),
        (
            "system-scores-given",
            int(has_system_score_in_file.sum()),
            f"system scores{aspect_suffix} are the system-level scores of the file if present, otherwise means over "
            "items",
        ),
        (
            "undefined-item-correlations",
            n_undefined_correlations if np.isfinite(values_of_statistic["pearson_item"][0]).any() else 0,
            f"{n_undefined_correlations} item correlations{aspect_suffix} are excluded from the means, because human "
            "ratings or metric scores are constant on the item",
        ),
        aspect=comparison.aspect,
    )
