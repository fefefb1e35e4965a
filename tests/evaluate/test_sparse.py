"""Rows instead of dense signs: the same numbers for every study."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from polars.testing import assert_frame_equal

import custodes as cu
from custodes.data.battles import Battles
from custodes.evaluate.comparison import Comparison, compare
from tests.evaluate.sparse import choose, study

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "scores and verdicts": ({"seed": 1}, {}),
    "vote": ({"seed": 2}, {"aggregate": "vote", "ties": 1.0, "human_ties": 0.5}),
    "calibrated": ({"seed": 3, "per_cluster": 3}, {"ties": "calibrated"}),
    "verdicts": ({"seed": 4, "scores": False}, {}),
    "clusters of verdicts": ({"seed": 5, "scores": False, "per_cluster": 4}, {"human": "ann"}),
}
cases = pytest.mark.parametrize(("made", "setting"), CASES.values(), ids=CASES)


def both(monkeypatch: pytest.MonkeyPatch, made: dict[str, Any], setting: dict[str, Any]) -> list[Comparison]:
    """The dense comparison and that of rows."""
    found = []
    for sparse in (False, True):
        choose(monkeypatch, sparse=sparse)
        found += compare(study(**made), **setting)
    return found


@cases
def test_the_same_comparison(monkeypatch: pytest.MonkeyPatch, made: dict[str, Any], setting: dict[str, Any]) -> None:
    dense, sparse = both(monkeypatch, made, setting)
    assert type(dense.preferences) is not type(sparse.preferences)
    np.testing.assert_array_equal(dense.preferences.signs, sparse.preferences.signs)
    for name in ("persons", "human", "metric_scores", "epsilon", "shared", "whole", "rated"):
        np.testing.assert_array_equal(getattr(dense, name), getattr(sparse, name), err_msg=name)
    assert dense.notes == sparse.notes
    for name in ("paired", "metric_only", "human_only", "human", "metric"):
        one, other = (getattr(own.preferences.counts(), name) for own in (dense, sparse))
        np.testing.assert_array_equal(one, other, err_msg=name)


@cases
def test_the_same_rows(monkeypatch: pytest.MonkeyPatch, made: dict[str, Any], setting: dict[str, Any]) -> None:
    dense, sparse = both(monkeypatch, made, setting)
    for raters in ((0,), (2,), (0, 1), (3, 0), (0, 1, 2, 3)):
        one, other = (own.preferences.rows(*raters) for own in (dense, sparse))
        assert len(one)
        for name in ("pair", "item", "signs"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=f"{raters} {name}")


@cases
def test_the_same_items(monkeypatch: pytest.MonkeyPatch, made: dict[str, Any], setting: dict[str, Any]) -> None:
    dense, sparse = (own.of_people for own in both(monkeypatch, made, setting))
    assert dense.items == sparse.items
    some = np.arange(1, len(dense.items), 3)
    np.testing.assert_array_equal(dense.preferences.on(some).signs, sparse.preferences.on(some).signs)
    np.testing.assert_array_equal(dense.human, sparse.human)


@cases
@pytest.mark.parametrize("ask", [cu.favoritism, cu.ranking], ids=["favoritism", "ranking"])
def test_the_same_answers(
    monkeypatch: pytest.MonkeyPatch, ask: Any, made: dict[str, Any], setting: dict[str, Any]
) -> None:
    answers = []
    for sparse in (False, True):
        choose(monkeypatch, sparse=sparse)
        answers.append(ask(study(**made), resamples=50, **setting))
    dense, sparse = answers
    assert dense.notes == sparse.notes
    for name, frame in dense.tables().items():
        assert_frame_equal(frame, sparse.tables()[name])


def test_battles_of_scores_are_the_pairs_of_rated_systems() -> None:
    rng = np.random.default_rng(0)
    rated = rng.random((30, 7)) < rng.random(30)[:, None]
    items = np.sort(rng.choice(100, 30, replace=False))
    made = Battles.where_rated(rated, items=items)
    wanted = {(items[i], a, b) for i, a, b in np.ndindex(30, 7, 7) if a < b and rated[i, a] and rated[i, b]}
    assert len(made) == len(wanted) > 100
    assert set(zip(made.item, made.first, made.second, strict=True)) == wanted
    assert not len(Battles.where_rated(np.zeros((3, 4), dtype=bool), items=np.arange(3)))


def test_what_needs_every_cell_is_refused_where_it_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    choose(monkeypatch, sparse=True)
    (made,) = compare(study(6, scores=False))
    for module in ("data.rows", "evaluate.scores"):
        monkeypatch.setattr(f"custodes.{module}.MOST_CELLS", 100)
    for name in ("human_signs", "persons"):
        with pytest.raises(cu.InputError, match="too many for"):
            getattr(made, name)
    assert made.preferences.counts().paired.sum() > 0
