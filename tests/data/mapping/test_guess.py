"""The error for a table that no reader matches proposes a mapping that reads it."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.data.mapping.column_vocabulary import NAMES, find_columns, looks_human
from tests.data.input_errors import reading_error
from tests.data.mapping.tables import as_text, half, proposed, rows, wide


def verdicts(**columns: object) -> pl.DataFrame:
    base = {"prompt": [f"p{k}" for k in range(6)], "assistant_a": "X", "assistant_b": ["Y", "Z"] * 3}
    return pl.DataFrame({**base, "preference": ["1", "0", "-1"] * 2, **columns})


WIDE = """
alice, bleu
    {rater} | |
score
    {rater} | |
human_coherence_ann1, human_coherence_ann2, human_fluency_ann1, bleu
    human_{aspect}_{rater} & metric:{rater} | ann1, ann2 | coherence, fluency
human_factual_consistency_ann1, human_coherence_ann1, bleu
    human_{aspect}_{rater} & metric:{rater} | ann1 | factual_consistency, coherence
human_style_expert_1, human_style_expert_2, human_fluency_expert_1, rouge_1
    human_{aspect}_{rater:expert*} & metric:{rater} | expert_1, expert_2 | style, fluency
human_coherence, human_fluency, bleu
    human_{aspect} & metric:{rater} | human | coherence, fluency
expert1_style, expert1_fluency, expert2_style, expert2_fluency, bleu
    human:{rater}_{aspect} & metric:{rater} | expert1, expert2 | style, fluency
style_human, fluency_human, bleu
    {aspect}_human & metric:{rater} | human | style, fluency
human_score, bleu, rouge
    human:{rater:human_score} & metric:{rater} | human_score |
annotator-1, annotator-2, bleu
    human:{rater:annotator-1,annotator-2} & metric:{rater} | annotator-1, annotator-2 |
Human.Style.A1, Human.Style.A2, Human.Fluency.A1, bleu
    Human.{aspect}.{rater} & metric:{rater} | A1, A2 | Style, Fluency
human_style_alice, human_style_bob, human_fluency_alice, human_fluency_bob, bleu
    human_{aspect}_{rater} & metric:{rater} | alice, bob | style, fluency
rating_overall_1, rating_overall_2, rating_clarity_1, rating_clarity_2, rouge
    human:rating_{aspect}_{rater} & metric:{rater} | 1, 2 | overall, clarity
coh_r1, coh_r2, flu_r1, flu_r2, rouge
    human:{aspect}_{rater} & metric:{rater} | r1, r2 | coh, flu
Coherence (P1), Coherence (P2), Fluency (P1), Fluency (P2), rouge
    human:{aspect} ({rater}) & metric:{rater} | P1, P2 | Coherence, Fluency
Style - Annotator 1, Style - Annotator 2, Fluency - Annotator 1, Fluency - Annotator 2, rouge
    human:{aspect} - {rater} & metric:{rater} | Annotator 1, Annotator 2 | Style, Fluency
style_ann1, style_ann2, depth_ann1, depth_ann2, style_gpt4, depth_gpt4
    human:{aspect}_{rater:ann*} & metric:{aspect:depth,style}_{rater} | ann1, ann2 | style, depth
human_1, human_2, human_avg, bleu, rouge
    human:{rater:human_1,human_2} & metric:{rater:bleu,rouge} | human_1, human_2 |
style_ann1, style_ann2, style_mean, depth_ann1, rouge
    human:{aspect}_{rater:ann*} & metric:{rater:rouge} | ann1, ann2 | style, depth
MOS, MOS_n, MOS_std, bleu
    {rater:MOS,bleu} | |
human_style_ann1, human_style_ann2, human_depth_ann1, human_confidence, bleu
    human_{aspect}_{rater} & metric:{rater:bleu} | ann1, ann2 | style, depth
human a's, metric
    human:{rater:human a's} & metric:{rater} | human a's |
"""
"""Columns of a wide table, followed by the suggested patterns, the raters and the aspects."""

Case = tuple[pl.DataFrame, list[str], list[str], list[str]]
"""A table, the suggested options, the annotators and the aspects."""


def split(text: str, sign: str = ", ") -> list[str]:
    return [part.strip() for part in text.split(sign) if part.strip()]


def wide_cases() -> dict[str, Case]:
    lines = WIDE.strip().splitlines()
    cases = {}
    for columns, expected in zip(lines[::2], lines[1::2], strict=True):
        patterns, annotators, aspects = expected.split("|")
        options = [f"--columns={pattern}" for pattern in split(patterns, " & ")]
        roles = ["item=doc_id", "system=model", "text=output"]
        cases[columns] = wide(*split(columns)), [*roles, *options], split(annotators), split(aspects)
    return cases


def long_of(*aspects: str) -> pl.DataFrame:
    return pl.concat([half("rating").with_columns(dimension=pl.lit(aspect)) for aspect in aspects])


OUTPUT = ["item=doc_id", "system=model"]
BY_PERSON = [*OUTPUT, "rater=annotator"]
BOTH = ["coherence", "fluency"]
NUMBERED = half("coherence", "fluency", rater="worker_id", label=lambda person: 100 + person)
REFUSED: dict[str, Case] = {
    **wide_cases(),
    "no texts": (wide("alice", "bleu", text=False), [*OUTPUT, "--columns={rater}"], [], []),
    "a column for each aspect": (half(*BOTH), [*BY_PERSON, "--columns={aspect}"], ["w0", "w1"], BOTH),
    "people who are numbers": (
        *(NUMBERED, [*OUTPUT, "rater=worker_id", "--columns={aspect}"]),
        *(["100", "101"], BOTH),
    ),
    "ratings of aspects": (
        *(half("rating_coherence", "rating_fluency"), [*BY_PERSON, "--columns={aspect}"]),
        *(["w0", "w1"], ["rating_coherence", "rating_fluency"]),
    ),
    "a metric beside aspects": (
        *(half(*BOTH, "bleu"), [*BY_PERSON, "--columns={aspect:coherence,fluency}"]),
        *(["w0", "w1"], BOTH),
    ),
    "long": (half("rating", rater="worker"), [*OUTPUT, "rater=worker", "score=rating"], ["w0", "w1"], []),
    "aspects": (
        long_of("style", "depth"),
        [*BY_PERSON, "score=rating", "aspect=dimension"],
        ["w0", "w1"],
        ["style", "depth"],
    ),
    "a slip": (
        half("scores", rater="rater", item="items", system="System"),
        *(["item=items", "system=System", "score=scores"], [], []),
    ),
    "taken for wide": (
        half("rating", item="item", system="system"),
        *(["rater=annotator", "score=rating"], ["w0", "w1"], []),
    ),
    "found by content": (
        wide("alice", "bleu", item="what", system="thing", text=False),
        *(["item=what", "system=thing", "--columns={rater}"], [], []),
    ),
    "verdicts": (
        verdicts(annotator="ann"),
        *(["item=prompt", "rater=annotator", "system_a=assistant_a", "system_b=assistant_b"], ["ann"], []),
    ),
    "the source is the item": (
        pl.DataFrame(
            {
                "source": [f"What is the capital of country number {k // 2}?" for k in range(12)],
                "model": ["gpt", "llama"] * 6,
                "output": [f"the answer of this model is number {k}" for k in range(12)],
                "alice": [1, 2, 3, 4, 5, 1] * 2,
                "bleu": [k / 10 for k in range(12)],
            }
        ),
        ["item=source", "system=model", "text=output", "source=source", "--columns={rater}"],
        *([], []),
    ),
    "names to quote": (
        wide("alice", "bleu", text=False).rename({"doc_id": "doc id"}),
        *(["item=doc id", "system=model", "--columns={rater}"], [], []),
    ),
}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *(pytest.param(name, as_text, id=f"text-{name}") for name in REFUSED),
        *(pytest.param(name, pl.DataFrame.clone, id=f"typed-{name}") for name in list(REFUSED)[::4]),
    ],
)
def test_a_refused_table_answers_with_a_mapping_that_reads_it(name: str, form: Callable[..., pl.DataFrame]) -> None:
    frame, options, humans, aspects = REFUSED[name]
    table = form(frame)
    with pytest.raises(cu.InputError) as error:
        cu.read(table)
    match = re.search(r"; try (.*) \(in Python columns=(.*)\)$", str(error.value))
    assert match
    flags = [option if option.startswith("--") else f"--column={option}" for option in options]
    assert match[1] == " ".join(f"{flag.split('=')[0]} {shlex.quote(flag.partition('=')[2])}" for flag in flags)
    study = cu.read(table, columns=ast.literal_eval(match[2]))
    rated_aspects = pl.concat([study.ratings.frame["aspect"], study.preferences.frame["aspect"]])
    assert list(study.humans) == humans
    assert list(filter(None, rated_aspects.unique(maintain_order=True))) == aspects


ONE_PERSON = {"system": ["A", "B"] * 2, "human_style_1": ["4", "3", "2", "5"]}
LOSSES = pl.DataFrame({"model_a": "X", "model_b": ["Y", "Z"] * 3, "winner": [0, 1] * 3})
UNIQUE = LOSSES.with_columns(prompt_id=pl.format("p{}", pl.int_range(6)))
ODD_ORDERS = UNIQUE.with_columns(winner=pl.lit("left"), position=pl.Series(["odd", "even"] * 3))
PAIRS = LOSSES.with_columns(prompt_id=pl.format("p{}", pl.int_range(6) // 2), winner=pl.lit("model_a"))
QUESTIONS = [half("answer", item="item").with_columns(question=pl.lit(question)) for question in ("style", "depth")]
LONG = half("rating").rename({"doc_id": "item", "model": "system", "annotator": "rater", "rating": "score"})
PARTS = [f"{aspect}_{person}" for aspect in ("coherence", "fluency") for person in "xy"]
FLAVOURS = pl.Series("flavour", [["vanilla", "lemon", "mint"][(row // 2 + row) % 3] for row in range(24)])
REASONS = pl.DataFrame(rows("prompt=item, finish_reason=system, ann_1=mark, bleu=share", ["stop", "length"]))
SHORT = pl.DataFrame({"prompt": list("uvw"), "response_a": [1, 2, 3], "response_b": [1, 2, 4], "winner": list("AAB")})
TIED = pl.DataFrame({"match": [1, 2, 3], "winner": list("XYX"), "loser": list("YXZ"), "is_tie": [0, 1, 0]})
NO_READER = "match no reader; map your columns, as in --column item=NAME --column system=NAME$"
NO_ADVICE = "^(?!.*; try)(?!.*preference=).*match no reader; the most similar reader is .*NAME"
ADVICE: list[tuple[pl.DataFrame, dict[str, Any], str]] = [
    # what the user maps is kept
    (
        wide("alice", "bleu"),
        {"columns": {"item": "output"}},
        r"item=output --column system=model --column cluster=doc_id --columns '\{rater\}'",
    ),
    (wide("alice", "bleu"), {"columns": {"score": "metric:bleu"}}, "item=doc_id .* text=output --columns metric:bleu "),
    (half("rating"), {"reader": "ratings"}, "'item' is missing.*; try --column item=doc_id .* --column score=rating "),
    # nothing reads the table, or a cell is wrong
    (pl.DataFrame({"a": [1.5, 2.5], "b": [1.5, 2.5]}), {}, NO_READER),
    (pl.DataFrame({"what": ["x", "y"], "thing": ["u", "v"]}), {}, NO_READER),
    (pl.DataFrame({"item": [1], "x": [[1]]}), {}, NO_ADVICE),
    (as_text(LONG).with_columns(score=pl.lit("good")), {}, "^(?!.*; try).*score 'good' in row 1"),
    # each review repeats the metric scores of its output
    (
        pl.DataFrame(
            {"item": list("1122"), "system": list("XYXY"), "reviewer": ["ann"] * 4, "score": [1, 2, 3, 3]}
            | {"bleu": [0.5, 0.25, 0.75, 0.5], "pages": [1, 2, 3, 4]}
        ),
        {},
        r"; try --column rater=reviewer --columns human:score --columns 'metric:\{rater:bleu\}' ",
    ),
    (
        pl.DataFrame(
            {"item": list("1122"), "system": list("XYXY"), "reviewer": ["ann"] * 4, "bleu": [0.5, 0.25, 0.75, 0.5]}
            | {"fluency": [1, 2, 3, 3], "relevance": [2, 2, 4, 3]}
        ),
        {},
        r"; try --column rater=reviewer --columns 'human:\{aspect:fluency,relevance\}' --columns "
        r"'metric:\{rater:bleu\}' ",
    ),
    # texts beside scores are no scores
    (
        pl.DataFrame({"item": list("1122"), **ONE_PERSON, "date": "2024-01-01", "remark": ["It is so.", "Oh."] * 2}),
        *({}, r"; try --columns 'human_\{aspect\}_\{rater\}' "),
    ),
    # no pattern distinguishes the aspects; fractions are no human ratings
    (
        wide("humanStyle1", "humanStyle2", "humanDepth1", "humanDepth2", "bleu"),
        {},
        r"is wide \(item, system\), which also needs 'item'",
    ),
    (wide(*PARTS).with_columns(pl.col(PARTS) / 7), {}, r"--column text=output --columns '\{rater\}'"),
    # 0 may be a tie or a loss
    (UNIQUE, {}, NO_ADVICE),
    (UNIQUE.rename({"winner": "preferred"}), {}, NO_ADVICE),
    (ODD_ORDERS, {}, NO_ADVICE),
    # raters and orders
    (PAIRS.with_columns(judge_name=pl.lit("gpt")), {}, "; try .*--column rater=judge_name "),
    (PAIRS.with_columns(evaluator_model=pl.lit("gpt")), {}, "; try .*--column rater=evaluator_model "),
    (PAIRS.with_columns(swap=pl.Series([0, 1] * 3)), {}, "; try .*--column order=swap "),
    (PAIRS.with_columns(presentation=pl.Series(["AB", "BA"] * 3)), {}, "; try .*--column order=presentation "),
    (PAIRS.with_columns(is_swapped=pl.Series(["true", "false"] * 3)), {}, "; try .*--column order=is_swapped "),
    (pl.concat(QUESTIONS), {}, "--column score=answer --column aspect=question "),
    # short outputs of a pair are no systems
    (SHORT, {}, "; try --column item=prompt --column source=prompt --column output_a=response_a --column output_b="),
    (
        SHORT.with_columns(first_model=pl.lit("X"), second_model=pl.lit("Y")),
        *({}, "--column system_a=first_model --column system_b=second_model .*--column output_a=response_a"),
    ),
    # scores of both sides are not the scores of one side
    (
        UNIQUE.drop("winner").with_columns(score_a=pl.Series([1, 2, 3] * 2), score_b=pl.Series([3, 2] * 3)),
        {},
        NO_ADVICE,
    ),
    # a column marks ties, so the winner is not always the winner
    (TIED, {}, NO_ADVICE),
    (TIED.drop("is_tie"), {}, "; try .*--column winner=winner"),
    # a category is no system
    (
        pl.DataFrame({"task_id": list("abcdef"), "category": list("xyz") * 2, "passed": [0, 1] * 3}),
        {},
        r"; try --column item=task_id --columns '\{rater\}'",
    ),
    # columns of scores may be metrics or systems
    (
        pl.DataFrame({"task_id": ["a", "b", "c"], "gpt": [0.25, 0.5, 1.0], "claude": [0.75, 1.0, 0.25]}),
        *({}, r"--columns '\{rater\}' .*, or, if each .* one system, --column item=task_id .*'metric:\{system\}'$"),
    ),
    # a property of a request is no system
    (REASONS.with_columns(FLAVOURS), {}, "--column system=flavour"),
]


@pytest.mark.parametrize(("frame", "options", "advice"), ADVICE, ids=range(len(ADVICE)))
def test_the_advice_for_a_table(frame: pl.DataFrame, options: dict[str, Any], advice: str) -> None:
    assert re.search(advice, reading_error(frame, **options))


BROKEN = ["1,5 0,2", "50% 20%", "0.5 #REF!", "1.234,5 0,2", "4/5 3/5", "1,000 2,000"]


@pytest.mark.parametrize(("cells", "item"), [*((cells, "doc_id") for cells in BROKEN), (BROKEN[0], "item")])
def test_no_mapping_leaves_out_a_column_because_of_its_cells(cells: str, item: str) -> None:
    name = "human_style_2" if cells == BROKEN[-1] else "bleu"
    with pytest.raises(cu.InputError, match=f"{name} '.*' in row [12].* is not a number") as error:
        cu.read(pl.DataFrame({item: ["1", "1", "2", "2"], **ONE_PERSON, name: cells.split() * 2}))
    assert "; try" not in str(error.value)


def test_rows_beyond_those_that_are_looked_at_count(monkeypatch: pytest.MonkeyPatch) -> None:
    from custodes.data.mapping import guess

    monkeypatch.setattr(guess, "GUESS_ROWS", 9)
    frame = as_text(wide("alice", "bleu", text=False))
    broken = frame.with_columns(bleu=pl.when(pl.int_range(frame.height) == 20).then(pl.lit("?")).otherwise("bleu"))
    with pytest.raises(cu.InputError) as error:
        cu.read(broken)
    assert "try" not in str(error.value)


@pytest.mark.parametrize("role", ["item", "system", "text"])
def test_columns_of_a_role_come_by_their_names_and_not_by_their_order(role: str) -> None:
    words = NAMES[role][:4]
    assert find_columns(role, words[::-1]) == list(words)


def test_what_looks_human() -> None:
    human = ["expert_2", "Human Score", "turker1", "mqm", "da-sqm", "goldLabel", "annotatorA"]
    non_human = [
        "bleu",
        "comet-da",
        "judge",
        "llm_rater",
        "GPT4-annotator",
        "qwen-coder",
        "humane",
        "x-mqm",
        "standard",
    ]
    assert [name for name in [*human, *non_human, ""] if looks_human(name)] == human
    # a declared metric counts as human only if its name is unambiguous
    assert not looks_human("mqm", is_declared_metric=True)
    assert looks_human("human_mqm", is_declared_metric=True)


def test_an_order_that_has_another_name_is_told_of() -> None:
    base = pl.DataFrame({"item": [1, 2], "model_a": "X", "model_b": "Y", "winner": "model_a", "swapped": [0, 1]})
    notes = {note.rule: note.message for note in cu.read(base).notes}
    assert notes["unused-order"] == (
        "table: columns that look like the presentation order are not used: swapped; map one of them to the role order"
    )
    assert "unused-order" not in {note.rule for note in cu.read(base, columns={"order": "swapped"}).notes}
    with pytest.raises(cu.InputError, match="the same verdict occurs twice.*; try .*--column order=swapped "):
        cu.read(base.with_columns(item=pl.lit(1)))


def test_the_most_similar_reader_is_named() -> None:
    with pytest.raises(cu.InputError, match=r"reader is battles \(item, .*--column system_a=NAME .*winner=NAME$"):
        cu.read(pl.DataFrame({"item": [1], "baseline": ["X"], "candidate": ["Y"], "winner": ["baseline"]}))


def test_the_suggestions_of_two_inputs_add_up() -> None:
    human_ratings, metrics = wide("human_style_ann1", "human_style_ann2"), wide("bleu", "chrf")
    columns: dict[str, Any] = {}
    for _ in range(2):
        columns = proposed(human_ratings, metrics, columns=columns)
    assert columns["score"] == ["human_{aspect}_{rater}", "{rater}"]
    study = cu.read(human_ratings, metrics, columns=columns)
    assert study.humans == ("ann1", "ann2")
    assert list(study.raters.kind) == ["ann1", "ann2", "bleu", "chrf"]
