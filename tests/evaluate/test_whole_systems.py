from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.errors import InputError
from custodes.evaluate.verdict.verdict import HEADINGS
from tests.evaluate.studies import grid, rated
from tests.messages import exactly

CORPUS = [("", system, "corpus", "", score) for system, score in (("S0", 20.0), ("S1", 25.0), ("S2", 60.0))]
PEOPLE = grid("ann", "", [[1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [1.0, 3.0, 2.0]] * 4)
SINGLE = grid("m", "", [[0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0.1, 0.3, 0.2]] * 4)
KINDS = {"ann": "human", "corpus": "metric", "m": "metric"}
QUICK: dict[str, Any] = {"resamples": 0}


def study(*rows: list[tuple]) -> cu.Study:
    joined = [row for part in rows for row in part]
    return rated(joined, {name: KINDS[name] for name in dict.fromkeys(row[2] for row in joined)})


def test_alone_they_are_refused_in_one_line() -> None:
    reason = (
        "no rater compared two systems on the same item; a comparison needs two rated outputs of one item, or a verdict"
    )
    with pytest.raises(InputError, match=f"^study: {reason}"):
        cu.leaderboard(study(CORPUS))
    problems = cu.check(study(CORPUS)).problems
    assert problems.filter(rule="nothing-compared")["message"].str.starts_with(reason).to_list() == [True]


def test_alone_with_people_they_are_compared_system_by_system() -> None:
    result = cu.agreement(study(PEOPLE, CORPUS), **QUICK)
    row = result.metrics.row(0, named=True)
    # The human means are 4/3, 2, 8/3, in the order of the corpus scores.
    assert (row["pairwise_accuracy"], row["kendall_system"]) == (1.0, 1.0)
    assert (row["n"], row["sample_accuracy"], row["kendall_item"], row["acc_eq"]) == (0, None, None, None)
    with_single = cu.agreement(study(PEOPLE, CORPUS, SINGLE), **QUICK).metrics.row(0, named=True)
    assert {name: row[name] for name in row if name.endswith("_system")} == {
        name: with_single[name] for name in row if name.endswith("_system")
    }
    rules = cu.gate(study(PEOPLE, CORPUS), require=["kendall_system>=0.1", "kendall_item>=0.1"], resamples=100).rules
    assert rules["value"].to_list() == [1.0, None]
    assert rules["reason"].to_list()[1] == "annotators and corpus rated no common output"


@pytest.mark.parametrize(
    "question",
    [cu.ranking, cu.favoritism, cu.correction, cu.verdict, cu.protocol],
    ids=lambda question: question.__name__,
)
def test_a_question_of_outputs_refuses_them_in_one_line(question: Callable[..., object]) -> None:
    message = (
        r"^the metrics \(corpus\) share only scores of whole systems with annotators; use agreement, or "
        r"add scores of outputs$"
    )
    with pytest.raises(InputError, match=message):
        question(study(PEOPLE, CORPUS), metrics="corpus")


@pytest.mark.parametrize("other_ratings", [[], [SINGLE]], ids=["alone", "beside"])
def test_it_is_told_without_a_warning(other_ratings: list[list[tuple]]) -> None:
    data = study(PEOPLE, CORPUS, *other_ratings)
    notes = {note.rule: note for note in cu.agreement(data, **QUICK).notes}
    assert "no-overlap" not in notes
    message = "corpus gave only scores of whole systems, so the comparison with annotators is only at the system level"
    assert (notes["whole-systems"].message, notes["whole-systems"].count) == (message, 1)
    problems = dict(cu.check(data).problems.select("rule", "severity").iter_rows())
    assert problems["whole-systems"] == "info"
    assert "no-overlap" not in problems


def test_a_verdict_does_not_put_them_first() -> None:
    result = cu.verdict(study(PEOPLE, CORPUS, SINGLE), **QUICK)
    assert not [line for line in result.lines() if line.startswith(HEADINGS["design"]) and "corpus" in line]


@pytest.mark.parametrize(
    "human",
    [
        [(item, f"X{k}", "ann", "", float(k)) for item in ("1", "2") for k in range(3)],
        [(item, "S0" if k == 0 else f"X{k}", "ann", "", float(k)) for item in ("1", "2") for k in range(3)],
    ],
    ids=["no system", "one system"],
)
def test_scores_of_other_systems_are_refused(human: list[tuple]) -> None:
    with pytest.raises(InputError, match="and no scores of systems in common .*; use the same item"):
        cu.agreement(study(human, CORPUS), **QUICK)


def test_a_group_without_them_says_why() -> None:
    items = pl.DataFrame({"item": [f"i{i}" for i in range(12)], "group": ["news", "web"] * 6})
    with pytest.raises(
        InputError,
        match=exactly(
            "study: the selected metrics have no ratings; metrics: corpus; group='news' leaves out the scores "
            "of whole systems by corpus, because these scores describe all items"
        ),
    ):
        cu.agreement(study(PEOPLE, CORPUS).describe(items=items), group="news", **QUICK)
