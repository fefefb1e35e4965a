"""Sentences on findings over all aspects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from custodes.answers.wording import names, number, subject_with_verb
from custodes.evaluate.verdict.annotators import BY_CHANCE, UNCLEAR, grades
from custodes.evaluate.verdict.view import RATES, AspectResults, applicable, grouped
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
            f"For {chosen_metric}, Kendall's τ within items is {number(min(agreement_values))} to "
            f"{number(max(agreement_values))}, depending on the aspect (0: chance, 1: the order of the annotators)."
        )
    aspects_of_metric = grouped((metric, view.aspect) for view in views for metric in view.leaders[:1])
    best_texts = [f"{metric} on {names(aspects)}" for metric, aspects in aspects_of_metric.items()]
    if len(best_texts) > 1:
        yield f"On single aspects, the metrics with the highest agreement are {names(best_texts)}."


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


def candidate(views: Sequence[AspectResults]) -> str:
    """Return the metric with the best mean rank among those in the top group of every aspect; '' if no metric is in the
    top group of every aspect.

    A metric without significant partiality comes first.
    """
    return min(leaders_everywhere(views), key=lambda metric: bool(_findings(views, metric)), default="")


def _findings(views: Sequence[AspectResults], metric: str) -> list[str]:
    """Return the significant findings of partiality of a metric: `over-rates SYSTEM on ASPECT and ASPECT`.

    A finding that does not occur on every aspect is returned only if it is significant after adjustment for the number
    of aspects.
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


def _aspects_text(aspects: Sequence[str], views: Sequence[AspectResults]) -> str:
    if len(aspects) < len(views):
        return names(aspects)
    return "both aspects" if len(views) == 2 else f"all {len(views)} aspects"
