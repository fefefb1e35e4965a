"""Sentences on findings over all aspects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from custodes.answers.wording import names, number, percent, plural, subject_with_verb
from custodes.evaluate.verdict.annotators import BY_CHANCE, UNCLEAR, grades
from custodes.evaluate.verdict.favoritism import near_copy_groups
from custodes.evaluate.verdict.systems import (
    candidates_text,
    forecast_text,
    forecasts,
    lacks_forecast,
    more_ratings_text,
    pair_forecast_text,
    top_pairs,
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
    """Yield sentences on aspects on which the annotators do not agree significantly better than by chance."""
    for grade in (BY_CHANCE, UNCLEAR):
        aspects = [view.aspect for view in views if grade in grades(view)]
        if aspects:
            yield f"On {_aspects_text(aspects, views)}, {grade}"


def best(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield sentences on the systems in the top group of every aspect."""
    top_of_aspect = {
        view.aspect: view.top for view in views if view.top and not (view.sided or view.split or view.not_random)
    }
    if len(top_of_aspect) < len(views):
        return
    all_aspects_text = _aspects_text(list(top_of_aspect), views)
    systems_in_every_top = [
        system for system in views[0].top if all(system in top_group for top_group in top_of_aspect.values())
    ]
    candidates_texts = [
        f"{aspect} ({len(top_group)} candidates)" for aspect, top_group in top_of_aspect.items() if len(top_group) > 1
    ]
    if systems_in_every_top and not candidates_texts:
        yield f"{systems_in_every_top[0]} is best on {all_aspects_text}."
        return
    aspects_of_system = grouped((view.board[0]["system"], view.aspect) for view in views)
    first_texts = [
        f"{system} ranks first on {_aspects_text(aspects, views)}" for system, aspects in aspects_of_system.items()
    ]
    top_text = subject_with_verb(systems_in_every_top or ["No system"], "is", "are")
    yield (
        f"{'; '.join(first_texts)}. {'Only ' if len(systems_in_every_top) == 1 else ''}{top_text} in the top group "
        f"(not significantly worse than any other system) on {all_aspects_text}."
    )
    if candidates_texts:
        yield f"Which system is best is undecided on {names(candidates_texts)}."


def trust(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield sentences on the metrics that are in the top group and better than chance on every aspect."""
    metrics_in_every_top, chosen_metric = leaders_everywhere(views), candidate(views)
    all_aspects_text = _aspects_text([view.aspect for view in views], views)
    if metrics_in_every_top:
        impartial_text = "" if _findings(views, chosen_metric) else " without significant partiality"
        yield (
            f"On {all_aspects_text}, {subject_with_verb(metrics_in_every_top, 'is', 'are')} significantly better than "
            "chance and not significantly worse than any other metric."
        )
        reason_text = (
            f": it has the best mean rank of these metrics{impartial_text}" if len(metrics_in_every_top) > 1 else ""
        )
        yield f"If one metric is needed for {all_aspects_text}, use {chosen_metric}{reason_text}."
    else:
        yield "No metric is in the top group and better than chance on every aspect."
    if metrics_in_every_top and all(view.ordered for view in views):
        agreement_values = [row["value"] for view in views for row in view.standing if row["metric"] == chosen_metric]
        yield (
            f"For {chosen_metric}, Kendall's τ within items is {_range(agreement_values, number)}, depending on the "
            "aspect (0: chance, 1: the order of the annotators)."
        )
    aspects_of_metric = grouped((metric, view.aspect) for view in views for metric in view.leaders[:1])
    best_texts = [f"{metric} on {names(aspects)}" for metric, aspects in aspects_of_metric.items()]
    if len(best_texts) > 1:
        yield f"On single aspects, the metrics with the highest agreement are {names(best_texts)}."


def decisions(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on the decisions of the metric that `trust` names, on each aspect."""
    metric = candidate(views)
    decision_texts = [
        f"{view.aspect} {percent(error_row['correct'])} ({percent(error_row['undecided'])})"
        for view in _of_systems(views)
        if (error_row := decisions_of(view, metric))
    ]
    if decision_texts:
        yield (
            f"{metric} reaches the same decision as the annotators (better, worse or undecided) on these proportions "
            "of the pairs of systems (in brackets: the proportion for a metric that decides no pair): "
            f"{names(decision_texts)}."
        )


def weaknesses(views: Sequence[AspectResults]) -> Iterator[str]:
    """Return sentences on the weaknesses of the metric that `trust` names, over all aspects."""
    metric, system_views = candidate(views), _of_systems(views)
    useless_aspects = [view.aspect for view in system_views if is_no_better_than_none(decisions_of(view, metric))]
    findings = _findings(views, metric)
    unclear_texts = [
        f"{system} on {view.aspect}" for view in system_views for system in inconclusive_systems(view, metric)
    ]
    return applicable(
        (
            useless_aspects,
            f"In these data, decisions by {metric} are no better than no decision on "
            f"{_aspects_text(useless_aspects, views)}: use human ratings there.",
        ),
        (findings, f"{metric} {names(findings)}."),
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
    """Return sentences on the comparisons that would decide which system is best."""
    views_with_ranking = [view for view in _of_systems(views) if view.board and not view.not_random]
    decided_aspects = [view.aspect for view in views_with_ranking if len(view.top) == 1 and not top_pairs(view)]
    ranked_forecasts = [
        (
            view.board[0]["system"] not in (system_a, system_b),
            n_comparisons,
            f"{pair_forecast_text(system_a, system_b, n_comparisons)} ({view.aspect})",
        )
        for view in views_with_ranking
        for system_a, system_b, n_comparisons in forecasts(view)
    ]  # pairs with the system that ranks first come first
    views_without_forecast = [view for view in views_with_ranking if lacks_forecast(view)]
    candidates_texts = [candidates_text(view) for view in views_without_forecast]
    return applicable(
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
    return min(leaders_everywhere(views), key=lambda metric: bool(_findings(views, metric)), default="")


def _findings(views: Sequence[AspectResults], metric: str) -> list[str]:
    """Return the significant findings of partiality of a metric: `over-rates SYSTEM on ASPECT and ASPECT`.

    A finding that does not occur on every aspect must be significant after adjustment for the number of aspects.
    """
    system_views = _of_systems(views)
    aspects_and_p_of_finding = grouped(
        (f"{RATES[row['finding']]} {row['system']}", (view.aspect, row["p_adjusted"]))
        for view in system_views
        for row in view.partial
        if row["metric"] == metric
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
        f"{finding} on {_aspects_text(aspects, views)}" for finding, aspects in aspects_of_finding.items() if aspects
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


def favours(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield findings of partiality that occur on every aspect, for metrics that are above chance on some aspect.

    Metrics in the top group of every aspect come first. Within the top group, and within all other metrics, larger
    partiality (on the last aspect) comes first. Near copies with the same finding share a sentence.
    """
    metrics_in_every_top = leaders_everywhere(views)
    metrics_above_chance = {metric for view in views for metric in view.metrics_on_side("above")}
    system_views = _of_systems(views)
    rows_of_finding = grouped(
        ((row["metric"], row["system"], row["finding"]), row) for view in system_views for row in view.partial
    )
    common_findings = [
        finding_rows[-1]
        for (metric, *_), finding_rows in rows_of_finding.items()
        if metric in metrics_above_chance and len(finding_rows) == len(system_views)
    ]
    all_aspects_text = _aspects_text([view.aspect for view in system_views], system_views)
    common_findings.sort(key=lambda row: (row["metric"] not in metrics_in_every_top, -abs(row["partiality"])))
    finding_groups = near_copy_groups(common_findings)
    for finding_rows in finding_groups[:MOST_NAMED]:
        verb = RATES[finding_rows[0]["finding"]]
        metrics_text = subject_with_verb([row["metric"] for row in finding_rows], verb, verb.removesuffix("s"))
        yield f"{metrics_text} {finding_rows[0]['system']} on {all_aspects_text}."
    if len(finding_groups) > MOST_NAMED:
        n_metrics_text = plural(len({row["metric"] for row in common_findings}), "metric")
        yield f"In all, {n_metrics_text} over-rate or under-rate some system on every aspect."


def _aspects_text(aspects: Sequence[str], views: Sequence[AspectResults]) -> str:
    if len(aspects) < len(views):
        return names(aspects)
    return "both aspects" if len(views) == 2 else f"all {len(views)} aspects"
