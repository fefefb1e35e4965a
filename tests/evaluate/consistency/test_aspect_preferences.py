"""Arrays of preferences and rows of queried verdicts, by their definitions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.answers.shared_arguments import settings
from custodes.errors import InputError
from custodes.evaluate.consistency.aspect_preferences import aspect_preferences, repeated_labels
from custodes.stats import ABSENT
from tests.evaluate.studies import scores_of, study_of
from tests.messages import exactly

PAIRS = (("A", "B"), ("A", "C"), ("B", "C"))


def test_arrays_and_rows_by_item_and_pair(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows, signs = [], {}
    for rater in ("ann", "judge"):
        for item in ("i2", "i0", "i1"):
            for a, b in PAIRS:
                if rng.random() < 0.75:
                    sign = signs[rater, item, a, b] = int(rng.choice([1, 0, -1]))
                    orders = ("ab", "ba") if rater == "judge" and item != "i1" else ("ba",)
                    rows += [(item, b, a, rater, order, -sign) for order in orders]
    names = ["item", "system_a", "system_b", "rater", "order", "preference"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    kind = pl.when(rater="ann").then(pl.lit("human")).otherwise(pl.lit("metric"))
    frame.with_columns(kind=kind).sample(fraction=1, shuffle=True, seed=0).write_csv(tmp_path / "v.csv")
    words = {(i, s): int(rng.integers(0, 9)) for i in ("i0", "i1", "i2") for s in "ABC"}
    texts = [
        {"item": i, "outputs": {s: "w " * words[i, s] for s in "ABC" if (i, s) != ("i0", "C")}}
        for i in ("i0", "i1", "i2")
    ]
    (tmp_path / "o.jsonl").write_text("\n".join(json.dumps(row) for row in texts))
    study = cu.read(tmp_path / "v.csv", tmp_path / "o.jsonl")
    (part,) = aspect_preferences(study, settings({}))
    assert (part.aspect, part.raters, part.n_humans, part.n_units) == ("", ("ann", "judge"), 1, 3)
    keys = sorted({key[1:] for key in signs})
    assert [(f"i{i}", *PAIRS[p]) for i, p in zip(part.item, part.pair, strict=True)] == keys
    assert part.unit.tolist() == part.item.tolist()
    for row, rater in enumerate(part.raters):
        assert part.signs[row].tolist() == [signs.get((rater, *key), ABSENT) for key in keys]
    assert part.people.tolist() == part.signs[0].tolist()
    words["i0", "C"] = np.nan
    lengths = [np.log((1 + words[i, a]) / (1 + words[i, b])) for i, a, b in keys]
    np.testing.assert_allclose(part.length, lengths)
    asked = [
        (part.raters[r], f"i{i}", *PAIRS[p], {1: "ab", -1: "ba"}[o], int(s))
        for r, i, p, o, s in part.queried_verdicts.select("rater", "item", "pair", "order", "preference").rows()
    ]
    flip = {"ab": "ba", "ba": "ab"}  # the systems of a row are sorted
    assert sorted(asked) == sorted((rater, i, a, b, flip[order], -s) for i, b, a, rater, order, s in rows)
    assert (
        part.queried_verdicts["comparison"] == part.queried_verdicts["item"] * 3 + part.queried_verdicts["pair"]
    ).all()
    assert set(part.queried_verdicts["run"]) == {0}


def test_preferences_that_would_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of(scores_of(0, items=5))  # 3 raters, 5 items, 6 pairs of systems
    monkeypatch.setattr("custodes.evaluate.consistency.aspect_preferences.MOST_SIGNS", 90)
    assert aspect_preferences(study, settings({}))
    monkeypatch.setattr("custodes.evaluate.consistency.aspect_preferences.MOST_SIGNS", 89)
    message = "study: 30 comparisons x 3 raters do not fit into memory; select fewer raters or systems"
    with pytest.raises(InputError, match=exactly(message)):
        aspect_preferences(study, settings({}))


def test_repeated_scores_are_runs_and_their_signs_follow_the_direction() -> None:
    rows = [
        (item, system, rater, repeat, float((ord(system) + item * (repeat + 1)) % 3))
        for rater, n_repeats in (("m", 3), ("once", 1))
        for item in range(6)
        for system in "AB"
        for repeat in range(n_repeats)
    ]
    frame = pl.DataFrame(rows, schema=["item", "system", "rater", "repeat", "score"], orient="row")
    frame = frame.with_columns(pl.col("repeat").cast(pl.String), kind=pl.lit("metric"))
    for is_higher_better in (True, False):
        raters = pl.DataFrame({"rater": ["m"], "higher_is_better": [is_higher_better]})
        (part,) = aspect_preferences(cu.read(frame, raters=raters), settings({}))
        score = {row[:4]: row[4] for row in rows}
        wanted = {
            (item, repeat): np.sign(score[item, "A", "m", repeat] - score[item, "B", "m", repeat])
            * (1 if is_higher_better else -1)
            for item in range(6)
            for repeat in range(3)
        }
        found = {(i, run): s for i, run, s in part.queried_verdicts.select("item", "run", "preference").rows()}
        assert found == wanted
        assert {part.raters[r] for r in part.queried_verdicts["rater"]} == {"m"}
        assert set(part.queried_verdicts["order"]) == {0}


@pytest.mark.parametrize(("n_values", "are_labels"), [(11, True), (12, False)])
def test_scores_of_few_whole_numbers_are_labels(n_values: int, *, are_labels: bool) -> None:
    frame = pl.DataFrame(
        {
            "item": [f"i{k // 2}" for k in range(24)],
            "repeat": ["0", "1"] * 12,
            "score": [float(k % n_values) for k in range(24)],
        }
    )
    frame = frame.with_columns(system=pl.lit("A"), rater=pl.lit("m"), kind=pl.lit("metric"))
    study = cu.read(pl.concat([frame, frame.with_columns(score=pl.col("score") / 2, rater=pl.lit("halves"))]))
    rows = repeated_labels(study, "")
    assert set(rows["rater"]) == ({"m"} if are_labels else set())
    once = cu.read(frame.filter(repeat="0"))
    assert repeated_labels(once, "").is_empty()


def test_categories_are_labels_however_many_there_are() -> None:
    frame = pl.DataFrame(
        {
            "id": [f"i{k // 2:02}" for k in range(40)],
            "run": [0, 1] * 20,
            "judge_label": [f"topic {k // 2 % 14}" for k in range(40)],
        }
    )
    frame = frame.with_columns(human_label=pl.col("judge_label"))
    result = cu.consistency(frame, resamples=0).repeated_labels
    assert result.select("rater", "outputs", "agreement").rows() == [("judge_label", 20, 1.0)]
