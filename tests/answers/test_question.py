"""Asking: arguments written out, seeds recorded, and a provenance that tells how an answer was made."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import polars as pl
import pytest

from custodes.answers.question import Rng, documented, options_of, question, recorded
from custodes.answers.result import Result, result
from custodes.answers.setting import DEFAULTS, HELP, Selection
from custodes.answers.tables import score, table
from custodes.data.notes import Note
from custodes.data.study import Study
from custodes.progress import Progress, silent
from tests.evaluate.test_favoritism import study_of

STUDY = study_of(np.arange(12.0).reshape(2, 3, 2))
NOTES = (Note(rule="lost", message="2 are lost", count=2), Note(rule="said", message="beware"))


@result
class Drawn(Result):
    """What was drawn."""

    numbers: pl.DataFrame = table("One row.", score("x", ""))


@question("custodes draw scores.csv", size="How large.", where="A file.")
def draw(
    study: Study | None,
    *,
    size: float = 1.0,
    where: Path | str = "",
    kind: Literal["a", "b"] = "a",
    confidence: float = 0.95,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Selection],
) -> Drawn:
    """Draw a number."""
    assert set(setting) == set(Selection.__annotations__)
    return Drawn(notes=NOTES, **Drawn.part(numbers={"x": size * np.random.default_rng(rng).random()}))


draw.helps["kind"] = "Which."  # type: ignore[attr-defined]


def test_shared_arguments_are_written_out_with_their_defaults() -> None:
    parameters = inspect.signature(draw).parameters
    # what changes no number, or has a field of its own, stands last
    shared = list(Selection.__annotations__)
    own = ["study", "size", "where", "kind", "confidence"]
    assert list(parameters) == [*own, *shared, "rng", "progress"]
    assert all(parameters[name].default == DEFAULTS[name] for name in shared)  # type: ignore[literal-required]
    assert (draw.__name__, draw.__doc__) == ("draw", "Draw a number.")
    assert draw.example == "custodes draw scores.csv"  # type: ignore[attr-defined]


def test_an_unknown_argument_is_named_with_a_near_one() -> None:
    with pytest.raises(TypeError, match=r"unknown argument 'sise' \(did you mean 'size'\?\); arguments: size, where,"):
        draw(STUDY, sise=2.0)  # type: ignore[call-arg]


def test_options_of_a_command_line() -> None:
    options = {option.name: option for option in options_of(draw)}
    assert list(options) == ["size", "where", "kind", "confidence", *Selection.__annotations__, "rng"]
    assert options["size"] == ("size", float, 1.0, "How large.")
    assert options["kind"].kind == Literal["a", "b"]
    assert options["confidence"].help == HELP["confidence"]
    assert (options["aspect"].default, options["aspect"].help) == (None, HELP["aspect"])


def test_an_answer_tells_how_it_was_made() -> None:
    made = draw(STUDY, size=2, where=Path("a") / "b.csv", aspect="style", rng=5)
    told = made.provenance
    assert (told.question, told.study, told.digest, told.seed) == ("draw", STUDY.name, STUDY.fingerprint(), 5)
    assert told.options == {
        "size": 2,
        "where": str(Path("a") / "b.csv"),
        "kind": "a",
        "confidence": 0.95,
        **{name: DEFAULTS[name] for name in Selection.__annotations__},  # type: ignore[literal-required]
        "aspect": "style",
    }
    assert set(told.versions) == {"custodes", "numpy", "polars", "python"}
    assert told.dropped == NOTES[:1]
    assert made.numbers["x"].item() == 2 * np.random.default_rng(5).random()
    alone = draw(None).provenance
    assert (alone.study, alone.digest) == ("assumptions", "")


def test_seeds() -> None:
    generator = np.random.default_rng(0)
    assert recorded(generator) == (generator, None)
    assert recorded(0) == (0, 0)
    assert recorded(np.int64(7)) == (7, 7)  # type: ignore[arg-type]
    fresh, again = recorded(None), recorded(None)
    assert fresh[0] == fresh[1]
    assert fresh != again
    assert draw(STUDY, rng=None).numbers.equals(draw(STUDY, rng=0).numbers) is False
    own = draw(STUDY, rng=np.random.default_rng(3))
    assert own.provenance.seed is None
    assert own.numbers.equals(draw(STUDY, rng=3).numbers)


def test_a_function_that_is_no_question_is_documented_alike() -> None:
    @documented("custodes report", title="Of the page.")
    def page(study: Study, *, title: str = "x", **setting: Unpack[Selection]) -> dict[str, object]:
        return {"title": title, **setting}

    assert page(STUDY, aspect="style")["aspect"] == "style"
    assert page(STUDY)["group"] is None
    assert [option.name for option in options_of(page)] == ["title", *Selection.__annotations__]
