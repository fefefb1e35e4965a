"""What would fool a reader of any study, of people or metrics alone too: rules that compare nobody with people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from custodes.data.scale import BEYOND, MissingCode
from custodes.data.study import NO_METRIC, Study
from custodes.errors import listed
from custodes.evaluate.check.problems import Problem
from custodes.evaluate.comparison import Comparison, label_of
from custodes.stats import correlation
from custodes.stats.arrays import Floats

FEW_ITEMS = 30
DUPLICATE_CORRELATION = 0.999
MEAN_ROUNDING = 0.0125
"""Half a tenth on a scale of 1 to 5: a mean that was written with one digit."""
ROUNDING = 1e-9
FEWEST_MEANS = 20
"""Outputs below which a mean of others may be one by chance."""
SILENT = "people-without-scores"


def missing_side(chosen: Study) -> Iterator[Problem]:
    """Which side is missing where people are alone, or metrics; of people who said nothing a note tells."""
    if not chosen.metrics:
        yield Problem("warning", "no-metrics", NO_METRIC)
    elif not chosen.humans and SILENT not in {note.rule for note in chosen.notes}:
        yield Problem("warning", "no-people", chosen.whose_people())


def few_items(comparison: Comparison) -> Iterator[Problem]:
    """Few items of a study of one side."""
    n_items = len(comparison.items)
    if 0 < n_items < FEW_ITEMS:
        message = f"only {n_items} items were rated; intervals under {FEW_ITEMS} items are rough"
        yield Problem("warning", "few-items", message)


def beyond_declared(study: Study) -> list[Problem]:
    """Raters whose scores often lie beyond the bounds that the raters file declares: the bounds may be wrong."""
    rounding = ROUNDING * pl.max_horizontal(pl.col("low", "high").abs())
    within = pl.col("score").is_between(pl.col("low") - rounding, pl.col("high") + rounding)
    shares = (
        study.ratings.frame.join(study.raters.frame.drop_nulls(["low", "high"]), on="rater")
        .group_by("rater", maintain_order=True)
        .agg(share=(~within).mean())
        .filter(pl.col("share") > BEYOND)
    )
    if shares.is_empty():
        return []
    names = shares["rater"].to_list()
    told = [f"{name} ({share:.0%})" for name, share in shares.iter_rows()]
    message = f"scores beyond the low and high of the raters file: {listed(told)}; combinations clip them to the bounds"
    return [Problem("warning", "beyond-declared", message, names)]


def orders(study: Study) -> list[Problem]:
    """Judges whose presentation order cannot be told from the pair, and comparisons with one of two orders, of which
    nothing says that the other was asked."""
    judges = study.metrics
    shown = study.preferences.frame.filter(pl.col("rater").is_in(list(judges)) & (pl.col("order") != ""))
    told_of = study.preferences.half()
    pair = ["rater", "system_a", "system_b"]
    varies = pl.col("order").n_unique() > 1
    by_pair = shown.group_by(pair).agg(varies=varies).group_by("rater").agg(pl.col("varies").any())
    fixed = [name for name in judges if name in set(by_pair.filter(~pl.col("varies"))["rater"])]
    both = (
        shown.join(told_of, on=told_of.columns, how="anti")
        .group_by("item", "aspect", *pair)
        .agg(both=varies)
        .group_by("rater")
    )
    half = both.agg(pl.col("both").any(), (~pl.col("both")).sum().alias("half")).filter("both", pl.col("half") > 0)
    lost = {name: number for name, _, number in half.sort("rater").iter_rows()}
    one_order = (
        f"judges that saw every pair of systems in one order only: {listed(fixed)}; whether they prefer what is shown"
        " first cannot be told from what they prefer: show some comparisons in both orders"
    )
    told = listed((f"{name} ({number})" for name, number in lost.items()), limit=3)
    halved = (
        f"comparisons that a judge saw in one order, and others in both: {told}; they count whole with what it said"
        " there, which holds its preference for a slot: judge the other order, too, or give a row without a preference"
        " where it did not answer"
    )
    found = (
        (fixed, Problem("warning", "one-order", one_order, fixed)),
        (lost, Problem("warning", "one-of-two-orders", halved, list(lost))),
    )
    return [problem for holds, problem in found if holds]


def twins(comparison: Comparison) -> Iterator[Problem]:
    """Metrics that are all but the same."""
    if not comparison.scores.metrics.size:
        return
    scores, found = comparison.scores.metrics.reshape(len(comparison.metrics), -1), []
    for a in range(len(scores) - 1):
        alike: Floats = correlation.pearson(scores[a], scores[a + 1 :])
        found += [
            f"{comparison.metrics[a]} / {comparison.metrics[a + 1 + b]}"
            for b in np.flatnonzero(np.abs(alike) > DUPLICATE_CORRELATION)
        ]
    if found:
        message = f"metrics that are all but the same (correlation over {DUPLICATE_CORRELATION}): {listed(found)}"
        yield Problem("info", "near-duplicates", message, found)


def means_of_others(comparison: Comparison) -> Iterator[Problem]:
    """People, or metrics, that are the mean of others, and so no judgement of their own."""
    label = label_of(comparison.aspect)
    people, metrics = (
        set(_means(comparison.people, comparison.scores.persons)),
        set(_means(comparison.metrics, comparison.scores.metrics)),
    )
    judged_by = set(_means(comparison.metrics, comparison.scores.metrics, of=comparison.scores.persons))
    for name in (*comparison.people, *comparison.metrics):
        humans, others = (
            listed([own for own in side if own != name], limit=4) for side in (comparison.people, comparison.metrics)
        )
        if name in people:
            told = f"people {humans}{label}, who are counted twice then: leave it out of human"
        elif name in judged_by:
            told = f"people {humans}{label}, who would be judged by themselves: leave it out of metrics"
        elif name in metrics:
            told = f"metrics {others}{label}, and no judge of its own"
        else:
            continue
        yield Problem("warning", "mean-of-others", f"{name!r} is the mean of the {told}", [name])


def _means(names: Sequence[str], scores: Floats, of: Floats | None = None) -> Iterator[str]:
    """Whose scores (raters, items, systems) are, but for rounding, the means of several others that differ: of each
    other, or of those that are given."""
    group = scores if of is None else of
    if len(group) < 2 + (of is None) or not group.size:
        return
    given = np.isfinite(group)
    total, n = np.where(given, group, 0.0).sum(axis=0), given.sum(axis=0)
    apart = np.fmax.reduce(group) - np.fmin.reduce(group)
    for name, own in zip(names, scores, strict=True):
        rated = np.isfinite(own)
        others = n - rated if of is None else n
        both = rated & (others > 1)
        if both.sum() < FEWEST_MEANS:
            continue
        mean = (total - own if of is None else total)[both] / others[both]
        tolerance = MEAN_ROUNDING * np.ptp(own[both]) * (1 + ROUNDING)
        if 0 < tolerance < apart[both].max() and np.abs(own[both] - mean).max() <= tolerance:
            yield name


def missing_codes(study: Study) -> Iterator[Problem]:
    """Raters with a value far from all their others, which may stand for none."""
    told = {}
    for (rater, aspect), rows in study.ratings.frame.group_by("rater", "aspect", maintain_order=True):
        code = MissingCode.of(rows["score"].to_numpy())
        if code:
            told[str(rater)] = f"{rater}{label_of(str(aspect))}: {code}"
    if told:
        message = f"a value far from all others of its rater: {listed(told.values(), limit=3)}"
        yield Problem("warning", "missing-code", message, list(told))
