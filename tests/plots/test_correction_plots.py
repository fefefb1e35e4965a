"""Figures of corrected margins and of the protocol show the numbers of their result."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

import custodes as cu
from custodes import plots
from custodes.evaluate.correction import Correction, correction
from custodes.evaluate.protocol.plan import plan
from custodes.evaluate.protocol.protocol import Protocol, protocol
from custodes.evaluate.protocol.stopping import Stopping
from tests.plots.drawn import rows_of


@pytest.fixture(scope="module")
def corrected() -> Correction:
    return correction(cu.read("demo"), metrics="learned,judge", estimator=["ppi", "poststratified"])


@pytest.fixture(scope="module")
def replayed() -> Protocol:
    study = cu.read("demo")
    return protocol(
        study, estimator=["human", "pooled"], stopping=Stopping(looks=(10, 20, 40)), replications=2, resamples=0
    )


def test_margins_stand_side_by_side_as_in_the_result(corrected: Correction) -> None:
    selection = (pl.col("aspect") == "fluency") & (pl.col("metric") == "judge")
    rows = rows_of(plots.correction_margins(corrected, "judge", aspect="fluency", estimator="poststratified"))
    assert len(rows) == 15
    for estimator, ending in (("naive", "_naive"), ("human", "_human"), ("poststratified", "")):
        pairs = corrected.pairs.filter(selection & (pl.col("estimator") == estimator))
        for name in ("margin", "margin_low", "margin_high", "decision"):
            assert [row[f"{name}{ending}"] for row in rows] == pairs[name].to_list()


def test_the_curve_has_a_line_for_each_estimator(replayed: Protocol) -> None:
    chart = plots.budget_curve(replayed, aspect="fluency").to_dict()
    values = chart["data"]["values"]
    assert values == replayed.curve.filter(pl.col("aspect") == "fluency").to_dicts()
    assert [panel["layer"][1]["encoding"]["y"]["field"] for panel in chart["vconcat"]] == ["correct", "kld"]
    looked = [row for row in values if row["stopping"] != "decided"]  # in addition to the paper's rule
    assert {(row["estimator"], row["round"]) for row in looked} == {
        (e, r) for e in ("human", "pooled") for r in (1, 2, 3)
    }
    assert {row["estimator"] for row in values if row not in looked} == {"human"}


def test_divergence_from_the_mode_by_annotations() -> None:
    options = {"metrics": "judge", "estimator": ["mixture", "naive"], "replications": 2, "resamples": 0}
    result = protocol(cu.read("demo"), aspect="fluency", **options)
    expected = [
        ("human ratings alone", "human, decided", result.protocol["share"][0]),
        ("judge", "mixture, decided", result.protocol["share"][1]),
        ("judge", "naive", 0),
    ]
    rows = rows_of(plots.annotations_and_kld(result))
    assert [(row["metric"], row["stopping"], row["share"]) for row in rows] == expected
    assert [row["kld_mode"] for row in rows] == result.protocol["kld_mode"].to_list()
    infinite = replace(result, protocol=result.protocol.with_columns(kld_mode=pl.lit(float("inf"))))
    assert rows_of(plots.annotations_and_kld(infinite)) == []


def test_power_curve_shows_every_margin_and_number_of_annotations() -> None:
    result = plan(margins=[0.1, 0.3], replications=2)
    chart = plots.power_curve(result)
    spec = chart.to_dict()
    rows = spec["data"]["values"]
    assert {(row["annotations"], round(row["margin"], 6)) for row in rows} == {
        (row["annotations"], round(row["margin"], 6)) for row in result.power.iter_rows(named=True)
    }
    # Power increases with annotations at every margin.
    for margin in (0.1, 0.3):
        results = [r["power"] for r in rows if abs(r["margin"] - margin) < 1e-6]
        assert results == sorted(results)
