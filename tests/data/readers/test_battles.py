"""Battles with verdicts as words or numbers, with and without raters."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.data.reading import read
from custodes.errors import InputError
from tests.data.input_errors import reading_error
from tests.data.study_parts import note_counts, note_messages
from tests.messages import exactly

BATTLES = pl.DataFrame({"item": [1, 2, 3, 4], "model_a": "A", "model_b": "B", "rater": "judge", "kind": "metric"})


def test_battles_without_a_rater_are_one_persons() -> None:
    study = read(BATTLES.drop("rater", "kind").with_columns(winner=pl.lit("tie")))
    assert study.raters.kind == {"human": "human"}
    assert [note.message for note in study.notes] == [
        "table: there is no column 'rater', so all verdicts are attributed to one annotator, 'human'"
    ]


@pytest.mark.parametrize("column", ["annotator", "evaluator", "judge_name", "Judge Model", "worker_id"])
def test_a_column_that_may_say_who_judged_is_not_made_one_person(column: str) -> None:
    frame = BATTLES.drop("rater", "kind").with_columns(pl.Series(column, list("pqpq")), winner=pl.lit("tie"))
    with pytest.raises(InputError) as error:
        read(frame)
    assert f"table: no column has the role rater, but {column!r} may name the raters; try --column" in str(error.value)
    assert f"rater={column}" in str(error.value)
    assert set(read(frame, columns={"rater": column}).raters.kind) == {"p", "q"}
    assert "rater-assumed" in {note.rule for note in read(frame.with_columns(pl.lit(None).alias(column))).notes}


def test_invalid_verdicts_keep_their_reason_and_verdicts_their_chances() -> None:
    rows = [
        ("1", "", "0.8", "0.1", "0.1"),
        ("", "refusal", "", "", ""),
        ("", "", "", "", ""),
        ("?", "label", "", "", ""),
    ]
    frame = pl.DataFrame(rows, schema=["preference", "invalid", "p_a", "p_tie", "p_b"], orient="row")
    frame = frame.with_columns(item=pl.int_range(4), system_a=pl.lit("B"), system_b=pl.lit("A"), rater=pl.lit("j"))
    study = read(frame, invalid="force")
    assert study.preferences.frame.select("preference", "p_a", "p_tie", "p_b").rows() == [(-1, 0.1, 0.1, 0.8)]
    assert study.preferences.missing["why"].to_list() == ["refusal", "empty", "label"]
    assert note_counts(study) == {"missing-verdict": 1, "invalid-verdict": 2, "unreadable-verdict": 1}
    message = "row 1 has both a preference and a reason in 'invalid' ('x'); remove the preference"
    assert message in reading_error(frame.head(1).with_columns(invalid=pl.lit("x")))


LABELLED = {"model_a": ["X"] * 3, "model_b": ["Y"] * 3, "winner": ["model_a", "model_b", "tie"]}


@pytest.mark.parametrize(("item", "further"), [("item", {}), ("question_id", {"language": ["en", "en", "de"]})])
def test_the_label_of_a_rater_shows_the_same_kind_in_every_reader(item: str, further: dict[str, list[str]]) -> None:
    for raters, kinds in (
        (["human", "gpt", "human"], {"human": "human", "gpt": "metric"}),
        (["arena_user", "author_3", "expert_1"], dict.fromkeys(["arena_user", "author_3", "expert_1"], "human")),
        (["anna", "ben", "anna"], {"anna": "", "ben": ""}),
    ):
        study = read(pl.DataFrame({item: ["1", "2", "3"], **LABELLED, "judge": raters, **further}))
        assert study.raters.kind == kinds
        rules = [note.rule for note in study.select(one_side=True).notes]
        assert ("unknown-kind" in rules) == ("" in kinds.values())


def test_words_for_kinds_are_read_and_a_metric_called_human_is_refused() -> None:
    frame = pl.DataFrame({"item": ["1", "2", "3"], **LABELLED, "judge": ["a", "b", "human"]})
    study = read(frame.with_columns(kind=pl.Series(["Annotator", "LLM judge", "metric"])))
    assert study.raters.kind == {"a": "human", "b": "metric", "human": "metric"}
    with pytest.raises(
        InputError,
        match=exactly(
            "table: a metric is named 'human', the name reserved for the combined annotators; select it with "
            "the option human, or rename it"
        ),
    ):
        study.select()


def test_battles_without_an_item_have_an_item_per_row() -> None:
    study = read(pl.DataFrame({**LABELLED, "language": ["en", "en", "de"]}))
    assert study.preferences.frame["item"].to_list() == ["table/1", "table/2", "table/3"]
    assert note_messages(study)["row-is-item"] == (
        "no column names the item. Each row is therefore a separate item, and verdicts in different rows are never on "
        "the same item; if a column has the item, map it to the role item"
    )
    with pytest.raises(InputError, match="--column item=prompt"):
        read(pl.DataFrame({**LABELLED, "prompt": ["a", "b", "c"]}))
    columns = {"h_vote": ["model_a", "tie", "model_b"], "judge_vote": ["tie", "tie", "model_b"]}
    systems = {name: LABELLED[name] for name in ("model_a", "model_b")}
    study = read(pl.DataFrame(systems | columns), columns={"winner": "{rater}_vote"})
    assert study.preferences.frame.group_by("item").agg("rater")["rater"].list.len().to_list() == [2, 2, 2]
    voters = pl.DataFrame({**LABELLED, "voter": ["v1", "v2", "v1"]})
    with pytest.raises(
        InputError,
        match=exactly(
            "table: no column has the role rater, but 'voter' may name the raters; try --column rater=voter "
            "(in Python columns={'rater': 'voter'}), or remove the column if one person gave all verdicts"
        ),
    ):
        read(voters)
    study = read(voters, columns={"rater": "voter", "cluster": "voter"})
    assert study.items.frame.select("item", "cluster").rows() == [
        ("table/1", "v1"),
        ("table/2", "v2"),
        ("table/3", "v1"),
    ]
    assert study.raters.kind == {"v1": "human", "v2": "human"}
    study = read(voters.rename({"voter": "rater"}), columns={"cluster": "rater"})
    assert study.items.frame["cluster"].to_list() == ["v1", "v2", "v1"]
    assert study.preferences.frame["rater"].to_list() == ["v1", "v2", "v1"]


def test_a_topic_is_not_taken_for_the_item() -> None:
    frame = pl.DataFrame({**LABELLED, "question_id": [1, 2, 3], "language": "en"})
    frame = pl.concat([frame, frame.with_columns(pl.col("question_id") + 3)])
    for name, is_item in (("topic", False), ("query", True)):
        rules = [note.rule for note in read(frame.with_columns(pl.Series(name, list("aaabbb")))).notes]
        assert ("item-in-each-row" in rules) == is_item
