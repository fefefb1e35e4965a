"""Sentences on findings over all aspects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from custodes.answers.wording import names, plural, subject_with_verb
from custodes.evaluate.verdict.favoritism import RATES, do_near_copies, near_copy_groups
from custodes.evaluate.verdict.view import MOST_NAMED, AspectResults


def best(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on the systems in the top group of every aspect."""
    top_groups = [view.top for view in views if not (view.sided or view.split or view.not_random) and view.board]
    if len(top_groups) < len(views) or not any(top_groups):
        return
    every_text = _all_aspects_text(views)
    systems_in_every_top = [name for name in top_groups[0] if all(name in top for top in top_groups)]
    aspects_with_single_top = [
        view.aspect for view, top in zip(views, top_groups, strict=True) if top == systems_in_every_top
    ]
    if len(systems_in_every_top) == 1 and len(aspects_with_single_top) == len(views):
        yield f"{systems_in_every_top[0]} is best on {every_text}."
        if systems_in_every_top[0] in views[0].reference_systems:
            yield f"This system looks like the reference. Of the other systems, {_first_text(views, position=1)}."
    elif systems_in_every_top:
        only_text = "Only " if len(systems_in_every_top) == 1 else ""
        top_text = subject_with_verb(systems_in_every_top, "is", "are")
        single_text = (
            f" On {names(aspects_with_single_top)}, {systems_in_every_top[0]} is best."
            if aspects_with_single_top
            else ""
        )
        yield (
            f"{_first_text(views, position=0)}. {only_text}{top_text} in the top group (not significantly worse than "
            f"any other system) on {every_text}.{single_text}"
        )
    else:
        top_texts = [" or ".join(top) if len(top) <= MOST_NAMED else f"one of {len(top)}" for top in top_groups]
        aspect_texts = [f"{top} on {view.aspect}" for view, top in zip(views, top_texts, strict=True)]
        yield f"No system is in the top group on every aspect: {names(aspect_texts)}."


def _first_text(views: Sequence[AspectResults], *, position: int) -> str:
    """Return clauses on the systems that have this position in the ranking, with their aspects."""
    aspects_of_system: dict[str, list[str]] = {}
    for view in views:
        aspects_of_system.setdefault(view.board[position]["system"], []).append(view.aspect)
    return "; ".join(
        f"{system} ranks first on {_all_aspects_text(views) if len(aspects) == len(views) else names(aspects)}"
        for system, aspects in aspects_of_system.items()
    )


def trust(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield sentences on the metrics that are in the top group and better than chance on every aspect."""
    metrics_in_every_top = leaders_everywhere(views)
    if metrics_in_every_top:
        yield (
            f"On {_all_aspects_text(views)}, {subject_with_verb(metrics_in_every_top, 'is', 'are')} significantly "
            "better than chance and not significantly worse than any other metric"
            f"{' (best mean rank first)' if len(metrics_in_every_top) > 1 else ''}."
        )
        systems_of_metric: dict[str, list[str]] = {}
        for view in views:
            for row in view.partial:
                systems_of_metric.setdefault(row["metric"], []).append(f"{row['system']} on {view.aspect}")
        if affected := [name for name in metrics_in_every_top if name in systems_of_metric]:
            affected_text = subject_with_verb(
                [f"{name} ({names(systems_of_metric[name], limit=2)})" for name in affected],
                "over-rates or under-rates",
                "over-rate or under-rate",
            )
            others = [name for name in metrics_in_every_top if name not in affected]
            others_text = (
                f"; for {names(others, limit=MOST_NAMED)}, this is not significant or inconclusive" if others else ""
            )
            yield f"Of these metrics, {affected_text} a system{others_text}."
    else:
        aspect_leaders = [f"{view.leaders[0]} on {view.aspect}" for view in views if view.leaders]
        leaders_text = (
            f"; {subject_with_verb(aspect_leaders, 'agrees', 'agree')} best with the annotators"
            if aspect_leaders
            else ""
        )
        yield f"No metric is in the top group and better than chance on every aspect{leaders_text}."


def leaders_everywhere(views: Sequence[AspectResults]) -> list[str]:
    """Return the metrics that are in the top group and better than chance on every aspect, by their mean rank."""
    metrics = [{*view.leaders} & {*view.metrics_on_side("above")} for view in views]
    ranks = [{row["metric"]: rank for rank, row in enumerate(view.standing)} for view in views]
    return sorted(set.intersection(*metrics), key=lambda name: (sum(rank[name] for rank in ranks), name))


def chance(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on metrics that are not significantly better than chance on any aspect."""
    informative_metrics = {name for view in views for name in view.metrics_on_side("above")}
    uninformative_metrics = [row["metric"] for row in views[0].standing if row["metric"] not in informative_metrics]
    if uninformative_metrics and any(view.metrics_on_side("above", "below") for view in views):
        yield (
            f"{subject_with_verb(uninformative_metrics, 'is', 'are')} not significantly better than chance on any "
            "aspect."
        )


def favours(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield findings of partiality that occur on every aspect, for metrics that are above chance on some aspect.

    Metrics in the top group of every aspect come first. Among these metrics, and among all other metrics, larger
    partiality (on the last aspect) comes first.
    """
    metrics_in_every_top, informative_metrics = (
        leaders_everywhere(views),
        {name for view in views for name in view.metrics_on_side("above")},
    )
    views = [view for view in views if not view.sided]
    findings_by_aspect = [
        {(row["metric"], row["system"], row["finding"]): row for row in view.partial} for view in views
    ]
    rows = [
        row
        for key, row in (findings_by_aspect[-1].items() if findings_by_aspect else ())
        if key[0] in informative_metrics and all(key in of_aspect for of_aspect in findings_by_aspect)
    ]
    groups = near_copy_groups(
        sorted(rows, key=lambda row: (row["metric"] not in metrics_in_every_top, -abs(row["partiality"])))
    )
    for row, *copies in groups[:MOST_NAMED]:
        copies_text = f", and so {do_near_copies([copy['metric'] for copy in copies])}" if copies else ""
        yield f"{row['metric']} {RATES[row['finding']]} {row['system']} on {_all_aspects_text(views)}{copies_text}."
    if len(groups) > MOST_NAMED:
        n_metrics_text = plural(len({row["metric"] for row in rows}), "metric")
        yield f"In all, {n_metrics_text} over-rate or under-rate some system on every aspect."


def _all_aspects_text(views: Sequence[AspectResults]) -> str:
    return "both aspects" if len(views) == 2 else f"all {len(views)} aspects"
