"""The array of a panel against a lookup of each cell in the ratings."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from custodes.data.panel import Panel, label_codes
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study

ITEMS, SYSTEMS, RATERS = ("i1", "i2", "i3"), ("A", "B"), ("ann", "bleu")


def study_of(rows: list[tuple]) -> Study:
    names = ["item", "system", "rater", "aspect", "repeat", "score"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return Study(ratings=Ratings.make(frame)[0], raters=Raters.infer({"ann": "human", "bleu": "metric"}))


def panel_of(study: Study, aspect: str = "") -> Panel:
    return Panel.from_study(study, raters=RATERS, aspect=aspect, items=ITEMS, systems=SYSTEMS)


def test_every_cell_is_the_mean_of_its_repeats() -> None:
    rng = np.random.default_rng(0)
    cells = {(i, s, r): rng.integers(0, 9, rng.integers(0, 4)) for i in ITEMS for s in SYSTEMS for r in RATERS}
    rows = [(*cell, "", k, float(score)) for cell, scores in cells.items() for k, score in enumerate(scores)]
    rows += [("strange", "A", "ann", "", 0, 7.0), ("i1", "Z", "ann", "", 0, 7.0)]
    rng.shuffle(rows)
    panel = panel_of(study_of(rows))
    for (item, system, rater), scores in cells.items():
        value = panel.values[RATERS.index(rater), ITEMS.index(item), SYSTEMS.index(system)]
        assert value == pytest.approx(scores.mean() if len(scores) else np.nan, nan_ok=True)
    assert np.isnan(panel.system_scores).all()


def test_scores_of_whole_systems_stand_apart() -> None:
    panel = panel_of(study_of([("i1", "A", "ann", "", 0, 1.0), ("", "B", "bleu", "", 0, 40.0)]))
    np.testing.assert_array_equal(panel.system_scores, [[np.nan, np.nan], [np.nan, 40.0]])
    assert np.isfinite(panel.values).sum() == 1


def test_lower_is_better_turns_both() -> None:
    study = study_of([("i1", "A", "bleu", "", 0, 1.0), ("", "A", "bleu", "", 0, 40.0), ("i1", "A", "ann", "", 0, 3.0)])
    turned = panel_of(study.describe(raters=pl.DataFrame({"rater": ["bleu"], "higher_is_better": ["no"]})))
    assert (turned.values[1, 0, 0], turned.system_scores[1, 0], turned.values[0, 0, 0]) == (-1, -40, 3)


def test_without_rows_of_the_aspect_a_rater_is_taken_as_it_is() -> None:
    rows = [("i1", "A", "ann", "style", 0, 1.0), ("i1", "A", "ann", "", 0, 5.0), ("i1", "A", "bleu", "", 0, 9.0)]
    panel = panel_of(study_of(rows), "style")
    assert panel.values[:, 0, 0].tolist() == [1, 9]


def test_nobody_changes_what_others_read() -> None:
    panel = panel_of(study_of([("i1", "A", "ann", "", 0, 1.0)]))
    for values in (panel.values, panel.system_scores):
        with pytest.raises(ValueError, match="read-only"):
            values[:] = 0


def test_codes_are_places() -> None:
    codes = label_codes(pl.Series(["b", "?", "a", "b"]), ("a", "b"))
    assert codes.tolist() == [1, -1, 0, 1]
    assert label_codes(pl.Series([], dtype=pl.String), ()).tolist() == []
