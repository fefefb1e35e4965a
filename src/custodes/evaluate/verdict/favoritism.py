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

    Only metrics that are significantly better than chance have a line. A line reports the first finding of a group.
    The metric that agrees best comes first, then other metrics of the top group, then all remaining metrics. Within
    each of these classes, larger partiality comes first.
    """
    conclusive = view.partiality.filter(pl.col("partiality").is_not_null(), pl.col("finding") != INCONCLUSIVE)
    if not conclusive.height:
        reasons = names(view.partiality["reason"].unique(maintain_order=True).to_list())
        yield f"Whether a metric is partial to a system is inconclusive{': ' if reasons else ''}{reasons}."
        return
    uninformative = view.metrics_on_side("unclear", "below")
    best_metrics = [row["metric"] for row in view.standing[:1]]
    rows = sorted(
        (row for row in view.partial if row["metric"] not in uninformative),
        key=lambda row: (row["metric"] not in best_metrics, row["metric"] not in view.leaders, -abs(row["partiality"])),
    )
    finding_groups = near_copy_groups(rows)
    reported_metrics = [row["metric"] for group in finding_groups[:MOST_NAMED] for row in group]
    for group in finding_groups[:MOST_NAMED]:
        yield _finding_line(view, group)
    yield from _overall_scores(view, reported_metrics)
    informative_metrics = {row["metric"] for group in finding_groups for row in group}
    if not view.partial:
        yield "No metric is significantly partial to a system."
    elif not finding_groups:
        metrics = list(dict.fromkeys(row["metric"] for row in view.partial))
        verb_text, subject_text = (
            (rated_systems(view.partial), "this metric is")
            if len(metrics) == 1
            else ("over-rate or under-rate some system", "these metrics are")
        )
        yield (
            f"Only {names(metrics, limit=MOST_NAMED)} {verb_text}, and {subject_text} not significantly better than "
            "chance."
        )
    elif len(informative_metrics) > len(set(reported_metrics)):
        n_metrics = conclusive.filter(~pl.col("metric").is_in(uninformative))["metric"].n_unique()
        yield (
            f"In all, {len(informative_metrics)} of {plural(n_metrics, 'metric')} that are significantly better than "
            "chance over-rate or under-rate some system."
        )
    is_inconclusive = (pl.col("finding") == INCONCLUSIVE).all().over("system")
    systems = view.partiality.filter(is_inconclusive)["system"].unique(maintain_order=True).to_list()
    if systems:
        yield f"Whether a metric is partial to {names(systems)} is inconclusive."


def near_copy_groups(rows: list[Row]) -> list[list[Row]]:
    """Return groups of findings. A group has the first finding of a metric and the same finding of its near copies.
    Each metric is in exactly one group."""
    groups: list[list[Row]] = []
    grouped_metrics: set[str] = set()
    for row in rows:
        if row["metric"] not in grouped_metrics:
            copies = [
                other
                for other in rows
                if other["metric"] in row["near_copies"]
                and other["metric"] not in grouped_metrics
                and (other["system"], other["finding"]) == (row["system"], row["finding"])
            ]
            groups.append([row, *copies])
            grouped_metrics |= {one["metric"] for one in groups[-1]}
    return groups


def do_near_copies(copies: list[str]) -> str:
    """Return the words after `so` in a sentence on near copies that have the same finding."""
    return f"{'does its near copy' if len(copies) == 1 else 'do its near copies'} {names(copies)}"


def _finding_line(view: AspectResults, group: list[Row]) -> str:
    """Return a line on the finding of the first metric of a group, with ranks, near copies and further findings."""
    row, *copy_rows = group
    metric, system = row["metric"], row["system"]
    value, low, high = (row[f"partiality{end}"] for end in ("", "_low", "_high"))
    if row["finding"] != FAVOURED:  # the direction is given by the verb
        value, low, high = (None if one is None else -one for one in (value, high, low))
    is_uncertain = _has_uncertain_size(row)
    copy_texts = [
        other["metric"] + ("" if is_uncertain else f" ({number(abs(other['partiality']), digits=0)} points)")
        for other in copy_rows
    ]
    copy_subject = "Its near copy also" if len(copy_rows) == 1 else "Its near copies also"
    copy_verb = RATES[row["finding"]] if len(copy_rows) == 1 else RATES[row["finding"]].removesuffix("s")
    copies_text = f" {copy_subject} {copy_verb} {system}: {names(copy_texts, limit=MOST_NAMED)}." if copy_rows else ""
    p_text = p_value_phrase(row["p_adjusted"])
    if is_uncertain:
        finding_text = (
            f"{metric} {RATES[row['finding']]} {system}, compared with its scores of the other systems ({p_text}). "
            f"According to these scores, {metric} should give {system} rank {row['rank_without']}; it gives rank "
            f"{row['rank']}, and the annotators give rank {row['rank_human']}. The expected rank is farther from the "
            f"human rank than the rank by {metric}, so the size of the effect cannot be estimated.{copies_text}"
        )
    else:
        finding_text = (
            f"{metric} {RATES[row['finding']]} {system} by {interval(value, low, high, digits=0)} points of win rate, "
            f"adjusted for {view.aspect or 'quality'} and sampling error ({p_text}).{copies_text} {system} has rank "
            f"{row['rank_human']} by the annotators and rank {row['rank']} by {metric}."
        )
    text = f"{finding_text} Do not compare {system} with other systems by {metric} alone."
    further_findings = [other for other in view.partial if other["metric"] == metric and other["system"] != system]
    return f"{text} {metric} also {rated_systems(further_findings)}." if further_findings else text


def _has_uncertain_size(row: Row) -> bool:
    """Return whether the rank predicted from the other systems is farther from the human rank than the metric's rank
    is.

    The expected score of the system is then an extrapolation, such as for a reference text among systems that a metric
    does not rank by quality.
    """
    return bool(abs(row["rank_without"] - row["rank_human"]) > abs(row["rank"] - row["rank_human"]))


def _overall_scores(view: AspectResults, metrics: list[str]) -> Iterator[str]:
    """Yield a sentence on metrics that have no score for the aspect, so that scores without an aspect are used."""
    metrics_without_aspect = set(view.overall.filter("overall")["metric"])
    if affected_metrics := [name for name in metrics if name in metrics_without_aspect]:
        subject_text = (
            "Every metric has one score for all aspects"
            if view.overall["overall"].all()
            else f"{subject_with_verb(affected_metrics, 'has one score', 'have one score')} for all aspects"
        )
        yield f"{subject_text}, so apparent partiality may reflect quality on another aspect."


def flips(view: AspectResults) -> Iterator[str]:
    """Yield sentences on human decisions: how often they replicate, and which of them a metric reverses."""
    human_decisions = view.decisions.filter(rater=HUMAN)
    if not view.errors["correct"].count() or not human_decisions.height:
        return
    yield from map(sentence, view.replicated)
    # Metrics that agree less than by chance may have the opposite direction, so they reverse many decisions.
    below = view.metrics_on_side("below")
    reversals = [
        (row["better"], row["worse"], metrics)
        for row in view.reversals.to_dicts()
        if (metrics := [name for name in row["metrics"] if name not in below])
    ]
    has_reversal_below = any(name in below for metrics in view.reversals["metrics"] for name in metrics)
    if not reversals:
        without_text = ", except metrics that agree less than by chance," if has_reversal_below else ""
        yield (
            f"No metric{without_text} significantly reverses a decision of the annotators (all metrics and pairs "
            "tested together)."
        )
    for better, worse, metrics in sorted(reversals, key=lambda row: -len(row[2]))[:MOST_NAMED]:
        yield (
            f"Annotators rate {better} significantly better than {worse}; {subject_with_verb(metrics, 'says', 'say')} "
            "the opposite."
        )
    if len(reversals) > MOST_NAMED:
        yield f"In all, {plural(len(reversals), 'pair')} are significantly reversed by some metric."
    if reversals and has_reversal_below:
        yield "Metrics that agree with the annotators less than by chance are not counted here."
