"""Questions: explicit signatures, validated argument names, and the options recorded with a result."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Unpack, get_type_hints

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.answers.question import Rng, document_arguments, function_options, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import DEFAULTS, PreferenceOptions
from custodes.answers.tables import count, table
from custodes.data.notes import Note
from custodes.data.simulate import demo_study
from custodes.data.study import Study
from custodes.data.writing import long_tables
from custodes.errors import CustodesError, InputError, OptionError
from custodes.progress import Progress, silent
from tests.questions import QUESTIONS, RESULTS


@result
class Guess(Result):
    """A result with one number."""

    guess: pl.DataFrame = table("One row.", count("n", "how many"), by="")


@question("custodes guess demo", most="The largest.", path="A file.")
def guess(
    study: Study,
    *,
    most: int = 10,
    path: Path | None = None,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Guess:
    """A number below `most`."""
    number = int(np.random.default_rng(rng).integers(most))
    notes = [Note(rule="a", message="counted", count=2), Note(rule="b", message="told")]
    return Guess.from_parts([Guess.part(guess={"n": number})], notes)


def test_the_signature_names_every_argument_with_its_default() -> None:
    parameters = inspect.signature(guess).parameters
    assert list(parameters) == ["study", "most", "path", *DEFAULTS, "rng", "progress"]
    for name, value in DEFAULTS.items():
        assert parameters[name].default == value
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert guess.__name__ == "guess"
    assert guess.__doc__
    assert guess.__doc__.startswith("A number below `most`.\n\nParameters\n----------\nstudy : Study\n")
    assert "most : int, default 10\n    The largest.\npath : " in guess.__doc__


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_has_one(name: str) -> None:
    function = QUESTIONS[name]
    about, *rest = inspect.signature(function).parameters.values()
    assert about.kind is about.POSITIONAL_OR_KEYWORD
    assert all(value.kind is value.KEYWORD_ONLY and value.default is not value.empty for value in rest)
    assert {"rng", "progress"} <= {value.name for value in rest}
    assert get_type_hints(function)["return"] is RESULTS[name]
    assert function.example.startswith("custodes ")
    for option in function_options(function):
        assert option.help.endswith((".", "?")), option


def test_an_unknown_argument_is_told_with_the_one_that_was_meant() -> None:
    study = cu.read("demo")
    with pytest.raises(
        TypeError, match=r"unknown argument 'mots' \(did you mean 'most'\?\); arguments: most, path, human"
    ):
        guess(study, mots=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'systems'"):
        guess(study, system="A")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="too many positional arguments"):
        guess(study, 3)  # type: ignore[misc]
    with pytest.raises(TypeError, match="missing a required argument: 'study'"):
        guess()  # type: ignore[call-arg]


def test_the_answer_says_how_it_was_asked() -> None:
    study = cu.read("demo")
    outcome = guess(study, path=Path("a") / "b", metrics="judge", rng=7)
    origin = outcome.provenance
    assert (origin.question, origin.study, origin.digest, origin.seed) == ("guess", "demo", study.fingerprint(), 7)
    # default values at the time of the call, in the order of the signature, without options that change no number
    assert origin.options == {"most": 10, "path": "a/b", **DEFAULTS, "metrics": "judge"}
    assert list(origin.options) == ["most", "path", *DEFAULTS]
    assert set(origin.versions) == {"custodes", "numpy", "polars", "python"}
    assert [note.message for note in origin.dropped] == ["counted"]
    assert [note.message for note in outcome.notes] == ["counted", "told"]


def test_the_seed_is_what_is_drawn_from() -> None:
    study = cu.read("demo")
    assert guess(study, most=10**9, rng=1).guess.equals(guess(study, most=10**9, rng=1).guess)
    fresh = guess(study, most=10**9, rng=None)
    assert fresh.guess.equals(guess(study, most=10**9, rng=fresh.provenance.seed).guess)
    generator = np.random.default_rng(1)
    first, second = guess(study, most=10**9, rng=generator), guess(study, most=10**9, rng=generator)
    assert first.provenance.seed is None
    assert not first.guess.equals(second.guess)  # a generator passed by the caller continues from its state


def test_options_know_their_types_and_words() -> None:
    options = {option.name: option for option in function_options(guess)}
    assert list(options) == ["most", "path", *DEFAULTS, "rng"]
    assert (options["most"].kind, options["most"].default, options["most"].help) == (int, 10, "The largest.")
    assert options["path"].kind == Path | None
    assert options["ties"].default == "exact"
    text = "Random seed. In Python also a NumPy generator, or None, which draws a new seed and records it."
    assert options["rng"].help == text


def test_a_function_that_is_no_question_is_documented_alike() -> None:
    @document_arguments("custodes page", title="Of the page.")
    def page(study: Study, *, title: str = "x", **setting: Unpack[PreferenceOptions]) -> dict[str, object]:
        return {"title": title, **setting}

    study = cu.read("demo")
    assert page(study, aspect="style") == {"title": "x", **DEFAULTS, "aspect": "style"}
    assert [option.name for option in function_options(page)] == ["title", *DEFAULTS]


@pytest.mark.parametrize("function", [cu.check, cu.favoritism, cu.plan])
def test_a_question_takes_what_read_takes(function: Any, tmp_path: Path) -> None:
    long_tables(demo_study())["ratings"].write_csv(tmp_path / "ratings.csv")
    frame = pl.read_csv(tmp_path / "ratings.csv")
    parts = [frame.filter(kind="human"), frame.filter(kind="metric").to_pandas()]
    options = {} if function is cu.check else {"resamples": 20} if function is cu.favoritism else {"replications": 2}
    results = [
        function(about, **options) for about in (frame, tmp_path / "ratings.csv", str(tmp_path / "ratings.csv"), parts)
    ]
    for repeated in results[1:]:
        assert {name: table.height for name, table in repeated.tables().items()} == {
            name: table.height for name, table in results[0].tables().items()
        }
    assert results[1].provenance.digest == results[2].provenance.digest


@pytest.mark.parametrize(
    ("name", "about", "message"),
    [
        *((name, "nothing.csv", "nothing.csv: no such file") for name in [*QUESTIONS, "report"]),
        ("check", 5, "table: a int is not a table; give a path or a dataframe"),
        (
            "check",
            None,
            "table: a NoneType is not a table; give a path or a dataframe (pandas, Polars, PyArrow, DuckDB)",
        ),
        ("check", [], "read: no input; give a path"),
        ("check", pl.DataFrame({"a": [1]}), "table: columns a match no reader"),
        ("check", "x\0y", "x\\x00y: no such file"),
    ],
    ids=repr,
)
def test_what_is_no_study_is_an_error_of_one_line(name: str, about: Any, message: str) -> None:
    options = {"model": "model.json"} if name == "validate" else {}
    with pytest.raises(CustodesError) as error:
        getattr(cu, name)(about, **options)
    assert str(error.value).startswith(f"{name}: {message}")
    assert isinstance(error.value, InputError | OptionError)


def test_a_provenance_is_a_line_without_brackets() -> None:
    rules = [cu.Stopping(), cu.Stopping(looks=[10, 20], boundary="pocock")]
    assumed = cu.plan(margins=[0.0, 0.5], stopping=rules, items=20, replications=2).provenance
    assert str(assumed).startswith(
        "plan | study=assumptions | margins=0.0, 0.5 | items=20 | metric_items=0"
        " | stopping=decided; decided, looks 10,20, boundary pocock | replications=2"
    )
    compared = cu.agreement(demo_study(), resamples=0, compare_by=("acc_eq", "kendall_item")).provenance
    assert " | compare_by=acc_eq, kendall_item | " in str(compared)
