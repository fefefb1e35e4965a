"""Tables with unfamiliar column names are read, or the error proposes a mapping that reads them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest

import custodes as cu

SYSTEMS = ("gpt-x", "claude-y", "llama-z")
PAIRS = (("gpt-x", "claude-y"), ("claude-y", "llama-z"), ("llama-z", "gpt-x"))
ITEMS = 12


def text(item: int, system: str) -> str:
    return f"What {system} has to say of topic {item}."


def prompt(item: int) -> str:
    return f"Write a sentence about topic {item}."


def stamp(item: int) -> str:
    return f"2026-03-{item + 1:02d}T10:00:00Z"


def mark(item: int, system: str, step: int = 1) -> int:
    return 1 + (item * step + len(system)) % 5


def share(item: int, system: str) -> float:
    return (item * 7 + len(system)) % 11 / 11


def outputs(row: Callable[[int, str], dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame([row(item, system) for item in range(ITEMS) for system in SYSTEMS])


def battles(row: Callable[[int, str, str, int], dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame([row(item, *PAIRS[item % 3], (item % 4) % 3) for item in range(2 * ITEMS)])


def labelled(row: Callable[[int, str | None], dict[str, Any]], words: tuple[str, str] = ("no", "yes")) -> pl.DataFrame:
    return pl.DataFrame([row(case, words[case % 3 > 0] if case % 2 else None) for case in range(60)])


def annotations(who: str, names: tuple[str, ...] = ("ann", "ben")) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"doc": item, "bot": system, who: name, "fluency": mark(item, system), "depth": mark(item, system, 2)}
            | {"latency": share(item, system), "work_time_s": 10 + item}
            for item in range(ITEMS)
            for system in SYSTEMS
            for name in names
        ]
    )


TEXTS: dict[str, tuple[pl.DataFrame, tuple[str, ...]]] = {
    "German": (
        outputs(
            lambda item, system: {
                "ID": item,
                "Modell": system,
                "Eingabe": prompt(item),
                "Ausgabe": text(item, system),
                "Referenz": f"A reference of {item}.",
            }
        ),
        SYSTEMS,
    ),
    "French with accents": (
        outputs(
            lambda item, system: {
                "identifiant": item,
                "système": system,
                "question": prompt(item),
                "réponse": text(item, system),
            }
        ),
        SYSTEMS,
    ),
    "captions with several references": (
        pl.DataFrame(
            [
                {"image": f"{item}.jpg", "caption_blip": text(item, "blip"), "caption_git": text(item, "git")}
                | {f"reference_caption_{number}": f"Reference {number} of {item}." for number in (1, 2)}
                for item in range(ITEMS)
            ]
        ),
        ("blip", "git"),
    ),
    "one system with times": (
        pl.DataFrame(
            [
                {"timestamp": stamp(item), "user_input": prompt(item), "assistant_output": text(item, "it")}
                | {"latency_ms": 100 + item}
                for item in range(ITEMS)
            ]
        ),
        ("table",),
    ),
}
"""A table of texts and its systems."""


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str) -> None:
    frame, systems = TEXTS[name]
    study = cu.read(frame)
    assert study.outputs is not None
    assert set(study.outputs.texts["system"]) == set(systems)
    assert study.outputs.texts.height == ITEMS * len(systems)
    assert not study.ratings.frame.height


Expected = tuple[pl.DataFrame, tuple[str, ...], tuple[str, ...], tuple[str, ...], int]
"""A table, its annotators, metrics and aspects, and the number of items."""


def scored(more: Callable[[int, str], dict[str, Any]], **names: str) -> pl.DataFrame:
    item, system = names.get("item", "sample"), names.get("system", "model")
    return outputs(lambda number, name: {item: number, system: name, **more(number, name)})


PROPOSED: dict[str, Expected] = {
    "times and costs beside aspects": (annotations("annotator"), ("ann", "ben"), (), ("fluency", "depth"), ITEMS),
    "a common path": (
        annotations("WorkerId").rename({"fluency": "Answer.fluency", "depth": "Answer.depth"}),
        *(("ann", "ben"), (), ("fluency", "depth"), ITEMS),
    ),
    "annotators and a model": (
        annotations("Bewerter", ("Bert", "gpt-4o"))
        .drop("depth", "latency", "work_time_s")
        .rename({"fluency": "Punkte"}),
        *(("Bert",), ("gpt-4o",), (), ITEMS),
    ),
    "kinds in words": (
        pl.concat(
            scored(lambda item, name: {"score": mark(item, name)}).with_columns(
                evaluator=pl.lit(who), evaluator_type=pl.lit(kind)
            )
            for who, kind in (("anna", "Human"), ("judge-1", "LLM"))
        ),
        *(("anna",), ("judge-1",), (), ITEMS),
    ),
    "an id for every row": (
        scored(
            lambda item, name: {
                "row_id": f"{item}-{name}",
                "input": prompt(item),
                "human_score": mark(item, name),
                "judge_score": mark(item, name, 2),
            },
            item="sample_nr",
        ),
        *(("human_score",), ("judge_score",), (), ITEMS),
    ),
    "aspects by people and by a model": (
        scored(
            lambda item, name: {
                "created_at": stamp(item),
                "accuracy_human": mark(item, name),
                "accuracy_llm": mark(item, name, 2),
                "toxicity_human": mark(item, name, 3),
                "toxicity_llm": mark(item, name, 4),
            }
        ),
        *(("human",), ("llm",), ("accuracy", "toxicity"), ITEMS),
    ),
    "objects by person": (
        scored(
            lambda item, name: {
                "ratings": {who: {"fluency": mark(item, name), "depth": mark(item, name, 2)} for who in ("al", "bo")},
                "metrics": {"bleu": share(item, name)},
            }
        ),
        *(("al", "bo"), ("bleu",), ("fluency", "depth"), ITEMS),
    ),
    "objects by system": (
        pl.DataFrame(
            [
                {"question": prompt(item)}
                | {
                    "models": {
                        name: {"output": text(item, name), "human": mark(item, name), "bleu": share(item, name)}
                        for name in SYSTEMS
                    }
                }
                for item in range(ITEMS)
            ]
        ),
        *(("human",), ("bleu",), (), ITEMS),
    ),
    "metrics in a list": (
        pl.DataFrame(
            [
                {"name": f"test_{item}", "input": prompt(item), "actualOutput": text(item, "it")}
                | {
                    "metricsData": [
                        {
                            "name": metric,
                            "threshold": 0.5,
                            "success": True,
                            "score": share(item, metric),
                            "reason": "So.",
                        }
                        for metric in ("Relevancy", "Bias")
                    ]
                }
                for item in range(ITEMS)
            ]
        ),
        *((), ("Relevancy", "Bias"), (), ITEMS),
    ),
}


def proposed(source: Any) -> dict[str, Any]:
    with pytest.raises(cu.InputError) as error:
        cu.read(source)
    columns: dict[str, Any] = ast.literal_eval(str(error.value).split("(in Python columns=")[1][:-1])
    return columns


@pytest.mark.parametrize("name", PROPOSED)
def test_scores(name: str) -> None:
    frame, humans, metrics, aspects, items = PROPOSED[name]
    study = cu.read(frame, columns=proposed(frame))
    assert set(study.humans) == set(humans)
    assert set(study.metrics) == set(metrics)
    assert set(filter(None, study.ratings.frame["aspect"].unique())) == set(aspects)
    assert study.ratings.frame["item"].n_unique() == items


VERDICTS: dict[str, tuple[pl.DataFrame, tuple[str, ...], int]] = {
    "the winner and the loser": (
        battles(lambda item, a, b, better: {"q": item, "winner": (a, b)[better == 1], "loser": (b, a)[better == 1]}),
        *(("human",), 24),
    ),
    "chosen and rejected": (
        battles(
            lambda item, a, b, better: {
                "prompt": prompt(item),
                "chosen": text(item, a),
                "rejected": text(item, b),
                "chosen_model": a,
                "rejected_model": b,
            }
        ),
        *(("human",), 24),
    ),
    "a column for each rater": (
        battles(
            lambda item, a, b, better: {
                "item": item,
                "model_a": a,
                "model_b": b,
                "human_choice": "AB"[better % 2],
                "gpt4_choice": ("A", "B", "tie")[better],
            }
        ),
        *(("human", "gpt4"), 48),
    ),
    "columns for raters that share no word": (
        battles(
            lambda item, a, b, better: {
                "item": item,
                "model_a": a,
                "model_b": b,
                "verdict of experts": "AB"[better % 2],
                "preferred": ("A", "B", "tie")[better],
            }
        ),
        *(("verdict of experts", "preferred"), 48),
    ),
    "German": (
        battles(
            lambda item, a, b, better: {
                "Frage": item,
                "System A": a,
                "System B": b,
                "Gewinner": ("A", "B", "unentschieden")[better],
                "Prüfer": "Anna",
            }
        ),
        *(("Anna",), 24),
    ),
    "objects of both sides": (
        battles(
            lambda item, a, b, better: {
                "id": item,
                "a": {"model": a, "output": text(item, a)},
                "b": {"model": b, "output": text(item, b)},
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
    assert columns["winner"] == "{rater}_choice"
    study = cu.read(frame, columns=columns)
    assert study.humans == ("human",)
    ours = study.preferences.frame.filter(rater="gpt4")
    alone = cu.read(frame.drop("human_choice"), columns={"winner": "gpt4_choice"}).preferences.frame
    assert ours["preference"].to_list() == alone["preference"].to_list()
    with pytest.raises(cu.OptionError, match="a pattern of verdicts needs {rater}"):
        cu.read(frame, columns={"winner": "{aspect}_choice"})
    with pytest.raises(cu.OptionError, match="the raters are named twice"):
        cu.read(frame.with_columns(rater=pl.lit("x")), columns=columns)


LABELS: dict[str, tuple[pl.DataFrame, tuple[str, ...], tuple[str, ...]]] = {
    "thumbs of users": (
        labelled(
            lambda case, word: {
                "conversation_id": case,
                "user_feedback": word,
                "llm_verdict": "pass",
                "at": stamp(case % 9),
            },
            ("thumbs_down", "thumbs_up"),
        ),
        *(("user_feedback",), ("llm_verdict",)),
    ),
    "German": (
        labelled(lambda case, word: {"Fall": case, "Mensch": word, "Richter": "ja"}, ("nein", "ja")),
        *(("Mensch",), ("Richter",)),
    ),
    "a truth and a prediction beside texts": (
        labelled(
            lambda case, word: {
                "question": prompt(case),
                "answer": text(case, "it"),
                "ground_truth_label": word,
                "predicted_label": "yes",
            }
        ),
        *(("ground_truth_label",), ("predicted_label",)),
    ),
    "a flag alone": (
        labelled(lambda case, word: {"trace_id": f"t{case}", "is_hallucination": case % 3 == 0, "judge_reason": "So."}),
        *((), ("is_hallucination",)),
    ),
    "signs": (
        labelled(lambda case, word: {"id": case, "human": word, "judge": "👍"}, ("👎", "👍")),
        *(("human",), ("judge",)),
    ),
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
    frame = labelled(
        lambda case, word: {
            "trace_id": case // 2,
            "annotator_type": "human" if case % 2 else "llm",
            "annotator": "anna" if case % 2 else "judge-1",
            "label": word or "no",
            "criterion": "accuracy",
        }
    )
    study = cu.read(frame)
    assert (study.humans, study.metrics, study.aspects) == (("anna",), ("judge-1",), ("accuracy",))


def test_scores_in_a_list_of_each_trace() -> None:
    def entries(case: int) -> Iterator[dict[str, Any]]:
        yield {"id": f"e{case}", "name": "correct", "value": case % 3 > 0, "source": "EVAL"}
        if case % 2:
            yield {"id": f"a{case}", "name": "correct", "value": True, "source": "ANNOTATION"}

    frame = pl.DataFrame(
        [
            {"id": f"t{case}", "name": "chat", "input": prompt(case), "output": "Yes.", "scores": list(entries(case))}
            for case in range(40)
        ]
    )
    study = cu.read(frame, columns=proposed(frame))
    assert (study.humans, study.metrics, study.aspects) == (("ANNOTATION",), ("EVAL",), ("correct",))
    assert study.ratings.frame.height == 60


def test_scores_of_one_system_are_named_like_the_file() -> None:
    frame = pl.DataFrame({"id": range(30), "human_score": [1.5, 2.5, 3] * 10, "judge_score": [1.5, 2.25, 2.75] * 10})
    study = cu.read(frame, columns=proposed(frame))
    assert study.systems == ("table",)
    assert (study.humans, study.metrics) == (("human_score",), ("judge_score",))
    assert "no column names the system" in " ".join(note.message for note in study.notes)
