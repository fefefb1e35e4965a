"""AlpacaEval annotations in the layouts of the leaderboards and of the human annotations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from custodes.data.reading import read
from custodes.errors import InputError
from tests.data.input_errors import reading_error
from tests.data.study_parts import note_counts, note_messages, outputs_of
from tests.messages import exactly


def annotation(instruction: str, preference: object, **more: object) -> dict[str, object]:
    """Return a record of a leaderboard's annotations.json (github.com/tatsu-lab/alpaca_eval)."""
    return {
        "instruction": instruction,
        "output_1": f"Reference text on {instruction}.",
        "generator_1": "reference",
        "dataset": "own_set",
        "output_2": f"Text on {instruction}.",
        "generator_2": "model",
        "annotator": "weighted_alpaca_eval_gpt4_turbo",
        "preference": preference,
        "raw_completion": {"choices": [{"logprobs": [-0.5, -0.9]}]},
        **more,
    }


def write(folder: Path, records: list[dict[str, object]]) -> Path:
    path = folder / "annotations.json"
    path.write_text(json.dumps(records))
    return path


def test_preferences_between_1_and_2(tmp_path: Path) -> None:
    values = [1, 2, 1.5, 1.2, 1.8, 0, 0.0, float("nan"), None, 3, 1.0000048889]
    path = write(tmp_path, [annotation(f"do {k}", preference) for k, preference in enumerate(values)])
    assert reading_error(path).startswith(
        "annotations.json: 1 of 11 verdicts cannot be read ('3' in row 10); allowed: a number "
        "from 1 (output_1 better) to 2 (output_2 better), or 0"
    )
    study = read(path, invalid="force")
    # model < reference, so generator_1 = reference is system_b
    assert study.preferences.frame["preference"].to_list() == [-1, 1, 0, -1, 1, 0, 0, -1]
    assert study.raters.kind == {"weighted_alpaca_eval_gpt4_turbo": ""}
    assert note_counts(study) == {"graded-preference": 3, "old-draw": 2, "judge-failed": 2, "unreadable-verdict": 1}
    assert study.preferences.missing["why"].to_list() == ["unreadable"] * 3
    graded = [1, 2, 1.5, 1.2, 1.8, 1.5, 1.5, 1.0000048889]
    for column, expected in (
        ("p_a", [preference - 1 for preference in graded]),
        ("p_tie", [0] * 8),
        ("p_b", [2 - preference for preference in graded]),
    ):
        assert study.preferences.frame[column].to_list() == pytest.approx(expected)
    messages = note_messages(study)
    assert messages["graded-preference"] == (
        "3 of 8 preferences are graded (not whole numbers); each counts as a full win of the preferred output. "
        "AlpacaEval's win rate is the mean of (preference − 1) (43.8 %); with at least two systems besides the "
        "reference, the table 'reference' of leaderboard contains this win rate"
    )
    assert messages["old-draw"] == (
        "2 preferences are 0. In older versions of AlpacaEval, 0 means a draw, so these preferences count as ties"
    )
    two = read(
        write(tmp_path, [annotation("sing", 1.5, generator_2=name) for name in ("m", "n")] + [annotation("x", 1.2)])
    )
    assert "(preference − 1); with at least" in note_messages(two)["graded-preference"]


def test_texts_and_data_sets_come_along(tmp_path: Path) -> None:
    study = read(write(tmp_path, [annotation("sing", 1), annotation("dance", 2, dataset="other")]))
    assert outputs_of(study).texts.filter(item="sing", system="model")["text"].to_list() == ["Text on sing."]
    assert outputs_of(study).sources["source"].to_list() == ["sing", "dance"]
    assert study.items.frame.select("item", "group", "cluster").rows() == [
        ("sing", "own_set", ""),
        ("dance", "other", ""),
    ]


def test_people_number_themselves_and_have_no_generators(tmp_path: Path) -> None:
    records: list[dict[str, object]] = [
        {
            "instruction": "sing",
            "output_1": f"la {pair}",
            "output_2": f"do {pair}",
            "dataset": "own_set",
            "preference": 1 + (k + pair) % 2,
            "annotator_index": k,
            "datasplit": "eval",
        }
        for pair in range(2)
        for k in range(4)
    ]
    study = read(write(tmp_path, [*records, {**records[0], "instruction": "dance"}]))
    assert study.raters.kind == {f"human_{k}": "human" for k in range(4)}
    assert (study.systems, study.preferences.frame.height) == (("output_1", "output_2"), 9)
    marked, other, plain = study.items.frame["item"]
    assert marked.startswith("sing #")
    assert marked != other
    assert plain == "dance"
    assert study.items.frame["cluster"].to_list() == ["sing", "sing", ""]
    assert note_messages(study) == {
        "no-generators": "generators are not named; the systems are called output_1 and output_2"
    }
    alone = read(write(tmp_path, records[4:6] + records[:1]))
    assert set(alone.preferences.frame["item"]) == {marked, other}  # whatever precedes them in the file


def test_the_reference_against_itself_is_left_out(tmp_path: Path) -> None:
    record = annotation("sing", 1.5, generator_2="reference")
    study = read(write(tmp_path, [annotation("sing", 1), record]))
    assert note_messages(study) == {"system-with-itself": "1 verdicts compare a system with itself and are excluded"}
    with pytest.raises(
        InputError,
        match=exactly(
            "annotations.json: every verdict compares a system with itself; a verdict needs two different systems"
        ),
    ):
        read(write(tmp_path, [record]))


def test_other_names_and_an_input_beside_the_instruction(tmp_path: Path) -> None:
    record = annotation("sing", 1, input="louder")
    record["generator"] = record.pop("generator_1")
    del record["annotator"]
    study = read(write(tmp_path, [record]))
    assert study.systems == ("model", "reference")
    assert study.raters.kind == {"annotator": ""}
    assert study.preferences.frame["item"].to_list() == ["sing\n\nlouder"]


def results(folder: Path, models: dict[str, list[object]]) -> Path:
    """Write `results/MODEL/ANNOTATOR/annotations.json` as in the leaderboard's repository."""
    for name, preferences in models.items():
        for annotator in ("gpt4", "claude"):
            place = folder / "results" / name / annotator
            place.mkdir(parents=True)
            records = [
                annotation(f"do {k}", record, generator_2=name, annotator=annotator)
                for k, record in enumerate(preferences)
            ]
            write(place, records)
    return folder / "results"


def test_a_folder_of_results_is_one_study(tmp_path: Path) -> None:
    folder = results(tmp_path, {"Aster": [1, 2, 2, 1.5], "Birch": [2, 1, 1]})
    study = read(folder)
    assert study.systems == ("Aster", "Birch", "reference")
    assert study.preferences.frame.height == 14
    assert study.metrics == () == study.humans
    assert set(study.raters.kind) == {"gpt4", "claude"}
    assert study.notes == ()
    assert outputs_of(study).texts.height == 4 + 4 + 3
    single_study = read(f"{folder}::claude")
    assert set(single_study.raters.kind) == {"claude"}
    assert single_study.fingerprint() != study.fingerprint()
    alone = folder / "Aster" / "gpt4"
    assert read(alone).preferences.frame.equals(read(alone / "annotations.json").preferences.frame)


def test_a_system_has_the_name_of_its_folder(tmp_path: Path) -> None:
    folder = results(tmp_path, {"Aster": [1], "Birch": [2, 1]})
    for annotator in ("gpt4", "claude"):
        records = [annotation(f"do {k}", 1, generator_2="aster-7b", annotator=annotator) for k in range(2)]
        write(folder / "Aster" / annotator, records)
    study = read(folder)
    assert study.systems == ("Aster", "Birch", "reference")
    assert [(note.count, note.message) for note in study.notes] == [
        (1, "results: systems are named after their folders, not as in the files ('aster-7b' is renamed to 'Aster')")
    ]
    (tmp_path / "none").mkdir()
    assert reading_error(tmp_path / "none", reader="alpacaeval_results") == (
        "none: the folder holds no annotations.json; give a folder with MODEL/ANNOTATOR/annotations.json"
    )
    assert read(folder / "Aster").systems == ("aster-7b", "reference")  # of one system only, the reference is unknown


def test_a_folder_names_the_file_that_is_wrong(tmp_path: Path) -> None:
    folder = results(tmp_path, {"Aster": [1, 2], "Birch": [2, 7]})
    assert reading_error(folder).startswith(
        "Birch/claude/annotations.json: 1 of 2 verdicts cannot be read ('7' in row 2)"
    )
    with pytest.raises(
        InputError, match=r"^results: no annotator 'claud' \(did you mean 'claude'\?\); annotators: claude, gpt4"
    ):
        read(f"{folder}::claud")
