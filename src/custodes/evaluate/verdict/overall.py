"""Sentences on findings over all aspects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from custodes.answers.wording import names, number, percent, plural, subject_with_verb
from custodes.evaluate.verdict.annotators import is_agreement_by_chance, is_agreement_unclear
from custodes.evaluate.verdict.favoritism import do_near_copies, near_copy_groups
from custodes.evaluate.verdict.systems import format_count, undecided
from custodes.evaluate.verdict.view import MOST_NAMED, RATES, AspectResults
from custodes.evaluate.verdict.weaknesses import (
    decisions_of,
    inconclusive_systems,
    is_length_tested,
    is_no_better_than_none,
    is_partiality_tested,
)


def design(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on aspects on which the annotators agree no better than by chance."""
    aspects = [view.aspect for view in views if is_agreement_by_chance(view)]
    if aspects:
        yield (
            f"On {_aspects_text(aspects, views)}, annotators agree no better than by chance on single outputs: check "
            "the scale and the names of items and systems before you report results of such an aspect."
        )
    unclear_aspects = [view.aspect for view in views if is_agreement_unclear(view) and view.aspect not in aspects]
    if unclear_aspects:
        yield (
            f"On {_aspects_text(unclear_aspects, views)}, annotators do not agree significantly better than by chance "
            "on single outputs, so conclusions need means over many items or annotators."
        )


def best(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on the systems in the top group of every aspect."""
    top_groups = [view.top for view in views if not (view.sided or view.split or view.not_random) and view.board]
    if len(top_groups) < len(views) or not all(top_groups):
        return
    every_text = _all_aspects_text(views)
    systems_in_every_top = [name for name in top_groups[0] if all(name in top for top in top_groups)]
    aspects_with_single_top = [view.aspect for view, top in zip(views, top_groups, strict=True) if len(top) == 1]
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
        yield f"No system is in the top group on every aspect. The best system is {names(aspect_texts)}."
    undecided_texts = [
        f"{view.aspect} ({plural(len(top), 'candidate')})"
        for view, top in zip(views, top_groups, strict=True)
        if len(top) > 1
    ]
    if undecided_texts:
        yield f"Which system is best is undecided on {names(undecided_texts)}."
    undecided_others = [
        f"{view.aspect} ({plural(n_candidates, 'candidate')})"
        for view in views
        if view.board[0]["system"] in view.reference_systems
        and (n_candidates := 1 + sum(view.is_undecided(view.board[1], row) for row in view.board[2:])) > 1
    ]
    if undecided_others:
        yield f"Which of the other systems is best is undecided on {names(undecided_others)}."


def _first_text(views: Sequence[AspectResults], *, position: int) -> str:
    """Return clauses on the systems that have this position in the ranking, with their aspects."""
    aspects_of_system: dict[str, list[str]] = {}
    for view in views:
        aspects_of_system.setdefault(view.board[position]["system"], []).append(view.aspect)
    return "; ".join(
        f"{system} ranks first on {_aspects_text(aspects, views)}" for system, aspects in aspects_of_system.items()
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
        if affected := [name for name in metrics_in_every_top if _findings(views, name)]:
            metrics_of_finding: dict[tuple[str, str], list[str]] = {}
            for name in affected:
                for finding in _findings(views, name):
                    metrics_of_finding.setdefault(finding, []).append(name)
            affected_text = names(
                [
                    f"{subject_with_verb(metrics, verb, verb.removesuffix('s'))} {system_text}"
                    for (verb, system_text), metrics in metrics_of_finding.items()
                ],
                limit=MOST_NAMED,
            )
            others = [name for name in metrics_in_every_top if name not in affected]
            others_text = f"; no partiality of {names(others, limit=MOST_NAMED)} is significant" if others else ""
            yield f"Of these metrics, {affected_text}{others_text}."
        chosen = candidate(views)
        without_text = " without significant partiality" if affected and chosen not in affected else ""
        reason_text = (
            ""
            if len(metrics_in_every_top) == 1
            else f": it is the only one of these metrics{without_text}"
            if len(metrics_in_every_top) - len(affected) == 1 and without_text
            else f": it has the best mean rank of these metrics{without_text}"
        )
        reference_text = (
            "The following choice is provisional, because the reference is among the systems. "
            if views[0].reference_systems
            else ""
        )
        yield f"{reference_text}If one metric is needed for {_all_aspects_text(views)}, use {chosen}{reason_text}."
        if all(view.ordered for view in views):
            values = [row["value"] for view in views for row in view.standing if row["metric"] == chosen]
            yield (
                f"Kendall's τ within items of {chosen} is {_range(values, number)}, depending on the aspect (0: "
                "chance, 1: the order of the annotators)."
            )
        yield from _best_of_aspects(views)
    else:
        aspect_leaders = [f"{view.leaders[0]} on {view.aspect}" for view in views if view.leaders]
        leaders_text = (
            f"; {subject_with_verb(aspect_leaders, 'agrees', 'agree')} best with the annotators"
            if aspect_leaders
            else ""
        )
        yield f"No metric is in the top group and better than chance on every aspect{leaders_text}."


def _best_of_aspects(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on the best metric of each aspect, if one metric is not the best on all."""
    aspects_of_metric: dict[str, list[str]] = {}
    for view in views:
        for metric in view.leaders[:1]:
            aspects_of_metric.setdefault(metric, []).append(view.aspect)
    if len(aspects_of_metric) > 1:
        best_texts = [f"{metric} ({names(aspects)})" for metric, aspects in aspects_of_metric.items()]
        metrics_of_aspects = [{row["metric"] for row in view.standing} for view in views]
        n_partly_scored = len(set.union(*metrics_of_aspects) - set.intersection(*metrics_of_aspects))
        scores_text = (
            f" {plural(n_partly_scored, 'metric has', 'metrics have')} scores for some aspects only."
            if n_partly_scored
            else ""
        )
        decided = [view.aspect for view in views if len(view.leaders) == 1]
        lead_text = f"significant on {_aspects_text(decided, views)}" if decided else "significant on no aspect"
        yield (
            f"If only one aspect matters, the metric with the highest agreement is {', '.join(best_texts)}. Its lead "
            f"over all other metrics is {lead_text}.{scores_text}"
        )


def decisions(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on the decisions of the metric that `trust` names, on each aspect."""
    metric = candidate(views)
    rows = {view.aspect: row for view in _of_systems(views) if (row := decisions_of(view, metric))}
    if rows:
        correct_text, undecided_text = (
            names([f"{aspect} {percent(rate)}" for aspect, rate in zip(rows, rates, strict=True)])
            for rates in zip(*((row.errors["correct"], row.undecided) for row in rows.values()), strict=True)
        )
        reversed_text, missed_text, additional_text = (
            _range([row.errors[name] for row in rows.values()], percent)
            for name in ("inversion", "omission", "insertion")
        )
        yield (
            f"{metric} reaches the same decision as the annotators (better, worse or undecided) on these proportions "
            f"of the pairs of systems: {correct_text}. If no pair were decided, the proportions would be "
            f"{undecided_text}. "
            f"Depending on the aspect, it reverses {reversed_text} of the pairs, misses a difference in {missed_text} "
            f"and finds a difference that the annotators do not confirm in {additional_text}."
        )


def weaknesses(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield sentences on the weaknesses of the metric that `trust` names, over all aspects."""
    metric = candidate(views)
    useless = [view.aspect for view in _of_systems(views) if is_no_better_than_none(decisions_of(view, metric))]
    if useless:
        aspects_text = _aspects_text(useless, views)
        best_of_useless = {view: view.standing[0]["metric"] for view in views if view.aspect in useless}
        is_best_useless = {*best_of_useless.values()} != {metric} and all(
            is_no_better_than_none(decisions_of(view, best_metric)) for view, best_metric in best_of_useless.items()
        )
        best_text = (
            " The same holds for decisions by the metric with the highest agreement there." if is_best_useless else ""
        )
        yield (
            f"In these data, decisions by {metric} are no better than no decision on {aspects_text}: use human ratings "
            f"there.{best_text}"
        )
    if metric in views[0].metrics_of_reference:
        yield f"{metric} uses the reference, which is one of the systems here, so its agreement is distorted."
    if findings := _findings(views, metric):
        yield f"{metric} {names([' '.join(finding) for finding in findings])}."
    elif any(is_partiality_tested(view, metric) for view in _of_systems(views)):
        yield f"No partiality of {metric} to a system is significant, but some partiality may exist."
    unclear_texts = [
        f"{system} on {view.aspect}" for view in _of_systems(views) for system in inconclusive_systems(view, metric)
    ]
    if unclear_texts:
        yield f"Whether {metric} is partial is inconclusive for {names(unclear_texts)}."
    if metric and not any(is_length_tested(view, metric) for view in views):
        yield f"Whether {metric} prefers longer outputs is not tested: the test needs texts of the outputs."


def labels(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield sentences on the comparisons that would decide which system is best."""
    ranked_views = [view for view in _of_systems(views) if view.board and not view.not_random]
    pairs_of_aspect = {view.aspect: undecided(view) for view in ranked_views}
    references = {view.board[0]["system"] for view in ranked_views} & views[0].reference_systems
    if views[0].has_problems:
        yield "First solve the problems under 'Read this first'."
    if references:
        provisional_text = " Until then, the metric named above is provisional." if candidate(views) else ""
        then_text = "Then exclude" if views[0].has_problems else "Exclude"
        yield (
            f"{then_text} the reference (--systems '!{min(references)}') and summarise again, to learn which of the "
            f"other systems is best and which metric agrees best on them.{provisional_text}"
        )
        return
    decided = [view.aspect for view in ranked_views if len(view.top) == 1 and not pairs_of_aspect[view.aspect].n_top]
    if decided:
        yield f"On {_aspects_text(decided, views)}, more comparisons are not needed to name the best system."
    forecasts = [
        (view.board[0]["system"] not in pair, n, f"about {format_count(n)} of {' vs '.join(pair)} ({view.aspect})")
        for view in ranked_views
        for *pair, n in pairs_of_aspect[view.aspect].forecasts
    ]  # pairs with the system that ranks first come first
    if forecasts:
        texts = [text for *_, text in sorted(forecasts)[:MOST_NAMED]]
        yield (
            "If the true differences are as large as in these data, these further human comparisons have an even "
            f"chance of showing which system of a pair is better: {names(texts)}. They say nothing about other pairs."
        )


def candidate(views: Sequence[AspectResults]) -> str:
    """Return the metric of the top group of every aspect with the best mean rank, or ''.

    A metric without significant partiality comes first.
    """
    metrics = leaders_everywhere(views)
    return next((name for name in metrics if not _findings(views, name)), metrics[0] if metrics else "")


def _findings(views: Sequence[AspectResults], metric: str) -> list[tuple[str, str]]:
    """Return the significant findings of partiality of a metric: `over-rates` and `SYSTEM on ASPECT and ASPECT`."""
    aspects_of_finding: dict[tuple[str, str], list[str]] = {}
    for view in _of_systems(views):
        for row in view.partial:
            if row["metric"] == metric:
                aspects_of_finding.setdefault((RATES[row["finding"]], row["system"]), []).append(view.aspect)
    return [
        (verb, f"{system} on {_aspects_text(aspects, views)}") for (verb, system), aspects in aspects_of_finding.items()
    ]


def _of_systems(views: Sequence[AspectResults]) -> list[AspectResults]:
    """Return the aspects that compare systems, not sides of a pair."""
    return [view for view in views if not view.sided]


def _range(values: Sequence[float], write: Callable[[float], str]) -> str:
    """Return the smallest and the largest value as text; one number if both have the same text."""
    low, high = write(min(values)), write(max(values))
    return low if low == high else f"{low} to {high}"


def leaders_everywhere(views: Sequence[AspectResults]) -> list[str]:
    """Return the metrics that are in the top group and better than chance on every aspect, by their mean rank."""
    metrics = [{*view.leaders} & {*view.metrics_on_side("above")} for view in views]
    ranks = [{row["metric"]: rank for rank, row in enumerate(view.standing)} for view in views]
    return sorted(set.intersection(*metrics), key=lambda name: (sum(rank[name] for rank in ranks), name))


def chance(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield sentences on metrics that are not significantly better than chance on any aspect, or worse on some."""
    above, below = ({name for view in views for name in view.metrics_on_side(side)} for side in ("above", "below"))
    metrics = list(dict.fromkeys(row["metric"] for view in views for row in view.standing))
    unclear = [name for name in metrics if name not in above | below]
    if unclear and above | below:
        yield f"{subject_with_verb(unclear, 'is', 'are')} not significantly better than chance on any aspect."
    for name in metrics:
        if name in below - above:
            aspects = [view.aspect for view in views if name in view.metrics_on_side("below")]
            yield (
                f"{name} is significantly better than chance on no aspect, and agrees with the annotators "
                f"significantly less than by chance on {names(aspects)}."
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
    views = _of_systems(views)
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


def _aspects_text(aspects: Sequence[str], views: Sequence[AspectResults]) -> str:
    return _all_aspects_text(views) if len(aspects) == len(views) else names(aspects)


def _all_aspects_text(views: Sequence[AspectResults]) -> str:
    return "both aspects" if len(views) == 2 else f"all {len(views)} aspects"
