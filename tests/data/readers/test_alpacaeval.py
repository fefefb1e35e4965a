"""AlpacaEval annotations: preferences between 1 and 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from custodes.data.readers import read
from custodes.errors import InputError


def test_alpacaeval(tmp_path: Path) -> None:
    path = tmp_path / "annotations.json"
    told = [1, 2, 1.5, 1.2, 1.8, float("nan"), None, 3]
    rows = [
        {"instruction": f"do {k}", "generator_1": "gpt", "generator_2": "alpaca", "preference": p, "annotator": "judge"}
        for k, p in enumerate(told)
    ]
    path.write_text(json.dumps(rows))
    with pytest.raises(
        InputError, match=r"3 of 8 verdicts cannot be read \('NaN' in row 6, 'no preference' in row 7, '3' in row 8\)"
    ):
        read(path)
    study = read(path, invalid="force")
    # alpaca < gpt, so that generator_1 = gpt is system_b
    assert study.preferences.frame["preference"].to_list() == [-1, 1, 0, -1, 1]
    assert study.preferences.frame["item"].to_list() == [f"do {k}" for k in range(5)]
    assert study.raters.kind == {"judge": ""}
    assert read(path, reader="alpacaeval", invalid="force").preferences.frame.equals(study.preferences.frame)
