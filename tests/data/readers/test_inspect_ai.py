"""Logs of inspect_ai: both formats of the page "Log Files", score values and damaged archives."""

from __future__ import annotations

import json
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from custodes.data.loading import compression
from custodes.data.reading import read
from custodes.errors import InputError, MissingExtraError
from custodes.evaluate.rates.rates import rates
from tests.data.input_errors import reading_error
from tests.data.readers.logs import MODELS, inspect_log, inspect_sample, write_eval, write_json
from tests.data.study_parts import note_counts, note_messages, outputs_of
from tests.messages import exactly

SAMPLES = [
    inspect_sample(1, "C"),
    inspect_sample(1, "P", epoch=2),
    inspect_sample(2, "I"),
    inspect_sample(3.0, {"style": 4, "facts": 0.5}, scorer="judge"),
]
SCORES = [
    ("qa/1", MODELS[0], "match", "1", 1.0),
    ("qa/1", MODELS[0], "match", "2", 0.5),
    ("qa/2", MODELS[0], "match", "1", 0.0),
    ("qa/3", MODELS[0], "judge/style", "1", 4.0),
    ("qa/3", MODELS[0], "judge/facts", "1", 0.5),
]


@pytest.mark.parametrize("name", ["a.json", "a.eval"])
def test_both_formats_hold_the_same(name: str, tmp_path: Path) -> None:
    log = inspect_log(SAMPLES)
    path = (write_eval if name.endswith(".eval") else write_json)(tmp_path / name, log)
    study = read(path)
    assert study.ratings.frame.select("item", "system", "rater", "repeat", "score").rows() == SCORES
    assert study.raters.kind == {"match": "metric", "judge/style": "metric", "judge/facts": "metric"}
    assert study.items.frame.select("item", "group").rows() == [("qa/1", "qa"), ("qa/2", "qa"), ("qa/3", "qa")]
    assert outputs_of(study).texts.row(0) == ("qa/1", MODELS[0], "answer 1")
    assert outputs_of(study).sources.row(0)[:3] == ("qa/1", "question 1", ["yes"])
    assert study.notes == ()
    assert len(study.digest) == 16


def test_a_folder_holds_logs_of_several_models(tmp_path: Path) -> None:
    for place, model in enumerate(MODELS):
        write_eval(tmp_path / f"logs/{place}.eval", inspect_log(SAMPLES, model=model))
    write_json(tmp_path / "logs/logs.json", {"not": "a log"})
    study = read(tmp_path / "logs")
    assert study.systems == MODELS
    assert study.ratings.frame.height == 2 * len(SCORES)
    assert read(tmp_path / "logs/0.eval", tmp_path / "logs/1.eval").ratings.frame.equals(study.ratings.frame)


def test_values_stand_for_what_inspect_takes_them_for(tmp_path: Path) -> None:
    values = ["C", "I", "P", "N", True, 3, 0.25, "yes", "No", "2.5"]
    samples = [inspect_sample(number, value) for number, value in enumerate(values)]
    study = read(write_json(tmp_path / "a.json", inspect_log(samples)))
    assert study.ratings.frame["score"].to_list() == [1, 0, 0.5, 0, 1, 3, 0.25, 1, 0, 2.5]


def test_unscored_text_and_lists_are_no_scores(tmp_path: Path) -> None:
    samples = [*SAMPLES, inspect_sample(4, float("nan")), inspect_sample(5, "maybe" * 9), inspect_sample(6, [1, 2])]
    samples += [inspect_sample(8, "B", scorer="topic"), inspect_sample(9, "maybe" * 9)]
    samples.append(inspect_sample(7) | {"scores": None, "error": {"message": "out of time"}})
    path = write_json(tmp_path / "a.json", inspect_log(samples, status="error"))
    study = read(path)
    assert study.ratings.frame.height == len(SCORES)
    assert note_counts(study) == {"unfinished-log": 1, "score-not-number": 4, "missing-score": 1}
    assert note_messages(study) == {
        "unfinished-log": "logs of runs that did not finish successfully: a.json (error)",
        "score-not-number": "4 scores are lists or text, not numbers, and were dropped "
        f"(match '{'maybe' * 8}', match '[1, 2]', topic 'B')",
        "missing-score": "1 scores are missing and count as not rated",
    }


def test_content_in_parts_and_attachments(tmp_path: Path) -> None:
    parts = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "attachment://f00"},
        {"type": "text", "text": "end"},
    ]
    sample = inspect_sample(
        1, attachments={"f00": "a long text"}, input=[{"role": "user", "content": "attachment://f00"}]
    )
    sample["output"]["choices"][0]["message"]["content"] = parts
    study = read(write_json(tmp_path / "a.json", inspect_log([sample])))
    assert outputs_of(study).texts["text"].to_list() == ["a long text\nend"]
    assert outputs_of(study).sources["source"].to_list() == ["a long text"]


def test_a_log_that_still_runs_has_its_samples_so_far(tmp_path: Path) -> None:
    path = write_eval(tmp_path / "a.eval", inspect_log(SAMPLES), header="other.json")
    study = read(path)
    assert study.ratings.frame.height == len(SCORES)
    assert [note.message for note in study.notes] == [
        "a.eval: logs of runs that did not finish successfully: a.eval (started)"
    ]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (inspect_log(None), "a.json: the log holds no samples, only a header; run the evaluation again"),
        (inspect_log([]), "a.json: no sample has a score; give logs with scores"),
        (
            {"version": 2, "eval": {"model": "m"}},
            "a.json: this does not have the layout of a log of inspect_ai: Object missing required field `task` "
            "- at `$.eval`; it has the keys version, eval",
        ),
        (
            inspect_log([inspect_sample(1), inspect_sample(1)]),
            "a.json: match scored item 'qa/1' of org/aster more than once (2 such scores); give one run of each system",
        ),
        (
            inspect_log([inspect_sample(1, float("inf"))]),
            "a.json: score is infinite or beyond 1e+100 in row 1; a score must be finite (empty where not rated)",
        ),
        (
            inspect_log([inspect_sample(1, input="\ud800")]),
            "a.json: holds an unpaired surrogate (\\ud800 to \\udfff), which is not valid text; correct the text",
        ),
        (inspect_log([inspect_sample(1)], model=" "), "a.json: column 'system' is empty in row 1; fill in a label"),
    ],
)
def test_other_layouts_and_bad_logs_are_one_line(log: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert reading_error(write_json(tmp_path / "a.json", log)) == expected


def test_damaged_files_are_told_from_other_layouts(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", inspect_log(SAMPLES))
    path.write_bytes(path.read_bytes()[:-30])
    assert reading_error(path).startswith("a.json: malformed JSON at ")
    whole = write_eval(tmp_path / "b.eval", inspect_log(SAMPLES)).read_bytes()
    (tmp_path / "b.eval").write_bytes(whole[:-30])
    assert reading_error(tmp_path / "b.eval") == "b.eval: not a zip file, or a damaged one; copy the log again"
    (tmp_path / "c.eval").write_bytes(whole.replace(b"samples/1_epoch_1", b"samples/9_epoch_1", 1))
    assert reading_error(tmp_path / "c.eval").startswith(
        "c.eval, samples/1_epoch_1.json: damaged, or compressed with an unsupported method "
        "(File name in directory 'samples/1_epoch_1.json' and"
    )
    with zipfile.ZipFile(tmp_path / "d.eval", "w") as archive:
        archive.writestr("readme.txt", "no log")
    expected = "d.eval: contains neither header.json nor _journal/start.json, so it is not a log of inspect_ai"
    assert reading_error(tmp_path / "d.eval") == expected
    assert reading_error(tmp_path / "d.eval", reader="inspect_ai") == expected
    write_eval(tmp_path / "e.eval", inspect_log([inspect_sample(1) | {"scores": [1]}]))
    assert reading_error(tmp_path / "e.eval").startswith(
        "e.eval, samples/1_epoch_1.json: this does not have the layout of a log of inspect_ai: Expected `object | "
        "null`, got `array`"
    )
    message = "e.eval: a log of inspect_ai has no parts; remove ::qa from the path"
    assert reading_error(f"{tmp_path / 'e.eval'}::qa") == message


def test_archives_that_unpack_to_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = inspect_sample(1) | {"events": "0" * 300_000}
    path = write_eval(tmp_path / "bomb.eval", inspect_log([bomb]))
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(compression, "LARGEST", 100_000)
    assert reading_error(path) == "bomb.eval: the content has more than 0 MiB; give a smaller table"


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python knows zstd")
def test_without_zstd_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    path = write_eval(tmp_path / "z.eval", inspect_log([inspect_sample(1)]))
    data = path.read_bytes()
    for mark, at in (
        (b"PK\x03\x04", 8),
        (b"PK\x01\x02", 10),
    ):  # the compression method of the second member; 93 is zstd
        place = data.index(mark, data.index(mark) + 1) + at
        data = data[:place] + (93).to_bytes(2, "little") + data[place + 2 :]
    path.write_bytes(data)
    with pytest.raises(
        MissingExtraError,
        match=(
            exactly(
                "z.eval, samples/1_epoch_1.json: compressed with zstd; run pip install 'custodes[logs]', use "
                "Python 3.14, or write the log uncompressed (Inspect: inspect log convert --to json)"
            )
        ),
    ):
        read(path)


def test_zstd_is_read(tmp_path: Path) -> None:
    ported = pytest.importorskip("backports.zstd.zipfile") if sys.version_info < (3, 14) else zipfile
    path, log = tmp_path / "z.eval", inspect_log(SAMPLES)
    with ported.ZipFile(path, "w", ported.ZIP_ZSTANDARD) as archive:
        archive.writestr("header.json", json.dumps({name: value for name, value in log.items() if name != "samples"}))
        for place, sample in enumerate(SAMPLES):
            archive.writestr(f"samples/{place}_epoch_1.json", json.dumps(sample))
    assert read(path).ratings.frame.select("item", "system", "rater", "repeat", "score").rows() == SCORES


def test_a_bomb_that_declares_little_is_not_unpacked(tmp_path: Path) -> None:
    path = write_eval(tmp_path / "bomb.eval", inspect_log([inspect_sample(1) | {"events": "0" * 2**25}]))
    data = path.read_bytes()
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):  # the size of the second member
        place = data.index(mark, data.index(mark) + 1) + at
        data = data[:place] + (5000).to_bytes(4, "little") + data[place + 4 :]
    path.write_bytes(data)
    tracemalloc.start()
    try:
        assert "samples/1_epoch_1.json: damaged, or compressed with an unsupported method (Bad CRC-32" in reading_error(
            path
        )
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_human_labels_by_sample_join_the_log_of_one_task(tmp_path: Path) -> None:
    grades = ["C", "C", "C", "I", "I", "C"] * 5
    log = write_json(tmp_path / "a.json", inspect_log([inspect_sample(k, grade) for k, grade in enumerate(grades)]))
    label_file = tmp_path / "people.csv"
    rows = [f"{k},{'pass' if k % 3 else 'fail'},{'ab'[k % 2]}" for k in range(20)]
    label_file.write_text("\n".join(["sample_id,human_label,topic", *rows]))
    for inputs in ((log, label_file), (label_file, log)):
        study = read(*inputs)
        assert study.systems == (MODELS[0],)
        assert study.attributes["topic"].drop_nulls().len() == 20
        answer = rates(study, by="topic")
        assert answer.rates["n_labelled"].to_list() == [20]
        assert answer.slices["n_labelled"].sum() == 20
    label_file.write_text("\n".join(["sample_id,label", *(f"{k},{'pass' if k % 3 else 'fail'}" for k in range(20))]))
    study = read(log, label_file)
    assert study.humans == ("label",)
    assert [note.message for note in study.notes if note.rule == "human-labels"] == [
        f"{label_file.name}: column label is read as human labels, because the other inputs have only metrics"
    ]
    assert rates(study).rates["n_labelled"].to_list() == [20]
    assert read(label_file).humans == ()
    passed = tmp_path / "passed.csv"  # this name may denote the result of a program
    passed.write_text(label_file.read_text().replace("label", "passed"))
    assert read(log, passed).humans == ()
    two = write_json(tmp_path / "b.json", inspect_log([inspect_sample(1, "C")]) | {})
    log_content = json.loads(two.read_text())
    log_content["eval"]["task"] = "another"
    two.write_text(json.dumps(log_content))
    with pytest.raises(InputError, match="have no item and system in common"):
        read(log, two, label_file)
