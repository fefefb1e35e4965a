"""Requests and replies as files in OpenAI's JSON Lines format for batches. Other providers and `vllm run-batch` also
accept this format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from custodes.cache import Cache
from custodes.data.loading.source import check_exists, read_file_bytes
from custodes.data.notes import Note, build_notes
from custodes.errors import InputError, reject
from custodes.files import write_atomically
from custodes.judging.requests import (
    Failure,
    Rejected,
    Reply,
    Request,
    Unavailable,
    check_completion,
    reply_json,
    server_message,
    status_exception,
    store_reply,
)

ADDRESS = "/v1/chat/completions"


def write_requests(path: str | Path, requests: Sequence[Request]) -> Path:
    """Write each distinct request as a line `{custom_id, method, url, body}`. The `custom_id` is the key of the
    request.

    Source: OpenAI, Batch API. Raises OptionError if the file cannot be written.
    """
    line_of_key = {
        request.key: {"custom_id": request.key, "method": "POST", "url": ADDRESS, "body": request.body}
        for request in requests
    }
    return write_atomically(path, msgspec.json.Encoder().encode_lines(line_of_key.values()))


def read_replies(path: str | Path, requests: Sequence[Request], cache: Cache) -> tuple[dict[str, Failure], list[Note]]:
    """Store the replies of a file as if the server had sent them. Return the failed requests by key, and notes.

    A line is `{custom_id, response: {status_code, body}, error}`. Lines may be in any order. Notes report unknown ids,
    repeated ids (the first line without an error counts) and an incomplete last line. If the file has a different
    format or no reply to any request, InputError is raised and nothing is stored.
    """
    file_path = Path(path)
    check_exists(file_path)
    request_of_key = {request.key: request for request in requests}
    decoded_line_of_number = dict(_numbered_lines(read_file_bytes(file_path)))
    keys_and_outcomes = [
        _key_and_outcome(decoded_line, f"{file_path.name}: row {line_number}")
        for line_number, decoded_line in decoded_line_of_number.items()
        if decoded_line is not UNSET
    ]
    known_keys_and_outcomes = [(key, outcome) for key, outcome in keys_and_outcomes if key in request_of_key]
    reply_body_of_key = {
        key: outcome for key, outcome in reversed(known_keys_and_outcomes) if not isinstance(outcome, Failure)
    }
    failure_of_key = {
        key: outcome
        for key, outcome in known_keys_and_outcomes
        if isinstance(outcome, Failure) and key not in reply_body_of_key
    }
    n_outcomes, n_unknown_outcomes = len(keys_and_outcomes), len(keys_and_outcomes) - len(known_keys_and_outcomes)
    n_duplicate_lines = len(known_keys_and_outcomes) - len(reply_body_of_key) - len(failure_of_key)
    reject(
        (not n_outcomes, f"{file_path.name}: the file contains no reply; give the output file of a batch (JSON Lines)"),
        (
            n_unknown_outcomes == n_outcomes,
            f"{file_path.name}: none of the {n_outcomes} replies in this file belongs to these requests; give the "
            "texts, model and options with which the requests were written",
        ),
        error=InputError,
    )
    for key, reply_body in reply_body_of_key.items():
        store_reply(cache, request_of_key[key], Reply.make(reply_body, sent_time=_reply_time(reply_body), seconds=None))
    return failure_of_key, build_notes(
        (
            "unknown-replies",
            n_unknown_outcomes,
            f"{file_path.name}: {n_unknown_outcomes} of {n_outcomes} replies belong to other requests and are ignored",
        ),
        (
            "doubled-replies",
            n_duplicate_lines,
            f"{file_path.name}: {n_duplicate_lines} lines have the id of an earlier line; for each id, the first "
            "line without an error is used",
        ),
        (
            "half-a-line",
            UNSET in decoded_line_of_number.values(),
            f"{file_path.name}: the last line is incomplete and is ignored; the batch may still be writing the file",
        ),
    )


def _numbered_lines(file_bytes: bytes) -> Iterator[tuple[int, Any]]:
    """The number and the parsed JSON of each line with content. An incomplete last line gives UNSET, and another line
    that is not JSON gives its text."""
    byte_lines = file_bytes.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for line_number, byte_line in enumerate(byte_lines, start=1):
        if byte_line.strip():
            try:
                yield line_number, reply_json(byte_line)
            except ValueError:
                yield line_number, UNSET if line_number == len(byte_lines) and len(byte_lines) > 1 else byte_line


def _key_and_outcome(decoded_line: Any, where: str) -> tuple[str, Mapping[str, Any] | Failure]:
    """The id of a line, and the body of the reply or the failure."""
    line_fields = decoded_line if isinstance(decoded_line, Mapping) else {}
    has_outcome = "response" in line_fields or "error" in line_fields
    reject(
        (
            not isinstance(line_fields.get("custom_id"), str),
            f"{where}: this line is not a reply of a batch; give a file in which each line is an object "
            "with custom_id, response and error",
        ),
        (
            not has_outcome and "body" in line_fields,
            f"{where}: this line is a request; give the output file of the batch",
        ),
        (not has_outcome, f"{where}: this line has no response"),
        error=InputError,
    )
    return line_fields["custom_id"], _outcome(line_fields.get("response"), line_fields.get("error"))


def _outcome(response: Any, error: Any) -> Mapping[str, Any] | Failure:
    """The body of a reply, or the failure if there is no reply."""
    if not isinstance(response, Mapping):
        return Failure(reason="unavailable", message=server_message(error) or "no response")
    http_status = response.get("status_code", 200)
    if error or http_status != 200:
        status_error = status_exception(
            http_status if isinstance(http_status, int) and http_status != 200 else 400, error or response.get("body")
        )
        return Failure(
            reason="rejected" if isinstance(status_error, Rejected) else "unavailable", message=str(status_error)
        )
    reply_body: Mapping[str, Any] = response.get("body", response)
    try:
        check_completion(reply_body)
    except (Unavailable, Rejected) as problem:
        return Failure(reason="unavailable", message=str(problem))
    return reply_body


def _reply_time(body: Mapping[str, Any]) -> str:
    """The time that a reply states; the current time if the reply states no time."""
    created_at = body.get("created")
    if isinstance(created_at, int) and 0 < created_at < 2**33:
        return datetime.fromtimestamp(created_at, UTC).isoformat()
    return datetime.now(UTC).isoformat()
