"""What people could not judge: whether refusals leave out a side."""

from __future__ import annotations

from collections.abc import Iterator
from math import erfc, sqrt

import polars as pl

from custodes.data.preferences import EMPTY, UNREADABLE
from custodes.data.study import Study
from custodes.errors import listed
from custodes.evaluate.check.problems import Problem

MOST = 0.05
"""A larger share of a pair can turn its decision."""
LEVEL = 0.05
ASKED = {"rater": pl.String, "item": pl.String, "system_a": pl.String, "system_b": pl.String, "refused": pl.Boolean}
"""A row per question that a person was asked; `system_b` null where one output was rated."""


def asked_of(study: Study) -> pl.DataFrame:
    """What the people of a study were asked to compare, second opinions too, and whether they said why they could not
    (`ASKED`); no row where nobody ever said that."""
    names = [name for name in ASKED if name != "refused"]
    both = (study.preferences, study.second)
    lost = [own.missing.filter(~pl.col("why").is_in([EMPTY, UNREADABLE])) for own in both]
    if not any(own.height for own in lost):
        return pl.DataFrame(schema=ASKED)
    frames = [rows.select(*names, refused=pl.lit(False)) for rows in (own.frame for own in both)]
    frames += [rows.select(*names, refused=pl.lit(True)) for rows in lost]
    people = pl.concat(frames).filter(pl.col("rater").is_in(list(study.humans)))
    return people.group_by(names, maintain_order=True).agg(pl.col("refused").any())


def refusals(asked: pl.DataFrame) -> Iterator[Problem]:
    """Pairs of which more than `MOST` was refused, and systems that are refused more often than others beyond chance.

    The test is within people, who differ in how often they refuse (Cochran 1954, Mantel and Haenszel 1959), of all
    systems together at `LEVEL` (Bonferroni).
    """
    if not asked["refused"].any():
        return
    pairs = _shares(asked, ["system_a", "system_b"])
    many = pairs.filter(pl.col("share") > MOST)
    if many.height:
        told = [f"{_named(a, b)} {n} of {total} ({share:.0%})" for a, b, n, total, share in many.iter_rows()]
        yield Problem(
            "warning",
            "refusals",
            f"over {MOST:.0%} of what people were asked they could not judge in {many.height} of {pairs.height} pairs:"
            f" {listed(told, limit=3)}; what is decided there is of those who could. See their reasons, and what would"
            " hold had all of them preferred one system, or the other (the report, 'What stopped the asking')",
            [_named(a, b) for a, b, *_ in many.iter_rows()],
        )
    sides = [asked.with_columns(system=pl.col(name)) for name in ("system_a", "system_b")]
    systems = _shares(pl.concat(sides).drop_nulls("system"), ["system"])
    chances = {name: _chance(asked, name) for name in systems["system"]}
    tested = sum(own is not None for own in chances.values())
    unlike = [name for name, own in chances.items() if own is not None and own * tested <= LEVEL]
    if unlike:
        told = [f"{name} {share:.0%}" for name, *_, share in systems.iter_rows()]
        yield Problem(
            "warning",
            "refusals-differ",
            f"people could not judge questions about {listed(unlike)} more often than others, beyond chance"
            f" ({listed(told)}, all systems tested together): if they refuse where they would prefer one of the two,"
            " decisions are false; see their reasons, and what is shown of these systems",
            unlike,
        )


def _shares(asked: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """By pair or system: how many were refused of how many, and their share; the largest first."""
    counts = asked.group_by(by, maintain_order=True).agg(
        pl.col("refused").sum(), asked=pl.len(), share=pl.col("refused").mean()
    )
    return counts.sort("share", *by, descending=[True, *(False for _ in by)])


def _chance(asked: pl.DataFrame, system: str) -> float | None:
    """The chance of so many refusals of a system or more, if each person refused whatever came; None: nobody who
    refused some was asked about both this system and others."""
    n, r, k = pl.col("n"), pl.col("r"), pl.col("k")
    by_person = (
        asked.with_columns(has=(pl.col("system_a") == system) | (pl.col("system_b") == system).fill_null(False))
        .group_by("rater")
        .agg(
            n=pl.len(), r=pl.col("refused").sum(), k=pl.col("has").sum(), both=(pl.col("has") & pl.col("refused")).sum()
        )
        .filter(n > 1)
        .select(
            pl.col("both").sum(),
            expected=(r * k / n).sum(),
            variance=(r * (n - r) * k * (n - k) / (n * n * (n - 1))).sum(),
        )
    )
    both, expected, variance = by_person.row(0)
    if not variance:
        return None
    return erfc((both - expected - 0.5) / sqrt(2 * variance)) / 2


def _named(first: str, second: str | None) -> str:
    return f"{first} and {second}" if second else first
