from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import custodes as cu


@pytest.mark.parametrize("aspect", ["consistency"])
def test_findings_about_recommended_metrics_come_first_and_near_copies_share_a_line(
    shared_data: Path, aspect: str
) -> None:
    study = cu.read(shared_data / "dialsummeval" / "ratings.csv.gz").with_cache()
    verdict = cu.verdict(study, aspect=aspect, resamples=200).verdict
    texts = verdict.filter(kind="favours")["text"]
    lines = [result.groups() for text in texts if (result := re.match(r"(\S+) (?:over|under)-rates (\S+) by ", text))]
    recommended = verdict.filter(kind="trust")["text"][0].split()[0]
    partiality = cu.favoritism(study, aspect=aspect, resamples=200).partiality
    result = partiality.filter(pl.col("finding").is_in(["favoured", "disfavoured"]))
    mine = result.filter(metric=recommended).to_dicts()
    assert mine
    worst = max(mine, key=lambda row: abs(row["partiality"]))
    assert lines[0] == (recommended, worst["system"])
    near = {(row["metric"], row["system"]): row["near_copies"] for row in result.to_dicts()}
    for i, line in enumerate(lines):
        assert not {metric for metric, _ in lines[:i]} & {*near[line]}
