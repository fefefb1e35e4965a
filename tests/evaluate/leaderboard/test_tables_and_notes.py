"""Rows and notes of leaderboards: parts of systems that never met, systems without a bound, interim analyses."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.interim_analyses import SCHEMA
from custodes.data.joining import join
from custodes.evaluate.leaderboard.leaderboard import Leaderboard
from custodes.evaluate.leaderboard.tables import interim_rows
from tests.evaluate.leaderboard.boards import QUICK, battles, by, of


def board_of(counts: dict[tuple[str, str], tuple[int, int, int]], **options: Any) -> Leaderboard:
    """Return the leaderboard of one annotator with these numbers of wins, ties and losses, one item each."""
    rows = [
        (f"{a}{b}{k}", a, b, sign)
        for (a, b), numbers in counts.items()
        for k, sign in enumerate(np.repeat([1, 0, -1], numbers).tolist())
    ]
    frame = pl.DataFrame(rows, schema=["item", "system_a", "system_b", "preference"], orient="row")
    return cu.leaderboard(cu.read(by(frame, "ann", "human")), **QUICK | options)


def messages(board: Leaderboard) -> dict[str, str]:
    return {note.rule: note.message for note in board.notes}


def test_parts_are_numbered_by_their_comparisons() -> None:
    board = board_of({("A", "B"): (6, 0, 14), ("C", "D"): (25, 5, 10), ("E", "F"): (3, 0, 27), ("C", "G"): (8, 2, 5)})
    rows = of(board)
    assert list(rows) == ["C", "G", "D", "F", "E", "B", "A"]
    assert [row["part"] for row in rows.values()] == [1, 1, 1, 2, 2, 3, 3]
    assert [row["rank"] for row in rows.values()] == [1, 2, 3, 1, 2, 1, 2]
    assert (rows["F"]["group"], rows["E"]["group"]) == ("2a", "2b")
    assert {row["group"][0] for row in rows.values()} == {"1", "2", "3"}
    assert {system for system, row in rows.items() if row["may_be_first"]} >= {"C", "F", "B"}
    assert not rows["E"]["may_be_first"]
    assert [(row["rank_low"], row["rank_high"]) for row in (rows["F"], rows["E"])] == [(1, 1), (2, 2)]
    notes = messages(board)
    assert notes["split"] == (
        "human: systems that are not connected by comparisons cannot be compared: C, D, G | E, F | A, B. Ranks and "
        "groups hold within each part"
    )
    assert notes["not-all-met"].startswith("human: not all pairs of systems were compared")
    assert not {"unbeaten", "all-ties", "no-battle", "no-test"} & {*notes}
    pairs = {(a, b): decision for a, b, decision in board.pairs.select("system_a", "system_b", "decision").rows()}
    assert pairs["E", "F"] == "-"


@pytest.mark.parametrize(("resamples", "rules"), [(0, set()), (20, {"no-test"})])
def test_missing_tests_are_explained_only_if_intervals_were_requested(resamples: int, rules: set[str]) -> None:
    board = board_of({("A", "B"): (2, 0, 1)}, resamples=resamples)
    assert {"no-test"} & {*messages(board)} == rules


@pytest.mark.parametrize(
    ("counts", "unbounded", "message"),
    [
        (
            {("A", "B"): (20, 0, 0), ("A", "C"): (20, 0, 0), ("B", "C"): (12, 0, 8)},
            {"A": "high"},
            "A won every comparison, so the interval of its strength has only one known bound",
        ),
        (
            {("A", "C"): (20, 0, 0), ("B", "C"): (20, 0, 0), ("A", "B"): (9, 2, 9)},
            {"C": "low"},
            "C lost every comparison, so the interval of its strength has only one known bound",
        ),
        (
            {("A", "B"): (20, 0, 0), ("A", "C"): (20, 0, 0), ("B", "C"): (20, 0, 0)},
            {"A": "high", "C": "low"},
            "A won every comparison, C lost every comparison",
        ),
        (
            {(a, b): (20, 0, 0) if a in "AB" and b in "CD" else (11, 0, 9) for a in "ABCD" for b in "ABCD" if a < b},
            {"A": "high", "B": "high", "C": "low", "D": "low"},
            "A, B, C, D belonged to a group that won, or lost, every comparison with other systems, so the interval "
            "of their strengths has only one known bound",
        ),
    ],
)
def test_a_strength_without_a_bound_is_named(
    counts: dict[tuple[str, str], tuple[int, int, int]], unbounded: dict[str, str], message: str
) -> None:
    board = board_of(counts)
    rows = of(board)
    for system, row in rows.items():
        open_side = unbounded.get(system)
        if open_side:
            assert row[f"strength_{open_side}"] is None
            assert row[f"strength_{'low' if open_side == 'high' else 'high'}"] is not None
        elif len(unbounded) == 1:
            assert row["strength_low"] < row["strength"] < row["strength_high"]
    assert messages(board)["unbeaten"].startswith(f"human: {message}")
    assert "not-all-met" not in messages(board)


def test_a_pair_of_sides_is_noted_only_if_one_always_wins() -> None:
    for counts, noted in (
        ({("chosen", "rejected"): (20, 0, 0)}, True),
        ({("chosen", "rejected"): (19, 0, 1)}, False),
        ({("A", "B"): (20, 0, 0), ("A", "C"): (20, 0, 0), ("B", "C"): (10, 0, 10)}, False),
    ):
        notes = messages(board_of(counts))
        assert ("one-sided-annotators" in notes) is noted
        if noted:
            assert notes["one-sided-annotators"] == (
                "annotators always prefer chosen; if the two systems are only sides of a pair (chosen, rejected), a "
                "leaderboard has no meaning"
            )


def test_notes_on_few_clusters_have_their_numbers() -> None:
    frame = by(battles(np.random.default_rng(0), n=60, ties=0.1).drop("order"), "ann", "human")
    for n_clusters, sizes in ((1, [60]), (4, [15] * 4), (5, [40, 5, 5, 5, 5])):
        items = pl.DataFrame({"item": range(60), "cluster": [f"c{c}" for c, n in enumerate(sizes) for _ in range(n)]})
        notes = messages(cu.leaderboard(cu.read(frame, items=items), **QUICK))
        if n_clusters == 1:
            assert "no-test" not in notes
            assert notes["one-item"] == (
                "there are no intervals, because there is only one item or cluster to resample"
            )
            continue
        assert "one-item" not in notes
        assert notes["few-clusters"].startswith(f"there are only {n_clusters} clusters of items, so intervals")
        effective = "" if n_clusters == 4 else f" (like {60**2 / np.square(sizes).sum():.1f} equal clusters)"
        assert notes["no-test"] == (
            f"human: with {n_clusters} clusters of items{effective}, no difference between systems can be significant "
            "at a confidence of 0.95, so there are no tests; 6 clusters of equal size are the minimum"
        )


def test_misfit_counts_the_pairs_that_differ_from_their_expected_win_rates() -> None:
    board = board_of({("A", "B"): (160, 0, 40), ("B", "C"): (160, 0, 40), ("A", "C"): (40, 0, 160)})
    n_misfits = (board.pairs["p_fit"] <= 0.05).sum()
    assert n_misfits == 3
    assert messages(board)["misfit"] == (
        "strengths by human ratings do not fit 3 of 3 pairs of systems: the win rate differs significantly from the "
        "expected win rate (column p_fit of the table pairs)"
    )
    for sign, order in (("+", 1), ("-", -1)):
        wins = {("A", "B"): (120, 0, 80)[::order], ("B", "C"): (120, 0, 80)[::order], ("A", "C"): (138, 0, 62)[::order]}
        fitting = board_of(wins)
        assert "misfit" not in messages(fitting)
        assert fitting.pairs["decision"].to_list() == [sign] * 3  # differences of strength are about .4 and .8


def test_a_system_without_comparisons_comes_last_without_values() -> None:
    scores = pl.DataFrame({"item": "i0", "system": ["A", "Z"], "rater": "m", "kind": "metric", "score": [1.0, 2.0]})
    frame = pl.DataFrame(
        {"item": [f"i{k}" for k in range(30)], "system_a": "A", "system_b": "B", "preference": [1, -1, 1] * 10}
    )
    board = cu.leaderboard(join([cu.read(by(frame, "ann", "human")), cu.read(scores)]), **QUICK)
    rows = of(board)
    assert list(rows) == ["A", "B", "Z"]
    null = {
        "strength",
        "strength_low",
        "strength_high",
        "win_rate",
        "rank",
        "rank_low",
        "group",
        "part",
        "may_be_first",
    }
    assert {name for name in null if rows["Z"][name] is not None} == set()
    assert rows["Z"]["battles"] == 0
    assert rows["A"]["part"] == 1
    assert [note.message for note in board.notes if note.rule == "no-battle"] == [
        f"{rater}: there are no comparisons of {system}, so their strengths cannot be estimated"
        for rater, system in (("human", "Z"), ("m", "B"))
    ]
    assert "not-all-met" not in {note.rule for note in board.notes if note.message.startswith("human")}


def test_interim_rows_are_the_last_analyses() -> None:
    rows = [
        ("A", "B", 1, 10, 5, 1, 4, 0, True, 0.6, 0.1, -0.4, 0.5),
        ("A", "B", 2, 20, 15, 1, 4, 1, False, 0.99, 0.5, 0.2, 0.8),
        ("A", "C", 1, 10, 5, 0, 5, 0, False, 0.5, 0.0, -0.3, 0.3),
        ("B", "C", 1, 10, 1, 0, 9, -1, False, 0.01, -0.8, -0.9, -0.2),
    ]
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    assert [tuple(row.values()) for row in interim_rows(frame)] == [
        ("A", "B", 20, "+", 0.5, 0.2, 0.8),
        ("A", "C", 10, "=", 0.0, -0.3, 0.3),
        ("B", "C", 10, "-", -0.8, -0.9, -0.2),
    ]
