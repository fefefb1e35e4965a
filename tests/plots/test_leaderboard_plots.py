"""Leaderboard figures: raters, order of systems, and rejected input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import vl_convert

import custodes as cu
from custodes.errors import OptionError
from custodes.evaluate.leaderboard.leaderboard import Leaderboard
from custodes.plots import leaderboard_strengths, save, theme, win_rate_map
from custodes.plots.leaderboard import PART, SMALL, panels
from tests.plots.drawn import rows_of


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    return cu.leaderboard(cu.read("demo"), aspect="fluency", resamples=100)


def svg(chart: Any) -> str:
    return str(vl_convert.vegalite_to_svg(json.dumps(chart.to_dict())))


def test_people_stand_alone_unless_somebody_else_is_asked_for(board: Leaderboard) -> None:
    humans = board.systems.filter(rater="human")
    assert rows_of(leaderboard_strengths(board)) == humans.to_dicts()
    both = rows_of(leaderboard_strengths(board, rater=["judge", "human"]))
    assert [row["rater"] for row in both] == ["judge"] * 6 + ["human"] * 6
    with pytest.raises(OptionError, match="rater='jugde' is not in the result; .*did you mean 'judge'"):
        leaderboard_strengths(board, rater="jugde")


def test_the_strongest_stands_on_top_with_its_letters(board: Leaderboard) -> None:
    for rater in ("human", ["judge", "human"]):
        image = svg(leaderboard_strengths(board, rater=rater))
        first = "human" if rater == "human" else "judge"
        order = board.systems.filter(rater=first)["system"].to_list()
        places = [image.index(f">{name}</text>") for name in order]
        assert places == sorted(places)
    humans = board.systems.filter(rater="human")
    image = svg(leaderboard_strengths(board, rater="human"))
    assert all(f">{letters}</text>" in image for letters in humans["group"])
    assert "→" not in image


def test_an_open_end_has_an_arrow_and_no_letters_without_a_test() -> None:
    table = pl.DataFrame({"item": range(30), "system_a": "A", "system_b": "B", "preference": 1})
    study = cu.read(table.with_columns(rater=pl.lit("ann"), kind=pl.lit("human")))
    image = svg(leaderboard_strengths(cu.leaderboard(study, resamples=100)))
    assert "→" in image
    assert "←" in image
    assert ">null<" not in svg(leaderboard_strengths(cu.leaderboard(study, resamples=0)))


def test_the_map_shows_each_pair_from_both_sides(board: Leaderboard) -> None:
    image = svg(win_rate_map(board, rater="judge"))
    for row in board.pairs.filter(rater="judge").iter_rows(named=True):
        for rate in (row["win_rate"], 1 - row["win_rate"]):
            assert any(f">{100 * rate + nudge:.0f}%</text>" in image for nudge in (0, 1e-9))  # the browser rounds .5 up
    assert win_rate_map(board).to_dict()["title"] == "Win rates of pairs, by human (fluency)"
    with pytest.raises(OptionError, match="rater='judges' is not in the result"):
        win_rate_map(board, rater="judges")


def test_systems_that_never_met_stand_in_panels_of_their_own() -> None:
    sides = [("A", "B", 1), ("B", "C", 1), ("A", "C", -1), ("X", "Y", 1), ("X", "Y", -1)]
    table = pl.DataFrame(
        [(i, *side) for i in range(20) for side in sides], ["item", "system_a", "system_b", "w"], orient="row"
    )
    study = cu.read(
        table.with_row_index("n").select(
            pl.format("{}-{}", "item", "n").alias("item"),
            "system_a",
            "system_b",
            preference="w",
            rater=pl.lit("ann"),
            kind=pl.lit("human"),
        )
    )
    board = cu.leaderboard(study, resamples=50)
    assert panels(board.systems) == [1, 2]
    spec = leaderboard_strengths(board).to_dict()
    assert [panel["title"] for panel in spec["vconcat"]] == [f"{PART} 1", f"{PART} 2"]
    results = [{row["system"] for row in panel["data"]["values"]} for panel in spec["vconcat"]]
    assert results == [{"A", "B", "C"}, {"X", "Y"}]
    assert (
        "vconcat"
        not in leaderboard_strengths(cu.leaderboard(cu.read("demo"), aspect="fluency", resamples=20)).to_dict()
    )


def test_many_systems_have_small_cells_without_numbers(tmp_path: Path) -> None:
    rows = [(i, f"s{a:02d}", f"s{a + 1:02d}", 1 if i % 3 else -1) for i in range(9) for a in range(29)]
    table = pl.DataFrame(rows, schema=["item", "system_a", "system_b", "preference"], orient="row")
    board = cu.leaderboard(cu.read(table.with_columns(rater=pl.lit("m"), kind=pl.lit("metric"))), resamples=50)
    spec = win_rate_map(board).to_dict()
    assert spec["mark"]["type"] == "rect"
    assert spec["width"] == {"step": SMALL}
    assert theme.TEXT < SMALL  # so every system is labelled
    assert spec["encoding"]["x"]["axis"]["labelOverlap"] is False
    assert save(win_rate_map(board), tmp_path / "map.svg").stat().st_size > 1000
