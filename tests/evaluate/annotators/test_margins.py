"""Margins in the answer about people: what counts is counted once, second opinions tell of care alone."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.annotators.annotators import Annotators

NAMES = ["item", "system_a", "system_b", "rater", "kind", "aspect", "repeat", "order", "preference", "role"]


def answers(*, overlap: float, seed: int = 0, n: int = 200) -> pl.DataFrame:
    """Two pairs; people look with chance .8 and else choose a side by lot."""
    rng = np.random.default_rng(seed)
    rows = []
    for item in range(n):
        for first, second in (("A", "B"), ("A", "C")):
            truth = rng.choice([1, 0, -1], p=[0.55, 0.2, 0.25])
            people = rng.choice(15, 2, replace=False)
            for k, own in enumerate(people[: 1 + (rng.random() < overlap)]):
                said = truth if rng.random() < 0.8 else rng.choice([1, -1])
                role = "second" if k else "primary"
                rows.append((f"d{item}", first, second, f"w{own}", "human", "", "0", "ab", int(said), role))
    return pl.DataFrame(rows, schema=NAMES, orient="row")


def asked(rows: pl.DataFrame) -> Annotators:
    return cu.annotators(cu.read(rows), people="persons", resamples=20)


def test_as_seen_and_without_careless_answers() -> None:
    rows = answers(overlap=0.4)
    made = asked(rows).margins
    first = rows.filter(role="primary").group_by("system_a", "system_b").agg(pl.len(), pl.col("preference").mean())
    first = first.sort("system_b")
    assert made.select("system_a", "system_b", "answers").rows() == first.select("system_a", "system_b", "len").rows()
    np.testing.assert_allclose(made["margin"], first["preference"])
    for name, low, high in made.select("margin", "careful_low", "careful_high").iter_rows():
        assert low < name < high
    assert made["at_most"].to_list() == pytest.approx([own / 0.8 for own in made["margin"]], abs=0.1)
    assert (made["looked"] < 0.8).all()


def test_systems_turned_turn_margins() -> None:
    rows = answers(overlap=0.4)
    names = {"A": "Z"}
    turned = rows.with_columns(system_a=pl.col("system_a").replace(names), system_b=pl.col("system_b").replace(names))
    here, there = asked(rows).margins, asked(turned).margins
    np.testing.assert_allclose(there["margin"], -here["margin"])
    np.testing.assert_allclose(there["careful_low"], -here["careful_high"])


def test_without_second_opinions_there_is_nothing_to_say() -> None:
    assert asked(answers(overlap=0)).margins.is_empty()


def test_few_second_opinions_tell_margins_and_no_care() -> None:
    made = asked(answers(overlap=0.1, n=60)).margins
    assert made.height == 2
    assert made["margin"].null_count() == 0
    assert made["looked"].null_count() == made["careful_low"].null_count() == made["at_most"].null_count() == 2


def test_where_everybody_answers_all_count() -> None:
    rows = answers(overlap=1).with_columns(role=pl.lit("primary"))
    made = asked(rows).margins
    assert made["answers"].to_list() == [400, 400]
    assert made["at_most"].null_count() == 0
