"""Sanitising texts when a study is created: a study of real texts, and texts that are slow to render.

`python benchmarks/study_texts.py` uses ../shared/data/summeval if available (1,600 outputs), otherwise random texts of
equal size. A hostile text is rendered as Markdown with formulas in a separate process, as in a study. Texts that exceed
their time limit or would lose words are shown unformatted.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import custodes as cu
from custodes.annotate.plan import StudyPlan, StudyTexts
from custodes.annotate.rendering import SECONDS, render_texts
from custodes.annotate.safe_html import LONGEST, Render
from custodes.data.study import Study
from custodes.progress import silent

SUMMEVAL = Path(__file__).parents[2] / "shared" / "data" / "summeval" / "outputs.jsonl.gz"
ITEMS, SYSTEMS, WORDS = 100, 16, 60
HOSTILE = {
    "[ x 20,000": "[" * 20_000,
    "*a x 20,000": "*a" * 20_000,
    "[a]( x 10,000": "[a](" * 10_000,
    "lists, 500 deep": "".join("  " * n + "- a\n" for n in range(500)),
    "quotes, 5,000 deep": ">" * 5_000 + "a",
    "1. x 3,000": "1. " * 3_000 + "a",
    "a table row of 5,000 cells too many": "|a" * 5_000 + "\n" + "|-" * 5_000 + "\n" + "|b" * 10_000,
    "$a x 20,000": "$a" * 20_000,
    "a formula, 1,500 deep": "$" + "{" * 1_500 + "$",
    "Python, 19,000 brackets": "```python\n" + "(" * 19_000 + "\n```",
    "a text of 60,000": "x" * 60_000,
}


def texts() -> tuple[Study, str]:
    """Real outputs, or as many random ones."""
    if SUMMEVAL.exists():
        return cu.read(SUMMEVAL), "SummEval"
    rng = np.random.default_rng(0)
    words = np.array([f"word{k}" for k in range(2_000)])
    rows = [
        (f"i{item}", f"s{system}", " ".join(rng.choice(words, WORDS)))
        for item in range(ITEMS)
        for system in range(SYSTEMS)
    ]
    return cu.read(pl.DataFrame(rows, schema=["item", "system", "text"], orient="row")), "random texts"


def seconds_to_create(study: Study, how: Render) -> float:
    """Seconds to create a study."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        cu.annotate.new(study, Path(folder) / "study.db", plan=StudyPlan(texts=StudyTexts(render=how)))
        return time.perf_counter() - began


def main() -> None:
    """Print the table."""
    study, name = texts()
    ways: tuple[Render, ...] = ("plain", "markdown", "markdown+math")
    rows = [
        (f"{name}, a study of {ITEMS * SYSTEMS:,} outputs, {how}", f"{seconds_to_create(study, how):.2f} s")
        for how in ways
    ]
    for label, text in HOSTILE.items():
        began = time.perf_counter()
        answer = render_texts([text], "markdown+math", progress=silent)[text]
        took = time.perf_counter() - began
        form = f"plain ({answer.why})" if answer.why else "as Markdown"
        rows.append((f"{label} ({len(text):,} characters)", f"{took:.2f} s, {form}"))
    print(f"At most {SECONDS:g} CPU s and {LONGEST:,} characters a text. Each time has the start of a process in it.\n")
    print("| what | measured |\n|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
