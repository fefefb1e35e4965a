"""Figures of studies with many metrics and systems: selection and position of labels, and the table that replaces a
graph."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes import plots
from custodes.evaluate.favoritism import Favoritism
from custodes.evaluate.ranking import Ranking
from custodes.plots import theme
from custodes.plots.favoritism import ENDS
from custodes.plots.labels import extremes
from custodes.plots.ranking import GRAPH_UP_TO, has_too_many_systems, table_rows

SYSTEMS = [f"system-{i:02d}" for i in range(16)]
METRICS = [f"metric-{i:02d}" for i in range(40)]


@pytest.fixture(scope="module")
def study() -> cu.Study:
    """16 systems in descending quality, and 40 metrics with increasing noise."""
    rng = np.random.default_rng(0)
    quality = -np.arange(16.0)
    keys = [(f"{i}", name) for i in range(40) for name in SYSTEMS]
    human = np.tile(quality, 40) + 2 * rng.normal(size=640)
    scores = {name: np.tile(quality, 40) + (2 + k) * rng.normal(size=640) for k, name in enumerate(METRICS)}
    return cu.read(pl.DataFrame(keys, ["item", "system"], orient="row").with_columns(ann=human, **scores))


@pytest.fixture(scope="module")
def favoured(study: cu.Study) -> Favoritism:
    return cu.favoritism(study, human="ann", resamples=20)


@pytest.fixture(scope="module")
def ranked(study: cu.Study) -> Ranking:
    return cu.ranking(study, human="ann", metrics="metric-00,metric-3*", resamples=0)


def texts(chart: Any, path: Path) -> list[str]:
    """Return the texts in a figure."""
    return re.findall(r">([^<>]+)</text>", plots.save(chart, path / "x.svg").read_text(encoding="utf-8"))


def named(chart: Any) -> set[str]:
    return {row["metric"] for row in chart.to_dict()["data"]["values"] if row["named"]}


def test_the_ends_of_both_axes_are_named(favoured: Favoritism, tmp_path: Path) -> None:
    chart = plots.favoritism_and_accuracy(favoured)
    by = {name: favoured.metrics.sort(name)["metric"].to_list() for name in ("sample_accuracy", "mean_abs_favi")}
    ends = {name for order in by.values() for name in [*order[:ENDS], *order[-ENDS:]]}
    assert named(chart) == ends
    assert {text for text in texts(chart, tmp_path) if text in METRICS} == ends


def test_few_metrics_are_all_named(favoured: Favoritism) -> None:
    few = favoured.metrics.head(12)
    chart = plots.favoritism_and_accuracy(type(favoured)(**{**vars(favoured), "metrics": few}))
    assert named(chart) == set(few["metric"])


def test_many_systems_make_a_table_of_pairs_that_names_them_all(ranked: Ranking, tmp_path: Path) -> None:
    assert has_too_many_systems(ranked.decisions)
    chart = plots.ranking_graphs(ranked, "metric-39")
    words = texts(chart, tmp_path)
    # two panels, with each system beside its row and above its column
    assert all(words.count(name) == 4 for name in SYSTEMS)
    humans = table_rows(ranked.decisions).filter(rater="human")
    assert humans.height == 16 * 15 / 2
    assert words.count("+") == words.count("−")  # every decision appears once from each side
    rows = table_rows(ranked.decisions).filter(pl.col("rater").is_in(["human", "metric-39"]))
    assert words.count("+") == (rows["decision"] != "=").sum()


def test_up_to_twelve_systems_make_a_graph(study: cu.Study) -> None:
    systems = ",".join(SYSTEMS[:GRAPH_UP_TO])
    few = cu.ranking(study, systems=systems, human="ann", metrics="metric-00", resamples=0)
    assert not has_too_many_systems(few.decisions)
    assert plots.ranking_graphs(few, "metric-00").to_dict()["hconcat"][0]["layer"][0]["mark"]["type"] == "line"


def test_maps_and_dots_name_every_system(study: cu.Study, favoured: Favoritism, tmp_path: Path) -> None:
    board = cu.leaderboard(study, human="ann", metrics="metric-00", resamples=20)
    tables = ("metrics", "pairs", "systems", "partiality")
    some = {name: getattr(favoured, name).filter(pl.col("metric") <= "metric-02") for name in tables}
    favoured = type(favoured)(**{**vars(favoured), **some})
    charts = [
        (plots.win_rate_map(board), 2),
        (plots.leaderboard_strengths(board, rater="human"), 1),
        (plots.partiality_map(favoured), 1),
        (plots.favoritism_by_system(favoured, "metric-00"), 1),
    ]
    for chart, times in charts:
        words = texts(chart, tmp_path)
        assert [name for name in SYSTEMS if words.count(name) != times] == []
        sizes = re.findall(r'font-size="([0-9.]+)px"', (tmp_path / "x.svg").read_text(encoding="utf-8"))
        assert min(map(float, sizes)) >= theme.TEXT


def test_places_follow_net_wins_by_human_ratings_and_decisions_are_compared_with_theirs() -> None:
    rows = [("human", "A", "B", "-"), ("human", "A", "C", "="), ("human", "B", "C", "+")]
    rows += [("m", "A", "B", "+"), ("m", "A", "C", "-"), ("m", "B", "C", "="), ("n", "B", "C", "+")]
    decisions = pl.DataFrame(
        [("quality", *row) for row in rows],
        schema=["aspect", "rater", "system_a", "system_b", "decision"],
        orient="row",
    )
    table = table_rows(decisions)
    places = {r["system_a"]: r["place_a"] for r in table.rows(named=True)} | {
        r["system_b"]: r["place_b"] for r in table.rows(named=True)
    }
    assert places == {"B": 0, "A": 1, "C": 2}  # net wins 2, -1 and -1; ties are sorted by name
    readings = {row[:3]: row[3] for row in table.select("rater", "system_a", "system_b", "reading").iter_rows()}
    assert [readings["m", *pair] for pair in ("AB", "AC", "BC")] == ["invert", "insert", "omit"]
    assert readings["n", "B", "C"] == "agree"


def test_extremes_alternate_between_the_highest_and_the_lowest() -> None:
    assert extremes(np.array([0.2, np.nan, 0.9, 0.5, 0.1]), 2) == [2, 4, 3, 0]
