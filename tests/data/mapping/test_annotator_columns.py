"""Patterns for columns of human ratings and of metrics."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.data.mapping import annotator_columns
from custodes.data.mapping.annotator_columns import (
    aspect_variants,
    has_half_steps,
    metric_column_patterns,
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
        (["style_r1", "style_r2", "depth_r1"], ["depth_gpt"], "human:{aspect}_{rater:r1,r2}"),
        (["human_style", "human_fluency"], ["bleu"], "human_{aspect}"),
        (["human_style", "human_fluency"], ["human_x"], "human_{aspect:style,fluency}"),
        (["expert_1", "turker_1"], ["bleu"], "human:{rater:expert_1,turker_1}"),
        (["style_r1", "depth_r2"], ["zest_r1"], "human:{aspect:style,depth}_{rater}"),
        (["style_r1", "depth_r2"], ["zest_r1", "style_x"], "human:{aspect:style,depth}_{rater:r1,r2}"),
        (["{human}_style_r1", "{human}_depth_r2"], [], "{{human}}_{aspect}_{rater}"),
        (["human_overall_quality_r1", "human_depth_r1"], [], "human_{aspect}_{rater}"),
        (["x_style_ann1"], [], "human:x_{aspect}_{rater}"),
        (["human_x_ann1"], [], "human:{rater:human_x_ann1}"),
        (["r1.zest", "r2.zest"], [], "human:{rater}.{aspect}"),
        (["r1.zest", "bob.zing"], [], "human:{rater:r1.zest,bob.zing}"),
        (["style-r1", "depth_r2"], [], "human:{rater:style-r1,depth_r2}"),
        (["style_al", "style_bo", "depth_al", "depth_bo"], [], "human:{aspect}_{rater}"),
        (["style_al", "style_bo", "depth_al"], [], "human:{rater:style_al,style_bo,depth_al}"),
        (["style_human", "depth_human"], ["bleu_x"], "{aspect}_human"),
        (["style.rating.human", "depth.rating.human"], ["x"], "{aspect}.{rater}.human"),
        (["coh_", "flu_"], ["x_"], "human:{aspect:coh,flu}_"),
        (["fluency.ann1", "coherence.ann1"], ["x"], "human:{aspect}.{rater}"),
        (["human", "my_expert", "x.annotator"], ["bleu"], "human:{rater:human,my_expert,x.annotator}"),
    ],
)
def test_patterns_match_the_human_columns_and_no_others(human: list[str], others: list[str], pattern: str) -> None:
    assert people_pattern(human, [*human, *others]) == pattern


@pytest.mark.parametrize(
    ("names", "aspects"),
    [
        (["human_coherence", "human_fluency"], ["coherence", "fluency"]),
        (["human_coherence_1", "human_coherence_2"], []),
        (["zest_ann1", "zest_ann2", "zing_ann1", "zing_ann2"], ["zest", "zing"]),
        (["zest_ann1", "zest_ann2", "zing_ann1"], []),
        (["zest_a", "zest_b", "zing_a", "zing_b"], []),
        (["zest_ann1", "zing"], []),
        (["ann1_r1", "ann1_r2", "ann2_r1", "ann2_r2"], []),
        (["coherence_ann1", "coherence_ann2"], []),
        ([], []),
    ],
)
def test_aspects_are_known_or_crossed_with_numbered_raters(names: list[str], aspects: list[str]) -> None:
    assert pooled_aspects(names) == aspects


def test_people_are_known_by_name_or_by_aspect_number_and_half_steps() -> None:
    frame = pl.DataFrame({"coherence_r1": [1.0, 2.5], "coherence_r2": [3, 4], "fluency_r1": [0.3, 1], "bleu": [1, 2]})
    patterns, names = people_patterns(frame, frame.columns)
    assert names == ["coherence_r1", "coherence_r2"]
    assert patterns == ("human:coherence_{rater}",) or patterns == ("human:{aspect:coherence}_{rater}",)
    assert people_patterns(frame, ["bleu"]) == ((), [])
    mixed = pl.DataFrame(
        {"human_zest_ann1": [1], "human_zest_ann2": [1], "human_zing_ann1": [1], "human_zing_ann2": [1]}
    )
    assert people_patterns(mixed, mixed.columns)[0] == ("human_{aspect}_{rater}",)


def test_averages_are_searched_once_for_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    monkeypatch.setattr(annotator_columns, "find_averages", lambda names: searched.append(names) or [])
    names = [f"m{k}_mean" for k in range(9)]
    people_patterns(pl.DataFrame({name: [1] for name in names}), names)
    metric_column_patterns(names, [])
    assert searched == [names, names]


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
        ({"ratings.ann": [1, 1], "ratings.bob": [1, 2]}, ["human:ratings.{rater}"], []),
        ({"ratings.ann": [1, 1], "ratings.bob": [2, 2]}, [], []),
        ({"other.one": [1, 2]}, [], ["other.one"]),
        ({"other.one": [1, 2], "other.two": [1, 2]}, ["metric:other.*"], []),
        ({"human.one": [1, 2]}, ["human:human.{rater}"], []),
        ({"a.b.c.d": [1, 2], "a.b.c.e": [1, 2]}, [], ["a.b.c.d", "a.b.c.e"]),
        ({"ratings.ann.style": [1, 2], "ratings.bob.style": [1, 2]}, ["human:ratings.{rater}.{aspect}"], []),
        (
            {"ratings.ann.style": [1, 2], "labels.bob.style": [1, 2]},
            ["human:{rater:ratings.*,labels.*}.{aspect}"],
            [],
        ),
        ({"outputs.*.scores.style": [1, 2]}, [], ["outputs.*.scores.style"]),
        ({"scores.style.0": [1, 2], "scores.style.1": [1, 2]}, ["human:scores.*"], []),
    ],
)
def test_objects_of_scores_have_patterns(columns: dict[str, list], patterns: list[str], remaining: list[str]) -> None:
    assert nested(columns) == (patterns, remaining)


def test_metrics_are_the_other_columns() -> None:
    scores = ["human_style", "human_depth", "bleu", "comet"]
    human = scores[:2]
    assert metric_column_patterns(scores, human) == ("metric:{rater}",)
    assert metric_column_patterns(scores, human, ["length"]) == ("metric:{rater:bleu,comet}",)
    assert metric_column_patterns([*scores, "expert_3"], human) == ("metric:{rater:bleu,comet}",)
    assert metric_column_patterns(human, human) == ()
    aspects = ["style", "depth"]
    judged = ["gpt_style", "gpt_depth", "bleu"]
    assert metric_column_patterns([*human, *judged], human, aspects=aspects) == (
        "metric:{rater}_{aspect:style,depth}",
        "metric:{rater:bleu}",
    )
    assert metric_column_patterns([*human, "style.gpt", "depth.gpt"], human, aspects=aspects) == (
        "metric:{aspect:style,depth}.{rater}",
    )
    one = [*human, "gpt_style", "bleu"]  # only one aspect
    assert metric_column_patterns(one, human, aspects=aspects) == ("metric:{rater}",)
    for n_others, reads_aspects in ((12, True), (13, False)):
        many = [*human, "gpt_style", "gpt_depth", *(f"m{k}" for k in range(n_others))]
        assert ("aspect" in metric_column_patterns(many, human, aspects=aspects)[0]) == reads_aspects
    spare = ["x_style"]  # a numeric column that is no metric
    assert (
        metric_column_patterns([*human, *judged], human, spare, aspects)[0] == "metric:{rater:gpt_style,gpt_depth,bleu}"
    )


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
