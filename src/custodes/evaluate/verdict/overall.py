"""Sentences on findings over all aspects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from custodes.answers.wording import names, plural, subject
from custodes.evaluate.verdict.favoritism import RATES, do_near_copies, near_copy_groups
from custodes.evaluate.verdict.view import MOST_NAMED, AspectResults


def best(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on the systems in the top group of every aspect."""
    tops = [view.top for view in views if not (view.sided or view.split or view.not_random) and view.board]
    if len(tops) < len(views) or not any(tops):
        return
    everywhere = [name for name in tops[0] if all(name in top for top in tops)]
    alone = [view.aspect for view, top in zip(views, tops, strict=True) if top == everywhere]
    if len(everywhere) == 1 and len(alone) == len(views):
        yield f"{everywhere[0]} is best on {_all(views)}."
    elif len(everywhere) == 1:
        on = f"; on {names(alone)} it is the best" if alone else ""
        yield f"{everywhere[0]} is the only system in the top group on {_all(views)}{on}."
    elif everywhere:
        yield f"{names(everywhere)} are in the top group on {_all(views)}."
    else:
        some = [" or ".join(top) if len(top) <= MOST_NAMED else f"one of {len(top)}" for top in tops]
        each = [f"{top} on {view.aspect}" for view, top in zip(views, some, strict=True)]
        yield f"No system is in the top group on every aspect: {names(each)}."


def trust(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on the metrics in the top group of every aspect."""
    everywhere = leaders_everywhere(views)
    if everywhere:
        group = f"in the top group of metrics on {_all(views)}: not significantly worse than any other metric"
        yield f"{subject(everywhere, 'is', 'are')} {group}."
    else:
        first = [f"{view.leaders[0]} on {view.aspect}" for view in views if view.leaders]
        each = f"; {subject(first, 'agrees', 'agree')} best with the annotators" if first else ""
        yield f"No metric is in the top group on every aspect{each}."


def leaders_everywhere(views: Sequence[AspectResults]) -> list[str]:
    """Return the metrics in the top group of every aspect."""
    return [row["metric"] for row in views[0].standing if all(row["metric"] in view.leaders for view in views)]


def chance(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield a sentence on metrics that are not significantly better than chance on any aspect."""
    informed = {name for view in views for name in view.side("above")}
    nowhere = [row["metric"] for row in views[0].standing if row["metric"] not in informed]
    if nowhere and any(view.side("above", "below") for view in views):
        yield f"{subject(nowhere, 'is', 'are')} not significantly better than chance on any aspect."


def favours(views: Sequence[AspectResults]) -> Iterator[str]:
    """Yield findings of partiality that occur on every aspect.

    Metrics of the top group come first. Within this group, and after it, larger partiality comes first.
    """
    top, informed = leaders_everywhere(views), {name for view in views for name in view.side("above")}
    views = [view for view in views if not view.sided]
    findings = [{(row["metric"], row["system"], row["finding"]): row for row in view.partial} for view in views]
    rows = [
        row
        for key, row in (findings[-1].items() if findings else ())
        if key[0] in informed and all(key in of_aspect for of_aspect in findings)
    ]
    groups = near_copy_groups(sorted(rows, key=lambda row: (row["metric"] not in top, -abs(row["partiality"]))))
    for row, *copies in groups[:MOST_NAMED]:
        also = f", and so {do_near_copies([copy['metric'] for copy in copies])}" if copies else ""
        yield f"{row['metric']} {RATES[row['finding']]} {row['system']} on {_all(views)}{also}."
    if len(groups) > MOST_NAMED:
        n_metrics = plural(len({row["metric"] for row in rows}), "metric")
        yield f"In all, {n_metrics} over-rate or under-rate some system on every aspect."


def _all(views: Sequence[AspectResults]) -> str:
    return "both aspects" if len(views) == 2 else f"all {len(views)} aspects"
