"""The data summary has one row per rater, and exchanged raters and truncated texts give warnings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from custodes.data.notes import Note
from custodes.data.writing import write_table
from custodes.errors import InputError

SCORES = pl.DataFrame(
    [
        {"item": str(i), "system": s, "rater": r, "score": float((7 * i + ord(s) * len(r)) % 11)}
        for i in range(40)
        for s in "ABC"
        for r in ("ann", "ter", "bertscore")
    ]
)
RATERS = pl.DataFrame(
    {
        "rater": ["ann", "ter", "bertscore"],
        "kind": ["human", "metric", "metric"],
        "higher_is_better": [True, False, True],
        "low": [None, 0.0, 0.0],
        "high": [None, None, 1.0],
        "cost": [None, 0.5, 2.0],
        "cost_unit": [None, "cpu-s", "usd"],
        "signature": [None, "ter | sacrebleu 2.6.0", "bertscore | onnxruntime 1.31"],
        "truncated": [None, 0.0, 0.25],
    }
)


def problems(study: cu.Study) -> dict[str, tuple[str, str]]:
    rows = cu.check(study).problems.select("rule", "severity", "message").rows()
    return {rule: (severity, message) for rule, severity, message in rows}


def test_the_table_of_what_was_used_holds_what_is_known_of_raters() -> None:
    result = cu.check(cu.read(SCORES, raters=RATERS)).used
    assert result.drop("aspect").rows() == [
        ("ann", "human", True, None, None, None, "", None, ""),
        ("ter", "metric", False, 0.0, None, 0.5, "cpu-s", 0.0, "ter | sacrebleu 2.6.0"),
        ("bertscore", "metric", True, 0.0, 1.0, 2.0, "usd", 0.25, "bertscore | onnxruntime 1.31"),
    ]


def test_the_report_shows_signatures_and_leaves_out_what_nobody_said() -> None:
    from custodes.reporting.section import Context
    from custodes.reporting.sections.agreement import AGREEMENT
    from custodes.reporting.sections.check import CHECK

    for raters, is_shown in ((RATERS, True), (RATERS.drop("signature", "truncated", "cost", "cost_unit"), False)):
        study = cu.read(SCORES, raters=raters)
        result = Context(study=study, options={"resamples": 20, "confidence": 0.95, "alpha": 0.05, "rng": 0})
        for section in (CHECK, AGREEMENT):
            section.answer(result)
        html = CHECK.html(result, *CHECK.drawn(result))
        assert "Kind, direction and use of each rater" in html
        assert ("ter | sacrebleu 2.6.0" in html) == is_shown


def test_texts_that_were_cut_are_a_warning() -> None:
    severity, message = problems(cu.read(SCORES, raters=RATERS))["truncated"]
    assert severity == "warning"
    assert "bertscore (25% of outputs)" in message
    assert "truncated" not in problems(cu.read(SCORES, raters=RATERS.with_columns(truncated=0.0)))


def test_one_signature_under_two_names_is_one_rater() -> None:
    same = RATERS.with_columns(signature=pl.when(pl.col("kind") == "metric").then(pl.lit("ter | sacrebleu 2.6.0")))
    severity, message = problems(cu.read(SCORES, raters=same))["same-signature"]
    assert severity == "warning"
    assert message.startswith("ter, bertscore were read with the same signature, so one rater")
    assert "same-signature" not in problems(cu.read(SCORES, raters=RATERS))


def test_one_name_with_two_signatures_is_told_where_files_are_joined(tmp_path: Path) -> None:
    for name, item, version in (("one", "", "v1"), ("two", "x", "v2")):
        ratings = SCORES.with_columns(item=item + pl.col("item"))
        write_table(ratings if name == "one" else ratings.filter(pl.col("rater") == "ter"), tmp_path / f"{name}.csv")
        raters = RATERS if name == "one" else RATERS.filter(pl.col("rater") == "ter")
        write_table(raters.with_columns(signature=pl.lit(version)), tmp_path / f"{name}.raters.csv")
    severity, message = problems(cu.read(tmp_path / "one.csv", tmp_path / "two.csv"))["signatures-differ"]
    assert severity == "warning"
    assert "ter (v1, v2)" in message


@pytest.mark.parametrize("share", [1.5, -0.1])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(InputError, match=r"raters: truncated .* in row 1; allowed: a proportion from 0 to 1"):
        cu.read(SCORES, raters=pl.DataFrame({"rater": ["ter"], "truncated": [share]}))


def test_what_a_study_brings_of_cut_texts_is_a_warning_too() -> None:
    study = cu.read(SCORES, raters=RATERS.drop("truncated"))
    note = Note(rule="truncated", message="bertscore: 3 of 120 outputs were scored by texts that were cut", count=3)
    assert problems(replace(study, notes=(*study.notes, note)))["truncated"] == ("warning", note.message)
