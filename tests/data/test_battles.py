"""Battles against the dense bridge: the same people, metrics and settings give the same signs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.answers.setting import settings
from custodes.data.battles import Battles
from custodes.data.study import Study
from custodes.evaluate.comparison import compare
from custodes.evaluate.leaderboard.field import ground
from custodes.stats import ABSENT


def check_like_comparison(study: Study, **setting: Any) -> None:
    """Every sign of every rater of every aspect, and no other."""
    comparisons = compare(study, **setting)
    selection = {name: value for name, value in setting.items() if name in ("human", "metrics", "aspect", "systems")}
    arena = ground(study.select(**selection, one_side=True), settings(setting))
    assert [field.aspect for field in arena.fields] == [own.aspect for own in comparisons]
    for field, own in zip(arena.fields, comparisons, strict=True):
        assert own.systems == arena.design.systems
        place = {item: i for i, item in enumerate(arena.design.items)}
        at = np.array([place[item] for item in own.items])
        for k, rater in enumerate(own.preferences.raters):
            signs = own.preferences.signs[:, k]
            wanted = np.full((len(signs), len(arena.design.items)), ABSENT, dtype=np.int8)
            wanted[:, at] = signs
            found = np.full_like(wanted, ABSENT)
            if (signs != ABSENT).any():
                battles = field.battles[rater]
                pair = {tuple(ends): p for p, ends in enumerate(own.design.pairs.tolist())}
                pairs = [pair[ends] for ends in zip(battles.first.tolist(), battles.second.tolist(), strict=True)]
                assert len(set(zip(pairs, battles.item.tolist(), strict=True))) == len(battles)
                found[pairs, battles.item] = battles.sign
            np.testing.assert_array_equal(found, wanted, err_msg=f"{field.aspect} {rater}")


@pytest.mark.parametrize(
    "setting",
    [{}, {"aggregate": "vote", "ties": 0.1}, {"ties": "calibrated", "human_ties": 0.5, "metrics": "judge,learned"}],
    ids=["default", "vote", "calibrated"],
)
def test_the_demo(setting: dict[str, Any]) -> None:
    check_like_comparison(cu.read("demo"), **setting)


def test_summeval(shared_data: Path) -> None:
    study = cu.read(shared_data / "summeval/ratings.csv.gz")
    check_like_comparison(study, human="expert*", metrics="rouge-1-f1,METEOR", aspect="coherence,relevance")


def test_verdicts_of_several_people_on_pandalm(shared_data: Path) -> None:
    study = cu.read(shared_data / "pandalm/battles.csv.gz", invalid="drop")
    check_like_comparison(study)
    check_like_comparison(study, human="annotator1", orders="first")


def test_scores_and_verdicts_of_the_same_raters() -> None:
    rng = np.random.default_rng(0)
    ratings = [
        (str(i), system, rater, "human" if rater in "ab" else "metric", float(rng.integers(0, 3)))
        for i in range(30)
        for system in "XYZ"
        for rater in ("a", "b", "m")
        if rng.random() < 0.7
    ]
    verdicts = [
        (str(i), *pair, rater, "human" if rater in "ab" else "metric", int(rng.integers(-1, 2)), order)
        for i in range(10, 40)
        for pair in ("XY", "XZ", "YZ")
        for rater in ("b", "m", "n")
        for order in ("ab", "ba")
        if rng.random() < 0.5
    ]
    scores = pl.DataFrame(ratings, schema=["item", "system", "rater", "kind", "score"], orient="row")
    names = ["item", "system_a", "system_b", "rater", "kind", "preference", "order"]
    study = cu.read(scores, pl.DataFrame(verdicts, schema=names, orient="row"))
    for orders in ("mean", "consistent", "first"):
        check_like_comparison(study, orders=orders)
    check_like_comparison(study, aggregate="vote", human_ties=1.0)


def test_what_was_shown_first_comes_along() -> None:
    won = "system_a"
    rows = [("1", "B", "A", won, "ab"), ("2", "A", "B", won, "ab"), ("3", "A", "B", "tie", "")]
    rows += [("4", "A", "B", won, "ab"), ("4", "A", "B", won, "ba")]
    table = pl.DataFrame(rows, schema=["item", "system_a", "system_b", "preference", "order"], orient="row")
    table = table.with_columns(rater=pl.lit("ann"), kind=pl.lit("human"))
    arena = ground(cu.read(table).select(one_side=True), settings({}))
    own = arena.fields[0].battles["human"]
    assert own.sign.tolist() == [-1, 1, 0, 1]
    assert own.order.tolist() == [-1, 1, 0, 0]


def test_none() -> None:
    assert len(Battles.none()) == 0
    assert not len(Battles.none().keys(3))
