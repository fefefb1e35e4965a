"""Templates that are nested too deeply or include themselves are refused with a one-line error."""

from __future__ import annotations

from pathlib import Path

import pytest

from custodes import cli
from custodes.errors import CustodesError
from custodes.judging.judge import Judge
from custodes.judging.prompt import ItemTexts, Prompt

BOTH = "{{ a }}{{ b }}"
DEEP = {
    "brackets": f"{BOTH}{{{{ {'(' * 100_000}1{')' * 100_000} }}}}",
    "lists": f"{BOTH}{{{{ {'[' * 3000}{']' * 3000} }}}}",
    "conditions": BOTH + "{% if 1 %}" * 5000 + "{% endif %}" * 5000,
    "loops": BOTH + "{% for x in [1] %}" * 30 + "{% endfor %}" * 30,
    "sums": f"{BOTH}{{{{ {'+'.join(['1'] * 20_000)} }}}}",
    "attributes": f"{BOTH}{{{{ a{'.x' * 20_000} }}}}",
    "negations": f"{BOTH}{{{{ {'not ' * 50_000}1 }}}}",
    "extends itself": '{% extends "own.jinja" %}',
    "includes itself": BOTH + '{% include "own.jinja" %}',
    "macro": BOTH + "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "recursive loop": BOTH + "{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
}


def filled(text: str, folder: Path) -> str:
    (folder / "own.jinja").write_text(text)
    judge = Judge(model="m", prompt="own.jinja", references=2)
    return Prompt.load(judge).filled("", ItemTexts(source="a source", references=["r1", "r2"]), "one", "two")


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_is_nested_too_deeply_is_one_line(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CustodesError) as error:
        filled(text, tmp_path)
    assert str(error.value).startswith("prompt own.jinja: ")
    assert "nested too deeply or do not terminate; correct the template" in str(error.value)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("text", [DEEP["brackets"], DEEP["macro"]])
def test_the_command_refuses_it_and_writes_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.jinja").write_text(text)
    Path("texts.jsonl").write_text('{"item": "1", "outputs": {"A": "yes", "B": "no"}}\n')
    words = ("judge", "texts.jsonl", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "-o", "v.csv")
    assert cli.run([*words, "--prompt", "own.jinja"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.jinja", "texts.jsonl"]
