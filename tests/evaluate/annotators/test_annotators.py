"""Annotators: agreement, competence, labels and flags."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.joining import join
from custodes.data.preferences import Preferences
from custodes.errors import InputError, OptionError
from custodes.evaluate.annotators.annotator_answers import SLOT
from custodes.evaluate.annotators.annotator_statistics import FIRST, LITTLE, REVERSED, TOO_FEW
from custodes.evaluate.annotators.annotators import FEW_SHARED
from tests.evaluate.studies import study_of
from tests.messages import exactly
from tests.simulation.planted_people import study as planted


def verdicts(answers: list[tuple[str, str, int]], **more: object) -> pl.DataFrame:
    """Return a table of rater, item and preference with one comparison per item."""
    rater, item, preference = zip(*answers, strict=True)
    pairs = {"system_a": "A", "system_b": "B", "kind": "human"}
    return pl.DataFrame({"item": item, **pairs, "rater": rater, "preference": preference, **more})


TRIPLE = planted(np.random.default_rng(1), tasks=150, people=6, overlap=1, times=3, sided=0.17, careless=0.17)
"""Rows, kinds and kappas of six people: one chooses by the side, one is careless."""


@pytest.fixture(scope="module")
def triple() -> cu.Annotators:
    return cu.annotators(cu.read(TRIPLE[0]), resamples=50)


def test_models_find_who_is_competent(triple: cu.Annotators) -> None:
    rows = triple.annotators.sort("rater")
    assert "use dawid-skene" in next(note.message for note in triple.notes if note.rule == "method")
    assert rows["competence"].to_numpy() == pytest.approx(TRIPLE[2], abs=0.25)
    assert np.corrcoef(rows["competence"], TRIPLE[2])[0, 1] > 0.9
    assert rows["is_person"].all()


def test_who_chooses_by_the_side_is_named_and_nobody_else(triple: cu.Annotators) -> None:
    named = [FIRST in flags for flags in triple.annotators.sort("rater")["flags"]]
    assert named == (TRIPLE[1] == 1).tolist()
    share = triple.annotators.sort("rater")["first_rate"].to_list()
    assert share[TRIPLE[1].tolist().index(1)] == 1


@pytest.mark.parametrize(("kind", "flags"), [("careful", []), ("random", [LITTLE]), ("reversed", [REVERSED])])
def test_a_reversed_scale_is_named_by_annotators_and_check(kind: str, flags: list[str]) -> None:
    rng = np.random.default_rng(0)
    quality = rng.normal(size=(60, 4))
    ratings = np.clip(np.round(3 + quality + rng.normal(0, 0.7, (3, 60, 4))), 1, 5)
    changes = {"careful": ratings[2], "random": rng.permuted(ratings[2]), "reversed": 6 - ratings[2]}
    ratings[2] = changes[kind]
    study = study_of(np.concatenate([ratings, quality[None]]), people=3)
    for annotator_type, expected in (("persons", flags), ("slots", [flag for flag in flags if flag == REVERSED])):
        result = cu.annotators(study, annotator_type=annotator_type, resamples=0).annotators
        assert result["flags"].to_list() == [[], [], expected]
    problems = cu.check(study).problems.filter(rule="reversed-annotator")
    assert problems["examples"].to_list() == [["ann2"]] * (kind == "reversed")


@pytest.fixture(scope="module")
def uneven() -> cu.Annotators:
    """Return answers of accurate annotators, few of whom share many tasks with others."""
    rows, _, _ = planted(np.random.default_rng(4), tasks=130, people=12, overlap=1, times=3, uneven=True, skill=(80, 1))
    return cu.annotators(cu.read(rows), method="dawid-skene", annotator_type="persons", resamples=20)


def test_of_who_shares_little_no_competence_is_told_and_of_hardly_anything_no_agreement(uneven: cu.Annotators) -> None:
    rows = uneven.annotators
    few, hardly = pl.col("n_multiply_rated") < 30, pl.col("n_multiply_rated") < 12
    assert rows.select(few.sum(), hardly.sum().alias("hardly")).row(0) == (7, 1)
    assert rows.filter(few)["reason"].unique().to_list() == [FEW_SHARED]
    assert rows.filter(few)["competence"].is_null().all()
    assert rows.filter(~few)["competence"].is_not_null().all()
    assert rows.filter(hardly)["agreement"].is_null().all()
    assert rows.filter(~hardly)["agreement"].is_not_null().all()


def test_a_picture_says_who_is_left_out(uneven: cu.Annotators) -> None:
    drawn = uneven.plot().to_dict()
    assert len(drawn["data"]["values"]) == 5
    assert "7 without an estimate are not shown" in str(drawn)
    unsure = replace(uneven, annotators=uneven.annotators.with_columns(competence=None))
    with pytest.raises(
        OptionError,
        match=exactly(
            "annotator_competence: no annotator has an estimate of competence; see the notes and the column reason"
        ),
    ):
        unsure.plot()


def test_labels_are_what_the_votes_say_where_they_count() -> None:
    answers = [("ann", "x", 1), ("bea", "x", 1), ("cy", "x", -1), ("ann", "y", 1), ("bea", "y", -1), ("cy", "z", 0)]
    result = cu.annotators(cu.read(verdicts(answers)), method="majority", resamples=0).labels
    assert result.select("item", "label", "answers").rows() == [("x", "win", 3), ("y", "tie", 2), ("z", "tie", 1)]
    assert result["probability"].to_list() == pytest.approx([2 / 3, 0.0, 1.0])
    assert result.select("p_a", "p_tie", "p_b").row(1) == pytest.approx((0.5, 0.0, 0.5))


REASONS = {
    "few": "there are fewer than 3 annotators, or fewer than 30 tasks answered by several annotators",
    "enough": "annotators share a median of {} answered tasks with other annotators, and dawid-skene needs 20 "
    "shared tasks",
    "sparse": "annotators share a median of {} answered tasks with other annotators, and dawid-skene needs 20 "
    "shared tasks",
    "requested": "this method was requested",
}


@pytest.mark.parametrize(
    ("n_annotators", "n_tasks", "per_task", "method", "expected", "reason"),
    [
        (2, 40, 2, "auto", "majority", REASONS["few"]),
        (3, 29, 3, "auto", "majority", REASONS["few"]),
        (3, 30, 3, "auto", "dawid-skene", REASONS["enough"].format(30)),
        (4, 40, 2, "auto", "dawid-skene", REASONS["enough"].format(20)),
        (4, 38, 2, "auto", "mace", REASONS["sparse"].format(19)),
        (2, 40, 2, "mace", "mace", REASONS["requested"]),
    ],
)
def test_the_method_is_chosen_by_the_number_of_answers(
    n_annotators: int, n_tasks: int, per_task: int, method: Any, expected: str, reason: str
) -> None:
    names = ["ann", "bea", "cy", "dan"][:n_annotators]
    answers = [
        (names[(task * per_task + k) % n_annotators], f"i{task}", task % 3 - 1)
        for task in range(n_tasks)
        for k in range(per_task)
    ]
    result = cu.annotators(cu.read(verdicts(answers)), method=method, resamples=0)
    assert next(note.message for note in result.notes if note.rule == "method") == (
        f"labels{'' if expected == 'majority' else ' and competence'} from verdicts use {expected}, because {reason}; "
        "all other questions combine annotators by the option aggregate"
    )


def test_numbers_have_alpha_by_squares_alone() -> None:
    rng = np.random.default_rng(2)
    item, rater = np.repeat(np.arange(40), 3), np.tile(["ann", "bea", "cy"], 40)
    scores = {"item": item, "system": "A", "rater": rater, "kind": "human", "score": rng.random(120) + item}
    rows = pl.DataFrame(scores).with_columns(repeat=pl.lit("0"))
    rows = pl.concat([rows, rows.head(5).with_columns(score=pl.lit(-99.0), repeat=pl.lit("1"))])
    result = cu.annotators(cu.read(rows), resamples=20)
    row = result.agreement.row(0, named=True)
    assert row["alpha_nominal"] is None
    assert 0.9 < row["alpha_interval"] < 1
    assert result.labels.is_empty()
    assert result.annotators["competence"].is_null().all()
    notes = {note.rule: note.message for note in result.notes}
    assert notes["numbers"] == (
        "ratings: more than 12 different scores count as numeric ratings, not as labels, so no labels and no "
        "competence are estimated"
    )
    assert notes["scored-again"] == (
        "5 repeated scores of an output by the same annotator are excluded; only the first score of an output counts"
    )


def slots(names: list[str], *, whole: bool = True) -> cu.Study:
    answers = [
        (name, f"i{i}", (i + k) % 3 - 1) for k, name in enumerate(names) for i in range(40) if whole or i % 4 != k
    ]
    return cu.read(verdicts(answers))


def test_unequal_numbers_of_answers_reduce_the_effective_number_of_annotators() -> None:
    answers = [(name, f"i{i}", 1) for name, n in (("ann", 8), ("bea", 1), ("cy", 1)) for i in range(n)]
    row = cu.annotators(cu.read(verdicts(answers)), resamples=0).agreement.row(0, named=True)
    assert (row["annotators"], row["effective_annotators"]) == (3, pytest.approx(100 / 66))


def test_slots_have_agreement_alone() -> None:
    result = cu.annotators(slots(["annotator1", "annotator2", "annotator3"]), resamples=20)
    rows = result.annotators
    assert rows["reason"].unique().to_list() == [SLOT]
    assert not rows["is_person"].any()
    for name in ("competence", "agreement", "first_rate", "p_position", "p_careless"):
        assert rows[name].is_null().all(), name
    assert result.agreement["alpha_nominal"].is_not_null().all()
    assert result.agreement["effective_annotators"].item() is None
    notes = {note.rule: note.message for note in result.notes}
    assert notes["slots"] == (
        "annotator1, annotator2, annotator3 answered the same tasks and were read as slots that several persons share, "
        "so they are not evaluated one by one. If each of them is one person, set annotator_type='persons' or person = "
        "true in a raters table"
    )
    assert (
        notes["method"].partition(", because ")[2].startswith("some raters are slots, which several persons may share;")
    )


@pytest.mark.parametrize(
    ("names", "whole", "annotator_type", "persons"),
    [
        (["annotator1", "annotator2", "annotator3"], True, "auto", False),
        (["annotator1", "annotator2", "annotator3"], True, "persons", True),
        (["annotator1", "annotator2", "annotator3"], False, "auto", True),
        (["ann", "bea", "cy"], True, "auto", True),
        (["bea", "cy", "dan"], True, "slots", False),
    ],
)
def test_who_is_a_person(names: list[str], whole: bool, annotator_type: str, persons: bool) -> None:
    result = cu.annotators(slots(names, whole=whole), annotator_type=annotator_type, resamples=0)
    assert result.annotators["is_person"].to_list() == [persons] * 3


def test_the_raters_table_says_who_is_a_person() -> None:
    study = slots(["annotator1", "annotator2"]).describe(
        raters=pl.DataFrame({"rater": ["annotator*"], "person": ["true"]})
    )
    assert cu.annotators(study, resamples=0).annotators["is_person"].all()


def test_second_opinions_count() -> None:
    first = cu.read(verdicts([("ann", f"i{i}", i % 3 - 1) for i in range(40)] + [("bea", "last", 1)]))
    second_part, _ = Preferences.make(verdicts([("bea", f"i{i}", i % 3 - 1) for i in range(40)]).drop("kind"))
    result = cu.annotators(replace(first, second=second_part), resamples=0)
    assert result.agreement.select("n_multiply_rated", "alpha_nominal").row(0) == (40, 1.0)
    alone = cu.annotators(first, resamples=0)
    assert alone.agreement.select("n_multiply_rated", "alpha_nominal", "reason").row(0) == (0, None, TOO_FEW.format(30))
    rules = {note.rule for note in alone.notes}
    assert "none-doubled" in rules
    assert "few-triples" not in rules  # No task has two answers.


def test_the_median_of_seconds_is_told_where_it_is_known() -> None:
    rows = verdicts([("ann", "x", 1), ("ann", "y", 1), ("bea", "x", 1)], seconds=[3.0, 5.0, None])
    result = cu.annotators(cu.read(rows), resamples=0).annotators
    assert result.select("rater", "seconds").rows() == [("ann", 4.0), ("bea", None)]


def test_nothing_is_known_where_nobody_doubled_a_task() -> None:
    study = cu.read(verdicts([("ann", "x", 1), ("bea", "y", -1)]))
    result = cu.annotators(study, resamples=20)
    assert result.annotators["agreement"].is_null().all()
    assert result.annotators["flags"].list.len().sum() == 0
    with pytest.raises(
        OptionError,
        match=exactly(
            "method='mace': no task was answered twice, so competence cannot be estimated; use method='majority'"
        ),
    ):
        cu.annotators(study, method="mace")


def test_no_people_is_an_error_that_helps() -> None:
    scores = pl.DataFrame({"item": ["x", "y"], "system": "A", "rater": "judge", "kind": "metric", "score": [1.0, 2.0]})
    with pytest.raises(OptionError, match=r"no human ratings, as every rater is a metric \(judge\); add a file of"):
        cu.annotators(cu.read(scores))
    whole = pl.DataFrame(
        {"item": ["", "x"], "system": "A", "rater": ["ann", "m"], "kind": ["human", "metric"], "score": 1}
    )
    with pytest.raises(
        InputError,
        match=exactly("table: the selected annotators gave no score or verdict (ann); select other annotators"),
    ):
        cu.annotators(cu.read(whole))


def test_people_who_always_say_the_same_are_not_said_to_guess() -> None:
    """Guessing agrees as often as an annotator with constant answers, so kappa is 0 or undefined for a correct
    annotator."""
    rows = [
        {"item": f"i{i}", "system_a": "A", "system_b": "B", "kind": "human", "rater": rater, "preference": preference}
        for i in range(60)
        for rater, preference in (("ann", 1), ("bea", 1), ("cy", -1 if i == 7 else 1))
    ]
    result = cu.annotators(cu.read(pl.DataFrame(rows)), resamples=20).annotators
    assert result["competence"].is_null().all()
    assert set(result["reason"]) == {"nearly all answers are equal, so the chance level is near 1"}
    assert result["agreement"].min() > 0.9  # type: ignore[operator]


def test_categories_have_words_and_no_order() -> None:
    rng = np.random.default_rng(20_260_222)
    words = np.array(["bug", "praise", "refund"])
    truth = rng.integers(3, size=90)
    wide = {f"human_{name}": words[np.where(rng.random(90) < 0.8, truth, rng.integers(3, size=90))] for name in "abc"}
    result = cu.annotators(pl.DataFrame({"id": range(90), **wide}), annotator_type="persons", resamples=20)
    assert set(result.labels["label"].drop_nulls()) == set(words)
    row = result.agreement.row(0, named=True)
    assert row["alpha_nominal"] > 0.4
    assert row["alpha_ordinal"] is None
    assert row["alpha_interval"] is None
    assert row["reason"] == "categories have no order, so only the nominal alpha is defined"


def krippendorff(ratings: np.ndarray, distance: np.ndarray) -> float:
    """Return alpha from codes (annotators, tasks), NaN if missing, and squared distances of codes."""
    pairs = np.zeros(distance.shape)
    for column in ratings.T:
        codes = column[np.isfinite(column)].astype(int)
        for j, k in np.ndindex(len(codes), len(codes)):
            if j != k:
                pairs[codes[j], codes[k]] += 1 / (len(codes) - 1)
    total = pairs.sum(axis=0)
    expected = (np.outer(total, total) - np.diag(total)) / (total.sum() - 1)
    return 1 - (pairs * distance).sum() / (expected * distance).sum()


def test_agreement_rates_and_competence_by_definition() -> None:
    rng = np.random.default_rng(0)
    truth = rng.choice([-1, 0, 1], 90, p=[0.4, 0.2, 0.4])
    signs = np.where(rng.random((4, 90)) < [[0.9], [0.8], [0.7], [0.5]], truth, rng.choice([-1, 0, 1], (4, 90)))
    rated = rng.random((4, 90)) < 0.8
    rows = [(f"p{r}", f"i{k}", int(signs[r, k])) for r in range(4) for k in range(90) if rated[r, k]]
    result = cu.annotators(cu.read(verdicts(rows)), method="dawid-skene", resamples=50)
    table = {row["rater"]: row for row in result.annotators.to_dicts()}
    several = rated.sum(axis=0) > 1
    for r in range(4):
        row, mine = table[f"p{r}"], rated[r]
        equal = (signs == signs[r]) & rated
        share = (equal.sum(axis=0) - 1)[mine & several] / (rated.sum(axis=0) - 1)[mine & several]
        assert row["agreement"] == pytest.approx(share.mean())
        assert row["agreement_low"] < row["agreement"] < row["agreement_high"]
        assert (row["answers"], row["n_multiply_rated"]) == (mine.sum(), (mine & several).sum())
        assert row["tie_rate"] == pytest.approx((signs[r, mine] == 0).mean())
        # Cohen's kappa with the posterior of the labels, on tasks with several answers
        posterior = {row["item"]: [row["p_a"], row["p_tie"], row["p_b"]] for row in result.labels.to_dicts()}
        confusion = np.zeros((3, 3))
        for k in np.flatnonzero(mine & several):
            confusion[:, 1 - signs[r, k]] += posterior[f"i{k}"]
        confusion /= confusion.sum()
        chance = confusion.sum(axis=0) @ confusion.sum(axis=1)
        assert row["competence"] == pytest.approx((np.trace(confusion) - chance) / (1 - chance), abs=1e-6)
    row = result.agreement.row(0, named=True)
    codes = np.where(rated, 1.0 - signs, np.nan)
    counts = np.array([np.sum(codes[:, several] == code) for code in range(3)])
    ranks = counts.cumsum() - counts / 2
    squares = {
        "nominal": 1.0 - np.eye(3),
        "ordinal": (ranks[:, None] - ranks) ** 2,
        "interval": np.subtract.outer(np.arange(3), np.arange(3)) ** 2.0,
    }
    for scale, distance in squares.items():
        assert row[f"alpha_{scale}"] == pytest.approx(krippendorff(codes[:, several], distance))
    assert (row["annotators"], row["tasks"], row["n_multiply_rated"]) == (
        4,
        90 - (~rated.any(axis=0)).sum(),
        several.sum(),
    )
    assert row["effective_annotators"] == pytest.approx(rated.sum() ** 2 / (rated.sum(axis=1) ** 2).sum())


@pytest.mark.parametrize(("n_shared", "is_enough"), [(29, False), (30, True)])
def test_alpha_needs_thirty_tasks_with_several_answers(n_shared: int, *, is_enough: bool) -> None:
    rng = np.random.default_rng(0)
    rows = [(f"p{r}", f"i{k}", int(rng.choice([-1, 1]))) for r in range(2) for k in range(40) if r == 0 or k < n_shared]
    row = cu.annotators(cu.read(verdicts(rows)), resamples=20).agreement.row(0, named=True)
    for scale in ("nominal", "ordinal", "interval"):
        assert (row[f"alpha_{scale}"] is not None) == is_enough
    assert (row["reason"] or "") == ("" if is_enough else "fewer than 30 tasks were answered by several annotators")


def test_the_twenty_most_active_annotators_of_each_type_of_answer_are_displayed() -> None:
    answers = verdicts([(f"a{k:02}", f"i{i}", i % 3 - 1) for k in range(22) for i in range(k + 1)])
    ratings = pl.DataFrame({"item": ["i0", "i1"], "system": "A", "rater": "b", "kind": "human", "score": [1.0, 2.0]})
    result = cu.annotators(join([cu.read(answers), cu.read(ratings)]), resamples=0)
    assert result.annotators["flags"].list.len().max() == 0
    (view,) = (view for view in result.views() if view.title == "annotators")
    assert [row[view.header.index("rater")] for row in view.rows] == [*(f"a{k:02}" for k in range(2, 22)), "b"]
