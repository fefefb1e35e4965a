"""The documentation page on encoders: its commands run with the encoder for tests."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from tests.pages import FENCE, run

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "score-with-an-encoder.md"


def test_its_commands_run(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").symlink_to(encoder)
    outputs = {"A": "a cat sat on the mat .", "B": "the dog ran in a river"}
    rows = [
        {"item": name, "source": "the big cat", "references": [f"{name} the cat sat .", "a dog"], "outputs": outputs}
        for name in ("a", "b")
    ]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (block,) = [match[3] for match in FENCE.finditer(PAGE.read_text()) if match[2] == "bash"]
    raters = []
    for line in block.splitlines():
        if line.startswith("custodes "):
            status, _, err = run(line)
            assert status == 0, (line, err)
            result = pl.read_csv("scores.csv")
            assert result["score"].is_finite().all()
            raters.append(result["rater"].unique(maintain_order=True).sort().to_list())
    names = [re.sub(r"model=[^,@]*", "…", rater) for rater in raters[1]]
    assert [len(rater) for rater in raters] == [1, 5, 2]
    assert names == ["bertscore:…@best", "bertscore:…@first", "bertscore:…@mean", "cosine-source:…", "cosine:…"]
    assert raters[2] == ["f", "recall"]
