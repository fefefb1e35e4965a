"""Patterns of column names: matches, extracted parts and ambiguous patterns."""

from __future__ import annotations

import pytest

from custodes.data.mapping.pattern import MOST_GAPS, ColumnPattern, is_path, match_columns, split_columns
from custodes.errors import OptionError
from tests.messages import exactly


def splits(pattern: str, *columns: str) -> dict[str, dict[str, str]]:
    return split_columns(ColumnPattern.readings(pattern)[-1], columns)


@pytest.mark.parametrize(
    ("pattern", "column", "labels"),
    [
        ("human_{aspect}_{rater}", "human_style_ann", {"aspect": "style", "rater": "ann"}),
        ("human_{aspect}_{rater}", "human_style", None),
        ("human_{aspect}_{rater}", "human__ann", None),
        ("{rater}", "anything at all", {"rater": "anything at all"}),
        ("metric:{rater}", "bleu", {"rater": "bleu"}),
        ("metric:bleu", "bleu", {}),
        ("metric:bleu", "bleu-2", None),
        ("{kind}.{rater}#{repeat}", "Metric.judge#2", {"kind": "Metric", "rater": "judge", "repeat": "2"}),
        ("{kind}.{rater}", "other.judge", None),
        ("{aspect}_{rater:expert*,turker*}", "style_turker1", {"aspect": "style", "rater": "turker1"}),
        ("{aspect}_{rater:expert*,turker*}", "style_bleu", None),
        ("{{{aspect}}}", "{style}", {"aspect": "style"}),
        ("[{aspect}](*)", "[style](*)", {"aspect": "style"}),
        ("é {aspect}", "é ß", {"aspect": "ß"}),
        ("{aspect}_{rater}", " _ann", None),
        ("{rater: ann* , , bob}", "bob", {"rater": "bob"}),
        ("a{aspect}a", "aa", None),
    ],
)
def test_a_name_is_taken_apart(pattern: str, column: str, labels: dict[str, str] | None) -> None:
    assert splits(pattern, column) == ({} if labels is None else {column: labels})


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("human_{aspect}", "human"),
        ("Human {aspect}", "human"),
        ("metric-{rater}", "metric"),
        ("expert_{aspect}", ""),
        ("inhuman_{aspect}", ""),
        ("human_metric_{aspect}", ""),
        ("human:metric_{aspect}", "human"),
        ("human:{rater}", "human"),
        ("{kind}_{rater}", ""),
    ],
)
def test_the_kind_is_said_by_a_prefix_or_a_word(pattern: str, kind: str) -> None:
    assert ColumnPattern.readings(pattern)[-1].kind == kind


def test_labels_that_are_sure_split_those_that_are_not() -> None:
    parts = splits("human_{aspect}_{rater}", "human_factual_consistency_ann1", "human_style_ann1")
    assert parts["human_factual_consistency_ann1"] == {"aspect": "factual_consistency", "rater": "ann1"}


@pytest.mark.parametrize(
    ("columns", "ways"),
    [
        (
            ["human_factual_consistency_ann1"],
            ["'factual', rater 'consistency_ann1'", "'factual_consistency', rater 'ann1'"],
        ),
        (
            ["human_style_expert_1", "human_fluency_expert_1"],
            ["'style', rater 'expert_1'", "'style_expert', rater '1'"],
        ),
        (["human_a_b_c_d"], ["'a', rater 'b_c_d'", "'a_b', rater 'c_d'"]),  # two of three ways
    ],
)
def test_what_splits_in_two_ways_is_an_error_with_both(columns: list[str], ways: list[str]) -> None:
    aspect = ways[1].split("'")[1]
    message = (
        f"columns: {columns[0]!r} matches 'human_{{aspect}}_{{rater}}' in two ways (aspect {'; aspect '.join(ways)}); "
        f"list the labels, as in 'human_{{aspect:{aspect}}}_{{rater}}' (a comma list of globs)"
    )
    with pytest.raises(OptionError, match=exactly(message)):
        splits("human_{aspect}_{rater}", *columns)


def test_globs_say_which_way() -> None:
    parts = splits("human_{aspect}_{rater:expert_*}", "human_style_expert_1", "human_fluency_expert_2")
    assert [labels["rater"] for labels in parts.values()] == ["expert_1", "expert_2"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "columns: a pattern is empty; give one such as 'human_{aspect}_{rater}'"),
        (
            "human_{rter}",
            "columns: pattern 'human_{rter}' has the unknown placeholder {rter} (did you mean 'rater'?); "
            "placeholders: {aspect}, {rater}, {kind}, {repeat}, {system}, and {order} for verdicts",
        ),
        (
            "human_{}",
            "columns: pattern 'human_{}' has the unknown placeholder {}; placeholders: {aspect}, {rater}, "
            "{kind}, {repeat}, {system}, and {order} for verdicts",
        ),
        (
            "human_{rater!r}",
            "columns: pattern 'human_{rater!r}' has the unknown placeholder {rater!r} (did you mean 'rater'?); "
            "placeholders: {aspect}, {rater}, {kind}, {repeat}, {system}, and {order} for verdicts",
        ),
        (
            "human_{rater",
            "columns: pattern 'human_{rater' cannot be read: expected '}' before end of string; an example: "
            "'human_{aspect}_{rater}'",
        ),
        (
            "{aspect}{rater}",
            "columns: pattern '{aspect}{rater}' has no text between two placeholders; write the text that "
            "separates them",
        ),
        ("{rater}_{rater}", "columns: pattern '{rater}_{rater}' holds {rater} twice; give each placeholder once"),
        (
            "human:{kind}_{rater}",
            "columns: pattern 'human:{kind}_{rater}' gives the kind twice; remove human: or {kind}",
        ),
    ],
)
def test_a_pattern_is_checked(pattern: str, message: str) -> None:
    with pytest.raises(OptionError, match=exactly(message)):
        ColumnPattern.readings(pattern)


def test_a_name_of_very_many_parts_takes_no_time() -> None:
    for n_gaps, n_ways in ((MOST_GAPS, MOST_GAPS * (MOST_GAPS - 1) // 2), (MOST_GAPS + 1, 0)):
        (pattern,) = ColumnPattern.readings("{aspect}_{rater}_{repeat}")
        assert len(pattern.splits("_".join("x" * (n_gaps + 1)))) == n_ways
    name = "_".join("abcdefghij" * 100)
    assert splits("{aspect}_{rater}_{repeat}_{kind}", name) == {}
    assert splits("{rater}", name) == {name: {"rater": name}}
    with pytest.raises(OptionError) as caught:
        splits("{aspect}_{rater}", name)
    assert "in two ways" in caught.value.args[0]


@pytest.mark.parametrize(
    ("pattern", "columns", "labels"),
    [
        ("human:s.*", ["s.x.1", "s.y.0"], [{"aspect": "x", "rater": "1"}, {"aspect": "y", "rater": "0"}]),
        ("human:s.*", ["s.x", "s.y"], [{"aspect": "x"}, {"aspect": "y"}]),
        ("human:s.*.of.*", ["s.x.of.y"], [{"aspect": "x", "rater": "y"}]),
        ("metric:s.*", ["s.x.1", "s.y"], [{"rater": "x", "repeat": "1"}]),
        ("metric:s.*", ["s.x"], [{"rater": "x"}]),
        ("human:s.x", ["human:s.x", "s.x"], [{}]),  # the literal text comes first
        ("human_{aspect}_{rater}", ["human_a_b_c"], []),  # ambiguous
        ("{x}", ["x"], []),
    ],
)
def test_columns_that_a_pattern_matches(pattern: str, columns: list[str], labels: list[dict[str, str]]) -> None:
    assert list(match_columns(pattern, columns).values()) == labels


def test_paths_have_a_kind_and_a_star() -> None:
    paths = ("human:s.*", "metric:*", "human:s", "other:s.*", "s.*", "human", "human:{rater}.*")
    assert [is_path(path) for path in paths] == [True, True, *[False] * 5]


def test_the_text_around_the_placeholders_names_the_rater() -> None:
    patterns = ("human_{aspect}", "[{aspect}] by expert - 2", "{aspect}", "bleu")
    texts = [ColumnPattern.readings(pattern)[0].constant_text for pattern in patterns]
    assert texts == ["human", "by_expert_2", "", "bleu"]
