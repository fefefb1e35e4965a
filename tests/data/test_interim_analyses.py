"""Results based on human labels note that the study was stopped by an interim analysis."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

import custodes as cu
from custodes.data.interim_analyses import SCHEMA, SEQUENTIAL_RULE, last_looks, sequential_notes, sort_pair_labels
from custodes.data.notes import Note
from custodes.data.study import Study
from custodes.errors import InputError
from custodes.evaluate.verdict.verdict import verdict_of
from tests.messages import exactly


def looks(*rows: tuple[str, str, int, int, bool]) -> pl.DataFrame:
    """Return interim analyses from pair, number, decision and whether the pair is undecided."""
    return pl.DataFrame(
        [
            (a, b, n, 10 * n, 6 * n, n, 3 * n, decision, is_open, 0.9, 0.3, 0.1, 0.5)
            for a, b, n, decision, is_open in rows
        ],
        schema=SCHEMA,
        orient="row",
    )


@pytest.fixture
def study() -> Study:
    verdicts = pl.DataFrame(
        [(str(n), "A", "B", "ann", "human", "", "0", "ab", n % 3 - 1 or 1) for n in range(20)],
        schema=["item", "system_a", "system_b", "rater", "kind", "aspect", "repeat", "order", "preference"],
        orient="row",
    )
    return cu.read(verdicts, looks(("A", "B", 1, 0, True), ("A", "B", 2, 1, False)))


def test_a_leaderboard_says_so(study: Study) -> None:
    notes = {note.rule: note for note in cu.leaderboard(study, resamples=20).notes}
    assert notes[SEQUENTIAL_RULE].count == 1
    problems = cu.check(study).problems.filter(pl.col("rule") == SEQUENTIAL_RULE)
    assert problems["severity"].to_list() == ["warning"]


def test_a_verdict_tells_no_win_rate(study: Study) -> None:
    """The interval does not hold after stopping: see tests/simulation/test_stopped_leaderboard.py."""
    result = verdict_of({"check": cu.check(study), "leaderboard": cu.leaderboard(study, resamples=20)})
    (best,) = [text for text in result.verdict.filter(kind="best")["text"] if "interim analyses" not in text]
    assert "times as often as it loses" in best
    leaderboard = cu.leaderboard(study, resamples=20)
    bounds = {"strength_low": -10.6, "strength_high": 13.4}
    systems = leaderboard.systems.with_columns(**{name: pl.lit(value) for name, value in bounds.items()})
    wide = verdict_of({"check": cu.check(study), "leaderboard": replace(leaderboard, systems=systems)})
    assert "[under 0.01, over 100] times as often" in "".join(wide.verdict["text"])
    assert "%" not in best


def test_looks_are_selected_with_their_systems(study: Study) -> None:
    assert study.select(systems="A", one_side=True).looks.is_empty()
    assert study.select(one_side=True).looks.height == 2
    assert study.fingerprint() != cu.read(study.preferences.frame).fingerprint()


def test_a_decision_for_the_second_system_is_read() -> None:
    analyses = cu.read(looks(("A", "B", 1, -1, False), ("A", "C", 1, 1, False))).looks
    assert analyses["decision"].to_list() == [-1, 1]
    first, again, second = (looks(("A", "B", number, decision, False)) for number, decision in ((1, 0), (1, 1), (2, 0)))
    for table, message in (
        (looks(("A", "B", 1, 2, False)), "decision 2 in row 1; allowed: 1, 0, -1"),
        (
            pl.concat([first, again]),
            "the same interim analysis occurs twice, in rows 1, 2 (system_a 'A', system_b 'B', look 1); one row per "
            "pair and interim analysis",
        ),
        (
            pl.concat([first, second.with_columns(n=pl.lit(21, pl.Int64))]),
            "n differs from wins + ties + losses in row 2; export the study again",
        ),
    ):
        with pytest.raises(InputError, match=exactly(f"table: {message}")):
            cu.read(table)


@pytest.mark.parametrize("column", ["system_a", "system_b", "is_open"])
def test_an_analysis_of_an_unknown_pair_or_state_is_refused(column: str) -> None:
    analyses = looks(("A", "B", 1, 0, False)).with_columns(pl.lit(None, dtype=SCHEMA[column]).alias(column))
    with pytest.raises(InputError, match=f"column '{column}' is empty in row 1"):
        cu.read(analyses)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("A", "B", 1, 0, False), ("A", "C", 1, 1, False)], 0),
        ([("A", "B", 1, 0, True), ("A", "C", 1, 1, False)], 2),
        ([("A", "B", 1, 1, False), ("A", "C", 1, 1, False)], 2),
        ([("A", "B", 1, 0, True), ("A", "B", 2, 0, False)], 1),
    ],
    ids=["one look of all", "one goes on", "all decided", "two looks"],
)
def test_one_look_of_all_pairs_is_no_stopping(rows: list[tuple[str, str, int, int, bool]], expected: int) -> None:
    message = (
        f"{expected} pairs were annotated sequentially, with interim analyses. Leaderboard strengths, ranks and groups "
        "remain valid if the stopping boundary allows for repeated analyses. Win rates, sign tests, decisions and "
        "margins of single pairs assume a fixed sample size; for single pairs, use the table of interim analyses"
    )
    notes = [Note(rule="stopped-by-answers", message=message, count=expected)]
    assert sequential_notes(looks(*rows)) == (notes if expected else [])


def test_the_last_look_of_each_pair_has_the_highest_number() -> None:
    rows = last_looks(looks(("B", "C", 1, 1, False), ("A", "C", 2, 1, False), ("A", "C", 1, 0, True)))
    assert rows.select("system_a", "system_b", "look", "looks").rows() == [("A", "C", 2, 2), ("B", "C", 1, 1)]


def test_turned_twice_is_as_before() -> None:
    analyses = looks(("B", "A", 1, -1, False), ("A", "C", 1, 1, False))
    once = sort_pair_labels(analyses)
    assert once.row(0)[:9] == ("A", "B", 1, 10, 3, 1, 6, 1, False)
    assert once.row(0)[9:] == pytest.approx((0.1, -0.3, -0.5, -0.1))
    assert once.row(1) == analyses.row(1)
    assert sort_pair_labels(pl.DataFrame(schema=SCHEMA)).is_empty()
