"""A study with markup in its labels."""

from __future__ import annotations

import numpy as np
import polars as pl

import custodes as cu

SYSTEMS = ("constructor", "a\x1b[2J", "</script><script>x()</script>", "__proto__")
METRICS = ("toString", "bell\x00\x07", "\uffff\x9b\u202e")
PERSON = "ann\x1b]0;x\x07"
ASPECTS = ("a/b", "a:b")


def hostile_study() -> cu.Study:
    rng = np.random.default_rng(0)
    rows: list[tuple[str, str, str, str, str, float]] = []
    for aspect in ASPECTS:
        for item in range(12):
            for k, system in enumerate(SYSTEMS):
                quality = 5 - k + rng.normal()
                rows.append((f"i{item}\x1b", system, PERSON, "human", aspect, round(quality)))
                rows += [(f"i{item}\x1b", system, m, "metric", aspect, quality + rng.normal()) for m in METRICS]
    columns = ["item", "system", "rater", "kind", "aspect", "score"]
    return cu.read(pl.DataFrame(rows, schema=columns, orient="row"))
