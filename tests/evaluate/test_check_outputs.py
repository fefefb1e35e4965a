"""Checks of outputs: references and copies among the systems, repeated items, and texts alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.outputs import Outputs
from custodes.data.study import Study
from tests.evaluate.studies import problems_of, scores_of, study_of

NEW = {"reference-system", "identical-systems", "repeated-items", "pooled-aspects", "nothing-compared"}


def rules(study: Study, **options: object) -> set[str]:
    return NEW & set(problems_of(study, **options))


def marks(seed: int, *, raters: int = 4, items: int = 40, systems: int = 5, levels: int = 0) -> np.ndarray:
    """Return scores of raters of the same quality, by item and system; 0 levels are a continuous scale."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(0, 1, (items, 1)) + rng.normal(0, 0.5, systems) + rng.normal(0, 0.5, (items, systems))
    scores = quality + rng.normal(0, 0.7, (raters, items, systems))
    return np.clip(np.round(scores * levels / 5 + levels / 2), 1, levels) if levels else scores


@pytest.mark.parametrize(("seed", "levels"), [(0, 0), (1, 2), (2, 5)])
def test_a_clean_study_has_none_of_the_traps(seed: int, levels: int) -> None:
    assert rules(study_of(marks(seed, levels=levels), people=2)) == set()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_system_at_the_maximum_of_metrics_is_the_reference(sign: int) -> None:
    scores = marks(0)
    scores[2:, :, 3] = sign * (scores[2:].max() + 1)
    problems = problems_of(study_of(scores, people=2))
    if sign < 0:  # empty outputs, which metrics rate lowest
        assert "reference-system" not in problems
    else:
        assert problems["reference-system"]["severity"] == "warning"
        assert problems["reference-system"]["examples"] == ["S3", "m2", "m3"]
        message = str(problems["reference-system"]["message"])
        assert "looks like the reference: m2, m3 have their maximum on all items of the system. Metrics" in message
        assert "systems='!S3'" in message


def test_the_maximum_of_a_metric_where_lower_is_better_is_its_lowest_score() -> None:
    scores = marks(1)
    scores[3, :, 2] = scores[3].min() - 1
    study = study_of(scores, people=2)
    assert rules(study) == set()
    lower = study.describe(raters=pl.DataFrame({"rater": ["m3"], "higher_is_better": [False]}))
    assert problems_of(lower)["reference-system"]["examples"] == ["S2", "m3"]


def test_a_good_system_at_the_ceiling_of_a_short_scale_is_no_reference() -> None:
    scores = marks(2, levels=5)
    scores[2:, :, 0] = 5.0
    assert "reference-system" not in rules(study_of(scores, people=2))


def with_texts(study: Study, text: Callable[[int, int], str], reference: Callable[[int], str]) -> Study:
    items, systems = study.item_labels().to_list(), study.systems
    rows = [(item, system, text(i, k)) for i, item in enumerate(items) for k, system in enumerate(systems)]
    sources = pl.DataFrame(
        {
            "item": items,
            "source": [f"source {i}" for i in range(len(items))],
            "references": [[reference(i)] for i in range(len(items))],
        }
    )
    texts = pl.DataFrame(rows, schema=["item", "system", "text"], orient="row")
    return replace(study, outputs=Outputs.from_sources(texts, sources))


def test_a_system_whose_outputs_are_the_references() -> None:
    study = study_of(marks(3), people=2)
    texts = with_texts(study, lambda i, k: f"output {i} of {k}", lambda i: f"output {i} of 1")
    problem = problems_of(texts)["reference-system"]
    assert problem["examples"] == ["S1"]
    assert f"looks like the reference: its outputs equal the references of {len(marks(3)[0])} items. Metrics" in str(
        problem["message"]
    )
    short = with_texts(study, lambda i, k: "yes", lambda i: "yes")  # All systems answer as the reference does.
    assert "reference-system" not in rules(short)


def test_systems_that_are_equal_on_all_items() -> None:
    scores = marks(4)
    scores[2:, :, 4] = scores[2:, :, 0]  # Only metric scores are equal: annotators rate identical texts differently.
    problem = problems_of(study_of(scores, people=2))["identical-systems"]
    assert (problem["severity"], problem["examples"]) == ("warning", ["S0", "S4"])
    scores = marks(5, levels=5)
    scores[:2, :, 4] = scores[:2, :, 0]
    texts = with_texts(study_of(marks(6), people=2), lambda i, k: f"{i} {k % 4}", lambda i: "")
    for study, evidence in ((study_of(scores, people=2), "all annotators"), (texts, "their texts")):
        problem = problems_of(study)["identical-systems"]
        assert problem["examples"] == ["S0", "S4"]
        assert f"are equal on all items according to {evidence}, so one" in str(problem["message"])


@pytest.mark.parametrize(
    ("n_items", "n_values", "n_ties", "is_found"),
    [
        (20, 20, 0, True),
        (19, 19, 0, False),
        (20, 5, 0, True),
        (20, 4, 0, False),
        (40, 10, 0, True),
        (40, 9, 0, False),
        (20, 20, 15, True),
        (20, 20, 16, False),
    ],
)
def test_equal_scores_of_systems_need_items_values_and_differences_from_others(
    n_items: int, n_values: int, n_ties: int, *, is_found: bool
) -> None:
    scores = marks(4, raters=3, items=n_items, systems=3)
    scores[2, :, 0] = scores[2, :, 1] = np.arange(n_items) % n_values
    scores[2, :n_ties, 2] = scores[2, :n_ties, 0]
    assert ("identical-systems" in problems_of(study_of(scores, people=2))) is is_found
    without_others = problems_of(study_of(scores[:, :, :2], people=2))
    assert ("identical-systems" in without_others) is (is_found or n_ties > 15)


@pytest.mark.parametrize(
    ("n_items", "n_others", "is_found"), [(20, 1, True), (19, 0, False), (20, 2, False), (40, 2, True)]
)
def test_copies_of_references_need_twenty_items_and_few_copies_elsewhere(
    n_items: int, n_others: int, *, is_found: bool
) -> None:
    study = study_of(marks(3, raters=3, items=n_items, systems=2), people=2)
    texts = with_texts(study, lambda i, k: f"output {i} of {1 if i < n_others else k}", lambda i: f"output {i} of 1")
    assert ("reference-system" in problems_of(texts)) is is_found


@pytest.mark.parametrize(
    ("n_items", "n_values", "n_others", "is_found"),
    [(20, 20, 2, True), (19, 20, 0, False), (20, 19, 0, False), (20, 20, 3, False)],
)
def test_a_maximum_on_all_items_needs_twenty_items_and_twenty_values(
    n_items: int, n_values: int, n_others: int, *, is_found: bool
) -> None:
    scores = marks(0, raters=3, items=n_items, systems=3)
    scores[2, :, :2] = (np.arange(2 * n_items) % (n_values - 1)).reshape(n_items, 2)
    scores[2, :n_others, 0] = scores[2, :, 2] = 100.0
    assert ("reference-system" in problems_of(study_of(scores, people=2))) is is_found


def test_a_metric_of_the_source_alone_makes_no_systems_identical() -> None:
    scores = marks(7)
    scores[3] = scores[3, :, :1]
    assert rules(study_of(scores, people=2)) == set()


@pytest.mark.parametrize("levels", [0, 3])
def test_items_that_stand_three_times_are_one_cluster(levels: int) -> None:
    scores = np.tile(marks(8, levels=levels), (1, 3, 1))
    study = study_of(scores, people=2)
    result = cu.check(study)
    assert "repeated-items" in set(result.problems["rule"])
    assert result.summary.select("items", "clusters").row(0) == (120, 40)
    for question in (cu.agreement, cu.leaderboard, cu.ranking):
        assert "repeated-items" in {note.rule for note in question(study, resamples=20).notes}  # type: ignore[operator]


def test_the_intervals_of_repeated_items_are_those_of_the_items_alone() -> None:
    scores = marks(9)
    once, thrice = (cu.leaderboard(study_of(s, people=2)) for s in (scores, np.tile(scores, (1, 3, 1))))
    width = [(board.systems["win_rate_high"] - board.systems["win_rate_low"]).to_numpy() for board in (once, thrice)]
    np.testing.assert_allclose(width[0], width[1], rtol=0.2)  # Without clusters they are shorter by a factor of 1.7.


def test_two_items_with_equal_scores_by_metrics_alone() -> None:
    scores = marks(10)
    scores[2:, 7] = scores[2:, 3]
    problem = problems_of(study_of(scores, people=2))["repeated-items"]
    assert "1 items repeat another item under a different name" in str(problem["message"])
    assert "i3 = i7" in str(problem["message"])


def test_as_many_nearly_equal_items_make_equal_ones_a_coincidence() -> None:
    scores = marks(10)
    scores[2:, 7] = scores[2:, 11] = scores[2:, 3]
    scores[2:, 11, 0] += 0.1
    assert "repeated-items" not in rules(study_of(scores, people=2))


def test_items_with_equal_texts_and_other_ratings() -> None:
    study = study_of(marks(11), people=2)
    equal_texts = with_texts(study, lambda i, k: f"output {i % 39} of {k}", lambda i: "")
    assert rules(equal_texts) == set()  # The sources differ.
    assert equal_texts.outputs is not None
    sources = equal_texts.outputs.sources.with_columns(source=pl.lit("one source"))
    equal_texts = replace(equal_texts, outputs=replace(equal_texts.outputs, sources=sources))
    items = equal_texts.item_labels().to_list()
    assert f"({items[0]} = {items[39]})" in str(problems_of(equal_texts)["repeated-items"]["message"])


def test_items_with_equal_scores_and_other_texts_are_different_items() -> None:
    scores = marks(12)
    scores[:, 7] = scores[:, 3]
    texts = with_texts(study_of(scores, people=2), lambda i, k: f"output {i} of {k}", lambda i: "")
    assert rules(texts) == set()


def test_repeated_items_of_one_declared_cluster_change_nothing() -> None:
    study = study_of(np.tile(marks(13), (1, 3, 1)), people=2)
    items = pl.DataFrame({"item": [f"i{i}" for i in range(120)], "cluster": [f"c{i % 40}" for i in range(120)]})
    assert rules(study.describe(items=items)) == set()


def test_repeated_items_join_their_clusters() -> None:
    scores = marks(14)
    scores[:, 39] = scores[:, 0]
    items = pl.DataFrame({"item": [f"i{i}" for i in range(40)], "cluster": [f"c{i // 4}" for i in range(40)]})
    assert cu.check(study_of(scores, people=2).describe(items=items)).summary["clusters"][0] == 9


@pytest.mark.parametrize("names", [("coherence", "fluency"), ("pyr", "resp")])
def test_aspects_given_as_annotators_are_named_in_every_question(names: tuple[str, ...]) -> None:
    values = {f"H:{name}": scores.ravel() for name, scores in zip(names, marks(15), strict=False)}
    values["bleu"] = marks(16)[0].ravel()
    frame = pl.DataFrame({"item": np.repeat(np.arange(40), 5), "system": np.tile(list("ABCDE"), 40), **values})
    study = cu.read(frame)
    assert "pooled-aspects" in rules(study, human="H:*")
    assert "pooled-aspects" not in rules(study, human=f"H:{names[0]}", metrics="bleu")
    for question in (cu.agreement, cu.leaderboard):
        notes = {note.rule for note in question(study, human="H:*", resamples=20).notes}  # type: ignore[operator]
        assert "pooled-aspects" in notes


def scores_on(items: str, systems: str, rater: str, kind: str, *, seed: int, scale: float = 1.0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [(f"{items}{i}", s, rater, kind, scale * rng.integers(1, 6)) for i in range(40) for s in systems]
    return pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row")


def verdicts_on(items: str, pair: str, rater: str, kind: str, *, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [(f"{items}{i}", *pair, rater, kind, rng.integers(-1, 2)) for i in range(40)]
    schema = ["item", "system_a", "system_b", "rater", "kind", "preference"]
    return pl.DataFrame(rows, schema=schema, orient="row")


PEOPLE, METRIC = scores_on("x", "AB", "h", "human", seed=0), scores_on("x", "AB", "m", "metric", seed=1)
ONE_EACH = PEOPLE.filter((pl.int_range(pl.len()) // 2 + pl.int_range(pl.len())) % 2 == 0)
NOTHING = {
    "people, one system of each item": (ONE_EACH, "no two outputs|no rater compared two systems"),
    "the same beside a metric": (pl.concat([ONE_EACH, METRIC]), "no item has human ratings of two systems"),
    "other items": (
        pl.concat([scores_on("y", "AB", "h", "human", seed=2), METRIC]),
        "no pair of outputs and no scores",
    ),
    "other systems": (
        pl.concat([scores_on("x", "CD", "h", "human", seed=2), METRIC]),
        "no pair of outputs and no scores",
    ),
    "one system": (pl.concat([PEOPLE, METRIC]).filter(system="A"), "only 1 system"),
    "verdicts on other items": (
        pl.concat([verdicts_on("x", "AB", "h", "human", seed=3), verdicts_on("y", "AB", "j", "metric", seed=4)]),
        "no pair of outputs and no scores",
    ),
    "verdicts on other systems": (
        pl.concat([verdicts_on("x", "AB", "h", "human", seed=3), verdicts_on("x", "CD", "j", "metric", seed=4)]),
        "no pair of outputs and no scores",
    ),
    "two scales": (
        pl.concat([PEOPLE, scores_on("x", "AB", "g", "human", seed=5, scale=25.0), METRIC]),
        "use different scales",
    ),
}


@pytest.mark.parametrize("case", NOTHING)
def test_a_study_without_a_comparison_is_answered(case: str) -> None:
    frame, message = NOTHING[case]
    result = cu.check(cu.read(frame))
    rows = result.problems.filter(rule="nothing-compared")
    assert rows["severity"].to_list() == ["error"]
    assert rows["message"].str.contains(message).all()
    assert result.status == 1
    assert result.summary["items"][0] == frame["item"].n_unique()
    with pytest.raises(cu.CustodesError, match=message):  # A question that needs a comparison still raises an error.
        cu.leaderboard(cu.read(frame)) if "one system" in case else cu.agreement(cu.read(frame))


def test_an_aspect_without_a_comparison_hides_no_other_one() -> None:
    scores = scores_of(0, items=50)
    rows = study_of(scores).ratings.frame.drop("repeat").with_columns(aspect=pl.lit("tone"))
    unmatched = rows.filter(rater="ann").with_columns(aspect=pl.lit("depth"))
    kinds = pl.col("rater").replace_strict({"ann": "human"}, default="metric").alias("kind")
    result = cu.check(cu.read(pl.concat([rows, unmatched]).with_columns(kinds)))
    assert result.problems.filter(rule="nothing-compared")["aspect"].to_list() == ["depth"]
    assert dict(result.summary.select("aspect", "metrics").rows()) == {"tone": 2, "depth": 0}


ROWS = [(str(item), system, f"{system} says {item}.") for item in range(6) for system in ("Aster", "Birch")]
SAME = [(str(item), "Cedar", "I cannot help with that.") for item in range(6)]
COPY = [("0", "Dill", "Aster says 0."), ("1", "Dill", " "), ("2", "Dill", "Dill says two things.")]


def study(rows: list[tuple[str, str, str]]) -> cu.Study:
    return cu.read(pl.DataFrame(rows, schema=["item", "system", "text"], orient="row"))


def test_texts_alone_are_summarised_by_system() -> None:
    texts = cu.check(study([*ROWS, *SAME, *COPY])).texts.drop("aspect")
    assert texts.columns == ["system", "items", "outputs", "missing", "duplicates", "distinct", "words"]
    assert texts.rows() == [
        ("Aster", 6, 6, 0, 1, 6, 3.0),
        ("Birch", 6, 6, 0, 0, 6, 3.0),
        ("Cedar", 6, 6, 0, 0, 1, 5.0),
        ("Dill", 6, 2, 4, 1, 2, 3.5),
    ]


def test_problems_of_texts_alone() -> None:
    problems = {row["rule"]: row for row in cu.check(study([*ROWS, *SAME, *COPY])).problems.iter_rows(named=True)}
    assert problems.keys() == {"missing-outputs", "constant-outputs", "duplicate-outputs", "texts-only"}
    assert problems["missing-outputs"]["message"].startswith("4 of 24 outputs are missing or empty: Dill (4).")
    assert problems["constant-outputs"]["examples"] == ["Cedar"]
    assert problems["duplicate-outputs"]["message"].startswith("2 outputs equal the output of another system")
    assert problems["texts-only"]["message"].startswith("there are texts of 4 systems on 6 items")


def test_sound_texts_have_no_problem_and_rated_texts_no_such_table() -> None:
    result = cu.check(study(ROWS))
    assert result.problems["rule"].to_list() == ["texts-only"]
    assert result.status == 0
    assert cu.check("demo").texts.is_empty()


def test_systems_with_the_same_texts_are_named() -> None:
    rows = [
        (str(item), system, f"{item} by {system[0]}") for item in range(30) for system in ("Aster", "Another", "Birch")
    ]
    problems = cu.check(study(rows)).problems
    assert "Another, Aster" in problems.filter(rule="identical-systems")["message"].item()


def test_a_question_of_systems_says_what_texts_lack() -> None:
    for question in (cu.leaderboard, cu.report, cu.annotators, cu.verdict):
        with pytest.raises(cu.CustodesError, match="there are no scores, verdicts or answers of annotators yet;"):
            question(study(ROWS))
