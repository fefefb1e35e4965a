"""Checks of annotators alone, of metrics alone, and of raters that share no comparisons."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.scale import MissingCode
from tests.evaluate.studies import problems_of, scores_of, study_of


def battles(rater: str = "human", kind: str = "human", *, systems: tuple[str, ...] = ("A", "B", "C")) -> pl.DataFrame:
    """Return verdicts of one rater on 40 items; every fourth is a tie."""
    pairs = [(a, b) for i, a in enumerate(systems) for b in systems[i + 1 :]]
    rows = [
        {
            "item": f"x{i}",
            "system_a": a,
            "system_b": b,
            "rater": rater,
            "kind": kind,
            "preference": (1, -1, 1, 0)[i % 4],
        }
        for i in range(40)
        for a, b in pairs
    ]
    return pl.DataFrame(rows)


def scored(**columns: np.ndarray) -> pl.DataFrame:
    """Return a wide table of 40 items and 3 systems."""
    shape = {"item": np.repeat(np.arange(40), 3), "system": np.tile(["A", "B", "C"], 40)}
    return pl.DataFrame(shape | columns)


def marks(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 6, 120).astype(float)


def test_people_alone_are_told_what_they_hold() -> None:
    result = cu.check(cu.read(battles()))
    row = result.summary.row(0, named=True)
    counts = {"items": 40, "systems": 3, "humans": 1, "metrics": 0, "ratings": 0, "verdicts": 120, "ties": 0.25}
    assert {name: row[name] for name in counts} == counts
    assert result.raters.select("rater", "kind", "verdicts", "ties").rows() == [("human", "human", 120, 0.25)]
    assert result.problems.select("severity", "rule").rows() == [("warning", "no-metrics")]
    assert "leaderboard and consistency" in result.problems["message"][0]
    assert result.status == 1


def test_metrics_alone_are_told_what_they_hold() -> None:
    result = cu.check(cu.read(battles("gpt", "metric")))
    assert result.summary.select("humans", "metrics", "verdicts", "ties").rows() == [(0, 1, 120, None)]
    assert result.raters.select("rater", "kind", "ties").rows() == [("gpt", "metric", 0.25)]
    assert result.problems.select("severity", "rule").rows() == [("info", "no-human-ratings")]
    assert "custodes annotate new" in result.problems["message"][0]
    assert result.status == 0


@pytest.mark.parametrize("kind", ["human", "metric"])
def test_one_side_is_told_of_systems_that_look_alike(kind: str) -> None:
    study = cu.read(battles("ann", kind, systems=("GPT-4", "gpt-4", "B")))
    assert problems_of(study)["look-alikes"]["examples"] == ["GPT-4", "gpt-4"]


def test_mapped_people_alone_are_told_of_raters_that_look_alike() -> None:
    frame = pl.concat([battles("Ann"), battles("ann")]).rename({"item": "prompt", "rater": "who"})
    problems = problems_of(cu.read(frame, columns={"item": "prompt", "rater": "who"}))
    assert problems["look-alikes"]["examples"] == ["Ann", "ann"]


def test_people_alone_of_several_aspects_are_told() -> None:
    names = ("human_coherence_a", "human_coherence_b", "human_fluency_a", "human_fluency_b")
    study = cu.read(scored(**{name: marks(k) for k, name in enumerate(names)}))
    assert {"pooled-aspects", "no-metrics"} <= set(problems_of(study, human="human_*"))


def test_judges_alone_are_told_of_orders_twins_and_few_items() -> None:
    m = marks(0)
    study = cu.read(scored(m1=m, m2=2 * m, m3=marks(1)).head(60))
    assert {"near-duplicates", "few-items", "no-human-ratings"} <= set(problems_of(study))
    ordered = battles("gpt", "metric").with_columns(order=pl.lit("ab"))
    assert "one-order" in problems_of(cu.read(ordered))


def test_with_both_sides_nobody_is_missing() -> None:
    assert not {"no-annotators", "no-human-ratings", "no-metrics"} & set(problems_of(study_of(scores_of(0, items=50))))


@pytest.mark.parametrize("human", ["a*", "a1,a2,a3"])
@pytest.mark.parametrize("digits", [1, 12])
def test_a_mean_of_people_is_no_judge(human: str, digits: int) -> None:
    annotators = {f"a{k}": marks(k) for k in (1, 2, 3)}
    mean = np.mean(list(annotators.values()), axis=0).round(digits)
    problem = problems_of(cu.read(scored(**annotators, a_mean=mean, bleu=marks(9))), human=human)["mean-of-others"]
    assert (problem["severity"], problem["examples"]) == ("warning", ["a_mean"])
    assert "'a_mean' is the mean of the annotators a1, a2, a3" in str(problem["message"])


def test_a_mean_of_metrics_is_told_and_agreement_is_no_mean() -> None:
    m1, m2, a = marks(1), marks(2), marks(3)
    frame = scored(ann=a, m1=m1, m2=m2, ensemble=(m1 + m2) / 2)
    assert problems_of(cu.read(frame), human="ann")["mean-of-others"]["examples"] == ["ensemble"]
    same = scored(a1=a, a2=a, a3=a, bleu=m1)
    assert "mean-of-others" not in problems_of(cu.read(same), human="a*")
    near = scored(a1=a, a2=m1, judge=(a + m1) / 2 + np.random.default_rng(0).normal(0, 0.2, 120))
    assert "mean-of-others" not in problems_of(cu.read(near), human="a*")


@pytest.mark.parametrize(
    ("code", "rest"),
    [(-1, range(1, 6)), (-1, range(6)), (-99, range(1, 6)), (-99, range(-3, 4)), (99, range(1, 6)), (999, range(101))],
)
def test_a_code_for_missing_is_told(code: int, rest: range) -> None:
    scores = np.array([*rest, *rest, *rest, *rest, *rest, code, code], float)
    problem = MissingCode.of(scores)
    assert problem == MissingCode(value=code, n=2, low=rest[0], high=rest[-1])
    assert f"{code} occurs 2 times" in str(problem)


@pytest.mark.parametrize(
    "scale",
    [range(6), range(1, 6), (1, 5), (1, 4, 5), range(-1, 2), range(-25, 1), range(101), (-1, 0, 1, 2), (1, 2, 4)],
)
def test_a_scale_holds_no_code(scale: range | tuple[int, ...]) -> None:
    assert MissingCode.of(np.array([*scale] * 20, float)) is None


def test_check_names_a_code_that_all_people_use() -> None:
    human = {f"ann{k}": np.where(np.arange(120) % 10, marks(k), -1) for k in (1, 2)}
    problem = problems_of(cu.read(scored(**human, bleu=marks(9))), human="ann*")["missing-code"]
    assert (problem["severity"], problem["examples"]) == ("warning", ["ann1", "ann2"])
    assert (
        "ann1: -1 occurs 12 times among scores from 1 to 5, ann2: -1 occurs 12 times among scores from 1 to 5. "
        "If the value means missing, leave the cell empty"
    ) in str(problem["message"])


def test_a_code_is_named_where_scales_differ() -> None:
    study = cu.read(scored(ann1=np.where(np.arange(120) % 10, marks(1), -99), ann2=marks(2), bleu=marks(3)))
    with pytest.raises(cu.OptionError, match="ann1: -99 occurs 12 times among scores from 1 to 5; if a") as error:
        cu.agreement(study, human="ann*", resamples=20)
    assert "choose people" not in str(error.value)
