"""Exports of traces (OTLP JSON) have a row for each span."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import custodes as cu
from custodes.data.loading.records import from_json, from_lines
from custodes.errors import InputError


def attributes(**values: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": {kind: value}} for name, (kind, value) in values.items()]


def span(number: int, *events: dict[str, Any], **values: tuple[str, Any]) -> dict[str, Any]:
    return {
        "traceId": "t",
        "spanId": f"s{number}",
        "name": "chat",
        "startTimeUnixNano": "17",
        "attributes": attributes(**values),
        "events": list(events),
    }


def export(*spans: dict[str, Any]) -> dict[str, Any]:
    resource = {"attributes": attributes(service=("stringValue", "app"))}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


RESULT = {
    "name": "gen_ai.evaluation.result",
    "attributes": [
        {"key": "gen_ai.evaluation.name", "value": {"stringValue": "Tone"}},
        {"key": "gen_ai.evaluation.score.label", "value": {"stringValue": "pass"}},
        {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 0.50}},
    ],
}
FIRST = span(1, RESULT, {"name": "exception"}, tokens=("intValue", "12"), cached=("boolValue", True))
FIRST["attributes"].append({"key": "cost", "value": {}})
SECOND = span(2, cost=("doubleValue", 1.5)) | {"endTimeUnixNano": "19"}
ROWS = [
    {"context.span_id": "s1", "tokens": "12", "cached": "true", "eval.Tone.label": "pass", "eval.Tone.score": "0.5"},
    {"context.span_id": "s2", "end_time": "19", "cost": "1.5"},
]


def test_attributes_and_evaluations_are_columns() -> None:
    common = {"context.trace_id": "t", "name": "chat", "start_time": "17", "end_time": None, "service": "app"}
    table, notes = from_json(json.dumps(export(FIRST, SECOND)), "traces.json")
    assert table.to_dicts() == [dict.fromkeys(table.columns) | common | row for row in ROWS]
    assert not notes
    lines = from_lines("\n".join(json.dumps(export(each)) for each in (FIRST, SECOND)), "traces.jsonl")
    assert lines.equals(table.select(lines.columns))
    assert sorted(lines.columns) == sorted(table.columns)


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ({"resourceSpans": 1}, "Expected `array`"),
        (export({"traceId": "t"}), r"missing required field `spanId` - at `\$\.resourceSpans\[0\]"),
        (export(span(1) | {"attributes": [{"key": "a", "value": "b"}]}), r"Expected `object`.*attributes\[0\]\.value"),
    ],
)
def test_other_objects_are_refused_with_the_place(record: dict[str, Any], fault: str) -> None:
    with pytest.raises(InputError, match=rf"^x\.json: not a trace export of OpenTelemetry \(OTLP\): .*{fault}"):
        from_json(json.dumps(record), "x.json")


def test_steps_without_a_label_need_no_version(tmp_path: Path) -> None:
    path = tmp_path / "traces.json"

    def answer(number: int) -> dict[str, Any]:
        values = {
            "app.version": "v1" if number % 2 else "v2",
            "annotation.tone.label": "pass" if number > 2 else "fail",
        }
        return span(number, RESULT, **{name: ("stringValue", value) for name, value in values.items()})

    def step(number: int) -> dict[str, Any]:
        return span(number, **{"db.system": ("stringValue", "sql")})

    path.write_text(json.dumps(export(*map(answer, range(6)), *map(step, range(6, 10)))))
    study = cu.read(path)
    assert (study.systems, study.attributes.height, study.unlabelled.height) == (("v1", "v2"), 6, 0)  # type: ignore[union-attr]
    message = "traces.json: 4 rows without a label and without app.version are left out"
    assert message in [note.message for note in study.notes]
    labelled_step = span(6, RESULT)
    path.write_text(json.dumps(export(*map(answer, range(6)), labelled_step)))
    with pytest.raises(InputError, match=r"column 'app.version' is empty in row 7; fill in a label"):
        cu.read(path)
