"""Replies as they are kept."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from custodes.errors import InputError
from custodes.judging.judge import Judge
from custodes.judging.requests import Reply
from custodes.judging.run import judge
from tests.judging.clients import completion, judging, longer

ROW = [{"item": "1", "outputs": {"X": "One.", "Y": "Another."}}]


def test_a_reply_is_kept_as_it_came() -> None:
    reply = Reply.make(completion("A"), asked="2026-01-01", seconds=None)
    assert (reply.body, reply.asked, reply.seconds) == (completion("A"), "2026-01-01", None)


@pytest.mark.parametrize(
    "record", [b"{}", b"", b"[]", b"\xff", b'{"reply": 3}', b'{"asked": "", "seconds": 1, "reply": []}', None, 3]
)
def test_a_record_that_is_none_of_ours_is_one_line(record: Any) -> None:
    with pytest.raises(InputError, match="a kept reply is damaged: .*; name another file by --cache"):
        _ = Reply(record).body


def test_a_cache_with_a_damaged_reply_is_told_of(tmp_path: Path) -> None:
    texts, cache = tmp_path / "texts.jsonl", tmp_path / "kept.db"
    texts.write_text("".join(json.dumps(row) for row in ROW))
    client = judging(longer)
    client.address = "by length"  # type: ignore[attr-defined]
    judge(texts, Judge(model="m"), client=client, cache=cache)
    with sqlite3.connect(cache) as base:
        base.execute("UPDATE reply SET reply = x'7b7d'")
    base.close()
    with pytest.raises(InputError, match="damaged"):
        judge(texts, Judge(model="m"), client=client, cache=cache)


def test_half_a_character_in_a_reply_stops_no_study(tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps(row) for row in ROW))
    made = judge(texts, Judge(model="m"), client=lambda body: completion('{"reason":"\\ud800","verdict":"A"}'))
    assert made.verdicts["invalid"].to_list() == ["", ""]
    assert made.details["reason"].to_list() == ["\ufffd"] * 2
    made.details.write_ndjson(tmp_path / "details.jsonl")
