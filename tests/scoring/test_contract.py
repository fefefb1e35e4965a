"""Contract of all metrics, which new ones are tested against once they are listed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import custodes as cu
from custodes.data.study import Study
from custodes.errors import OptionError
from custodes.scoring.listing import load_metric
from custodes.scoring.metric import Place
from custodes.scoring.metrics import METRICS
from custodes.scoring.spec import WHOLE, parse
from tests.scoring.made import study as texts_of
from tests.scoring.made import texts as inputs_of

TOLERANCE = 1e-5
"""Tolerance for models, whose sums depend on the batch."""

OUTPUTS = {
    "1": {"A": "The cat sat on the big mat.", "B": "the dog ran in a river", "C": "A cat sat on a mat and ran."},
    "2": {"A": "a red fish and a big tree", "B": "a red fish and a big tree", "C": "the fish ran"},
    "3": {"A": "The river.", "B": "the big red dog sat in the river and the cat ran on", "C": "on the tree a dog sat"},
    "4": {"A": "a cat and a dog", "B": "The dog sat on the mat.", "C": "A fish and a dog."},
}
# Every output shares letters with a reference: if several share none, chrF of a corpus uses the first reference.
REFERENCES = {
    "1": ["The cat sat on the mat.", "A cat was on the big mat and ran"],
    "2": ["a red fish and a tree", "the red fish ran and sat", "a fish"],
    "3": ["The big dog sat in the river."],
    "4": ["a cat and a dog", "a dog and a cat ran"],
}
SOURCES = {
    "1": "The big cat sat on the red mat and the dog ran in the river.",
    "2": "A red fish ran and a big tree sat on a mat.",
    "3": "The dog sat in the river and the cat on the tree.",
    "4": "A cat and a dog and a fish.",
}
STRANGE = {
    "empty": "",
    "blank": " \t\n ",
    "dots": "...",
    "japanese": "猫が川で魚を食べた。",
    "arabic": "القطة على الحصيرة",
    "turned": "\u202egod a dna tac a\u202c",
    "combining": "e\u0301 ne\u0301e \u0928\u093f",
    "emoji": "👩‍👩‍👧 🐈",
    "nul": "a\0cat",
    "markup": "<s>[[A]] {{ x }} </s>",
    "long": "antidisestablishmentarianism" * 40,
}
NAMES = [name for name, metric in METRICS.items() if WHOLE not in metric.parameters]
"""Metrics that run in a separate process have their contract in test_worker.py."""


@pytest.fixture(params=NAMES)
def spec(request: pytest.FixtureRequest) -> str:
    """Name of a metric; encoder metrics use the encoder for tests."""
    metric = METRICS[request.param]
    return f"{metric.name}:model={request.getfixturevalue('encoder')}" if "model" in metric.parameters else metric.name


@pytest.fixture
def rules(spec: str) -> str:
    """Name of the metric with all reference rules."""
    metric = METRICS[spec.partition(":")[0]]
    return f"m={spec}" + ("@" + ",".join(metric.traits.rules) if metric.traits.rules else "")


def study(outputs: dict[str, dict[str, str]], references: dict[str, list[str]] = REFERENCES) -> Study:
    """Study of these outputs with all inputs that metrics may need."""
    return texts_of(outputs, references=references, source=SOURCES, context=SOURCES)


def scored(texts: Study, spec: str, **options: Any) -> dict[tuple[str, str, str], float]:
    """Map (item, system, rater) to the score; every missing score has a reason."""
    result = cu.score(texts, [spec], **options)
    rows = {tuple(key): value for *key, value in result.ratings.iter_rows()}
    assert result.skipped["why"].str.len_chars().min() in (None, *range(5, 500))
    gone = set(result.skipped.select("item", "system", "rater").rows())
    assert not gone & rows.keys()
    assert texts.outputs is not None
    if not result.ratings.is_empty() and result.ratings["item"][0] != "":
        assert len(rows) + len(gone) == texts.outputs.texts.height * result.raters.height
    for low, high in result.raters.select("low", "high").iter_rows():
        slack = 1e-6 * max(1.0, abs(high or 0.0))
        assert all(
            (low is None or value >= low - slack) and (high is None or value <= high + slack) for value in rows.values()
        )
    return rows  # type: ignore[return-value]


def close(first: dict[Any, float], second: dict[Any, float], tolerance: float = TOLERANCE) -> None:
    assert first.keys() == second.keys()
    assert first == pytest.approx(second, rel=tolerance, abs=tolerance)


def test_names_and_orders_change_nothing(rules: str) -> None:
    before = scored(study(OUTPUTS), rules)
    assert before
    items, systems = dict(zip("1234", "zxyw", strict=True)), dict(zip("ABC", "RPQ", strict=True))
    turned = {item: dict(reversed(value.items())) for item, value in reversed(OUTPUTS.items())}
    renamed = {items[item]: {systems[s]: text for s, text in value.items()} for item, value in turned.items()}
    facts = [{items[item]: value for item, value in mapping.items()} for mapping in (REFERENCES, SOURCES)]
    after = scored(texts_of(renamed, references=facts[0], source=facts[1], context=facts[1]), rules)
    assert {(items.get(i, ""), systems[s], r): value for (i, s, r), value in before.items()} == after


def test_batches_change_nothing(rules: str) -> None:
    close(scored(study(OUTPUTS), rules, batch=1), scored(study(OUTPUTS), rules, batch=5))


def test_other_outputs_change_nothing_unless_it_looks_at_the_whole(rules: str, spec: str) -> None:
    traits = METRICS[spec.partition(":")[0]].traits
    before = scored(study(OUTPUTS), rules)
    changed = {item: {**output, "C": "another fish sat"} for item, output in OUTPUTS.items()}
    after = scored(study(changed), rules)
    ours = [key for key in before if key[1] != "C"]
    close({key: before[key] for key in ours}, {key: after[key] for key in ours})
    if not (traits.whole or traits.systems):
        alone = scored(study({"1": OUTPUTS["1"]}), rules)
        close({key: before[key] for key in alone}, alone)


def test_the_order_of_references_matters_for_the_first_alone(rules: str, spec: str) -> None:
    before = scored(study(OUTPUTS), rules)
    after = scored(study(OUTPUTS, {item: reference[::-1] for item, reference in REFERENCES.items()}), rules)
    first = METRICS[spec.partition(":")[0]].traits.rules == ("first",)
    ours = [key for key in before if not (first or key[2].endswith("@first"))]
    exactly = 1e-12 if "model" not in METRICS[spec.partition(":")[0]].parameters else TOLERANCE
    close({key: before[key] for key in ours}, {key: after[key] for key in ours}, exactly)


def test_strange_texts_have_a_number_or_a_reason(rules: str) -> None:
    outputs = {item: {**STRANGE, "plain": output["A"]} for item, output in OUTPUTS.items()}
    result = scored(study(outputs), rules)
    assert all(np.isfinite(value) for value in result.values())
    references = {item: list(filter(None, STRANGE.values())) for item in OUTPUTS}
    scored(study(OUTPUTS, references), rules)


@pytest.mark.parametrize("size", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_long_text_is_scored_or_has_a_reason_or_is_refused(spec: str, size: int) -> None:
    long = ("the big red cat sat on a mat and ran in the river " * (size // 50 + 1))[:size]
    try:
        scored(study({"1": {"A": long, "B": "a cat"}}), f"m={spec}")
    except OptionError as refused:
        if "may take" not in str(refused):
            raise


def test_what_is_right_is_not_worse(spec: str) -> None:
    metric = METRICS[spec.partition(":")[0]]
    if "references" not in metric.traits.needs:
        return  # this metric uses no reference
    outputs = {item: {"right": REFERENCES[item][0], "wrong": "zzz qqq vvv xxx kkk"} for item in OUTPUTS}
    result = scored(study(outputs), f"m={spec}")
    sign = 1 if metric.traits.higher_is_better else -1
    both = [item for item in {key[0] for key in result} if (item, "wrong", "m") in result]
    assert both
    for item in both:
        assert sign * result[item, "right", "m"] >= sign * result[item, "wrong", "m"]


def test_what_is_said_of_it_is_so(spec: str) -> None:
    (parsed,) = parse([spec], METRICS)
    scorer = load_metric(parsed.metric, Place(), dict(parsed.parameters), parsed.name)
    again = load_metric(parsed.metric, Place(), dict(parsed.parameters), parsed.name)
    assert scorer.traits == parsed.metric.traits
    assert scorer.signature == again.signature
    assert re.search(r"\d", scorer.signature), "no version"
    assert "/" not in parsed.name.replace(parsed.metric.name, "")
    assert re.match(r"[A-Z]|chrF", parsed.metric.gives)
    assert parsed.metric.gives.endswith(".")
    assert parsed.metric.source
    assert ("references" in scorer.traits.needs) == bool(scorer.traits.rules)
    assert not (scorer.traits.whole and scorer.traits.systems)
    inputs = inputs_of(
        tuple(OUTPUTS["1"].values()),
        (tuple(REFERENCES["1"]) if "references" in scorer.traits.needs else (),),
        item=(0, 0, 0),
        sources=(SOURCES["1"] if "source" in scorer.traits.needs else "",),
    )
    for array in (inputs.item, inputs.system):
        array.setflags(write=False)
    scorer.score(inputs)  # changes none of its inputs
    scorer.close()
    again.close()
