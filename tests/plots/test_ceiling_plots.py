"""Figures of the glass ceiling show the numbers of their result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes import plots
from custodes.errors import InputError
from custodes.evaluate.ceiling.ceiling import Ceiling
from custodes.plots import labels
from custodes.plots.ceiling import HEIGHT, NAMED
from tests.plots.drawn import matches_in, rows_of

DATES = {"overlap": "2002", "overlap-stem": "2004-07", "learned": "2020-01-15", "judge": "2020-01-15"}


@pytest.fixture(scope="module")
def predicted() -> Ceiling:
    raters = pl.DataFrame({"rater": list(DATES), "date": list(DATES.values())})
    return cu.ceiling(cu.read("demo", raters=raters), model="ridge", steps=3, resamples=50)


def test_bars_and_ticks_are_predictions_and_people(predicted: Ceiling, tmp_path: Path) -> None:
    chart = plots.prediction_bars(predicted)
    assert rows_of(chart) == predicted.prediction.to_dicts()
    marks = matches_in(chart, tmp_path, r"target: (\w+); what: [^;]+; Predicted from: [^;]+; τ-b: (-?[\d.]+)")
    expected = predicted.prediction.select("target", "kendall").rows()
    assert [(target, float(value)) for target, value in marks] == [
        (target, float(f"{value:.3g}")) for target, value in expected
    ]
    for name, label in (
        ("split_half", "half of the annotators by the other half"),
        ("attainable", "a perfect predictor"),
    ):
        ticks = matches_in(chart, tmp_path, rf"{name}: ([\d.]+); target: (\w+); what: {label}; Bound")
        expected = predicted.annotators.select(name, "target").rows()
        assert [(float(value), target) for value, target in ticks] == [(pytest.approx(v), t) for v, t in expected]


def test_one_annotator_leaves_no_ticks_and_one_aspect_no_ratio() -> None:
    alone = cu.ceiling(cu.read("demo"), model="ridge", steps=1, resamples=0, human="ann1", aspect="fluency")
    chart = plots.prediction_bars(alone).to_dict()
    assert [layer["mark"]["type"] for layer in chart["layer"]] == ["bar", "rule"]
    assert chart["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["all metrics"]
    with pytest.raises(InputError, match="one aspect"):
        plots.information_ratio(alone)


def test_the_ratio_stands_beside_one(predicted: Ceiling, tmp_path: Path) -> None:
    chart = plots.information_ratio(predicted)
    assert rows_of(chart) == predicted.information.to_dicts()
    marks = matches_in(
        chart, tmp_path, r'; Ratio of errors: ([\d.]+);[^"]*" role="graphics-symbol" aria-roledescription="point"'
    )
    assert list(map(float, marks)) == [float(f"{value:.3g}") for value in predicted.information["mse_ratio"]]
    spec = chart.to_dict()
    assert spec["layer"][0]["encoding"]["y"]["datum"] == 1
    assert spec["layer"][-1]["encoding"]["x"]["scale"]["type"] == "log"


@pytest.mark.parametrize("target", ["coherence", "fluency"])
def test_paths_name_people_and_the_heaviest_metrics_apart(predicted: Ceiling, target: str, tmp_path: Path) -> None:
    rows = predicted.lasso.filter(target=target)
    chart = plots.lasso_paths(predicted, target)
    layers = chart.to_dict()["layer"]
    assert layers[0]["data"]["values"] == layers[1]["data"]["values"] == rows.to_dicts()
    named = pl.DataFrame(layers[2]["data"]["values"])
    size = rows.group_by("rater", "kind").agg(pl.col("weight").abs().max()).sort("weight", descending=True)
    annotator = "human:coherence" if target == "fluency" else "human:fluency"
    assert set(named["rater"]) == {annotator, *size.filter(kind="metric")["rater"].head(NAMED)}
    text = plots.save(chart, tmp_path / "x.svg").read_text(encoding="utf-8")
    assert all(f">{name}<" in text for name in named["rater"])
    span = float(np.ptp(rows["weight"].to_numpy()))
    assert (np.diff(np.sort(named["label_y"].to_numpy())) >= span * labels.LINE / HEIGHT).all()


def test_the_path_goes_from_those_in_use(predicted: Ceiling, tmp_path: Path) -> None:
    chart = plots.forward_path(predicted, "fluency")
    rows = predicted.forward.filter(target="fluency")
    assert rows_of(chart) == rows.to_dicts()
    marks = matches_in(chart, tmp_path, r"Metric added: ([^;]+); kendall: (-?[\d.]+); clear: [^;]+; Step: (\d+);")
    expected = rows.select("metric", "kendall", "step").rows()
    assert [(name, float(v), int(k)) for name, v, k in marks] == [
        (name, pytest.approx(v), k) for name, v, k in expected
    ]
    used = cu.ceiling(cu.read("demo"), model="ridge", steps=1, resamples=0, in_use="overlap*")
    text = plots.save(plots.forward_path(used, "fluency"), tmp_path / "x.svg").read_text(encoding="utf-8")
    assert ">in use<" in text


@pytest.mark.parametrize(
    ("gain", "low", "high", "fill", "clear"),
    [
        (None, None, None, "#0072B2", "interval of the gain above 0"),  # first row: its agreement equals its gain
        (0.1, 0.05, 0.15, "#0072B2", "interval of the gain above 0"),
        (0.1, -0.05, 0.15, "rgba(0,114,178,0.08)", "contains 0, or no interval"),
        (0.1, None, None, "rgba(0,114,178,0.08)", "contains 0, or no interval"),
        (-0.1, -0.15, -0.05, "#D55E00", "below 0"),
    ],
)
def test_the_fill_of_a_point_is_where_the_interval_of_its_gain_lies(
    predicted: Ceiling,
    tmp_path: Path,
    gain: float | None,
    low: float | None,
    high: float | None,
    fill: str,
    clear: str,
) -> None:
    frame = predicted.forward.filter(target="fluency").head(1)
    frame = frame.with_columns(
        pl.lit(value, dtype=pl.Float64).alias(name)
        for name, value in (
            ("gain", gain),
            ("gain_low", low),
            ("gain_high", high),
            ("kendall_low", 0.4),
            ("kendall_high", 0.5),
        )
    )
    chart = plots.forward_path(replace(predicted, forward=frame), "fluency")
    assert matches_in(chart, tmp_path, r'clear: ([^;]+);[^>]*aria-roledescription="point"[^>]*fill="([^"]+)"') == [
        (clear, fill)
    ]


def test_history_shows_every_date(predicted: Ceiling) -> None:
    chart = plots.release_history(predicted)
    rows = rows_of(chart)
    assert [row["date"] for row in rows] == 2 * ["2002", "2004-07", "2020-01-15"]
    assert [row["kendall"] for row in rows] == predicted.history["kendall"].to_list()
    assert rows[2]["newest"] == "learned, judge:coherence, judge:fluency"
    assert chart.to_dict()["layer"][1]["encoding"]["x"]["type"] == "temporal"
    versions = predicted.history.with_columns(date=pl.format("release {}", "date"))
    assert plots.release_history(replace(predicted, history=versions)).to_dict()["layer"][1]["encoding"]["x"][
        "type"
    ] == ("ordinal")
    with pytest.raises(InputError, match="raters table"):
        plots.release_history(replace(predicted, history=predicted.history.head(0)))
