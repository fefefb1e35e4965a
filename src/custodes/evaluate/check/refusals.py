"""Rules on comparisons that annotators could not judge: do refusals depend on the system?"""

from __future__ import annotations

from collections.abc import Iterator
from math import erfc, sqrt

import polars as pl

from custodes.data.preferences import EMPTY, UNREADABLE
from custodes.data.study import Study
from custodes.errors import listed
from custodes.evaluate.check.problems import Problem
from custodes.evaluate.check.rules import problem

MOST = 0.05
"""Proportion of refusals of a pair of systems above which refusals may change the decision on the pair."""
LEVEL = 0.05
ASKED = {"rater": pl.String, "item": pl.String, "system_a": pl.String, "system_b": pl.String, "refused": pl.Boolean}
"""Columns of a table with one row per question to an annotator; `system_b` is null if a single output was rated."""


def asked_of(study: Study) -> pl.DataFrame:
    """Return the comparisons that annotators were asked to judge, including second opinions, with the columns `ASKED`.

    The table is empty if there is no refusal.
    """
    names = [name for name in ASKED if name != "refused"]
    both = (study.preferences, study.second)
    lost = [preferences.missing.filter(~pl.col("why").is_in([EMPTY, UNREADABLE])) for preferences in both]
    if not any(preferences.height for preferences in lost):
        return pl.DataFrame(schema=ASKED)
    frames = [rows.select(*names, refused=pl.lit(False)) for rows in (preferences.frame for preferences in both)]
    frames += [rows.select(*names, refused=pl.lit(True)) for rows in lost]
    people = pl.concat(frames).filter(pl.col("rater").is_in(list(study.humans)))
    return people.group_by(names, maintain_order=True).agg(pl.col("refused").any())


def refusals(questions: pl.DataFrame) -> Iterator[Problem]:
    """Yield pairs with a refusal rate above `MOST`, and systems that are refused significantly more often than others.

    The test is stratified by annotator (Cochran 1954, Mantel and Haenszel 1959), because annotators differ in refusal
    rates. The level is `LEVEL`, with Bonferroni correction over systems.
    """
    if not questions["refused"].any():
        return
    pairs = _rates(questions, "system_a", "system_b")
    many = pairs.filter(pl.col("rate") > MOST)
    if many.height:
        rates_of_pairs = listed(
            (f"{pair} {n} of {total} ({rate:.0%})" for pair, n, total, rate in many.iter_rows()), limit=3
        )
        counts = {"n": many.height, "n_pairs": pairs.height}
        yield problem("refusals", many["of"].to_list(), most=MOST, pairs=rates_of_pairs, **counts)
    sides = pl.concat([questions.with_columns(system=pl.col(name)) for name in ("system_a", "system_b")])
    systems = _rates(sides.drop_nulls("system"), "system")
    p_values = {name: _p_value(questions, name) for name in systems["of"]}
    tested = sum(p is not None for p in p_values.values())
    differ = [name for name, p in p_values.items() if p is not None and p * tested <= LEVEL]
    if differ:
        rates = listed(f"{name} {rate:.0%}" for name, *_, rate in systems.iter_rows())
        yield problem("refusals-differ", differ, systems=listed(differ), rates=rates)


def _rates(questions: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return the refusals, questions and refusal rate of each pair or system (column `of`), highest rate first."""
    counts = questions.group_by(by, maintain_order=True).agg(
        pl.col("refused").sum(), questions=pl.len(), rate=pl.col("refused").mean()
    )
    named = pl.concat_str(by, separator=" and ", ignore_nulls=True).alias("of")
    return counts.sort("rate", *by, descending=[True, *(False for _ in by)]).select(
        named, "refused", "questions", "rate"
    )


def _p_value(questions: pl.DataFrame, system: str) -> float | None:
    """Return the p-value of the hypothesis that the refusals of each annotator do not depend on the system.

    None if no annotator with refusals was asked about this system and about other systems.
    """
    n, r, k = pl.col("n"), pl.col("r"), pl.col("k")
    by_person = (
        questions.with_columns(has=(pl.col("system_a") == system) | (pl.col("system_b") == system).fill_null(False))
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
