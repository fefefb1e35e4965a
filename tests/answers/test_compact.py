"""The compact LaTeX form of a table: estimates with intervals, significance letters, bold for the best value."""

from __future__ import annotations

import re

import polars as pl
import pytest

import custodes as cu
from custodes.answers.formats import compact_latex
from custodes.answers.tables import Table, label, score

TABLE = Table(
    doc="One row per metric.",
    columns=(label("metric", "its name"), label("group", "letters"), score("tau", "correlation", interval=True)),
    by="",
)


def rows(*letters: str | None) -> pl.DataFrame:
    names = ["a_b", "[c]", "d"][: len(letters)]
    tau = pl.Series("tau", [0.5, 0.3, -0.0421])[: len(letters)]
    return pl.DataFrame({"metric": names, "group": pl.Series(letters, dtype=pl.String)}).with_columns(
        tau, (tau - 0.1).alias("tau_low"), (tau + 0.1).alias("tau_high")
    )


def test_a_row_has_its_estimate_interval_and_letters() -> None:
    lines = compact_latex(TABLE, rows("a", "b", "b"), "metrics").splitlines()
    assert lines[3] == r"\begin{tabular}{@{}lr@{}}"
    assert lines[7:10] == [
        r"\textbf{a\_b}\textsuperscript{a} & \textbf{.50} {\scriptsize[.40, .60]} \\",
        r"{}[c]\textsuperscript{b} & .30 {\scriptsize[.20, .40]} \\",
        r"d\textsuperscript{b} & $-$.04 {\scriptsize[$-$.14, .06]} \\",
    ]


def test_an_estimate_near_0_has_the_decimals_of_its_interval() -> None:
    near_0 = pl.DataFrame({"metric": ["m"], "group": [None], "tau": [-0.0036], "tau_low": [-0.1], "tau_high": [0.09]})
    assert r"m & .00 {\scriptsize[$-$.10, .09]} \\" in compact_latex(TABLE, near_0, "metrics")


@pytest.mark.parametrize("letters", [("a", "ab", "b"), ("a", "a", "a"), ("1a", "1b", "2a"), ("a", None, None), ("a",)])
def test_bold_needs_a_significant_difference_from_all_others(letters: tuple[str | None, ...]) -> None:
    assert r"\textbf" not in compact_latex(TABLE, rows(*letters), "metrics")


def test_without_letters_the_table_has_neither_superscripts_nor_bold() -> None:
    text = compact_latex(TABLE, rows(None, None), "metrics")
    assert r"\textsuperscript" not in text
    assert r"\textbf" not in text


def test_every_question_has_a_compact_form_of_balanced_braces_and_at_most_two_estimates() -> None:
    study = cu.read("demo")
    for result in (
        cu.leaderboard(study, resamples=20),
        cu.agreement(study, resamples=20),
        cu.favoritism(study, resamples=20),
        cu.annotators(study, resamples=20),
        cu.check(study),
    ):
        text = result.to_latex(compact=True)
        tables = re.findall(r"\\begin\{tabular\}\{@\{\}(l*)(r*)@\{\}\}\n\\toprule\n(.*?)\\bottomrule", text, re.DOTALL)
        assert len(tables) == 2  # one per aspect
        for labels, numbers, body in tables:
            assert len(numbers) <= 2
            lines = [line for line in body.splitlines() if line.endswith(r" \\") and line != r"\midrule"]
            assert {line.count(" & ") for line in lines} == {len(labels) + len(numbers) - 1}
        plain = re.sub(r"\\[{}]", "", text)
        assert plain.count("{") == plain.count("}")


def test_the_labels_that_change_least_stand_above_their_rows_and_leave_place_for_one_interval() -> None:
    labels = [label(name, name) for name in ("metric", "a", "b", "estimator")]
    table = Table(
        doc="Pairs.", columns=(*labels, *(score(name, name, interval=True) for name in ("better", "tie"))), by=""
    )
    names = {"metric": ["m", "m", "n"], "a": ["A", "B", "B"], "b": ["C", "C", "D"], "estimator": ["x", "y", "x"]}
    values = {f"{name}{bound}": [0.5] * 3 for name in ("better", "tie") for bound in ("", "_low", "_high")}
    lines = compact_latex(table, pl.DataFrame(names | values), "pairs").splitlines()
    assert lines[2] == r"\begin{tabular}{@{}lllr@{}}"
    assert lines[5:12] == [
        *(r"\midrule", r"\multicolumn{4}{@{}l}{m} \\", r"\midrule", r"A & C & x & .50 {\scriptsize[.50, .50]} \\"),
        *(r"B & C & y & .50 {\scriptsize[.50, .50]} \\", r"\midrule", r"\multicolumn{4}{@{}l}{n} \\"),
    ]


def test_long_sentences_are_broken_into_lines() -> None:
    table = Table(doc="Sentences.", columns=(label("kind", "its kind"), label("text", "the sentence")), by="")
    frame = pl.DataFrame({"kind": ["best"], "text": ["Aster is the best system on coherence and on fluency."]})
    assert r"{@{}p{.75\columnwidth}@{}}" in compact_latex(table, frame, "verdict")


def test_sentences_of_the_verdict_have_only_letters_that_tex_knows() -> None:
    text = cu.verdict(cu.read("demo"), aspect="fluency", resamples=20).to_latex(compact=True)
    assert r"Krippendorff's $\alpha$ of the ratings" in text
    assert text.isascii()
