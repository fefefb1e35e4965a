"""`result.plot()`: every result that has a main picture draws it, the others say that they have none."""

from __future__ import annotations

import pytest

import custodes as cu
from custodes.errors import OptionError
from custodes.questions import RESULTS

QUICK = {
    "leaderboard": {"resamples": 20},
    "agreement": {"resamples": 20, "compare_by": ()},
    "favoritism": {"resamples": 20},
    "ranking": {"resamples": 0},
    "correction": {"metrics": "judge", "estimator": "ppi"},
    "protocol": {"metrics": "judge", "estimator": "ppi", "replications": 2},
    "complementarity": {"resamples": 20},
    "ceiling": {"model": "ridge", "steps": 1, "resamples": 20},
    "combine": {"target": "fluency", "method": ["ridge", "best"], "repeats": 1, "resamples": 20},
    "gate": {"metric": "judge", "require": "kendall_item>=0.3"},
}
"""What each question is asked of the demo, where it takes little time."""

WITHOUT = ("check", "verdict", "validate")


def test_every_result_names_a_picture_or_has_none() -> None:
    assert {name for name, result in RESULTS.items() if not result.PICTURE} == {*WITHOUT}
    assert {result.PICTURE for result in RESULTS.values()} - {""} <= {*cu.plots.__all__}


@pytest.mark.parametrize("question", QUICK)
def test_the_main_picture_is_that_of_its_function(question: str) -> None:
    result = getattr(cu, question)(cu.read("demo").select(aspect="fluency"), **QUICK[question])
    drawn = result.plot(dark=True).to_dict()
    assert drawn == getattr(cu.plots, result.PICTURE)(result, dark=True).to_dict()
    assert drawn != result.plot().to_dict()


def test_a_plan_is_drawn_without_a_study() -> None:
    result = cu.plan(margins=[0.0, 0.3], items=20, replications=2)
    assert result.plot().to_dict()["data"]["values"] == result.power.to_dicts()


@pytest.mark.parametrize("question", ["check", "verdict"])
def test_without_a_picture_it_says_so(question: str) -> None:
    options = {} if question == "check" else {"resamples": 20}
    result = getattr(cu, question)(cu.read("demo"), aspect="fluency", **options)
    with pytest.raises(OptionError, match=f"^{question} has no picture; its tables: "):
        result.plot()


def test_a_picture_of_one_metric_asks_which() -> None:
    result = cu.correction(cu.read("demo"), metrics="judge,learned", estimator="ppi", aspect="fluency")
    with pytest.raises(OptionError, match=r"which metric\? say metric=\.\.\.; metrics: .*learned"):
        result.plot()
    assert result.plot(metric="learned").to_dict()["title"] == "Margins by people and learned (fluency)"
