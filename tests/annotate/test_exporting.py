"""Export of a study: the files give the same data as the study, and contain every answer."""

from __future__ import annotations

import json
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import polars as pl
import pytest

from custodes.annotate.export_study import export
from custodes.annotate.new_study import new
from custodes.annotate.plan import Money, Question, StudyPlan
from custodes.data.reading import read
from custodes.errors import InputError, OptionError
from custodes.evaluate.rates.rates import rates
from tests.data.annotation_files import Said, connected, exclude, look, new_file, say

FILES = {
    *("battles.csv", "raters.csv", "items.csv", "outputs.jsonl", "looks.csv", "answers.csv", "comments.csv"),
    *("plan.json", "signature.txt"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    study_path = new_file(
        tmp_path / "study.db",
        items=[f"d{n}" for n in range(6)],
        systems=["Birch", "Aster", "Cedar"],
        plan=StudyPlan(money=Money(price=0.2)),
    )
    with closing(connected(study_path)) as base:
        (first,) = say(base, Said(worker=1, item="d0", first="Birch", second="Aster", answer=1, flip=1))
        say(
            base,
            Said(worker=1, item="d0", first="Birch", second="Aster", answer=-1, flip=1, again=first, seconds=7.5),
            Said(worker=2, item="d0", first="Birch", second="Aster", answer=0, role="second", seconds=None),
            Said(worker=2, item="d1", first="Birch", second="Cedar", answer=None, reason="=other()"),
            Said(worker=2, item="d1", first="Aster", second="Cedar", answer=1),
            Said(worker=3, item="d2", first="Aster", second="Cedar", answer=1),
        )
        exclude(base, 3)
        look(base, 0, 1, (3, 1, 6), -1, theta=0.01, margin=-0.3, low=-0.6, high=-0.1)
        look(base, 1, 1, (5, 0, 5), 0, theta=0.5, margin=0, low=-0.6, high=0.6, is_open=1)
        base.execute(
            "INSERT INTO event (at, worker, kind, json) VALUES (5, 1, 'comment', ?)",
            ('{"text": "=HYPERLINK(\\"http://evil\\")"}',),
        )
    return study_path


def test_an_export_is_read_back(path: Path, tmp_path: Path) -> None:
    folder = export(path, tmp_path / "out")
    assert {file.name for file in folder.iterdir()} == FILES
    study = read(path)
    exported = read(
        *(folder / name for name in ("battles.csv", "looks.csv", "outputs.jsonl")),
        raters=folder / "raters.csv",
        items=folder / "items.csv",
    )
    for table in ("preferences", "second"):
        assert getattr(exported, table).missing.equals(getattr(study, table).missing)
    for table in ("preferences", "second", "raters", "items"):
        assert getattr(exported, table).frame.equals(getattr(study, table).frame)
    assert exported.looks.equals(study.looks)


@pytest.mark.parametrize(
    ("systems", "answers"),
    [
        *((("0", "1"), answers) for answers in ((1, 0, 1), (0, 0, 0), (1, 1, 1))),
        *((("-1", "0"), answers) for answers in ((0, 0, 0), (0, -1, 0))),
        *((systems, (1, 0, 1)) for systems in (("aa", "ab"), ("a", "ba"))),
    ],
    ids=str,
)
def test_preferences_are_not_read_as_names(tmp_path: Path, systems: tuple[str, str], answers: tuple[int, ...]) -> None:
    """Numeric preferences are not confused with systems or orders of the same name."""
    study_path = new_file(tmp_path / "study.db", items=["d0", "d1", "d2"], systems=systems)
    with closing(connected(study_path)) as base:
        for k, value in enumerate(answers):
            say(base, Said(worker=1, item=f"d{k}", first=systems[0], second=systems[1], answer=value, flip=k % 2))
    study = read(study_path)
    assert study.preferences.frame["preference"].to_list() == [*answers]
    for path in (f"{study_path}::battles", export(study_path, tmp_path / "out") / "battles.csv"):
        assert read(path).preferences.frame.equals(study.preferences.frame), path


def test_no_field_of_the_texts_is_lost(tmp_path: Path) -> None:
    """No field of an item or output is lost from the input to the study, and in the export."""
    rows = [
        {
            "item": item,
            "outputs": {"a": f"a of {item}", "b": f"b of {item}"},
            "references": [f"one of {item}", 'with "marks", [and] more'],
            "source": f"source of {item}",
            "context": f"context of {item}",
        }
        for item in ("i1", "i2", "i3")
    ]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    path = new(tmp_path / "all.jsonl", tmp_path / "study.db")
    expected = read(tmp_path / "all.jsonl").outputs
    out = export(path, tmp_path / "out")
    for outputs in (read(path).outputs, read(out / "outputs.jsonl").outputs):
        assert outputs.sources.sort("item").equals(expected.sources.sort("item"))
        assert outputs.texts.sort("item", "system").equals(expected.texts.sort("item", "system"))


def test_every_answer_and_comment_is_exported(path: Path, tmp_path: Path) -> None:
    folder = export(path, tmp_path / "out")
    answers = pl.read_csv(folder / "answers.csv")
    assert pl.read_csv(folder / "comments.csv")["text"].to_list() == ['\'=HYPERLINK("http://evil")']
    assert "'=other()" in answers["reason"].to_list()  # a spreadsheet does not run it
    assert answers.height == 6
    assert answers.filter(pl.col("taken_back") == 1)["answer"].to_list() == [1.0]
    assert answers.filter(pl.col("excluded") == 1)["rater"].to_list() == ["w003"]
    columns = {"rater", "item", "role", "order", "look", "place", "p_role", "p_pair", "late"}
    assert columns | {"visible_seconds", "server_seconds"} <= {*answers.columns}


def test_the_signature_counts_the_rows(path: Path, tmp_path: Path) -> None:
    folder, again = (export(path, tmp_path / name) for name in ("out", "again"))
    for file in folder.iterdir():  # the same state gives the same bytes
        assert file.read_bytes() == (again / file.name).read_bytes()
    text = (folder / "signature.txt").read_text()
    assert text.startswith(f"study of people's answers: study.db\ncustodes: {version('custodes')}\ndigest: fda126eb0e")
    signature = dict(line.split(": ", 1) for line in text.splitlines())
    assert signature["digest"] == read(path).digest
    for name in FILES - {"signature.txt", "plan.json"}:
        table = pl.read_ndjson(folder / name) if name.endswith("jsonl") else pl.read_csv(folder / name)
        assert signature[name].startswith(f"{table.height} rows, sha256 ")


def test_text_of_annotators_that_a_spreadsheet_would_run_is_escaped(path: Path, tmp_path: Path) -> None:
    with closing(connected(path)) as base:
        base.execute("UPDATE event SET json = ?", ('{"text": "=1+1"}',))
        base.execute("UPDATE system SET label = '=2+2' WHERE system = 1")
    folder = export(path, tmp_path / "out")
    for name, column in (("comments.csv", "text"), ("answers.csv", "system_a")):
        cells = pl.read_csv(folder / name, infer_schema=False)[column].drop_nulls()
        assert cells.len()
        assert not cells.str.contains(r"^[=+@\t\r\n]|^-[^0-9.]").any()
    assert "=2+2" in read(folder / "battles.csv").systems


def test_ratings(tmp_path: Path) -> None:
    plan = StudyPlan(question=Question(mode="rate"))
    study_path = new_file(tmp_path / "r.db", items=["d0", "d1"], systems=["Aster", "Birch"], plan=plan)
    with closing(connected(study_path)) as base:
        say(
            base,
            Said(worker=1, item="d0", second="", answer=4),
            Said(worker=2, item="d0", second="", answer=2, role="second"),
        )
    folder = export(study_path, tmp_path / "out")
    exported, study = read(folder / "ratings.csv"), read(study_path)
    assert exported.ratings.frame.equals(study.ratings.frame)
    assert exported.second_ratings.frame.equals(study.second_ratings.frame)


def test_an_export_needs_a_new_folder(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    export(path, folder)  # an empty folder
    content = (folder / "answers.csv").read_bytes()
    for place in (folder, folder / "answers.csv"):
        with pytest.raises(OptionError, match="it exists and is not an empty folder; give a new folder"):
            export(path, place)
    assert (folder / "answers.csv").read_bytes() == content
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith(".")) == []


def test_whole_or_not_at_all(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = export(path, tmp_path / "out")
    write_bytes = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "looks.csv":
            raise OSError(28, "No space left on device")
        return write_bytes(self, data)

    with pytest.raises(InputError, match=r"looks\.csv: not a study file of annotations; create one with custodes"):
        export(folder / "looks.csv", tmp_path / "new")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OptionError, match=r"cannot write .*: No space left on device; choose another place"):
        export(path, tmp_path / "new")
    assert sorted(file.name for file in tmp_path.iterdir() if not file.name.startswith("study.db")) == ["out"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({"decision": 2}, "decision 2"), ({"look": 1.5}, "look 1.5")),
        *(({"wins": 4}, "n differs from wins"), ({"is_open": "perhaps"}, "is_open 'perhaps'")),
    ],
)
def test_invalid_interim_analyses(path: Path, tmp_path: Path, changes: dict[str, object], message: str) -> None:
    looks = pl.read_csv(export(path, tmp_path / "out") / "looks.csv").head(1)
    table = looks.with_columns(**{name: pl.lit(value) for name, value in changes.items()})
    with pytest.raises(InputError, match=message):
        read(table)


@pytest.mark.parametrize(
    ("labels", "scores", "positive"),
    [
        (("fail", "pass"), (0, 1, 1, 0), "pass"),
        (("pass", "fail"), (1, 0, 0, 1), "pass"),  # known words determine the positive label
        (("off topic", "on topic"), (0, 1, 1, 0), "on_topic"),
    ],
)
def test_two_points_with_labels_are_labels(
    tmp_path: Path, labels: tuple[str, str], scores: tuple[int, ...], positive: str
) -> None:
    question = Question(mode="rate", scale=(0, 1), labels=labels, aspects=("tone", "form"))
    path = new_file(tmp_path / "study.db", items=["d0", "d1", "d2"], systems=["s"], plan=StudyPlan(question=question))
    with closing(connected(path)) as base:
        for k, value in enumerate(scores[:3]):
            say(base, Said(worker=1, item=f"d{k}", first="s", second="", answer=value, aspect="tone"))
        say(base, Said(worker=2, item="d1", first="s", second="", answer=scores[3], role="second", aspect="tone"))
    exported = read(export(path, tmp_path / "out") / "ratings.csv")
    for study in (read(path), exported):
        assert study.labels["tone"].words[1] == positive
        assert study.ratings.frame["score"].to_list() == [0, 1, 1]
        assert study.second_ratings.frame.select("item", "score").rows() == [("d1", 0)]
        assert rates(study).rates["label"].unique().to_list() == [positive]
