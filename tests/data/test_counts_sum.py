"""Counts of disjoint items add up to the counts of the whole table; incompatible counts are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes import cli
from tests.data.equal_counts import assert_equal_counts
from tests.data.input_errors import input_error
from tests.messages import exactly


def ratings(items: range, systems: str, raters: tuple[str, ...]) -> pl.DataFrame:
    rng = np.random.default_rng(items.start)
    rows = [
        (f"i{item}", system, rater, float(rng.integers(1, 6)))
        for item in items
        for system in systems
        for rater in raters
    ]
    return pl.DataFrame(rows, schema=["item", "system", "rater", "score"], orient="row")


def battles(items: range, systems: str, raters: tuple[str, ...]) -> pl.DataFrame:
    rng = np.random.default_rng(items.start)
    rows = []
    for item in items:
        first, second = rng.choice(list(systems), size=2, replace=False)
        for rater in raters:
            kind = "human" if rater.startswith("ann") else "metric"
            for order in ("ab", "ba") if rater == "judge" else ("ab",):
                winner = rng.choice(["model_a", "model_b", "tie"])
                rows.append((f"i{item}", first, second, winner, rater, kind, order))
    columns = ["item", "model_a", "model_b", "winner", "rater", "kind", "order"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def saved(counts: cu.OutcomeCounts, folder: Path, name: str) -> str:
    return str(cu.write_counts(counts, folder / f"{name}.counts.json"))


def check_equal(total: cu.OutcomeCounts, whole: cu.OutcomeCounts) -> None:
    assert_equal_counts(total, whole)
    assert total.outcomes.equals(whole.outcomes)
    assert total.items == whole.items


SCORES = [
    ratings(range(20), "AB", ("ann", "bleu")),
    ratings(range(20, 50), "BCD", ("ann", "bleu", "ter")),
    ratings(range(50, 60), "AD", ("ann", "ter")),
]
VERDICTS = [
    battles(range(30), "AB", ("ann1", "judge")),
    battles(range(30, 80), "BCD", ("ann1", "ann2", "judge", "reward")),
]


def test_counts_of_scores_add_up_to_those_of_the_whole_table(tmp_path: Path) -> None:
    places = [saved(cu.count_pairs(part, human="ann"), tmp_path, f"s{k}") for k, part in enumerate(SCORES)]
    whole = cu.count_pairs(pl.concat(SCORES), human="ann")
    total = cu.read_counts(*places)
    check_equal(total, whole)
    assert total.origin.how == {"human": ["ann"], "aggregate": "mean", "ties": 0.0}
    one, other = (cu.favoritism(about, resamples=20, rng=0) for about in (places, whole))
    assert one.to_dict()["pairs"] == other.to_dict()["pairs"]
    assert one.provenance.study == "s0.counts.json + s1.counts.json + s2.counts.json"


def test_counts_of_verdicts_add_up_to_those_of_the_whole_table(tmp_path: Path) -> None:
    places = [saved(cu.count_battles(part), tmp_path, f"v{k}") for k, part in enumerate(VERDICTS)]
    whole = cu.count_battles(pl.concat(VERDICTS))
    check_equal(cu.read_counts(*places), whole)
    one, other = (cu.leaderboard(about, rng=0).to_dict() for about in (places, whole))
    assert one["systems"] == other["systems"]
    assert one["pairs"] == other["pairs"]


def test_notes_name_their_file_and_one_file_stays_as_it_is(tmp_path: Path) -> None:
    empty = VERDICTS[0].with_columns(winner=pl.when(pl.col("item") == "i0").then(pl.lit("")).otherwise("winner"))
    places = [saved(cu.count_battles(part), tmp_path, name) for part, name in ((empty, "a"), (VERDICTS[1], "b"))]
    messages = [note.message for note in cu.read_counts(*places).notes if note.rule == "missing-verdict"]
    assert messages == ["a.counts.json: 3 verdicts are empty and count as not rated"]
    assert cu.read_counts(places[0]).origin.name == "a.counts.json"


def test_the_command_line_adds_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for k, part in enumerate(VERDICTS):
        saved(cu.count_battles(part), tmp_path, f"v{k}")
    whole = saved(cu.count_battles(pl.concat(VERDICTS)), tmp_path, "whole")
    tables = []
    for files in (["v0.counts.json", "v1.counts.json"], [whole]):
        assert cli.run(["leaderboard", *files, "--table", "systems", "--format", "csv"]) == 0
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1]
    VERDICTS[0].write_csv("v.csv")
    for words, message in (
        ("check v0.counts.json v1.counts.json", "check: this question needs the ratings of single items"),
        ("report v0.counts.json", "this question needs the ratings of single items; pass the study instead of its"),
        ("leaderboard v0.counts.json v.csv", "counts cannot be joined with other data; give counts only"),
        ("leaderboard v0.counts.json v1.counts.json --reader table", "files of counts"),
    ):
        assert cli.run(words.split()) == 2
        assert message in capsys.readouterr().err.replace("\n", " ")


def verdicts(part: int, **options: Any) -> Callable[[], cu.OutcomeCounts]:
    return lambda: cu.count_battles(VERDICTS[part].with_columns(aspect=pl.lit(options.get("aspect", ""))), **options)


def scores(part: int, **options: Any) -> Callable[[], cu.OutcomeCounts]:
    return lambda: cu.count_pairs(SCORES[part], **{"human": "ann"} | options)


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (verdicts(0), verdicts(0), "both files hold the same counts; give each file once"),
        (verdicts(0), scores(0), "one file counts scores and one counts verdicts; give counts of one kind"),
        (
            verdicts(0),
            verdicts(1, metrics=[]),
            "one file has counts of metrics and the other has none; count both tables with the same raters",
        ),
        (
            verdicts(0, aspect="wit"),
            verdicts(1, aspect="truth"),
            "aspect is 'wit' in one file and 'truth' in the other file; count both tables with the same options",
        ),
        (
            scores(0, ties=1.0),
            scores(1),
            "ties is 1.0 in one file and 0.0 in the other file; count both tables with the same options",
        ),
        (
            scores(0),
            scores(1, human="ter", metrics=["ann"]),
            "these raters are human in one file and metrics in the other file: ann; give each rater one kind",
        ),
        (
            scores(0, directions={"bleu": -1}),
            scores(1, directions={"ter": -1}),
            "lower is better for bleu in only one file; count both tables with the same option lower",
        ),
    ],
)
def test_counts_that_cannot_be_added_are_refused(one: Any, other: Any, message: str, tmp_path: Path) -> None:
    places = [saved(one(), tmp_path, "a"), saved(other(), tmp_path, "b")]
    prefix = "a.counts.json and b.counts.json cannot be added"
    assert input_error(cu.read_counts, *places) == f"{prefix}: {message}"


def test_a_direction_of_a_metric_of_one_file_is_united(tmp_path: Path) -> None:
    first = cu.count_pairs(SCORES[0], human="ann")
    second = cu.count_pairs(SCORES[1], human="ann", directions={"ter": -1})
    total = cu.read_counts(saved(first, tmp_path, "a"), saved(second, tmp_path, "b"))
    check_equal(total, cu.count_pairs(pl.concat(SCORES[:2]), human="ann", directions={"ter": -1}))
    assert total.origin.how["lower"] == ["ter"]


@pytest.mark.parametrize("pairs", [[("B", "A")], [("A", "B"), ("A", "B")], [("A", "C"), ("C", "B")]])
def test_counts_whose_pairs_are_repeated_or_turned_are_not_added(pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    n = len(pairs)
    odd = cu.OutcomeCounts(
        paired=np.ones((n, 1, 3, 3), dtype=np.int64),
        metric_only=np.ones((n, 1, 3), dtype=np.int64),
        human_only=np.ones((n, 1, 3), dtype=np.int64),
        system_a=tuple(a for a, _ in pairs),
        system_b=tuple(b for _, b in pairs),
        metrics=("m",),
    )
    places = [saved(odd, tmp_path, "odd"), saved(replace(odd, paired=2 * odd.paired), tmp_path, "other")]
    with pytest.raises(
        cu.InputError, match=exactly("odd.counts.json: give each pair of systems once, in alphabetical order")
    ):
        cu.read_counts(*places)
