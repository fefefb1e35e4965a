"""Words of column names."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.data.mapping.column_vocabulary import (
    SIDES,
    find_averages,
    find_columns,
    find_side_pairs,
    is_model_name,
    kind_of_label,
    looks_human,
    looks_like_person,
    looks_like_rater,
    lookup_names,
    normalise_name,
    parse_kinds,
)


def test_names_are_normalised() -> None:
    names = ["DocID", "doc-id", " Évaluation  (2) ", "a1B", "__x__"]
    assert [normalise_name(name) for name in names] == ["doc_id", "doc_id", "evaluation_2", "a1_b", "x"]


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("source_text", ["source_text", "source"]),
        ("meta.doc.id", ["meta_doc_id", "doc"]),
        ("meta.0.question", ["meta_0_question", "question"]),
        ("id.3", ["id_3"]),
        ("choices.0.message.content", ["choices_0_message_content", "response", "content"]),
        ("answers.text", ["answers_text", "answers", "answer", "content"]),
        ("input.content", ["input_content", "input", "content"]),
        *((f"a.{last}", [f"a_{last}", "a"]) for last in ("id", "name", "label", "value", "key")),
    ],
)
def test_the_parts_of_a_path_that_are_looked_up(name: str, names: list[str]) -> None:
    assert lookup_names(name) == names


def test_kinds_of_known_words() -> None:
    kinds = parse_kinds(pl.Series("kind", [" Human ", "LLM-judge", "llm  judge", "dog", None]))
    assert (kinds.name, kinds.to_list()) == ("kind", ["human", "metric", "metric", None, None])


def test_people_and_models() -> None:
    human = ["human", "expert_12", "arena_user", "annotator", "author_3"]
    assert [kind_of_label(label) for label in human] == ["human"] * 5
    machines = ["gpt-4", "claude 3", "llm", "human_gpt4", "user_gpt"]
    assert [kind_of_label(label) for label in machines] == ["metric"] * 5
    assert [kind_of_label(label) for label in ("Claude", "Bert", "Anna")] == [""] * 3
    assert all(is_model_name(label) for label in ("gpt4", "llama-3", "gpt", "lm", "my qwen", "qwen2"))
    assert not any(is_model_name(label) for label in ("Llama", "bert", "auto", "qwen", "anna 2"))
    assert [looks_like_rater(part) for part in ("3", "r1", "ann", "r", "rr1", "1r")] == [
        True,
        True,
        looks_human("ann"),
        False,
        False,
        False,
    ]
    people = ["reviewer_email", "name_of_annotator", "judged_by", "auditor_2"]
    assert [looks_like_person(name) for name in people] == [True] * 4
    assert [looks_like_person(name) for name in ("annotator_score", "llm_reviewer", "id", "user")] == [False] * 4
    assert [looks_like_person(name) for name in ("annotated_by_id_2", "by_reviewer", "reviewer by")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("names", "averages"),
    [
        (["human_1", "human_2", "human_avg", "mean_length"], ["human_avg"]),
        (["fluency_1", "fluency_2", "fluency_mean", "fluency_std"], ["fluency_mean", "fluency_std"]),
        (["fluency", "mean_fluency", "count"], ["mean_fluency", "count"]),
        (["human", "average"], ["average"]),
        (["human_avg"], []),
        (["human_1", "human_n", "human_std"], ["human_n", "human_std"]),
        (["gpt_avg", "bleu_mean"], []),
    ],
)
def test_columns_that_are_computed_from_ratings(names: list[str], averages: list[str]) -> None:
    assert find_averages(names) == averages


def test_columns_of_a_role_come_by_reliability() -> None:
    assert find_columns("system", ["zzz", "provider", "sytem", "model"]) == ["model", "provider", "sytem"]
    assert find_columns("system", ["judge_model", "model_name"])[0] == "model_name"
    assert find_columns("text", ["best_output", "output_reference"]) == ["best_output"]
    assert find_columns("rater", ["rated_on", "zzz"]) == ["rated_on"]
    assert find_columns("winner", ["my_preference", "zzz"]) == ["my_preference"]
    assert find_columns("item", ["zzz"]) == []
    assert find_columns("aspect", ["zzz", "criterion_name"]) == ["criterion_name"]
    assert find_columns("item", ["item_name"]) == []
    names = ["my outputs", "preferred_output", "question_answer", "output_name"]
    assert find_columns("text", names) == ["my outputs"]


def test_pairs_of_columns_differ_only_in_the_side() -> None:
    assert find_side_pairs(["model_a", "score", "model_b"]) == [("model_a", "model_b")]
    assert find_side_pairs(["model_1", "model_2", "model_3"]) == [("model_1", "model_2")]
    assert find_side_pairs(["model_a", "output_b"]) == []
    assert find_side_pairs(["m2", "m1"]) == [("m1", "m2")]
    for first, second in SIDES:
        assert find_side_pairs([f"{second} x", f"{first} x"]) == [(f"{first} x", f"{second} x")]
    assert find_side_pairs(["a_x", "b_x", "x_a", "x_b"]) == [("a_x", "b_x"), ("x_a", "x_b")]
