"""Figures show the numbers of their result and can be saved without a browser."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import custodes as cu
from custodes import plots
from custodes.errors import OptionError
from custodes.plots.layout import layered_layout
from custodes.plots.ranking import graph_rows
from custodes.stats import graphs
from tests.evaluate.studies import study_of
from tests.plots.drawn import rows_of


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    study = cu.read("demo")
    return {
        "agreement": cu.agreement(study, resamples=50, compare_by=()),
        "favoritism": cu.favoritism(study, resamples=50),
        "ranking": cu.ranking(study, resamples=0),
    }


@pytest.fixture(scope="module")
def charts(results: dict[str, Any]) -> dict[str, Any]:
    favoured = results["favoritism"]
    return {
        "intervals": plots.agreement_intervals(results["agreement"], aspect="fluency"),
        "systems": plots.favoritism_by_system(favoured, "selfeval", aspect="fluency"),
        "map": plots.partiality_map(favoured, aspect="fluency"),
        "accuracy": plots.favoritism_and_accuracy(favoured, aspect="fluency"),
        "errors": plots.error_types(results["ranking"], aspect="fluency", width=plots.COLUMN_WIDTH),
        "graphs": plots.ranking_graphs(results["ranking"], "judge", aspect="fluency"),
        "confusion": plots.confusion_matrix(favoured, "judge", "Fir", "Aster", aspect="fluency"),
    }


def test_favi_scores_of_pairs_are_drawn_by_sign_and_accuracy(results: dict[str, Any]) -> None:
    favoured = results["favoritism"]
    spec = plots.favoritism_of_pairs(favoured, aspect="fluency").to_dict()
    rows = spec["data"]["values"]
    pairs = favoured.pairs.filter(aspect="fluency").drop_nulls("favi")
    assert [row["favi"] for row in rows] == pytest.approx(pairs["favi"].to_list())
    assert [row["signs"] == "same" for row in rows] == pairs["sign_agrees"].to_list()
    rho = favoured.correlations.filter(aspect="fluency", accuracy="sign_agrees")["spearman"].item()
    assert f"{rho:+.2f}" in spec["vconcat"][0]["title"]


@pytest.mark.parametrize(
    ("suffix", "start"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("html", b"<!DOCTYPE"), ("json", b"{")]
)
def test_formats(charts: dict[str, Any], suffix: str, start: bytes, tmp_path: Path) -> None:
    content = plots.save(charts["errors"], tmp_path / f"x.{suffix}").read_bytes().lstrip()
    assert content.upper().startswith(start.upper())


def test_error_rates_by_slice_are_those_of_the_table() -> None:
    result = cu.rates(cu.read("demo"), positive=">=4", metrics="judge,learned", aspect="fluency", by="system")
    drawn = {(row["slice"], row["measure"]): row for row in rows_of(plots.error_rates_by_slice(result, "judge"))}
    slices = result.slices.filter(metric="judge")
    assert len(drawn) == slices.select("tpr", "tnr").count().sum_horizontal().item() > slices.height
    for row in slices.iter_rows(named=True):
        for rate in ("tpr", "tnr"):
            if row[rate] is not None:
                mark = drawn[row["slice"], rate.upper()]
                assert [mark[name] for name in ("value", "low", "high")] == pytest.approx(
                    [row[f"{rate}{suffix}"] for suffix in ("", "_low", "_high")]
                )
    with pytest.raises(OptionError, match="compute it with by=COLUMN"):
        plots.error_rates_by_slice(replace(result, slices=result.slices.head(0)), "judge")


def test_unknown_names_are_told_with_a_suggestion(
    results: dict[str, Any], charts: dict[str, Any], tmp_path: Path
) -> None:
    favoured, agreed = results["favoritism"], results["agreement"]
    with pytest.raises(OptionError, match="did you mean 'selfeval'"):
        plots.favoritism_by_system(favoured, "selfevol", aspect="fluency")
    with pytest.raises(OptionError, match="did you mean 'fluency'"):
        plots.partiality_map(favoured, aspect="fluence")
    with pytest.raises(OptionError, match="give aspect="):
        plots.partiality_map(favoured)
    with pytest.raises(OptionError, match="did you mean 'kendall_item'"):
        plots.agreement_intervals(agreed, statistic="kendal_item", aspect="fluency")
    with pytest.raises(OptionError, match="did you mean 'Fir'"):
        plots.confusion_matrix(favoured, "judge", "Firr", "Aster", aspect="fluency")
    with pytest.raises(OptionError, match="not a pair"):
        plots.confusion_matrix(favoured, "judge", "Fir", "Fir", aspect="fluency")
    with pytest.raises(OptionError, match="give one of svg"):
        plots.save(charts["errors"], tmp_path / "x.bmp")
    assert not list(tmp_path.iterdir())


def test_confusion_turns_with_its_systems(results: dict[str, Any]) -> None:
    def counts(a: str, b: str) -> dict[str, Any]:
        chart = plots.confusion_matrix(results["favoritism"], "judge", a, b, aspect="fluency").to_dict()
        row: dict[str, Any] = chart["data"]["values"][0]
        return row

    first, second = counts("Aster", "Fir"), counts("Fir", "Aster")
    assert first["win_loss"] == second["loss_win"]
    assert first["tie_win"] == second["tie_loss"]
    assert (second["system_a"], second["system_b"]) == ("Fir", "Aster")


def test_importing_custodes_and_its_plots_loads_no_altair() -> None:
    heavy = ("altair", "vl_convert", "jinja2")
    code = f"import sys, custodes, custodes.plots; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_graph_marks_edges_that_people_do_not_share(results: dict[str, Any]) -> None:
    decisions = results["ranking"].decisions.filter(pl.col("aspect") == "coherence")
    rows = graph_rows(decisions)
    humans = rows.filter((pl.col("rater") == "human") & (pl.col("part") == "edge"))
    assert set(humans["reading"]) == {"agree"}
    # planted: annotators rate Aster above Dogwood, selfeval rates them the other way round
    reading = rows.filter((pl.col("rater") == "selfeval") & (pl.col("line") == "Dogwood > Aster"))["reading"]
    assert set(reading) == {"invert"}
    assert set(rows.filter((pl.col("rater") == "human") & (pl.col("part") == "node"))["label"]) == {
        *decisions["system_a"],
        *decisions["system_b"],
    }


def test_a_circle_of_wins_is_one_node() -> None:
    # Rock, paper, scissors on every item, with D below all.
    items = [{"A": 2, "B": 1, "C": 0}, {"B": 2, "C": 1, "A": 0}, {"C": 2, "A": 1, "B": 0}]
    scores = np.array([[[item[s] for s in "ABC"] + [-1] for item in items * 30]] * 2, dtype=float)
    rows = graph_rows(cu.ranking(study_of(scores, list("ABCD")), resamples=0).decisions).filter(rater="human")
    assert rows.filter(part="node")["label"].to_list() == ["A ~ B ~ C", "D"]
    assert set(rows.filter(part="edge")["line"]) == {"A ~ B ~ C > D"}


@st.composite
def orders(draw: st.DrawFn) -> np.ndarray:
    """Draw an acyclic graph, with edges from lower to higher numbers."""
    n = draw(st.integers(1, 9))
    edges = draw(st.lists(st.booleans(), min_size=n * n, max_size=n * n))
    return np.triu(np.array(edges).reshape(n, n), 1)


@given(orders())
def test_winners_stand_above_losers_and_nothing_overlaps(adjacency: np.ndarray) -> None:
    edges = [(int(a), int(b)) for a, b in np.argwhere(graphs.transitive_reduction(adjacency))]
    layout = layered_layout(adjacency, edges)
    assert all(layout.layer[a] < layout.layer[b] for a, b in edges)
    places = set(zip(layout.x.round(9), layout.layer, strict=True))
    assert len(places) == len(adjacency)
    for (a, b), line in zip(edges, layout.lines, strict=True):
        assert [layer for _, layer in line] == list(range(layout.layer[a], layout.layer[b] + 1))
        assert (line[0][0], line[-1][0]) == (layout.x[a], layout.x[b])
