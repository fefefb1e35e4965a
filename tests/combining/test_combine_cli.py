"""The commands `combine fit` and `combine score`: model file, printed tables, errors and round trip."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from tests.combining.tasks import planted, table_of_items
from tests.command_line import Run, custodes, refused
from tests.evaluate.judged_studies import rows_of

__all__ = ["custodes"]  # the fixture

pytestmark = pytest.mark.usefixtures("small")

FIT = ("combine", "fit", "ratings.csv", "--resamples", "20", "--repeats", "1", "--method", "ridge")


@pytest.fixture
def study(custodes: Run) -> pl.DataFrame:
    """Write ratings.csv, raters.csv (b is lower-is-better) and items.csv into the working folder."""
    scores = planted()
    scores["b", ""] *= -1
    kind = pl.when(pl.col("rater") == "ann").then(pl.lit("human")).otherwise(pl.lit("metric"))
    rows = rows_of(scores).drop("aspect").with_columns(kind=kind)
    rows.write_csv("ratings.csv")
    Path("raters.csv").write_text("rater,higher_is_better\nb,false\n")
    table_of_items(group=["x", "y"] * 10).write_csv("items.csv")
    return rows


def test_fit_writes_the_model_and_tells_where(custodes: Run, study: pl.DataFrame) -> None:
    ran = custodes(*FIT, "--method", "best", "-o", "model.json")
    assert ran.status == 0
    assert ran.err == "custodes: model written to model.json\n"
    for word in ("comparison", "ridge", "best", "weights", "noise"):
        assert word in ran.out
    assert cu.CombinedMetric.load("model.json").method == "ridge"
    assert sorted(path.name for path in Path().iterdir()) == ["items.csv", "model.json", "raters.csv", "ratings.csv"]
    custodes(*FIT)
    assert Path("combination.json").exists()


def test_json_is_what_python_says(custodes: Run, study: pl.DataFrame) -> None:
    ran = custodes(*FIT, "--method", "best", "--raters", "raters.csv", "--format", "json", "--no-timing")
    study_read = cu.read("ratings.csv", raters="raters.csv")
    result = cu.combine(study_read, method=["ridge", "best"], repeats=1, resamples=20)
    output = json.loads(ran.out)
    mine = json.loads(json.dumps(result.to_dict()))
    for row in mine["comparison"]:
        row["seconds"] = None
    assert output == mine
    assert list(output["comparison"][0])[:5] == ["target", "method", "kendall", "kendall_low", "kendall_high"]
    assert cu.CombinedMetric.load("combination.json") == result.model
    seconds = json.loads(custodes(*FIT, "--format", "json").out)
    assert seconds["seconds"] > 0
    assert seconds["comparison"][0]["seconds"] > 0


def test_a_table_as_csv_and_options_reach_the_question(custodes: Run, study: pl.DataFrame) -> None:
    Path("costs.csv").write_text("metric,cost\na,5\nb,1\nnoise,2\n")
    options = ("--costs", "costs.csv", "--folds", "system", "--objective", "spearman", "--seed", "3")
    ran = custodes(*FIT, *options, "--metrics", "!noise", "--format", "json")
    provenance = json.loads(ran.out)["provenance"]
    settings = provenance["options"]
    assert provenance["seed"] == 3
    expected = {"costs": "costs.csv", "folds": "system", "objective": "spearman", "metrics": "!noise"}
    assert settings.items() >= (expected | {"method": "ridge", "repeats": 1, "resamples": 20}).items()
    path = custodes(*FIT, "--costs", "costs.csv", "--format", "csv", "--table", "path").out.splitlines()
    assert path[0].startswith("target,step,metric,cost,total_cost,score")
    assert len(path) == 4


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--method", "rigde"), ("--method 'rigde'", "did you mean 'ridge'")),
        (("--top", "1.5"), ("--top", "whole number")),
        (
            ("--aspect", "style"),
            ("aspect is not allowed, because target names the aspect; give --target 'ASPECT' or --target 'mean:A,B'",),
        ),
        (("--costs", "nowhere.csv"), ("nowhere.csv", "no such file")),
        (("-o", "."), ("ends in .json",)),
        (("--held-out", "held.xml"), ("held.xml", "suffix")),
    ],
)
def test_bad_options_of_fit(
    custodes: Run, study: pl.DataFrame, options: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    """An existing model is kept, and nothing else is written."""
    Path("combination.json").write_text("of before")
    before = sorted(path.name for path in Path().iterdir())
    refused(custodes(*FIT, *options), *fragments)
    assert Path("combination.json").read_text() == "of before"
    assert sorted(path.name for path in Path().iterdir()) == before


def test_bad_models_and_studies_of_score(custodes: Run, study: pl.DataFrame) -> None:
    custodes(*FIT, "-o", "model.json")
    Path("out.csv").write_text("of before")
    ask = ("combine", "score", "ratings.csv", "--model", "model.json", "-o", "out.csv")
    study.filter(pl.col("rater") != "a").write_csv("less.csv")
    for (file, model), fragments in {
        ("less.csv", "model.json"): ("needs scores of 'a', which are missing; raters: ann, b, noise",),
        ("ratings.csv", "modle.json"): ("no such file", "did you mean 'model.json'"),
        ("ratings.csv", "ratings.csv"): ("ratings.csv: not a valid combined metric: not the JSON",),
    }.items():
        refused(custodes("combine", "score", file, "--model", model, "-o", "out.csv"), *fragments)
    refused(custodes("combine", "score", "--model", "model.json"), "no input")
    refused(custodes("combine", "score"), "no such file")
    refused(custodes(*ask[:5], "-o", "out.xml"), "suffix")
    assert Path("out.csv").read_text() == "of before"
