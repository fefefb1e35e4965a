"""Tables with unfamiliar column names are read, or the error proposes a mapping that reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import custodes as cu
from tests.data.mapping.tables import proposed, rows
from tests.data.study_parts import outputs_of

SYSTEMS = ("gpt-x", "claude-y", "llama-z")
PAIRS = (("gpt-x", "claude-y"), ("claude-y", "llama-z"), ("llama-z", "gpt-x"))
ITEMS = 12


def outputs(columns: str) -> pl.DataFrame:
    return pl.DataFrame(rows(columns, SYSTEMS))


def battles(row: Callable[[int, str, str, int], dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame([row(item, *PAIRS[item % 3], (item % 4) % 3) for item in range(2 * ITEMS)])


def annotations(who: str, names: tuple[str, ...] = ("ann", "ben")) -> pl.DataFrame:
    numbers = "fluency=mark, depth=mark:2, latency=share, work_time_s=number"
    return pl.concat(outputs(f"doc=item, bot=system, {who}={name}, {numbers}") for name in names)


TEXTS: dict[str, tuple[pl.DataFrame, tuple[str, ...]]] = {
    "German": (outputs("ID=item, Modell=system, Eingabe=prompt, Ausgabe=text, Referenz=text:refA"), SYSTEMS),
    "French with accents": (outputs("identifiant=item, système=system, question=prompt, réponse=text"), SYSTEMS),
    "captions with several references": (
        pl.DataFrame(
            rows(
                "image=item, caption_blip=text:blip, caption_git=text:git, reference_caption_1=text:1, "
                "reference_caption_2=text:2"
            )
        ).with_columns(image=pl.format("{}.jpg", "image")),
        ("blip", "git"),
    ),
    "one system with times": (
        pl.DataFrame(rows("timestamp=time, user_input=prompt, assistant_output=text:it, latency_ms=number")),
        ("table",),
    ),
}
"""A table of texts and its systems."""


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str) -> None:
    frame, systems = TEXTS[name]
    study = cu.read(frame)
    assert set(outputs_of(study).texts["system"]) == set(systems)
    assert outputs_of(study).texts.height == ITEMS * len(systems)
    assert not study.ratings.frame.height


PROPOSED: dict[str, tuple[pl.DataFrame, str]] = {
    "times and costs beside aspects": (annotations("annotator"), "ann, ben | | fluency, depth"),
    "a common path": (
        annotations("WorkerId").rename({"fluency": "Answer.fluency", "depth": "Answer.depth"}),
        "ann, ben | | Answer.fluency, Answer.depth",
    ),
    "annotators and a model": (
        annotations("Bewerter", ("Bert", "gpt-4o"))
        .drop("depth", "latency", "work_time_s")
        .rename({"fluency": "Punkte"}),
        "Bert | gpt-4o |",
    ),
    "kinds in words": (
        pl.concat(
            outputs(f"sample=item, model=system, score=mark, evaluator={who}, evaluator_type={kind}")
            for who, kind in (("anna", "Human"), ("judge-1", "LLM"))
        ),
        "anna | judge-1 |",
    ),
    "an id for every row": (
        outputs("sample_nr=item, model=system, input=prompt, human_score=mark, judge_score=mark:2").with_columns(
            row_id=pl.format("{}-{}", "sample_nr", "model")
        ),
        "human_score | judge_score |",
    ),
    "aspects by people and by a model": (
        outputs(
            "sample=item, model=system, created_at=time, accuracy_human=mark, accuracy_llm=mark:2, "
            "toxicity_human=mark:3, toxicity_llm=mark:4"
        ),
        "human | llm | accuracy, toxicity",
    ),
}
"""A table, and its annotators, metrics and aspects."""


@pytest.mark.parametrize("name", PROPOSED)
def test_scores(name: str) -> None:
    frame, expected = PROPOSED[name]
    study = cu.read(frame, columns=proposed(frame))
    humans, metrics, aspects = ({*filter(None, labels.strip().split(", "))} for labels in expected.split("|"))
    assert (set(study.humans), set(study.metrics)) == (humans, metrics)
    assert set(filter(None, study.ratings.frame["aspect"].unique())) == aspects
    assert study.ratings.frame["item"].n_unique() == ITEMS


def text(item: int, system: str) -> str:
    return f"What {system} has to say of topic {item}."


VERDICTS: dict[str, tuple[pl.DataFrame, tuple[str, ...], int]] = {
    "the winner and the loser": (
        battles(lambda item, a, b, better: {"q": item, "winner": (a, b)[better == 1], "loser": (b, a)[better == 1]}),
        *(("human",), 24),
    ),
    "chosen and rejected": (
        battles(
            lambda item, a, b, better: (
                {"prompt": f"Write about {item}.", "chosen": text(item, a)}
                | {"rejected": text(item, b), "chosen_model": a, "rejected_model": b}
            )
        ),
        *(("human",), 24),
    ),
    "a column for each rater": (
        battles(
            lambda item, a, b, better: (
                {"item": item, "model_a": a, "model_b": b}
                | {"human_choice": "AB"[better % 2], "gpt4_choice": ("A", "B", "tie")[better]}
            )
        ),
        *(("human_choice", "gpt4_choice"), 48),
    ),
    "columns for raters that share no word": (
        battles(
            lambda item, a, b, better: (
                {"item": item, "model_a": a, "model_b": b}
                | {"verdict of experts": "AB"[better % 2], "preferred": ("A", "B", "tie")[better]}
            )
        ),
        *(("verdict of experts", "preferred"), 48),
    ),
    "German": (
        battles(
            lambda item, a, b, better: (
                {"Frage": item, "System A": a, "System B": b, "Prüfer": "Anna"}
                | {"Gewinner": ("A", "B", "unentschieden")[better]}
            )
        ),
        *(("Anna",), 24),
    ),
    "objects of both sides": (
        battles(
            lambda item, a, b, better: {
                "id": item,
                **{side: {"model": name, "output": text(item, name)} for side, name in (("a", a), ("b", b))},
                "annotation": {"annotator": "ann", "winner": ("a", "b", "tie")[better], "time_spent": 10 + item},
            }
        ),
        *(("ann",), 24),
    ),
}
"""A table of verdicts, its raters and the number of verdicts."""


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts(name: str) -> None:
    frame, raters, n = VERDICTS[name]
    study = cu.read(frame, columns=proposed(frame))
    assert set(study.systems) == set(SYSTEMS)
    assert set(study.raters.frame["rater"]) == set(raters)
    assert study.preferences.frame["preference"].drop_nulls().len() == n


def test_a_pattern_of_verdicts_says_who_gave_them() -> None:
    frame = VERDICTS["a column for each rater"][0]
    columns = proposed(frame)
    assert columns["winner"] == "{rater:human_choice,gpt4_choice}"
    columns = {"winner": "{rater}_choice"}
    study = cu.read(frame, columns=columns)
    assert study.humans == ("human",)
    topics = frame.with_columns(topic_choice=pl.lit("news"))
    assert cu.read(topics, columns={**columns, "group": "topic_choice"}).raters.frame["rater"].to_list() == (
        study.raters.frame["rater"].to_list()
    )
    ours = study.preferences.frame.filter(rater="gpt4")
    alone = cu.read(frame.drop("human_choice"), columns={"winner": "gpt4_choice"}).preferences.frame
    assert ours["preference"].to_list() == alone["preference"].to_list()
    with pytest.raises(cu.OptionError, match="a pattern of verdicts needs {rater}"):
        cu.read(frame, columns={"winner": "{aspect}_choice"})
    with pytest.raises(cu.OptionError, match="the raters are named twice"):
        cu.read(frame.with_columns(rater=pl.lit("x")), columns=columns)
    # raters and orders: model_a and model_b are no verdicts, and a pattern is part of a proposal
    orders = frame.rename({"human_choice": "human_AB", "gpt4_choice": "gpt4_BA"})
    columns = {"winner": "{rater}_{order}"}
    assert cu.read(orders, columns=columns).preferences.frame["rater"].value_counts()["count"].to_list() == [24, 24]
    mapping = proposed(orders.rename({"model_a": "first", "model_b": "second"}), columns=columns)
    assert mapping == {"system_a": "first", "system_b": "second", **columns}


def labelled(columns: str, human: str = "", words: tuple[str, str] = ("no", "yes")) -> pl.DataFrame:
    """Return 60 rows, with a human label in every second row."""
    labels = [words[case % 3 > 0] if case % 2 else None for case in range(60)]
    frame = pl.DataFrame(rows(columns, items=60))
    return frame.with_columns(pl.Series(human, labels)) if human else frame


LABELS: dict[str, tuple[pl.DataFrame, tuple[str, ...], tuple[str, ...]]] = {
    "thumbs of users": (
        labelled("conversation_id=item, llm_verdict=pass", "user_feedback", ("thumbs_down", "thumbs_up")),
        *(("user_feedback",), ("llm_verdict",)),
    ),
    "German": (labelled("Fall=item, Richter=ja", "Mensch", ("nein", "ja")), ("Mensch",), ("Richter",)),
    "a truth and a prediction beside texts": (
        labelled("question=prompt, answer=text:it, predicted_label=yes", "ground_truth_label"),
        *(("ground_truth_label",), ("predicted_label",)),
    ),
    "a flag alone": (
        labelled("trace_id=item, judge_reason=So.").with_columns(is_hallucination=pl.col("trace_id") % 3 == 0),
        *((), ("is_hallucination",)),
    ),
    "signs": (labelled("id=item, judge=👍", "human", ("👎", "👍")), ("human",), ("judge",)),
}
"""A table of labels, its annotators and its metrics."""


@pytest.mark.parametrize("name", LABELS)
def test_labels(name: str) -> None:
    frame, humans, metrics = LABELS[name]
    study = cu.read(frame)
    assert study.labels
    assert (study.humans, study.metrics) == (humans, metrics)
    assert study.ratings.frame.height == 60 * len(metrics) + 30 * len(humans)


def test_a_row_for_each_label_with_kinds() -> None:
    person, judge = (
        f"trace_id=item, annotator_type={kind}, annotator={who}, criterion=accuracy"
        for kind, who in (("human", "anna"), ("llm", "judge-1"))
    )
    study = cu.read(pl.concat([labelled(person, "label")[1::2], labelled(judge, "label")[1::2]]))
    assert (study.humans, study.metrics, study.aspects) == (("anna",), ("judge-1",), ("accuracy",))


def test_scores_of_one_system_are_named_like_the_file() -> None:
    frame = pl.DataFrame({"id": range(30), "human_score": [1.5, 2.5, 3] * 10, "judge_score": [1.5, 2.25, 2.75] * 10})
    study = cu.read(frame, columns=proposed(frame))
    assert study.systems == ("table",)
    assert (study.humans, study.metrics) == (("human_score",), ("judge_score",))
    assert "no column names the system" in " ".join(note.message for note in study.notes)


@pytest.mark.parametrize(("column", "kind"), [("annotator", "human"), ("metric", "metric")])
def test_the_name_of_the_column_of_raters_gives_their_kind_and_only_people_are_noted(column: str, kind: str) -> None:
    rows = [(f"i{i}", s, r, i % 3 + k) for i in range(6) for k, s in enumerate("AB") for r in ("r1", "r2")]
    frame = pl.DataFrame(rows, schema=["item", "system", column, "score"], orient="row")
    study = cu.read(frame, columns={"rater": column})
    assert set(study.raters.kind.values()) == {kind}
    assert [note.rule for note in study.notes].count("annotators-by-column") == (kind == "human")
