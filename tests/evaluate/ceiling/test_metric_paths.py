"""Paths of metrics: planted metrics come first, and removed duplicates cost nothing."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.errors import OptionError
from custodes.evaluate.ceiling.ceiling import Ceiling
from tests.evaluate.ceiling.planted import ceiling_of, planted, rows


def test_the_path_finds_the_planted_metrics_first(planted_ceiling: Ceiling) -> None:
    path = planted_ceiling.forward.filter(pl.col("target") == "style")
    assert path["metric"].to_list()[:2] == ["first", "second"]
    assert path["step"].to_list() == [1, 2, 3, 4]
    assert path["chosen"].to_list()[:2] == [1.0, 1.0]
    assert path["gain"][0] is None
    assert path["gain_low"][1] > 0.05
    assert (path["gain"][2:].abs() < 0.02).all()
    for k in range(1, 4):
        assert path["gain"][k] == pytest.approx(path["kendall"][k] - path["kendall"][k - 1], abs=1e-12)
    assert path["kendall"][3] == pytest.approx(
        rows(planted_ceiling.prediction, "style", "features")["metrics"]["kendall"], abs=0.02
    )
    assert ceiling_of(planted(), steps=2, resamples=0).forward.height == 4
    alone = rows(planted_ceiling.next, "style", "metric")
    assert max(alone, key=lambda name: alone[name]["added"]) == "first"
    assert alone["first"]["added"] == pytest.approx(path["kendall"][0], abs=0.02)
    assert alone["first"]["removed_low"] > 0.1
    assert abs(alone["noise"]["removed"]) < 0.02


def test_a_twin_adds_nothing_and_is_not_missed() -> None:
    scores = {**planted(), ("twin", ""): planted()["first", ""] * 5 + 3}
    whole = rows(ceiling_of(scores, aspect="style").next, "style", "metric")
    assert abs(whole["first"]["removed"]) < 0.01
    assert abs(whole["twin"]["removed"]) < 0.01
    assert whole["second"]["removed"] > 0.05
    assert whole["twin"]["added"] == pytest.approx(whole["first"]["added"], abs=1e-9)
    used = ceiling_of(scores, aspect="style", in_use="first,noise")
    on_top = rows(used.next, "style", "metric")
    assert abs(on_top["twin"]["added"]) < 0.01
    assert on_top["second"]["added_low"] > 0.05
    assert on_top["first"]["added"] is None  # it is in use
    assert on_top["twin"]["removed"] is None  # it is unused
    assert on_top["first"]["removed_low"] > 0.1
    path = used.forward.filter(pl.col("target") == "style")
    assert path["step"].to_list() == [0, 1, 2, 3]
    assert path["metric"].to_list()[:2] == ["first, noise", "second"]
    assert path["chosen"].to_list()[:2] == [None, 1.0]
    assert path["gain_low"][1] > 0.05
    assert used.provenance.options["in_use"] == "first,noise"
    many = ceiling_of(scores, aspect="style", in_use="*", resamples=0).forward
    assert many["metric"].to_list() == ["first, second and 3 more"]
    with pytest.raises(OptionError, match="in_use.*'frst': no such metric.*did you mean 'first'"):
        ceiling_of(scores, in_use="frst")


def test_the_only_metric_in_use_is_worth_its_own_score() -> None:
    result = ceiling_of(planted(), aspect="style", in_use="first")
    row = rows(result.next, "style", "metric")["first"]
    start = rows(result.forward, "style", "step")[0]
    assert row["removed"] == pytest.approx(start["kendall"])
    for end in ("_low", "_high"):  # A difference is on another scale than a correlation.
        assert row[f"removed{end}"] == pytest.approx(start[f"kendall{end}"], abs=0.01)
    lone = {key: values for key, values in planted().items() if key[0] in ("ann", "first")}
    alone = rows(ceiling_of(lone, aspect="style").next, "style", "metric")["first"]
    assert alone["removed"] == alone["added"] == pytest.approx(row["removed"])
