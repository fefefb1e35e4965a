"""The answers of all questions to six small studies: options, tables, notes and errors equal the recorded ones.

A change of an answer must be intended. Review it, and record the new answers with

    python -m tests.evaluate.test_recorded_answers

Numbers have a tolerance, because processors differ in the last digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.study import Study
from custodes.errors import CustodesError
from tests import questions, random_studies

FOLDER = Path(__file__).parent / "recorded"
NUMBER = re.compile(r"-?[0-9]+(?:[.][0-9]+)?(?:e[+-][0-9]+)?")
N_FIRST, N_LAST = 6, 2
"""Number of the first and of the last rows of a table that are recorded."""


def pass_or_fail() -> Study:
    """Two versions of an application; a judge labelled most outputs, an expert labelled half of them."""
    rng = np.random.default_rng(1)
    rows = []
    for system, pass_rate in {"v1": 0.8, "v2": 0.6}.items():
        for item in range(60):
            label = rng.random() < pass_rate
            judge_label = label if rng.random() < 0.85 else not label
            row: dict[str, str | None] = {"item": f"i{item}", "system": system, "topic": "abc"[item % 3]}
            row["judge"] = None if rng.random() < 0.05 else ("fail", "pass")[judge_label]
            row["expert"] = None if rng.random() < 0.5 else ("fail", "pass")[label]
            rows.append(row)
    return cu.read(pl.DataFrame(rows, infer_schema_length=None))


def two_systems() -> Study:
    """Two systems with ratings from 1 to 5 by two annotators, of whom one left gaps, and by a metric; many ties."""
    rng = np.random.default_rng(2)
    rows = []
    for item in range(24):
        quality = rng.normal() / 2
        for system, advantage in {"old": 0.0, "new": 0.4}.items():
            scores = np.clip(np.round(3 + quality + advantage + 0.7 * rng.normal(size=3)), 1, 5)
            rows += [
                {"item": f"i{item}", "system": system, "rater": rater, "score": score, "cluster": f"doc{item // 3}"}
                for rater, score in zip(("ann", "bob", "bleu"), scores, strict=True)
                if rater != "bob" or item % 4
            ]
    raters = pl.DataFrame({"rater": ["ann", "bob", "bleu"], "kind": ["human", "human", "metric"]})
    return cu.read(pl.DataFrame(rows), raters=raters)


def separate_annotators() -> Study:
    """Two annotators without common outputs, a metric that is constant, and a metric that contradicts them."""
    rng = np.random.default_rng(3)
    rows = []
    for item in range(32):
        for system in "ABC":
            quality = 2 + "ABC".index(system) + rng.normal()
            scores = {"ann" if item % 2 else "bob": float(np.round(quality)), "constant": 1.0, "contrary": -quality}
            rows += [
                {"item": f"i{item}", "system": system, "rater": rater, "score": score, "group": "xy"[item % 2]}
                for rater, score in scores.items()
                if system != "C" or item % 4
            ]
    kinds = {"ann": "human", "bob": "human", "constant": "metric", "contrary": "metric"}
    return cu.read(pl.DataFrame(rows), raters=pl.DataFrame({"rater": list(kinds), "kind": list(kinds.values())}))


def judges_alone() -> Study:
    """Two judges that compared three systems in both orders, without human ratings."""
    rng = np.random.default_rng(4)
    rows = [
        {
            "item": f"i{item}",
            "system_a": first,
            "system_b": second,
            "rater": judge,
            "order": order,
            "preference": int(rng.choice([1, 0, -1], p=[0.6, 0.1, 0.3])),
            "kind": "metric",
        }
        for item in range(30)
        for judge in ("judge", "rival")
        for order in ("ab", "ba")
        for first, second in (("A", "B"), ("A", "C"), ("B", "C"))
    ]
    return cu.read(pl.DataFrame(rows))


STUDIES: dict[str, Callable[[], Study]] = {
    "demo": lambda: cu.read("demo"),
    "gaps": lambda: random_studies.study(3, n_items=24, per_cluster=2, orders=True),
    "labels": pass_or_fail,
    "two": two_systems,
    "separate": separate_annotators,
    "judges": judges_alone,
}
QUICK_CEILING = {"model": "ridge", "resamples": 20}
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "demo": dict(questions.DEMO),
    "gaps": {
        "rates": {"positive": ">=4"},
        "labelling": {"positive": ">=4", "metric": "m1"},
        "route": {"positive": ">=4", "metric": "m1", "systems": "A"},
        "ceiling": QUICK_CEILING,
        "gate": {"metric": "m1", "require": "kendall_item>=0.2", "resamples": 200},
    },
    "labels": {
        "route": {"systems": "v1"},
        "ceiling": QUICK_CEILING,
        "gate": {"require": ["kappa>=0.2", "tpr>=0.9"]},
    },
    "two": {
        "rates": {"positive": ">=4"},
        "labelling": {"positive": ">=4"},
        "route": {"positive": ">=4", "systems": "old"},
        "ceiling": QUICK_CEILING,
        "gate": {"require": "kendall_item>=0.2", "resamples": 200},
    },
    "separate": {"agreement": {"by": "group", "resamples": 20}, "favoritism": {"by": "group", "resamples": 20}},
}
"""Options of each study and question that are not the default ones."""
FEW = (
    "check",
    "leaderboard",
    "agreement",
    "annotators",
    "favoritism",
    "consistency",
    "ranking",
    "verdict",
    "correction",
)
"""Questions to the last two studies."""
CASES = [
    (study, question)
    for study in STUDIES
    for question in (FEW if study in ("separate", "judges") else questions.QUESTIONS)
    if question not in ("combine", "validate") and (study, question) != ("demo", "verdict")
]


@cache
def study_named(name: str) -> Study:
    return STUDIES[name]()


def cell(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def lines(study: str, question: str) -> Iterator[str]:
    """Yield the options, the rows of the tables and the notes of an answer, or the message of the error."""
    function = questions.QUESTIONS[question]
    quick = {"resamples": 20, "replications": 2}
    options = OPTIONS.get(study, {}).get(
        question, {name: quick[name] for name in quick if name in signature(function).parameters}
    )
    try:
        result = function(study_named(study), **options, rng=1)
    except CustodesError as error:
        yield f"{type(error).__name__}: {error}"
        return
    yield f"options: {dict(result.provenance.options)}"
    for name, table in result.tables().items():
        frame = table.select(pl.exclude("seconds"))
        if not frame.is_empty():
            yield f"{name}, {frame.height} rows: {', '.join(frame.columns)}"
        places = sorted({*range(min(N_FIRST, frame.height)), *range(max(frame.height - N_LAST, 0), frame.height)})
        yield from (" | ".join(map(cell, frame.row(place))) for place in places)
    yield from (f"note {note.rule} {note.count or ''} {note.aspect}: {note.message}" for note in result.notes)


def recorded(study: str) -> dict[str, list[str]]:
    """Return the recorded lines of each question."""
    parts = re.split(r"^# ", (FOLDER / f"{study}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: rest for name, *rest in (part.splitlines() for part in parts[1:])}


@pytest.mark.parametrize(("study", "question"), CASES)
def test_the_answer_is_the_recorded_one(study: str, question: str) -> None:
    answer, expected = list(lines(study, question)), recorded(study)[question]
    assert [NUMBER.sub("#", line) for line in answer] == [NUMBER.sub("#", line) for line in expected]
    for line, expected_line in zip(answer, expected, strict=True):
        numbers, expected_numbers = (list(map(float, NUMBER.findall(text))) for text in (line, expected_line))
        assert numbers == pytest.approx(expected_numbers, rel=2e-3, abs=1e-4), line


if __name__ == "__main__":
    for name in STUDIES:
        text = "".join(
            f"# {asked}\n" + "".join(f"{line}\n" for line in lines(name, asked))
            for study, asked in CASES
            if study == name
        )
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
