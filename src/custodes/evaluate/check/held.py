"""What one aspect of a study holds: who rated what, how much of it, and how often it ties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.setting import Setting, settings
from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note
from custodes.data.panel import Panel
from custodes.data.study import Study
from custodes.data.table import distinct, kept
from custodes.evaluate.check.problems import Problem
from custodes.evaluate.comparison import NO_COMPARISON, Comparison, compared_by_any, label_of
from custodes.evaluate.design import Design
from custodes.evaluate.people import ScalesDifferError
from custodes.stats.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class Held:
    """One aspect: `clusters` how many; `ties` the share of comparisons that people together (`human`) and each metric
    tie; `persons` (people, items, systems) and `metric_scores` (metrics, items, systems) the scores, of items that have
    any; `unpaired` how many comparisons of rated outputs are left out because no annotator rated both."""

    aspect: str
    items: tuple[str, ...]
    clusters: int
    systems: tuple[str, ...]
    people: tuple[str, ...]
    metrics: tuple[str, ...]
    ties: Mapping[str, float | None]
    unpaired: int
    persons: Floats
    metric_scores: Floats

    @classmethod
    def of(cls, comparison: Comparison) -> Held:
        """What is compared, people against metrics."""
        names = (HUMAN, *comparison.metrics)
        signs = {name: comparison.preferences.of_rater(r).sign for r, name in enumerate(names)}
        return cls(
            aspect=comparison.aspect,
            items=comparison.items,
            clusters=comparison.design.n_units,
            systems=comparison.systems,
            people=comparison.people,
            metrics=comparison.metrics,
            ties={name: _tie_share(own) for name, own in signs.items()},
            unpaired=comparison.unpaired,
            persons=comparison.scores.persons,
            metric_scores=comparison.scores.metrics,
        )


def held_alone(chosen: Study, aspect: str, setting: Setting) -> tuple[Held, list[Note], list[Problem]]:
    """What a selected study holds of one aspect, without a comparison of people with metrics; the notes on it, and
    why nothing is compared at all."""
    try:
        (comparison,) = compared_by_any(chosen, settings(setting), [aspect])
    except ScalesDifferError as error:
        return _of_aspect(chosen, aspect, {}, 0), list(chosen.notes), [nothing_compared(error)]
    table = comparison.preferences
    ties = {name: _tie_share(table.of_rater(table.raters.index(name)).sign) for name in comparison.compared}
    problems = [] if len(table) else [nothing_compared(f"{NO_COMPARISON}{label_of(aspect)}")]
    left_out = comparison.unpaired if comparison.people else 0
    return _of_aspect(chosen, aspect, ties, left_out), [*chosen.notes, *comparison.notes], problems


def _of_aspect(chosen: Study, aspect: str, ties: Mapping[str, float | None], left_out: int) -> Held:
    rows = chosen._rows_of([*chosen.humans, *chosen.metrics])
    whole = (pl.col("aspect") == "") & ~pl.col("rater").is_in(list(chosen.humans))
    rows = rows.filter((pl.col("aspect") == aspect) | whole)
    present = set(rows["rater"].unique())
    people, metrics = (tuple(name for name in side if name in present) for side in (chosen.humans, chosen.metrics))
    items = tuple(rows.filter(pl.col("item") != "")["item"].unique().sort())
    rated = chosen.ratings.frame.filter(pl.col("rater").is_in([*people, *metrics]))["item"]
    panel = Panel.from_study(
        chosen,
        raters=[*people, *metrics],
        aspect=aspect,
        items=tuple(rated.filter(rated != "").unique().sort()),
        systems=chosen.systems,
    )
    return Held(
        aspect=aspect,
        items=items,
        clusters=Design.of(chosen, items=items, systems=chosen.systems).n_units,
        systems=chosen.systems,
        people=people,
        metrics=metrics,
        ties=ties,
        unpaired=left_out,
        persons=panel.values[: len(people)],
        metric_scores=panel.values[len(people) :],
    )


def nothing_compared(why: object) -> Problem:
    """The problem of an aspect without any comparison."""
    return Problem("error", "nothing-compared", str(why))


def _tie_share(signs: np.ndarray) -> float | None:
    return float((signs == 0).mean()) if signs.size else None


def raters_of(study: Study, held: Held) -> dict[str, Any]:
    """One row per person and per metric."""
    ours = pl.col("aspect").is_in([held.aspect, ""])
    systems = list(held.systems)
    rows = study.ratings.frame.filter(ours & pl.col("system").is_in(systems))
    if rows.height:
        rows = rows.filter(pl.col("item").is_in(pl.Series(held.items, dtype=pl.String).implode()))
    own = ours & pl.col("system_a").is_in(systems) & pl.col("system_b").is_in(systems)
    verdicts = kept(study.preferences.frame, own)
    # A cell is an output of an item; a verdict rates two of them.
    outputs = [rows.select("rater", "item", "system")]
    outputs += [verdicts.select("rater", "item", system=side) for side in ("system_a", "system_b")]
    told = pl.DataFrame({"rater": [*held.people, *held.metrics]})
    for counted in (
        rows.group_by("rater").agg(pl.len().alias("ratings"), low=pl.col("score").min(), high=pl.col("score").max()),
        verdicts.group_by("rater").agg(pl.len().alias("verdicts")),
        distinct(pl.concat(outputs)).group_by("rater").agg(pl.len().alias("cells")),
    ):
        told = told.join(counted, on="rater", how="left", maintain_order="left")
    cells = len(held.items) * len(systems)
    seen = told["cells"].fill_null(0)
    alone = [held.ties.get(HUMAN)] if len(held.people) == 1 else [None] * len(held.people)
    return {
        "rater": told["rater"],
        "kind": ["human"] * len(held.people) + ["metric"] * len(held.metrics),
        "items": len(held.items),
        "systems": len(systems),
        "ratings": told["ratings"].fill_null(0),
        "verdicts": told["verdicts"].fill_null(0),
        "coverage": seen / cells if cells else None,
        "missing": cells - seen,
        "ties": [*alone, *map(held.ties.get, held.metrics)],
        "low": told["low"],
        "high": told["high"],
    }


def summary_of(held: Held, raters: dict[str, Any]) -> dict[str, Any]:
    """The row of this aspect, from those of its raters."""
    missing, n = int(raters["missing"].sum()), len(raters["rater"])
    cells = len(held.items) * len(held.systems) * n
    return {
        "items": len(held.items),
        "clusters": held.clusters,
        "systems": len(held.systems),
        "raters": n,
        "people": len(held.people),
        "metrics": len(held.metrics),
        "ratings": int(raters["ratings"].sum()),
        "verdicts": int(raters["verdicts"].sum()),
        "coverage": 1 - missing / cells if cells else None,
        "missing": missing,
        "ties": held.ties.get(HUMAN),
        "unpaired": held.unpaired,
    }
