"""Damaged studies: each verb answers, or reports the problem in one line and leaves no files behind."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from custodes.annotate import study_file
from custodes.annotate.check_study import check
from custodes.annotate.export_study import export
from custodes.annotate.study_status import status
from custodes.annotate.views import Agree, Ask, Begin, Consent
from custodes.data.reading import read
from custodes.errors import CustodesError, InputError
from tests.annotate.studies import (
    GOLD,
    ManualClock,
    answer_correctly,
    answer_to,
    current_question,
    new_annotator,
    open_service,
    plan_of,
    state_of,
    study,
)

PLAN = plan_of(
    annotators={"gold_every": 5, "attention": 1, "overlap": 0.2, "batch": 12},
    stopping={"looks": [4, 8], "stop": "decided"},
)
TABLES = (
    *("plan", "item", "system", "output", "pair", "unit", "gold", "worker", "assignment", "judgment"),
    *("look", "exclusion", "event"),
)
VALUES = (
    *("NULL", "''", "'x'", "-1", "99999", "1e308", "x'ff'", "CAST(x'ff41' AS TEXT)", "9223372036854775807"),
    *("'[1'", "'{}'", "'null'", "'[]'", "'[1]'", "'{\"a\": 1}'"),
)
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of a study with answers, interim analyses, an exclusion and events."""
    clock, rng = ManualClock(), Random(1)
    path = study(
        tmp_path_factory.mktemp("sound") / "study.db",
        plan=PLAN,
        systems=3,
        items=12,
        known_questions={**GOLD, "example": 1, "qualification": 1},
    )
    with open_service(path, clock) as service:
        for token in [new_annotator(service) for _ in range(3)]:
            for _ in range(12):
                clock.wait(7)
                if isinstance(service.view(token).result(), Ask):
                    answer_correctly(service, token, rng.choice([1, 1, 0, -1]))
        service.exclude("w002", "bad").result()
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        base.execute("PRAGMA journal_mode = DELETE")
    return path.read_bytes()


def serve(path: Path) -> None:
    """Serve a study to one annotator, then stop it."""
    with open_service(path) as service:
        service.snapshot().result()
        state_of(service)
        assert service.examples is not None
        ((_, token),) = service.invite(1).result()
        if isinstance(view := service.view(token).result(), Consent):
            service.act(token, Agree(digest=view.digest)).result()
        service.act(token, Begin()).result()
        for _ in range(3):
            if isinstance(service.view(token).result(), Ask):
                service.act(token, answer_to(service, current_question(service, token))).result()
        service.control("stop").result()


def backup(path: Path) -> None:
    study_file.copy(study_file.check(path), path.with_name("copy.db"))


VERBS: dict[str, Callable[[Path], object]] = {
    "read": read,
    "status": status,
    "check": check,
    "export": lambda path: export(path, path.with_name("exported")),
    "serve": serve,
    "backup": backup,
}


def outcomes(damaged: bytes, folder: Path) -> dict[str, str]:
    """Return the message of each verb that refuses a damaged study; any other error fails the test."""
    messages = {}
    for name, verb in VERBS.items():
        for file in folder.iterdir():
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        path = folder / "study.db"
        path.write_bytes(damaged)
        try:
            verb(path)
        except CustodesError as error:
            messages[name] = str(error)
            assert "\n" not in messages[name]
            assert not (folder / "copy.db").exists()
        assert not list(folder.glob(".custodes-*"))
    return messages


def modify(sound: bytes, folder: Path, *statements: str) -> bytes:
    """Return the study file after statements of another program that ignore its constraints."""
    path = folder / "changed.db"
    path.write_bytes(sound)
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute("PRAGMA ignore_check_constraints = 1")
        for statement in statements:
            base.execute(statement)
    content = path.read_bytes()
    path.unlink()
    return content


def test_a_sound_study_is_answered(sound: bytes, tmp_path: Path) -> None:
    assert outcomes(sound, tmp_path) == {}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_without_its_rows_or_some_of_them(sound: bytes, table: str, tmp_path: Path) -> None:
    messages = outcomes(modify(sound, tmp_path, f"DELETE FROM {table}"), tmp_path)
    if table == "plan":
        assert messages.keys() == VERBS.keys() - {"read"}  # `read` needs no plan
        assert all("without a plan" in line for name, line in messages.items() if name != "export")
    elif table not in ("look", "exclusion", "event", "judgment", "gold"):
        assert messages.keys() >= VERBS.keys() - {"read", "export"}  # both need no texts
    if table not in ("plan", "system", "gold", "judgment", "look", "exclusion"):
        key = "system" if table == "output" else "rowid"
        outcomes(modify(sound, tmp_path, f"DELETE FROM {table} WHERE {key} % 2"), tmp_path)


@pytest.mark.parametrize("seed", SEEDS)
def test_cells_that_another_program_wrote(sound: bytes, seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    for _ in range(6):
        table = rng.choice(TABLES)
        with closing(sqlite3.connect(":memory:")) as base:
            base.deserialize(sound)
            column = rng.choice([row[1] for row in base.execute(f"PRAGMA table_info({table})")])
        key = "rowid" if table != "output" else "item"
        rows = rng.choice(["", f" WHERE {key} = (SELECT max({key}) FROM {table})"])
        try:
            damaged = modify(sound, tmp_path, f'UPDATE {table} SET "{column}" = {rng.choice(VALUES)}{rows}')
        except sqlite3.Error:  # the type of the column or a unique key forbids it
            continue
        outcomes(damaged, tmp_path)


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_that_changed(sound: bytes, seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    for kind in ("flip", "flip", "many", "page", "cut", "text", "text"):
        damaged = bytearray(sound)
        if kind == "page":
            start = 4096 * rng.randrange(len(sound) // 4096)
            damaged[start : start + 4096] = rng.choice([bytes(4096), rng.randbytes(4096)])
        elif kind == "cut":
            del damaged[rng.randrange(len(sound)) :]
        elif kind == "text":
            word = rng.choice([b'{"', b'":', b"[]", b"i1", b"w00", b"s1", b"primary", b"pair"])
            places = [at for at in range(len(sound)) if sound.startswith(word, at)]
            damaged[rng.choice(places)] = rng.choice([0xFF, 0, *b'x"'])
        else:
            for _ in range(32 if kind == "many" else 1):
                damaged[rng.randrange(len(sound))] = rng.randrange(256)
        outcomes(bytes(damaged), tmp_path)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE item SET label = CAST(x'ff41' AS TEXT) WHERE item = 1", "UTF-8 column 'label'"),
        ("UPDATE item SET media = '{}'", "item.media"),
        ("UPDATE event SET json = '[1'", "malformed JSON"),
        ("UPDATE event SET json = '[1]'", r"this study cannot be read \(inconsistent rows\); restore a backup"),
        ("DELETE FROM output WHERE item = 3", "outputs of comparisons"),
        ("DELETE FROM worker WHERE label = 'w001'", "refer to rows of worker"),
        ("UPDATE exclusion SET exclusion = 9223372036854775807", r"read \(inconsistent rows\); restore a backup"),
        ("DELETE FROM plan", "a study without a plan"),
    ],
)
def test_the_line_says_what_is_wrong(sound: bytes, statement: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    path.write_bytes(modify(sound, tmp_path, statement))
    with pytest.raises(InputError, match=expected) as error:
        status(path)
    assert "restore a backup" in str(error.value)


def test_a_study_whose_history_contradicts_itself(sound: bytes, tmp_path: Path) -> None:
    """An annotator is numbered after the questions: references are valid, but the order of events is not."""
    path = tmp_path / "study.db"
    number = "(SELECT min(worker) FROM worker)"
    path.write_bytes(
        modify(
            sound,
            tmp_path,
            f"UPDATE assignment SET worker = 5000 WHERE worker = {number}",
            f"UPDATE event SET worker = 5000 WHERE worker = {number}",
            f"UPDATE worker SET worker = 5000 WHERE worker = {number}",
        )
    )
    with pytest.raises(InputError, match=r"this study cannot be read \(inconsistent rows\); restore a backup"):
        status(path)
