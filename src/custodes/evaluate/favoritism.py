"""Favi-Scores of metrics, and tests of favoritism beyond quality and sampling error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import PreferenceOptions
from custodes.answers.tables import (
    View,
    count,
    flag,
    label,
    labels,
    p_value,
    points,
    probability,
    score,
    share,
    table,
    with_interval,
)
from custodes.answers.views import split_by_aspect, title_with_aspect, views
from custodes.answers.wording import UNDEFINED
from custodes.data.notes import Note
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.study import Study
from custodes.errors import OptionError
from custodes.evaluate.agreement.statistic import FEWEST
from custodes.evaluate.clusters import (
    AspectCounts,
    cluster_notes,
    counts_by_aspect,
    has_clusters,
    margin_effects,
    table_effects,
)
from custodes.evaluate.decision_graph import CELLS, PAIR, pair_matrix
from custodes.evaluate.parallel import merge_parts
from custodes.evaluate.partiality_table import (
    DISFAVOURED,
    FAVOURED,
    FEW_ERRORS,
    INCONCLUSIVE,
    NEAR_COPY,
    correlation_columns,
    favoritism_notes,
    near_copies,
    partiality_columns,
)
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.evaluate.rater_scores import few_clusters_notes
from custodes.evaluate.slices import BY, no_slice_notes, slices_of_items
from custodes.memory import check_memory, count_resample_values
from custodes.progress import Progress, silent
from custodes.stats import ABSENT, favi_score
from custodes.stats.arrays import Floats, Ints
from custodes.stats.correction.estimator import margin_of
from custodes.stats.ratios import mean_of_defined, ratio

SYSTEMS_ACROSS = 16
"""Maximum number of systems for a table with one column per system."""


def _matrix(
    rows: pl.DataFrame, table_name: str, title: str, note: str, format_cell: Callable[[Mapping[str, Any]], str]
) -> Any:
    """Return a view of metrics by systems for each aspect; with many systems, a view of the rows of the table."""
    matrix_views: list[View] = []
    for aspect, aspect_rows in split_by_aspect(rows, "aspect"):
        systems = aspect_rows["system"].unique(maintain_order=True).to_list()
        if len(systems) > SYSTEMS_ACROSS:
            matrix_views += views(
                replace(Favoritism.table_declarations()[table_name], view=None), aspect_rows, table_name
            )
            continue
        cell_texts = [format_cell(row) for row in aspect_rows.iter_rows(named=True)]
        metrics = aspect_rows["metric"].unique(maintain_order=True)
        matrix_views.append(
            View(
                title=title_with_aspect(title, aspect),
                header=("metric", *systems),
                rows=tuple(
                    (metric, *cell_texts[metric_index * len(systems) :][: len(systems)])
                    for metric_index, metric in enumerate(metrics)
                ),
                numeric=(False, *[True] * len(systems)),
            )
        )
    return [*matrix_views[:-1], *(replace(last_view, more=note) for last_view in matrix_views[-1:])]


def _partiality_cell(row: Mapping[str, Any]) -> str:
    if row["finding"] == INCONCLUSIVE:
        return "?"
    return UNDEFINED if row["partiality"] is None else f"{row['partiality']:+.1f}{'*' if row['finding'] else ''}"


@result
class Favoritism(Result):
    """Favi-Scores of metrics, and tests of partiality to systems. See `favoritism`.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.favoritism(cu.read("demo"), aspect="fluency", metrics="selfeval", resamples=20)
    >>> result.partiality.filter(finding="favoured").select("metric", "system").rows()
    [('selfeval', 'Dogwood')]
    """

    PICTURE = "favoritism_and_accuracy"

    metrics: pl.DataFrame = table(
        "One row per metric: how one-sided its errors are, over all pairs of systems.",
        label("metric", "name of the metric"),
        score("mean_abs_favi", "mean of |favi| over pairs", "Mean |Favi-Score|", interval=True, best="low"),
        score("std_abs_favi", "standard deviation of |favi| over pairs", "SD of |Favi-Score|"),
        share(
            "sample_accuracy",
            "proportion of comparisons in which the metric agrees with the annotators on win, tie or loss",
            best="high",
        ),
        share(
            "system_accuracy",
            "proportion of pairs of systems in which human and metric margin (wins minus losses) have the same sign",
            "System accuracy (signs of margins)",
            best="high",
        ),
        flag(
            "overall",
            "whether the metric has no score for this aspect, so that its score without an aspect is used. Apparent "
            "partiality may then reflect quality on another aspect",
            "Score without aspect",
            essential=False,
        ),
    )
    pairs: pl.DataFrame = table(
        "One row per metric and pair of systems.",
        label("metric", "name of the metric"),
        *PAIR,
        count("n", "items that both annotators and metric rated", "Items"),
        score("favi", "Favi-Score, -2 to 2; positive if errors favour system_a", "Favi-Score (for A)", interval=True),
        share("sample_accuracy", "proportion of the `n` items on which annotators and metric agree"),
        flag("sign_agrees", "whether human and metric margin have the same sign", "Same sign of margin"),
        probability(
            "flip_probability",
            "posterior probability that human and metric margin have opposite signs",
            "P(margins opposite)",
        ),
        label("note", "empty, `no errors`, `too few errors`, or `no item rated by both`"),
        *(
            count(
                cell,
                "items on which system_a has a {} by annotators and a {} by the metric".format(*cell.split("_")),
                essential=False,
            )
            for cell in CELLS
        ),
        essential=False,
    )
    systems: pl.DataFrame = table(
        "One row per metric and system: Favi-Scores against all other systems.",
        label("metric", "name of the metric"),
        label("system", "name of the system"),
        score("favi", "mean Favi-Score over all other systems; positive: favoured", "Mean Favi-Score"),
        view=lambda frame: _matrix(
            frame,
            "systems",
            "mean Favi-Score of each system against all other systems",
            "errors of any noisy metric favour the weaker system; for favoritism beyond this effect, see --table "
            "partiality",
            lambda row: UNDEFINED if row["favi"] is None else f"{row['favi']:+.2f}",
        ),
    )
    partiality: pl.DataFrame = table(
        "One row per metric and system: favoritism beyond what quality and sampling error explain.",
        label("metric", "name of the metric"),
        label("system", "name of the system"),
        points(
            "partiality",
            "partiality, in points of the win rate that the metric gives the system, adjusted for quality; positive: "
            "favoured",
            "Win rate beyond quality",
            interval=True,
        ),
        p_value(
            "p_value",
            "unadjusted p-value of this metric and system; below 1 − confidence if the interval excludes 0",
            "p",
        ),
        p_value(
            "p_adjusted",
            "p-value adjusted for all metrics and systems of the aspect (Holm); also valid if the metric is partial "
            "to one of the other systems",
            "p, all tested",
        ),
        label(
            "finding",
            f"`{FAVOURED}` or `{DISFAVOURED}` if `p_adjusted` is at most alpha; `{INCONCLUSIVE}` if there is a "
            "`reason`; otherwise empty",
        ),
        label("reason", "reason for an inconclusive result", essential=False),
        count(
            "rank_human",
            "rank of the system by mean human ratings, or by win rates if there are only verdicts",
            "Rank by human means",
        ),
        count("rank", "rank of the system by the metric", "Rank by metric"),
        count(
            "rank_without",
            "rank that the metric would give the system if its partiality to this system were removed",
            "Rank without this partiality",
        ),
        labels(
            "near_copies",
            "other metrics that have the same finding and rank the outputs of an item almost equally "
            f"(complementarity at most {NEAR_COPY})",
            essential=False,
        ),
        view=lambda frame: _matrix(
            frame,
            "partiality",
            "partiality to each system, in points of win rate",
            "points of win rate, adjusted for quality. *: significant (Holm over metrics and systems), ?: inconclusive",
            _partiality_cell,
        ),
    )
    slices: pl.DataFrame = table(
        "Favoritism on the items of each slice, if `by` is set: one row per slice, metric and system.",
        label("metric", "name of the metric"),
        label("slice", "value (or range of values) of the column that `by` names"),
        label("system", "name of the system"),
        count("n", "number of items of the slice", "Items"),
        points(
            "partiality",
            "partiality in points of win rate, as in the table `partiality`",
            "Win rate beyond quality",
            interval=True,
        ),
        p_value("p_value", "unadjusted p-value of this metric, slice and system", "p", essential=False),
        p_value(
            "p_adjusted", "p-value adjusted for all metrics, slices and systems of the aspect (Holm)", "p, all tested"
        ),
        label("finding", f"`{FAVOURED}`, `{DISFAVOURED}` or `{INCONCLUSIVE}`; otherwise empty"),
        label("reason", "reason for an inconclusive result", essential=False),
    )
    correlations: pl.DataFrame = table(
        "Correlations of |favi| with accuracy over all metrics and pairs of systems (figure 5 of the paper).",
        label("accuracy", "`sign_agrees` or `sample_accuracy` of the table `pairs`"),
        score(
            "spearman",
            "Spearman's rho of |Favi-Score| (|favi|) and `accuracy` over the rows of `pairs`",
            "Spearman with |Favi-Score|",
        ),
        count("n", "number of rows of `pairs` in which `favi` is defined"),
        essential=False,
    )


@question("custodes favoritism battles.csv --invalid drop --format csv --table systems", by=BY)
def favoritism(
    study: Study | OutcomeCounts,
    *,
    by: str | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Favoritism:
    """Favi-Scores of metrics for each pair of systems with intervals, and tests of partiality to systems.

    Notes
    -----
    The Favi-Score of a pair lies in [-2, 2]. It is positive if errors of the metric favour `system_a`. Errors of any
    noisy metric favour the weaker system. The table `partiality` tests for favoritism beyond this effect. A curve of
    metric scores against human ratings is fitted to all systems except one, and this system is compared with the curve.
    Intervals in the table `pairs` come from `resamples` draws of the posterior of the six kinds of error; intervals in
    the table `metrics` come from resampled clusters. `alpha` is the level of the tests of partiality. Counts
    (`count_pairs`) can replace the study, but then `metrics` has no intervals and `partiality` has no rows.

    If `by` is set, the table `slices` has the partiality to each system on the items of each slice. P-values are
    adjusted for all slices, so a finding in a slice needs stronger evidence than a finding in the whole study.

    References
    ----------
    Favi-Score paper, Definitions 4 to 11, Lemmas 1 and 2. The paper has no intervals, flip
    probabilities or partiality.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.favoritism(cu.read("demo"), metrics="judge*", resamples=200)
    >>> result.pairs["favi"].is_between(-2, 2).all()
    True
    """
    if by and isinstance(study, OutcomeCounts):
        raise OptionError("by: counts do not record items, so they have no slices; give the study instead")
    answer_aspect = partial(_answer, study=study, alpha=alpha, by=by, confidence=confidence, resamples=resamples)
    return merge_parts(
        Favoritism, answer_aspect, counts_by_aspect(study, setting), rng=rng, progress=progress, desc="favoritism"
    )


def _answer(
    aspect_counts: AspectCounts,
    rng: np.random.Generator,
    *,
    study: Study | OutcomeCounts,
    alpha: float,
    by: str | None,
    confidence: float,
    resamples: int,
) -> tuple[dict[str, pl.DataFrame], list[Note]]:
    # (metrics, pairs, 3, 3), so that rows are grouped by metric
    counts, paired_tables = aspect_counts.counts, np.moveaxis(aspect_counts.counts.paired, 1, 0)
    n_shared_items, n_errors, favi_scores = (
        paired_tables.sum(axis=(2, 3)),
        favi_score.errors(paired_tables),
        favi_score.favi_score(paired_tables),
    )
    # For counts, only the draws of one table are in memory at a time.
    check_memory(
        "resamples", resamples, count_resample_values(resamples) if aspect_counts.comparison else 20 * resamples
    )
    favi_posterior = _posterior(aspect_counts, paired_tables, confidence=confidence, draws=resamples, rng=rng)
    margin_signs = (
        np.sign(outcome_counts[..., 0] - outcome_counts[..., 2])
        for outcome_counts in (paired_tables.sum(axis=3), paired_tables.sum(axis=2))
    )
    sign_agrees = np.where(n_shared_items > 0, np.equal(*margin_signs), np.nan)
    abs_favi = np.abs(favi_scores)
    systems, favi_matrix = pair_matrix(counts.system_a, counts.system_b, favi_scores, -favi_scores)
    partiality_table, slice_table, slice_notes = dict[str, Any](), dict[str, Any](), list[Note]()
    if aspect_counts.comparison is not None:
        partiality_table = partiality_columns([aspect_counts.comparison], alpha=alpha, confidence=confidence)
        partiality_table["near_copies"] = near_copies(aspect_counts.comparison, partiality_table["finding"])
        if by and isinstance(study, Study):
            slices = slices_of_items(study, aspect_counts.comparison.items, by)
            slice_table = _slice_columns(aspect_counts.comparison, slices, alpha=alpha, confidence=confidence)
            slice_notes = no_slice_notes(by, slices[1], "items", aspect_counts.aspect)
    table_of_name = Favoritism.part(
        aspect_counts.aspect,
        metrics={
            **mean_columns(aspect_counts, confidence=confidence, resamples=resamples, rng=rng),
            "std_abs_favi": np.sqrt(mean_of_defined((abs_favi - mean_of_defined(abs_favi)[:, None]) ** 2)),
            "system_accuracy": mean_of_defined(sign_agrees),
            "overall": [metric in aspect_counts.overall for metric in counts.metrics],
        },
        pairs={
            "metric": np.repeat(counts.metrics, len(counts.system_a)),
            "system_a": counts.system_a * len(counts.metrics),
            "system_b": counts.system_b * len(counts.metrics),
            "n": n_shared_items,
            # Division of the counts by the design effect may change the estimate by rounding.
            "favi": favi_scores,
            "favi_low": np.minimum(favi_posterior.low, favi_scores),
            "favi_high": np.maximum(favi_posterior.high, favi_scores),
            "sample_accuracy": favi_score.sample_accuracy(paired_tables),
            "sign_agrees": sign_agrees,
            "flip_probability": favi_posterior.flip_probability,
            "note": np.select(
                [n_shared_items == 0, n_errors == 0, n_errors < FEW_ERRORS],
                ["no item rated by both", "no errors", "too few errors"],
                "",
            ),
            **{
                cell_name: paired_tables[..., cell_index // 3, cell_index % 3]
                for cell_index, cell_name in enumerate(CELLS)
            },
        },
        correlations=correlation_columns(favi_scores, sign_agrees, favi_score.sample_accuracy(paired_tables)),
        # The second system of a pair scores -favi.
        systems={
            "metric": np.repeat(counts.metrics, len(systems)),
            "system": systems * len(counts.metrics),
            "favi": mean_of_defined(favi_matrix),
        },
        partiality=partiality_table,
        slices=slice_table,
    )
    notes = [
        *cluster_notes(aspect_counts, margin_effects(aspect_counts)[0]),
        *favoritism_notes(aspect_counts, partiality_table, n_shared_items, n_errors),
        *few_clusters_notes(aspect_counts.n_clusters, resamples, min_units=FEWEST, aspect=aspect_counts.aspect),
        *slice_notes,
    ]
    return table_of_name, [*aspect_counts.notes, *notes]


def mean_columns(
    aspect_counts: AspectCounts, *, confidence: float, resamples: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the mean |favi| of every metric over pairs of systems with its interval, and the sample accuracy."""
    paired_tables = np.moveaxis(aspect_counts.counts.paired, 1, 0)
    # A mean of absolute values decreases with the number of items, so the interval is for samples of the same size.
    return {
        "metric": aspect_counts.counts.metrics,
        **with_interval(
            "mean_abs_favi",
            _mean_abs_favi(aspect_counts, np.abs(favi_score.favi_score(paired_tables)), resamples, rng),
            confidence,
            clusters=aspect_counts.n_effective_clusters,
            bounds=favi_score.SIZES,
        ),
        "sample_accuracy": favi_score.sample_accuracy(paired_tables.sum(axis=1)),
    }


def _posterior(
    aspect_counts: AspectCounts, paired_tables: NDArray[Any], *, confidence: float, draws: int, rng: np.random.Generator
) -> favi_score.FaviPosterior:
    """Return the posterior of tables (metrics, pairs, 3, 3). With clusters, counts are effective counts."""
    if not has_clusters(aspect_counts):
        return favi_score.favi_posterior(paired_tables, confidence=confidence, draws=draws, rng=rng)
    favi_design_effect, human_design_effect, metric_design_effect = table_effects(
        aspect_counts,
        lambda counts: favi_score.favi_score(counts.paired),
        lambda counts: margin_of(counts.paired.sum(axis=-1)),
        lambda counts: margin_of(counts.paired.sum(axis=-2)),
    )
    # A flip depends on both margins, so the larger of their design effects is used.
    favi_posterior, flip_posterior = (
        favi_score.favi_posterior(
            paired_tables / divisor.T[..., None, None], confidence=confidence, draws=draws, rng=rng
        )
        for divisor in (
            favi_design_effect.divisor(confidence),
            np.maximum(human_design_effect.divisor(confidence), metric_design_effect.divisor(confidence)),
        )
    )
    return favi_posterior._replace(flip_probability=flip_posterior.flip_probability)


def _slice_columns(
    comparison: RaterComparison,
    slices: tuple[tuple[str, ...], Ints],
    *,
    alpha: float,
    confidence: float,
) -> dict[str, Any]:
    """Return the columns of `Favoritism.slices`."""
    slice_names, slice_of_item = slices
    item_positions_of_slice = {
        slice_name: np.flatnonzero(slice_of_item == slice_index)
        for slice_index, slice_name in enumerate(slice_names)
        if (slice_of_item == slice_index).any()
    }
    if not item_positions_of_slice:
        return {}
    n_rows = len(comparison.metrics) * len(comparison.systems)
    return {
        "slice": np.repeat(list(item_positions_of_slice), n_rows).tolist(),
        "n": np.repeat([len(item_positions) for item_positions in item_positions_of_slice.values()], n_rows),
        **{
            column_name: column_values
            for column_name, column_values in partiality_columns(
                [comparison.on_items(item_positions) for item_positions in item_positions_of_slice.values()],
                alpha=alpha,
                confidence=confidence,
            ).items()
            if not column_name.startswith("rank")
        },
    }


def _mean_abs_favi(aspect_counts: AspectCounts, abs_favi: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Return the mean |favi| over pairs for the data and for B samples of resampled clusters, (1 + B, metrics)."""
    if aspect_counts.comparison is None:
        return mean_of_defined(abs_favi)[None]
    cluster_cells = aspect_counts.comparison.cells
    human_signs, sum_functions = cluster_cells.signs[0].astype(np.int16), []
    for metric_signs in cluster_cells.signs[1:]:
        # By Lemma 1, margins and errors are sufficient.
        sign_differences = np.where((metric_signs != ABSENT) & (human_signs != ABSENT), metric_signs - human_signs, 0)
        is_error = sign_differences != 0
        sum_functions.append((cluster_cells.sums(sign_differences, is_error), cluster_cells.sums(is_error, is_error)))
    mean_abs_favi = np.empty((1 + (resamples if aspect_counts.n_clusters > 1 else 0), len(sum_functions)))
    for resample_slice, cluster_weights in cluster_cells.iter_weights(
        resamples, rng, size_per_resample=cluster_cells.n_pairs
    ):
        for metric_index, (compute_difference_sums, compute_error_counts) in enumerate(sum_functions):
            difference_sums, n_errors = compute_difference_sums(cluster_weights), compute_error_counts(cluster_weights)
            has_error = n_errors > 0
            resampled_abs_favi = np.divide(
                np.abs(difference_sums), n_errors, where=has_error, out=np.zeros_like(difference_sums)
            )
            mean_abs_favi[resample_slice, metric_index] = ratio(resampled_abs_favi.sum(axis=0), has_error.sum(axis=0))
    return mean_abs_favi
