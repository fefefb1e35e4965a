"""Calibration by kind of output: each kind has a separate level in held-out tests and in the saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.combining.combine import Combine
from custodes.errors import InputError, OptionError
from tests.combining import runs
from tests.combining.runs import column
from tests.combining.tasks import table_of_items
from tests.evaluate.judged_studies import judged, rows_of, study_from

ITEMS = 60


def lengthy() -> cu.Study:
    """Return a metric that over-rates the outputs of long items."""
    rng = np.random.default_rng(0)
    quality, long = rng.normal(size=(ITEMS, 4)), np.repeat([0.0, 1.0], ITEMS // 2)[:, np.newaxis]
    length = 10 + 5 * long + rng.uniform(0, 4, size=quality.shape)
    scores = {
        ("ann", ""): quality,
        ("metric", ""): quality + 3 * long + 0.1 * rng.normal(size=quality.shape),
        ("length", ""): length,
    }
    groups = ["short", "long"]
    items = table_of_items(ITEMS, group=[groups[int(value)] for value in long[:, 0]])
    return judged(scores).describe(items=items)


def run_combine(**options: Any) -> Combine:
    return runs.run_combine(lengthy(), **{"method": "best", "metrics": "metric", **options})


def test_a_level_of_each_kind_restores_the_agreement() -> None:
    plain = column(run_combine().comparison, "kendall")["best"]
    for by in ("group", "length"):
        calibrated = run_combine(calibrate_by=by)
        assert column(calibrated.comparison, "kendall")["best"] > plain + 0.2
        table = calibrated.calibration
        assert table["outputs"].sum() == ITEMS * 4
        assert table["kind"].to_list() == (["long", "short"] if by == "group" else table["kind"].to_list())
    assert len(table) == 4  # quartiles
    assert table["kind"][0].startswith("<= ")


def test_the_shift_is_the_shrunk_mean_residual() -> None:
    study, result = lengthy(), run_combine(calibrate_by="group")
    plain = run_combine().model.score(study)[0]["score"].to_numpy().reshape(ITEMS, 4)
    human = study.ratings.frame.filter(rater="ann").sort("item", "system")["score"].to_numpy().reshape(ITEMS, 4)
    shifts = column(result.calibration, "shift", "kind")
    for kind, rows in (("short", slice(0, ITEMS // 2)), ("long", slice(ITEMS // 2, None))):
        residual = human[rows] - plain[rows]
        assert shifts[kind] == pytest.approx(residual.sum() / (residual.size + 10))


def test_the_model_file_shifts_new_outputs_and_counts_unknown_kinds(tmp_path: Path) -> None:
    result, study = run_combine(calibrate_by="group"), lengthy()
    path = result.model.save(tmp_path / "model.json")
    model = cu.CombinedMetric.load(path)
    plain = run_combine().model.score(study)[0]
    ratings, notes = model.score(study)
    shifts = column(result.calibration, "shift", "kind")
    added = (ratings["score"] - plain["score"]).to_numpy()
    assert added == pytest.approx(np.repeat([shifts["short"], shifts["long"]], 2 * ITEMS))
    assert "kind-unknown" not in {note.rule for note in notes}
    unknown = lengthy().describe(items=table_of_items(ITEMS, group=["other"] * ITEMS))
    ratings, notes = model.score(unknown)
    assert ratings["score"].to_numpy() == pytest.approx(plain["score"].to_numpy())
    assert {note.rule: note.count for note in notes}["kind-unknown"] == 4 * ITEMS
    validated = cu.validate(study, model=path).comparison.row(0, named=True)
    assert validated["kendall"] > 0.8


def test_an_edited_calibration_is_refused(tmp_path: Path) -> None:
    path = run_combine(calibrate_by="group").model.save(tmp_path / "model.json")
    path.write_text(path.read_text().replace('"short"', '"long"', 1))
    with pytest.raises(InputError, match="edited by hand"):
        cu.CombinedMetric.load(path)


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("system", "would favour systems"),
        ("mark", "all outputs of each system are of one kind"),
        ("colour", "calibrate_by='colour': no such column"),
        ("constant", "all rated outputs are of one kind"),
    ],
)
def test_kinds_that_tell_the_system_and_unknown_columns_are_refused(by: str, message: str) -> None:
    marks = np.broadcast_to(np.arange(4.0), (ITEMS, 4))
    scores = {("mark", ""): marks, ("constant", ""): np.ones_like(marks)}
    rows = rows_of(scores)
    study = study_from(pl.concat([rows, lengthy().ratings.frame.select(rows.columns)]))
    with pytest.raises(OptionError, match=message):
        runs.run_combine(study, method="best", metrics="metric", calibrate_by=by)
