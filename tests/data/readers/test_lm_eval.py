"""Samples of lm-evaluation-harness: files, model folders, directions, filters and values that are not scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from custodes.data.reading import read
from tests.data.input_errors import reading_error
from tests.data.readers.logs import MODELS, lm_eval_sample, write_json, write_lm_eval
from tests.data.study_parts import note_counts, note_messages, outputs_of

LINES = [lm_eval_sample(place, exact_match=value, perplexity=2.5) for place, value in enumerate((1.0, 0, True))]


def test_a_folder_of_models(tmp_path: Path) -> None:
    for model in MODELS:
        higher = {"exact_match": True, "perplexity": False}
        write_lm_eval(tmp_path / model.replace("/", "__"), LINES, model=model, higher=higher)
    study = read(tmp_path)
    assert study.systems == MODELS
    assert study.ratings.frame.select("item", "system", "rater", "score").head(3).rows() == [
        ("gsm8k/0", MODELS[0], "exact_match", 1.0),
        ("gsm8k/0", MODELS[0], "perplexity", 2.5),
        ("gsm8k/1", MODELS[0], "exact_match", 0.0),
    ]
    assert study.raters.direction == {"exact_match": 1, "perplexity": -1}
    assert study.items.frame.select("item", "group").row(0) == ("gsm8k/0", "gsm8k")
    assert outputs_of(study).texts.row(0) == ("gsm8k/0", MODELS[0], "answer 0")
    assert outputs_of(study).sources.row(0)[:3] == ("gsm8k/0", "Q: 0", ["42"])
    assert study.notes == ()


def test_one_file_takes_its_model_from_the_results_beside_it(tmp_path: Path) -> None:
    path = write_lm_eval(tmp_path / "folder", LINES)
    write_lm_eval(tmp_path / "folder", LINES, date="2025-09-09T00-00-00.0", model="org/other")
    assert read(path).systems == (MODELS[0],)
    bare = write_lm_eval(tmp_path / "org__birch", LINES, model=None)
    study = read(bare)
    assert study.systems == ("org__birch",)
    assert note_messages(study) == {
        "system-from-folder": "no results file names the model, so systems are named after their folders: org__birch"
    }


def test_filters_are_raters_of_their_own(tmp_path: Path) -> None:
    lines = [lm_eval_sample(0, filter=name, exact_match=1) for name in ("strict-match", "flexible-extract", "none")]
    study = read(write_lm_eval(tmp_path / "m", lines, higher={"exact_match": False}))
    assert study.raters.direction == dict.fromkeys(
        ("exact_match/strict-match", "exact_match/flexible-extract", "exact_match"), -1
    )


def test_values_that_are_no_number_of_a_sample_are_left_out_and_counted(tmp_path: Path) -> None:
    lines = [lm_eval_sample(0, acc=1, bleu=["yes", "no"], word_perplexity=[-3.5, 7])]
    study = read(write_lm_eval(tmp_path / "m", lines))
    assert study.metrics == ("acc",)
    assert [note.message for note in study.notes] == [
        (
            "samples_gsm8k_2025-01-02T03-04-05.678901.jsonl: 2 values are not single numbers and were dropped "
            "(bleu, word_perplexity)"
        )
    ]


def test_metrics_without_a_list_of_them_are_the_other_keys(tmp_path: Path) -> None:
    lines = [{name: entry for name, entry in lm_eval_sample(0, acc=1).items() if name != "metrics"}]
    assert read(write_lm_eval(tmp_path / "m", lines)).metrics == ("acc",)


def test_likelihoods_of_choices_are_no_texts(tmp_path: Path) -> None:
    lines = [lm_eval_sample(0, acc=1) | {"resps": [[[-1.5, False]], [[-2.5, False]]]}]
    assert read(write_lm_eval(tmp_path / "m", lines)).outputs is None
    lines = [lm_eval_sample(0, acc=1) | {"resps": [[-12.5]]}]
    assert read(write_lm_eval(tmp_path / "n", lines)).outputs is None


def test_of_several_runs_the_last_is_read(tmp_path: Path) -> None:
    write_lm_eval(tmp_path / "m", [lm_eval_sample(0, acc=0)], date="2025-01-01T00-00-00.1")
    write_lm_eval(tmp_path / "m", [lm_eval_sample(0, acc=1)], date="2025-02-01T00-00-00.1")
    study = read(tmp_path)
    assert study.ratings.frame["score"].to_list() == [1]
    assert note_counts(study) == {"older-runs": 1}
    assert note_messages(study) == {
        "older-runs": "only the last of several runs is read; these files are not read: "
        "samples_gsm8k_2025-01-01T00-00-00.1.jsonl"
    }


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            [{"doc_id": 0, "resps": "x"}],
            "samples_gsm8k_2025-01-02T03-04-05.678901.jsonl, line 1: this does not have the layout of samples of "
            "lm-evaluation-harness: Expected `array`, got `str` - at `$.resps`; it has the keys doc_id, resps",
        ),
        (
            [lm_eval_sample(0, acc=float("inf"))],
            "samples_gsm8k_2025-01-02T03-04-05.678901.jsonl: score is infinite or beyond 1e+100 in row 1; a score must "
            "be finite (empty where not rated)",
        ),
        (
            [lm_eval_sample(0, acc=1), lm_eval_sample(0, acc=1)],
            "samples_gsm8k_2025-01-02T03-04-05.678901.jsonl: acc scored item 'gsm8k/0' of org/aster more than "
            "once (2 such scores); give one run of each system",
        ),
        (
            [lm_eval_sample(0)],
            "samples_gsm8k_2025-01-02T03-04-05.678901.jsonl: no line has a metric; a metric is any key other "
            "than arguments, doc, doc_hash and 9 more",
        ),
    ],
)
def test_bad_samples_are_one_line(lines: list[dict[str, Any]], expected: str, tmp_path: Path) -> None:
    assert reading_error(write_lm_eval(tmp_path / "m", lines)) == expected


def test_results_of_another_layout_are_refused(tmp_path: Path) -> None:
    path = write_lm_eval(tmp_path / "m", LINES)
    write_json(tmp_path / "m" / "results_2025-01-02T03-04-05.678901.json", {"model_name": 3})
    assert reading_error(path) == (
        "results_2025-01-02T03-04-05.678901.json: this does not have the layout of results of lm-evaluation-harness: "
        "Expected `str | null`, got `int` - at `$.model_name`; it has the keys model_name"
    )


def test_directions_that_contradict_are_refused(tmp_path: Path) -> None:
    for task, up in (("a", True), ("b", False)):
        write_lm_eval(tmp_path / task, LINES, task=task, higher={"exact_match": up})
    assert reading_error(tmp_path).endswith(
        "test_directions_that_contradic0: higher is better for exact_match in one task and lower is better in another "
        "(b); read these tasks separately"
    )
