from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import custodes as cu
from custodes.answers.result import Result
from custodes.errors import InputError
from tests.questions import QUESTIONS

OPTIONS: dict[str, dict[str, Any]] = {
    "agreement": {"resamples": 20},
    "annotators": {"resamples": 20},
    "ceiling": {"resamples": 20, "model": "ridge", "steps": 2},
    "combine": {"resamples": 20, "target": "tone", "method": ["ridge", "best", "pairwise"], "repeats": 1},
    "complementarity": {"resamples": 20},
    "consistency": {"resamples": 20},
    "correction": {"estimator": ["mixture", "ppi"]},
    "favoritism": {"resamples": 20},
    "gate": {"metric": "m0", "require": "kendall_item>=0.1", "resamples": 20},
    "leaderboard": {"resamples": 20},
    "plan": {"replications": 2, "items": 60},
    "protocol": {"replications": 2, "resamples": 20},
    "ranking": {"resamples": 20},
    "verdict": {"resamples": 20},
}
OF_A_STUDY = [
    name for name in QUESTIONS if name not in ("validate", "rates", "labelling", "route")
]  # The excluded questions need a model or labels.
# The excluded questions need scores.
OF_VERDICTS = [name for name in OF_A_STUDY if name not in ("ceiling", "combine", "complementarity")]
WITHOUT_RESAMPLES = [
    name for name in OF_A_STUDY if "resamples" in OPTIONS.get(name, {}) and name not in ("gate", "verdict")
]
TIME = "seconds"
MOVED = ("low", "high")
"""Columns of scores as they stand in the file, which a shift must move."""
IN_UNITS = (*MOVED, "mse_both", "weight", "label", "expected")
"""Columns in units of scores."""
SLOW = ("ceiling", "combine", "plan", "protocol")
FROM_RESAMPLES = {"group", "side", "decision", "may_be_best", "rank_low", "rank_high"}
SHIFTS = {"h0": -64.0, "h1": -64.0, "h2": -64.0, "m0": -256.0, "m1": -8.0, "m2": -1024.0}
"""People share a scale, so they move together. Powers of two: sums of halves stay exact."""


@cache
def ratings() -> pl.DataFrame:
    """Return six systems on 16 items in two aspects, rated by three annotators and three metrics, with gaps."""
    rng = np.random.default_rng(0)
    quality = 0.5 * np.arange(6) + rng.normal(size=(16, 6))
    rows = []
    for rater in SHIFTS:
        for aspect in ("form", "tone") if rater[0] == "h" else ("",):
            scores = np.clip(np.round(2 * (3 + quality + 0.7 * rng.normal(size=quality.shape))) / 2, 1, 8)
            rows += [
                (f"i{i:02}", f"s{k}", rater, "human" if rater[0] == "h" else "metric", aspect, float(score))
                for (i, k), score in np.ndenumerate(scores)
                if not (rater == "m2" and i == 3) and not (rater == "h2" and i > 10)
            ]
    return pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "aspect", "score"], orient="row")


@cache
def verdicts() -> pl.DataFrame:
    """Return four systems on 12 items: one order by each of seven annotators, both orders by two judges, with
    failures."""
    rng = np.random.default_rng(1)
    strength, rows = np.arange(4) * 0.4, []
    for rater in [*(f"h{k}" for k in range(7)), "j0", "j1"]:
        for i in range(12):
            for a, b in zip(*np.triu_indices(4, 1), strict=True):
                if rater[0] == "h" and rng.random() < 0.4:
                    continue
                for order in ("ab", "ba") if rater[0] == "j" else (str(rng.choice(["ab", "ba"])),):
                    margin = strength[a] - strength[b] + rng.normal() + (0.3 if order == "ab" else -0.3)
                    preference = None if rater == "j1" and rng.random() < 0.15 else int(np.sign(np.round(margin)))
                    kind = "human" if rater[0] == "h" else "metric"
                    rows.append((f"i{i:02}", f"s{a}", f"s{b}", rater, kind, order, preference))
    schema = ["item", "system_a", "system_b", "rater", "kind", "order", "preference"]
    return pl.DataFrame(rows, schema=schema, orient="row", infer_schema_length=None)


def answer(question: str, frame: pl.DataFrame, **options: Any) -> Result:
    return QUESTIONS[question](cu.read(frame), **(OPTIONS.get(question, {}) | options))


@cache
def usual(question: str, frame: Any) -> Result:
    """Return the result on the original ratings or verdicts."""
    is_gate = question == "gate" and frame is verdicts
    return answer(question, frame(), **({"metric": "j0", "require": "sample_accuracy>=0.1"} if is_gate else {}))


def oriented(table: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the raters of each pair in alphabetical order instead of the order of the file."""
    if "metric_a" not in table.columns:
        return table
    swapped = pl.col("metric_a") > pl.col("metric_b")
    flipped = {
        "metric_a": pl.col("metric_b"),
        "metric_b": pl.col("metric_a"),
        "difference": -pl.col("difference"),
        "difference_low": -pl.col("difference_high"),
        "difference_high": -pl.col("difference_low"),
    }
    return table.with_columns(
        **{name: pl.when(swapped).then(value).otherwise(pl.col(name)) for name, value in flipped.items()}
    )


def in_order(table: pl.DataFrame) -> pl.DataFrame:
    """Return rows sorted by columns without numbers, because raters follow the order of the file."""
    table = oriented(table)
    if {"rater_a", "rater_b"} <= set(table.columns):
        swapped = pl.col("rater_a") > pl.col("rater_b")
        exchanged = {f"{name}_{a}": f"{name}_{b}" for name in ("rater", "kind") for a, b in ("ab", "ba")}
        table = table.with_columns(
            **{
                name: pl.when(swapped).then(pl.col(source)).otherwise(pl.col(name))
                for name, source in exchanged.items()
            }
        )
    names = [pl.col(name).list.sort() for name, kind in table.schema.items() if kind == pl.List(pl.String)]
    table = table.with_columns(*names)
    if "text" in table.columns:  # a list of names in a sentence
        table = table.with_columns(text=pl.col("text").str.extract_all(r"[\w.%−-]+").list.sort().list.join(" "))
    labels = [name for name, kind in table.schema.items() if not kind.is_float() and not kind.is_nested()]
    numbers = [pl.col(name).round(6) for name, kind in table.schema.items() if kind.is_float()]
    return table.sort([*labels, *numbers])


def assert_same(result: Result, expected: Result, *, without: tuple[str, ...] = (), rel_tol: float = 1e-9) -> None:
    """Assert equal tables except for columns with these stems."""
    tables = expected.tables()
    assert result.tables().keys() == tables.keys()
    for name, table in tables.items():
        compared = pl.exclude([TIME, *(f"{stem}{end}" for stem in without for end in ("", "_low", "_high"))])
        assert_frame_equal(
            in_order(result.tables()[name].select(compared)),
            in_order(table.select(compared)),
            rel_tol=rel_tol,
            abs_tol=1e-9,
        )


@pytest.mark.parametrize("question", OF_A_STUDY)
def test_a_constant_added_to_the_scores_of_a_rater_changes_nothing(question: str) -> None:
    # They include negative scores, as those of MQM.
    shifted = ratings().with_columns(score=pl.col("score") + pl.col("rater").replace_strict(SHIFTS))
    assert_same(answer(question, shifted), usual(question, ratings), without=MOVED)


def in_units(unit: float) -> pl.DataFrame:
    """Return the ratings in another unit, and those of one metric in a third."""
    factor = pl.when(rater="m2").then(1024 * unit).otherwise(unit)
    return ratings().with_columns(pl.col("score") * factor)


@pytest.mark.parametrize(
    ("question", "power"),
    [
        pytest.param(name, 318 if k % 2 else -320, marks=pytest.mark.slow if name in SLOW else ())
        for k, name in enumerate(OF_A_STUDY)
        if name != "verdict"  # of other questions
    ],
)
def test_the_unit_of_scores_changes_nothing(question: str, power: int) -> None:
    assert_same(answer(question, in_units(2.0**power)), usual(question, ratings), without=IN_UNITS, rel_tol=1e-7)


def test_scores_beyond_what_can_be_squared_are_refused() -> None:
    with pytest.raises(InputError, match=r"score is infinite or beyond 1e\+100 in row"):
        cu.read(in_units(2.0**400))
    with pytest.raises(
        InputError, match=r"scores of 'h0' are all below 1e-100 .*; rescale the scores, or take logarithms"
    ):
        cu.read(in_units(2.0**-400))


@pytest.mark.parametrize(
    ("question", "frame"), [*((name, ratings) for name in OF_A_STUDY), *((name, verdicts) for name in OF_VERDICTS)]
)
def test_neither_the_order_of_rows_nor_the_size_of_temporary_arrays_changes_anything(
    monkeypatch: pytest.MonkeyPatch, question: str, frame: Any
) -> None:
    """With small arrays, all loops over chunks of items, pairs, raters and resamples take several steps."""
    expected = usual(question, frame)
    options = expected.provenance.options if question == "gate" else {}
    monkeypatch.setattr("custodes.stats.arrays.CHUNK", 50)
    shuffled = frame().sample(fraction=1, shuffle=True, seed=2)
    result = answer(question, shuffled, **{name: options[name] for name in ("metric", "require") if name in options})
    assert_same(result, expected)


@pytest.mark.parametrize(
    ("question", "frame"),
    [(q, f) for q in WITHOUT_RESAMPLES for f in (ratings, verdicts) if f is ratings or q in OF_VERDICTS],
)
def test_estimates_do_not_depend_on_the_number_of_resamples(question: str, frame: Any) -> None:
    without, with_draws = answer(question, frame(), resamples=0).tables(), usual(question, frame).tables()
    for name, table in without.items():
        result = in_order(with_draws[name])
        for column, values in in_order(table).to_dict().items():
            is_reported = values.is_not_null() & (not column.startswith(("p_", TIME)))
            if column not in FROM_RESAMPLES and values.dtype.is_numeric():
                np.testing.assert_allclose(
                    result[column].filter(is_reported),
                    values.filter(is_reported),
                    rtol=1e-9,
                    atol=1e-12,
                    err_msg=f"{name} {column}",
                )


@pytest.mark.parametrize("frame", [ratings, verdicts])
def test_arrays_of_a_study_are_read_only(frame: Any) -> None:
    from custodes.data.outcome_counts import OutcomeCounts
    from custodes.evaluate.rater_comparison import compare
    from custodes.evaluate.rater_scores import rater_scores

    (comparison, *_) = compare(cu.read(frame()).with_cache())
    holders = [
        comparison,
        comparison.scores,
        comparison.design,
        comparison.preferences,
        OutcomeCounts.from_comparisons(comparison.preferences),
    ]
    arrays = [array for holder in holders for array in vars(holder).values() if isinstance(array, np.ndarray)]
    arrays += [comparison.human, comparison.persons, comparison.metric_scores]
    if frame is ratings:
        raters = rater_scores(cu.read(frame()))
        arrays += [raters.scores, raters.annotators]
    assert not any(array.flags.writeable for array in arrays)
