"""Output of the process: inputs are not overwritten, terminals get no control characters, interrupts give one line."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import polars as pl
import pytest
from rich.cells import cell_len

import custodes as cu
from custodes import cli, console, options, process
from custodes.control_characters import escape_controls
from custodes.errors import CustodesWarning, InputError
from tests.command_line import ANN, BLEU, LONG, Run, custodes, interruptible, ratings, refused, write_csv

__all__ = ["custodes"]  # the fixture

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
NASTY = ("a\x1b[2J", "b\x9b31m", "c\u202eabc", "d\x1b]8;;http://x\x07")
"""Control sequences: clear the screen, red by a C1 code, reversed text direction, start of a link."""


# --- inputs are not overwritten --------------------------------------------------------------------------------------


@pytest.fixture
def files(custodes: Run) -> Run:
    """Create ratings.csv, raters.csv, items.csv, channel.csv, data.json and model.json in the working folder."""
    ratings(Path("ratings.csv"), people={"ann": ANN}, metrics={"bleu": BLEU})
    Path("link.csv").symlink_to("ratings.csv")
    Path("data.json").write_text(json.dumps(pl.read_csv("ratings.csv").to_dicts()))
    write_csv(Path("raters.csv"), "rater,kind", [("bleu", "metric")])
    write_csv(Path("items.csv"), "item,cluster", [("i0", "c")])
    write_csv(Path("folds.csv"), "item,fold", [("i0", 0)])
    Path("channel.csv").write_text("8,1,1\n1,8,1\n1,1,8\n")
    Path("model.json").write_text("{}")
    Path("study.toml").write_text('raters = "raters.csv"\n')
    return custodes


@pytest.mark.parametrize(
    ("argv", "output"),
    [
        (("check", "ratings.csv", "-o", "ratings.csv"), "ratings.csv"),
        (("check", "link.csv", "-o", "./ratings.csv"), "ratings.csv"),
        (("convert", "rating?.csv", "-o", "ratings.csv"), "ratings.csv"),
        (("convert", "ratings.csv", "--schema", "study.toml", "-o", "study.toml"), "study.toml"),
        (("convert", "ratings.csv", "--schema", "study.toml", "-o", "raters.csv"), "raters.csv"),
        (("agreement", "ratings.csv", "--raters", "raters.csv", "-o", "raters.csv"), "raters.csv"),
        (("agreement", "ratings.csv", "--items", "items.csv", "-o", "items.csv"), "items.csv"),
        (("gate", "data.json", "--metric", "bleu", "--require", "spa>=0", "--junit", "data.json"), "data.json"),
        (("plan", "--channel", "channel.csv", "-o", "channel.csv"), "channel.csv"),
        (("report", "data.json", "--format", "json", "-o", "data.json"), "data.json"),
        (("convert", "ratings.csv", "-o", "."), "ratings.csv"),
        (("convert", "ratings.csv", "--raters", "raters.csv", "-o", "./"), "ratings.csv"),
        (("combine", "fit", "data.json", "-o", "data.json"), "data.json"),
        (("combine", "fit", "ratings.csv", "--held-out", "ratings.csv"), "ratings.csv"),
        (("combine", "fit", "ratings.csv", "--folds", "folds.csv", "--held-out", "folds.csv"), "folds.csv"),
        (("combine", "score", "ratings.csv", "--model", "model.json", "-o", "ratings.csv"), "ratings.csv"),
        (("combine", "validate", "ratings.csv", "--model", "model.json", "-o", "model.json"), "model.json"),
    ],
)
def test_no_input_is_written_over(files: Run, argv: tuple[str, ...], output: str) -> None:
    before = {path: path.read_bytes() for path in Path().iterdir()}
    refused(files(*argv), f"cannot write {output}: it is the input", "choose another name")
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_a_report_goes_over_no_input_even_where_no_output_is_named(files: Run) -> None:
    Path("report.html").symlink_to("ratings.csv")
    refused(files("report", "ratings.csv"), "report.html: it is the input ratings.csv")


def test_a_folder_of_tables_that_holds_an_input_is_refused(files: Run) -> None:
    Path("agreed").mkdir()
    Path("ratings.csv").rename("agreed/metrics.csv")
    refused(files("agreement", "agreed/metrics.csv", "-o", "agreed/"), "agreed/metrics.csv: it is the input")
    assert [path.name for path in Path("agreed").iterdir()] == ["metrics.csv"]
    assert files("check", "agreed/metrics.csv", "-o", "agreed/").status in (0, 1)  # three tables


def test_a_word_that_is_also_a_folder_is_no_input(files: Run) -> None:
    Path("bleu").mkdir()
    ask = ("agreement", "ratings.csv", "--metrics", "bleu", "--resamples", "0", "-o", "bleu/")
    assert [files(*ask).status, files(*ask).status] == [0, 0]


# --- terminals -------------------------------------------------------------------------------------------------------


@pytest.fixture
def nasty(custodes: Run) -> Run:
    """Create nasty.csv, in which every label contains a control sequence."""
    systems = {f"{name}{code}": scores for (name, scores), code in zip(ANN.items(), NASTY, strict=False)}
    against = {name: BLEU[name[0]] for name in systems}
    flat = {name: [1.0] * 4 for name in systems}
    ratings(
        Path("nasty.csv"),
        people={f"ann{NASTY[3]}": systems},
        metrics={f"bleu{NASTY[0]}": against, f"flat{NASTY[1]}": flat},
    )
    return custodes


class Terminal(io.StringIO):
    """Text stream that acts as a terminal and stores its input."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = io.BytesIO()

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("verb", ["check", "agreement", "ranking", "verdict"])
def test_no_table_and_no_note_sends_a_code_to_a_terminal(nasty: Run, verb: str) -> None:
    ran = nasty(verb, "nasty.csv", *(("--table", "raters") if verb == "check" else ("--resamples", "100")))
    assert ran.status in (0, 1)
    assert not CONTROLS.search(ran.out + ran.err)
    assert "\\x1b" in ran.out


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_sees_what_is_done_from_the_start(nasty: Run, quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert cli.run(["check", "nasty.csv", *(["--quiet"] if quiet else [])]) in (0, 1)
    places = [terminal.getvalue().find(name) for name in ("reading nasty.csv", "check")]
    assert places == [-1, -1] if quiet else 0 <= places[0] < places[1]


@pytest.mark.parametrize("form", ["csv", "md", "latex", "html", "json"])
def test_forms_for_programs_are_exact_and_all_are_harmless_on_a_terminal(
    nasty: Run, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ("check", "nasty.csv", "--table", "raters", "--format", form)
    exact = nasty(*ask).out
    if form in ("csv", "json"):
        assert (json.dumps(f"bleu{NASTY[0]}")[1:-1] if form == "json" else f"bleu{NASTY[0]}") in exact
    else:  # formats for human readers, who may print them on a terminal
        assert "x1b" in exact
        assert not CONTROLS.search(exact)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert cli.run(ask) in (0, 1)
    text = terminal.buffer.getvalue().decode()
    assert not CONTROLS.search(text)
    assert text.count("\n") == exact.count("\n")


@pytest.mark.parametrize(
    "argv",
    [
        (NASTY[0], "nasty.csv"),
        ("agreement", NASTY[0]),
        ("agreement", "nasty.csv", "--metrics", NASTY[2]),
        ("agreement", "nasty.csv", "-o", f"{NASTY[0]}.xlsx"),
        ("agreement", "nasty.csv", "--seed", NASTY[1]),
        ("agreement", "nasty.csv", f"--{NASTY[0]}"),
    ],
)
def test_no_error_sends_a_code_to_a_terminal(nasty: Run, argv: tuple[str, ...]) -> None:
    ran = nasty(*argv)
    refused(ran)
    assert not CONTROLS.search(ran.err)
    assert "\\" in ran.err


def test_no_path_and_no_warning_sends_a_code_to_a_terminal(nasty: Run, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{NASTY[0]}.csv"
    assert nasty("convert", "nasty.csv", "-o", name).out == f"{escape_controls(name)}\n"
    assert Path(name).exists()
    with warnings.catch_warnings():
        warnings.showwarning = console._warn
        warnings.simplefilter("always")
        warnings.warn(NASTY[0], CustodesWarning, stacklevel=1)
    assert capsys.readouterr().err == f"custodes: warning: {escape_controls(NASTY[0])}\n"


def test_what_python_prints_is_harmless_too() -> None:
    frame = pl.DataFrame({"item": ["1", "1"], "system": ["A", "B"], "ann": [1, 2], NASTY[0]: [2, 1]})
    study = cu.read(frame).describe(raters=pl.DataFrame({"rater": ["ann"], "kind": ["human"]}))
    assert not CONTROLS.search(repr(study))
    assert str(InputError(f"no {NASTY[0]}\nhere")) == "no a\\x1b[2J here"
    result = cu.check(study)
    assert not CONTROLS.search(f"{result!r} {result.provenance}")


def test_letters_of_two_columns_keep_tables_in_line(custodes: Run) -> None:
    wide = {"系统": ANN["A"], "B": ANN["B"], "e\u0301": ANN["C"]}
    ratings(Path("wide.csv"), people={"ann": wide}, metrics={"度量": dict.fromkeys(wide, BLEU["A"]), "m": wide})
    lines = custodes("leaderboard", "wide.csv", "--resamples", "100", "--table", "systems").out.splitlines()
    rows = [line for line in lines if "[" in line and any(name in line for name in wide)]
    assert len(rows) == 9  # three raters, three systems each
    # Numbers of the last column are aligned to the right.
    assert len({cell_len(line.rstrip()) for line in rows}) == 1


def test_visible_leaves_every_script_and_changes_nothing_twice() -> None:
    for text in ("Zoë", "模型", "נטע\u200f", "👩\u200d👩\u200d👧", "a\\x1b"):
        assert escape_controls(text) == text
    for text in NASTY:
        assert escape_controls(escape_controls(text)) == escape_controls(text)


# --- machine-readable formats ----------------------------------------------------------------------------------------


def test_json_is_valid_whatever_labels_and_names_hold(custodes: Run) -> None:
    name = os.fsdecode(b"\xff\x1b.csv")
    rows = [(f"i\x00\u2028{i}", system, rater, kind, i % 3 + k) for i in range(4) for k, system in enumerate("AB\x7f")
            for rater, kind in (("a\u0085n", "human"), ("m\x1b", "metric"))]  # fmt: skip
    write_csv(Path(name), LONG, rows)
    for verb in ("check", "agreement"):
        answer = json.loads(custodes(verb, name, "--format", "json").out)
        assert answer["provenance"]["study"] == "\\udcff\x1b.csv"
    for place in ("a.json", "a.html", "a.md", "a.tex", "a.txt", "a.csv"):
        assert custodes("agreement", name, "--resamples", "0", "-o", place).status == 0
        assert Path(place).read_text(encoding="utf-8")
    assert json.loads(Path("a.json").read_text())["metrics"][0]["metric"] == "m\x1b"


FORMULAS = ("=cmd|'/c calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", "＝1+1")


def test_formulas_are_quoted_on_request_and_numbers_never(custodes: Run) -> None:
    systems = dict(zip(FORMULAS, [[1.0, -2.0, 3.0]] * 6, strict=True))
    ratings(Path("cells.csv"), people={"=ann": systems}, metrics={"m": systems})
    exact = custodes("convert", "cells.csv", "-o", "exact.csv")
    assert exact.status == 0
    before = pl.read_csv("exact.csv")
    assert before["rater"][0] == "=ann"
    for place in ("quoted.csv", "quoted.tsv", "tables/"):
        assert custodes("convert", "cells.csv", "-o", place, "--quote-formulas").status == 0
    for place in ("quoted.csv", "tables/ratings.csv"):
        after = pl.read_csv(place)
        assert after["score"].equals(before["score"])
        assert set(after["system"]) == {f"'{name.strip()}" for name in FORMULAS}
        assert set(after["rater"]) == {"'=ann", "m"}
    assert Path("quoted.tsv").read_text() == Path("quoted.csv").read_text().replace(",", "\t")
    rows = ("leaderboard", "cells.csv", "--resamples", "0", "--table", "systems", "--format", "csv")
    assert "'=cmd" in custodes(*rows, "--quote-formulas").out
    assert "'=cmd" not in custodes(*rows).out


@pytest.mark.parametrize(
    "argv",
    [
        *(("check", "demo", "--format", "json"), ("check", "demo", "-o", "a.html")),
        *(("report", "demo"), ("combine", "fit", "demo")),
    ],
)
def test_formulas_are_quoted_nowhere_else(custodes: Run, argv: tuple[str, ...]) -> None:
    refused(custodes(*argv, "--quote-formulas"), "only to csv and tsv", "--format csv")
    assert list(Path().iterdir()) == []


# --- the process -----------------------------------------------------------------------------------------------------


def test_an_interrupt_at_work_is_one_line_and_130(custodes: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("answer.json").write_text("old")

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    ran = custodes("check", "demo", "-o", "answer.json")
    assert (ran.status, ran.out, ran.err) == (130, "", "custodes: interrupted\n")
    assert [(path.name, path.read_text()) for path in Path().iterdir()] == [("answer.json", "old")]


def test_a_signal_takes_unfinished_files_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unfinished, results, left = tmp_path / ".custodes-1", [], []
    unfinished.write_text("half")
    monkeypatch.setattr(process, "UNFINISHED", {str(unfinished), str(tmp_path / "never made")})
    monkeypatch.setattr(os, "write", lambda number, text: results.append((number, text)))
    monkeypatch.setattr(os, "isatty", lambda number: True)
    monkeypatch.setattr(os, "_exit", left.append)
    process._exit_on_signal(signal.SIGTERM, None)
    assert (results, left) == ([(2, b"\x1b[?25hcustodes: terminated\n")], [143])
    assert list(tmp_path.iterdir()) == []


def started(*argv: str, folder: Path) -> subprocess.Popen[str]:
    """Start the command in a separate process that handles SIGINT."""
    return subprocess.Popen(interruptible(*argv), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("number", "status", "message", "module"),
    [
        (signal.SIGINT, 130, "interrupted", "polars"),
        (signal.SIGTERM, 143, "terminated", "numpy"),
        *(
            pytest.param(number, 128 + number, message, module, marks=pytest.mark.slow)
            for number, message in ((signal.SIGINT, "interrupted"), (signal.SIGHUP, "the terminal was closed"))
            for module in ("custodes.errors", "numpy", "cyclopts", "custodes.cli", "custodes.data.simulate")
        ),
    ],
)
def test_a_signal_before_imports_end_is_one_line(
    tmp_path: Path, number: int, status: int, message: str, module: str
) -> None:
    ran = started("-X", "importtime", "-m", "custodes", "report", "demo", "-o", "a.html", folder=tmp_path)
    assert ran.stderr is not None
    for line in ran.stderr:  # Python lists the imported modules here
        if line.split("|")[-1].strip().startswith(module):
            ran.send_signal(number)
            break
    results = [line for line in ran.stderr if not line.startswith("import time:")]
    assert ran.wait() == status
    ran.communicate()
    assert results == [f"custodes: {message}\n"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("closed", "argv", "status", "message"),
    [
        ((1,), ("check", "demo"), 2, "custodes: cannot write: standard output is closed; choose another place\n"),
        ((0, 1, 2), ("check", "demo", "-o", "a.json"), 0, ""),
        pytest.param((2,), ("check", "nowhere.csv"), 2, "", marks=pytest.mark.slow),
    ],
)
def test_closed_streams_are_no_crash(
    tmp_path: Path, closed: tuple[int, ...], argv: tuple[str, ...], status: int, message: str
) -> None:
    redirections = " ".join(f"{number}>&-" for number in closed)
    ran = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "custodes", *argv],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (status, message)
    assert [json.loads(path.read_text())["question"] for path in tmp_path.iterdir()] == ["check"] * (0 in closed)


@pytest.mark.parametrize(
    ("ask", "status"),
    [
        (("check", "demo"), 0),
        (("gate", "demo", "--metric", "judge", "--require", "kendall_item>=0.99", "--format", "csv"), 1),
    ],
)
def test_the_status_is_that_of_the_answer_also_where_nobody_reads_on(
    tmp_path: Path, ask: tuple[str, ...], status: int
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        [sys.executable, "-m", "custodes", *ask], stdout=writing, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (status, "")


def test_what_a_command_reads() -> None:
    path = str(Path(__file__))
    assert options.input_files(["a.csv"], None, 1, [path, "no such"], Path(path), True) == ["a.csv", path, Path(path)]
