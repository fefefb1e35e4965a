"""Is this study sound enough to ask it anything?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Unpack

import numpy as np
import polars as pl

from custodes.data.panel import Floats
from custodes.data.scale import BEYOND
from custodes.data.study import Study
from custodes.errors import listed
from custodes.evaluate.comparison import Comparison, Setting, compare, settings
from custodes.evaluate.parallel import each
from custodes.evaluate.result import Result, Rng, columns, provenance, seeded, stacked
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.agreement import correlation, kendall
from custodes.stats.resampling import resample

FEW_ITEMS = 30
DUPLICATE_CORRELATION = 0.999
RESAMPLES = 1000
AGAINST_CONFIDENCE = 0.99
"""Many metrics are looked at, so one of pure noise should rarely be called reversed."""
Severity = Literal["error", "warning", "info"]

SERIOUS_NOTES = ("constant-metric", "no-overlap", "all-ties", "one-item")
PROBLEMS_SCHEMA: dict[str, pl.DataType] = {
    **{name: pl.String() for name in ("aspect", "severity", "rule", "message")},
    "examples": pl.List(pl.String()),
}


@dataclass(frozen=True, kw_only=True)
class Check(Result):
    """`summary` (one row an aspect), `raters` (one row a rater and aspect), `problems`. See `check`."""

    summary: pl.DataFrame
    raters: pl.DataFrame
    problems: pl.DataFrame


def check(study: Study, *, rng: Rng = 0, progress: Progress = silent, **setting: Unpack[Setting]) -> Check:
    """What the study holds and what would fool its reader.

    `summary`: items, clusters, systems, raters, ratings, coverage (share of item x system x rater cells rated), missing
    cells and the share of ties among people's comparisons. `raters`: the same for each rater, with its range.
    `problems`: severity (error, warning, info), rule, message and examples; a metric that runs against people
    (its direction may be wrong), near-duplicates, constant raters, few items, one-sided people, left-out rows.

    >>> import custodes as cu
    >>> cu.check(cu.read("demo")).summary["systems"].to_list()[0] > 1
    True
    """
    generator, seed = seeded(rng)
    comparisons = compare(study, **setting)
    raters = [_rater_table(study, comparison) for comparison in comparisons]
    summaries = [_summary(comparison, table) for comparison, table in zip(comparisons, raters, strict=True)]
    found = list(each(_problems, comparisons, rng=generator, progress=progress, desc="check"))
    problems = [problem for own in found for problem in own]
    chosen = {name for comparison in comparisons for name in (*comparison.people, *comparison.metrics)}
    problems += _beyond_declared(study, chosen)
    notes = tuple(dict.fromkeys(note for comparison in comparisons for note in comparison.notes))
    seen = [("", "info", n.rule, n.message, list[str]()) for n in notes if n.rule not in SERIOUS_NOTES]
    return Check(
        provenance=provenance("check", study, options=dict(settings(setting)), seed=seed, notes=notes),
        notes=notes,
        summary=stacked(summaries),
        raters=stacked(raters),
        problems=pl.DataFrame([*problems, *seen], schema=PROBLEMS_SCHEMA, orient="row"),
    )


def _rater_table(study: Study, comparison: Comparison) -> pl.DataFrame:
    """One row per person, per metric, and for the aggregated people."""
    rows = study.ratings.frame.filter(
        pl.col("aspect").is_in([comparison.aspect, ""]) & pl.col("item").is_in(list(comparison.items))
    ).filter(pl.col("system").is_in(list(comparison.systems)))
    by_score = rows.group_by("rater").agg(
        pl.len().alias("ratings"),
        pl.col("score").min().alias("low"),
        pl.col("score").max().alias("high"),
    )
    verdicts = study.preferences.frame.filter(
        pl.col("aspect").is_in([comparison.aspect, ""])
        & pl.col("system_a").is_in(list(comparison.systems))
        & pl.col("system_b").is_in(list(comparison.systems))
    )
    by_verdict = verdicts.group_by("rater").agg(pl.len().alias("verdicts"))
    # A cell is an output of an item; a verdict rates two of them.
    outputs = [rows.select("rater", "item", "system")]
    outputs += [verdicts.select("rater", "item", system=side) for side in ("system_a", "system_b")]
    covered = pl.concat(outputs).unique().group_by("rater").agg(pl.len().alias("cells"))
    order = pl.DataFrame(
        {
            "rater": [*comparison.people, *comparison.metrics],
            "kind": ["human"] * len(comparison.people) + ["metric"] * len(comparison.metrics),
        }
    )
    table = order.join(by_score, on="rater", how="left", maintain_order="left").join(
        by_verdict, on="rater", how="left", maintain_order="left"
    )
    table = table.join(covered, on="rater", how="left", maintain_order="left")
    cells = len(comparison.items) * len(comparison.systems)
    ties = {name: _tie_share(signs) for name, signs in zip(comparison.metrics, comparison.metric_signs, strict=True)}
    person_ties = _tie_share(comparison.human_signs)
    return table.select(
        pl.lit(comparison.aspect).alias("aspect"),
        "rater",
        "kind",
        pl.lit(len(comparison.items)).alias("items"),
        pl.lit(len(comparison.systems)).alias("systems"),
        pl.col("ratings", "verdicts").fill_null(0),
        (pl.col("cells").fill_null(0) / cells).alias("coverage"),
        (cells - pl.col("cells").fill_null(0)).alias("missing"),
        pl.Series(
            "ties",
            [
                person_ties if len(comparison.people) == 1 and name in comparison.people else ties.get(name)
                for name in order["rater"]
            ],
            dtype=pl.Float64,
        ),
        "low",
        "high",
    )


def _tie_share(signs: np.ndarray) -> float | None:
    rated = signs != ABSENT
    return float((signs[rated] == 0).mean()) if rated.any() else None


def _summary(comparison: Comparison, raters: pl.DataFrame) -> pl.DataFrame:
    cells = len(comparison.items) * len(comparison.systems) * raters.height
    missing = int(raters["missing"].sum())
    return columns(
        {
            "aspect": [comparison.aspect],
            "items": [len(comparison.items)],
            "clusters": [len(comparison.clusters)],
            "systems": [len(comparison.systems)],
            "raters": [raters.height],
            "people": [len(comparison.people)],
            "metrics": [len(comparison.metrics)],
            "ratings": [int(raters["ratings"].sum())],
            "verdicts": [int(raters["verdicts"].sum())],
            "coverage": [1 - missing / cells],
            "missing": [missing],
            "ties": [_tie_share(comparison.human_signs)],
        }
    )


def _problems(comparison: Comparison, rng: np.random.Generator) -> list[tuple[str, Severity, str, str, list[str]]]:
    found: list[tuple[Severity, str, str, list[str]]] = []
    n_items = int((comparison.human_signs != ABSENT).any(axis=0).sum())
    if n_items < FEW_ITEMS:
        message = f"people compared outputs of only {n_items} items; intervals under {FEW_ITEMS} items are rough"
        found.append(("warning", "few-items", message, []))
    against = _against_people(comparison, rng)
    if against:
        message = (
            f"against people run (Kendall below 0 with its whole {AGAINST_CONFIDENCE:.0%} interval): {listed(against)};"
            " are they distances? Say higher_is_better = false in a raters file"
        )
        found.append(("warning", "against-people", message, against))
    rated = comparison.human_signs != ABSENT
    decided = comparison.human_signs[rated]
    if len(comparison.systems) == 2 and len(set(decided[decided != 0].tolist())) == 1:
        better = comparison.systems[0 if decided.max() == 1 else 1]
        message = (
            f"people never prefer the other side to {better!r}: if these are sides (chosen, rejected) and not systems,"
            " sample accuracy is the number to read; favoritism and rankings say nothing then"
        )
        found.append(("warning", "one-sided-people", message, []))
    constant = [
        note for note in comparison.notes if note.rule in ("constant-metric", "no-overlap", "all-ties", "one-item")
    ]
    found += [("warning", note.rule, note.message, []) for note in constant]
    twins = _duplicates(comparison)
    if twins:
        message = f"metrics that are all but the same (correlation over {DUPLICATE_CORRELATION}): {listed(twins)}"
        found.append(("info", "near-duplicates", message, twins))
    return [(comparison.aspect, *problem) for problem in found]


def _beyond_declared(study: Study, chosen: set[str]) -> list[tuple[str, Severity, str, str, list[str]]]:
    """Raters whose scores often lie beyond the bounds that the raters file declares: the bounds may be wrong."""
    shares = (
        study.ratings.frame.join(study.raters.frame.drop_nulls(["low", "high"]), on="rater")
        .filter(pl.col("rater").is_in(list(chosen)))
        .group_by("rater", maintain_order=True)
        .agg(share=(~pl.col("score").is_between(pl.col("low"), pl.col("high"))).mean())
        .filter(pl.col("share") > BEYOND)
    )
    if shares.is_empty():
        return []
    names = shares["rater"].to_list()
    told = [f"{name} ({share:.0%})" for name, share in shares.iter_rows()]
    message = f"scores beyond the low and high of the raters file: {listed(told)}; combinations clip them to the bounds"
    return [("", "warning", "beyond-declared", message, names)]


def _against_people(comparison: Comparison, rng: np.random.Generator) -> list[str]:
    n_units = len(comparison.clusters)
    if n_units < 2:
        return []
    times = resample.bootstrap_weights(n_units, RESAMPLES, rng)
    if np.isfinite(comparison.human).any():
        drawn = kendall.pooled_kendall(
            comparison.human, comparison.metric_scores, units=comparison.units, weights=times
        )
        _, high = resample.percentile_interval(drawn, confidence=AGAINST_CONFIDENCE)
        return [name for name, bound in zip(comparison.metrics, high, strict=True) if bound < 0]
    return []


def _duplicates(comparison: Comparison) -> list[str]:
    scores = comparison.metric_scores.reshape(len(comparison.metrics), -1)
    twins = []
    for a in range(len(scores) - 1):
        alike: Floats = correlation.pearson(scores[a], scores[a + 1 :])
        twins += [
            f"{comparison.metrics[a]} / {comparison.metrics[a + 1 + b]}"
            for b in np.flatnonzero(np.abs(alike) > DUPLICATE_CORRELATION)
        ]
    return twins
