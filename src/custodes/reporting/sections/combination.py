"""Section: is a combination of metrics better than the best of them, what is it made of, and whom does it favour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from custodes.combine.fitting import CombineFit
from custodes.plots.combination import METHODS, costs, favoured, methods, weights, wide
from custodes.reporting.section import Column, Context, Figure, Section, empty_rows, render, spec_of
from custodes.reporting.tables import table_html
from custodes.reporting.wording import interval, number, percent

TITLE = "A better metric"
CHOSEN = {"target": "{aspect}"}
SINGLE = "best"
LEFT_OUT = "no-combination"
"""The rule of the note of an aspect of which no combination can be learnt."""

COMPARISON = (
    Column(field="what", label="Way of combining"),
    Column(field="kendall", label="τ-b", kind="number", low="low", high="high", title="over held-out outputs"),
    Column(
        field="lead",
        label="Over the single metric",
        kind="number",
        low="lead_low",
        high="lead_high",
        title="difference in τ-b from the best single metric, from the same resamples",
    ),
    *(
        Column(field=name, label=label, kind=kind, low=f"{name}_low", high=f"{name}_high", title=title)
        for name, label, kind, title in (
            ("spearman", "Spearman ρ", "number", "over held-out outputs"),
            ("pearson", "Pearson r", "number", "over held-out outputs"),
            ("accuracy", "In people’s order", "percent", "pairs of outputs of an item that people do not tie"),
            ("mean_abs_favi", "mean |Favi-Score|", "number", "how one-sided its errors are, over pairs of systems"),
        )
    ),
)


def combination_section(context: Context) -> Section:
    """Ways of combining beside the best single metric, on outputs that none has seen."""
    if "combination" in context.absent:
        html = render("absent.html", reason=context.absent["combination"])
        return Section(id="combination", title=TITLE, html=html)
    result = context.results["combination"]
    assert isinstance(result, CombineFit)
    of_aspect = " ({aspect})" if any(context.aspects) else ""
    compared, made_of = _comparison(of_aspect), [_weights(of_aspect), _costs(result, of_aspect)]
    favours = [_favoritism(result, of_aspect)] if result.favoritism.height else []
    html = render(
        "combination.html",
        left_out=[note.message for note in result.notes if note.rule == LEFT_OUT],
        sentences=sentences(result),
        compared=compared,
        table=table_html(
            comparison_rows(result),
            COMPARISON,
            id="combination-comparison",
            caption="Ways of combining, on held-out outputs",
            notes=[note.message for note in result.notes if note.rule != LEFT_OUT],
        ),
        one_sided=one_sided(result),
        favours=favours,
        made_of=made_of,
    )
    return Section(id="combination", title=TITLE, html=html, charts=(compared, *favours, *made_of))


def _comparison(of_aspect: str) -> Figure:
    return Figure(
        id="combination-comparison",
        title=f"Ways of combining metrics{of_aspect}",
        caption="Kendall τ-b with people on outputs that were not used for learning; whisker: interval from resampled "
        "items. Dashed: the best single metric, itself chosen without these outputs.",
        alt="Dots with whiskers of the agreement with people of every way of combining; the table below holds the "
        "numbers.",
        spec=spec_of(methods(empty_rows()).properties(width="container")),
        table="combination.comparison",
        where=CHOSEN,
        lines=("method",),
    )


def _favoritism(result: CombineFit, of_aspect: str) -> Figure:
    return Figure(
        id="combination-favoritism",
        title=f"Whom a combination favours, beside its accuracy{of_aspect}",
        caption="To the right: more comparisons of systems decided as people do. Upwards: errors more one-sided, so "
        "that some systems gain by them. Tick: what errors by a coin would give. Better lies to the lower right.",
        alt="Points of the one-sidedness of errors against sample accuracy, one for every way of combining.",
        spec=spec_of(favoured(empty_rows(), result).properties(width="container")),
        table="combination.favoritism",
        where=CHOSEN,
    )


def _weights(of_aspect: str) -> Figure:
    return Figure(
        id="combination-weights",
        title=f"What the combined metric is made of{of_aspect}",
        caption="Weights of ridge regression on all items: points of people’s scale from the lowest to the highest "
        "score of a metric, the others kept. Whisker: interval from refits on resampled items. Among near copies the "
        "shares are arbitrary, and one may get a negative weight that the other makes up for.",
        alt="Dots with whiskers of the weight of every metric in the combination, largest first.",
        spec=spec_of(weights(empty_rows()).properties(width="container")),
        table="weights",
        where=CHOSEN,
        lines=("metric",),
    )


def _costs(result: CombineFit, of_aspect: str) -> Figure:
    return Figure(
        id="combination-costs",
        title=f"What each further metric buys{of_aspect}",
        caption="Metrics join ridge regression in the order of gain per cost; the scores come from orders chosen "
        "without the held-out outputs. A metric costs 1 where the raters file names no costs. Band: interval.",
        alt="Steps of the agreement with people against the total cost of the metrics.",
        spec=spec_of(costs(empty_rows(), log=wide(result.path)).properties(width="container")),
        table="costs",
        where=CHOSEN,
    )


def comparison_rows(result: CombineFit) -> pl.DataFrame:
    """The rows of `comparison`, best first, with the lead over the single metric, and the favoritism of each."""
    lead = result.comparison.select("target", "method").unique(maintain_order=True)
    leads = [_lead(result, *row) for row in lead.iter_rows()]
    ends = {"lead": "difference", "lead_low": "low", "lead_high": "high"}
    lead = lead.with_columns(
        pl.Series(name, [own[field] if own else None for own in leads], dtype=pl.Float64)
        for name, field in ends.items()
    )
    place = pl.col("target").rle_id()
    return (
        result.comparison.join(lead, on=["target", "method"], how="left", maintain_order="left")
        .join(result.favoritism, on=["target", "method"], how="left", maintain_order="left")
        .with_columns(what=pl.col("method").replace(METHODS), aspect="target")
        .sort(place, pl.col("kendall"), descending=[False, True], nulls_last=True, maintain_order=True)
    )


def _lead(result: CombineFit, target: str, method: str) -> dict[str, Any] | None:
    """The difference of a method from the best single metric, with its interval."""
    for row in result.differences.filter(target=target).iter_rows(named=True):
        if (row["method_a"], row["method_b"]) == (method, SINGLE):
            return row
        if (row["method_a"], row["method_b"]) == (SINGLE, method) and row["difference"] is not None:
            turned = {"difference": -row["difference"]}
            for end, other in (("low", "high"), ("high", "low")):
                turned[end] = None if row[other] is None else -row[other]
            return turned
    return None


def sentences(result: CombineFit) -> list[tuple[str, str]]:
    """For each aspect: does the best combination beat the best single metric?"""
    return [(target, f"{_opening(target)}{_told(way, single)}") for target, way, single in _rivals(result)]


def _told(way: Mapping[str, Any], single: Mapping[str, Any]) -> str:
    scores = (
        f"the best combination ({way['what']}) reaches τ-b {interval(way['kendall'], way['low'], way['high'])} with"
        f" people on outputs it has not seen, the best single metric"
        f" {interval(single['kendall'], single['low'], single['high'])}"
    )
    lead, low, high = (way[name] for name in ("lead", "lead_low", "lead_high"))
    if lead is None:
        return f"{scores}."
    # Three digits, so that an end close to 0 does not read as 0.
    if low is None or high is None:
        return f"{scores}. Without an interval of the difference ({number(lead, digits=3)}) nothing can be said."
    if low > 0:
        return f"{scores}. It is better, by {interval(lead, low, high, digits=3)}."
    if high < 0:
        return f"{scores}. It is worse, by {interval(-lead, -high, -low, digits=3)}."
    return f"{scores}. They are not told apart: a difference of {interval(lead, low, high, digits=3)}."


def one_sided(result: CombineFit) -> list[tuple[str, str]]:
    """For each aspect: are the errors of that combination more one-sided than those of the single metric?"""
    told = []
    for target, way, single in _rivals(result):
        known = ("sample_accuracy", "mean_abs_favi", "mean_abs_favi_chance")
        if any(row[name] is None for row in (way, single) for name in known):
            continue
        own, other = (_ends(row) for row in (way, single))
        if own is None or other is None or (own[0] <= other[1] and own[1] >= other[0]):
            compared = "not told apart in how one-sided they are"
        else:
            compared = "more one-sided" if own[0] > other[1] else "less one-sided"
        sizes = [
            interval(row["mean_abs_favi"], row["mean_abs_favi_low"], row["mean_abs_favi_high"]) for row in (way, single)
        ]
        told.append(
            (
                target,
                f"{_opening(target)}that combination decides {percent(way['sample_accuracy'])} of comparisons as people"
                f" do, the single metric {percent(single['sample_accuracy'])}. Its errors are {compared}: mean"
                f" |Favi-Score| {sizes[0]} against {sizes[1]}, where errors by a coin would give"
                f" {number(way['mean_abs_favi_chance'])} and {number(single['mean_abs_favi_chance'])}.",
            )
        )
    return told


def _ends(row: Mapping[str, Any]) -> tuple[float, float] | None:
    low, high = row["mean_abs_favi_low"], row["mean_abs_favi_high"]
    return None if low is None or high is None else (low, high)


def _rivals(result: CombineFit) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Of each target: the best combination and the best single metric, where both have a score."""
    found = []
    rows = comparison_rows(result).drop_nulls("kendall")
    for (target,), own in rows.group_by("target", maintain_order=True):
        ways, single = own.filter(pl.col("method") != SINGLE), own.filter(method=SINGLE)
        if ways.height and single.height:
            found.append((str(target), ways.row(0, named=True), single.row(0, named=True)))
    return found


def _opening(target: str) -> str:
    return f"On {target}, " if target else "Here "
