"""Inputs without a column of systems, and inputs with other names of items, are joined if their outputs are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.joining import join
from custodes.data.notes import Note
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from tests.data.input_errors import input_error

KINDS = {"human": "human", "judge": "metric", "bleu": "metric"}
NOTE = (
    "{} have no column of systems, so each of them is one system, named {}; if they are about the same system, add a "
    "column system with one value"
)
SOME = (
    "{} have no column of systems, and only some of them have a rater in common, so it is unknown which of them are "
    "about the same system; add a column system"
)


def part(text: str) -> Study:
    """Return a study from 'NAME: RATER OUTPUTS', where an output is an item, or an item and a system as in 1=A."""
    name, _, rows = text.partition(": ")
    rater, *outputs = rows.split()
    items, systems = zip(
        *((item, system or name) for item, _, system in (o.partition("=") for o in outputs)), strict=True
    )
    table = pl.DataFrame({"item": items, "system": systems, "rater": rater, "score": 1})
    return Study(
        ratings=Ratings.make(table)[0],
        raters=Raters.infer({rater: KINDS[rater]}),
        name=name,
        unnamed_system="=" not in text,
    )


@pytest.mark.parametrize(
    ("parts", "outputs", "notes"),
    [
        (["j: judge 1 2", "h: human 1 2"], ["1=j", "2=j"], []),
        (["h: human 1 2", "j: judge 1 2"], ["1=h", "2=h"], []),
        (["a: judge 1 2", "b: judge 1 2"], ["1=a", "1=b", "2=a", "2=b"], [("a, b", "a, b")]),
        (["a: judge 1", "b: judge 2"], ["1=a", "2=b"], [("a, b", "a, b")]),
        # the systems of the items of human labels are known
        (["n: judge 1=A 2=A", "h: human 1", "i: human 2"], ["1=A", "2=A"], []),
        (["n: judge 1=A 2=B", "h: human 1", "i: human 2"], ["1=A", "2=B"], []),
        (["h: human 1 2", "n: judge 1=A 2=B"], ["1=A", "2=B"], []),
        # labels of parts of the items of one judge
        (["j: judge 1 2 3", "h: human 1", "i: human 2"], ["1=j", "2=j", "3=j"], []),
        # items of one task
        (["j: judge t/1=A t/2=A", "h: human 1=A 2=A"], ["t/1=A", "t/2=A"], []),
        (["h: human 1=A 2=A", "j: judge t/1=A t/2=A"], ["t/1=A", "t/2=A"], []),
        (["j: judge t/1=A t/2=A", "h: human 1 2"], ["t/1=A", "t/2=A"], []),
    ],
)
def test_outputs_of_joined_inputs(parts: list[str], outputs: list[str], notes: list[tuple[str, str]]) -> None:
    study = join([part(text) for text in parts])
    frame = study.ratings.frame
    assert frame.height == sum(len(text.split()) - 2 for text in parts)
    assert sorted(frame.select(pl.format("{}={}", "item", "system")).unique().to_series()) == outputs
    assert [note for note in study.notes if note.rule != "partial-join"] == [
        Note(rule="systems-of-files", message=NOTE.format(*names), count=names[0].count(",") + 1) for names in notes
    ]
    assert study.name == " + ".join(text.partition(":")[0] for text in parts)


def test_outputs_that_only_one_input_has_are_noted() -> None:
    study = join([part("n: judge 1=A 2=B"), part("h: human 1 3"), part("m: bleu 1=A 2=B 4=B")])
    assert sorted(study.ratings.frame.filter(rater="human").select("item", "system").rows()) == [("1", "A")]
    assert [(note.rule, note.count, note.message) for note in study.notes] == [
        (
            "system-unknown",
            1,
            "h: 1 items are left out, because the file names no system and n, m does not have these items",
        ),
        ("partial-join", 1, "n: 1 of 2 outputs have no match in the other input"),
        ("partial-join", 1, "m: 1 of 3 outputs have no match in the other input"),
    ]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["j: judge 1 2", "h: human 1", "i: human 3"], SOME.format("j, h, i")),
        (["j: judge 1 2", "h: human 1", "i: human 1 2"], SOME.format("j, h, i")),
        (["j: judge 1 2", "k: judge 1 2", "h: human 1 2"], SOME.format("j, k, h")),
        (
            ["j: judge 1 2", "j: judge 1 2"],
            "j, j have no column of systems and have a rater in common, but their names do not distinguish their "
            "systems; add a column system, or rename the files",
        ),
        (
            ["h: human 1 2", "n: judge 1=A 2=A 1=B 2=B"],
            "h and n have no item and system in common: h has items 1, 2 of systems h; n has items 1, 2 of systems "
            "A, B; add the column of systems to h",
        ),
        (
            ["h: human 1=A 2=A", "n: judge t/1=A u/1=A"],
            "h and n have no item and system in common: h has items 1, 2 of systems A; n has items t/1, u/1 of "
            "systems A; use the same items in both inputs, or name another column of items, as in --column item=NAME",
        ),
        (
            ["h: human 1=X 2=X", "n: judge 1=A 2=B"],
            "h and n have no item and system in common: h has items 1, 2 of systems X; n has items 1, 2 of systems "
            "A, B; use the same names of systems in both inputs",
        ),
    ],
)
def test_inputs_whose_outputs_are_unknown_are_refused(parts: list[str], message: str) -> None:
    assert input_error(join, [part(text) for text in parts]) == message


def test_labels_without_an_aspect_get_the_codes_of_each_labelled_aspect() -> None:
    words = np.array(["a", "b", "c"])[np.arange(60) % 3]
    human = pl.DataFrame({"item": range(60), "rater": "ann", "kind": "human", "label": words})
    judge = human.with_columns(rater=pl.lit("judge"), kind=pl.lit("metric"), label=pl.col("label").replace({"a": "b"}))
    aspects = pl.concat([human.with_columns(aspect=pl.lit(aspect)) for aspect in ("safe", "polite")])
    fluent = human.with_columns(aspect=pl.lit("fluent"), score=pl.int_range(60) / 7).drop("label")
    for inputs in ([aspects, judge], [judge, aspects], [judge, aspects, fluent]):
        study = cu.read(inputs)
        for aspect in ("safe", "polite"):
            counted = cu.rates(study, aspect=aspect).confusion.filter(pl.col("n") > 0)
            assert set(counted.select("human_label", "label").rows()) == {("a", "b"), ("b", "b"), ("c", "c")}
        labels = cu.agreement(study, resamples=0).labels
        assert labels["aspect"].to_list() == ["safe", "polite"]
        assert labels["accuracy"].to_list() == [pytest.approx(2 / 3)] * 2


def test_scores_without_systems_in_two_files_are_of_one_system(tmp_path: Path) -> None:
    people, metrics = tmp_path / "people.csv", tmp_path / "metrics.csv"
    pl.DataFrame({"segment": [1, 2, 3], "human": [4, 2, 5]}).write_csv(people)
    pl.DataFrame({"segment": [1, 2, 3], "bleu": [0.4, 0.1, 0.6]}).write_csv(metrics)
    columns = {"item": "segment", "score": ["human:{rater:human}", "metric:{rater:bleu}"]}
    study = cu.read([people, metrics], columns=columns)
    assert (study.systems, study.humans, study.metrics) == (("people",), ("human",), ("bleu",))
    # files with a metric in common are of different systems
    pl.DataFrame({"segment": [1, 2, 3], "bleu": [0.5, 0.2, 0.1]}).write_csv(people)
    assert cu.read([people, metrics], columns={"item": "segment", "score": "metric:{rater:bleu}"}).systems == (
        "metrics",
        "people",
    )
