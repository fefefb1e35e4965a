"""Labels of any characters survive every format, and the user's data are not modified."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import custodes as cu
from custodes.data.reading import read
from custodes.data.writing import write_table
from custodes.errors import InputError
from tests.messages import exactly

FORMATS = (".csv", ".tsv", ".jsonl", ".parquet", ".json", ".csv.gz")

NASTY = st.sampled_from(
    [
        *("=1+1", "@x", "-", "NA", "nan", "None", "a,b", 'a"b', '"', "''", "a\tb", "a\nb", "a\r\nb", "a\rb", "\x1b[2J"),
        *("\x00x", "\ufeffx", "\u202egnp", "e\u0301", "\u00e9", "А", "A", "a", "a\u200bb", "x\uffff", "\x85x", "a;b|c"),
        *("__proto__", "</script>", "{}", "[1]", "1.0", "1", "01", "1e3", "true", "a/b", "a\\b", "#x", "🦉", "a::b"),
    ]
)
LABELS = st.one_of(NASTY, st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8))


def is_kept(label: str) -> bool:
    """Return whether reading keeps the label: no surrounding whitespace, and not refused."""
    return label == pl.Series([label]).str.strip_chars()[0] and bool(label) and not label.endswith("\0")


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    """Draw scores of two systems on two items by an annotator and a metric, with arbitrary labels."""
    two = st.lists(LABELS.filter(is_kept), min_size=2, max_size=2, unique=True)
    items, systems, raters, (aspect, _) = draw(two), draw(two), draw(two), draw(two)
    rows = [
        (item, system, rater, kind, aspect, float(k))
        for rater, kind in zip(raters, ("human", "metric"), strict=True)
        for k, (item, system) in enumerate((item, system) for item in items for system in systems)
    ]
    return pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "aspect", "score"], orient="row")


def check(table: pl.DataFrame, form: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, f"ratings{form}")
        if form == ".json":
            path.write_bytes(msgspec.json.encode(table.to_dicts()))
        else:
            write_table(table, path)
        again = read(path)
        assert again.ratings.frame.equals(read(table).ratings.frame)
    for name in ("item", "system", "rater", "aspect"):
        assert set(again.ratings.frame[name]) == set(table[name])


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("examples", [10, pytest.param(10_000, marks=pytest.mark.slow)])
def test_labels_are_exact_in_every_format(form: str, examples: int) -> None:
    settings(max_examples=examples)(given(table=tables())(lambda table: check(table, form)))()


def test_a_label_that_ends_in_nul_is_refused() -> None:
    frame = pl.DataFrame({"item": ["1", "1"], "system": ["A", "A\0"], "ann": [1, 2]})
    with pytest.raises(InputError, match="column 'system' ends in a NUL character in row 2; remove the character"):
        read(frame)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(str.strip)


@pytest.mark.parametrize("form", [".csv", ".tsv", ".jsonl", ".parquet", ".tsv.gz"])
@given(
    texts=st.dictionaries(
        st.tuples(st.sampled_from("12"), st.sampled_from("AB")), st.one_of(NASTY, TEXTS), min_size=1, max_size=4
    ),
    source=st.one_of(NASTY.map(str.strip), st.just("")),
    references=st.lists(st.one_of(NASTY, TEXTS), max_size=2),
)
@settings(max_examples=6)
def test_texts_are_exact_in_every_format(
    form: str, texts: dict[tuple[str, str], str], source: str, references: list[str]
) -> None:
    rows = {
        item: {"item": item, "outputs": {}, "source": source if item == "1" else "", "references": references}
        for item, _ in texts
    }
    for (item, system), text in texts.items():
        rows[item]["outputs"][system] = text
    with TemporaryDirectory() as folder:
        first = Path(folder, "first.jsonl")
        first.write_bytes(b"\n".join(map(msgspec.json.encode, rows.values())))
        study = read(first)
        again = read(write_table(cu.data.writing.long_tables(study)["outputs"], Path(folder, f"outputs{form}")))
    assert study.outputs is not None
    assert again.outputs is not None
    assert dict(zip(zip(again.outputs.texts["item"], again.outputs.texts["system"], strict=True),
                    again.outputs.texts["text"], strict=True)) == texts  # fmt: skip
    assert again.outputs.sources.equals(study.outputs.sources)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"bleu": [1.0, 2.0]},
            "table: the table has texts and scores (bleu); map both, as in --column text=text --columns "
            "'metric:{rater}'",
        ),
        ({"source": ["a", "b"]}, "table: item '1' has several values of source ('a', 'b'); give each item one source"),
        (
            {"system": ["A", "A"]},
            "table: the same output occurs twice, in rows 1, 2 (item '1', system 'A'); one row per output",
        ),
        ({"system": ["A", ""]}, "table: column 'system' is empty in row 2; name the system that wrote each text"),
        ({"text": [1, 2]}, "table, row 1: outputs must be an object {system: text}, or {system: {text, image}}"),
    ],
)
def test_texts_that_cannot_be_told_apart_are_refused(columns: dict[str, Any], message: str) -> None:
    frame = {"item": ["1", "1"], "system": ["A", "B"], "text": ["x", "y"]}
    with pytest.raises(InputError, match=exactly(message)):
        read(pl.DataFrame(frame | columns))


def ratings_frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "item": [f"i{k}" for k in range(6) for _ in range(2)],
            "system": ["A", "B"] * 6,
            "ann": [3.0, 1, 2, 2, None, 4, 5, 1, 3, 2, 4, 1],
            "bleu": [0.5, 0.1, -0.0, 0.2, 0.3, 0.3, 0.9, 0.2, 0.4, 0.1, 0.8, 0.1],
        }
    )


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "pyarrow"])
def test_a_frame_of_the_user_is_never_changed(kind: str) -> None:
    frames: dict[str, Any] = {
        "polars": ratings_frame(),
        "lazy": ratings_frame().lazy(),
        "pandas": ratings_frame().to_pandas(),
        "pyarrow": ratings_frame().to_arrow(),
    }
    frame, raters = frames[kind], pd.DataFrame({"rater": ["ann", "bleu"], "kind": ["human", "metric"]})
    items = pl.DataFrame({"item": [f"i{k}" for k in range(6)], "cluster": list("aabbcc")})
    study = cu.read(frame, raters=raters, items=items)
    before = study.ratings.frame.clone(), study.raters.frame.clone(), study.items.frame.clone()
    for question in (cu.check, cu.agreement, cu.favoritism, cu.ranking):
        question(study, **({} if question is cu.check else {"resamples": 20}))
    if kind == "pandas":
        pd.testing.assert_frame_equal(frame, ratings_frame().to_pandas())
    else:
        same = pl.from_arrow(frame) if kind == "pyarrow" else frame.collect() if kind == "lazy" else frame
        assert isinstance(same, pl.DataFrame)
        assert same.equals(ratings_frame())
    pd.testing.assert_frame_equal(raters, pd.DataFrame({"rater": ["ann", "bleu"], "kind": ["human", "metric"]}))
    after = study.ratings.frame, study.raters.frame, study.items.frame
    assert all(one.equals(other) for one, other in zip(before, after, strict=True))
