"""Files of `custodes score`: scores, system-level scores and the sidecar of raters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.combining.combine import Combine
from custodes.data.writing import write_table

NAMES = ["item", "system", "rater", "score"]


def scored() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return ratings of single outputs by metrics and an annotator."""
    rng = np.random.default_rng(0)
    quality = rng.normal(size=(40, 4))
    views = {"ann": quality + 0.3 * rng.normal(size=(40, 4))}
    views |= {
        "chrf": 50 + 10 * quality + 10 * rng.normal(size=(40, 4)),
        "ter": 2 - 0.3 * quality + 0.3 * rng.normal(size=(40, 4)),
    }
    rows = {
        name: [(f"i{i}", "ABCD"[s], name, float(view[i, s])) for i in range(40) for s in range(4)]
        for name, view in views.items()
    }
    human = pl.DataFrame(rows.pop("ann"), schema=NAMES, orient="row").with_columns(kind=pl.lit("human"))
    return pl.DataFrame(
        [row for rows_of_rater in rows.values() for row in rows_of_rater], schema=NAMES, orient="row"
    ), human


def fitted(folder: Path, scores: pl.DataFrame, human: pl.DataFrame, raters: pl.DataFrame) -> Combine:
    paths = [write_table(table, folder / f"{name}.csv") for name, table in (("scores", scores), ("people", human))]
    write_table(raters, folder / "scores.raters.csv")
    return cu.combine(cu.read(*paths), method="ridge", repeats=1, resamples=20)


@pytest.fixture
def raters() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "rater": ["chrf", "ter", "bleu"],
            "kind": "metric",
            "higher_is_better": [True, False, True],
            "low": 0.0,
            "high": [100.0, None, 100.0],
            "cost": [0.5, 2.0, 1.0],
            "signature": ["chrf v1", "ter v1", "bleu v1"],
        }
    )


def test_directions_and_costs_come_from_the_file_beside(tmp_path: Path, raters: pl.DataFrame) -> None:
    scores, human = scored()
    result = fitted(tmp_path, scores, human, raters)
    assert dict(result.path.select("metric", "cost").rows()) == {"chrf": 0.5, "ter": 2.0}
    assert not {"costs-not-used", "direction"} & {note.rule for note in result.notes}


def test_seconds_of_score_and_dollars_of_judge_are_not_added(tmp_path: Path, raters: pl.DataFrame) -> None:
    scores, human = scored()
    one, other = (scores.filter(rater=name) for name in ("chrf", "ter"))
    paths = [
        write_table(table, tmp_path / f"{name}.csv") for name, table in (("sc", one), ("jp", other), ("people", human))
    ]
    for name, table, unit in (("sc", raters[:1], "cpu-s"), ("jp", raters[1:2], "usd")):
        write_table(table.with_columns(cost_unit=pl.lit(unit)), tmp_path / f"{name}.raters.csv")
    options = {"method": "ridge", "repeats": 1, "resamples": 20}
    result = cu.combine(cu.read(*paths), **options)
    assert set(result.path["cost"]) == {1}
    notes = {note.rule: note.message for note in result.notes}
    assert "(cpu-s: chrf; usd: ter); give all costs in one unit with costs= (--costs FILE)" in notes["costs-not-used"]
    priced = cu.combine(cu.read(*paths), costs={"chrf": 1, "ter": 3}, **options)
    assert dict(priced.path.select("metric", "cost").rows()) == {"chrf": 1, "ter": 3}
    assert "costs-not-used" not in {note.rule for note in priced.notes}


def test_scores_of_whole_systems_are_no_items(tmp_path: Path, raters: pl.DataFrame) -> None:
    scores, human = scored()
    whole = pl.DataFrame(
        [("", s, name, 10.0 * k) for k, s in enumerate("ABCD") for name in ("chrf", "bleu")], schema=NAMES, orient="row"
    )
    alone = fitted(tmp_path, scores, human, raters.head(2))
    both = fitted(tmp_path, pl.concat([scores, whole]), human, raters)
    assert both.comparison.drop("seconds").equals(alone.comparison.drop("seconds"))
    assert both.path.equals(alone.path)
    notes = {note.rule: note.message for note in both.notes}
    assert notes["no-scores-of-outputs"].endswith(
        "metrics without scores of single outputs cannot be combined and are excluded: bleu (whole-system scores only)"
    )
    assert "no-scores-of-outputs" not in {note.rule for note in alone.notes}
