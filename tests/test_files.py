"""Output files are written completely or not at all, keep modes, links and devices, and never replace input files."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from custodes.errors import OptionError
from custodes.files import check_distinct_files, check_writable, is_stream, write_atomically
from tests.waiting import until


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- existing files --------------------------------------------------------------------------------------------------


def test_a_device_is_written_to_and_not_replaced() -> None:
    before = os.stat(os.devnull)
    write_atomically(os.devnull, "gone")
    after = os.stat(os.devnull)
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    write_atomically(target, b"new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "new")]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    target.chmod(mode)
    write_atomically(target, "new")
    assert (mode_of(target), target.read_text()) == (mode, "new")


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_what_the_umask_leaves(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "new.txt", "new")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "new.txt") == 0o666 & ~mask


def test_links_stay_and_what_they_point_to_is_written(tmp_path: Path) -> None:
    data, near = tmp_path / "data", tmp_path / "near"
    for folder in (data, near):
        folder.mkdir()
    (data / "real.txt").write_text("old")
    (near / "relative.txt").symlink_to("../data/real.txt")
    (near / "chain.txt").symlink_to(near / "relative.txt")
    (near / "new.txt").symlink_to(data / "new.txt")
    write_atomically(near / "chain.txt", "through two")
    write_atomically(near / "new.txt", "through one")
    assert (data / "real.txt").read_text() == "through two"
    assert (data / "new.txt").read_text() == "through one"
    assert all((near / name).is_symlink() for name in ("relative.txt", "chain.txt", "new.txt"))
    assert (names(data), names(near)) == (["new.txt", "real.txt"], ["chain.txt", "new.txt", "relative.txt"])


def test_links_that_lead_nowhere_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "circle.txt").symlink_to(tmp_path / "circle.txt")
    (tmp_path / "lost.txt").symlink_to(tmp_path / "missing" / "a.txt")
    for name, message in (("circle.txt", "symbolic links"), ("lost.txt", f"no such folder {tmp_path / 'missing'}")):
        with pytest.raises(OptionError, match=message):
            write_atomically(tmp_path / name, "x")
        assert (tmp_path / name).is_symlink()


def test_an_open_descriptor_is_written_to_where_it_stands(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("before\n")
    with log.open("a") as opened:
        place = f"/dev/fd/{opened.fileno()}"
        number = log.stat().st_ino
        assert is_stream(place)
        write_atomically(place, "answer\n")
    assert (log.read_text(), log.stat().st_ino) == ("before\nanswer\n", number)


def test_standard_output_in_a_file_is_no_file_to_replace(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    code = "from custodes.files import write_atomically as w; w('/dev/stdout', 'a'); w('/dev/stdout', 'b')"
    before = os.readlink("/dev/stdout")
    with log.open("w") as opened:
        subprocess.run([sys.executable, "-c", code], stdout=opened, check=True)
    assert log.read_text() == "ab"
    assert os.readlink("/dev/stdout") == before


# --- unwritable places -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *(("", "it is a folder"), ("missing/a.txt", "no such folder"), ("file/a.txt", "Not a directory")),
        *(("x" * 300, "File name too long"), ("a\0b", "no file can have this name")),
    ],
)
def test_what_cannot_be_written_is_refused_in_words(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_text("")
    for refuses in (check_writable, lambda place: write_atomically(place, "x")):
        with pytest.raises(OptionError, match=message):
            refuses(tmp_path / name)
    assert names(tmp_path) == ["file"]


def test_a_name_as_long_as_may_be_is_written(tmp_path: Path) -> None:
    assert write_atomically(tmp_path / ("x" * 255), "x").read_text() == "x"


def test_a_file_that_may_not_be_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    target.chmod(0o444)
    if os.access(target, os.W_OK):  # root may write to any file
        monkeypatch.setattr(os, "access", lambda place, *mode, **more: Path(place) != target)
    with pytest.raises(OptionError, match="write-protected"):
        write_atomically(target, "new")
    assert target.read_text() == "old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_one_line() -> None:
    with pytest.raises(OptionError, match="No space left"):
        write_atomically("/dev/full", "x")


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))  # smaller than the file
    try:
        with pytest.raises(OptionError, match="File too large"):
            write_atomically(target, b"x" * 50_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (names(tmp_path), target.read_text()) == (["a.txt"], "old")


@pytest.mark.parametrize("stopped", ["chmod", "replace"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: str) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, stopped, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(target, "new")
    assert (names(tmp_path), target.read_text()) == (["a.txt"], "old")


# --- several files and interruptions ---------------------------------------------------------------------------------

WRITER = """
import sys, threading
from custodes.files import write_atomically
ended = threading.Event()
letter, size = sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
while not ended.is_set():
    write_atomically(sys.argv[1], letter * size)
"""


def writer(target: Path, letter: str, *, size: int) -> subprocess.Popen[str]:
    """Start a process that writes a file until its input ends."""
    ask = [sys.executable, "-c", WRITER, str(target), letter, str(size)]
    return subprocess.Popen(ask, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def one_whole(text: str, size: int) -> bool:
    return len(text) == size and len(set(text)) == 1


def test_six_writers_leave_one_whole_file(tmp_path: Path) -> None:
    target, size = tmp_path / "a.txt", 300_000
    running = [writer(target, letter, size=size) for letter in "abcdef"]
    seen = set()

    def has_all() -> bool:
        text = target.read_text()
        assert one_whole(text, size)
        seen.add(text[0])
        return len(seen) == 6

    until(has_all)
    for process in running:
        process.communicate()
    assert [process.returncode for process in running] == [0] * 6
    assert one_whole(target.read_text(), size)
    assert names(tmp_path) == ["a.txt"]


def killed(target: Path, number: int, after: float) -> int:
    """Kill a writer during its work, and return the exit status."""
    process = writer(target, "b", size=8_000_000)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(after)
    process.send_signal(number)
    process.communicate()
    return process.returncode


@pytest.mark.parametrize("after", [0.01, 0.02, *(pytest.param(k / 97, marks=pytest.mark.slow) for k in range(40))])
def test_no_half_written_file_after_a_kill(tmp_path: Path, after: float) -> None:
    target = tmp_path / "a.txt"
    target.write_text("a" * 8_000_000)
    assert killed(target, signal.SIGKILL, after) == -signal.SIGKILL
    assert one_whole(target.read_text(), 8_000_000)
    # Temporary files that a killed process leaves have a recognisable name and are not mistaken for the output.
    assert all(name == "a.txt" or name.startswith(".custodes-") for name in names(tmp_path))


# --- input files are not overwritten ---------------------------------------------------------------------------------


def test_an_output_that_is_an_input_is_refused_by_any_of_its_names(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    ratings = data / "ratings.csv"
    ratings.write_text("x")
    (tmp_path / "link.csv").symlink_to(ratings)
    (tmp_path / "linked").symlink_to(data)
    os.link(ratings, tmp_path / "hard.csv")
    for place in (ratings, data / ".." / "data" / "ratings.csv", *(tmp_path / n for n in ("link.csv", "hard.csv"))):
        for read in (ratings, tmp_path / "link.csv", tmp_path / "hard.csv", tmp_path / "linked" / "ratings.csv"):
            with pytest.raises(OptionError, match="it is the input"):
                check_distinct_files([tmp_path / "other.csv", place], ["demo", read])
        with pytest.raises(OptionError, match="it is the input"):
            check_distinct_files([place], [f"{ratings}::wmt/en-de"])


def test_an_output_in_a_folder_that_is_read_must_be_new(tmp_path: Path) -> None:
    (tmp_path / "set" / "scores").mkdir(parents=True)
    (tmp_path / "set" / "scores" / "a.txt").write_text("x")
    with pytest.raises(OptionError, match="it is a file in the input folder .*set::en-de; choose another name"):
        check_distinct_files([tmp_path / "set" / "scores" / "a.txt"], [f"{tmp_path / 'set'}::en-de"])
    check_distinct_files([tmp_path / "set" / "new.txt", tmp_path / "set.txt"], [tmp_path / "set"])


def test_two_outputs_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="two outputs have this path"):
        check_distinct_files([tmp_path / "a.json", tmp_path / "." / "a.json"], [])
    check_distinct_files([os.devnull, os.devnull], [os.devnull])


def test_standard_input_from_a_file_is_an_input(tmp_path: Path) -> None:
    data = tmp_path / "a.csv"
    data.write_text("x")
    code = "import sys; from custodes.files import check_distinct_files as check; check([sys.argv[1]], [sys.argv[2]])"
    for name in ("-", "/dev/stdin"):
        with data.open() as opened:
            ask = [sys.executable, "-c", code, str(data), name]
            ran = subprocess.run(ask, stdin=opened, capture_output=True, text=True, check=False)
        assert f"it is the input {name}" in ran.stderr


def test_tables_go_to_a_stream_as_csv_and_its_name_stays_away(tmp_path: Path) -> None:
    result = tmp_path / "made.csv"
    with result.open("wb") as file:
        subprocess.run(
            [sys.executable, "-m", "custodes", "convert", "demo", "-o", "/dev/stdout"], stdout=file, check=True
        )
    lines = result.read_text().splitlines()
    assert (lines[0], len(lines)) == ("item,system,rater,aspect,repeat,score,kind", 6600)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder that keeps no files is /proc")
def test_a_folder_that_takes_no_files_is_named() -> None:
    refused = r"^cannot write /proc/x\.json: (the folder /proc is not w|cannot create a new file in the folder /proc)"
    with pytest.raises(OptionError, match=refused):
        write_atomically("/proc/x.json", "x")
