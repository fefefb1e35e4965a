"""Is this study sound enough to ask it anything?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.setting import Setting
from custodes.answers.tables import count, label, labels, score, share, table
from custodes.data.scale import BEYOND
from custodes.data.study import Study
from custodes.errors import listed
from custodes.evaluate.agreement.differences import Tester, chance_tests
from custodes.evaluate.agreement.statistic import Sample
from custodes.evaluate.comparison import Comparison, compare
from custodes.evaluate.naming import aspects_as_people, named_alike, people_as_metrics
from custodes.evaluate.parallel import each
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.agreement import correlation
from custodes.stats.agreement.system_scores import blocks_of, common_items
from custodes.stats.arrays import Bools, Floats

FEW_ITEMS = 30
DUPLICATE_CORRELATION = 0.999
RESAMPLES = 1000
AGAINST_CONFIDENCE = 0.99
"""One of many metrics of pure noise should rarely be called reversed."""
COVERAGE_GAP = 0.1
"""A tenth less than others is told as a warning."""
ROUNDING = 1e-9

SERIOUS_NOTES = ("constant-metric", "no-overlap", "all-ties", "one-item", "sides")
TOLD = (*SERIOUS_NOTES, "people-as-metrics")
"""Notes that are told as problems of their own."""
WARNED = ("unused-people", "place-or-column", "no-loss")
"""Notes that may turn a number round."""
SIDED = ("one-sided-people", "sides")
"""Sides are compared and not systems: by what people say, or as the reader of the data declares."""


@result
class Check(Result):
    """What a study holds and what would fool its reader. See `check`."""

    summary: pl.DataFrame = table(
        "One row per aspect.",
        count("items", "items that anybody chosen rated"),
        count("clusters", "groups of items (documents or the like) that are resampled together"),
        count("systems", "systems compared"),
        count("raters", "people and metrics together", essential=False),
        count("people", "people"),
        count("metrics", "metrics and judges"),
        count("ratings", "scores"),
        count("verdicts", "pairwise verdicts"),
        share("coverage", "share of item × system × rater cells with a score"),
        count("missing", "cells without one", essential=False),
        share("ties", "share of comparisons on which people, taken together, tie", "People tie"),
    )
    raters: pl.DataFrame = table(
        "One row per rater and aspect.",
        label("rater", "its name"),
        label("kind", "human or metric"),
        count("items", "of the whole study", essential=False),
        count("systems", "of the whole study", essential=False),
        count("ratings", "scores given"),
        count("verdicts", "pairwise verdicts given"),
        share("coverage", "share of item × system cells that it rated"),
        count("missing", "cells that it did not rate"),
        share("ties", "share of its comparisons that tie; null for one of several people"),
        score("low", "lowest score given", "Lowest"),
        score("high", "highest score given", "Highest"),
        essential=False,
    )
    problems: pl.DataFrame = table(
        "What would fool a reader.",
        label("severity", "error, warning or info"),
        label("rule", "a short stable name, see the page of the question"),
        label("message", "what was found and the way out", "What"),
        labels("examples", "names concerned", essential=False),
    )

    def told(self) -> Iterator[str]:
        """Only that there is none: `problems` holds the notes."""
        return iter(() if self.problems.height else ("no problems found",))

    @property
    def status(self) -> int:
        """1 with warnings or errors."""
        return int(not {"warning", "error"}.isdisjoint(self.problems["severity"]))


@question("custodes check ratings.csv --human 'expert*'")
def check(study: Study, *, rng: Rng = 0, progress: Progress = silent, **setting: Unpack[Setting]) -> Check:
    """What the study holds and what would fool its reader.

    `summary`: items, clusters, systems, raters, ratings, coverage (share of item x system x rater cells rated), missing
    cells and the share of ties among people's comparisons. `raters`: the same for each rater, with its range.
    `problems`: severity (error, warning, info), rule, message and examples; a metric that runs against people
    (its direction may be wrong), near-duplicates, constant raters, few items, one-sided people, metrics or systems
    rated on other items than others, systems without a common item, names that look alike, people who count as metrics
    or are told apart by aspects, left-out rows.

    >>> import custodes as cu
    >>> cu.check(cu.read("demo")).summary["systems"].to_list()[0] > 1
    True
    """
    comparisons = compare(study, **setting)
    metrics = {name for comparison in comparisons for name in comparison.metrics}
    chosen = metrics | {name for comparison in comparisons for name in comparison.people}
    notes = dict.fromkeys(note for comparison in comparisons for note in comparison.notes)
    generator = np.random.default_rng(rng)
    found = list(each(_problems, comparisons, rng=generator, progress=progress, desc="check"))
    everywhere = (
        [_Problem("warning", *found) for found in (*named_alike(study), *people_as_metrics(study, metrics))]
        + _beyond_declared(study, chosen)
        + _orders(study, chosen)
        + [_Problem(_severity(note.rule), note.rule, note.message) for note in notes if note.rule not in TOLD]
    )
    parts = [
        Check.part(comparison.aspect, summary=_summary(comparison, raters), raters=raters, problems=_columns(own))
        for comparison, own in zip(comparisons, found, strict=True)
        for raters in [_raters(study, comparison)]
    ]
    return Check.of([*parts, Check.part(problems=_columns(everywhere))], notes)


def _severity(rule: str) -> Literal["warning", "info"]:
    return "warning" if rule in WARNED else "info"


class _Problem(NamedTuple):
    severity: Literal["error", "warning", "info"]
    rule: str
    message: str
    examples: Sequence[str] = ()


def _columns(problems: Sequence[_Problem]) -> dict[str, list[Any]]:
    return {name: [getattr(own, name) for own in problems] for name in _Problem._fields}


def _raters(study: Study, comparison: Comparison) -> dict[str, Any]:
    """One row per person and per metric."""
    ours = pl.col("aspect").is_in([comparison.aspect, ""])
    systems = list(comparison.systems)
    rows = study.ratings.frame.filter(
        ours & pl.col("item").is_in(list(comparison.items)) & pl.col("system").is_in(systems)
    )
    verdicts = study.preferences.frame.filter(
        ours & pl.col("system_a").is_in(systems) & pl.col("system_b").is_in(systems)
    )
    # A cell is an output of an item; a verdict rates two of them.
    outputs = [rows.select("rater", "item", "system")]
    outputs += [verdicts.select("rater", "item", system=side) for side in ("system_a", "system_b")]
    told = pl.DataFrame({"rater": [*comparison.people, *comparison.metrics]})
    for counted in (
        rows.group_by("rater").agg(pl.len().alias("ratings"), low=pl.col("score").min(), high=pl.col("score").max()),
        verdicts.group_by("rater").agg(pl.len().alias("verdicts")),
        pl.concat(outputs).unique().group_by("rater").agg(pl.len().alias("cells")),
    ):
        told = told.join(counted, on="rater", how="left", maintain_order="left")
    cells = len(comparison.items) * len(systems)
    seen = told["cells"].fill_null(0)
    alone = [_tie_share(comparison.human_signs)] if len(comparison.people) == 1 else [None] * len(comparison.people)
    return {
        "rater": told["rater"],
        "kind": ["human"] * len(comparison.people) + ["metric"] * len(comparison.metrics),
        "items": len(comparison.items),
        "systems": len(systems),
        "ratings": told["ratings"].fill_null(0),
        "verdicts": told["verdicts"].fill_null(0),
        "coverage": seen / cells,
        "missing": cells - seen,
        "ties": [*alone, *map(_tie_share, comparison.metric_signs)],
        "low": told["low"],
        "high": told["high"],
    }


def _tie_share(signs: np.ndarray) -> float | None:
    rated = signs != ABSENT
    return float((signs[rated] == 0).mean()) if rated.any() else None


def _summary(comparison: Comparison, raters: dict[str, Any]) -> dict[str, Any]:
    missing, n = int(raters["missing"].sum()), len(raters["rater"])
    return {
        "items": len(comparison.items),
        "clusters": comparison.design.n_units,
        "systems": len(comparison.systems),
        "raters": n,
        "people": len(comparison.people),
        "metrics": len(comparison.metrics),
        "ratings": int(raters["ratings"].sum()),
        "verdicts": int(raters["verdicts"].sum()),
        "coverage": 1 - missing / (len(comparison.items) * len(comparison.systems) * n),
        "missing": missing,
        "ties": _tie_share(comparison.human_signs),
    }


def _problems(comparison: Comparison, rng: np.random.Generator) -> list[_Problem]:
    rated = comparison.human_signs != ABSENT
    n_items, decided = int(rated.any(axis=0).sum()), comparison.human_signs[rated]
    against, twins = _against_people(comparison, rng), _duplicates(comparison)
    sides = set(decided[decided != 0].tolist())
    declared = any(note.rule == "sides" for note in comparison.notes)
    few = f"people compared outputs of only {n_items} items; intervals under {FEW_ITEMS} items are rough"
    reversed_ = (
        f"against people run (Kendall below 0, all metrics tested together at {1 - AGAINST_CONFIDENCE:.0%}):"
        f" {listed(against)};"
        " are they distances? Say higher_is_better = false in a raters file"
    )
    one_sided = (
        f"people never prefer the other side to {comparison.systems[0 if 1 in sides else 1]!r}: if these are sides"
        " (chosen, rejected) and not systems, sample accuracy is the number to read; favoritism and rankings say"
        " nothing then"
    )
    alike = f"metrics that are all but the same (correlation over {DUPLICATE_CORRELATION}): {listed(twins)}"
    found = (
        (n_items < FEW_ITEMS, _Problem("warning", "few-items", few)),
        (against, _Problem("warning", "against-people", reversed_, against)),
        (
            len(comparison.systems) == 2 and len(sides) == 1 and not declared,
            _Problem("warning", "one-sided-people", one_sided),
        ),
        *((True, _Problem("warning", n.rule, n.message)) for n in comparison.notes if n.rule in SERIOUS_NOTES),
        (twins, _Problem("info", "near-duplicates", alike, twins)),
    )
    pooled = [_Problem("warning", *own) for own in aspects_as_people(comparison)]
    return [problem for holds, problem in found if holds] + pooled + _coverage(comparison)


def _beyond_declared(study: Study, chosen: set[str]) -> list[_Problem]:
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
    return [_Problem("warning", "beyond-declared", message, names)]


def _orders(study: Study, chosen: set[str]) -> list[_Problem]:
    """Judges whose presentation order cannot be told from the pair, and comparisons with one of two orders."""
    judges = [name for name in study.metrics if name in chosen]
    shown = study.preferences.frame.filter(pl.col("rater").is_in(judges) & (pl.col("order") != ""))
    pair = ["rater", "system_a", "system_b"]
    varies = pl.col("order").n_unique() > 1
    by_pair = shown.group_by(pair).agg(varies=varies).group_by("rater").agg(pl.col("varies").any())
    fixed = [name for name in judges if name in set(by_pair.filter(~pl.col("varies"))["rater"])]
    both = shown.group_by("item", "aspect", *pair).agg(both=varies).group_by("rater")
    half = both.agg(pl.col("both").any(), (~pl.col("both")).sum().alias("half")).filter("both", pl.col("half") > 0)
    lost = {name: number for name, _, number in half.sort("rater").iter_rows()}
    one_order = (
        f"judges that saw every pair of systems in one order only: {listed(fixed)}; whether they prefer what is shown"
        " first cannot be told from what they prefer: show some comparisons in both orders"
    )
    told = listed((f"{name} ({number})" for name, number in lost.items()), limit=3)
    halved = (
        f"comparisons that a judge saw in one of two orders only: {told}; they count whole with what it said there,"
        " which holds its preference for a slot: judge the other order, or use orders='consistent'"
    )
    found = (
        (fixed, _Problem("warning", "one-order", one_order, fixed)),
        (lost, _Problem("warning", "half-judged", halved, list(lost))),
    )
    return [problem for holds, problem in found if holds]


def _against_people(comparison: Comparison, rng: np.random.Generator) -> list[str]:
    sample = Sample(
        comparison=comparison, times=np.ones((1, comparison.design.n_units)), flips=np.ones((0, 0), np.int8)
    )
    tester = Tester.of(sample, n=RESAMPLES, confidence=AGAINST_CONFIDENCE, rng=rng)
    made = chance_tests(tester, "kendall_global")
    clear = (made.p_adjusted <= 1 - AGAINST_CONFIDENCE) & (made.estimate < 0)
    return [name for name, against in zip(comparison.metrics, clear, strict=True) if against]


def _coverage(comparison: Comparison) -> list[_Problem]:
    """Metrics that rated less than others of what people rated, and systems that got other items than others."""
    rated = comparison.rated.sum(axis=(1, 2))
    shares = {name: n / rated.max() for name, n in zip(comparison.metrics, rated, strict=True) if n}
    low = [name for name, share in shares.items() if share < 1 - COVERAGE_GAP - ROUNDING]
    told = listed((f"{name} ({100 * shares[name]:.0f} %)" for name in low), limit=3)
    fewer = (
        f"metrics rated less than others of what people compared: {told}; what they agree on may be the easier part, so"
        " two metrics are compared on what both rated"
    )
    cells = _cells_of_people(comparison)
    joined = common_items(cells)
    counts = cells.astype(np.int64).T @ cells.astype(np.int64)
    most = np.maximum.outer(counts.diagonal(), counts.diagonal())
    apart = joined & (counts < (1 - COVERAGE_GAP - ROUNDING) * most)
    systems = np.array(comparison.systems)
    scored = np.isfinite(comparison.human).any()  # battles have no means
    sets = [systems[blocks_of(joined) == k].tolist() for k in np.unique(blocks_of(joined)[cells.any(axis=0)])]
    other = (
        f"people rated other items of some systems than of others ({listed(systems[apart.any(axis=0)], limit=4)}): "
        "means of systems would tell how hard their items are, so their scores are fitted beside effects of items"
    )
    strangers = (
        f"systems fall into {len(sets)} sets that share no item that people rated"
        f" ({'; '.join(listed(own, limit=3) for own in sets[:3])}): systems of different sets are not compared"
    )
    found = (
        (low, _Problem("warning", "coverage-differs", fewer, low)),
        (scored and apart.any(), _Problem("warning", "different-items", other, systems[apart.any(axis=0)].tolist())),
        (len(sets) > 1, _Problem("warning", "disjoint-systems", strangers, [own[0] for own in sets])),
    )
    return [problem for holds, problem in found if holds]


def _cells_of_people(comparison: Comparison) -> Bools:
    """(items, systems): which outputs people rated, alone or in a comparison."""
    cells = np.isfinite(comparison.human)
    rated = comparison.human_signs != ABSENT
    for side in comparison.design.pairs.T:
        for system in range(len(comparison.systems)):
            cells[:, system] |= rated[side == system].any(axis=0)
    return cells


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
