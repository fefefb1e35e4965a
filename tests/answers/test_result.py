"""Results: their tables, what is shown of them, how they are made again, and how they are written."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.answers.result import UNASKED, Provenance, Result, result
from custodes.answers.tables import Table, label, score, table
from custodes.data.notes import Note
from custodes.errors import OptionError


@result
class Own(Result):
    """A result of three tables."""

    metrics: pl.DataFrame = table(
        "One row a metric.", label("metric", ""), score("tau", "", interval=True, best="high")
    )
    pairs: pl.DataFrame = table("One row.", label("pair", ""), by="", rows=lambda own: own.pairs.head(1))
    details: pl.DataFrame = table("Many rows.", score("x", ""), essential=False)
    kept: int = 0


PROVENANCE = Provenance(
    question="own",
    study="s",
    digest="abc",
    options={"aspect": None, "level": "item"},
    seed=3,
    versions={"custodes": "1"},
    dropped=(Note(rule="lost", message="2 are lost", count=2),),
)
NOTES = (Note(rule="a", message="first <b>"), Note(rule="b", message="second", count=2))


def made(**more: object) -> Own:
    parts = [
        Own.part(
            aspect,
            metrics={
                "metric": ["m1", "m2"],
                "tau": np.array([0.5, tau]),
                "tau_low": [0.4, None],
                "tau_high": [0.6, None],
            },
            pairs={"pair": ["p", "q"]},
        )
        for aspect, tau in (("style", 0.25), ("truth", np.nan))
    ]
    return Own.of(parts, [*NOTES, NOTES[0]], **more).signed(PROVENANCE)


def test_tables_are_the_declared_fields_in_order() -> None:
    assert list(Own.declared()) == ["metrics", "pairs", "details"]
    assert [own.by for own in Own.declared().values()] == ["aspect", "", "aspect"]
    assert all(isinstance(own, Table) for own in Own.declared().values())
    own = made(kept=4)
    assert {name: frame.height for name, frame in own.tables().items()} == {"metrics": 4, "pairs": 4, "details": 0}
    assert own.kept == 4
    assert own.notes == NOTES  # each once
    assert own.details.schema == Own.declared()["details"].schema
    assert Own(**Own.part()).provenance is UNASKED


def test_one_table_is_asked_for_by_name() -> None:
    own = made()
    assert own.to_frame() is own.metrics
    assert own.to_frame("pairs") is own.pairs
    with pytest.raises(OptionError, match=r"own has no table 'pair'; tables: metrics, pairs, details .*'pairs'"):
        own.to_frame("pair")


def test_essential_tables_are_shown_and_rows_picked() -> None:
    titles = [view.title for view in made().views()]
    assert titles == ["metrics (style)", "metrics (truth)", "pairs"]
    *_, pairs = made().views()
    assert (pairs.rows, pairs.more) == ((("p",),), "3 of 4 rows not shown (--table pairs)")
    (whole,) = made().views("pairs")
    assert (len(whole.rows), whole.more) == (4, "")
    assert [view.title for view in made().views("details")] == ["details"]


def test_written_in_every_form() -> None:
    own = made()
    assert "| m1 | **0.500 [0.40, 0.60]** |" in own.to_markdown()
    assert r"m1 & \textbf{0.500 [0.40, 0.60]} \\" in own.to_latex()
    page = own.to_html()
    assert "<li>first &lt;b&gt;</li><li>second</li>" in page
    assert "own | study=s | digest=abc | level=item | seed=3 | custodes=1" in page
    assert own._repr_html_() == page
    assert own.to_markdown("pairs").count("\n| ") == 6
    assert repr(own) == "<Own of s: metrics (4 rows), pairs (4 rows), details (0 rows)>"
    assert list(own.told()) == ["first <b>", "second"]


def test_as_plain_values() -> None:
    told = made().to_dict()
    assert list(told) == ["question", "provenance", "notes", "metrics", "pairs", "details"]
    assert told["provenance"]["options"] == {"aspect": None, "level": "item"}
    assert told["provenance"]["dropped"] == [{"rule": "lost", "message": "2 are lost", "count": 2, "aspect": ""}]
    assert "question" not in told["provenance"]
    assert told["metrics"][3] == {"aspect": "truth", "metric": "m2", "tau": None, "tau_low": None, "tau_high": None}
    assert told["details"] == []


def test_without_a_picture_it_names_its_tables() -> None:
    with pytest.raises(OptionError, match="own has no picture; its tables: metrics, pairs, details"):
        made().plot()


def test_the_same_question_again() -> None:
    study = cu.read("demo")
    first = cu.agreement(study, resamples=20, compare_by=(), rng=4)
    again = first.provenance.replay(study)
    assert all(frame.equals(again.tables()[name]) for name, frame in first.tables().items())
    own = cu.agreement(study, resamples=20, compare_by=(), rng=np.random.default_rng(4))
    with pytest.raises(OptionError, match="agreement: a result drawn from your own generator cannot be made again"):
        own.provenance.replay(study)


def test_an_answer_is_a_success() -> None:
    assert made().status == 0
