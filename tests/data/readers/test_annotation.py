"""Annotation studies are read through the views of their file in one snapshot, without leaving other files."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import custodes as cu
from custodes.annotate.plan import Money, Question, StudyPlan
from custodes.data.labels import LabelScale
from custodes.data.loading import live_study, load_table
from custodes.data.reading import read
from custodes.errors import InputError
from tests.data.annotation_files import Said, connected, exclude, look, new_file, say
from tests.data.input_errors import reading_error
from tests.data.study_parts import note_counts, note_messages, outputs_of
from tests.messages import exactly

ITEMS = [f"d{n}" for n in range(6)]
SYSTEMS = ["Birch", "Aster", "Cedar"]  # their order in the file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a study of two workers and three items with second opinions, a refusal, a correction and an excluded
    worker."""
    file = new_file(
        tmp_path / "study.db", items=ITEMS, systems=SYSTEMS, plan=StudyPlan(money=Money(price=0.2, fee=0.25))
    )
    with closing(connected(file)) as base:
        (first,) = say(base, Said(worker=1, item="d0", first="Birch", second="Aster", answer=1, flip=1))
        say(
            base,
            Said(worker=1, item="d0", first="Birch", second="Aster", answer=-1, flip=1, again=first, seconds=7.5),
            Said(worker=2, item="d0", first="Birch", second="Aster", answer=0, role="second", seconds=None),
            Said(worker=2, item="d1", first="Birch", second="Cedar", answer=None, reason="language"),
            Said(worker=2, item="d1", first="Aster", second="Cedar", answer=1),
            Said(worker=3, item="d2", first="Aster", second="Cedar", answer=1),
        )
        exclude(base, 3)
        look(base, 0, 1, (3, 1, 6), -1, theta=0.01, margin=-0.3, low=-0.6, high=-0.1)
    return file


def listing(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_what_people_said(path: Path) -> None:
    study = read(path)
    assert study.preferences.frame.select(
        "item", "system_a", "system_b", "rater", "order", "preference", "seconds"
    ).rows() == [("d0", "Aster", "Birch", "w001", "ab", 1, 7.5), ("d1", "Aster", "Cedar", "w002", "ab", 1, 10.0)]
    assert study.preferences.missing.select("item", "rater", "why").rows() == [("d1", "w002", "language")]
    assert study.second.frame.select("item", "rater", "preference", "seconds").rows() == [("d0", "w002", 0, 60.0)]
    assert study.raters.frame.select("rater", "kind", "person", "date", "cost", "cost_unit").rows() == [
        ("w001", "human", True, "2023-11-14", 0.25, "usd"),
        ("w002", "human", True, "2023-11-14", 0.25, "usd"),
    ]
    assert study.items.frame.select("item", "cluster", "group").row(1) == ("d1", "doc0", "news")
    assert outputs_of(study).texts.row(0) == ("d0", "Birch", "=text d0 of Birch")
    assert outputs_of(study).sources["source"][0] == "source of d0"
    assert study.name == "study.db"
    assert note_counts(study) == {"invalid-verdict": 1, "excluded-annotators": 1, "second-opinions": 1}
    assert note_messages(study) == {
        "invalid-verdict": "1 comparisons could not be rated, according to the annotator, and count as not rated "
        "(language 1)",
        "excluded-annotators": "1 answers of excluded annotators are left out (number of these annotators: 1); interim "
        "analyses are not recomputed",
        "second-opinions": "1 second opinions (answers to a question that another annotator answered first) only "
        "measure the agreement of annotators and are not used to compare systems",
    }
    # the systems of interim analyses are sorted, as those of verdicts
    counts = {"look": 1, "n": 10, "wins": 6, "ties": 1, "losses": 3, "decision": 1, "is_open": False}
    margin = {"theta": 0.99, "margin": 0.3, "low": 0.1, "high": 0.6}
    assert study.looks.rows(named=True) == [{"system_a": "Aster", "system_b": "Birch", **counts, **margin}]


def test_notes_on_a_study_that_is_not_stopped(path: Path) -> None:
    with closing(connected(path)) as base:
        base.execute("INSERT INTO event (at, kind, json) VALUES (1, 'reopened', '{}')")
    study = read(path)
    assert note_counts(study)["incomplete-looks"] == 2
    assert note_messages(study)["incomplete-looks"] == (
        "2 answers of incomplete interim analyses are left out until the analysis is complete or the study is stopped"
    )
    assert study.preferences.frame["item"].to_list() == ["d0"]


UNREADABLE = "cannot be read ({}); give a complete copy (custodes annotate backup)"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "DELETE FROM system WHERE label = 'Cedar'",
            UNREADABLE.format("rows of output refer to rows of system that do not exist"),
        ),
        (
            "UPDATE item SET source = CAST(x'ff' AS TEXT) WHERE item = 3",
            UNREADABLE.format("Could not decode to UTF-8 column 'source' with text '\ufffd'"),
        ),
        ("UPDATE plan SET json = '{'", UNREADABLE.format("malformed JSON")),
        ("UPDATE item SET refs = '[3'", "the references of an item are not a list of texts; restore a backup"),
        (
            "DROP VIEW looks; CREATE VIEW looks AS SELECT 1 AS look",
            "looks.system_a, looks.system_b, looks.n, looks.wins, looks.ties, looks.losses, looks.decision, "
            "looks.is_open and 4 more is missing, so another version of custodes wrote this file; update custodes",
        ),
    ],
)
def test_a_damaged_study_is_one_line(path: Path, statement: str, message: str) -> None:
    with closing(connected(path)) as base:
        base.executescript(statement)
    assert reading_error(path) == f"study.db: {message}"


def test_a_second_opinion_in_two_aspects_is_one(path: Path) -> None:
    with closing(connected(path)) as base:
        base.execute(
            "INSERT INTO judgment SELECT NULL, assignment, 'tone', role, answer, reason, visible_seconds,"
            " server_seconds, at, late FROM judgment WHERE role = 'second'"
        )
    study = read(path)
    assert study.second.frame.height == 2
    assert [note.count for note in study.notes if note.rule == "second-opinions"] == [1]


def test_ratings(tmp_path: Path) -> None:
    plan = StudyPlan(question=Question(mode="rate"))
    file = new_file(tmp_path / "r.db", items=ITEMS, systems=SYSTEMS, plan=plan)
    with closing(connected(file)) as base:
        say(
            base,
            Said(worker=1, item="d0", second="", answer=4),
            Said(worker=2, item="d0", second="", answer=2, role="second"),
        )
    study = read(file)
    assert study.ratings.frame.select("item", "system", "rater", "score").rows() == [("d0", "Aster", "w001", 4.0)]
    assert study.second_ratings.frame.select("rater", "score").rows() == [("w002", 2.0)]
    assert study.preferences.frame.is_empty()


def test_a_study_without_answers_holds_its_texts(tmp_path: Path) -> None:
    study = read(new_file(tmp_path / "new.db", items=ITEMS, systems=SYSTEMS))
    assert outputs_of(study).texts.height == 18
    assert not study.humans
    with pytest.raises(cu.CustodesError):
        cu.leaderboard(study)

    assert reading_error(new_file(tmp_path / "none.db", items=[], systems=[])) == (
        "none.db: the study has no texts and no answers yet; read it again later"
    )


@pytest.mark.parametrize(
    ("question", "words", "scores"),
    [
        (Question(mode="rate", scale=(0, 1), labels=("fail", "pass")), ("fail", "pass"), [1, 0]),
        (Question(mode="rate", scale=(3, 4), labels=("yes", "no")), ("no", "yes"), [0, 1]),
        (Question(mode="rate", scale=(1, 2), labels=("mies", "prima")), ("mies", "prima"), [1, 0]),
        (Question(mode="rate", scale=(0, 1)), None, [1, 0]),
        (Question(mode="rate", scale=(0, 2), labels=("a", "b", "c")), None, [1, 0]),
    ],
)
def test_ratings_on_a_scale_of_two_labels_are_labels(
    tmp_path: Path, question: Question, words: tuple[str, str] | None, scores: list[int]
) -> None:
    file = new_file(tmp_path / "r.db", items=ITEMS, systems=SYSTEMS, plan=StudyPlan(question=question))
    low = question.scale[0]
    with closing(connected(file)) as base:
        say(
            base,
            Said(worker=1, item="d0", second="", answer=low + 1),
            Said(worker=1, item="d1", second="", answer=low),
            Said(worker=2, item="d0", second="", answer=low, role="second"),
        )
    study = read(file)
    assert study.ratings.frame["score"].to_list() == scores
    assert study.second_ratings.frame["score"].to_list() == scores[1:]
    assert study.labels == ({"": LabelScale(words=words)} if words else {})
    assert note_counts(study)["second-opinions"] == 1


def test_nothing_is_changed_and_nothing_left_beside(path: Path) -> None:
    before = listing(path.parent)
    assert [*before] == ["study.db"]
    for source in (path, f"{path}::SELECT * FROM looks"):
        read(path) if source == path else load_table(source)
    assert listing(path.parent) == before


def test_while_it_is_written(path: Path) -> None:
    with closing(connected(path)) as base:
        say(base, Said(worker=2, item="d4", first="Birch", second="Aster"))
        before = {name: content for name, content in listing(path.parent).items() if not name.endswith("-shm")}
        assert before["study.db-wal"]
        assert read(path).preferences.frame.height == 3
        assert load_table(f"{path}::battles").frame.height == 5
        base.execute("BEGIN IMMEDIATE")
        base.execute("DELETE FROM judgment")  # not committed
        assert read(path).preferences.frame.height == 3
        base.execute("ROLLBACK")
        after = listing(path.parent)
        assert {name: after[name] for name in before} == before
        assert sorted(after) == ["study.db", "study.db-shm", "study.db-wal"]
        say(base, Said(worker=2, item="d5", first="Birch", second="Aster"))
        assert read(path).preferences.frame.height == 4


def test_a_reader_in_the_process_of_the_server_takes_no_lock_away(path: Path) -> None:
    def lock_count() -> int:
        locks = Path("/proc/locks")
        if not locks.exists():
            pytest.skip("this system does not tell who holds which lock")
        return sum(f":{path.stat().st_ino} " in line for line in locks.read_text().splitlines())

    with closing(connected(path)) as base:
        say(base, Said(worker=2, item="d4", first="Birch", second="Aster"))
        before = lock_count()
        assert before
        read(path)
        load_table(f"{path}::battles")
        assert lock_count() == before


KILLED = """
import os, signal, sys
sys.path.insert(0, ".")
from pathlib import Path
from tests.data.annotation_files import Said, connected, say
base = connected(Path(sys.argv[1]))
say(base, Said(worker=2, item="d4", first="Birch", second="Aster"))
base.execute("BEGIN IMMEDIATE")
base.execute("DELETE FROM look")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("index", [True, False], ids=["with its index", "copied without"])
def test_after_its_server_was_killed(path: Path, index: bool) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    if not index:
        path.with_name("study.db-shm").unlink()
    before = {name: content for name, content in listing(path.parent).items() if not name.endswith("-shm")}
    assert "study.db-wal" in before
    study = read(path)
    assert (study.preferences.frame.height, study.looks.height) == (3, 1)
    assert load_table(f"{path}::battles").frame.height == 5
    after = listing(path.parent)
    assert {name: after[name] for name in before} == before
    assert len(after) == 2 + index


def test_through_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    with closing(connected(path)) as base:
        say(base, Said(worker=2, item="d4", first="Birch", second="Aster"))
        assert read(link).preferences.frame.height == 3
    assert os.listdir(link.parent) == ["link.db"]


def test_the_digest_is_of_what_was_said(path: Path) -> None:
    digest = read(path).digest
    with closing(connected(path)) as base:
        base.execute("CREATE TABLE unrelated (a)")
        assert read(path).digest == digest
        say(base, Said(worker=2, item="d4", first="Birch", second="Aster", role="second"))
        assert read(path).digest != digest


def test_a_file_that_changes_each_time(path: Path) -> None:
    times = iter(range(100))
    with pytest.raises(
        InputError,
        match=exactly(
            "study.db: the file changed during every attempt to read it; read a copy (custodes annotate backup)"
        ),
    ):
        live_study.read_one_state(path, lambda connection: os.utime(path, (0, next(times))))


def test_what_is_no_whole_study(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"^study\.db: a damaged database"):
        read(path)
    path.write_bytes(whole)
    with closing(connected(path)) as base:
        base.execute("DROP VIEW looks")
    with pytest.raises(
        InputError,
        match=exactly("study.db: looks is missing, so another version of custodes wrote this file; update custodes"),
    ):
        read(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE ratings AS SELECT 1 AS item, 'A' AS system, 3.5 AS ann UNION ALL SELECT 2, 'B', 4")
        base.commit()
    assert read(path).ratings.frame.height == 2  # read as an ordinary database


def test_the_reader_may_be_named(path: Path) -> None:
    assert read(path, reader="annotation").preferences.frame.height == 2
    small = path.with_name("small.csv")
    small.write_text("item,system,ann\n1,A,1\n")
    with pytest.raises(
        InputError, match=r"^small\.csv: not a study file of annotations; create one with custodes annotate new"
    ):
        read(small, reader="annotation")
