"""Patterns for columns of human ratings and of metrics."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.data.mapping.annotator_columns import (
    aspect_variants,
    has_half_steps,
    metric_patterns,
    nested_patterns,
    parse_numbers,
    people_pattern,
    people_patterns,
    pooled_aspects,
    with_kinds,
)


@pytest.mark.parametrize(
    ("human", "others", "pattern"),
    [
        (["human_style_ann1", "human_depth_ann1"], ["bleu"], "human_{aspect}_{rater}"),
        (["ann1_style", "ann2_style"], ["bleu"], "human:{rater}_{aspect}"),
        (["style_r1", "style_r2", "depth_r1"], ["depth_gpt"], "human:{aspect}_{rater:r*}"),
        (["human_style", "human_fluency"], ["bleu"], "human_{aspect}"),
        (["expert_1", "turker_1"], ["bleu"], "human:{rater:expert_1,turker_1}"),
        (["human_overall_quality_r1", "human_depth_r1"], [], "human_{aspect}_{rater}"),
        (["human_x_ann1"], [], "human:{rater:human_x_ann1}"),
        (["r1.zest", "r2.zest"], [], "human:{rater}.{aspect}"),
        (["r1.zest", "bob.zing"], [], "human:{rater:r1.zest,bob.zing}"),
        (["style-r1", "depth_r2"], [], "human:{rater:style-r1,depth_r2}"),
        (["style_al", "style_bo", "depth_al", "depth_bo"], [], "human:{aspect}_{rater}"),
        (["style_al", "style_bo", "depth_al"], [], "human:{rater:style_al,style_bo,depth_al}"),
        (["style_human", "depth_human"], ["bleu_x"], "{aspect}_human"),
        (["style.rating.human", "depth.rating.human"], ["x"], "{aspect}.rating.human"),
        (["fluency.ann1", "coherence.ann1"], ["x"], "human:{aspect}.{rater}"),
        (["human", "my_expert", "x.annotator"], ["bleu"], "human:{rater:human,my_expert,x.annotator}"),
        (["mqm", "da"], ["comet"], "human:{aspect:mqm,da}"),
        (["mqm", "mqm_2"], ["comet"], "human:{rater:mqm,mqm_2}"),
        (["mqm", "human"], ["comet"], "human:{rater:mqm,human}"),
        (["MQM_rater1", "MQM_rater2", "DA_rater1"], ["comet"], "human:{aspect}_{rater}"),
    ],
)
def test_patterns_match_the_human_columns_and_no_others(human: list[str], others: list[str], pattern: str) -> None:
    assert people_pattern(human, [*human, *others]) == pattern


@pytest.mark.parametrize(
    ("names", "aspects"),
    [
        (["human_coherence", "human_fluency"], ["coherence", "fluency"]),
        (["human_coherence_1", "human_coherence_2"], []),
        (["zest_ann1", "zest_ann2", "zing_ann1", "zing_ann2"], []),
        (["coherence_ann1", "coherence_ann2"], []),
        ([], []),
    ],
)
def test_aspects_in_the_names_of_annotators_are_known(names: list[str], aspects: list[str]) -> None:
    assert pooled_aspects(names) == aspects


def test_people_are_known_by_name_or_by_aspect_number_and_half_steps() -> None:
    frame = pl.DataFrame({"coherence_r1": [1.0, 2.5], "coherence_r2": [3, 4], "fluency_r1": [0.3, 1], "bleu": [1, 2]})
    patterns, names = people_patterns(frame, frame.columns, frame.columns)
    assert names == ["coherence_r1", "coherence_r2"]
    assert patterns == ["human:{rater:coherence_r1,coherence_r2}"]
    assert people_patterns(frame, ["bleu"], ["bleu"]) == ([], [])
    mixed = pl.DataFrame(
        {"human_zest_ann1": [1], "human_zest_ann2": [1], "human_zing_ann1": [1], "human_zing_ann2": [1]}
    )
    assert people_patterns(mixed, mixed.columns, mixed.columns)[0] == ["human_{aspect}_{rater}"]


def test_numbered_ratings_are_of_annotators() -> None:
    frame = pl.DataFrame({"rating_1": [3, 4], "rating_2": [2, 5], "gpt_rating_1": [1, 2], "score_1": [1, 2]})
    assert people_patterns(frame, frame.columns, frame.columns) == (
        ["human:{rater:rating_1,rating_2}"],
        ["rating_1", "rating_2"],
    )
    assert people_patterns(frame / 3, frame.columns, frame.columns) == ([], [])


def test_variants_differ_only_in_the_aspect() -> None:
    assert aspect_variants(["depth_al", "depth_cy", "al", "bleu"], ["style_al", "style_bo", "fluency"]) == {"depth_al"}
    assert aspect_variants(["depth"], ["style"]) == set()


def nested(columns: dict[str, list]) -> tuple[list[str], list[str]]:
    return nested_patterns(pl.DataFrame(columns), list(columns))


@pytest.mark.parametrize(
    ("columns", "patterns", "remaining"),
    [
        ({"scores.style": [1, 2], "scores.depth": [1, 2]}, ["human:scores.*"], []),
        ({"scores.style": [1.25, 2], "scores.depth": [1, 2]}, ["metric:scores.*"], []),
        ({"metrics.style": [1, 2], "metrics.depth": [1, 2]}, ["metric:metrics.*"], []),
        ({"ratings.ann": [1, 2], "ratings.bob": [1, 2]}, ["human:ratings.{rater}"], []),
        ({"other.one": [1, 2]}, [], ["other.one"]),
        ({"other.one": [1, 2], "other.two": [1, 2]}, ["metric:other.*"], []),
        ({"human.one": [1, 2]}, ["human:human.{rater}"], []),
        ({"ratings.0.style": [1, 2], "ratings.1.style": [1, 2]}, [], []),
        ({"a.b.c.d": [1, 2], "a.b.c.e": [1, 2]}, [], ["a.b.c.d", "a.b.c.e"]),
        ({"ratings.ann.tone": [1, 2], "ratings.bob.tone": [1, 2]}, [], []),  # either key may be the annotator
        ({"ratings.ann.style": [1, 2], "ratings.bob.style": [1, 2]}, ["human:ratings.{rater}.{aspect}"], []),
        ({"ratings.style.ann": [1, 2], "ratings.style.bob": [1, 2]}, ["human:ratings.{aspect}.{rater}"], []),
        ({"scores.style.0": [1, 2], "scores.style.1": [1, 2]}, ["human:scores.*"], []),
    ],
)
def test_objects_of_scores_have_patterns(columns: dict[str, list], patterns: list[str], remaining: list[str]) -> None:
    assert nested(columns) == (patterns, remaining)


def test_patterns_of_metrics() -> None:
    assert metric_patterns(["bleu", "comet"], [], []) == ["metric:{rater}"]
    assert metric_patterns(["bleu", "comet"], ["length"], []) == ["metric:{rater:bleu,comet}"]
    assert metric_patterns([], [], []) == []
    aspects = ["style", "depth"]
    by_aspect = "metric:{rater}_{aspect:depth,style}"
    assert metric_patterns(["gpt_style", "gpt_depth", "bleu"], [], aspects) == [by_aspect, "metric:{rater}"]
    assert metric_patterns(["gpt_style", "gpt_depth"], ["length"], aspects) == [by_aspect]
    assert metric_patterns(["gpt_style", "gpt_depth", "bleu"], ["length"], aspects) == [
        by_aspect,
        "metric:{rater:bleu}",
    ]
    assert metric_patterns(["style.gpt", "depth.gpt"], [], aspects) == ["metric:{aspect:depth,style}.{rater}"]
    assert metric_patterns(["gpt_style", "bleu"], [], aspects) == ["metric:{rater}"]  # only one aspect
    assert metric_patterns(["gpt_style", "gpt_depth"], [], ["style"]) == ["metric:{rater}"]


def test_numbers_and_half_steps() -> None:
    assert parse_numbers(pl.Series("x", ["1", "a", "2.5"])).to_list() == [1, None, 2.5]
    assert parse_numbers(pl.Series("x", [[1]])).is_empty()
    assert has_half_steps(pl.Series("x", ["1", "2.5", None, "-3"]))
    assert not has_half_steps(pl.Series("x", [1.0, 2.25]))


def test_kinds_follow_from_the_name_of_the_column_of_raters() -> None:
    table = pl.DataFrame({"rater": ["anna", "gpt-4", "anna"]})
    frame, (note,) = with_kinds(table, {"rater": "annotator_id"}, where="t.csv")
    assert frame["kind"].to_list() == ["human", "metric", "human"]
    assert note.message == (
        "t.csv: raters of column 'annotator_id' are read as human, except gpt-4; give --human if this is wrong"
    )
    frame, notes = with_kinds(pl.DataFrame({"rater": ["bleu", "human"]}), {"rater": "metric"}, where="t.csv")
    assert frame["kind"].to_list() == ["metric", "human"]
    assert notes == []
    table_with_gap = pl.DataFrame({"rater": ["anna", None]})
    assert with_kinds(table_with_gap, {"rater": "annotator"}, where="t.csv")[0]["kind"].to_list() == ["human"] * 2
    assert "except" not in with_kinds(table[:1], {"rater": "annotator"}, where="t.csv")[1][0].message
    with_kind = table.with_columns(kind=pl.lit("x"))
    for unchanged, roles in ((table, {"rater": "who"}), (table, {}), (with_kind, {"rater": "user"})):
        frame, notes = with_kinds(unchanged, roles, where="t")
        assert (frame.columns, notes) == (unchanged.columns, [])
