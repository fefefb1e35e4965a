"""Spans of OpenTelemetry traces (OTLP as JSON) as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from custodes.errors import InputError
from custodes.strict_json import prepare_decoder

RESULT_EVENT = "gen_ai.evaluation.result"


class _Attribute(msgspec.Struct):
    key: str
    value: dict[str, Any]


class _Attributes(msgspec.Struct):
    name: str = ""
    attributes: list[_Attribute] = []

    def values(self) -> dict[str, Any]:
        """The value of each attribute; OTLP has an object with the type and the value."""
        return {attribute.key: next(iter(attribute.value.values()), None) for attribute in self.attributes}


class _Span(_Attributes, rename="camel", kw_only=True):
    trace_id: str
    span_id: str
    start_time_unix_nano: str | None = None
    end_time_unix_nano: str | None = None
    events: list[_Attributes] = []


class _ScopeSpans(msgspec.Struct):
    spans: list[_Span] = []


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Attributes = msgspec.field(default_factory=_Attributes)
    scope_spans: list[_ScopeSpans] = []


@prepare_decoder
class _Traces(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans]


def with_spans(records: Iterable[Any], where: str) -> Iterator[Any]:
    """The records, with a row for each span instead of an export of traces. The columns have the names of the
    attributes; an evaluation that is recorded as an event has the columns `eval.NAME.label` and `eval.NAME.score`."""
    for record in records:
        if not isinstance(record, dict) or "resourceSpans" not in record:
            yield record
            continue
        try:
            traces = msgspec.convert(record, _Traces)
        except msgspec.ValidationError as problem:
            raise InputError(f"{where}: not a trace export of OpenTelemetry (OTLP): {problem}") from None
        for resource_spans in traces.resource_spans:
            for span in (span for scope_spans in resource_spans.scope_spans for span in scope_spans.spans):
                yield {
                    "context.trace_id": span.trace_id,
                    "context.span_id": span.span_id,
                    "name": span.name,
                    "start_time": span.start_time_unix_nano,
                    "end_time": span.end_time_unix_nano,
                    **resource_spans.resource.values(),
                    **span.values(),
                    **{
                        f"eval.{result_attributes.get('gen_ai.evaluation.name')}.{column_name}": result_attributes[
                            attribute_key
                        ]
                        for result_attributes in [event.values() for event in span.events if event.name == RESULT_EVENT]
                        for column_name, attribute_key in (
                            ("label", "gen_ai.evaluation.score.label"),
                            ("score", "gen_ai.evaluation.score.value"),
                        )
                        if attribute_key in result_attributes
                    },
                }
