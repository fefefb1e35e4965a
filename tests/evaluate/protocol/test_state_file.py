"""State files of a running protocol: `record` and `read` agree, and any edit is rejected with a one-line message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.data.comparisons import Comparisons
from custodes.errors import InputError, OptionError
from custodes.evaluate.protocol import live
from custodes.evaluate.protocol.live import _FILE, State
from custodes.evaluate.protocol.stopping import Stopping
from custodes.strict_json import digest
from tests.bad_arguments import BAD
from tests.edits import as_json, edited, torn
from tests.messages import exactly


def running(*, metric: bool = False, **options: Any) -> State:
    """Return a protocol of three systems and four items with some answers."""
    named = {"systems": ("A", "B", "C"), "items": ("i0", "i1", "i2", "i3")}
    signs = np.array([[1, 0, -1, 1], [1, 1, 1, -128], [0, 0, 0, 1]], dtype=np.int8)[:, np.newaxis]
    extra = {"metric": Comparisons.from_signs(signs, raters=("m",), **named)} if metric else {}
    state = live.start(["A", "B", "C"], list(named["items"]), clusters=["d", "d", "e", "f"], **extra, **options)
    return live.record(state, [(*request, 1) for request in live.next_annotations(state)[:2]])


STATES = [
    running(stopping=Stopping(batch=2)),
    running(stopping=Stopping(looks=(1, 3), boundary="pocock", stop="futility", budget=8), seed=2**63),
    running(metric=True, estimator="ppi", stopping=Stopping(stop="futility", futility=0.3)),
]
FILES = [json.loads(state.to_json()) for state in STATES]


def read(content: bytes) -> State | None:
    """Return the state, or None if it is rejected with a one-line message that says what to do."""
    try:
        return State.from_json(content)
    except InputError as problem:
        message = str(problem)
    assert "\n" not in message
    assert len(message) < 600
    assert message.startswith("not a valid state of a protocol:")
    assert message.endswith(
        "Restore the last valid copy of the file, or start again with the same seed and enter the answers again"
    )
    return None


def used(state: State) -> None:
    """Answer all requests; the state fits in a file at any time."""
    for _ in range(50):
        requests = live.next_annotations(state)
        live.decisions(state)
        if not requests:
            break
        state = live.record(state, [(*requests[0], 1), *((*request, None) for request in requests[1:])])
        assert State.from_json(state.to_json()) == state


def signed(content: Any) -> Any:
    """Return the content with a valid digest, if it has a state at all, as an edit by an expert would."""
    try:
        return {**content, "digest": digest(_FILE.decode(as_json(content)).state)}
    except (ValueError, TypeError):
        return content


def examined(content: Any, *, may_be_valid: bool) -> None:
    state = read(as_json(signed(content) if may_be_valid else content))
    if state is not None:
        assert may_be_valid or state in STATES  # another spelling of the same value
        used(state)


@given(st.sampled_from(FILES).flatmap(edited), st.booleans())
@settings(max_examples=100)
def test_some_edits_of_a_state(content: Any, may_be_valid: bool) -> None:
    examined(content, may_be_valid=may_be_valid)


@given(st.sampled_from(STATES).flatmap(lambda state: torn(state.to_json())))
@settings(max_examples=50)
def test_some_torn_states(content: bytes) -> None:
    state = read(content)
    assert state is None or state in STATES


def put(**values: Any) -> Any:
    return lambda state: state | values


UNITS = "units must hold 4 numbers, one for each item, from 0 to 3"
METRIC = "metric must have a row for each of the 3 pairs and a value for each of the 4 items"
SIGNS = "preferences must be -128, -1, 0, 1"
FORBIDDEN = [
    (put(systems=["A"]), "systems=1: must be a whole number of at least 2"),
    (put(systems=["B", "A", "C"]), "systems must be sorted"),
    (put(systems=["A", "A", "B"]), "systems must be distinct, but these occur twice: A"),
    (put(items=[]), "items=0: must be a whole number of at least 1"),
    (put(items=["i0", "i0", "i2", "i3"]), "items must be distinct, but these occur twice: i0"),
    (put(items=["i0", "i1", "i2"]), "units must hold 3 numbers, one for each item, from 0 to 2"),
    (put(units=[0, 0, 1]), UNITS),
    (put(units=[-1, 0, 1, 2]), UNITS),
    (put(units=[0, 0, 1, 4]), UNITS),
    (put(metric=[[1, 0, 1, 0]]), METRIC),
    (put(metric=[[1], [1], [1]]), METRIC),
    (put(metric=[[2, 0, 0, 0]] * 3), SIGNS),
    (put(stopping={"stop": "anytime"}), "invalid content: Invalid enum value 'anytime' - at `$.state.stopping.stop`"),
    (
        put(estimator="pol"),
        "estimator='pol'; allowed: mixture, human, ppi, poststratified, naive, pooled (did you mean 'pooled'?)",
    ),
    (
        put(estimator="ppi"),
        "estimator='ppi' needs a metric, but metrics='none'; select metrics, or use human or pooled",
    ),
    (put(seed=-1), "seed must be a whole number from 0 to 18446744073709551615"),
    (put(answers=[{}, {}]), "answers must have an entry for each of the 3 pairs of systems"),
    (put(answers=[{"i9": 1}, {}, {}]), "answers name an unknown item 'i9'"),
    (put(answers=[{"i0": 2}, {}, {}]), SIGNS),
    (
        put(answers=[{"i0": 1, "i1": 1, "i2": 1, "i3": 1}, {"i3": 1, "i0": 1}, {}]),
        "3 of the answers were never requested",
    ),
    (
        put(stopping={"batch": 0}),
        "invalid content: batch=0: must be a whole number of at least 1 - at `$.state.stopping`",
    ),
    (
        put(stopping={"budget": 10**20}),
        "invalid content: budget=100000000000000000000: must be a whole number of at most 1000000000 - at "
        "`$.state.stopping`",
    ),
    (
        put(stopping={"looks": [3, 1]}),
        "invalid content: looks=3,1 is not allowed; give increasing numbers of annotations per pair, as in 10,20,40 - "
        "at `$.state.stopping`",
    ),
    (put(more=1), "fields are missing, or unknown fields are present"),
    (put(stopping={"batch": 2}), "fields are missing, or unknown fields are present"),
]
"""Edits of the state, and the problem of each, whether or not the digest fits."""


@pytest.mark.parametrize(("change", "problem"), FORBIDDEN)
def test_an_edit_that_must_not_be_is_refused(change: Any, problem: str) -> None:
    content = FILES[0] | {"state": change(FILES[0]["state"])}
    message = (
        f"not a valid state of a protocol: {problem}. Restore the last valid copy of the file, or start again with the "
        "same seed and enter the answers again"
    )
    for changed in (content, signed(content)):
        with pytest.raises(InputError, match=exactly(message)):
            State.from_json(as_json(changed))


@pytest.mark.parametrize(
    "change",
    [
        lambda state: {"answers": [{item: -sign for item, sign in row.items()} for row in state["answers"]]},
        lambda state: {"stopping": state["stopping"] | {"batch": 3}},
    ],
)
def test_only_the_digest_reveals_some_edits(change: Any) -> None:
    content = FILES[0] | {"state": FILES[0]["state"] | change(FILES[0]["state"])}
    with pytest.raises(InputError, match="the content does not match the digest, so the file was edited. Restore"):
        State.from_json(as_json(content))
    assert State.from_json(as_json(signed(content))) != STATES[0]


def test_a_key_that_stands_twice_is_refused() -> None:
    text = STATES[0].to_json()
    with pytest.raises(InputError, match="key 'seed' occurs twice"):
        State.from_json(text.replace(b'"seed":0', b'"seed":0,"seed":0'))


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100000, b'{"format":"custodes-protocol"}']
)
def test_what_is_no_state_at_all_is_refused(content: bytes) -> None:
    assert read(content) is None


@pytest.mark.parametrize("version", [1, 3])
def test_another_version_says_so(version: int) -> None:
    with pytest.raises(InputError, match=f"version {version}, not 'custodes-protocol', version 2"):
        State.from_json(as_json({**FILES[0], "version": version}))


@pytest.mark.parametrize("preference", [1, 1.0, np.int64(1), np.int8(1), np.float64(1.0), pl.Series([1])[0]])
def test_a_preference_of_any_library_is_a_whole_number(preference: Any) -> None:
    state = live.start(["A", "B"], ["i0", "i1"], stopping=Stopping(batch=2))
    item, a, b = live.next_annotations(state)[0]
    result = live.record(state, [(np.str_(item), a, np.str_(b), preference)])
    assert result == live.record(state, [(item, a, b, 1)])
    assert State.from_json(result.to_json()) == result


@pytest.mark.parametrize("preference", [True, False, np.bool_(True), "1", 2, 0.5, float("nan"), float("inf"), [1], 1j])
def test_a_preference_that_is_none_is_refused(preference: Any) -> None:
    state = live.start(["A", "B"], ["i0"])
    with pytest.raises(InputError, match="give item, system_a, system_b and 1, 0, -1, or None if the comparison"):
        live.record(state, [("i0", "A", "B", preference)])


@pytest.mark.parametrize("row", ["i0AB", None, 3, (), ("i0", "A", "B"), ("i0", "A", "B", 1, 1), ({}, "A", "B", 1), {}])
def test_a_verdict_of_another_shape_is_refused(row: Any) -> None:
    with pytest.raises(InputError, match="give item, system_a, system_b and 1, 0, -1, or None"):
        live.record(live.start(["A", "B"], ["i0"]), [row])


@pytest.mark.parametrize("name", ["systems", "items", "metric", "clusters", "estimator", "stopping", "seed"])
def test_any_argument_of_start_is_taken_or_refused_in_one_line(name: str) -> None:
    for value in BAD:
        options = {"systems": ["A", "B"], "items": ["i0", "i1"], name: value}
        try:
            state = live.start(**options)
        except OptionError as problem:
            message = str(problem)
            assert "\n" not in message
        else:
            used(state)


def test_a_state_is_read_from_a_path_only(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json", "a\x00b"):
        with pytest.raises(InputError, match=r"no such file|cannot be read"):
            State.read(path)
