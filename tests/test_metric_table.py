"""The script for the page of published metrics, run on the demo."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

import custodes as cu

SCRIPT = Path(__file__).parents[1] / "docs" / "metric_table.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("metric_table", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["metric_table"] = module  # dataclasses look up their module here
    spec.loader.exec_module(module)
    return module


def test_the_table_of_the_demo_has_the_answers_of_the_questions(script: ModuleType, tmp_path: Path) -> None:
    study = script.mean_over(cu.read("demo").select(metrics="judge,learned,selfeval"), {"judge": "^judge$"})
    rating = cu.read("demo").ratings.frame.filter(pl.col("rater") == "ann1").group_by("item", "system").agg("score")
    assert study.ratings.frame.filter(rater="ann1").height == rating.height
    source = script.Source(title="Demo set", about="texts", licence="none", read=lambda _: study)
    favoritism = cu.favoritism(study, resamples=0)
    rows = script.metric_rows(study, source, favoritism, 20)
    assert sorted(rows["metric"]) == ["judge", "learned", "selfeval"]
    assert rows["agreement"].is_sorted(descending=True)
    agreement = dict(cu.agreement(study, resamples=0, compare_by=()).metrics.select("metric", "kendall_item").rows())
    assert dict(rows.select("metric", "agreement").rows()) == pytest.approx(agreement)
    selfeval = rows.row(by_predicate=pl.col("metric") == "selfeval", named=True)
    assert (selfeval["system"], selfeval["finding"]) == ("Dogwood", "favoured")
    assert abs(selfeval["partiality"]) == favoritism.partiality.filter(metric="selfeval")["partiality"].abs().max()
    pair = cu.combine(
        study, method="ridge", metrics=rows["metric"].head(2).to_list(), repeats=1, resamples=0, unseen="none"
    )
    assert rows["adds"][0] == rows["adds"][1] == pair.generalisation["gain"][0]
    lines = script.section(source, favoritism, rows, {"judge": 0.5}, tmp_path)
    assert (tmp_path / "partiality-demo-set.svg").stat().st_size > 1000
    assert sum(line.startswith("| selfeval |") for line in lines) == 1
    assert "| Dogwood |" in next(line for line in lines if line.startswith("| selfeval |"))
    assert next(line for line in lines if line.startswith("| judge |")).endswith("| .50 |")


def test_numbers_are_written_without_a_leading_zero(script: ModuleType) -> None:
    row = {"adds": -0.004, "adds_low": -0.02, "adds_high": 0.012, "size": 12.4, "size_low": None, "size_high": None}
    assert script.estimate(row, "adds", 3) == "−.004 [−.020, .012]"
    assert script.estimate(row, "size", 0) == "12"
    assert script.number(None, 2) == "–"
