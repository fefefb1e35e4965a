"""Replies with values that a file cannot store are requested once, cached and read."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import custodes as cu
from custodes.errors import InputError
from custodes.judging.judge import Judge
from custodes.judging.replies import LONGEST_NAME
from custodes.judging.requests import DEEPEST, Reply, reply_json, storable
from tests.judging.servers import Manner, Seen, Server, completion, sends

TEXTS = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["Yes.", "No."]})
SAID = b'{"model": "m", "choices": [{"message": {"content": %s}, "finish_reason": "stop"}], "more": %s}'
VERDICT = rb'"{\"verdict\": \"A\"}"'


def nested(levels: int, inner: bytes = b"") -> bytes:
    return b'[{"a":' * (levels // 2) + (inner or b"1") + b"}]" * (levels // 2)


ODD = {
    "lone surrogate": SAID % (rb'"{\"verdict\": \"A\", \"reason\": \"\ud800\"}"', rb'{"\udfff": 1}'),
    "no UTF-8": SAID % (VERDICT, b'"\xff\xfe"'),
    "odd numbers": SAID % (VERDICT, b"[NaN, Infinity, 1e999, %s]" % (b"9" * 400)),
    "brackets in a text": SAID % (VERDICT, nested(900, rb'"]}\"]}"')),
    "deep and no UTF-8": SAID % (VERDICT, nested(900, b'"\xff"')),
}


@pytest.mark.parametrize("reply", ODD.values(), ids=ODD)
def test_an_odd_reply_is_requested_once_and_kept(server: Server, tmp_path: Path, quick: None, reply: bytes) -> None:
    server.answer = lambda request, attempts: sends(200, reply)
    judge = Judge(model="m", base_url=server.url)
    client = cu.http_client(server.url, key="sk-some-long-key")
    for _ in range(2):
        result = cu.judge(TEXTS, judge, orders="ab", client=client, cache=tmp_path / "c.db")
        assert result.verdicts["preference"].to_list() == [1]
        assert result.status == 0
        assert len(server.seen) == 1
    json.dumps(result.to_dict(), allow_nan=False).encode()


@pytest.mark.parametrize("reply", [b"", b"{", SAID[:30], b'"\\ud8', b"<html>"])
def test_what_is_no_json_is_no_reply(reply: bytes) -> None:
    with pytest.raises(json.JSONDecodeError, match="line 1"):
        reply_json(reply)
    with pytest.raises(ValueError, match="nested too deeply"):
        reply_json(SAID % (VERDICT, nested(100_000)))


def odd_values() -> st.SearchStrategy[Any]:
    scalars = (
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["\ud800", "a\udc00"])
    )
    keys = st.text() | st.integers() | st.just("\ud800")
    return st.recursive(
        scalars,
        lambda children: st.lists(children) | st.dictionaries(keys, children) | st.tuples(children),
        max_leaves=20,
    )


@given(odd_values())
def test_any_reply_of_a_client_can_be_kept(value: Any) -> None:
    body = {"choices": [{"message": {"content": "A"}}], "more": value}
    assert Reply.make(body, sent_time="2026-01-01", seconds=None).body["choices"] == body["choices"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
        lambda own: st.lists(own) | st.dictionaries(st.text(st.characters(codec="utf-8")), own),
    )
)
def test_a_sound_value_stays_as_it_is(value: Any) -> None:
    assert storable(value) == value
    assert reply_json(json.dumps(value).encode()) == value


def test_what_is_deeper_than_the_limit_is_null() -> None:
    value: Any = reduce(lambda inner, _: [inner], range(DEEPEST), "deep")
    assert storable(value) == value
    assert "deep" not in str(storable([value]))


def test_a_client_of_ones_own_may_give_what_json_has_not(tmp_path: Path) -> None:
    async def client(body: Any) -> Any:
        return completion('{"verdict": "B", "reason": "\ud800"}') | {("a", 1): (1, 2)}

    client.address = "mine"  # type: ignore[attr-defined]
    result = cu.judge(TEXTS, Judge(model="m"), orders="ab", client=client, cache=tmp_path / "c.db")
    assert (result.verdicts["preference"].to_list(), result.usage["sent"].item()) == ([-1], 1)


def test_a_long_name_of_a_model_is_short_in_every_table(server: Server, tmp_path: Path, quick: None) -> None:
    def answer(request: Seen, attempts: int) -> Manner:
        return sends(200, completion('{"verdict": "A"}') | {"model": "x" * 5_000_000 + str(len(server.seen))})

    server.answer = answer
    result = cu.judge(TEXTS, Judge(model="m", base_url=server.url), cache=tmp_path / "c.db")
    assert len(set(result.details["model"])) == 2
    assert result.details["model"].str.len_chars().max() < LONGEST_NAME + 20  # type: ignore[operator]
    for frame in (result.details, result.raters, result.verdicts):
        assert len(frame.write_csv()) < 5_000
    assert all(len(note.message) < 1_000 for note in result.notes)


@pytest.mark.parametrize(
    "record", [b"{}", b"", b"[]", b"\xff", b'{"reply": 3}', b'{"asked": "", "seconds": 1, "reply": []}', None, 3]
)
def test_a_record_that_is_none_of_ours_is_one_line(record: Any) -> None:
    with pytest.raises(InputError, match="a cached reply is damaged; give another file with --cache"):
        _ = Reply(record).body
