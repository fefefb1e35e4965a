"""Scores as published by RewardBench 2 and RewardBench: best of four, ties, model folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.data.reading import read
from tests.data.input_errors import reading_error
from tests.data.readers.logs import rewardbench, rewardbench2, write_json
from tests.data.study_parts import outputs_of


def test_the_person_prefers_what_is_right_to_what_is_wrong(tmp_path: Path) -> None:
    study = read(write_json(tmp_path / "reward.json", rewardbench2()))
    row = cu.agreement(study, resamples=0).metrics.row(0, named=True)
    assert (row["n"], row["sample_accuracy"]) == (8, 7 / 8)  # 3 + 3 + 2 pairs, of which one of Math is wrong
    assert study.sides
    assert study.raters.kind == {"ref": "human", "org/reward": "metric"}
    verdicts = study.preferences.frame.select("item", "system_a", "system_b", "preference").rows()
    rest = ["rejected_1", "rejected_2", "rejected_3"]
    assert verdicts == [
        *(("Factuality/1", "chosen", wrong, 1) for wrong in rest),
        *(("Math/2", "chosen", wrong, 1) for wrong in rest),
        ("Ties/7", "chosen_1", "rejected", 1),
        ("Ties/7", "chosen_2", "rejected", 1),
    ]
    assert study.ratings.frame.filter(item="Ties/7").select("system", "score").rows() == [
        ("chosen_1", 2.0),
        ("chosen_2", 1.5),
        ("rejected", 0.5),
    ]
    assert study.items.frame.select("item", "group").rows()[1] == ("Math/2", "Math")
    assert outputs_of(study).texts.row(1) == ("Factuality/1", "rejected_1", "b")


def test_the_first_version_has_two_sides(tmp_path: Path) -> None:
    study = read(write_json(tmp_path / "reward.json", rewardbench()))
    assert study.ratings.frame.select("item", "system", "score").rows() == [
        ("alpacaeval-easy/30", "chosen", 1.5),
        ("alpacaeval-easy/30", "rejected", 0.5),
        ("alpacaeval-easy/31", "chosen", 0.5),
        ("alpacaeval-easy/31", "rejected", 0.75),
    ]
    assert study.preferences.frame.height == 2
    assert outputs_of(study).texts["text"].to_list() == ["a", "b", "c", "d"]
    assert read(write_json(tmp_path / "bare.json", rewardbench(text_chosen=None, text_rejected=None))).outputs is None


def test_several_models_in_a_folder_or_in_a_row(tmp_path: Path) -> None:
    files = [
        write_json(tmp_path / f"eval-set-scores/{name}.json", rewardbench2(model=name))
        for name in ("org/one", "org/two")
    ]
    for study in (read(tmp_path / "eval-set-scores"), read(*files)):
        assert study.metrics == ("org/one", "org/two")
        assert study.preferences.frame.height == 8
        assert study.sides


def test_sides_are_not_ranked(tmp_path: Path) -> None:
    study = read(write_json(tmp_path / "reward.json", rewardbench2()))
    rules = cu.check(study).problems.filter(severity="warning")["rule"].to_list()
    assert "sides" in rules
    kinds = set(cu.verdict(study, resamples=20).verdict["kind"])
    assert not kinds & {"best", "labels", "favours"}
    assert "sides" in [note.rule for note in cu.leaderboard(study, resamples=20).notes]


def test_the_data_are_joined_to_scores_of_ones_own(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "subset": "Math", "prompt": "q", "chosen": ["a"], "rejected": ["b", "c", "d"], "num_correct": 1},
        {"id": "7", "subset": "Ties", "prompt": "r", "chosen": ["i", "j"], "rejected": ["k"], "num_correct": 2},
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "data.parquet")
    base = {"item": "Math/1", "rater": "mine", "kind": "metric", "aspect": ""}
    own_scores = [base | {"system": "chosen", "score": 2}, base | {"system": "rejected_2", "score": 3}]
    for data in (tmp_path / "data.parquet", write_json(tmp_path / "data.json", rows)):
        study = read(data, pl.DataFrame(own_scores))
        assert study.preferences.frame.height == 5
        assert study.sides
        assert outputs_of(study).texts.rows()[2] == ("Math/1", "rejected_2", "c")
        assert outputs_of(study).sources.row(1)[:3] == ("Ties/7", "r", [])
        assert cu.agreement(study, resamples=0).metrics["sample_accuracy"].to_list() == [0]


def test_the_data_of_the_first_version_hold_texts(tmp_path: Path) -> None:
    row = {"id": 3, "subset": "math-prm", "prompt": "q", "chosen": "[a] b", "rejected": "c", "chosen_model": "m"}
    study = read(write_json(tmp_path / "data.json", [row]))
    assert study.preferences.frame.select("item", "system_a", "system_b", "preference").rows() == [
        ("math-prm/3", "chosen", "rejected", 1)
    ]
    assert outputs_of(study).texts["text"].to_list() == ["[a] b", "c"]


def test_the_data_may_hold_the_scores_of_models(tmp_path: Path) -> None:
    row = {"id": 3, "subset": "math", "prompt": "q", "chosen": "b", "rejected": "c", "chosen_model": "m", "n": 1}
    rows = [row | {"rm_chosen": 2.5, "rm_rejected": 1}, row | {"id": 4, "rm_chosen": None, "rm_rejected": 1.5}]
    pl.DataFrame(rows).write_csv(tmp_path / "data.csv")
    for data in (write_json(tmp_path / "data.json", rows), tmp_path / "data.csv"):
        study = read(data)
        assert study.ratings.frame.select("item", "system", "rater", "score").rows() == [
            ("math/3", "chosen", "rm", 2.5),
            ("math/3", "rejected", "rm", 1.0),
            ("math/4", "rejected", "rm", 1.5),
        ]
        assert [note.message for note in study.notes][1:] == [
            f"{data.name}: columns not used: chosen_model, n",
            f"{data.name}: rm_chosen, rm_rejected are read as scores of the right and the wrong output by rm",
        ]
        assert cu.agreement(study, resamples=0).metrics["sample_accuracy"].to_list() == [1]
    # The columns of texts, labels and subsets are optional.
    scores = pl.DataFrame({"rm_chosen": [2.5, 1.0], "rm_rejected": [1.0, 1.5]})
    (message,) = [note.message for note in cu.read(scores).notes if note.rule == "scored-pairs"]
    assert message == "table: rm_chosen, rm_rejected are read as scores of the right and the wrong output by rm"
    result = cu.agreement(cu.read(scores), resamples=0).metrics
    assert result.select("metric", "sample_accuracy").rows() == [("rm", 0.5)]
    # A column `model` names no reward model; lengths and human ratings are no scores of a model.
    named = pl.DataFrame({"model": "gpt", "skywork_chosen": [2.5], "skywork_rejected": [1.0]})
    others = ("len_chosen", "len_rejected", "human_chosen", "human_rejected")
    study = cu.read(named.with_columns(pl.lit(7).alias(name) for name in others))
    assert study.metrics == ("skywork",)
    assert f"columns not used: model, {', '.join(others)}" in [note.message.partition(": ")[2] for note in study.notes]
    texts = {"id": 3, "subset": "math", "prompt": "q", "chosen": "b", "rejected": "c"}
    lengths = write_json(tmp_path / "lengths.json", [texts | {"n_tokens_chosen": 3, "n_tokens_rejected": 4}])
    assert read(lengths).metrics == ()
    assert "prompt '7' occurs twice" in reading_error(scores.with_columns(id=pl.lit(7)))
    several = [row | {"chosen": ["a", "b"], "rejected": ["c"], "rm_chosen": 2, "rm_rejected": 1}]
    assert reading_error(write_json(tmp_path / "several.json", several)) == (
        "several.json, row 1: 2 chosen and 1 rejected texts have only one score each (rm_chosen, rm_rejected); "
        "give the scores in another file"
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"scores_chosen": []},
            "reward.json: the lists have different lengths (0, 2), but each needs one entry per prompt; the file "
            "may be truncated",
        ),
        (
            {"text_rejected": []},
            "reward.json: the lists have different lengths (0, 2), but each needs one entry per prompt; the file "
            "may be truncated",
        ),
        (
            {"scores": [[1, 2]]},
            "reward.json: the lists have different lengths (1, 3), but each needs one entry per prompt; the file "
            "may be truncated",
        ),
        (
            {"num_correct": [5, 1, 2]},
            "reward.json: entry 1 has 4 scores, 4 texts and num_correct 5; give one score for each text, and a "
            "num_correct that does not exceed the number of texts",
        ),
        ({"scores": [["x", 1, 2, 3], [0] * 4, [0] * 3]}, "reward.json: entry 1: score 'x' is not a number"),
        (
            {"num_correct": None},
            "reward.json: this is not a file of scores of RewardBench, as required lists are missing: "
            "RewardBench 2 has scores and num_correct, RewardBench has scores_chosen and scores_rejected",
        ),
        (
            {"id": ["1", "1", "1"], "subset": ["a"] * 3},
            "reward.json: prompt 'a/1' occurs twice (again in entry 2); remove one",
        ),
        (
            {"num_correct": [4, 4, 3]},
            "reward.json: no prompt has both a correct and an incorrect completion, so nothing can be compared",
        ),
        ({"model": "ref"}, "reward.json: the model is named 'ref', the name of the human rater; rename the model"),
        (
            {"subset": 3},
            "reward.json: this does not have the layout of scores of RewardBench: Expected `array`, got `int` - "
            "at `$.subset`; it has the keys chat_template, id, model, model_type, num_correct, results, scores, "
            "subset and 1 more",
        ),
    ],
)
def test_bad_scores_are_one_line(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    scores = (rewardbench if changes.keys() & {"scores_chosen", "text_rejected"} else rewardbench2)(**changes)
    assert reading_error(write_json(tmp_path / "reward.json", scores)) == expected


def test_data_that_are_no_texts_are_one_line() -> None:
    row = {"id": ["1"], "subset": ["Math"], "prompt": ["q"], "chosen": [[[1]]], "rejected": [["b"]]}
    expected = "table, row 1: this does not have the layout of the data of RewardBench: Expected `str`, got `array` "
    assert reading_error(pl.DataFrame(row)).startswith(expected)
