from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.parallel import map_parts
from custodes.progress import silent
from tests.evaluate.studies import study_of


def draws_of(labels: list[str], seed: int = 0) -> dict[str, list[float]]:
    """Return a random number of each part."""

    def answer(label: str, rng: np.random.Generator) -> tuple[str, list[float]]:
        return label, rng.random(4).tolist()

    rng = np.random.default_rng(seed)
    return dict(map_parts(answer, labels, rng=rng, progress=silent, desc="draw", label=str))


def test_a_part_draws_the_same_whatever_the_others_are() -> None:
    whole = draws_of(["style", "truth", "length"])
    assert list(whole) == ["style", "truth", "length"]
    for labels in (["style"], ["truth"], ["length", "style", "truth"]):
        for label, values in draws_of(labels).items():
            assert values == whole[label]


FEW = {"resamples": 20}
LABELS = {"judge_label": ["pass", "fail", "pass"] * 20, "judge_confidence": [0.9, 0.6, 0.8] * 20}
LABELS |= {"human_label": ["pass", "fail", "fail"] * 20}


@pytest.mark.parametrize(
    ("name", "options", "desc"),
    [
        ("agreement", FEW, "agreement"),
        ("favoritism", FEW, "favoritism"),
        ("leaderboard", FEW, "leaderboard"),
        ("ranking", FEW, "rank"),
        ("correction", {}, "correct"),
        ("check", {}, "check"),
        ("gate", {"require": "kendall_item>=0.1", **FEW}, "gate"),
        ("protocol", {"replications": 2, **FEW}, "protocol"),
        ("plan", {"replications": 2, "items": 9}, "plan"),
        ("rates", {}, "rates"),
        ("labelling", {"add": 5}, "labelling"),
        ("route", {"threshold": 0.7}, "route"),
    ],
)
def test_progress_has_the_name_of_the_question_and_the_number_of_parts(
    name: str, options: dict[str, Any], desc: str
) -> None:
    calls = []

    def progress(iterable: Iterable[Any], /, *, total: int | None = None, desc: str | None = None) -> Iterable[Any]:
        calls.append((desc, total))
        return iterable

    study = study_of(np.random.default_rng(0).normal(size=(2, 12, 3)).round(1))
    data: Any = pl.DataFrame({"id": range(60), **LABELS}) if name in ("rates", "labelling", "route") else study
    getattr(cu, name)(*([] if name == "plan" else [data]), progress=progress, **options)
    assert calls == [(desc, 2 if name == "leaderboard" else 1)]  # the leaderboard has a part for each rater
