from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import custodes as cu
from custodes.data.ratings import LARGEST
from custodes.errors import InputError
from tests.questions import QUESTIONS

GIVEN: dict[str, dict[str, Any]] = {
    "protocol": {"replications": 2},
    "plan": {"replications": 2, "items": 60},
    "gate": {"metric": "m0", "require": "kendall_item>=0.1", "resamples": 100},
    "combine": {"method": ["ridge", "best", "pairwise"], "repeats": 1},
    "ceiling": {"model": "ridge", "steps": 2},
}
SLOW = ("ceiling", "combine", "plan", "protocol")
IN_UNITS = ("acc_eq_epsilon", "mse_metrics", "mse_both", "weight", "low", "high", "label", "expected", "seconds")
"""Columns in units of scores, or of time."""


def study_of(unit: float) -> cu.Study:
    """Six systems on 24 items by two people and three metrics, the last of these in units of its own."""
    rng = np.random.default_rng(0)
    quality = 0.5 * np.arange(6) + rng.normal(size=(24, 6))
    rows = []
    for rater in ("h0", "h1", "m0", "m1", "m2"):
        scores = np.clip(np.round(2 + quality + rng.normal(size=quality.shape) * 0.7), 1, 8)
        kind = "human" if rater[0] == "h" else "metric"
        rows += [
            (f"i{i}", f"s{k}", rater, kind, float(score) * unit * (1024.0 if rater == "m2" else 1.0))
            for (i, k), score in np.ndenumerate(scores)
        ]
    return cu.read(pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row"))


def asked(question: str, unit: float) -> dict[str, pl.DataFrame]:
    given = {"resamples": 20} if question not in ("check", "correction", "validate", "plan") else {}
    made = QUESTIONS[question](study_of(unit), **(given | GIVEN.get(question, {})))
    return {
        name: table.select(
            pl.exclude([own for own in table.columns if own.removesuffix("_low").removesuffix("_high") in IN_UNITS])
        )
        for name, table in made.tables().items()
    }


@pytest.mark.parametrize("power", [-320, 318])
@pytest.mark.parametrize(
    "question",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name in QUESTIONS
        if name not in ("validate", "verdict")  # of a file, and of other questions
    ],
)
def test_the_unit_of_scores_changes_nothing(question: str, power: int) -> None:
    expected, made = asked(question, 1.0), asked(question, 2.0**power)
    for name, table in expected.items():
        assert_frame_equal(made[name], table, rel_tol=1e-7, abs_tol=1e-9)


def test_scores_beyond_what_can_be_squared_are_refused() -> None:
    for unit, reason in ((2.0**400, f"beyond {LARGEST:g}"), (2.0**-400, f"all below {1 / LARGEST:g}")):
        with pytest.raises(InputError, match=f"scores of 'h0' are {reason.replace('+', '.')}.*take their logarithm"):
            study_of(unit)
