"""Columns that identify labels, and the mapping of a layout."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from custodes.data.mapping.columns import Columns
from custodes.data.mapping.label_layout import LabelLayout, add_key_columns, has_reviewers

N = 12
BASE = {"human": ["pass", "fail"] * 6, "judge": ["pass"] * N}
LAYOUT = LabelLayout(human=("human",), metrics=("judge",))
UNIQUE, PAIRED, TWO = [*range(N)], [k // 2 for k in range(N)], ["a", "b"] * 6
FOUR = [k // 4 for k in range(N)]


def keys(columns: dict[str, Any], **declared: str) -> dict[str, Any]:
    found = add_key_columns(pl.DataFrame(BASE | columns), LAYOUT, Columns.make(declared))
    names = ("item", "systems", "cluster", "probability", "n_outputs", "rater", "repeat")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"id": UNIQUE}, {"item": "id"}),
        ({}, {}),
        ({"key9": [f"k{k}" for k in range(N)]}, {}),
        ({"z": [k / 7 for k in range(N)]}, {}),
        ({"id": [None, *UNIQUE[1:]]}, {}),
        ({"id": [k // 3 for k in range(N)]}, {}),
        ({"id": PAIRED, "model": TWO}, {"item": "id", "systems": ("model",)}),
        (
            {"id": FOUR, "model": TWO, "version": ["v", "v", "w", "w"] * 3},
            {"item": "id", "systems": ("model", "version")},
        ),
        ({"id": UNIQUE, "model": ["m"] * N, "version": ["v"] * N}, {"item": "id", "systems": ("model", "version")}),
        ({"id": UNIQUE, "model_version": ["m"] * N}, {"item": "id"}),
        ({"id": PAIRED, "run": [0, 1] * 6}, {"item": "id", "repeat": "run"}),
        ({"id": PAIRED, "reviewer": ["ann", "bob"] * 6}, {"item": "id", "rater": "reviewer"}),
        ({"id": PAIRED, "reviewer": ["gpt4", "llama3"] * 6}, {}),
        (
            {
                "id": FOUR,
                "reviewer": ["ann", "ann", "bob", "bob"] * 3,
                "judge": [["pass", "fail"][k % 2] for k in FOUR],
            },
            {"item": "id", "rater": "reviewer"},  # one reviewer twice: reading the rows is an error
        ),
        ({"question": [f"Why is {k} a number?" for k in UNIQUE], "trace_id": UNIQUE}, {"item": "trace_id"}),
        (
            {"question": [f"Why is {k} a number?" for k in PAIRED], "trace_id": UNIQUE, "model": TWO},
            {"item": "question", "systems": ("model",)},
        ),
        (
            {"prompt": [f"Why is {k} a number?" for k in UNIQUE], "trace_id": UNIQUE, "model": TWO},
            {"item": "trace_id", "systems": ("model",)},  # systems answered different prompts
        ),
        ({"id": UNIQUE, "conversation_id": PAIRED}, {"item": "id", "cluster": "conversation_id"}),
        ({"id": UNIQUE, "user": PAIRED, "cluster_id": FOUR}, {"item": "id", "cluster": "cluster_id"}),
        ({"id": UNIQUE, "user_name": PAIRED}, {"item": "id"}),
        ({"id": UNIQUE, "attributes.session.id": PAIRED}, {"item": "id", "cluster": "attributes.session.id"}),
        ({"id": UNIQUE, "user_uuid_id": PAIRED}, {"item": "id", "cluster": "user_uuid_id"}),
        ({"id": UNIQUE, "judge_session_id": PAIRED, "my_session": PAIRED}, {"item": "id"}),
        ({"id": UNIQUE, "attributes.app.version": TWO}, {"item": "id", "systems": ("attributes.app.version",)}),
        ({"id": UNIQUE, "judge_app_version": TWO, "my_release": TWO}, {"item": "id"}),
        ({"id": UNIQUE, "release": TWO, "branch": TWO[::-1]}, {"item": "id", "systems": ("release",)}),
        ({"id": UNIQUE, "version": [None] * N}, {"item": "id"}),
        ({"review_id": UNIQUE, "foo_id": UNIQUE}, {"item": "foo_id"}),
        ({"question": PAIRED, "foo_id": UNIQUE, "session": UNIQUE[::-1]}, {"item": "foo_id"}),
        ({"id": PAIRED, "run": [0, 1] * 6, "reviewer": ["ann", "bob"] * 6}, {"item": "id", "repeat": "run"}),
        ({"id": UNIQUE, "session": [*range(N)]}, {"item": "id"}),
        ({"id": UNIQUE, "session": [1] * N}, {"item": "id"}),
        ({"trace_id": PAIRED}, {"cluster": "trace_id"}),  # steps of a trace
        ({"span_id": UNIQUE, "trace_id": PAIRED}, {"item": "span_id", "cluster": "trace_id"}),
        ({"id": PAIRED, "judge_version": ["1", "2"] * 6}, {"item": "id", "rater": "judge_version"}),
        ({"id": UNIQUE, "judge_version": ["1", "2"] * 6}, {"item": "id"}),
    ],
)
def test_columns_that_identify_rows(columns: dict[str, Any], expected: dict[str, Any]) -> None:
    assert keys(columns) == expected


@pytest.mark.parametrize(
    ("n_users", "columns", "expected"),
    [
        (30, {}, "user_id"),
        (29, {}, "session_id"),
        (30, {"user_id": None}, "session_id"),
        (30, {"session_id": 0}, "session_id"),  # a session of two users
        (30, {"cluster": 1}, "cluster"),
    ],
)
def test_sessions_of_users_are_in_the_clusters_of_users(n_users: int, columns: dict[str, Any], expected: str) -> None:
    rows = pl.select(id=pl.int_range(300)).with_columns(
        session_id=pl.col("id") // 3, user_id=pl.col("id") // 3 % n_users
    )
    first_rows = pl.when(pl.col("id") < 6)
    changed_columns = {name: first_rows.then(value).otherwise(pl.col("session_id")) for name, value in columns.items()}
    table = rows.with_columns(judge=pl.lit("pass"), human=pl.lit("pass"), **changed_columns)
    assert add_key_columns(table, LAYOUT, Columns()).cluster == expected


def test_declared_roles_come_first() -> None:
    columns = {"id": UNIQUE, "z": UNIQUE, "w": PAIRED, "q": [0.5] * N, "conversation": FOUR, "k": [2] * N, "s": TWO}
    declared = {"item": "z", "cluster": "w", "probability": "q", "n_outputs": "k", "system": "s"}
    assert keys(columns, **declared) == {
        "item": "z",
        "cluster": "w",
        "probability": "q",
        "n_outputs": "k",
        "systems": ("s",),
    }


def test_a_declared_repeat_identifies_rows() -> None:
    columns = {"id": PAIRED, "z": [0, 1] * 6, "run": UNIQUE}
    assert keys(columns, repeat="z") == {"item": "id", "repeat": "z"}
    assert keys(columns) == {"item": "id", "repeat": "run"}


@pytest.mark.parametrize(
    ("layout", "roles", "patterns"),
    [
        (LAYOUT, {}, ("human:{rater:human}", "metric:{rater:judge}")),
        (
            LabelLayout(item="i", human=("a", "b"), metrics=("j",), systems=("s",), cluster="c"),
            {"item": "i", "cluster": "c", "system": "s"},
            ("human:{rater:a,b}", "metric:{rater:j}"),
        ),
        (LabelLayout(human=("a",), rater="r", metrics=("j", "k")), {"rater": "r"}, ("human:a", "metric:{rater:j,k}")),
        (
            LabelLayout(label="l", rater="r", kind="k", systems=("x", "y")),
            {"rater": "r", "score": "l", "kind": "k"},
            (),
        ),
        (
            LabelLayout(
                human=("human_tone", "human_style"),
                metrics=("judge_tone",),
                criteria={name: tuple(name.split("_")) for name in ("human_tone", "human_style", "judge_tone")},  # type: ignore[misc]
            ),
            {},
            ("human:human_{aspect:tone,style}", "metric:judge_{aspect:tone,style}"),
        ),
    ],
)
def test_a_layout_is_a_mapping(layout: LabelLayout, roles: dict[str, str], patterns: tuple[str, ...]) -> None:
    assert (dict(layout.columns.roles), layout.columns.patterns) == (roles, patterns)
    assert layout.assigned_columns == {
        *roles.values(), *layout.human, *layout.metrics
    } - {layout.cluster, *layout.systems}  # fmt: skip


def test_only_names_of_persons_are_reviewers() -> None:
    assert has_reviewers(pl.Series("reviewer", ["Ana", "gpt-4"]))
    assert not has_reviewers(pl.Series("reviewer", ["gpt-4", None]))
    assert not has_reviewers(pl.Series("rater", [[], ["Ana"]]))  # a cast of empty lists to text would fail
