"""Which metric to trust, which is no better than chance, and what this study is too small to decide."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from custodes.answers.tables import AT_THRESHOLD
from custodes.answers.wording import names, number, p_equals, p_value, percent, sentence, with_ends
from custodes.data.comparisons import HUMAN
from custodes.evaluate.verdict.view import (
    MOST_NAMED,
    SYSTEM_LEVEL,
    Row,
    Statement,
    View,
    only,
    share_a_letter,
    value_of,
)

MARKED_EFFECT = 1.5
"""The design effect from which clusters of items are named first."""


def serious(problems: pl.DataFrame) -> Iterator[Statement]:
    """Warnings and errors of `check`, each message once; `chance` reports metrics that run against people."""
    rows = problems.filter(pl.col("severity") != "info", pl.col("rule") != "against-people")
    for message in rows["message"].unique(maintain_order=True):
        yield Statement(kind="design", text=sentence(message))


def design(view: View) -> Iterator[Statement]:
    """What in the data of one aspect would fool a reader."""
    yield from serious(view.problems)
    effects = view.decided["decisions"].filter(rater=HUMAN)["design_effect"].drop_nulls()
    if len(effects) and (mean := float(effects.mean() or 0.0)) >= MARKED_EFFECT:  # type: ignore[arg-type]
        text = (
            f"Items of one document are alike: people's margins vary {number(mean, digits=1)} times as much as with"
            " independent items. Tests and intervals allow for it."
        )
        yield Statement(kind="design", text=text, value=mean, unit="variance ratio")


def trust(view: View) -> Iterator[Statement]:
    """The metric with the highest agreement, those that it does not differ from, and its accuracy at system level."""
    if not view.standing:
        text = "No metric can be compared with the annotators: agreement is undefined."
        yield Statement(kind="trust", text=text)
        return
    best, *others = view.standing
    numbers = value_of(best, "value")
    if not view.side("above"):
        text = "No metric agrees with the annotators significantly better than chance."
        if not view.bounded:
            text = (
                f"{best['metric']} has the highest agreement with the annotators ({_score(view, best)}). Without"
                " intervals it cannot be compared with chance."
            )
        yield Statement(kind="trust", text=text, unit=best["statistic"], **numbers)
        return
    text = f"{best['metric']} agrees best with the annotators ({_score(view, best)})."
    tests = _tests_of(view, best["metric"], best["statistic"])
    p_values = _p_values(tests)
    level = {row["metric"]: p_values.get(row["metric"]) for row in others if share_a_letter(best, row)}
    if not view.tested:
        text += " Differences between metrics were not tested."
    elif level:
        near = tests.filter(note=AT_THRESHOLD)["other"].to_list()  # the Monte Carlo error leaves these open
        if clear := {name: p for name, p in level.items() if name not in near}:
            text += f" It does not differ significantly from {_with_p_values(clear)}."
        if close := {name: p for name, p in level.items() if name in near}:
            text += f" {AT_THRESHOLD.capitalize()}, which counts as not significant: {_with_p_values(close)}."
    elif others:
        largest = max(p_values.values(), default=None)
        whom = "the other metric" if len(others) == 1 else "each other metric"
        which = "" if len(others) == 1 else "largest "
        tested = "" if largest is None else f" ({which}{p_equals(largest)})"
        text += f" It is significantly better than {whom}{tested}."
    yield Statement(
        kind="trust",
        text=text,
        rater=best["metric"],
        p_value=max(p_values.values(), default=None),
        unit=best["statistic"],
        **numbers,
    )
    yield from _at_system_level(view, best)


def _tests_of(view: View, metric: str, statistic: str) -> pl.DataFrame:
    """Tests of the difference of a metric and each `other` one by a statistic."""
    rows = view.tests.filter(pl.col("p_adjusted").is_not_null(), statistic=statistic)
    rows = rows.filter(pl.any_horizontal(pl.col("metric_a", "metric_b") == metric))
    return rows.with_columns(other=pl.when(pl.col("metric_a") == metric).then("metric_b").otherwise("metric_a"))


def _p_values(tests: pl.DataFrame) -> dict[str, float]:
    """The adjusted p-value of each test of a metric, by the other metric."""
    return dict(tests.select("other", "p_adjusted").iter_rows())


def _with_p_values(level: dict[str, float | None]) -> str:
    """Metrics with the adjusted p-value of each, or with the smallest where they are many."""
    tested = [own for own in level.values() if own is not None]
    if len(level) <= MOST_NAMED:
        return names([name if own is None else f"{name} ({p_equals(own)})" for name, own in level.items()])
    return f"{names([*level], limit=MOST_NAMED)}{f' (p ≥ {p_value(min(tested))})' if tested else ''}"


def _score(view: View, row: Row) -> str:
    """The statistic that ranks the metrics, with its interval and the chance level."""
    if view.ordered:
        return f"Kendall's τ within items {with_ends(row, 'value')}; chance level 0"
    # An interval of no length only says that no comparison differs.
    certain = row["value_low"] == row["value_high"]
    shown = percent(row["value"]) if certain else with_ends(row, "value", shown=percent)
    text = f"the same preference in {shown} of comparisons"
    return text if row["chance"] is None else f"{text}; chance level {percent(row['chance'])}"


def _at_system_level(view: View, best: Row) -> Iterator[Statement]:
    """The pairwise accuracy of the metric that agrees best within items, and a higher one if there is any.

    Only where metrics are ranked within items: pairwise accuracy of two systems is all or nothing.
    """
    name = SYSTEM_LEVEL
    if not view.ordered or best[name] is None:
        return
    text = f"At system level, {best['metric']} orders {with_ends(best, name, shown=percent)} of the pairs of systems as"
    text += " the annotators do (pairwise accuracy; chance level 50 %)."
    first = max(view.standing, key=lambda row: -1.0 if row[name] is None else row[name])
    p = None
    if first[name] > best[name]:
        p = _p_values(_tests_of(view, best["metric"], name)).get(first["metric"])
        text += f" {first['metric']} has the highest, {percent(first[name])}"
        text += "." if p is None else f" ({p_equals(p)} for the difference)."
    yield Statement(kind="trust", text=text, rater=best["metric"], p_value=p, unit=name, **value_of(best, name))


def chance(view: View) -> Iterator[Statement]:
    """Metrics that are not significantly better than chance, or significantly worse."""
    unclear, below = view.side("unclear"), view.side("below")
    if unclear and view.bounded:
        verb = "is" if len(unclear) == 1 else "are"
        yield Statement(
            kind="chance",
            text=f"{names(unclear)} {verb} not significantly better than chance (all metrics tested together).",
            rater=only(unclear),
        )
    if below:
        single = len(below) == 1
        text = f"{names(below)} {'agrees' if single else 'agree'} with the annotators significantly less than chance."
        if view.ordered and (plain := [name for name in below if name not in view.lower]):
            what = f"Is {plain[0]} a distance" if len(plain) == 1 else f"Are {names(plain)} distances"
            text += f" {what}, where lower is better? Then declare it in a raters file."
        yield Statement(kind="chance", text=text, rater=only(below))


def uncertain(view: View) -> Iterator[Statement]:
    """What this study is too small to decide."""
    texts = []
    if view.standing and not view.bounded:
        texts.append("There are no intervals, so no difference here can be compared with chance.")
    elif view.leaders[1:]:
        texts.append(f"Which of {names(view.leaders)} agrees best with the annotators.")
    texts += [sentence(message) for message in view.again if not view.sided]
    return (Statement(kind="uncertain", text=text) for text in texts)
