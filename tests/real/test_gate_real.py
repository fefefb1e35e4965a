from __future__ import annotations

from pathlib import Path

import pytest

import custodes as cu


def test_summeval(shared_data: Path) -> None:
    study = cu.read(shared_data / "summeval" / "ratings.csv.gz")
    options = {"human": "expert*", "aspect": "coherence"}
    result = cu.gate(study, metric="bertscore-f1", require="kendall_item>=0.1", not_worse_than="rouge-l-f1", **options)
    assert (result.outcome, result.status) == ("holds", 0)
    agreed = cu.agreement(study, metrics="bertscore-f1,rouge-l-f1", resamples=0, compare_by="kendall_item", **options)
    value = agreed.metrics.filter(metric="bertscore-f1")["kendall_item"].item()
    assert result.rules["value"].to_list() == pytest.approx([value, abs(agreed.comparisons["difference"].item())])
    second = cu.gate(
        study, metric="rouge-l-f1", require="kendall_item>=0.2", not_worse_than="bertscore-recall", **options
    )
    assert (second.rules["outcome"].to_list(), second.status) == (["fails", "fails"], 1)
