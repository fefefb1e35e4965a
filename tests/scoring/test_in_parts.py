"""The documented commands that score outputs in several parts and processes give the same scores."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from custodes import cli
from tests.pages import blocks

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "when-one-machine-is-too-small.md"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="the commands are those of a shell")
def test_outputs_scored_in_parts_have_the_scores_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sacrebleu")
    monkeypatch.chdir(tmp_path)
    (commands,) = (code for _, code in blocks(PAGE, "bash"))
    makes = next(code for _, code in blocks(PAGE, "python") if "texts.jsonl" in code)
    exec(compile(makes, str(PAGE), "exec"), {})
    command = tmp_path / "bin" / "custodes"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m custodes "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(command.parent), os.environ["PATH"]])
    ran = subprocess.run(["bash", "-c", commands], capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert ran.returncode == 0, ran.stderr
    assert len(list(tmp_path.glob("scored-part.a?.csv"))) == 3
    assert cli.run(["score", "texts.jsonl", "--metric", "rouge1", "--metric", "chrf", "-o", "whole.csv"]) == 0
    keys = ["item", "system", "rater"]
    parts, whole = (pl.read_csv(name).select(*keys, "score").sort(keys) for name in ("scores.csv", "whole.csv"))
    assert parts.equals(whole)
    assert whole.height == 28
