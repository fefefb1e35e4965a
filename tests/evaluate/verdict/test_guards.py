"""Statements that the verdict must not make, and statements that it must not omit."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

import custodes as cu


def compared(seed: int, *, selected: bool, effect: float = 0.0, items: int = 300, systems: int = 4) -> cu.Study:
    """Return a study of a judge with one comparison per item and annotators on a sixth of the items: a random part, or
    the items where the judge prefers S0. Annotators and judge rate the same quality with noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for item in range(items):
        a, b = np.sort(rng.choice(systems, 2, replace=False))
        quality = rng.normal(0, 1) + effect * (int(a == 0) - int(b == 0))
        judge, human = (int(np.sign(quality + rng.normal(0, 0.7))) for _ in range(2))
        annotated = rng.random() < 1 / 6 if not selected else a == 0 and judge > 0 and rng.random() < 2 / 3
        annotated = annotated or (selected and a > 0 and rng.random() < 0.1)
        verdicts = [("judge", "metric", judge)] + ([("ann", "human", human)] if annotated else [])
        rows += [(f"i{item}", f"S{a}", f"S{b}", rater, kind, sign) for rater, kind, sign in verdicts]
    schema = ["item", "system_a", "system_b", "rater", "kind", "preference"]
    return cu.read(pl.DataFrame(rows, schema=schema, orient="row"))


def winner(study: cu.Study) -> list[str]:
    lines = cu.verdict(study, resamples=200).verdict.filter(kind="best")
    return [match[1] for text in lines["text"] if (match := re.match(r"(\S+) is (?:better|best)", text))]


def test_selected_comparisons_name_no_winner() -> None:
    study = compared(0, selected=True)
    assert winner(study) == []
    board = cu.leaderboard(study, resamples=200)
    assert board.systems.filter(rater="human", system="S0")["win_rate_low"][0] > 0.5  # the naive estimate
    assert any("holds only for the comparisons that annotators rated" in note.message for note in board.notes)


def test_random_comparisons_name_the_better_system() -> None:
    assert winner(compared(0, selected=False, effect=1.5)) == ["S0"]


ASPECTS = ("coherence", "fluency")


def problematic(rule: str, aspects: tuple[str, ...], *, metrics: int = 3) -> cu.Study:
    """Return a study of two annotators of these aspects and of metrics without an aspect, with one study-wide
    problem."""
    rng = np.random.default_rng(0)
    scores = np.clip(rng.normal(size=(1, 40, 5)) + 0.7 * rng.normal(size=(5, 40, 5)), -3, 3).round(3)
    if rule == "reference-system":
        scores[2:, :, 4] = 4.0
    if rule == "repeated-items":
        scores = np.tile(scores, (1, 2, 1))
    rows = [
        (
            f"i{i}",
            f"S{k}",
            f"ann{r}" if r < 2 else f"m{r}",
            "human" if r < 2 else "metric",
            aspect,
            float(scores[r, i, k]),
        )
        for r, i, k in np.ndindex(2 + metrics, *scores.shape[1:])
        for aspect in (aspects if r < 2 else ("",))
    ]
    schema = ["item", "system", "rater", "kind", "aspect", "score"]
    return cu.read(pl.DataFrame(rows, schema=schema, orient="row"))


@pytest.mark.parametrize(
    ("rule", "aspects", "chosen", "part"),
    [
        ("reference-system", ASPECTS, None, ""),
        ("repeated-items", ASPECTS, "fluency", "fluency"),
        ("reference-system", ("",), None, ""),
    ],
)
def test_problems_of_the_whole_study_are_reported_once(
    rule: str, aspects: tuple[str, ...], chosen: str | None, part: str
) -> None:
    study = problematic(rule, aspects)
    (message,) = cu.check(study, aspect=chosen).problems.filter(rule=rule)["message"].unique()
    text = cu.verdict(study, aspect=chosen, resamples=20).verdict.filter(kind="design")
    rows = text.filter(pl.col("text").str.to_lowercase().str.starts_with(message.lower()))
    assert rows["aspect"].to_list() == [part]
