"""Workers of other packages: named commands and scripts are found if installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from custodes import cli
from custodes.errors import CustodesWarning, OptionError
from custodes.scoring.metric import Place
from custodes.scoring.metrics.worker import WORKER, parse_worker_command
from custodes.scoring.scripts import OURS, worker_script, workers
from tests import packages
from tests.scoring.made import texts
from tests.scoring.workers import FAKE, programs

Install = Callable[..., None]

PACKAGE = """
import sys
from pathlib import Path
from custodes.scoring.scripts import WorkerCommand

WORKER = WorkerCommand(
    name="letters",
    gives="how many letters more than the references",
    source="a test",
    command=(str(Path(__file__).with_name("letters_worker.py")),),
)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Function that installs the package of a worker and its script."""
    monkeypatch.syspath_prepend(tmp_path)
    workers.cache_clear()

    def put(code: str) -> None:
        (tmp_path / "letters_worker.py").write_bytes(FAKE.read_bytes())
        points = "[custodes.workers]\nletters = lettering:WORKER\n"
        packages.install(tmp_path, code, name="lettering", points=points)

    yield put
    workers.cache_clear()


@pytest.mark.parametrize("run", ["", f"run={sys.executable} "])
def test_a_worker_of_another_package_is_started_by_its_name(install: Install, run: str) -> None:
    install(PACKAGE)
    assert list(workers())[-1] == "letters"
    scorer = WORKER.load(Place(), command=f"{run}letters ''")
    values = scorer.score(texts(["abc"])).values
    scorer.close()
    np.testing.assert_array_equal(values, [[2]])


def test_a_command_of_a_package_needs_no_interpreter(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path, "uvx")
    monkeypatch.setenv("PATH", str(tmp_path))
    install(PACKAGE.replace('(str(Path(__file__).with_name("letters_worker.py")),)', '("uvx", "letters")'))
    assert parse_worker_command("letters --x")[0] == ["uvx", "letters", "--x"]
    with pytest.raises(OptionError, match="run= applies only to scripts"):
        parse_worker_command("run=python letters")
    with pytest.raises(OptionError, match="worker 'letters' is the command 'uvx letters', not a script"):
        worker_script("letters")


def test_a_script_is_printed_to_be_copied(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The printed script includes the code shared by scripts, and its scores are cached under the same signature."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def score(rows):\n    return [len(row['output']) for row in rows]\n")
    assert cli.run(["score", "--script", "callable"]) == 0
    (tmp_path / "copied.py").write_text(capsys.readouterr().out)
    scorers = [WORKER.load(Place(), command=f"{name} mine:score") for name in ("copied.py", "callable")]
    for scorer in scorers:
        np.testing.assert_array_equal(scorer.score(texts(["abc"])).values, [[3]])
        scorer.close()
    assert scorers[0].signature == scorers[1].signature
    assert cli.run(["score", "--script", "comets"]) == 2
    assert capsys.readouterr().err == "custodes: unknown worker 'comets' (did you mean 'comet'?)\n"


def test_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["score", "--list"]) == 0
    output = capsys.readouterr().out
    assert all(f"\n{worker.name} " in output for worker in OURS)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("WORKER = WorkerCommand(", "WORKER = dict("), "its type must be WorkerCommand, but it is dict"),
        (('"letters"', '"comet"'), "another worker already has the name 'comet'; choose another name"),
        (("letters_worker.py", "no_worker.py"), r"the script .*no_worker.py does not exist"),
        (("command=(", "command=3 or ("), "the command is 3, expected a tuple of words"),
        (("command=(", "command=() and ("), r"the command is \(\), expected a tuple of words"),
    ],
)
def test_a_broken_one_is_left_out_with_one_line(install: Install, change: tuple[str, str], reason: str) -> None:
    install(PACKAGE.replace(*change))
    line = rf"worker 'letters' \(lettering:WORKER\) of the package custodes-lettering 1\.2 is left out: {reason}; "
    with pytest.warns(CustodesWarning, match=f"^{line}update or uninstall the package$"):
        assert list(workers()) == [script.name for script in OURS]
