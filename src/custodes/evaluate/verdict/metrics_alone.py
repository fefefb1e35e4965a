"""Sentences for a study of metrics and judges without human ratings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from custodes.answers.result import Result
from custodes.answers.wording import names, percent, plural
from custodes.evaluate.verdict.faults import faults
from custodes.evaluate.verdict.metrics import serious
from custodes.evaluate.verdict.view import MOST_NAMED, AspectResults

EXAMPLE_RATE = 0.6
EXAMPLE_COMPARISONS = 200
"""Number of comparisons with which a two-sided sign test (level .05) has 80 % power at a win rate of .6."""


def metric_sentences(results: Mapping[str, Result], aspect: str, *, first: bool) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of the sentences on one aspect.

    `results` has `check` and `leaderboard`, and `consistency` and `complementarity` if these could be computed. The
    `first` aspect also has the problems of the whole study.
    """
    view = AspectResults(results, aspect)
    problems = results["check"].to_frame("problems").filter(pl.col("aspect").is_in([aspect, *([""] if first else [])]))
    yield from (("design", text) for text in serious(problems.filter(pl.col("rule") != "no-annotators")))
    yield (
        "design",
        "There are no human ratings, so these sentences describe the preferences of the metrics, but not which metric "
        "is right. Metrics that agree with each other may share an error.",
    )
    yield from (("best", text) for text in _best(results["leaderboard"], aspect))
    if "complementarity" in results:
        yield from (("trust", text) for text in _alike(results["complementarity"]))
    yield from (("faults", text) for text in faults(view))
    yield (
        "labels",
        "Human ratings of some items would show which metric to trust (custodes agreement). With about "
        f"{EXAMPLE_COMPARISONS} human comparisons of two systems, a test detects a win rate of "
        f"{percent(EXAMPLE_RATE)} with about 80 % power; custodes plan computes this for a study.",
    )


def _best(leaderboard: Result, aspect: str) -> Iterator[str]:
    """Yield sentences on the top group of systems by each metric, and on contradictions between metrics."""
    systems = leaderboard.to_frame("systems").filter(pl.col("strength").is_not_null(), aspect=aspect)
    cycles = leaderboard.to_frame("cycles").filter(aspect=aspect)
    metrics = systems["rater"].unique(maintain_order=True).to_list()
    groups: dict[str, list[str]] = {}
    for metric in metrics:
        rows = systems.filter(rater=metric).sort("rank")
        groups.setdefault(_top(rows, cycles.filter(rater=metric)), []).append(metric)
    groups.pop("", None)  # no test without intervals
    for finding, members in sorted(groups.items(), key=lambda group: -len(group[1]))[:MOST_NAMED]:
        every = len(members) == len(metrics) > 2
        yield f"By {f'all {len(metrics)} metrics' if every else names(members, limit=MOST_NAMED)}, {finding}."
    pairs = leaderboard.to_frame("pairs").filter(pl.col("decision").is_in(["+", "-"]), aspect=aspect)
    if len(metrics) > 1:
        signs = pairs.group_by("system_a", "system_b").agg(pl.col("decision").n_unique(), pl.col("rater").n_unique())
        contradicted = signs.filter(pl.col("decision") > 1).height
        agreed = signs.filter(pl.col("decision") == 1, pl.col("rater") == len(metrics)).height
        n = leaderboard.to_frame("pairs").filter(aspect=aspect).select("system_a", "system_b").n_unique()
        against = f"on {plural(contradicted, 'pair')} two metrics" if contradicted else "no two metrics"
        yield (
            f"Of {plural(n, 'pair')} of systems, all metrics decide {agreed} equally, and {against} contradict "
            "each other significantly (each metric tested separately)."
        )


def _top(rows: pl.DataFrame, cycles: pl.DataFrame) -> str:
    """Return a clause on the best system by one metric, from the rows of systems by rank; empty without a test."""
    first = rows.filter(pl.col("may_be_first"))["system"].to_list()
    if not first:
        return ""
    if rows["part"].n_unique() > 1:
        return "it is unknown which system is best, because not all systems are connected by comparisons"
    if cycles.height:
        return f"preferences form a cycle, so no ranking is consistent with the preferences ({cycles['cycle'][0]})"
    if len(first) > 1:
        return f"which of {names(first, limit=MOST_NAMED)} is best is undecided"
    ahead = ": significantly ahead of every other system" if rows["rank_high"][0] == 1 else ""
    return f"{first[0]} is best{ahead}"


def _alike(complementarity: Result) -> Iterator[str]:
    """Yield a sentence on the pairs of metrics with the most similar and with the least similar rankings."""
    pairs = complementarity.to_frame("pairs").filter(pl.col("complementarity").is_not_null()).sort("complementarity")
    if pairs.is_empty():
        return
    write = "{rater_a} and {rater_b} (complementarity {complementarity:.2f})".format_map
    first, last = (write(row) for row in (pairs.row(0, named=True), pairs.row(-1, named=True)))
    scale = "0: equal rankings of the outputs of an item, .5: unrelated"
    compared = f"The most similar metrics are {first}, the least similar metrics are {last}; {scale}."
    if pairs.height == 1:
        compared = f"Similarity of the two metrics: {first}; {scale}."
    yield f"Which metric to trust is unknown without human ratings. {compared}"
