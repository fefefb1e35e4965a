"""Schema files: reading, precedence of arguments, errors and round trips."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import custodes as cu
from custodes.data.mapping.columns import ROLES, Columns
from custodes.data.mapping.schema import Schema
from custodes.data.study import SELECTION
from custodes.errors import CustodesError
from tests.data.mapping.tables import wide
from tests.messages import exactly

SCHEMA = """
human = "ann*"
aspect = ["coherence"]

[columns]
item = "doc_id"
system = "model"
score = ["human_{aspect}_{rater}", "metric:{rater}"]
"""


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(SCHEMA, encoding="utf-8")
    return path


@pytest.fixture
def frame() -> pl.DataFrame:
    return wide("human_coherence_ann1", "human_coherence_bob", "human_fluency_ann1", "bleu", "chrf", text=False)


def test_a_schema_reads_and_selects(schema: Path, frame: pl.DataFrame) -> None:
    study = cu.read(frame, schema=schema)
    assert study.aspects == ("coherence", "fluency")
    answer = cu.check(study)
    assert answer.summary.select("aspect", "humans").rows() == [("coherence", 1)]
    # the provenance records options of a schema too, and replays them
    assert answer.provenance.options["human"] == "ann*"
    assert answer.provenance.replay(study).summary.equals(answer.summary)


def test_what_is_said_beside_it_counts_more(schema: Path, frame: pl.DataFrame) -> None:
    study = cu.read(frame, schema=schema, columns={"score": ["human_{aspect}_{rater}", "metric:bleu"]})
    assert study.metrics == ("bleu",)
    assert cu.check(study, aspect="fluency", human="*").summary["aspect"].to_list() == ["fluency"]


def test_every_question_has_the_selection_of_a_schema() -> None:
    from custodes.answers.shared_arguments import Selection

    assert tuple(Selection.__annotations__) == SELECTION


def test_paths_are_beside_the_file(tmp_path: Path, frame: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "sides.csv").write_text("rater,higher_is_better\nbleu,false\n")
    path = tmp_path / "sub" / "study.toml"
    path.write_text('raters = "sides.csv"\n' + SCHEMA, encoding="utf-8")
    assert cu.read(frame, schema=path).raters.direction["bleu"] == -1
    (tmp_path / "copy.toml").write_text(Schema.load(path).to_toml(tmp_path), encoding="utf-8")
    monkeypatch.chdir("/")
    assert cu.read(frame, schema=tmp_path / "copy.toml").raters.direction["bleu"] == -1


def test_a_schema_as_text(tmp_path: Path) -> None:
    result = Schema(
        columns=Columns(roles={"item": 'a"\x7f'}, patterns=("é {rater}",)),
        reading={"reader": "ratings", "items": tmp_path / "sub" / "i.csv", "raters": tmp_path.parent / "r.csv"},
        selection={"human": ["a", "b"], "aspect": "x"},
    )
    assert result.to_toml(tmp_path).splitlines() == [
        'reader = "ratings"',
        'raters = "../r.csv"',
        'items = "sub/i.csv"',
        *(f"{key} = {value}" for key, value in (("human", '["a", "b"]'), ("aspect", '"x"'))),
        "",
        "[columns]",
        r'item = "a\"\u007f"',
        'score = ["é {rater}"]',
    ]
    assert Schema(columns=Columns(roles={"item": "i"})).to_toml(tmp_path) == '[columns]\nitem = "i"\n'


def test_invalid_and_reader_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('invalid = "drop"\nreader = "battles"\n')
    words = ["model_a"] * 30 + ["garbage"]
    battles = pl.DataFrame({"item": range(31), "model_a": "A", "model_b": "B", "winner": words})
    assert cu.read(battles, schema=path).preferences.frame.height == 30
    with pytest.raises(
        cu.InputError,
        match=exactly(
            "table: 1 of 31 verdicts cannot be read ('garbage' in row 31); allowed: model_a, model_b, tie, "
            "both_bad, A, B, C, 1, 2, left, right, the name of a system (full list: documentation, data), or "
            "empty; correct them, or drop and count them with --invalid drop (in Python invalid='drop')"
        ),
    ):
        cu.read(battles, schema=path, invalid="error")
    path.write_text('invalid = "skip"')
    message = "invalid='skip' is unknown; allowed: error, drop, force"
    with pytest.raises(CustodesError, match=exactly(message)):
        cu.read(battles, schema=path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "humans = 'ann*'",
            "study.toml: unknown key 'humans' (did you mean 'human'?); keys: columns, reader, invalid, raters, items, "
            "human, metrics, systems, aspect, group",
        ),
        ("human = 3", 'study.toml: human = 3 is not a text; write the value in quotes, such as human = "..."'),
        (
            "reader = ['x']",
            "study.toml: reader = ['x'] is not a text; write the value in quotes, such as reader = \"...\"",
        ),
        ("human = [3]", 'study.toml: human = [3] is not a text; write the value in quotes, such as human = "..."'),
        ("human = 'ann*", 'study.toml: not TOML: .*; an example: reader = "ratings"'),
        (
            "columns = 'doc'",
            "study.toml: columns='doc': give a mapping of role to column, such as {'item': 'doc_id', 'system': "
            "'model'}",
        ),
        (
            "[columns]\nscore = ['{rter}']",
            "study.toml: columns: pattern '{rter}' has the unknown placeholder {rter} (did you mean 'rater'?); "
            "placeholders: {aspect}, {rater}, {kind}, {repeat}, {system}, and {order} for verdicts",
        ),
        ("reader = 'rating'", "reader='rating' is unknown (did you mean 'ratings'?); readers: ratings, .*"),
        ("\udcff", "study.toml: not UTF-8 at byte 0 .*"),
        (None, ".*/study.toml: no such file"),
    ],
)
def test_a_schema_is_checked(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "study.toml"
    if text is not None:
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    expected = re.escape(message).replace(r"\.\*", ".*")
    with pytest.raises(CustodesError, match=rf"\A{expected}\Z"):
        cu.read(wide("ann"), schema=path)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5).filter(str.strip)


@given(
    roles=st.dictionaries(st.sampled_from([role for role in ROLES if role != "score"]), TEXTS, max_size=4),
    patterns=st.lists(TEXTS.map(lambda text: text.replace("{", "{{").replace("}", "}}") + "{rater}"), max_size=2),
    selection=st.dictionaries(st.sampled_from(SELECTION), TEXTS | st.lists(TEXTS, max_size=2), max_size=3),
    reader=st.none() | TEXTS,
)
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read_back(tmp_path_factory: Any, **options: Any) -> None:
    columns = Columns(roles=options["roles"], patterns=tuple(options["patterns"]))
    result = Schema().merge_arguments(columns, {"reader": options["reader"]}, options["selection"])
    path = tmp_path_factory.getbasetemp() / "written.toml"
    path.write_text(result.to_toml(path.parent), encoding="utf-8", newline="")
    assert Schema.load(path) == result
