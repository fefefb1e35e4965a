"""Which systems metrics over-rate or under-rate, and which human decisions they reverse."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from custodes.answers.wording import interval, names, number, p_equals, percent, plural, with_ends
from custodes.evaluate.partiality_table import DISFAVOURED, FAVOURED, INCONCLUSIVE
from custodes.evaluate.verdict.view import MOST_NAMED, POINTS, PROPORTION, Row, Statement, View, only, value_of


def favours(view: View) -> Iterator[Statement]:
    """Findings of partiality: one line per metric or group of near copies, in the order of `_finding_groups`."""
    if view.sided:
        return
    partiality = view.favi["partiality"]
    conclusive = partiality.filter(pl.col("partiality").is_not_null(), pl.col("finding") != INCONCLUSIVE)
    if not conclusive.height:
        reasons = names(partiality["reason"].unique(maintain_order=True).to_list())
        text = f"Whether a metric is partial to a system is inconclusive{': ' if reasons else ''}{reasons}."
        yield Statement(kind="favours", text=text)
        return
    groups = _finding_groups(view)
    reported, informative = (
        {row["metric"] for group in part for row in group} for part in (groups[:MOST_NAMED], groups)
    )
    for group in groups[:MOST_NAMED]:
        yield _finding_line(view, group)
    yield from _overall_scores(view, [row["metric"] for group in groups[:MOST_NAMED] for row in group])
    if not view.partial:
        yield Statement(kind="favours", text="No metric is significantly partial to a system.")
    elif not groups:
        yield _uninformative_alone(view)
    elif len(informative) > len(reported):
        possible = conclusive.filter(~pl.col("metric").is_in(_uninformative(view)))["metric"].n_unique()
        text = f"In all, {len(informative)} of {plural(possible, 'metric')}"
        text += " that are significantly better than chance over-rate or under-rate some system."
        yield Statement(kind="favours", text=text)
    yield from _inconclusive(view)


def _uninformative(view: View) -> list[str]:
    """Metrics that are not significantly better than chance."""
    return [*view.side("unclear"), *view.side("below")]


def _uninformative_alone(view: View) -> Statement:
    """That all findings are about metrics that are not significantly better than chance, and which these are."""
    metrics = list(dict.fromkeys(row["metric"] for row in view.partial))
    one = len(metrics) == 1
    do = "over-rates or under-rates" if one else "over-rate or under-rate"
    text = (
        f"Only {names(metrics, limit=MOST_NAMED)} {do} some system, and {'it is' if one else 'they are'} not"
        " significantly better than chance."
    )
    return Statement(kind="favours", text=text, rater=only(metrics))


def _finding_groups(view: View) -> list[list[Row]]:
    """Findings of metrics that are informative, one row per metric, near copies in one group.

    Groups come in the order of their first row, which is the finding that a line reports: the metric that agrees best,
    the others of the top group, all others; among these by the size of the partiality.
    """
    uninformative = _uninformative(view)
    best = [row["metric"] for row in view.standing[:1]]

    def order(row: Row) -> tuple[bool, bool, float]:
        return row["metric"] not in best, row["metric"] not in view.leaders, -abs(row["partiality"])

    rows = (row for row in view.partial if row["metric"] not in uninformative)
    return near_copy_groups(sorted(rows, key=order))


def near_copy_groups(rows: list[Row]) -> list[list[Row]]:
    """Findings in groups, each metric once: by its first row, or as a near copy of a metric before it with the same
    finding."""
    groups: list[list[Row]] = []
    reported: set[str] = set()
    for row in rows:
        if row["metric"] in reported:
            continue
        same = [
            other
            for other in rows
            if other["metric"] in row["near_copies"]
            and other["metric"] not in reported
            and (other["system"], other["finding"]) == (row["system"], row["finding"])
        ]
        groups.append([row, *same])
        reported |= {one["metric"] for one in groups[-1]}
    return groups


def _finding_line(view: View, group: list[Row]) -> Statement:
    """The finding of the first metric of a group, its ranks, its other findings, and its near copies."""
    row, *copies = group
    metric, system = row["metric"], row["system"]
    favoured = row["finding"] == FAVOURED
    verb = "over-rates" if favoured else "under-rates"
    same = row["rank_without"] == row["rank"]
    change = "its rank would not change" if same else f"it would rank {row['rank_without']}"
    text = (
        f"{metric} {verb} {system} by {_points(row)} points of win rate, adjusted for {view.aspect or 'quality'} and"
        f" sampling error ({p_equals(row['p_adjusted'])}). {system} ranks {row['rank_human']} by the annotators and"
        f" {row['rank']} by {metric}; without the partiality {change}."
    )
    others = [own for own in view.partial if own["metric"] == metric and own["system"] != system]
    clauses = [
        f"{'over-rates' if finding == FAVOURED else 'under-rates'} {names(systems, limit=MOST_NAMED)}"
        for finding in (FAVOURED, DISFAVOURED)
        if (systems := [own["system"] for own in others if own["finding"] == finding])
    ]
    if copies:
        listed = [f"{own['metric']} ({number(abs(own['partiality']), digits=0)} points)" for own in copies]
        do = "does its near copy" if len(copies) == 1 else "do its near copies"
        text += f" So {do} {names(listed, limit=MOST_NAMED)}."
    if clauses:
        text += f" {metric} also {' and '.join(clauses)}."
    numbers = value_of(row, "partiality")
    return Statement(
        kind="favours", text=text, rater=metric, system=system, p_value=row["p_adjusted"], unit=POINTS, **numbers
    )


def _points(row: Row) -> str:
    """The size of a partiality with its interval, for a sentence whose verb gives the direction."""
    value, low, high = (row[f"partiality{end}"] for end in ("", "_low", "_high"))
    if row["finding"] != FAVOURED:
        value, low, high = (None if one is None else -one for one in (value, high, low))
    return interval(value, low, high, digits=0)


def _overall_scores(view: View, metrics: list[str]) -> Iterator[Statement]:
    """Which of the metrics named have no score for the aspect, so that a score for all aspects is compared with it."""
    rows = view.favi["metrics"]
    overall = set(rows.filter("overall")["metric"])
    if named := [name for name in metrics if name in overall]:
        who = (
            "No metric has a" if rows["overall"].all() else f"{names(named)} {'has' if len(named) == 1 else 'have'} no"
        )
        text = (
            f"{who} score for {view.aspect}: a score without an aspect is compared with each aspect, so what looks like"
            " partiality may be quality on another aspect."
        )
        yield Statement(kind="favours", text=text, rater=only(named))


def _inconclusive(view: View) -> Iterator[Statement]:
    """Systems for which the partiality of all metrics, or of the one that agrees best, is inconclusive."""
    rows = view.favi["partiality"]
    untold = pl.col("finding") == INCONCLUSIVE
    systems = rows.filter(untold.all().over("system"))["system"].unique(maintain_order=True).to_list()
    if systems:
        text = f"Whether a metric is partial to {names(systems)} is inconclusive."
        yield Statement(kind="favours", text=text)
    if not view.leaders:
        return
    best = view.standing[0]["metric"]
    of_best = rows.filter(untold, ~pl.col("system").is_in(systems), metric=best)
    if of_best.height:
        reasons = names(of_best["reason"].unique(maintain_order=True).to_list())
        text = f"Whether {best} is partial to {names(of_best['system'].to_list())} is inconclusive: {reasons}."
        yield Statement(kind="favours", text=text, rater=best)


def flips(view: View) -> Iterator[Statement]:
    """How often the first metric decides as people do, and the decisions that any metric reverses."""
    errors = view.decided["errors"].filter(pl.col("correct").is_not_null())
    if view.sided or not errors.height or not view.people.height:
        return
    for row in errors.filter(metric=view.standing[0]["metric"] if view.standing else "").to_dicts():
        correct = with_ends(row, "correct", shown=percent)
        decided = view.decided["decisions"].filter(pl.col("decision").is_not_null(), rater=row["metric"])
        both = decided.join(view.people, on=["system_a", "system_b"], how="semi").height
        text = (
            f"{row['metric']} decides {correct} of {plural(both, 'system pair')} as people do, reverses"
            f" {percent(row['inversion'])}, misses a difference that people see in {percent(row['omission'])} and sees"
            f" one that people do not in {percent(row['insertion'])}."
        )
        if untold := view.people.height - both:
            text += f" Of {plural(untold, 'other pair')} that people compared it says nothing."
        yield Statement(kind="flips", text=text, rater=row["metric"], unit=PROPORTION, **value_of(row, "correct"))
    flips = view.decided["reversals"]
    if not flips.height:
        yield Statement(kind="flips", text="No metric clearly reverses a decision of people.")
    for row in flips.head(MOST_NAMED).to_dicts():
        text = (
            f"People find {row['better']} better than {row['worse']}; {names(row['metrics'])}"
            f" {'says' if len(row['metrics']) == 1 else 'say'} the opposite."
        )
        rater, system = only(row["metrics"]), row["better"]
        yield Statement(kind="flips", text=text, rater=rater, system=system, p_value=row["p_adjusted"])
    if flips.height > MOST_NAMED:
        yield Statement(
            kind="flips", text=f"In all, {plural(flips.height, 'pair')} are clearly reversed by some metric."
        )
