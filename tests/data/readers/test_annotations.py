"""Exports of Label Studio and Argilla: one output or two, numbers, choices and sides, predictions and suggestions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from custodes.data.reading import read
from custodes.data.study import Study
from custodes.errors import InputError
from tests.data.readers.logs import argilla_record, label_studio_task, write_json

ONE, TWO = {"item": "7", "system": "Aster"}, {"item": "7", "system_a": "Birch", "system_b": "Aster"}
ANN = {"id": 3, "email": "ann@example.org"}


def message(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        read(path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def scores(study: Study) -> list[tuple[object, ...]]:
    return study.ratings.frame.select("item", "system", "rater", "aspect", "repeat", "score").rows()


def verdicts(study: Study) -> list[tuple[object, ...]]:
    return study.preferences.frame.select(
        "item", "system_a", "system_b", "rater", "aspect", "order", "preference"
    ).rows()


def test_label_studio_rates_one_output(tmp_path: Path) -> None:
    task = label_studio_task(
        1,
        ONE,
        (ANN, "quality", "rating", {"rating": 4}),
        (12, "quality", "number", {"number": 2.5}),
        (12, "fluency", "choices", {"choices": ["3 - fair"]}),
        (12, "comment", "textarea", {"text": ["fine"]}),
    )
    task["annotations"][3]["result"].append({"from_name": "kind", "type": "choices", "value": {"choices": ["news"]}})
    task["annotations"].append({"completed_by": 12, "was_cancelled": True, "result": []})
    task["predictions"] = [
        {"model_version": "judge-2", "result": [{"from_name": "quality", "type": "rating", "value": {"rating": 5}}]}
    ]
    study = read(write_json(tmp_path / "export.json", [task]))
    assert scores(study) == [
        ("7", "Aster", "ann@example.org", "quality", "0", 4.0),
        ("7", "Aster", "12", "quality", "0", 2.5),
        ("7", "Aster", "judge-2", "quality", "0", 5.0),
        ("7", "Aster", "12", "fluency", "0", 3.0),
    ]
    assert study.raters.kind == {"ann@example.org": "human", "12": "human", "judge-2": "metric"}
    assert [note.message for note in study.notes] == [
        "export.json: 1 annotations were skipped by their annotator",
        "export.json: answers that are no number and no side: comment (1), kind (1)",
    ]


def test_label_studio_compares_two_outputs(tmp_path: Path) -> None:
    task = label_studio_task(
        1,
        TWO,
        (3, "better", "pairwise", {"selected": "left"}),
        (4, "better", "pairwise", {"selected": "right"}),
        (5, "better", "choices", {"choices": ["Tie"]}),
        (6, "better", "choices", {"choices": ["Aster"]}),
        (6, "quality_a", "rating", {"rating": 4}),
        (6, "quality_b", "rating", {"rating": 2}),
    )
    study = read(write_json(tmp_path / "export.json", [task]))
    # Aster < Birch, so a row is turned: left was Birch
    assert verdicts(study) == [
        ("7", "Aster", "Birch", "3", "better", "ba", -1),
        ("7", "Aster", "Birch", "4", "better", "ba", 1),
        ("7", "Aster", "Birch", "5", "better", "", 0),
        ("7", "Aster", "Birch", "6", "better", "", 1),
    ]
    assert scores(study) == [("7", "Birch", "6", "quality", "0", 4.0), ("7", "Aster", "6", "quality", "0", 2.0)]


def test_label_studio_json_min(tmp_path: Path) -> None:
    row = {"id": 1, **ONE, "annotator": 12, "annotation_id": 5, "lead_time": 3.5, "quality": [{"rating": 4}]}
    study = read(write_json(tmp_path / "min.json", [row, row | {"annotation_id": 6}]))
    assert scores(study) == [("7", "Aster", "12", "quality", "0", 4.0), ("7", "Aster", "12", "quality", "1", 4.0)]


SHORT = {"annotator": 12, "annotation_id": 5, "created_at": "x", "updated_at": "x", "lead_time": 3.5}


def test_label_studio_json_min_holds_plain_choices(tmp_path: Path) -> None:
    rows = [
        {**ONE, "item": str(k), **SHORT, "text": f"Text {k}.", "coherence": [{"rating": k}], "fluency": f"{k} - good"}
        for k in (1, 2, 3)
    ]
    study = read(write_json(tmp_path / "min.json", rows))
    assert {row[3:] for row in scores(study)} == {
        (a, "0", k) for a in ("coherence", "fluency") for k in (1.0, 2.0, 3.0)
    }
    assert [(note.rule, note.count) for note in study.notes] == [("answers-assumed", 1), ("plain-columns", 1)]
    assert "taken for answers: fluency;" in study.notes[0].message
    assert "not for answers: text;" in study.notes[1].message


def test_label_studio_json_min_holds_plain_sides(tmp_path: Path) -> None:
    rows = [{**TWO, "item": str(k), **SHORT, "better": side} for k, side in enumerate(("left", "right", "tie"))]
    study = read(write_json(tmp_path / "min.json", rows))
    assert [row[-1] for row in verdicts(study)] == [-1, 1, 0]


def test_numbered_texts_are_no_choices(tmp_path: Path) -> None:
    rows = [
        {**ONE, "item": str(k), **SHORT, "step": f"{k % 3}. Do {k}.", "title": f"{k}. Part", "quality": [{"rating": 4}]}
        for k in range(12)
    ]
    study = read(write_json(tmp_path / "min.json", rows))
    assert study.aspects == ("quality",)
    assert "step, title" in study.notes[0].message


def test_plain_words_are_named_where_nothing_is_an_answer(tmp_path: Path) -> None:
    path = write_json(tmp_path / "min.json", [{**ONE, **SHORT, "mood": "good"}, {**ONE, **SHORT, "mood": "bad"}])
    assert message(path).endswith("its tags (columns of plain values are taken for data: mood): none was answered")


def test_columns_of_json_min_are_named(tmp_path: Path) -> None:
    rows = [{"prompt_id": str(k), "model_name": "A", **SHORT, "quality": [{"rating": k}]} for k in (1, 2)]
    path = write_json(tmp_path / "min.json", rows)
    assert "or say which column says so with --column system=NAME" in message(path)
    study = read(path, columns={"item": "prompt_id", "system": "model_name"})
    assert [row[:2] for row in scores(study)] == [("1", "A"), ("2", "A")]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (
            label_studio_task(1, {"text": "a", "doc": 3}, (3, "q", "rating", {"rating": 4})),
            "export.json: task 1 names no system: give its data a field 'system', or 'system_a' and 'system_b' where it"
            " shows two outputs, or export JSON_MIN, whose columns --column system=NAME (--column item=NAME) can name;"
            " found: text, doc",
        ),
        (
            label_studio_task(1, ONE, (3, "q", "textarea", {"text": ["x"]})),
            "export.json: no answer is a number or says which output is better; its tags: q",
        ),
        (
            label_studio_task(
                1, ONE, (3, "q", "choices", {"choices": ["4"]}), (4, "q", "choices", {"choices": ["bad"]})
            ),
            "export.json: 1 answers are words where others are numbers (q 'bad'); begin choices with their number"
            " ('4 - good'), or leave such answers out and count them with invalid='drop' (--invalid drop)",
        ),
        (
            label_studio_task(1, ONE, (None, "q", "rating", {"rating": 4})),
            "export.json: column 'rater' is empty in row 1; every row needs a label",
        ),
        (
            label_studio_task(1, ONE) | {"annotations": [{"result": "x"}]},
            "export.json, task 1: not the layout of an export of Label Studio: Expected `array`, got `str` - at"
            " `$[0].result`",
        ),
    ],
)
def test_bad_exports_of_label_studio_are_one_line(task: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert message(write_json(tmp_path / "export.json", [task])) == expected


def test_words_among_numbers_can_be_dropped(tmp_path: Path) -> None:
    task = label_studio_task(1, ONE, (3, "q", "choices", {"choices": ["4"]}), (4, "q", "choices", {"choices": ["bad"]}))
    study = read(write_json(tmp_path / "export.json", [task]), invalid="drop")
    assert [row[2:] for row in scores(study)] == [("3", "q", "0", 4.0)]
    assert [(note.rule, note.count) for note in study.notes] == [("unreadable-score", 1)]


def test_without_a_field_item_the_task_is_the_item(tmp_path: Path) -> None:
    task = label_studio_task(5, {"model": "Aster"}, (3, "q", "rating", {"rating": 4}))
    study = read(write_json(tmp_path / "export.json", [task]))
    assert scores(study)[0][:2] == ("5", "Aster")
    assert [note.rule for note in study.notes] == ["item-from-task"]


RECORD = argilla_record(
    "rec-1",
    ONE | {"item": 9},
    {
        "quality": [{"value": 4, "user_id": "u1"}, {"value": 2, "user_id": "u2"}],
        "why": [{"value": "so", "user_id": "u1"}],
    },
    {"quality": {"value": 5, "score": 0.9, "agent": "judge-2"}},
)
FLAT = {
    "id": "rec-1",
    "status": "completed",
    "_server_id": "0",
    "response": "text",
    "metadata.system": "Aster",
    "item": "9",
    "quality.responses": [4, 2, 1],
    "quality.responses.users": ["u1", "u2", "u3"],
    "quality.responses.status": ["submitted", "submitted", "discarded"],
    "quality.suggestion": 5,
    "quality.suggestion.agent": "judge-2",
    "quality.suggestion.score": None,
}
RATED = [
    ("9", "Aster", "u1", "quality", "0", 4.0),
    ("9", "Aster", "u2", "quality", "0", 2.0),
    ("9", "Aster", "judge-2", "quality", "0", 5.0),
]


def test_argilla_nested(tmp_path: Path) -> None:
    study = read(write_json(tmp_path / "records.json", [RECORD]))
    assert scores(study) == RATED
    assert study.raters.kind == {"u1": "human", "u2": "human", "judge-2": "metric"}
    assert [note.message for note in study.notes] == ["records.json: answers that are no number and no side: why (1)"]


@pytest.mark.parametrize("name", ["records.jsonl", "records.parquet"])
def test_argilla_columns_of_a_dataset(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name.endswith(".parquet"):
        pl.DataFrame([FLAT]).write_parquet(path)
    else:
        path.write_text(json.dumps(FLAT) + "\n", encoding="utf-8")
    study = read(path)
    assert scores(study) == RATED
    assert [note.message for note in study.notes] == [f"{name}: 1 responses were drafts or discarded, and are not read"]


def test_argilla_compares_two_outputs(tmp_path: Path) -> None:
    said = {"better": [{"value": "model_a", "user_id": "u1"}, {"value": "tie", "user_id": "u2"}]}
    record = argilla_record("rec-1", {"model_a": "Birch", "model_b": "Aster"}, said, {})
    study = read(write_json(tmp_path / "records.json", [record]))
    assert verdicts(study) == [
        ("rec-1", "Aster", "Birch", "u1", "better", "", -1),
        ("rec-1", "Aster", "Birch", "u2", "better", "", 0),
    ]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            RECORD | {"responses": [1]},
            "records.json, record 1: not the layout of an export of Argilla: Expected `object`",
        ),
        (FLAT | {"quality.responses.users": ["u1"]}, "records.json, record 1: 3 responses to 'quality', but 1 users"),
        (RECORD | {"metadata": {}}, "records.json: task rec-1 names no system: give its data a field 'system'"),
        (
            RECORD | {"responses": {"quality": [{"value": 4}]}},
            "records.json, record 1: a response to 'quality' names no user",
        ),
    ],
)
def test_bad_exports_of_argilla_are_one_line(record: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert message(write_json(tmp_path / "records.json", [record])).startswith(expected)


@pytest.mark.parametrize(("reader", "needed"), [("label_studio", "data, annotations"), ("argilla", "id, fields")])
def test_a_forced_reader_names_what_it_needs(reader: str, needed: str) -> None:
    with pytest.raises(InputError, match=f"^table: column .* is missing; columns: item, score; needed: {needed}"):
        read(pl.DataFrame({"item": [1], "score": [2]}), reader=reader)
