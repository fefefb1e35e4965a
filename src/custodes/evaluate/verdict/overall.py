"""What holds on all aspects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from custodes.answers.wording import names, plural
from custodes.data.comparisons import HUMAN
from custodes.evaluate.partiality_table import FAVOURED
from custodes.evaluate.verdict.favoritism import near_copy_groups
from custodes.evaluate.verdict.view import MOST_NAMED, Statement, View, only


def overall(views: Sequence[View]) -> Iterator[Statement]:
    """Systems, metrics and partiality, where the aspects agree."""
    yield from of_systems(views)
    order = [row["metric"] for row in views[0].standing]
    everywhere = [name for name in order if all(name in view.leaders for view in views)]
    if everywhere:
        verb = "is" if len(everywhere) == 1 else "are"
        text = f"{names(everywhere)} {verb} in the top group of metrics on {_all(len(views))}: not significantly worse"
        text += " than any other."
    else:
        best = [f"{view.leaders[0]} on {view.aspect}" for view in views if view.leaders]
        text = "No metric is in the top group on every aspect"
        text += f"; {names(best)} {'agrees' if len(best) == 1 else 'agree'} best with the annotators." if best else "."
    yield Statement(kind="trust", text=text, rater=only(everywhere))
    informed = {name for view in views for name in view.side("above")}
    nowhere = [name for name in order if name not in informed]
    if nowhere and any(view.side("above") or view.side("below") for view in views):
        yield Statement(
            kind="chance",
            text=f"{names(nowhere)} {'is' if len(nowhere) == 1 else 'are'} not significantly better than chance on any"
            " aspect.",
            rater=only(nowhere),
        )
    yield from _favours(views, everywhere, informed)


def _favours(views: Sequence[View], everywhere: list[str], informed: set[str]) -> Iterator[Statement]:
    """Findings of partiality that hold on every aspect: metrics of the top group first, then by size."""
    findings = [
        {(row["metric"], row["system"], row["finding"]): row for row in view.partial}
        for view in views
        if not view.sided
    ]
    if not findings:
        return
    rows = [
        row
        for key, row in findings[-1].items()
        if key[0] in informed and all(key in of_aspect for of_aspect in findings)
    ]
    rows.sort(key=lambda row: (row["metric"] not in everywhere, -abs(row["partiality"])))
    groups = near_copy_groups(rows)
    for row, *copies in groups[:MOST_NAMED]:
        verb = "over-rates" if row["finding"] == FAVOURED else "under-rates"
        text = f"{row['metric']} {verb} {row['system']} on {_all(len(findings))}"
        if copies:
            do = "does its near copy" if len(copies) == 1 else "do its near copies"
            text += f", and so {do} {names([own['metric'] for own in copies])}"
        yield Statement(kind="favours", text=f"{text}.", rater=row["metric"], system=row["system"])
    if len(groups) > MOST_NAMED:
        n_metrics = plural(len({row["metric"] for row in rows}), "metric")
        text = f"In all, {n_metrics} over-rate or under-rate some system on every aspect."
        yield Statement(kind="favours", text=text)


def of_systems(views: Sequence[View]) -> Iterator[Statement]:
    """The systems in the top group of every aspect."""
    told = [view for view in views if view.board and not view.sided and not view.split and not view.not_random]
    if len(told) < len(views):
        return
    may = [[row["system"] for row in view.first] for view in told]
    if not any(may):
        return
    everywhere = [name for name in may[0] if all(name in own for own in may)]
    alone = [view.aspect for view, own in zip(told, may, strict=True) if own == everywhere]
    if len(everywhere) == 1 and len(alone) == len(views):
        text = f"{everywhere[0]} is best on {_all(len(views))}."
    elif everywhere:
        text = f"{names(everywhere)} are in the top group on {_all(len(views))}."
        if len(everywhere) == 1:
            text = f"{everywhere[0]} is the only system in the top group on {_all(len(views))}"
            text += f"; on {names(alone)} it is the best." if alone else "."
    else:
        text = "No system is in the top group on every aspect: "
        text += f"{names([f'{_or(own)} on {view.aspect}' for view, own in zip(told, may, strict=True)])}."
    yield Statement(kind="best", text=text, rater=HUMAN, system=only(everywhere))


def _or(labels: Sequence[str]) -> str:
    return " or ".join(labels) if len(labels) <= MOST_NAMED else f"one of {len(labels)}"


def _all(aspects: int) -> str:
    return "both aspects" if aspects == 2 else f"all {aspects} aspects"
