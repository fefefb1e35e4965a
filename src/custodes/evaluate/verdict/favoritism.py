"""Sentences on systems that metrics over-rate or under-rate, and on human decisions that metrics reverse."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from custodes.answers.wording import (
    interval,
    names,
    number,
    p_value_phrase,
    plural,
    sentence,
    subject_with_verb,
)
from custodes.data.comparisons import HUMAN
from custodes.evaluate.partiality_table import FAVOURED, INCONCLUSIVE
from custodes.evaluate.verdict.view import MOST_NAMED, RATES, AspectResults, Row, rated_systems


def favours(view: AspectResults) -> Iterator[str]:
    """Yield lines on systems that a metric over-rates or under-rates, one per group of near copies.

    Only metrics that are significantly better than chance have a line. A line reports the first finding of a group. The
    metric that agrees best comes first, then other metrics of the top group, then all remaining metrics. Within each
    class of metrics, larger partiality comes first.
    """
    conclusive_rows = view.partiality.filter(pl.col("partiality").is_not_null(), pl.col("finding") != INCONCLUSIVE)
    if not conclusive_rows.height:
        reasons_text = names(view.partiality["reason"].unique(maintain_order=True).to_list())
        yield (
            "Whether a metric over-rates or under-rates a system is inconclusive"
            f"{': ' if reasons_text else ''}{reasons_text}."
        )
        return
    metrics_not_above_chance = view.metrics_on_side("unclear", "below")
    best_metrics = [standing_row["metric"] for standing_row in view.standing[:1]]
    finding_rows = sorted(
        (finding_row for finding_row in view.partial if finding_row["metric"] not in metrics_not_above_chance),
        key=lambda finding_row: (
            finding_row["metric"] not in best_metrics,
            finding_row["metric"] not in view.leaders,
            -abs(finding_row["partiality"]),
        ),
    )
    finding_groups = near_copy_groups(finding_rows)
    reported_metrics = [
        finding_row["metric"] for finding_group in finding_groups[:MOST_NAMED] for finding_row in finding_group
    ]
    for finding_group in finding_groups[:MOST_NAMED]:
        yield _finding_line(view, finding_group)
    yield from _overall_scores(view, reported_metrics)
    n_metrics_with_finding = len({finding_row["metric"] for finding_row in finding_rows})
    if not view.partial:
        yield "No metric significantly over-rates or under-rates a system."
    elif not finding_rows:
        metrics_with_partiality = list(dict.fromkeys(finding_row["metric"] for finding_row in view.partial))
        verb_text, subject_text = (
            (rated_systems(view.partial), "this metric is")
            if len(metrics_with_partiality) == 1
            else ("over-rate or under-rate some system", "these metrics are")
        )
        yield (
            f"Only {names(metrics_with_partiality, limit=MOST_NAMED)} {verb_text}, and {subject_text} not "
            "significantly better than chance."
        )
    elif n_metrics_with_finding > len(reported_metrics):
        rows_above_chance = conclusive_rows.filter(~pl.col("metric").is_in(metrics_not_above_chance))
        yield (
            f"In all, {n_metrics_with_finding} of {plural(rows_above_chance['metric'].n_unique(), 'metric')} that are "
            "significantly better than chance over-rate or under-rate some system."
        )
    inconclusive_rows = view.partiality.filter((pl.col("finding") == INCONCLUSIVE).all().over("system"))
    inconclusive_systems = inconclusive_rows["system"].unique(maintain_order=True).to_list()
    if inconclusive_systems:
        yield f"Whether a metric over-rates or under-rates {names(inconclusive_systems)} is inconclusive."


def near_copy_groups(finding_rows: list[Row]) -> list[list[Row]]:
    """Return groups of findings. A group has the first finding of a metric and the same finding of its near copies.
    Each metric is in exactly one group."""
    finding_groups: list[list[Row]] = []
    grouped_metrics: set[str] = set()
    for finding_row in finding_rows:
        if finding_row["metric"] not in grouped_metrics:
            copy_rows = [
                other_row
                for other_row in finding_rows
                if other_row["metric"] in finding_row["near_copies"]
                and other_row["metric"] not in grouped_metrics
                and (other_row["system"], other_row["finding"]) == (finding_row["system"], finding_row["finding"])
            ]
            finding_groups.append([finding_row, *copy_rows])
            grouped_metrics |= {group_row["metric"] for group_row in finding_groups[-1]}
    return finding_groups


def _finding_line(view: AspectResults, finding_group: list[Row]) -> str:
    """Return a line on the finding of the first metric of a group, with ranks, near copies and further findings."""
    finding_row, *copy_rows = finding_group
    metric, system = finding_row["metric"], finding_row["system"]
    partiality, low, high = (finding_row[f"partiality{suffix}"] for suffix in ("", "_low", "_high"))
    if finding_row["finding"] != FAVOURED:  # the direction is given by the verb
        partiality, low, high = (
            None if estimate_or_bound is None else -estimate_or_bound for estimate_or_bound in (partiality, high, low)
        )
    # If the rank predicted from the other systems is farther from the human rank than the metric's rank is, the
    # expected score of the system is an extrapolation, such as for a reference text among systems that a metric does
    # not rank by quality.
    is_effect_extrapolated = abs(finding_row["rank_without"] - finding_row["rank_human"]) > abs(
        finding_row["rank"] - finding_row["rank_human"]
    )
    copy_texts = [
        copy_row["metric"]
        + ("" if is_effect_extrapolated else f" ({number(abs(copy_row['partiality']), digits=0)} points)")
        for copy_row in copy_rows
    ]
    verb = RATES[finding_row["finding"]]
    copy_clause = (
        f"Its near copy also {verb}" if len(copy_rows) == 1 else f"Its near copies also {verb.removesuffix('s')}"
    )
    copies_text = f" {copy_clause} {system}: {names(copy_texts, limit=MOST_NAMED)}." if copy_rows else ""
    p_text = p_value_phrase(finding_row["p_adjusted"])
    if is_effect_extrapolated:
        finding_text = (
            f"{metric} {verb} {system}, compared with its scores of the other systems "
            f"({p_text}). According to these scores, {metric} should give {system} rank {finding_row['rank_without']}; "
            f"it gives rank {finding_row['rank']}, and the annotators give rank {finding_row['rank_human']}. The size "
            f"of the effect cannot be estimated, because rank {finding_row['rank_without']} is farther from the human "
            f"rank than rank {finding_row['rank']}.{copies_text}"
        )
    else:
        finding_text = (
            f"{metric} {verb} {system} by {interval(partiality, low, high, digits=0)} points of win rate ({p_text}; "
            f"differences in {view.aspect or 'quality'} and sampling error are taken into account).{copies_text} "
            f"{system} has rank {finding_row['rank_human']} by the annotators and rank {finding_row['rank']} by "
            f"{metric}."
        )
    further_findings = [
        other_row for other_row in view.partial if other_row["metric"] == metric and other_row["system"] != system
    ]
    further_text = f" {metric} also {rated_systems(further_findings)}." if further_findings else ""
    return f"{finding_text} Do not compare {system} with other systems by {metric} alone.{further_text}"


def _overall_scores(view: AspectResults, metrics: list[str]) -> Iterator[str]:
    """Yield a sentence on metrics that have no score for the aspect, so that scores without an aspect are used."""
    metric_rows = view.rows("favoritism", "metrics")
    metrics_without_aspect = set(metric_rows.filter("overall")["metric"])
    if single_score_metrics := [metric for metric in metrics if metric in metrics_without_aspect]:
        subject_text = (
            "Every metric has one score for all aspects"
            if metric_rows["overall"].all()
            else f"{subject_with_verb(single_score_metrics, 'has one score', 'have one score')} for all aspects"
        )
        yield (
            f"{subject_text}, so a system may seem over-rated or under-rated because of its quality on another aspect."
        )


def flips(view: AspectResults) -> Iterator[str]:
    """Yield sentences on human decisions: how often they replicate, and which of them a metric reverses."""
    if not view.rows("ranking", "errors")["correct"].count() or view.decisions.filter(rater=HUMAN).is_empty():
        return
    yield from map(sentence, view.messages("ranking", "self-agreement"))
    # Metrics that agree less than by chance may have the opposite direction, so they reverse many decisions.
    metrics_below_chance = view.metrics_on_side("below")
    reversal_rows = view.rows("ranking", "reversals")
    reversal_tuples = [
        (reversal_row["better"], reversal_row["worse"], metrics)
        for reversal_row in reversal_rows.to_dicts()
        if (metrics := [metric for metric in reversal_row["metrics"] if metric not in metrics_below_chance])
    ]
    has_below_chance_reversal = any(
        metric in metrics_below_chance for metrics in reversal_rows["metrics"] for metric in metrics
    )
    if not reversal_tuples:
        exception_text = ", except metrics that agree less than by chance," if has_below_chance_reversal else ""
        yield (
            f"No metric{exception_text} significantly reverses a decision of the annotators (all metrics and pairs "
            "tested together)."
        )
    for better_system, worse_system, metrics in sorted(
        reversal_tuples, key=lambda reversal_tuple: -len(reversal_tuple[2])
    )[:MOST_NAMED]:
        yield (
            f"Annotators rate {better_system} significantly better than {worse_system}; "
            f"{subject_with_verb(metrics, 'says', 'say')} the opposite."
        )
    if reversal_tuples and has_below_chance_reversal:
        yield "Metrics that agree with the annotators less than by chance are not counted here."
