"""Careful annotators are not flagged for causes other than carelessness; `simulation/` has the rates of each cause."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.annotators.annotator_statistics import (
    ABOVE_CHANCE,
    FEW_TASKS,
    FIRST,
    LITTLE,
    NEARLY_CONSTANT,
    NO_AGREEMENT,
)
from tests.simulation import careful_people as crowds
from tests.simulation.careful_people import CAREFUL, Crowd, Draw, careless, expert, rates, rows


def annotated(crowd: Crowd) -> cu.Annotators:
    return cu.annotators(cu.read(crowd.rows), method="majority", annotator_type="persons", resamples=0)


def flagged(draw: Draw, seed: int) -> set[str]:
    """Return the annotators of one study that are flagged for low agreement."""
    result = annotated(draw(np.random.default_rng(seed))).annotators
    return set(result.filter(pl.col("flags").list.contains(LITTLE))["rater"])


@pytest.mark.parametrize(
    "cause", ["harder items, 3 of 10 each", "very harsh and lenient", "an expert beside two who click"]
)
def test_careful_people_are_not_flagged(cause: str) -> None:
    assert rates(CAREFUL[cause], 4).false == 0


def test_who_answers_at_random_is_flagged_in_comparisons_and_ratings() -> None:
    for draw in (
        lambda rng: careless(rng, answers=200),
        lambda rng: careless(rng, people=3, answers=200),
        lambda rng: crowds.harsh_and_lenient(rng, careless=1, answers=200),
    ):
        assert flagged(draw, 0) == {"w00x"}


def test_continuous_scores_are_tested_by_their_order() -> None:
    rng = np.random.default_rng(0)
    task, person = np.repeat(np.arange(100), 4), np.tile(np.arange(4), 100)
    score = np.where(person == 0, 0.0, rng.normal(size=100)[task]) + rng.normal(size=400)
    assert flagged(lambda _: Crowd(rows(task, person, score=score)), 0) == {"w00x"}


def test_an_expert_beside_careless_people_is_not_judged_by_them() -> None:
    result = annotated(expert(np.random.default_rng(0)))
    assert result.annotators["untested_reason"].to_list() == [NO_AGREEMENT] * 3
    assert result.annotators["p_careless"].is_null().all()
    (note,) = [note.message for note in result.notes if note.rule == "no-agreement"]
    assert (
        "verdicts: the data cannot show whether 3 annotators are careless, because the other annotators "
        "agree too little with one another"
    ) in note


def test_who_chooses_by_the_side_is_no_measure_of_others() -> None:
    result = annotated(crowds.expert_and_clickers(np.random.default_rng(0))).annotators.sort("rater")
    assert [FIRST in flags for flags in result["flags"]] == [False, True, True]
    assert result["untested_reason"][0] == FEW_TASKS


def test_with_two_answers_to_a_task_hard_and_careless_look_the_same() -> None:
    result = annotated(crowds.harder(np.random.default_rng(0), times=2))
    assert set(result.annotators["untested_reason"]) == {FEW_TASKS}
    assert "few-triples" in {note.rule for note in result.notes}


@pytest.mark.parametrize(("deviating", "reason"), [(0, NEARLY_CONSTANT), (11, NEARLY_CONSTANT), (12, "")])
def test_annotators_with_few_deviating_answers_are_not_flagged(deviating: int, reason: str) -> None:
    """The annotator deviates on outputs of average quality."""
    task, person = np.repeat(np.arange(120), 3), np.tile(np.arange(3), 120)
    score = np.where(person > 0, 1 + task % 5, np.where((task % 5 == 2) & (task < 5 * deviating), 4, 5))
    first = annotated(Crowd(rows(task, person, score=score))).annotators.sort("rater").row(0, named=True)
    assert first["untested_reason"] == reason
    assert first["flags"] == ([] if reason else [LITTLE])


def test_a_person_above_chance_is_not_flagged_for_little_agreement() -> None:
    """The agreement is below half of that of the others and significantly above that of random answers."""
    rng = np.random.default_rng(0)
    task, person = np.repeat(np.arange(1500), 4), np.tile(np.arange(4), 1500)
    knows = np.where(person == 0, 0.3, 0.95)
    crowd = Crowd(rows(task, person, preference=crowds.verdicts(rng, task, knows)))
    first = annotated(crowd).annotators.sort("rater").row(0, named=True)
    assert first["p_chance"] < 0.001
    assert (first["p_careless"], first["untested_reason"], first["flags"]) == (None, ABOVE_CHANCE, [])
