"""Templates that are too deep, or do not end, are one line; what they cost is counted in steps, not in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from custodes import cli
from custodes.errors import CustodesError
from custodes.judging.judge import Judge
from custodes.judging.prompt import ItemTexts, Prompt
from custodes.judging.sandbox import LENGTH, STEPS, BoundedEnvironment, BoundError, rendered

BOTH = "{{ a }}{{ b }}"
DOUBLED = "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = "
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
ENDLESS = {
    "loops": BOTH + "{% for x in range(99999) %}{% for y in range(99999) %}{% set z = 1 %}{% endfor %}{% endfor %}",
    "ranges": BOTH + "{% for x in range(99999) %}{{ range(99999) | sum }}{% endfor %}",
    "letters": BOTH + "{% for x in a %}" * 6 + "{% set z = 1 %}" + "{% endfor %}" * 6,
    "macros": BOTH + "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "includes": "{{ b }}{% if a|length > 30 %}{% with a = a[1:] %}"
    + '{% include "own.jinja" %}' * 2
    + "{% endwith %}{% endif %}",
}
LONG = {
    "times": BOTH + "{{ 'a' * 10 ** 10 }}",
    "list": BOTH + "{{ [1] * 10 ** 10 }}",
    "power": BOTH + "{{ 9 ** 99999999 }}",
    "center": BOTH + "{{ 'x' | center(10000000000) }}",
    "center by name": BOTH + "{{ 'x' | center(width=10000000000) }}",
    "ljust": BOTH + "{{ 'x'.ljust(10000000000) }}",
    "joined by ~": BOTH + DOUBLED + "ns.x ~ ns.x %}{% endfor %}",
    "joined by +": BOTH + DOUBLED + "ns.x + ns.x %}{% endfor %}",
    "joined by join": BOTH + DOUBLED + "[ns.x, ns.x] | join %}{% endfor %}",
    "replaced": BOTH + DOUBLED + "ns.x.replace('a', 'aaaaab') %}{% endfor %}",
    "block": BOTH + DOUBLED.removesuffix(" = ") + " %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
    "output": BOTH + "{% for i in range(90000) %}{{ 'x' * 1000 }}{% endfor %}",
}


def filled(text: str, folder: Path) -> str:
    (folder / "own.jinja").write_text(text)
    judge = Judge(model="m", prompt="own.jinja", references=2)
    return Prompt.load(judge).filled("", ItemTexts(source="a source", references=["r1", "r2"]), "one", "two")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "nested too deeply, or do not terminate; correct the template") for text in DEEP.values()),
        *((text, f"more than {STEPS} steps") for text in ENDLESS.values()),
        *((text, f"more than {LENGTH} characters") for text in LONG.values()),
    ],
    ids=[*DEEP, *(f"endless {name}" for name in ENDLESS), *(f"long {name}" for name in LONG)],
)
def test_what_does_not_end_is_one_line(text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CustodesError) as error:
        filled(text, tmp_path)
    assert str(error.value).startswith("prompt own.jinja: ")
    assert words in str(error.value)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("text", [DEEP["brackets"], ENDLESS["macros"], LONG["joined by ~"]])
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


ORDINARY = """{% for r in references %}{{ loop.index }} of {{ loop.length }}{{ ", " if not loop.last }}{{ r ~ "!" }}\
{{ r | upper | trim }}{% else %}none{% endfor %}{% for k, v in meta.items() %}{{ k }}={{ v }}{% endfor %}\
{% set q %}{{ source }}{% endset %}{{ q | length }}{% set w | upper %}x{% endset %}{{ w }}{{ "%03d" | format(3) }}\
{{ range(3) | join(",") }}{{ labels | map("upper") | list }}{{ 2 ** 3 * 2 + 1 }}{{ [1] + [2] }}{{ "ab" * 2 }}\
{% macro bold(x, times=1) %}{{ "*" * times }}{{ x }}{% endmacro %}{{ bold("y", times=2) }}\
{% for row in [[1, [2]]] recursive %}{{ row[0] }}{% endfor %}{% filter upper %}done{% endfilter %}"""


def test_an_ordinary_template_says_what_it_says_in_jinja() -> None:
    values = {"references": ["r1", "r2"], "meta": {"k": 1}, "source": "text", "labels": ["a", "b"]}
    plain = ImmutableSandboxedEnvironment(undefined=StrictUndefined).from_string(ORDINARY).render(**values)
    template = BoundedEnvironment(undefined=StrictUndefined).from_string(ORDINARY)
    assert rendered(template, values) == plain
    assert rendered(template, values | {"references": []}).startswith("none")


def test_steps_are_counted_for_each_prompt_by_itself() -> None:
    template = BoundedEnvironment().from_string(
        "{% for x in range(30000) %}{% endfor %}{% for x in n %}{% endfor %}done"
    )
    for _ in range(60):  # 60 times 60,000 steps
        assert rendered(template, {"n": range(100)}) == "done"
    with pytest.raises(BoundError):
        rendered(template, {"n": range(STEPS)})
