"""Probes: edited outputs, their questions and their outcomes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.judging.judge import Judge
from custodes.judging.plan import JudgeQuestion, JudgingPlan
from custodes.judging.probes import lengthen_text, toggle_markdown
from custodes.judging.run import judge
from tests.command_line import Run, custodes
from tests.judging.clients import completion, judging, longer, outputs_of, planned, prompt_of

__all__ = ["custodes"]  # the fixture

TEXTS = pl.DataFrame(
    [
        {"item": str(item), "system": system, "source": f"Source {item}", "text": f"{system} says {item}. {end}"}
        for item in range(12)
        for system, end in (("X", "It is the capital of Peru."), ("Y", "It lies on the coast, far from the hills."))
    ]
)
PIECES = ["Lima", "is", "Dr.", "big.", "Why?", "了。", "\n", "- ", "* ", "# ", "**", "1. ", "|", "```", "2**3"]


def letters(text: str) -> list[str]:
    """Return the words of a text without Markdown."""
    return re.findall(r"[^\s#*+-]+", text)


def plan(texts: Any = TEXTS, **args: Any) -> JudgingPlan:
    return planned(texts, **args)


def displayed(question: JudgeQuestion) -> list[str]:
    return outputs_of(question.request.body)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join) | st.text(max_size=80))
def test_forms_change_nothing_else(text: str) -> None:
    longer_text = lengthen_text(text)
    assert longer_text.startswith(text.rstrip())
    added = letters(longer_text[len(text.rstrip()) :])
    assert added == letters(text)[len(letters(text)) - len(added) :]  # only a repetition of the end of the text
    form = toggle_markdown(text)
    assert letters(form.text) == letters(text)
    if form.text != text:
        marked = text if form.reverse else form.text
        assert re.search(r"^[ \t]*(#{1,6}|[-*+])[ \t]|\*\*", marked, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "longer_text"),
    [
        ("Yes.", "Yes. Yes."),
        ("It was written by Dr. Smith.", "It was written by Dr. Smith. It was written by Dr. Smith."),
        (
            "Lima is the capital.\nIt lies on the coast.\n",
            "Lima is the capital.\nIt lies on the coast.\nIt lies on the coast.",
        ),
        ("", ""),
        ("```\nx = 1\n```", "```\nx = 1\n```"),
    ],
)
def test_the_last_sentence_is_repeated(text: str, longer_text: str) -> None:
    assert lengthen_text(text) == longer_text


@pytest.mark.parametrize(
    ("text", "other", "reverse"),
    [
        ("Lima is the capital.", "**Lima is the capital.**", False),
        ("Lima is the capital. It lies on the coast.", "- Lima is the capital.\n- It lies on the coast.", False),
        ("# Lima\n* the capital\n  - of **Peru**", "Lima\nthe capital\nof Peru", True),
        ("It is 2**3 at least.", "It is 2**3 at least.", False),  # without the stars the number would change
        ("1. Lima\n2. **Cusco**", "1. Lima\n2. **Cusco**", False),
        ("", "", False),
    ],
)
def test_markdown_is_added_or_removed(text: str, other: str, reverse: bool) -> None:
    assert toggle_markdown(text)[::2] == (other, reverse)


def test_one_output_is_changed_and_everything_else_is_the_same() -> None:
    probed, alone = plan(probe="length,format,name"), plan()
    plain = {(q.item, q.order): q for q in probed.questions if not q.probe}
    assert [q.request for q in plain.values()] == [q.request for q in alone.questions]
    changed = [q for q in probed.questions if q.probe]
    assert Counter(q.probe for q in changed) == {"length": 24, "format": 24, "name": 24}
    firsts = Counter[bool]()
    for question in changed:
        before, after = (displayed(q) for q in (plain[question.item, question.order], question))
        place = int((question.changed == "X") == (question.order == "ba"))
        firsts[place == 0] += 1
        assert after[1 - place] == before[1 - place]
        form = {"length": lengthen_text, "format": lambda text: toggle_markdown(text).text, "name": str}[question.probe]
        assert after[place] == form(before[place])
        names = [f"System: {question.changed}\n<output-{'AB'[place]}"] if question.probe == "name" else []
        prompt = prompt_of(question.request.body)
        assert re.findall(r"System: .*\n<output-[AB]", prompt) == names
    assert 12 < firsts[True] < 60  # of 72, at random
    # Both orders change the same position, so each system is changed once per comparison.
    assert len({(q.item, q.probe, q.changed) for q in changed}) == 72
    assert [q.request for q in plan(TEXTS.reverse(), probe="length").questions if q.probe and q.item == "3"] == [
        q.request for q in changed if q.probe == "length" and q.item == "3"
    ]


def test_what_would_not_change_is_counted_and_not_queried() -> None:
    texts = TEXTS.with_columns(
        text=pl.when(pl.col("item") == "0").then(pl.lit("```\n") + pl.col("text")).otherwise("text")
    )
    result = plan(texts, probe=["length", "format"])
    assert sum(bool(q.probe) for q in result.questions) == 44
    assert [note.message for note in result.notes] == [
        "4 probes are not queried, because they would not change the request: length 2, format 2"
    ]


def test_order_and_repeat_are_questions_as_usual() -> None:
    questions = plan(probe="order,repeat,length").questions
    assert Counter((q.probe, q.repeat) for q in questions) == {("", "0"): 24, ("", "1"): 24, ("length", "0"): 24}


def test_outcomes_are_those_of_the_changed_output(tmp_path: Path) -> None:
    """The judge prefers the longer text: X is 15 characters shorter than Y, and longer once its end is repeated."""
    rewritten = TEXTS.select("item", "system", text=pl.lit("Short."))
    rewritten.write_csv(tmp_path / "brief.csv")
    result = judge(TEXTS, Judge(model="m"), client=judging(longer), probe=["length", str(tmp_path / "brief.csv")])
    wins = {
        (probe, system): set(rows.select("plain", "changed").rows())
        for (probe, system), rows in result.probes.group_by("probe", "system")
    }
    assert wins == {
        ("length", "X"): {(0.0, 1.0)},
        ("length", "Y"): {(1.0, 1.0)},
        ("brief", "X"): {(0.0, 0.0)},
        ("brief", "Y"): {(1.0, 0.0)},
    }
    without = judge(TEXTS, Judge(model="m"), client=judging(longer))
    assert result.verdicts.equals(without.verdicts)
    assert result.usage["questions"].item() == 3 * without.usage["questions"].item()
    assert result.study().probes.height == 48
    answer = cu.consistency(result.study(), resamples=0)
    assert answer.probes.select("probe", "n", "change_rate").rows() == [("brief", 24, 0.5), ("length", 24, 0.5)]
    effects = answer.findings.filter(kind="probe").select("factor", "estimate").rows()
    assert effects == [("brief", -50.0), ("length", 50.0)]


def test_removed_markdown_is_the_plain_form() -> None:
    texts = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["**It is a long text.**", "It is."]})
    stars = judging(lambda a, b: "A" if "*" in a else "B" if "*" in b else "tie")
    result = judge(texts, Judge(model="m"), client=stars, probe="format")
    rows = {row["system"]: (row["plain"], row["changed"]) for row in result.probes.to_dicts()}
    # X without bold text ties; Y in bold ties in style with X, and the first output wins
    assert rows["X"] == (0.5, 1.0)
    assert rows["Y"][0] == 0.0


@pytest.mark.parametrize(
    ("options", "key", "low", "high"),
    [({"scale": "1-5"}, "score", 2, 4), ({"labels": "pass,fail"}, "label", "fail", "pass")],
)
def test_a_pointwise_judge(options: Mapping[str, Any], key: str, low: Any, high: Any) -> None:
    client = judging(lambda text: high if text.count(".") > 2 else low, key)
    result = judge(TEXTS, Judge(model="m", mode="pointwise", **options), client=client, probe="length,name")
    rows = result.probes.group_by("probe").agg(pl.col("plain", "changed", "against").unique(), n=pl.len()).sort("probe")
    ends = ([0.25], [0.75]) if key == "score" else ([0.0], [1.0])
    assert rows.rows() == [("length", ends[0], ends[1], [""], 24), ("name", ends[0], ends[0], [""], 24)]


def test_a_failure_is_counted_and_no_outcome() -> None:
    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        a, b = outputs_of(body)
        content = "Hm." if a.count("capital") > 1 else json.dumps({"verdict": longer(a, b)})
        return completion(content)

    result = judge(TEXTS, Judge(model="m"), client=client, probe="length")
    failures = result.probes.filter(pl.col("invalid") != "")
    assert failures.select("system", "invalid").unique().rows() == [("X", "no-verdict")]
    assert failures["changed"].null_count() == failures.height > 0
    (row,) = cu.consistency(result.study(), resamples=0).probes.filter(probe="length").to_dicts()
    assert row["n"] == 24 - failures.height


@pytest.mark.parametrize(
    ("probe", "more", "message"),
    [
        ("lengh", {}, r"probe='lengh' is unknown.*\(did you mean 'length'\?\)"),
        ("length,length", {}, "probe='length'"),
        ("length.csv", {}, "is unknown or used twice"),
        ("order", {"orders": "ab"}, "needs a pairwise judge and orders='both'"),
        (
            "length",
            {"config": Judge(model="m", base_url="http://h", mode="pointwise", labels="a,b,c")},
            "more than two",
        ),
        ("./other.csv", {}, "no row matches an output to judge by item and system"),
    ],
)
def test_probes_without_effect_are_refused(
    probe: str, more: Mapping[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.csv").write_text("item,system,text\n1,Z,Yes.\n")
    with pytest.raises((InputError, OptionError), match=message):
        plan(probe=probe, **more)


def test_from_the_command_line_to_the_report(custodes: Run) -> None:
    TEXTS.write_csv("texts.csv")
    Path("measure.py").write_text(
        "import json, re\ndef longer(body):\n    content = body['messages'][-1]['content']\n    a, b = "
        "re.findall(r'<(output-[AB]-\\w+)>\\n(.*?)\\n</\\1>', content, re.DOTALL)\n    message = {'content': "
        "json.dumps({'verdict': 'A' if len(a[1]) > len(b[1]) else 'B'})}\n    return {'model': 's', 'choices': "
        "[{'message': message, 'finish_reason': 'stop'}]}\n"
    )
    words = ("judge", "texts.csv", "--model", "m", "--client", "measure:longer", "-o", "verdicts.csv")
    result = custodes(*words, "--probe", "order,length", "--probe", "name")
    assert result.status == 0, result.err
    assert result.out.split()[-1] == "verdicts.probes.csv"
    study = cu.read("verdicts.csv")
    assert study.probes.height == 48
    assert "48 probes are read from verdicts.probes.csv" in str([note.message for note in study.notes])
    assert "the probes (48 rows) are not converted" in custodes("convert", "verdicts.csv", "-o", "converted.csv").err
    assert cu.read(*Path.cwd().glob("verdicts*.csv")).probes.equals(study.probes)
    output = json.loads(custodes("consistency", "verdicts.csv", "--resamples", "0", "--format", "json").out)
    length = next(row for row in output["findings"] if row["factor"] == "length")
    assert length["finding"] == "prefers the changed form"
    report = custodes("report", "verdicts.csv", "texts.csv", "--resamples", "20", "-o", "report.html")
    assert report.status == 0, report.err
    assert "Probes: the same outputs in another form" in Path("report.html").read_text(encoding="utf-8")
    verdict = custodes("verdict", "verdicts.csv", "texts.csv", "--resamples", "20")
    assert "(probe length)" in " ".join(verdict.out.split())
    assert custodes(*words).status == 0  # without probes, outcomes of earlier probes are not read with the new verdicts
    assert not Path("verdicts.probes.csv").exists()
