"""What holds on all aspects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from custodes.answers.wording import names, plural
from custodes.evaluate.comparison import HUMAN
from custodes.evaluate.partiality import FAVOURED
from custodes.evaluate.verdict.view import MOST_NAMED, Statement, View, only


def overall(views: Sequence[View]) -> Iterator[Statement]:
    """Systems, metrics and partiality, where the aspects agree."""
    yield from of_systems(views)
    order = [row["metric"] for row in views[0].standing]
    everywhere = [name for name in order if all(name in view.leaders for view in views)]
    if everywhere:
        verb = "is" if len(everywhere) == 1 else "are"
        text = f"{names(everywhere)} {verb} among those that may be best on {_all(len(views))}."
    else:
        best = [f"{view.leaders[0]} on {view.aspect}" for view in views if view.leaders]
        text = "No metric may be best on every aspect"
        text += f": the highest agreement have {names(best)}." if best else "."
    yield Statement(kind="trust", text=text, rater=only(everywhere))
    informed = {name for view in views for name in view.side("above")}
    nowhere = [name for name in order if name not in informed]
    if nowhere and any(view.side("above") or view.side("below") for view in views):
        yield Statement(
            kind="chance",
            text=f"{names(nowhere)}: on no aspect clearly better than knowing nothing.",
            rater=only(nowhere),
        )
    favour = [
        {(row["metric"], row["system"], row["finding"]): abs(row["partiality"]) for row in view.partial}
        for view in views
        if not view.sided
    ]
    last = {found: size for own in favour for found, size in own.items()}
    constant = sorted(
        (found for found in last if found[0] in informed and all(found in own for own in favour)),
        key=lambda found: (-last[found], found),
    )
    for metric, system, finding in constant[:MOST_NAMED]:
        verb = "favours" if finding == FAVOURED else "is against"
        text = f"{metric} {verb} {system} on {_all(len(favour))}."
        yield Statement(kind="favours", text=text, rater=metric, system=system)
    if len(constant) > MOST_NAMED:
        more = plural(len(constant) - MOST_NAMED, "more pair")
        yield Statement(kind="favours", text=f"{more} of metric and system stand like this on every aspect.")


def of_systems(views: Sequence[View]) -> Iterator[Statement]:
    """The systems that may be best on every aspect."""
    told = [view for view in views if view.board and not view.sided and not view.split]
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
        text = f"{names(everywhere)} may be best on {_all(len(views))}."
        if len(everywhere) == 1:
            text = f"{everywhere[0]} is the only system that may be best on {_all(len(views))}"
            text += f"; on {names(alone)} it is the best." if alone else "."
    else:
        text = "No system may be best on every aspect: "
        text += f"{names([f'{_or(own)} on {view.aspect}' for view, own in zip(told, may, strict=True)])}."
    yield Statement(kind="best", text=text, rater=HUMAN, system=only(everywhere))


def _or(labels: Sequence[str]) -> str:
    return " or ".join(labels) if len(labels) <= MOST_NAMED else f"one of {len(labels)}"


def _all(aspects: int) -> str:
    return "both aspects" if aspects == 2 else f"all {aspects} aspects"
