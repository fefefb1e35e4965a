"""Argument validation of public functions: every value gives an answer, or a one-line error that names the argument."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.arguments import FEWEST_RESAMPLES, LARGEST, argument
from custodes.errors import CustodesError, OptionError
from tests.bad_arguments import BAD, NAN
from tests.questions import QUESTIONS

GIVEN: dict[str, dict[str, Any]] = {
    "protocol": {"replications": 2},
    "plan": {"replications": 2, "items": 12},
    "combine": {"method": "ridge", "repeats": 1},
    "ceiling": {"model": "ridge", "steps": 2},
    "gate": {"metric": "m1", "require": "kendall_item>=-0.5"},
}
"""Options that keep questions short."""
CALLED = 4
"""Values that every argument gets in the quick test; each argument gets different ones."""


@pytest.fixture(scope="module")
def tiny() -> cu.Study:
    rng = np.random.default_rng(0)
    rows = [
        (f"i{i}", system, rater, kind, round(quality + rng.normal(), 1))
        for i in range(8)
        for quality, system in enumerate("ABC")
        for rater, kind in (("h1", "human"), ("h2", "human"), ("m1", "metric"), ("m2", "metric"))
    ]
    return cu.read(pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row"))


@pytest.fixture(scope="module")
def model(tiny: cu.Study, tmp_path_factory: pytest.TempPathFactory) -> str:
    result = cu.combine(tiny, method="ridge", repeats=1, resamples=0).model
    return str(result.save(tmp_path_factory.mktemp("model") / "m.json"))


def arguments(question: str) -> Iterator[str]:
    _, *names = inspect.signature(QUESTIONS[question]).parameters
    yield from (name for name in names if name != "progress")  # it raises the caller's exceptions


def count_answers(question: str, values: dict[str, Sequence[Any]], tiny: cu.Study, model: str) -> int:
    """Ask the question with each value of each argument, and return the number of answers."""
    function, options = QUESTIONS[question], dict(GIVEN.get(question, {}))
    names = list(arguments(question))
    if "resamples" in names:
        options["resamples"] = FEWEST_RESAMPLES
    if question == "validate":
        options["model"] = model
    n = 0
    for name in names:
        for value in values[name]:
            message = ""
            try:
                result = function(None if question == "plan" else tiny, **{**options, name: value})
                json.dumps(result.to_dict())  # the answer is valid JSON
                n += 1
            except CustodesError as problem:
                message = str(problem)
            assert "\n" not in message
            assert len(message) < 500, (name, value)
    return n


@pytest.mark.parametrize("question", QUESTIONS)
def test_some_values_of_every_argument(question: str, tiny: cu.Study, model: str) -> None:
    rows = list(arguments(question))
    values = {name: [BAD[(CALLED * i + 7 * k) % len(BAD)] for k in range(CALLED)] for i, name in enumerate(rows)}
    count_answers(question, values, tiny, model)


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_value_of_every_argument(question: str, tiny: cu.Study, model: str) -> None:
    n = count_answers(question, dict.fromkeys(arguments(question), BAD), tiny, model)
    assert 0 < n < len(BAD) * len(list(arguments(question))) / 4


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (int, 10**20, f"n=100000000000000000000: must be a whole number of at most {LARGEST}"),
        (int, NAN, "n=nan: must be a whole number"),
        (int | None, "3", "n='3': must be a whole number"),
        (bool, 1, "n=1: must be True or False"),
        (float, "x", "n='x': must be a number"),
        (float | None, True, "n=True: must be a number"),
        (str, 3, "n=3: must be text"),
        (str | Sequence[str], ["a", 3], r"n=\['a', 3\]: must be text or a text or a list of texts"),
        (str | Path, 3, "n=3: must be text or a path"),
        (Literal["a", "b"], ["a"], r"n=\['a'\]; allowed: a, b"),
        (Literal["north", "south"], "nroth", r"allowed: north, south \(did you mean 'north'\?\)"),
        (float | Literal["exact"], "exat", r"allowed: exact, a number \(did you mean 'exact'\?\)"),
        (float | Literal["exact"], None, "n=None: must be exact or a number"),
        (Sequence[float] | None, [0.1, "a"], r"n=\[0.1, 'a'\]: must be a list of numbers"),
        (str, b"x" * 200, r"n=b'x{75}\.\.\.: must be text$"),
    ],
)
def test_a_value_of_another_type(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        argument("n", value, kind)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        *((int, np.int64(3), 3), (int, 3.0, 3), (float, np.float32(0.5), 0.5), (bool, np.bool_(True), True)),
        (Sequence[float] | None, np.array([0.0, 0.5]), [0.0, 0.5]),
        (str | Sequence[str] | None, pl.Series(["a", "b"]), ["a", "b"]),
        (str | Sequence[str] | None, ("a", "b"), ("a", "b")),
        (Sequence[str], "a", "a"),
        (str | None, None, None),
    ],
)
def test_what_fits_is_given_as_pythons_own(kind: Any, value: Any, expected: Any) -> None:
    fitted = argument("n", value, kind)
    assert fitted == expected
    assert type(fitted) is type(expected)


def test_too_few_resamples_are_none_at_all(tiny: cu.Study) -> None:
    assert cu.agreement(tiny, resamples=0).metrics["kendall_item_low"].is_null().all()
    assert cu.agreement(tiny, resamples=20).metrics["kendall_item_low"].is_not_null().any()


class Unprintable:
    """Object whose `repr` raises an error."""

    def __repr__(self) -> str:
        raise RuntimeError


METRIC = cu.SimulatedMetric(name="m")
SIMULATED = {"items": 3, "quality": {"A": [1.0], "B": [0.0]}, "annotators": {"h": 0.5}, "metrics": [METRIC], "rng": 0}


def functions(study: cu.Study, model: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Public functions other than questions, with valid arguments."""
    state = cu.live.start(["A", "B"], ["i1", "i2"])
    rows = study.ratings.frame
    agreed, gate = (
        cu.agreement(study, resamples=0),
        cu.gate(study, metric="m1", require="kendall_item>=0", resamples=100),
    )
    yield cu.read, {"reader": None, "schema": None, "invalid": None, "raters": None, "items": None}
    counted = {"human": "h1", "metrics": None, "aspect": "", "aggregate": "mean", "human_ties": None, "ties": 0.0}
    yield cu.count_pairs, {"table": rows, **counted, "directions": None, "systems": None, "batches": None}
    more = {"aspects": ["x"], "documents": None, "groups": ["g"], "difficulty": 0.5, "spread": 0.5, "missing": 0.0}
    yield cu.simulate, {**SIMULATED, **more, "name": "s"}
    yield cu.SimulatedMetric, {**vars(METRIC)}
    yield study.select, {**dict.fromkeys(["human", "metrics", "systems", "aspect", "group"]), "one_side": False}
    yield study.describe, {"raters": None, "items": None, "raters_name": "r", "items_name": "i"}
    for method in (agreed.to_frame, agreed.to_html, agreed.to_latex, agreed.to_markdown):
        yield method, {"table": None}
    yield agreed.plot, {"statistic": "kendall_item", "aspect": None, "nothing": 1}
    yield gate.to_junit, {"seconds": 0.0}
    yield cu.live.start, {"systems": ["A", "B"], "items": ["i1"], "metric": None, "clusters": None, "seed": 0}
    yield cu.live.record, {"state": state, "verdicts": []}
    yield cu.live.next_annotations, {"state": state}
    yield cu.live.decisions, {"state": state}
    yield cu.CombinedMetric.load, {"path": model}
    yield cu.CombinedMetric.load(model).score, {"study": study, "name": None}


def test_every_argument_of_all_else_that_is_public(tiny: cu.Study, model: str) -> None:
    worse = [*BAD, np.array(5), np.array([]), iter(["x"]), Unprintable(), "\ud800", "a" * 300]
    for function, valid in functions(tiny, model):
        sources = [tiny.ratings.frame] if function is cu.read else []
        for name in valid:
            for value in worse:
                try:
                    function(*sources, **{**valid, name: value})
                    message = ""
                except CustodesError as problem:
                    message = str(problem)
                except Exception as problem:
                    raise AssertionError(f"{function.__qualname__} {name} {type(value)}") from problem
                assert "\n" not in message
                assert len(message) < 600, (function.__qualname__, name, message)


def test_what_has_no_words_for_itself_is_named_by_its_kind(tiny: cu.Study) -> None:
    with pytest.raises(OptionError, match="confidence=<Unprintable>: must be a number"):
        cu.agreement(tiny, confidence=Unprintable())


def test_what_a_callable_of_the_caller_raises_is_the_callers(tiny: cu.Study) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        cu.favoritism(tiny, resamples=0, progress=broken)


@pytest.mark.parametrize("value", [np.array(5), b"h1", {"h1": 1}, 5, Path("h1")])
def test_one_value_is_not_several(value: Any, tiny: cu.Study) -> None:
    for name in ("human", "metrics", "systems", "aspect", "group"):
        with pytest.raises(OptionError, match=f"{name}=.*: must be text"):
            cu.check(tiny, **{name: value})
    with pytest.raises(OptionError, match="looks"):
        cu.Stopping(looks=value)
    with pytest.raises(OptionError, match="systems=.*must be a text or a list of texts"):
        cu.live.start(value, ["i"])


def test_words_of_the_door(tiny: cu.Study) -> None:
    agreed = cu.agreement(tiny, resamples=0)
    with pytest.raises(OptionError, match="agreement has no table ''; tables: "):
        agreed.to_frame("")
    with pytest.raises(OptionError, match=r"agreement_intervals has no option 'metric'; options: statistic, aspect, "):
        agreed.plot(metric="m1")
    with pytest.raises(OptionError, match="path=3: must be text or a path"):
        cu.CombinedMetric.load(3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"state=b'x': must be a State"):
        cu.live.decisions(b"x")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"folds='a+\.\.\.: there is no such file; give item"):
        cu.combine(tiny, folds="a" * 100_000)
    result = cu.combine(tiny, method="ridge", repeats=1, resamples=0).model
    with pytest.raises(OptionError, match="study=3: must be a Study"):
        result.score(3)  # type: ignore[arg-type]


RESAMPLED = [name for name, asked in QUESTIONS.items() if "resamples" in inspect.signature(asked).parameters]


def test_questions_without_resamples_draw_none() -> None:
    # check always uses 1000 sign flips; correction draws as many posterior samples as its decisions need; plan replays;
    # rates draws posterior samples; validate uses a jackknife
    assert set(QUESTIONS) - set(RESAMPLED) == {"check", "correction", "labelling", "plan", "rates", "route", "validate"}


@pytest.mark.parametrize("question", RESAMPLED)
def test_resamples_have_one_minimum(question: str, tiny: cu.Study) -> None:
    options = {**GIVEN.get(question, {})}
    for few in (1, FEWEST_RESAMPLES - 1):
        with pytest.raises(OptionError, match=f"^resamples={few}: too few resamples for an interval; give at least 20"):
            QUESTIONS[question](tiny, **options, resamples=few)
    QUESTIONS[question](tiny, **options, resamples=FEWEST_RESAMPLES)
