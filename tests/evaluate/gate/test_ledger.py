"""A gate with a ledger: outcomes without estimates, detection of edits, merged branches, generations of labels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtri

import custodes as cu
from custodes import cli
from custodes.errors import InputError, OptionError
from custodes.evaluate.gate.ledger import LabelEntry, Ledger
from custodes.stats.stopping.reused_labels import spending_share
from tests.messages import exactly

RULE = "accuracy>=0.8"


def candidate(accuracy: float, seed: int, *, n: int = 200, first: int = 0) -> pl.DataFrame:
    """Return labels of a judge with this accuracy, whose errors have a latent correlation of .8 with those of other
    seeds."""
    common = np.random.default_rng(99).standard_normal(1000)[first : first + n]
    gold = np.random.default_rng(98).random(1000)[first : first + n] < 0.6
    noise = np.random.default_rng(seed).standard_normal(n)
    correct = np.sqrt(0.8) * common + np.sqrt(0.2) * noise < ndtri(accuracy)
    words = {"judge": np.where(correct == gold, "pass", "fail"), "expert": np.where(gold, "pass", "fail")}
    return pl.DataFrame({"id": np.arange(first, first + n), **words})


def ask(data: pl.DataFrame | Path, ledger: Path, **options: Any) -> cu.Gate:
    return cu.gate(data, **{"require": RULE, "ledger": ledger} | options)


def lines(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "gate.jsonl"


def test_only_an_outcome_leaves_the_ledger(ledger: Path) -> None:
    results = [ask(candidate(accuracy, seed), ledger) for seed, accuracy in enumerate((0.78, 0.95, 0.6))]
    assert [(result.outcome, result.status) for result in results] == [("closed", 1), ("open", 0), ("closed", 1)]
    for k, result in enumerate(results):
        (rule,) = result.rules.to_dicts()
        assert [rule[name] for name in ("value", "value_low", "value_high", "p_value")] == [None] * 4
        assert (rule["n"], rule["threshold"]) == (200, 0.8)
        (state,) = result.ledger.to_dicts()
        assert (state["candidate"], state["openings"], state["labels"]) == (k + 1, int(k > 0), 200)
        assert state["ledger_digest"] == lines(ledger)[k + 1]["digest"]
        assert len(state["ledger_digest"]) == 16
    assert results[0].ledger["generation"].item() == results[2].ledger["generation"].item()
    assert next(results[1].lines()) == "open  accuracy of judge >= 0.8"
    suite = ElementTree.fromstring(results[0].to_junit())
    assert suite.find(".//failure").text.startswith("closed: accuracy of judge >= 0.8 (candidate 1 of")


def test_a_candidate_that_is_tested_again_costs_nothing(ledger: Path) -> None:
    first, second = candidate(0.78, 0), candidate(0.78, 1)
    results = [ask(data, ledger) for data in (first, second)]
    before = ledger.read_bytes()
    repeated = ask(first.sample(fraction=1.0, shuffle=True, seed=5), ledger, rng=7)
    assert repeated.outcome == results[0].outcome
    assert repeated.ledger["candidate"].item() == 2
    assert ledger.read_bytes() == before


def test_levels_fall_and_critical_values_allow_for_correlation(ledger: Path) -> None:
    for seed in range(4):
        ask(candidate(0.75, seed), ledger)
    candidates = [line["candidate"] for line in lines(ledger)[1:]]
    spent = [sum(row["spent"]) for row in candidates]
    assert sum(spent) < 0.05 * 0.8
    assert spent[0] > 3 * spent[1] > 3 * spent[3] > 0
    assert 2 < candidates[3]["critical"][0] < ndtri(1 - spent[3])  # the level alone, as for Bonferroni
    # After an opening, candidates have another level.
    for accuracy, seed in ((0.97, 4), (0.75, 5)):
        ask(candidate(accuracy, seed), ledger)
    *_, opened, last = lines(ledger)
    assert (opened["candidate"]["path"], last["candidate"]["path"]) == ([], [opened["digest"]])
    assert last["candidate"]["spent"][0] < 0.05 * 0.2 * (6 / np.pi**2) ** 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:2], "there is no entry '"),  # only the last digest reveals this
        (lambda rows: rows[:1] + rows[2:], "was removed, but entry .* refers to it"),
        (lambda rows: [rows[0], rows[1].replace('"closed"', '"open"'), *rows[2:]], "line 2: the entry was edited"),
        (lambda rows: [*rows[:2], "<<<<<<< HEAD", *rows[2:]], "line 3: .* keep the lines of both branches"),
        (lambda rows: [rows[0].replace("ledger-2", "ledger-9"), *rows[1:]], "line 1: the format is"),
    ],
)
def test_a_changed_file_is_refused(ledger: Path, change: Any, message: str) -> None:
    for seed in range(3):
        last = ask(candidate(0.75, seed), ledger).ledger["ledger_digest"].item()
    assert ask(candidate(0.75, 2), ledger, ledger_digest=last).ledger["candidate"].item() == 3
    rows = ledger.read_text().splitlines()
    ledger.write_text("\n".join(change(rows)) + "\n")
    with pytest.raises(InputError, match=message):
        ask(candidate(0.75, 9), ledger, ledger_digest=last)


def test_changed_and_missing_labels_are_refused(ledger: Path) -> None:
    data = candidate(0.78, 0)
    ask(data, ledger)
    second = {"pass": "fail", "fail": "pass"}
    changed = pl.when(pl.col("id") == 17).then(pl.col("expert").replace(second)).otherwise("expert")
    before = ledger.read_bytes()
    with pytest.raises(
        InputError,
        match=exactly(
            f"{ledger}: human labels changed since earlier runs: 17; restore the earlier labels; if these are outputs "
            "of another version, name the column with the version (--column system=COLUMN)"
        ),
    ):
        ask(data.with_columns(expert=changed), ledger)
    with pytest.raises(
        InputError,
        match=exactly(
            f"{ledger}: 5 human labels of earlier runs are missing, or their annotators are tied now; give all "
            "labels of the earlier runs (for all systems), or replace at least half of the labels by new labels"
        ),
    ):
        ask(data[5:], ledger)
    with pytest.raises(
        OptionError,
        match=exactly(
            "confidence=0.9 differs from the confidence of earlier runs on these labels; use confidence=0.95"
        ),
    ):
        ask(candidate(0.78, 1), ledger, confidence=0.9)
    assert ledger.read_bytes() == before


def test_a_majority_after_a_tie_is_no_changed_label(ledger: Path) -> None:
    rng = np.random.default_rng(0)
    first, judge = rng.integers(1, 6, 200), rng.integers(1, 6, 200)
    second = np.where(first == 4, 5, first)  # annotators tie on the label, but not on the label >=4
    data = pl.DataFrame({"id": np.arange(200), "judge": judge, "expert_1": first, "expert_2": second})

    def ask_with(*more_labels: int) -> cu.Gate:
        """Test the candidate with more annotators, who labelled only the tied outputs."""
        more = {
            f"expert_{k}": pl.when(pl.col("expert_1") == 4).then(label) for k, label in enumerate(more_labels, start=3)
        }
        columns = {"item": "id", "score": ["human:{rater:expert_*}", "metric:{rater:judge}"]}
        return ask(cu.read(data.with_columns(**more), columns=columns), ledger, positive=">=4")

    ask_with()
    assert ask_with(5).ledger["candidate"].item() == 1
    with pytest.raises(InputError, match="annotators are tied now"):
        ask_with(5, 1, 1)
    with pytest.raises(InputError, match="human labels changed since earlier runs"):
        ask_with(1, 1, 1)


def test_two_branches_are_merged_by_keeping_the_lines_of_both(ledger: Path, tmp_path: Path) -> None:
    ask(candidate(0.75, 0), ledger)
    common = ledger.read_text()
    branches = []
    for seeds in ((1, 2), (3,)):
        branch = tmp_path / f"{seeds[0]}.jsonl"
        branch.write_text(common)
        for seed in seeds:
            ask(candidate(0.75, seed), branch)
        branches.append(branch.read_text().removeprefix(common))
    ledger.write_text(common + "".join(branches))
    merged = ask(candidate(0.75, 4), ledger).ledger
    assert merged["candidate"].item() == 5
    rows = lines(ledger)
    assert len(rows[-1]["parents"]) == 2
    # Both branches spent a level on the second candidate, so the next one has only the rest of five levels.
    assert sum(row["candidate"]["spent"][0] for row in rows[1:]) < 0.04 * sum(spending_share(k) for k in range(1, 6))


def test_two_processes_lose_nothing(ledger: Path, tmp_path: Path) -> None:
    for seed in range(6):
        candidate(0.75, seed).write_csv(tmp_path / f"{seed}.csv")
    code = (
        "import sys, custodes as cu\n"
        "for name in sys.argv[2:]: cu.gate(name, metric='judge', require='accuracy>=0.8', ledger=sys.argv[1])"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(ledger), *(str(tmp_path / f"{k}.csv") for k in seeds)])
        for seeds in ((0, 1, 2), (3, 4, 5))
    ]
    assert [process.wait() for process in processes] == [0, 0]
    assert ask(candidate(0.75, 6), ledger).ledger["candidate"].item() == 7


def test_status_says_what_is_left_and_writes_nothing(ledger: Path) -> None:
    fresh = ask(candidate(0.75, 0), ledger, status=True)
    assert (fresh.outcome, fresh.status) == ("not tested", 0)
    assert not ledger.exists()
    (left,) = fresh.ledger["remaining"]
    assert left.startswith(
        "A true value .09 above the threshold is detected with a probability above 0.5 until candidate "
    )
    assert (
        "This holds until a further candidate opens the gate. With 60 new labels, the probability is above 0.5 until "
    ) in left
    assert left.endswith(". 200 new labels start a new generation.")
    ask(candidate(0.75, 0), ledger)
    before = ledger.read_bytes()
    ask(candidate(0.75, 1), ledger, status=True)
    assert ledger.read_bytes() == before
    few = ask(candidate(0.75, 0, n=50), ledger.with_name("few.jsonl"), status=True)
    assert "With 60 new labels, a new generation starts." in few.ledger["remaining"].item()


@pytest.mark.parametrize(
    ("accuracy", "rules", "is_open"),
    [
        (0.97, "kappa>=0.5", True),
        (0.97, "kappa>=0.97", False),
        (0.97, "corrected_rate>=0.3", True),
        (0.97, "corrected_rate>=0.77", False),
        (0.97, "tpr>=0.7", True),
        (0.97, "tpr>=0.97", False),
        (0.95, ["accuracy>=0.8", "tnr>=0.99"], False),  # all rules must hold
        (0.95, ["accuracy>=0.8", "tpr>=0.7"], True),
        (1.0, "accuracy>=0.8", True),
    ],
)
def test_the_gate_opens_if_all_statistics_are_clearly_above(
    ledger: Path, accuracy: float, rules: str | list[str], *, is_open: bool
) -> None:
    result = ask(candidate(accuracy, 0), ledger, require=rules)
    assert {outcome == "open" for outcome in result.rules["outcome"]} == {is_open}
    assert result.rules["label"].to_list() == [
        "pass" if name in ("tpr", "tnr", "corrected_rate") else None for name in result.rules["statistic"]
    ]
    assert len(lines(ledger)) == 2


def two_versions() -> pl.DataFrame:
    """Return labels of two versions of an application on the same items; the human labels of 20 items differ."""
    first, second = (candidate(0.75, seed).with_columns(version=pl.lit(f"v{seed}")) for seed in range(2))
    other = pl.when(pl.col("id") < 20).then(pl.lit("fail")).otherwise("expert")
    return pl.concat([first, second.with_columns(expert=other)])


def test_a_system_that_only_has_another_name_has_no_new_labels(ledger: Path, tmp_path: Path) -> None:
    candidate(0.75, 0).write_csv(tmp_path / "first.csv")
    first = ask(tmp_path / "first.csv", ledger, metric="judge").ledger
    for seed in range(1, 3):  # no name, and then a name that depends on the candidate
        read = cu.read(
            candidate(0.75, seed).with_columns(version=pl.lit(f"judge {seed}")),
            **({"columns": {"system": "version", "item": "id"}} if seed > 1 else {}),
        )
        again = ask(read, ledger, metric="judge").ledger
        assert again["generation"].item() == first["generation"].item()
        assert again["candidate"].item() == seed + 1


def test_one_of_several_systems_has_no_new_labels(ledger: Path, tmp_path: Path) -> None:
    both = two_versions()
    assert ask(both, ledger).ledger["labels"].item() == 400
    assert ask(both, ledger, require="corrected_rate>=0.2").rules["system"].to_list() == ["v0", "v1"]
    both.filter(pl.col("version") == "v0").write_csv(tmp_path / "only.csv")
    for part in ({"study": both, "systems": "v0"}, {"study": tmp_path / "only.csv"}):
        with pytest.raises(InputError, match="200 human labels of earlier runs are missing"):
            cu.gate(**part, require=RULE, ledger=ledger)


def test_two_systems_do_not_share_an_earlier_name() -> None:
    items = [f"{item:016}" for item in range(10)]
    earlier = Ledger().append_entry(
        generation="g", labels=LabelEntry(starts=True, level=0.05, labels={item + "v1": "pass" for item in items})
    )
    labels = {item + system: "pass" for system in ("v3", "v2") for item in items}
    assert earlier.with_earlier_names(labels).keys() == {item + name for name in ("v1", "v3") for item in items}


def test_labels_of_another_version_are_new(ledger: Path) -> None:
    first, second = (ask(two_versions(), ledger, systems=f"v{seed}") for seed in range(2))
    assert first.ledger["generation"].item() != second.ledger["generation"].item()
    (message,) = [note.message for note in second.notes if note.rule == "new-generation"]
    assert message == (
        "a new generation starts, because at least half of the human labels are new; a label is new if its item or its "
        "system is new"
    )
    unnamed = two_versions().drop("version")
    ask(unnamed[:200], ledger.with_name("unnamed.jsonl"))
    with pytest.raises(InputError, match=r"changed .* name the column with the version"):
        ask(unnamed[200:], ledger.with_name("unnamed.jsonl"))


def test_two_judges_are_compared_by_a_ledger(ledger: Path) -> None:
    both = candidate(0.97, 0).with_columns(judge_old=candidate(0.8, 1)["judge"])
    better = cu.gate(both, metric="judge", not_worse_than="judge_old", ledger=ledger)
    worse = cu.gate(both, metric="judge_old", not_worse_than="judge", ledger=ledger)
    assert better.outcome == "open"
    assert worse.outcome != "open"


def test_an_undefined_statistic_spends_no_level(ledger: Path) -> None:
    always = candidate(0.9, 0).with_columns(expert=pl.lit("pass"))
    result = ask(always, ledger, require="tnr>=0.5")
    assert (result.outcome, result.status) == ("inconclusive", 3)
    assert "undefined" in result.rules["reason"].item()
    assert not ledger.read_bytes()


def test_options_without_effect_are_refused(ledger: Path) -> None:
    with pytest.raises(OptionError, match="a ledger is for rules on labels"):
        cu.gate(cu.read("demo"), metric="judge", require="kendall_item>=0.3", ledger=ledger)
    with pytest.raises(OptionError, match=exactly("status=True has no effect: it applies only with a ledger")):
        cu.gate(candidate(0.9, 0), require=RULE, status=True)
    with pytest.raises(
        InputError, match=exactly("ledger: the study has no human labels; add human labels, or omit the ledger")
    ):
        ask(candidate(0.9, 0).with_columns(expert=pl.lit(None, dtype=pl.String)), ledger, metric="judge")


def test_the_command_line_has_the_same_answers(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    candidate(0.95, 0).write_csv(tmp_path / "labels.csv")
    words = ["gate", str(tmp_path / "labels.csv"), "--metric", "judge", "--require", RULE, "--ledger", str(ledger)]
    assert cli.run(words) == 0
    assert "gate: open (1 rule)" in capsys.readouterr().out
    assert cli.run([*words, "--status", "--table", "ledger", "--format", "csv"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header == "generation,candidate,openings,labels,ledger_digest,remaining"
    assert "until candidate" in row
    assert cli.run([*words, "-o", str(ledger.with_suffix(".json"))]) == 0
