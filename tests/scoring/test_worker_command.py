"""Processes of workers: commands, signatures, exit with the parent process, scripts and functions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from custodes.errors import InputError, OptionError
from custodes.scoring.metric import Place
from custodes.scoring.metrics.worker import WORKER, parse_worker_command
from custodes.scoring.scripts import FOLDER, OURS, worker_script
from tests.scoring.made import texts
from tests.scoring.workers import FAKE, programs
from tests.waiting import until


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no-such-command --x", "there is no program 'no-such-command'; custodes score --list shows all workers"),
        ("coment --model x", r"there is no program 'coment' \(did you mean 'comet'\?\)"),
        ("mine.py --fast", "there is no script 'mine.py'"),
        (str(FOLDER), "there is no program '.*workers'"),
        (f"'{FAKE}\0'", "there is no program"),
        ("timeout=5", "give a command, as in 'worker:uv run mine.py', or one of .*callable"),
        ("timeout=soon callable x:y", "timeout=soon is not allowed; give a number of seconds above 0"),
        ("timeout=nan callable x:y", "timeout=nan is not allowed; give a number of seconds above 0"),
        ("run=python3 other-program", r"run= applies only to scripts .* and 'other-program' is"),
        ("a 'b", '"a \'b" is not a command line: No closing quotation'),
    ],
)
def test_a_bad_command_is_one_line(line: str, message: str) -> None:
    with pytest.raises((InputError, OptionError), match=f"worker.*{message}"):
        WORKER.load(Place(), command=line)


def test_commands_are_taken_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    programs(tmp_path, "uv", "py", "mine.py")
    script = str(FOLDER / "callable_worker.py")
    assert parse_worker_command("callable a:b 'c d'")[0] == [sys.executable, script, "a:b", "c d"]
    assert parse_worker_command('timeout=9 run="uv run" callable a:b') == (["uv", "run", script, "a:b"], 9)
    assert parse_worker_command("run=py mine.py --x")[0] == ["py", "mine.py", "--x"]
    assert parse_worker_command("uv run mine.py --rate=3")[0] == ["uv", "run", "mine.py", "--rate=3"]


def test_what_decides_on_scores_is_in_the_signature(tmp_path: Path) -> None:
    def signature(*words: str | Path) -> str:
        scorer = WORKER.load(Place(), command=" ".join(map(str, words)))
        scorer.close()
        return scorer.signature

    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("1")
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_bytes(FAKE.read_bytes())
    before = signature(sys.executable, FAKE, "--model", model)
    assert before.endswith(" length 1")
    assert signature(f"{os.path.dirname(sys.executable)}/python3", elsewhere, "--model", model) == before
    assert signature("run=python3", elsewhere, "--model", model) == before
    for change in (lambda: (model / "weights").write_text("2"), lambda: elsewhere.write_text(FAKE.read_text() + "\n")):
        change()
        after = signature(sys.executable, elsewhere, "--model", model)
        assert after != before
        before = after
    assert signature(sys.executable, elsewhere, f"--model={model}") != before
    assert str(tmp_path) not in signature(sys.executable, elsewhere, f"--model={model}")


PARENT = """
import sys
import numpy as np
from custodes import process
from custodes.scoring.metric import Place, MetricInputs
from custodes.scoring.metrics.worker import WORKER
process.exit_on_signals()
scorer = WORKER.load(Place(), command=sys.argv[1])
print("ready", flush=True)
zero = np.zeros(1, dtype=int)
none = {"sources": [""], "references": [[]], "images": [[]], "contexts": [""]}
scorer.score(MetricInputs(outputs=["a"], item=zero, system=zero, **none))
"""


@pytest.mark.skipif(os.name != "posix", reason="signals and groups of processes of POSIX")
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_no_worker_outlives_its_parent(how: str, tmp_path: Path) -> None:
    """Long computations also end, even if the parent could not send a message."""
    (tmp_path / "slow.py").write_text(
        "import os, pathlib, time\ndef score(rows):\n    pathlib.Path('pids').write_text(f'{os.getpid()} .')\n"
        "    time.sleep(900)\n"
    )
    _end_parent("callable slow:score", signal.Signals[how], tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="signals and groups of processes of POSIX")
def test_one_that_does_not_read_its_input_ends_with_its_parent_and_with_its_children(tmp_path: Path) -> None:
    (tmp_path / "deaf.py").write_text(
        textwrap.dedent("""
        import json, os, pathlib, subprocess, sys, time
        print(json.dumps({"protocol": 1, "metric": "deaf", "version": "1"}), flush=True)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(900)"])
        pathlib.Path("pids").write_text(f"{os.getpid()} {child.pid} .")
        time.sleep(900)
        """)
    )
    _end_parent("deaf.py", signal.SIGKILL, tmp_path)


def _end_parent(command: str, how: signal.Signals, folder: Path) -> None:
    """Start a process that sends a request to a worker, end it, and wait for the end of all processes in `pids`."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        *pids, _ = until(lambda: text.split() if (text := (folder / "pids").read_text()).endswith(".") else None)
        parent.send_signal(how)
    for process in map(int, pids):
        until(lambda process=process: None if _runs(process) else "ended")


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat")
        if state.exists():  # a zombie process has ended
            return state.read_text().rpartition(")")[2].split()[0] != "Z"
        os.kill(process, 0)
    except OSError:
        return False
    return not Path("/proc/self").exists()


def test_every_script_takes_the_protocol_from_one_place() -> None:
    assert sorted(worker.command for worker in OURS) == [(str(path),) for path in sorted(FOLDER.glob("*_worker.py"))]
    for worker in OURS:
        assert "\nfrom worker_protocol import " in Path(worker.command[0]).read_text(encoding="utf-8")
        assert "import custodes" not in worker_script(worker.name)
        assert "worker_protocol import" not in worker_script(worker.name)
        compile(worker_script(worker.name), worker.name, "exec")


def test_a_function_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "def score(rows):\n    print('noise on standard output')\n    return [len(row['output']) / len(row['source']) "
        "if row['source'] else None for row in rows]\n"
    )
    scorer = WORKER.load(Place(), command="callable mine:score --needs source --low 0 --lower-is-better")
    assert (scorer.traits.needs, scorer.traits.low, scorer.traits.higher_is_better) == (("source",), 0.0, False)
    result = scorer.score(texts(["abc", "a"], sources=["ab", ""]))
    scorer.close()
    np.testing.assert_array_equal(result.values, [[1.5], [np.nan]])
    assert result.why == {1: "the worker returned no score"}
    assert result.seconds >= 0
    with pytest.raises(InputError, match="the last line of its output: .*No module named 'nothing'"):
        WORKER.load(Place(), command="callable nothing:score")


def test_all_code_of_ones_own_decides_on_the_version_of_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version includes modules imported by the function, one in its package and one in a folder on the path, but
    not installed packages or the location of files."""

    def version() -> str:
        scorer = WORKER.load(Place(), command="callable mine:score")
        scorer.close()
        return scorer.signature

    here, beside = tmp_path / "here", tmp_path / "beside"
    site = tmp_path / "lib" / "site-packages"
    for folder in (here / "mine", beside, site):
        folder.mkdir(parents=True)
    parts = {
        here / "mine" / "__init__.py": "from mine.impl import score\n",
        here / "mine" / "impl.py": "import helper, far, installed\ndef score(rows):\n    return [1.0 for _ in rows]\n",
        here / "helper.py": "X = 1\n",
        beside / "far.py": "X = 1\n",
    }
    for path, code in {**parts, site / "installed.py": "X = 1\n"}.items():
        path.write_text(code)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, [beside, site])))
    monkeypatch.chdir(here)
    before = version()
    (site / "installed.py").write_text("X = 2\n")
    assert version() == before
    seen = {before}
    for path, code in parts.items():
        path.write_text(f"{code}# changed\n")
        assert version() not in seen, path
        seen.add(version())
    before = version()
    here.rename(tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    assert version() == before
    (tmp_path / "there" / "other.py").write_text("X = 1\n")  # not imported
    assert version() == before
