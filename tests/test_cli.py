"""The command line: exit status, one-line errors, complete output files, and equal bytes for equal seeds."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from errno import ENAMETOOLONG, ENOSPC
from pathlib import Path

import polars as pl
import pytest

from custodes import cli
from custodes.stats.learning import boost
from tests.command_line import ANN, LONG, Run, custodes, ratings, refused, write_csv

__all__ = ["custodes"]  # the fixture

QUICK = ("--resamples", "20")


# --- questions and options -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", sorted(cli.VERBS.keys() - set(cli.WITH_SUBCOMMANDS)))
def test_help_of_every_verb_has_an_example(custodes: Run, verb: str) -> None:
    ran = custodes(verb, "--help")
    assert (ran.status, ran.err) == (0, "")
    assert f"Example: custodes {verb}" in " ".join(ran.out.split())
    assert "<factory>" not in ran.out


def test_help_of_convert_describes_the_selection(custodes: Run) -> None:
    ran = custodes("convert", "--help")
    for text in (
        "Raters to treat as annotators",
        "Metrics (default: all)",
        "Systems (default",
        "Aspects of",
        "Groups of",
    ):
        assert text in ran.out


def test_help_lists_every_verb_and_version_the_version(custodes: Run) -> None:
    for argv in ((), ("--help",)):
        ran = custodes(*argv)
        assert ran.status == 0
        assert all(re.search(rf"\b{verb}\b", ran.out) for verb in cli.VERBS)
    assert re.fullmatch(r"custodes \d+\.\d+\.\d+\n", custodes("--version").out)


def test_shell_completion_is_installed_and_knows_the_verbs(custodes: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path("home").absolute()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert custodes("--install-completion", "--shell", "bash").status == 0
    script = next(path for path in home.rglob("custodes") if path.is_file()).read_text()
    assert all(verb in script for verb in cli.VERBS)


@pytest.mark.parametrize(
    ("argv", "fragments"),
    [
        (("agrement", "demo"), ("agrement", "agreement")),
        (("agreement", "demo", "--resample", "5"), ("--resample", "--resamples")),
        (("agreement", "demo", "--resamples"), ("--resamples", "requires an argument")),
        (("agreement", "demo", "--format", "jsn"), ("jsn", "json", "csv")),
        (("agreement", "demo", "--confidence", "95"), ("--confidence 95", "between 0 and 1")),
        (("agreement", "demo", "--ties", "exct"), ("--ties ", "did you mean 'exact'")),
        (("agreement", "demo", "--table", "metric", *QUICK), ("no table 'metric'", "did you mean 'metrics'")),
        (("agreement",), ("no input",)),
        (("annotate", "exclude", "study.db", "w003"), ("annotate exclude: --why is required",)),
        (("annotate", "exclude", "study.db"), ("annotate exclude: WORKER is required",)),
        (("annotate", "exclude", "study.db", "w003", "--why"), ("--why requires an argument",)),
        (("agreement", "demo", "--aspect", "coherense"), ("no such aspect", "did you mean 'coherence'")),
        (("agreement", "demo", "--systems", "!*"), ("--systems '!*' excludes every system",)),
        (("agreement", "nowhere.csv"), ("nowhere.csv: no such file",)),
        (("agreement", "demo", "--reader", "rating"), ("--reader 'rating'", "did you mean 'ratings'")),
        (("protocol", "demo", "--looks", "10,x"), ("--looks", "'10,x'", "whole numbers")),
        (("protocol", "demo", "--looks", "10", "--looks", "20"), ("--looks is given several times; give it once",)),
        (("plan", "--margins", "0,much"), ("--margins", "'0,much'", "comma list of numbers")),
        (("plan", "--metric-items", "50"), ("--metric-items 50 has no effect", "channel")),
        (("plan", "--budget", "1" * 30), ("--budget 1111", "at most 1000000000")),
        (("plan", "--budget", "1" * 5000), ("--budget", "comma list of whole numbers")),
        (("agreement", "demo", "--resamples", "100000000"), ("--resamples 100000000: needs", "GB", "give a smaller")),
        (("protocol", "demo", "--replications", "900000000"), ("--replications 900000000: needs about", "GB")),
        (("plan", "--items", "900000000"), ("--items 900000000: needs about", "GB")),
        (("combine", "fit", "demo", "--target", "fluency", "--repeats", "900000000"), ("--repeats 900000000: needs",)),
        (("agreement", "demo", "--seed", "1" * 21), ("--seed 1111", "must be a seed (a whole number from 0 to")),
        (("combine", "fit", "demo", "--folds", "system", "--repeats", "5"), ("--repeats 5 has no effect", "--folds")),
        (("report", "demo", "--format", "csv"), ("report", "json")),
        (("report", "demo", "-o", "folder/"), ("report", "folder/", "--figures")),
        (("convert", "demo"), ("--output",)),
        (("convert", "demo", "-o", "study.xlsx"), ("'.xlsx'", ".csv")),
    ],
)
def test_bad_options_are_refused_in_one_line(
    custodes: Run, tmp_path: Path, argv: tuple[str, ...], fragments: tuple[str, ...]
) -> None:
    refused(custodes(*argv), *fragments)
    assert list(tmp_path.iterdir()) == []


# --- formats ---------------------------------------------------------------------------------------------------------


def test_another_seed_changes_only_what_is_drawn_and_a_file_holds_the_same_bytes(custodes: Run) -> None:
    command = ("agreement", "demo", *QUICK, "--format", "json", "--no-timing", "--seed")
    ran = custodes(*command, "1")
    assert ran.err == ""  # no progress without a terminal
    assert custodes(*command, "1", "-o", "answer.json").out == ""
    assert Path("answer.json").read_text() == ran.out
    first, second = (json.loads(text)["metrics"] for text in (ran.out, custodes(*command, "2").out))
    assert [row["kendall_item"] for row in first] == [row["kendall_item"] for row in second]
    assert [row["kendall_item_low"] for row in first] != [row["kendall_item_low"] for row in second]


def test_ties_takes_a_number_and_is_recorded(custodes: Run) -> None:
    def ties(option: str) -> tuple[object, list[int]]:
        ran = custodes("favoritism", "demo", *QUICK, "--aspect", "coherence", "--ties", option, "--format", "json")
        answer = json.loads(ran.out)
        cells = ("win_tie", "tie_tie", "loss_tie")
        return answer["provenance"]["options"]["ties"], [sum(row[c] for c in cells) for row in answer["pairs"]]

    (_, exact), (recorded, wide), (name, _) = ties("exact"), ties("0.1"), ties("calibrated")
    assert (recorded, name) == (0.1, "calibrated")
    assert sum(wide) > sum(exact)


@pytest.mark.usefixtures("remembered")
def test_a_named_table_shows_all_its_columns(custodes: Run) -> None:
    ask = ("favoritism", "demo", *QUICK, "--metrics", "judge", "--aspect", "fluency", "--table", "pairs")
    ran = custodes(*ask)
    frame = pl.read_csv(io.StringIO(custodes(*ask, "--format", "csv").out))
    assert frame.height == 15
    for column in frame.columns[1:]:
        column = re.sub("_(low|high)$", "", column)  # bounds follow their estimate in one cell
        assert column in ran.out.replace("\n", " ") or all(word in ran.out for word in column.split("_"))
    assert max(map(len, ran.out.splitlines())) <= 80


# --- output files ----------------------------------------------------------------------------------------------------


def test_a_folder_that_is_there_needs_no_slash(custodes: Run) -> None:
    Path("there").mkdir()
    assert custodes("check", "demo", "-o", "there").status == 0
    assert custodes("convert", "demo", "-o", ".").out.split() == ["ratings.csv", "raters.csv", "items.csv"]
    assert {file.name for file in Path("there").iterdir()} == {"problems.csv", "raters.csv", "summary.csv", "texts.csv"}
    refused(custodes("report", "demo", "-o", "there"), "there", "folder")
    refused(custodes("combine", "score", "demo", "--model", "model.json", "-o", "there"), "there", "folder")


def test_output_that_cannot_be_written_is_refused_before_any_work(custodes: Run) -> None:
    Path("there").mkdir()
    refused(custodes("agreement", "demo", "-o", "there", "--format", "json"), "there", "csv per table")
    refused(custodes("agreement", "demo", "-o", "new/", "--format", "json"), "new/", "csv per table")
    refused(custodes("agreement", "demo", "-o", "answer.xlsx"), ".xlsx", ".csv")
    refused(custodes("agreement", "demo", "-o", "answer.md", "--format", "csv"), "answer.md", "md", "csv")
    refused(custodes("agreement", "demo", "-o", "missing/answer.json"), "missing", "no such folder")
    Path("file").write_text("")
    refused(custodes("agreement", "demo", "--resamples", "0", "--format", "csv", "-o", "file/a/"), "file/a")
    assert not Path("new").exists()
    assert list(Path("there").iterdir()) == []


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (OSError(ENAMETOOLONG, "File name too long", "a" * 300), r"cannot read 'a+\.\.\.: File name too long; give"),
        (OSError(ENOSPC, "No space left on device"), "cannot write: No space left on device; choose another place"),
    ],
)
def test_a_problem_of_reading_is_not_told_as_one_of_writing(
    problem: OSError, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> int:
        raise problem

    monkeypatch.setattr(cli, "app", fails)
    assert cli.run(["check", "demo"]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_refused_command_leaves_the_old_file(custodes: Run) -> None:
    Path("answer.json").write_text("old")
    refused(custodes("agreement", "demo", "--metrics", "nobody", "-o", "answer.json"), "nobody")
    refused(custodes("agreement", "demo", *QUICK, "--table", "nothing", "-o", "answer.json"), "nothing")
    assert Path("answer.json").read_text() == "old"


def test_a_terminal_without_unicode_is_no_error(tmp_path: Path) -> None:
    flat = {system: [1, 1, 1, 1] for system in ANN}
    ratings(tmp_path / "flat.csv", people={"Zoë": ANN}, metrics={"flät": flat})
    code = (
        "import sys; from custodes import cli, console;"
        "ask = ['agreement', 'flat.csv', '--resamples', '0'];"
        "console.run_and_exit(lambda: cli.run(ask) or cli.run([*ask, '--human', sys.argv[1]]))"
    )
    ask = [sys.executable, "-c", code, "Zoé"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = subprocess.run(ask, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert process.returncode == 2
    assert "fl?t" in process.stdout
    assert process.stderr.count("\n") == 1
    assert "Zo" in process.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    ask = [sys.executable, "-m", "custodes", "check", "demo", "--format", "csv"]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(ask, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "No space left" in ran.stderr


# --- report ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(boost.SETTINGS, "rounds", 5)


@pytest.mark.usefixtures("few_rounds")
def test_report_writes_one_file_and_prints_its_path(custodes: Run) -> None:
    quick = ("--resamples", "20", "--aspect", "fluency", "--metrics", "judge", "--systems", "Aster,Birch,Cedar")
    ran = custodes("report", "demo", *quick, "--figures", "figures")
    assert (ran.status, ran.out, ran.err) == (0, "report.html\n", "")  # no progress without a terminal
    assert {path.name for path in Path().iterdir()} == {"report.html", "figures"}
    again = custodes("report", "demo", *quick, "-o", "again.html", "--quiet")
    assert (again.out, again.err) == ("again.html\n", "")
    assert Path("again.html").read_bytes() == Path("report.html").read_bytes()
    assert Path("report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    figures = [path.read_text(encoding="utf-8") for path in Path("figures").iterdir()]
    assert len(figures) > 3
    assert all(figure.lstrip().startswith("<svg") for figure in figures)


@pytest.mark.usefixtures("few_rounds")
def test_report_as_json_holds_every_table(custodes: Run) -> None:
    quick = ("--resamples", "20", "--aspect", "fluency", "--metrics", "judge,overlap")
    ran = custodes("report", "demo", *quick, "--format", "json", "--no-timing")
    answer = json.loads(ran.out)
    assert set(answer) == {
        *("question", "verdict", "check", "agreement", "favoritism", "ranking", "correction", "protocol", "plan"),
        *("leaderboard", "complementarity", "ceiling", "combine", "consistency", "annotators"),
    }
    assert answer["favoritism"]["provenance"]["options"]["aspect"] == "fluency"
    assert len(answer["ranking"]["decisions"]) == 3 * 15
    assert list(Path().iterdir()) == []


# --- check -----------------------------------------------------------------------------------------------------------


def test_check_exits_0_on_a_clean_study_and_1_on_problems(custodes: Run) -> None:
    clean = custodes("check", "demo", "--format", "json")
    assert clean.status == 0
    assert json.loads(clean.out)["problems"] == []
    human = {"ann": {"A": [5, 4] * 20, "B": [2, 3] * 20}}
    against = {"distance": {"A": [0.1, 0.2] * 20, "B": [0.8, 0.7] * 20}}
    ratings(Path("distance.csv"), people=human, metrics=against)
    ran = custodes("check", "distance.csv", "--format", "json")
    assert ran.status == 1
    problem = next(row for row in json.loads(ran.out)["problems"] if row["rule"] == "negative-agreement")
    assert problem["severity"] == "warning"
    assert problem["examples"] == ["distance"]
    write_csv(Path("raters.csv"), "rater,higher_is_better", [("distance", "false")])
    ran = custodes("check", "distance.csv", "--raters", "raters.csv", "--format", "json")
    assert "negative-agreement" not in [row["rule"] for row in json.loads(ran.out)["problems"]]


# --- bad input -------------------------------------------------------------------------------------------------------

GOOD = [
    (f"i{item}", system, rater, kind, 0.25 * item + (system == "A"))
    for rater, kind in (("ann", "human"), ("bleu", "metric"))
    for item in range(4)
    for system in ("A", "B")
]


@pytest.mark.parametrize(
    ("header", "rows", "fragments"),
    [
        (
            "item,system,judge,score",
            [("i", "A", "x", 1)],
            ("bad.csv: columns", "(item, system, rater, score), which also needs 'rater'"),
        ),
        ("item,system,rater,kind,scores", GOOD, ("'score'", "try --column score=scores ")),
        (LONG, [*GOOD, GOOD[2]], ("bad.csv: the same rating occurs twice, in rows 3, 17", "repeat")),
        (LONG, [r for r in GOOD if r[3] == "human"], ("no metric, as every rater is human; add scores of a metric",)),
        (
            LONG,
            [(*r[:2], r[2].replace("ann", "bob"), "", r[4]) for r in GOOD],
            ("no rater is known to be human", "--human 'PATTERN'"),
        ),
    ],
)
def test_bad_tables_are_refused(
    custodes: Run, header: str, rows: list[Sequence[object]], fragments: tuple[str, ...]
) -> None:
    write_csv(Path("bad.csv"), header, rows)
    refused(custodes("agreement", "bad.csv", *QUICK, "-o", "answer.json"), *fragments)
    assert not Path("answer.json").exists()


# --- few annotators, many metrics ------------------------------------------------------------------------------------


def test_people_and_metric_without_an_item_in_common_are_refused(custodes: Run) -> None:
    rows = [(f"i{item}", *row[1:]) for item, row in enumerate(GOOD)]
    humans = [(row[0], s, "ann", "human", 1 + (s == "A")) for row in rows for s in "AB"]
    machine = [(f"other{row[0]}", s, "bleu", "metric", 1 + (s == "A")) for row in rows for s in "AB"]
    write_csv(Path("apart.csv"), LONG, [*humans, *machine])
    for command in (("correction", "apart.csv"), ("protocol", "apart.csv", "--metrics", "bleu")):
        refused(custodes(*command), "in both files", "ann", "bleu")
    assert custodes("protocol", "apart.csv", "--replications", "2", "--batch", "2").status == 0  # human ratings only


def test_protocol_has_a_row_for_each_rule(custodes: Run) -> None:
    options = ("--aspect", "fluency", "--metrics", "judge", "--estimator", "human", "--estimator", "ppi")
    stops = ("--stop", "decided", "--stop", "futility", "--futility", "0.3")
    looks = ("--looks", "10,20,40", "--boundary", "2.5", "--budget", "300", "--replications", "2")
    data = json.loads(custodes("protocol", "demo", *options, *stops, *looks, "--format", "json").out)["protocol"]
    (paper,) = [row for row in data if row["stopping"] == "decided"]  # part of every result
    assert (paper["metric"], paper["estimator"]) == ("none", "human")
    rows = [row for row in data if row != paper]
    assert [(row["metric"], row["estimator"], row["stopping"]) for row in rows] == [
        (metric, estimator, stop)
        for metric, estimator in (("none", "human"), ("judge", "ppi"))
        for stop in (
            "decided, looks 10,20,40, budget 300, boundary 2.5",
            "futility, looks 10,20,40, budget 300, boundary 2.5, futility 0.3",
        )
    ]
    assert all(row["share"] <= 300 / (15 * 80) for row in rows)  # of 80 items for each of 15 pairs
    assert {row["null_error"] for row in rows} == {None}
    assert [row["kld"] is None for row in rows] == [False, False, True, True]


def test_plan_reads_a_channel_and_takes_several_budgets(custodes: Run) -> None:
    Path("channel.csv").write_text("80,10,10\n25,50,25\n10,10,80\n")
    Path("torn.csv").write_text("win,tie,loss\n80,10,10\n")
    Path("narrow.csv").write_text("80,10\n10,80\n")
    quick = ("--estimator", "ppi", "--replications", "2", "--margins", "0,0.2", "--format", "json")
    answer = json.loads(
        custodes("plan", "--channel", "channel.csv", *quick, "--batch", "5,10", "--budget", "20,60").out
    )
    assert answer["provenance"]["options"]["channel"] == [[80, 10, 10], [25, 50, 25], [10, 10, 80]]
    helped = [row for row in answer["plan"] if row["metric"] == "channel"]
    rules = [("batch 5, ", 20), ("batch 5, ", 60), ("", 20), ("", 60)]
    assert [row["stopping"] for row in helped] == [f"decided, {batch}budget {budget}" for batch, budget in rules]
    assert all(2 * row["annotations"] <= budget for row, (_, budget) in zip(helped, rules, strict=True))
    refused(custodes("plan", "--channel", "torn.csv"), "torn.csv", "give three lines", "without a header")
    refused(custodes("plan", "--channel", "narrow.csv"), "3x3")


# --- convert ---------------------------------------------------------------------------------------------------------


def test_convert_names_what_one_file_lacks(custodes: Run) -> None:
    lost_text = "note: a.csv holds only the table ratings; the input also has groups, clusters or weights of items. To"
    assert lost_text in custodes("convert", "demo", "-o", "a.csv").err
    assert "holds only" not in custodes("convert", "a.csv", "-o", "b.csv").err
    assert "holds only" not in custodes("convert", "demo", "--table", "ratings", "-o", "a.csv").err


def test_convert_writes_every_table_of_a_study(custodes: Run) -> None:
    ran = custodes("convert", "demo", "-o", "study/")
    assert ran.out.splitlines() == ["study/ratings.csv", "study/raters.csv", "study/items.csv"]
    ask = ("ranking", *QUICK, "--format", "csv", "--table", "errors")
    again = custodes(*ask, "study/ratings.csv", "--raters", "study/raters.csv", "--items", "study/items.csv")
    assert again.out == custodes(*ask, "demo").out


# --- all aspects at once ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("remembered")
def test_ceiling_shows_the_next_and_the_most_redundant_metrics(custodes: Run) -> None:
    ask = ("ceiling", "demo", *QUICK, "--model", "ridge", "--steps", "4", "--aspect", "fluency")
    answer = json.loads(custodes(*ask, "--format", "json").out)
    output = custodes(*ask).out
    for name, rows in (("next", 5),):
        table = output[output.index(f"\n{name} (fluency)\n") :].split("\n\n")[0]
        assert [row["metric"] in table for row in answer[name][:rows]] == [True] * rows
        left = len(answer[name]) - rows
        assert f"{left} of {len(answer[name])} rows not shown (--table {name})" in output
    assert "not shown" not in custodes(*ask, "--table", "next").out


def test_a_fit_shows_what_its_first_method_differs_by(custodes: Run) -> None:
    ways = ("ridge", "equal", "best")
    ask = ("combine", "fit", "demo", "--target", "fluency", *QUICK, *(f"--method={way}" for way in ways))
    output = custodes(*ask).out
    table = output[output.index("\ndifferences (fluency)\n") :].split("\n\n")[0]
    assert [line.split()[:2] for line in table.splitlines() if line.startswith("ridge")] == [
        ["ridge", "equal"],
        ["ridge", "best"],
    ]
    assert "1 of 3 rows not shown (--table differences)" in output


def test_ceiling_without_xgboost_names_the_extra(custodes: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    refused(custodes("ceiling", "demo", *QUICK, "--model", "xgboost"), "XGBoost", "pip install 'custodes[learn]'")
    assert custodes("ceiling", "demo", *QUICK).status == 0
