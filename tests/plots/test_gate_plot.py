"""The figure of a gate has one row for each rule with the distance to its threshold."""

from __future__ import annotations

from pathlib import Path

import pytest

import custodes as cu
from custodes import plots
from custodes.errors import OptionError


def test_every_rule_has_its_row_and_its_distance(tmp_path: Path) -> None:
    rules = ["kendall_item>=0.3", "kendall_item>=0.9", "kendall_item>=0.57"]
    result = cu.gate(cu.read("demo"), metric="judge", require=rules, not_worse_than="learned")
    chart = plots.gate_rules(result)
    rows = chart.to_dict()["data"]["values"]
    assert [row["row"] for row in rows] == [
        f"{rule} ({aspect})" for aspect in ("coherence", "fluency") for rule in [*rules, "not worse than learned"]
    ]
    for row in rows:
        assert row["distance"] == pytest.approx(row["value"] - row["threshold"])
        side = {"holds": row["low"] > 0, "fails": row["high"] < 0, "inconclusive": row["low"] <= 0 <= row["high"]}
        assert side[row["outcome"]]
    text = plots.save(chart, tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "not worse than learned (fluency)" in text
    assert all(word in text for word in ("holds", "fails", "inconclusive"))
    spec = plots.gate_rules(result, aspect="fluency").to_dict()
    assert len(spec["data"]["values"]) == 4
    assert spec["title"].startswith("gate: fails (4 rules")
    with pytest.raises(OptionError, match="did you mean 'fluency'"):
        plots.gate_rules(result, aspect="fluence")


def test_undefined_rules_are_drawn_without_a_dot(tmp_path: Path) -> None:
    study = cu.read("demo")
    few = cu.read(study.ratings.frame.filter(study.ratings.frame["item"].is_in(study.item_labels()[:5].implode())))
    result = cu.gate(few, human="ann*", metric="judge", aspect="fluency", require="kendall_item>=0.3")
    assert result.outcome == "inconclusive"
    assert "NaN" not in plots.save(result.plot(), tmp_path / "x.svg").read_text(encoding="utf-8")
