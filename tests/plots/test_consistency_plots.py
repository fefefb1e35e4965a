from __future__ import annotations

import pytest

import custodes as cu
from custodes.errors import OptionError
from custodes.evaluate.consistency.consistency import Consistency
from tests.simulation.planted_judges import PLANTED, World, planted


@pytest.fixture(scope="module")
def consistency() -> Consistency:
    return cu.consistency(planted(PLANTED[:3], World(items=25, gap=1.0), 2), resamples=20)


@pytest.mark.parametrize("kind", ["position", "length", "own systems"])
def test_faults_are_the_rows_of_one_kind_with_an_estimate(consistency: Consistency, kind: str) -> None:
    spec = cu.plots.judge_faults(consistency, kind=kind).to_dict()
    rows = spec["layer"][1]["data"]["values"] if "data" in spec["layer"][1] else spec["data"]["values"]
    expected = consistency.findings.filter(kind=kind).drop_nulls("estimate")
    assert [row["rater"] for row in rows] == expected["rater"].to_list()
    assert {row["finding"] for row in rows} >= ({"prefers what is shown first"} if kind == "position" else {""})


def test_a_kind_that_was_not_tested_is_named_with_those_that_were(consistency: Consistency) -> None:
    with pytest.raises(OptionError, match=r"kind='slot' is not in the result; give one of position"):
        cu.plots.judge_faults(consistency, kind="slot")
    with pytest.raises(OptionError, match="no test has an estimate"):
        cu.plots.judge_faults(cu.consistency(cu.read("demo"), resamples=0))


def test_the_nine_counts_are_those_of_one_judge(consistency: Consistency) -> None:
    spec = cu.plots.order_confusion(consistency, "position").to_dict()
    (row,) = spec["data"]["values"] if "data" in spec else spec["layer"][0]["data"]["values"]
    assert row == consistency.confusion.filter(rater="position").row(0, named=True)
    assert row["win_loss"] > row["loss_win"]
    with pytest.raises(OptionError, match="did you mean 'position'"):
        cu.plots.order_confusion(consistency, "positon")
