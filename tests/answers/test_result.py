"""Results of declared tables: display, export, documentation and reproduction from recorded options."""

from __future__ import annotations

import json
import re
from dataclasses import FrozenInstanceError, replace

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.answers.result import NOT_SENT, Provenance, Result, result
from custodes.answers.tables import count, label, score, table
from custodes.data.notes import Note
from custodes.errors import OptionError

NOTE = Note(rule="few", message="few items", count=3, aspect="x")


@result
class Made(Result):
    """A result with three tables."""

    main: pl.DataFrame = table(
        "One row a metric.",
        label("metric", "its name"),
        score("tau", "rank correlation", interval=True, best="high"),
        rows=lambda made: made.main.filter(pl.col("tau") > 0),
    )
    rare: pl.DataFrame = table("One row.", count("n", "how many"), essential=False, by="")
    other: pl.DataFrame = table("One row a target.", count("n", "how many"), by="target")


def part(aspect: str) -> dict[str, pl.DataFrame]:
    return Made.part(
        aspect, main={"metric": ["<a>", "b"], "tau": [0.5, -0.5], "tau_low": 0.0, "tau_high": np.nan}, rare={"n": 1}
    )


MADE = Made.from_parts([part("x"), part("y")], [NOTE, NOTE])


def test_tables_are_those_declared_with_their_label_in_front() -> None:
    assert list(Made.table_declarations()) == ["main", "rare", "other"]
    assert {name: value.by for name, value in Made.table_declarations().items()} == {
        "main": "aspect",
        "rare": "",
        "other": "target",
    }
    assert MADE.main.rows()[0] == ("x", "<a>", 0.5, 0.0, None)
    assert MADE.main["aspect"].to_list() == ["x", "x", "y", "y"]
    assert (MADE.rare.rows(), MADE.other.rows()) == ([(1,), (1,)], [])
    assert MADE.other.schema == {"target": pl.String, "n": pl.Int64}
    assert MADE.notes == (NOTE,)
    assert repr(MADE) == "<Made of : main (4 rows), rare (2 rows), other (0 rows)>"
    with pytest.raises(FrozenInstanceError):
        MADE.main = MADE.main  # type: ignore[misc]


def test_essential_tables_that_have_rows_are_shown_and_any_on_request() -> None:
    assert [view.title for view in MADE.views()] == ["main (x)", "main (y)"]
    shown = next(MADE.views())
    assert shown.rows == (("<a>", "0.50"),)
    assert shown.more == "2 of 4 rows not shown (--table main)"
    assert [view.rows for view in MADE.views("rare")] == [(("1",), ("1",))]
    assert [len(view.rows) for view in MADE.views("main")] == [2, 2]


def test_it_is_written_for_papers_and_notebooks_with_all_escaped() -> None:
    assert MADE.to_markdown().startswith("**main (x)**\n")
    assert r"\begin{tabular}{lr}" in MADE.to_latex("main")
    noted = replace(MADE, notes=(Note(rule="r", message="<script>", count=0),))
    page = noted.to_html()
    assert noted._repr_html_().strip() in page
    assert "&lt;a&gt;" in page
    assert "<li>&lt;script&gt;</li>" in page
    assert "<a>" not in page
    assert "<script>" not in page


def test_printing_shows_the_essential_tables_as_plain_text() -> None:
    lines = str(MADE).splitlines()
    assert lines[:2] == ["main (x)", "metric   tau"]
    assert any(line.startswith("note: few items") for line in lines)
    assert "\x1b" not in str(MADE)


def test_a_notebook_shows_a_picture_of_every_aspect_and_no_name_of_a_part_twice() -> None:
    result = cu.agreement(cu.read("demo"), metrics="judge,noise", resamples=20, compare_by=())
    page = result._repr_html_()
    names = re.findall(r' id="([^"]+)"', page)
    assert page.count("<svg") == 2
    assert len(names) == len(set(names))
    assert {*re.findall(r"url\(#([^)]+)\)", page)} <= {*names}
    assert 'style="text-align:left">metric' in page.lower()


def test_plain_values_are_json_with_null_for_the_undefined() -> None:
    outcome = Provenance(
        question="made",
        study="s",
        digest="d",
        options={"table": np.array([[0.5, 0.5]]), "rule": cu.Stopping(looks=[10, 20]), "names": ("a", "b")},
        seed=None,
        versions={"custodes": "0"},
        dropped=(NOTE,),
    )
    plain = MADE.with_provenance(outcome).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert list(plain) == ["question", "provenance", "notes", "main", "rare", "other"]
    assert plain["provenance"]["options"]["table"] == [[0.5, 0.5]]
    assert plain["provenance"]["options"]["names"] == ["a", "b"]
    assert plain["provenance"]["options"]["rule"]["looks"] == [10, 20]
    assert (
        plain["notes"]
        == plain["provenance"]["dropped"]
        == [{"rule": "few", "message": "few items", "count": 3, "aspect": "x"}]
    )
    assert plain["main"][1] == {"aspect": "x", "metric": "b", "tau": -0.5, "tau_low": 0.0, "tau_high": None}


def test_data_of_other_tables_or_columns_are_refused_by_their_name() -> None:
    with pytest.raises(ValueError, match=f"^{type(MADE).__name__} declares no table 'mian'$"):
        type(MADE).part("x", mian={})
    with pytest.raises(ValueError, match=f"^table '{type(MADE).__name__}.rare': missing or undeclared columns "):
        type(MADE).part("x", rare={"nothing": [1]})


def test_a_result_without_a_question_or_a_picture() -> None:
    assert MADE.provenance is NOT_SENT
    assert MADE.status == 0
    with pytest.raises(OptionError, match="has no chart; its tables: main, rare, other"):
        MADE.plot()


def test_a_callers_own_generator_is_not_replayed_into_other_numbers() -> None:
    study = cu.read("demo")
    outcome = cu.favoritism(study, resamples=20, metrics="judge", aspect="fluency", rng=np.random.default_rng(1))
    assert outcome.provenance.seed is None
    assert json.loads(json.dumps(outcome.to_dict()))["provenance"]["seed"] is None
    with pytest.raises(
        OptionError,
        match=(
            "favoritism: a result that was computed with a generator cannot be repeated; compute the "
            "result again with a seed as rng"
        ),
    ):
        outcome.provenance.replay(study)


def test_an_unknown_table_is_refused_in_every_format() -> None:
    study = cu.check(cu.read("demo"))
    for set_as in (study.to_frame, study.to_markdown, study.to_latex, study.to_html):
        with pytest.raises(OptionError, match="did you mean 'summary'"):
            set_as("sumary")
