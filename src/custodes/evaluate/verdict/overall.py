"""Sentences on findings over all aspects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from custodes.answers.wording import names, number, percent, plural, subject_with_verb
from custodes.evaluate.verdict.annotators import BY_CHANCE, UNCLEAR, grades
from custodes.evaluate.verdict.favoritism import near_copy_groups
from custodes.evaluate.verdict.systems import (
    candidates_text,
    forecast_text,
    lacks_forecast,
    more_ratings_text,
    pair_forecast_text,
    undecided,
)
from custodes.evaluate.verdict.view import MOST_NAMED, RATES, AspectResults, applicable, grouped
from custodes.evaluate.verdict.weaknesses import (
    decisions_of,
    inconclusive_systems,
    is_length_tested,
    is_no_better_than_none,
    is_partiality_tested,
)


def design(views: Sequence[AspectResults]) -> Iterator[str]:
    """Return sentences on aspects on which the annotators agree no better than by chance."""
    grades_of_aspect = {view.aspect: grades(view) for view in views}
    chance_level_aspects = [aspect for aspect, aspect_grades in grades_of_aspect.items() if BY_CHANCE in aspect_grades]
    unclear_aspects = [
        aspect
        for aspect, aspect_grades in grades_of_aspect.items()
        if UNCLEAR in aspect_grades and BY_CHANCE not in aspect_grades
    ]
    return applicable(
        (
            chance_level_aspects,
            f"On {_aspects_text(chance_level_aspects, views)}, annotators agree no better than by chance on single "
            "outputs: check the scale and the names of items and systems before you report results of such an aspect.",
        ),
        (
            unclear_aspects,
            f"On {_aspects_text(unclear_aspects, views)}, annotators do not agree significantly better than by chance "
            "on single outputs, so conclusions need means over many items or annotators.",
        ),
    )


def best(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on the systems in the top group of every aspect."""
    top_groups = [view.top for view in views if not (view.sided or view.split or view.not_random) and view.board]
    if len(top_groups) < len(views) or not all(top_groups):
        return
    all_aspects_text = _all_aspects_text(views)
    systems_in_every_top = [system for system in top_groups[0] if all(system in top_group for top_group in top_groups)]
    aspects_with_single_top = [
        view.aspect for view, top_group in zip(views, top_groups, strict=True) if len(top_group) == 1
    ]
    if len(systems_in_every_top) == 1 and len(aspects_with_single_top) == len(views):
        yield f"{systems_in_every_top[0]} is best on {all_aspects_text}."
        if systems_in_every_top[0] in views[0].reference_systems:
            yield f"This system looks like the reference. Of the other systems, {_first_text(views, position=1)}."
    elif systems_in_every_top:
        only_prefix = "Only " if len(systems_in_every_top) == 1 else ""
        top_text = subject_with_verb(systems_in_every_top, "is", "are")
        single_top_text = (
            f" On {names(aspects_with_single_top)}, {systems_in_every_top[0]} is best."
            if aspects_with_single_top
            else ""
        )
        yield (
            f"{_first_text(views, position=0)}. {only_prefix}{top_text} in the top group (not significantly worse than "
            f"any other system) on {all_aspects_text}.{single_top_text}"
        )
    else:
        top_texts = [
            " or ".join(top_group) if len(top_group) <= MOST_NAMED else f"one of {len(top_group)}"
            for top_group in top_groups
        ]
        aspect_texts = [f"{group_text} on {view.aspect}" for view, group_text in zip(views, top_texts, strict=True)]
        yield f"No system is in the top group on every aspect. The best system is {names(aspect_texts)}."
    n_candidates_of_aspect = {view.aspect: len(top_group) for view, top_group in zip(views, top_groups, strict=True)}
    n_other_candidates_of_aspect = {
        view.aspect: 1 + sum(view.is_undecided(view.board[1], system_row) for system_row in view.board[2:])
        for view in views
        if view.board[0]["system"] in view.reference_systems
    }
    for systems_text, n_of_aspect in (
        ("system", n_candidates_of_aspect),
        ("of the other systems", n_other_candidates_of_aspect),
    ):
        aspect_texts = [
            f"{aspect} ({plural(n_candidates, 'candidate')})"
            for aspect, n_candidates in n_of_aspect.items()
            if n_candidates > 1
        ]
        if aspect_texts:
            yield f"Which {systems_text} is best is undecided on {names(aspect_texts)}."


def _first_text(views: Sequence[AspectResults], *, position: int) -> str:
    """Return clauses on the systems at `position` of the rankings, with the aspects of each system."""
    aspects_of_system = grouped((view.board[position]["system"], view.aspect) for view in views)
    return "; ".join(
        f"{system} ranks first on {_aspects_text(aspects, views)}" for system, aspects in aspects_of_system.items()
    )


def trust(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield sentences on the metrics that are in the top group and better than chance on every aspect."""
    metrics_in_every_top = leaders_everywhere(views)
    if not metrics_in_every_top:
        leader_texts = [f"{view.leaders[0]} on {view.aspect}" for view in views if view.leaders]
        leaders_text = (
            f"; {subject_with_verb(leader_texts, 'agrees', 'agree')} best with the annotators" if leader_texts else ""
        )
        yield f"No metric is in the top group and better than chance on every aspect{leaders_text}."
        return
    yield (
        f"On {_all_aspects_text(views)}, {subject_with_verb(metrics_in_every_top, 'is', 'are')} significantly better "
        "than chance and not significantly worse than any other metric"
        f"{' (best mean rank first)' if len(metrics_in_every_top) > 1 else ''}."
    )
    metrics_of_finding = grouped(
        (finding, metric) for metric in metrics_in_every_top for finding in _findings(views, metric)
    )
    metrics_without_partiality = [metric for metric in metrics_in_every_top if not _findings(views, metric)]
    if metrics_of_finding:
        partiality_text = names(
            [
                f"{subject_with_verb(metrics, finding_verb, finding_verb.removesuffix('s'))} {system_text}"
                for (finding_verb, system_text), metrics in metrics_of_finding.items()
            ],
            limit=MOST_NAMED,
        )
        no_partiality_text = (
            f"; no partiality of {names(metrics_without_partiality, limit=MOST_NAMED)} is significant (all aspects "
            "tested together)"
            if metrics_without_partiality
            else ""
        )
        yield f"Of these metrics, {partiality_text}{no_partiality_text}."
    is_only_impartial = metrics_of_finding and len(metrics_without_partiality) == 1
    without_partiality_text = (
        " without significant partiality" if metrics_of_finding and metrics_without_partiality else ""
    )
    reason_text = (
        f": it {'is the only one' if is_only_impartial else 'has the best mean rank'} of these "
        f"metrics{without_partiality_text}"
        if len(metrics_in_every_top) > 1
        else ""
    )
    provisional_text = (
        "The following choice is provisional, because the reference is among the systems. "
        if views[0].reference_systems
        else ""
    )
    chosen_metric = candidate(views)
    yield (
        f"{provisional_text}If one metric is needed for {_all_aspects_text(views)}, use {chosen_metric}{reason_text}."
    )
    if all(view.ordered for view in views):
        agreement_values = [
            standing_row["value"]
            for view in views
            for standing_row in view.standing
            if standing_row["metric"] == chosen_metric
        ]
        yield (
            f"For {chosen_metric}, Kendall's τ within items is {_range(agreement_values, number)}, depending on the "
            "aspect (0: chance, 1: the order of the annotators)."
        )
    yield from _best_of_aspects(views)


def _best_of_aspects(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on the best metric of each aspect, if one metric is not the best on all."""
    aspects_of_metric = grouped((metric, view.aspect) for view in views for metric in view.leaders[:1])
    if len(aspects_of_metric) > 1:
        best_texts = [f"{metric} ({names(aspects)})" for metric, aspects in aspects_of_metric.items()]
        decided_aspects = [view.aspect for view in views if len(view.leaders) == 1]
        lead_text = (
            f"significant on {_aspects_text(decided_aspects, views)}"
            if decided_aspects
            else "not significant on any aspect"
        )
        yield (
            f"If only one aspect matters, the metric with the highest agreement is {', '.join(best_texts)}. The lead "
            f"of such a metric over all other metrics is {lead_text}."
        )


def decisions(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on the decisions of the metric that `trust` names, on each aspect."""
    metric = candidate(views)
    error_row_of_aspect = {
        view.aspect: error_row for view in _of_systems(views) if (error_row := decisions_of(view, metric))
    }
    if error_row_of_aspect:
        correct_text, undecided_text = (
            names([f"{aspect} {percent(error_row[column_name])}" for aspect, error_row in error_row_of_aspect.items()])
            for column_name in ("correct", "undecided")
        )
        reversed_text, missed_text, additional_text = (
            _range([error_row[error_name] for error_row in error_row_of_aspect.values()], percent)
            for error_name in ("inversion", "omission", "insertion")
        )
        yield (
            f"{metric} reaches the same decision as the annotators (better, worse or undecided) on these proportions "
            f"of the pairs of systems: {correct_text}. A metric that decided no pair would reach {undecided_text}. "
            f"Depending on the aspect, {metric} reverses {reversed_text} of the pairs, misses a difference in "
            f"{missed_text} and finds a difference that the annotators do not confirm in {additional_text}."
        )


def weaknesses(views: Sequence[AspectResults]) -> Iterator[str]:
    """Return sentences on the weaknesses of the metric that `trust` names, over all aspects."""
    metric, system_views = candidate(views), _of_systems(views)
    useless_views = [view for view in system_views if is_no_better_than_none(decisions_of(view, metric))]
    best_metric_of_view = {view: view.standing[0]["metric"] for view in useless_views}
    are_best_metrics_useless = {*best_metric_of_view.values()} != {metric} and all(
        is_no_better_than_none(decisions_of(view, best_metric)) for view, best_metric in best_metric_of_view.items()
    )
    best_metric_text = " The same holds for decisions by the metric with the highest agreement there."
    findings = _findings(views, metric)
    unclear_texts = [
        f"{system} on {view.aspect}" for view in system_views for system in inconclusive_systems(view, metric)
    ]
    return applicable(
        (
            useless_views,
            f"In these data, decisions by {metric} are no better than no decision on "
            f"{_aspects_text([view.aspect for view in useless_views], views)}: use human ratings there."
            f"{best_metric_text if are_best_metrics_useless else ''}",
        ),
        (
            metric in views[0].metrics_of_reference,
            f"{metric} uses the reference, which is one of the systems here, so its agreement is distorted.",
        ),
        (findings, f"{metric} {names([' '.join(finding) for finding in findings])}."),
        (
            not findings and any(is_partiality_tested(view, metric) for view in system_views),
            f"{metric} does not significantly over-rate or under-rate any system (all aspects tested together), but "
            "this does not show that it rates all systems fairly.",
        ),
        (unclear_texts, f"Whether {metric} over-rates or under-rates {names(unclear_texts)} is inconclusive."),
        (
            metric and not any(is_length_tested(view, metric) for view in views),
            f"Whether {metric} prefers longer outputs is not tested: the test needs texts of the outputs.",
        ),
    )


def labels(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield sentences on the comparisons that would decide which system is best."""
    views_with_ranking = [view for view in _of_systems(views) if view.board and not view.not_random]
    undecided_of_aspect = {view.aspect: undecided(view) for view in views_with_ranking}
    leading_references = {view.board[0]["system"] for view in views_with_ranking} & views[0].reference_systems
    if views[0].has_problems:
        yield "First solve the problems under 'Read this first'."
    if leading_references:
        provisional_text = " Until then, the metric named above is provisional." if candidate(views) else ""
        yield (
            f"{'Then exclude' if views[0].has_problems else 'Exclude'} the reference (--systems "
            f"'!{min(leading_references)}') and summarise again, to learn which of the other systems is best and which "
            f"metric agrees best on them.{provisional_text}"
        )
        return
    decided_aspects = [
        view.aspect for view in views_with_ranking if len(view.top) == 1 and not undecided_of_aspect[view.aspect].n_top
    ]
    ranked_forecasts = [
        (
            view.board[0]["system"] not in (system_a, system_b),
            n_comparisons,
            f"{pair_forecast_text(system_a, system_b, n_comparisons)} ({view.aspect})",
        )
        for view in views_with_ranking
        for system_a, system_b, n_comparisons in undecided_of_aspect[view.aspect].forecasts
    ]  # pairs with the system that ranks first come first
    views_without_forecast = [
        view for view in views_with_ranking if lacks_forecast(view, undecided_of_aspect[view.aspect])
    ]
    candidates_texts = [candidates_text(view) for view in views_without_forecast]
    yield from applicable(
        (
            decided_aspects,
            f"On {_aspects_text(decided_aspects, views)}, more comparisons are not needed to name the best system.",
        ),
        (ranked_forecasts, forecast_text([text for *_, text in sorted(ranked_forecasts)[:MOST_NAMED]])),
        (
            views_without_forecast,
            more_ratings_text(
                candidates_texts[0] if len(candidates_texts) == 1 else "the candidates",
                f" on {_aspects_text([view.aspect for view in views_without_forecast], views)}",
            ),
        ),
    )


def candidate(views: Sequence[AspectResults]) -> str:
    """Return the metric with the best mean rank among those in the top group of every aspect; '' if no metric is in the
    top group of every aspect.

    A metric without significant partiality comes first.
    """
    leading_metrics = leaders_everywhere(views)
    return next(
        (metric for metric in leading_metrics if not _findings(views, metric)),
        leading_metrics[0] if leading_metrics else "",
    )


def _findings(views: Sequence[AspectResults], metric: str) -> list[tuple[str, str]]:
    """Return the significant findings of partiality of a metric: `over-rates` and `SYSTEM on ASPECT and ASPECT`.

    A finding that does not occur on every aspect must be significant after adjustment for the number of aspects.
    """
    system_views = _of_systems(views)
    aspects_and_p_of_finding = grouped(
        ((RATES[partiality_row["finding"]], partiality_row["system"]), (view.aspect, partiality_row["p_adjusted"]))
        for view in system_views
        for partiality_row in view.partial
        if partiality_row["metric"] == metric
    )
    aspects_of_finding = {
        finding: [
            aspect
            for aspect, p_adjusted in aspects_and_p
            if len(aspects_and_p) == len(system_views) or p_adjusted * len(system_views) <= views[0].alpha
        ]
        for finding, aspects_and_p in aspects_and_p_of_finding.items()
    }
    return [
        (finding_verb, f"{system} on {_aspects_text(aspects, views)}")
        for (finding_verb, system), aspects in aspects_of_finding.items()
        if aspects
    ]


def _of_systems(views: Sequence[AspectResults]) -> list[AspectResults]:
    """Return the aspects that compare systems, not sides of a pair."""
    return [view for view in views if not view.sided]


def _range(values_of_aspects: Sequence[float], write: Callable[[float], str]) -> str:
    """Return the smallest and the largest value as text; one number if both have the same text."""
    low_text, high_text = write(min(values_of_aspects)), write(max(values_of_aspects))
    return low_text if low_text == high_text else f"{low_text} to {high_text}"


def leaders_everywhere(views: Sequence[AspectResults]) -> list[str]:
    """Return the metrics that are in the top group and better than chance on every aspect, by their mean rank."""
    leaders_of_views = [{*view.leaders} & {*view.metrics_on_side("above")} for view in views]
    ranks_of_views = [
        {standing_row["metric"]: rank for rank, standing_row in enumerate(view.standing)} for view in views
    ]
    return sorted(
        set.intersection(*leaders_of_views),
        key=lambda metric: (sum(rank_of_metric[metric] for rank_of_metric in ranks_of_views), metric),
    )


def chance(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield sentences on metrics that are significantly better than chance on no aspect, or worse on some aspects."""
    metrics_above_chance, metrics_below_chance = (
        {metric for view in views for metric in view.metrics_on_side(side)} for side in ("above", "below")
    )
    metrics = list(dict.fromkeys(standing_row["metric"] for view in views for standing_row in view.standing))
    unclear_metrics = [metric for metric in metrics if metric not in metrics_above_chance | metrics_below_chance]
    if unclear_metrics and metrics_above_chance | metrics_below_chance:
        yield f"{subject_with_verb(unclear_metrics, 'is', 'are')} not significantly better than chance on any aspect."
    for metric in metrics:
        if metric in metrics_below_chance - metrics_above_chance:
            aspects_below_chance = [view.aspect for view in views if metric in view.metrics_on_side("below")]
            yield (
                f"{metric} is not significantly better than chance on any aspect, and agrees with the annotators "
                f"significantly less than by chance on {names(aspects_below_chance)}."
            )


def favours(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield findings of partiality that occur on every aspect, for metrics that are above chance on some aspect.

    Metrics in the top group of every aspect come first. Within the top group, and within all other metrics, larger
    partiality (on the last aspect) comes first.
    """
    metrics_in_every_top = leaders_everywhere(views)
    metrics_above_chance = {metric for view in views for metric in view.metrics_on_side("above")}
    system_views = _of_systems(views)
    rows_of_finding = grouped(
        ((finding_row["metric"], finding_row["system"], finding_row["finding"]), finding_row)
        for view in system_views
        for finding_row in view.partial
    )
    common_findings = [
        finding_rows[-1]
        for (metric, *_), finding_rows in rows_of_finding.items()
        if metric in metrics_above_chance and len(finding_rows) == len(system_views)
    ]
    finding_groups = near_copy_groups(
        sorted(
            common_findings,
            key=lambda finding_row: (
                finding_row["metric"] not in metrics_in_every_top,
                -abs(finding_row["partiality"]),
            ),
        )
    )
    for finding_row, *copy_rows in finding_groups[:MOST_NAMED]:
        so_text = ", and so does its near copy" if len(copy_rows) == 1 else ", and so do its near copies"
        copies_text = f"{so_text} {names([copy_row['metric'] for copy_row in copy_rows])}" if copy_rows else ""
        yield (
            f"{finding_row['metric']} {RATES[finding_row['finding']]} {finding_row['system']} on "
            f"{_all_aspects_text(system_views)}{copies_text}."
        )
    if len(finding_groups) > MOST_NAMED:
        n_metrics_text = plural(len({finding_row["metric"] for finding_row in common_findings}), "metric")
        yield f"In all, {n_metrics_text} over-rate or under-rate some system on every aspect."


def _aspects_text(aspects: Sequence[str], views: Sequence[AspectResults]) -> str:
    return _all_aspects_text(views) if len(aspects) == len(views) else names(aspects)


def _all_aspects_text(views: Sequence[AspectResults]) -> str:
    return "both aspects" if len(views) == 2 else f"all {len(views)} aspects"
