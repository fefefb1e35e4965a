from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.errors import CustodesError
from tests.questions import QUESTIONS

ALONE = ("check", "leaderboard", "consistency", "complementarity", "verdict", "report")
"""Questions that need no people."""
GIVEN: dict[str, dict[str, Any]] = {"gate": {"metric": "m1", "require": "kendall_item>=0.2"}}


def wide(folder: Path) -> Path:
    """Write scores of two metrics and an empty column of an annotator."""
    rng = random.Random(0)
    rows = [
        {"item": f"i{i}", "system": system, "ann": "", "m1": f"{rng.random():.2f}", "m2": f"{rng.random():.2f}"}
        for i in range(12)
        for system in "ABC"
    ]
    path = folder / "wide.csv"
    pl.DataFrame(rows).write_csv(path)
    return path


def long(folder: Path, *, aspect: str = "", keep: bool = True) -> Path:
    """Return the same data as long rows with kinds; the annotator's rows are optional."""
    frame = pl.read_csv(wide(folder), infer_schema=False).unpivot(
        ["ann", "m1", "m2"], index=["item", "system"], variable_name="rater", value_name="score"
    )
    is_person = pl.col("rater") == "ann"
    frame = frame.with_columns(kind=pl.when(is_person).then(pl.lit("human")).otherwise(pl.lit("metric")))
    path = folder / "long.csv"
    frame.filter(~is_person | keep).with_columns(aspect=pl.lit(aspect)).write_csv(path)
    return path


def shaped(shape: str, folder: Path) -> tuple[cu.Study, dict[str, Any]]:
    """Return a study from a table of this shape, and the arguments that name the annotators."""
    if shape == "wide":
        return cu.read(wide(folder)), {"human": "ann"}
    if shape in ("rows", "aspect"):
        return cu.read(long(folder, aspect="style" if shape == "aspect" else "")), {}
    if shape == "raters":
        kinds = pl.DataFrame({"rater": ["ann", "m1", "m2"], "kind": ["human", "metric", "metric"]})
        return cu.read(long(folder, keep=False), raters=kinds), {}
    rows = [
        {"item": f"i{i}", "system_a": "A", "system_b": b, "rater": rater, "kind": kind, "preference": preference}
        for i in range(12)
        for b in "BC"
        for rater, kind, preference in (("ann", "human", ""), ("m1", "metric", str(i % 3 - 1)))
    ]
    return cu.read(pl.DataFrame(rows)), {}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.json"
    cu.combine(cu.read("demo"), target="fluency", method="ridge", repeats=1, resamples=0).model.save(path)
    return path


@pytest.mark.parametrize("shape", ["wide", "rows", "aspect", "raters", "verdicts"])
def test_every_question_answers_or_says_so_in_one_line(shape: str, model: Path, tmp_path: Path) -> None:
    study, annotators = shaped(shape, tmp_path)
    for name, question in {**QUESTIONS, "report": cu.report}.items():
        if name in ("rates", "labelling", "route"):  # questions about labels
            continue
        if shape in ("aspect", "raters", "verdicts") and name not in (*ALONE[:5], "agreement", "favoritism"):
            continue
        options = {**annotators, **GIVEN.get(name, {}), **({"model": model} if name == "validate" else {})}
        if name == "complementarity" and shape == "verdicts":
            continue  # It has no scores of any rater.
        if name in ALONE:
            result = question(study, **options)
            if shape != "raters" and name in ("verdict", "report"):
                assert "have no score or verdict yet (ann); only metrics are used" in str(result)
            elif shape != "raters":
                assert [note.count for note in result.notes if note.rule == "annotators-without-ratings"] == [1]
            continue
        with pytest.raises(CustodesError) as error:
            question(study, **options)
        message = str(error.value)
        assert "\n" not in message
        assert (
            "no human ratings, as every rater is a metric (m1, m2); add a file of human ratings"
            if shape == "raters"
            else "annotators have no score or verdict yet (ann)"
        ) in message
        assert "leaderboard" in message


def test_the_leaderboard_is_that_of_the_metrics(tmp_path: Path) -> None:
    empty = cu.leaderboard(cu.read(long(tmp_path)), resamples=20)
    alone = cu.leaderboard(cu.read(long(tmp_path, keep=False)), resamples=20)
    assert empty.systems.equals(alone.systems)
    assert set(empty.systems["rater"]) == {"m1", "m2"}
