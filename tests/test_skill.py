"""The instructions for coding agents: commands run and links are valid."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.pages import run, try_out

SKILL = Path(__file__).parents[1] / "skills" / "check-a-judge" / "SKILL.md"


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(20_260_260)
    good, flip = rng.random(300) < 0.7, rng.random(300) < 0.1
    words = np.array(["fail", "pass"])
    labels = {"id": range(300), "topic": ["tax", "tone", "tools"] * 100, "judge": words[(good ^ flip).astype(int)]}
    human = [word if k < 120 else None for k, word in enumerate(words[good.astype(int)])]
    pl.DataFrame(labels | {"human": human}).write_csv("labels.csv")
    assert run("custodes convert demo -o ./")[0] == 0


@pytest.mark.usefixtures("_files")
def test_the_commands_run() -> None:
    try_out(SKILL)
    assert {path.name for path in Path().iterdir()} >= {"rates.json", "agreement.json", "report.html", "to_label.csv"}
    (gate,) = re.findall(r"^custodes gate .*$", SKILL.read_text(), flags=re.MULTILINE)
    assert run(gate)[0] == 0


def test_the_head_has_a_name_and_a_description_and_links_lead_somewhere() -> None:
    text = SKILL.read_text(encoding="utf-8")
    head = re.match(r"---\nname: ([a-z-]+)\ndescription: (.+)\n---\n", text)
    assert head is not None
    assert head[1] == SKILL.parent.name
    assert len(head[2]) <= 1024
    for link in re.findall(r"\]\(([^)#\s]+)\)", text):
        assert (SKILL.parent / link).exists(), link
