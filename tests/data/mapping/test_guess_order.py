"""All guesses for a table, the most likely first, and the advice with the first guess that a reader accepts."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

from custodes.data.mapping import guess
from custodes.data.mapping.columns import Columns
from custodes.data.mapping.guess import find_certain_mapping, suggest_mapping

N = 12
CELLS: dict[str, list[Any]] = {
    "pair": [k // 2 for k in range(N)],
    "four": [k // 4 for k in range(N)],
    "two": ["A", "B"] * 6,
    "three": ["x", "y", "z"] * 4,
    "who": ["ann", "ann", "bob", "bob"] * 3,
    "human": ["human"] * N,
    "name": [f"n{k}" for k in range(N)],
    "twice": [f"n{k // 2}" for k in range(N)],
    "day": [f"2024-01-{k + 1:02d}" for k in range(N)],
    "ask": [f"what is thing number {k // 2}" for k in range(N)],
    "text": [f"it says number {k}" for k in range(N)],
    "row": [*range(N)],
    "zero": [0] * N,
    "mark": [1, 2, 3, 2] * 3,
    "grade": [2, 1, 3, 3] * 3,
    "share": [k / 7 for k in range(N)],
}
GUESSES = """
id=pair model=two ann_1=mark ann_2=grade ann_mean=share bleu=share
    id/model/2 human:{rater:ann_1,ann_2} metric:{rater:bleu}; id/-/1 human:{rater:ann_1,ann_2} metric:{rater:bleu};
id=pair model=two human_fluency=mark human_depth=grade gpt_fluency=share gpt_depth=share latency=share
    id/model/2 human_{aspect} metric:{rater}_{aspect:depth,fluency};
    id/-/1 human_{aspect} metric:{rater}_{aspect:depth,fluency};
id=pair model=two a.ann=mark a.bob=share c=share
    id/model/2 metric:a.* metric:{rater:c}; id/-/1 metric:a.* metric:{rater:c};
id=pair model=two ratings.style=mark ratings.depth=grade c=share
    id/model/2 human:ratings.* metric:{rater:c}; id/-/1 human:ratings.* metric:{rater:c};
id=pair model=two other.one=mark x=zero
    id/model/2 {rater:other.one}; id/-/1 {rater:other.one};
id=pair model=two aspect=three kind=human score=mark bleu=share
    id/model/2 {rater}; id/-/1 {rater};
id=pair model=two humanStyle1=mark humanStyle2=mark humanDepth1=mark
id=pair what=two bleu=share
    id/what/2 {rater}; id/-/1 {rater};
id=name zz=twice model=two bleu=share
    zz/model/2 {rater}; id/model/2 {rater}; id/zz/2 {rater}; id/-/1 {rater};
id=pair model=two checkpoint=human bleu=share
    id/model/2 {rater}; id/checkpoint/1 {rater};
id=pair model=two document=four bleu=share
    document/model/2 {rater:bleu}; id/model/2 cluster=document {rater}; id/-/1 {rater:bleu};
id=four model=two annotator=who rating=mark
    id/model/2 rater=annotator score=rating; id/model/2 {rater}; id/-/1 rater=annotator score=rating;
    id/-/1 {rater};
id=four model=two annotator=who kind=human run=mark aspect=three score=grade
    id/model/2 rater=annotator repeat=run; id/model/2 {rater}; id/-/1 rater=annotator repeat=run; id/-/1 {rater};
id=four model=two annotator=who kind=three score=mark
    id/model/2 rater=annotator; id/model/2 {rater}; id/-/1 rater=annotator; id/-/1 {rater};
id=four model=two annotator=who question=pair score=mark
    question/model/2 rater=annotator; question/model/2 {rater:score}; id/model/2 rater=annotator aspect=question;
    id/model/2 {rater}; id/-/1 rater=annotator aspect=question; id/-/1 {rater};
id=four model=two annotator=who question=three score=mark
    question/model/2 rater=annotator; question/model/2 {rater:score}; id/model/2 rater=annotator aspect=question;
    id/model/2 {rater}; question/-/1 rater=annotator; question/-/1 {rater:score};
    id/-/1 rater=annotator aspect=question; id/-/1 {rater};
id=four model=two annotator=who fluency=mark overall=grade
    id/model/2 rater=annotator {aspect}; id/model/2 {rater}; id/-/1 rater=annotator {aspect}; id/-/1 {rater};
id=four model=two annotator=who fluency=mark overall=grade rating=mark
    id/model/2 rater=annotator score=rating; id/model/2 rater=annotator {aspect}; id/model/2 {rater};
    id/-/1 rater=annotator score=rating; id/-/1 rater=annotator {aspect}; id/-/1 {rater};
id=four model=two who=who fluency=mark depth=grade bleu=share
    id/model/2 rater=who {aspect:fluency,depth}; id/model/2 {rater}; id/-/1 rater=who {aspect:fluency,depth};
    id/-/1 {rater};
id=four model=two who=who rating_fluency=mark rating_depth=grade avg_x=share
    id/model/2 rater=who {aspect}; id/model/2 {rater}; id/-/1 rater=who {aspect}; id/-/1 {rater};
id=four model=two who=who fluency=mark human_x=grade
    id/model/2 human:{rater:human_x} metric:{rater}; id/-/1 human:{rater:human_x} metric:{rater};
id=four model=two who=who score=mark value=grade
    id/model/2 rater=who; id/model/2 rater=who score=value; id/model/2 {rater}; id/-/1 rater=who;
    id/-/1 rater=who score=value; id/-/1 {rater};
id=pair m=two bleu=share | system=m
    id/m/2 {rater};
id=pair model=two bleu=share chrf=share | score=metric:bleu
    id/model/2 metric:bleu {rater};
id=pair m=two a=share | item=id system=m
    id/m/2 {rater};
id=pair model=two bleu=share text=text | text=text
    id/model/2 text=text {rater}; id/-/1 text=text {rater};
question=ask model=two bleu=share output=text
    question/model/2 text=output source=question {rater}; question/-/1 text=output source=question {rater};
trace_id=name n=row bleu=share
    trace_id/-/1 {rater:bleu}; n/-/1 {rater};
time=day row=row bleu=share
    row/-/1 {rater};
id=name model=human bleu=share
    id/model/1 {rater};
id=name answer_gpt=text answer_llama=text human_gpt=mark human_llama=mark
    id/-/1 {rater}; id/-/2 text=answer_{system}; id/-/2 text={system:answer_gpt,answer_llama};
id=pair model=two output=text
    id/model/2 text=output;
id=name output_a=text output_b=text winner=two
    id/-/2 output_a=output_a output_b=output_b; id/-/2 text=output_{system}; id/-/2 text={system};
id=name model_1=two model_2=two score_1=mark score_2=grade
id=name model_a=two model_b=two winner=two annotator=who output_a=text output_b=text
    id/-/2 rater=annotator system_a=model_a system_b=model_b output_a=output_a output_b=output_b;
    id/-/2 system_a=model_a system_b=model_b output_a=output_a output_b=output_b;
"""
"""The columns of a table and the roles that the user declares, and then the guesses: item/system/number of systems that
the mapping must have, further roles, and patterns."""


def cases() -> list[tuple[str, list[str]]]:
    texts = [line.partition("\n") for line in re.split(r"\n(?=\S)", GUESSES.strip())]
    return [(table, [guess.strip() for guess in guesses.split(";") if guess.strip()]) for table, _, guesses in texts]


@pytest.mark.parametrize(("table", "expected"), cases())
def test_all_guesses_in_order(table: str, expected: list[str]) -> None:
    columns, _, declared = table.partition(" | ")
    frame = pl.DataFrame({name: CELLS[cells] for name, cells in (column.split("=") for column in columns.split())})
    guesses = list[str]()

    def reads(rows: pl.DataFrame, mapping: Columns, n_systems: int) -> bool:
        roles = {"item": "-", "system": "-"} | dict(mapping.roles)
        key = f"{roles.pop('item')}/{roles.pop('system')}/{n_systems}"
        guesses.append(" ".join([key, *(f"{role}={name}" for role, name in roles.items()), *mapping.patterns]))
        return False

    roles = Columns.make(dict(role.split("=") for role in declared.split()))
    assert suggest_mapping(frame, roles, reads, "", [name for name in frame.columns if "." in name]) == ""
    assert list(dict.fromkeys(guesses)) == expected


@pytest.mark.parametrize(
    ("cells", "wrong", "advice"),
    [
        (
            [0.5, 0.25] * 2,
            "",
            "; try --column item=doc --columns '{rater}' (in Python columns={'item': 'doc', 'score': ['{rater}']}), "
            "or, if each of these columns has the scores of one system, --column item=doc --columns 'metric:{system}'",
        ),
        (
            ["0.5", "50%"] * 2,
            "",
            "; bleu '50%' in row 2 is not a number: correct this cell, then a mapping can be suggested; if the column "
            "holds labels, map the columns of labels, as in --columns 'human:{rater:NAME}' "
            "--columns 'metric:{rater:NAME}'",
        ),
        (["0.5", "50%"] * 2, "table: bleu '50%' in row 2 is not a number", ""),
    ],
)
def test_advice(cells: list[Any], wrong: str, advice: str) -> None:
    frame = pl.DataFrame({"doc": list("abcd"), "chrf": [1.5, 2.5, 3.5, 4.5], "bleu": cells})
    assert (
        suggest_mapping(frame, Columns(), lambda rows, mapping, n_systems: "system" not in mapping.roles, wrong)
        == advice
    )
    assert suggest_mapping(frame, Columns(), lambda rows, mapping, n_systems: False, wrong) == ""


def test_a_certain_mapping_reads_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"id": CELLS["pair"], "model": CELLS["two"], "output": CELLS["text"]})
    mapping = Columns(roles={"item": "id", "system": "model", "text": "output"})

    def find(frame: pl.DataFrame, *heights: int, declared: Columns = Columns()) -> Columns | None:  # noqa: B008
        return find_certain_mapping(frame, declared, lambda rows, _: rows.height in heights)

    assert (find(frame, N), find(frame, 9), find(frame, N, declared=mapping)) == (mapping, None, None)
    assert find(frame.rename({"model": "thing"}), N) is None  # uncertain
    monkeypatch.setattr(guess, "GUESS_ROWS", 9)
    assert (find(frame, 9, N), find(frame, 9), find(frame, N), find(frame[:9], 9)) == (mapping, None, None, mapping)
