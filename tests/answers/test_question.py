from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import custodes as cu
from custodes.data.simulate import demo_study
from custodes.errors import InputError, OptionError


@pytest.mark.parametrize(
    "about", ["demo", None, 5, demo_study().ratings.frame], ids=["text", "None", "number", "frame"]
)
@pytest.mark.parametrize("asked", [cu.check, cu.favoritism, cu.report])
def test_a_question_asks_for_a_study(asked: Any, about: Any) -> None:
    with pytest.raises(InputError, match=rf"{asked.__name__}: needs a study, not {type(about).__name__}; .*cu.read"):
        asked(about)


def test_an_unknown_argument_names_the_close_one() -> None:
    with pytest.raises(TypeError, match=r"agreement: unknown argument 'resample' \(did you mean 'resamples'\?\)"):
        cu.agreement(demo_study(), resample=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["looks", "boundary", "stop", "batch", "budget", "futility", "equivalence", "gamma"])
@pytest.mark.parametrize("asked", [cu.protocol, cu.plan])
def test_what_became_a_part_of_stopping_says_so(asked: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"unknown argument '{name}': .* stopping=cu.Stopping\({name}=...\)"):
        asked(demo_study(), **{name: 1})


@pytest.mark.parametrize(
    "wrong",
    [
        {"resamples": "5"},
        {"resamples": True},
        {"resamples": 5.5},
        {"confidence": "0.9"},
        {"ties": None},
        {"human_ties": "1"},
        {"rng": "seed"},
        {"rng": -1},
        {"rng": 1.5},
        {"aspect": 3},
        {"metrics": ["judge", 3]},
    ],
    ids=str,
)
def test_a_wrong_type_is_an_error_of_one_line(wrong: dict[str, Any]) -> None:
    (value,) = wrong.values()
    with pytest.raises(OptionError) as told:
        cu.agreement(demo_study(), **wrong)
    assert repr(value) in str(told.value) or "judge" in str(told.value)


def test_numbers_of_numpy_are_numbers() -> None:
    result = cu.agreement(demo_study(), resamples=np.int64(2), confidence=np.float32(0.5), rng=np.int32(1))
    assert result.provenance.seed == 1


def test_one_statistic_to_compare_by_needs_no_list() -> None:
    result = cu.agreement(demo_study(), resamples=2, compare_by="acc_eq")
    assert result.comparisons["statistic"].unique().to_list() == ["acc_eq"]


def test_a_table_that_is_not_there_is_the_same_error_in_every_view() -> None:
    result = cu.check(demo_study())
    for view in (result.to_frame, result.to_markdown, result.to_latex, result.to_html):
        with pytest.raises(OptionError, match="did you mean 'problems'"):
            view("problem")


@pytest.mark.parametrize(
    ("before", "now"), [("combine_fit", "combine"), ("CombineFit", "Combine"), ("Combination", "CombinedMetric")]
)
def test_a_name_of_before_says_what_to_write(before: str, now: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{before}'; write custodes.{now}$"):
        getattr(cu, before)
    assert hasattr(cu, now)


def test_a_provenance_is_a_line_without_brackets() -> None:
    rules = [cu.Stopping(), cu.Stopping(looks=[10, 20], boundary="pocock")]
    assumed = cu.plan(margins=[0.0, 0.5], stopping=rules, items=20, replications=2).provenance
    assert str(assumed).startswith(
        "plan | study=assumptions | margins=0.0, 0.5 | items=20 | metric_items=0"
        " | stopping=decided; decided, looks 10,20, boundary pocock | replications=2"
    )
    compared = cu.agreement(demo_study(), resamples=0, compare_by=("acc_eq", "kendall_item")).provenance
    assert " | compare_by=acc_eq, kendall_item | " in str(compared)
