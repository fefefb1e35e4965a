"""Sentences on systems that metrics over-rate or under-rate."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from custodes.answers.wording import (
    interval,
    names,
    p_value_phrase,
    plural,
    subject_with_verb,
)
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
    finding_rows = [row for row in view.partial if row["metric"] not in metrics_not_above_chance]
    best_metrics = [standing_row["metric"] for standing_row in view.standing[:1]]
    finding_rows.sort(
        key=lambda row: (row["metric"] not in best_metrics, row["metric"] not in view.leaders, -abs(row["partiality"]))
    )
    finding_groups = near_copy_groups(finding_rows)
    named_groups = finding_groups[:MOST_NAMED]
    yield from (_finding_line(view, finding_group) for finding_group in named_groups)
    metrics_of_all_aspects = set(view.rows("favoritism", "metrics").filter("overall")["metric"])
    metrics_without_aspect = [row["metric"] for row, *_ in named_groups if row["metric"] in metrics_of_all_aspects]
    if metrics_without_aspect:
        yield (
            f"{subject_with_verb(metrics_without_aspect, 'has one score', 'have one score')} for all aspects, so a "
            "system may seem over-rated or under-rated because of its quality on another aspect."
        )
    if not finding_rows:
        yield "No metric that is significantly better than chance significantly over-rates or under-rates a system."
    elif len(finding_groups) > MOST_NAMED:
        n_metrics = conclusive_rows.filter(~pl.col("metric").is_in(metrics_not_above_chance))["metric"].n_unique()
        yield (
            f"In all, {len({row['metric'] for row in finding_rows})} of {plural(n_metrics, 'metric')} that are "
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
    metric, system, verb = finding_row["metric"], finding_row["system"], RATES[finding_row["finding"]]
    rank, rank_without, rank_human = (finding_row[f"rank{suffix}"] for suffix in ("", "_without", "_human"))
    copies = [copy_row["metric"] for copy_row in copy_rows]
    copies_text = (
        f" So {'does its near copy' if len(copies) == 1 else 'do its near copies'} {names(copies, limit=MOST_NAMED)}."
        if copies
        else ""
    )
    p_text = p_value_phrase(finding_row["p_adjusted"])
    # If the rank predicted from the other systems is farther from the human rank than the metric's rank is, the
    # expected score of the system is an extrapolation, such as for a reference text among systems that a metric does
    # not rank by quality.
    if abs(rank_without - rank_human) > abs(rank - rank_human):
        finding_text = (
            f"{metric} {verb} {system}, compared with its scores of the other systems ({p_text}). According to these "
            f"scores, {metric} should give {system} rank {rank_without}; it gives rank {rank}, and the annotators give "
            f"rank {rank_human}. The size of the effect cannot be estimated, because rank {rank_without} is farther "
            f"from the human rank than rank {rank}.{copies_text}"
        )
    else:
        sign = 1 if finding_row["finding"] == FAVOURED else -1  # the direction is given by the verb
        bounds = [finding_row[f"partiality{suffix}"] for suffix in ("_low", "_high")][::sign]
        estimate_and_bounds = (
            None if points is None else sign * points for points in (finding_row["partiality"], *bounds)
        )
        finding_text = (
            f"{metric} {verb} {system} by {interval(*estimate_and_bounds, digits=0)} points of win rate ({p_text}; "
            f"differences in {view.aspect or 'quality'} and sampling error are taken into account).{copies_text} "
            f"{system} has rank {rank_human} by the annotators and rank {rank} by {metric}."
        )
    further_findings = [row for row in view.partial if row["metric"] == metric and row["system"] != system]
    further_text = f" {metric} also {rated_systems(further_findings)}." if further_findings else ""
    return f"{finding_text} Do not compare {system} with other systems by {metric} alone.{further_text}"
