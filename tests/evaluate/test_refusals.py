from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import norm

import custodes as cu
from custodes.annotate.check_study import check
from custodes.annotate.views import Skip
from custodes.evaluate.check.study import refusals
from custodes.reporting.sections.annotators import last_interim_analyses, looks_sentences
from tests.annotate import studies
from tests.data.annotation_files import Said, connected, look, new_file, say

PAIRS = (("Aster", "Birch"), ("Aster", "Cedar"), ("Birch", "Cedar"))


def answers(rng: np.random.Generator, *, sided: bool) -> pl.DataFrame:
    """Return ninety answers of nine annotators; refusals depend on the annotator or, if `sided`, on a rival of
    Aster."""
    rows = []
    for n in range(90):
        person, pair = int(rng.integers(9)), PAIRS[n % 3]
        against = "Aster" in pair and rng.random() < 0.5
        refused = against if sided else rng.random() < (0.4 if person < 2 else 0.02)
        rows.append((f"w{person}", f"d{n // 3}", *pair, refused))
    return pl.DataFrame(rows, schema=["rater", "item", "system_a", "system_b", "refused"], orient="row")


def rules(rows: pl.DataFrame) -> list[str]:
    return [problem.rule for problem in refusals(rows)]


def test_who_refuses_one_system_is_found_and_who_refuses_all_is_not() -> None:
    rng = np.random.default_rng(0)
    assert np.mean(["refusals-differ" in rules(answers(rng, sided=True)) for _ in range(30)]) > 0.9
    assert np.mean(["refusals-differ" in rules(answers(rng, sided=False)) for _ in range(150)]) <= 0.06
    (many, different) = refusals(answers(rng, sided=True))
    assert sorted(many.examples) == ["Aster and Birch", "Aster and Cedar"]
    assert different.examples == ["Aster"]


def test_nobody_refused_and_two_systems() -> None:
    rows = answers(np.random.default_rng(0), sided=True)
    assert rules(rows.with_columns(refused=pl.lit(False))) == []
    assert rules(rows.head(0)) == []
    assert rules(rows.filter(system_b="Birch")) == ["refusals"]  # no other system to compare with


def study(path: Path, *, running: bool) -> Path:
    """Write a study where seven of ten answers prefer Aster and eight annotators could not judge."""
    new_file(path, items=[f"d{n}" for n in range(20)], systems=("Aster", "Birch"), running=running)
    with closing(connected(path)) as base:
        for n in range(10):
            say(base, Said(worker=n + 1, item=f"d{n}", answer=1 if n < 7 else -1))
        for n in range(8):
            say(base, Said(worker=n + 1, item=f"d{n + 10}", answer=None, reason="other"))
        look(base, 0, 1, (7, 0, 3), 1)
        base.execute("UPDATE item SET media = '[]', meta = '{}'")
        base.execute("UPDATE output SET media = '[]'")
    return path


def test_both_checks_tell_and_the_report_says_what_could_have_been(tmp_path: Path) -> None:
    finished = study(tmp_path / "ended.db", running=False)
    problems = cu.check(cu.read(finished)).problems
    (message,) = problems.filter(rule="refusals")["message"]
    assert (
        "could not judge over 5% of the comparisons in 1 of 1 pairs of systems: Aster and Birch "
        "8 of 18 (44%). Decisions on these pairs depend on the remaining comparisons; read the"
    ) in message
    (note,) = problems.filter(rule="invalid-verdict")["message"]
    assert note == (
        "ended.db: 8 comparisons could not be rated, according to the annotator, and count as not rated (other 8)"
    )
    looks = last_interim_analyses(cu.read(finished))
    assert looks.select("refused", "least", "most").row(0) == (8, (4 - 8) / 18, (4 + 8) / 18)
    assert looks_sentences(looks)[-1].endswith("would not support the decision on Aster and Birch.")


def test_a_study_that_runs_is_checked_too(tmp_path: Path) -> None:
    path = studies.study(tmp_path / "study.db", systems=2, items=20)
    with studies.open_service(path) as desk:
        token = studies.new_annotator(desk)
        for _ in range(3):
            desk.act(token, Skip(assignment=studies.current_question(desk, token).assignment, reason="other")).result()
    assert "refusals" in check(path).problems["rule"].to_list()


def test_refusals_are_tested_by_mantel_and_haenszel_with_bonferroni() -> None:
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = answers(rng, sided=False).with_columns(
            refused=pl.Series(rng.random(90) < 0.1)
            | ((pl.col("system_b") == "Cedar") & pl.Series(rng.random(90) < 0.2))
        )
        once = rows.head(1).with_columns(rater=pl.lit("once"))  # an annotator with one question says nothing
        rows = pl.concat([rows, once, rows.head(1).with_columns(rater=pl.lit("lone"), system_b=None, refused=False)])
        named = []
        for system in ("Aster", "Birch", "Cedar"):
            observed = expected = variance = 0.0
            for part in rows.partition_by("rater"):
                n, has = part.height, (part["system_a"] == system) | (part["system_b"] == system).fill_null(False)
                if n > 1:
                    r = int(part["refused"].sum())  # a sample of r questions without replacement
                    observed += int((has & part["refused"]).sum())
                    expected += r * float(np.mean(has.to_numpy()))
                    variance += r * (n - r) / (n - 1) * float(np.var(has.to_numpy()))
            if 3 * norm.sf((observed - expected - 0.5) / variance**0.5) <= 0.05:
                named.append(system)
        problems = [problem.examples for problem in refusals(rows) if problem.rule == "refusals-differ"]
        assert problems == ([named] if named else [])
        found += named
    assert 5 < len(found) < 40
