"""Every command and call on the page about the four papers runs and has the tables that the page names."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from custodes.stats.learning import boost
from tests.pages import blocks, run

PAGE = Path(__file__).parents[1] / "docs" / "papers.md"
SMALL = {
    "ceiling": "--resamples 0 --steps 1",
    "annotators": "--resamples 20",
    "combine": "--resamples 0 --folds group --systems Aster,Birch,Cedar",
    "complementarity": "--resamples 20",
    "consistency": "--resamples 20",
    "favoritism": "--resamples 20",
    "protocol": "--resamples 20 --replications 2 --aspect fluency",
    "ranking": "--resamples 20",
}
"""Options that keep a command fast."""


def spans(start: str) -> list[str]:
    """Code spans of lines that start with a text."""
    text = re.sub(r"^```.*?^```$", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return sorted({code for code in re.findall(r"`([^`\n]+)`", text) if code.startswith(start)})


def commands() -> dict[str, set[str]]:
    """Command without `--table` to the tables that the page names."""
    tables: defaultdict[str, set[str]] = defaultdict(set)
    for code in spans("custodes "):
        command, _, table = code.partition(" --table ")
        tables[command] |= {table} - {""}
    return dict(tables)


@pytest.mark.parametrize(("command", "tables"), commands().items(), ids=list(commands()))
def test_a_command_of_the_page_has_its_tables(
    command: str, tables: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(boost.SETTINGS, "rounds", 5)
    status, out, err = run(f"{command} {SMALL.get(command.split()[1], '')} --format json --quiet")
    assert status == 0, err
    assert tables <= set(json.loads(out))


def test_calls_of_the_page_draw_figures() -> None:
    names: dict[str, Any] = {}
    for _, code in blocks(PAGE, "python"):
        if ">>>" not in code:
            exec(code, names)
    calls = spans("cu.")
    assert len(calls) > 8
    for call in calls:
        assert "vega" in json.dumps(eval(call, names).to_dict()), call
