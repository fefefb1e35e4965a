"""Words and numbers as verdicts; the set of numbers determines their meaning."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

import polars as pl
import pytest

from custodes.data.readers.verdict_words import interpret_cells
from custodes.data.reading import read
from custodes.data.writing import long_tables
from custodes.errors import InputError
from tests.data.input_errors import reading_error

ROW = {"item": 1, "model_a": "gpt-4", "model_b": "Llama 2", "rater": "judge", "kind": "metric"}
FIRST = (
    'model_a|Model A|model-a|MODEL_A|system_a|a|A|[[A]]|[A]| (a) |"A"|A.|Assistant A|response a|Output_A|1|1.0|[[1]]'
    "|model_1|win|Won|left|Left|first|1st|A>B|A >> B|[[A>>B]]|B<A|B<<A|>|A is better|gpt-4|GPT-4|[[gpt-4]]|**gpt-4**"
)
SECOND = (
    "model_b|B|[[B]]|assistant b|answer_2|lose|loss|right|second|2nd|B>A|[[B>>A]]|A<B|A<<B|<|B is better|Llama 2"
    "|llama 2|-1"
)
TIE = (
    "tie|Tie|draw|C|[[C]]|A=B|[[A=B]]|B=A|both_bad|tie (bothbad)|Both bad|Both are bad|Both are good|neither|=|equal"
    "|same"
)
WORDS = [(word, sign) for words, sign in ((FIRST, 1), (SECOND, -1), (TIE, 0)) for word in words.split("|")]


@pytest.mark.parametrize(("word", "preference"), WORDS)
def test_words(word: str, preference: int) -> None:
    study = read(pl.DataFrame([ROW | {"winner": word}]))
    # "Llama 2" < "gpt-4", so the second model is system_a
    assert study.preferences.frame["preference"].to_list() == [-preference]


@pytest.mark.parametrize("word", ["", "NaN", "n/a", None, "null"])
def test_no_word_is_no_verdict(word: str | None) -> None:
    rows = [ROW | {"winner": "A"}, ROW | {"item": 2, "winner": word}]
    assert [note.count for note in read(pl.DataFrame(rows)).notes if note.rule == "missing-verdict"] == [1]


@pytest.mark.parametrize(
    ("numbers", "preferences"),
    [
        ([1, 0, -1], [1, 0, -1]),
        (["+1", "-1.0"], [1, -1]),
        ([-1, -1], [-1, -1]),
        ([1, 2], [1, -1]),
        ([2, 2], [-1, -1]),
        ([1, 1], [1, 1]),  # both readings agree
        ([1, 1.5, 2], [1, 0, -1]),
        ([1, 0.5, 0], [1, 0, -1]),
        ([1, 2, "tie"], [1, -1, 0]),
    ],
)
def test_numbers_mean_what_their_set_says(numbers: list[object], preferences: list[int]) -> None:
    for column in ("winner", "preference"):
        frame = pl.DataFrame([ROW | {"item": k, column: str(number)} for k, number in enumerate(numbers)])
        assert read(frame).preferences.frame["preference"].to_list() == [-preference for preference in preferences]


@pytest.mark.parametrize(
    ("column", "numbers", "message"),
    [
        (
            "winner",
            [1, 0],
            "table: winner is 0, 1, where 0 (row 2) may be a tie or a system; write model_a, model_b, tie",
        ),
        (
            "winner",
            [0, 0],
            "table: winner is 0, where 0 (row 1, 2) may be a tie or a system; write model_a, model_b, tie",
        ),
        (
            "preference",
            [1, 0, 2],
            "table: preference is 0, 1, 2, where 0 (row 2) may be a tie or a system; write model_a, model_b, tie",
        ),
        (
            "preference",
            [1, 0],
            "table: preference is 0, 1, where 0 (row 2) may be a tie or a system; write model_a, model_b, tie",
        ),
        (
            "preference",
            [2, 1, 0, -1, -2],
            "table: preference is -2, -1, 0, 1, 2, a graded scale of unknown direction (row 5); write 1 if the "
            "system of the first column is better, 0 for a tie, -1 otherwise",
        ),
        (
            "preference",
            list(range(4, -4, -1)),
            "table: preference is -3, -2, -1, 0, 1, 2, 3 and 1 more, a graded scale of unknown direction (row 7, 8); "
            "write 1 if the system of the first column is better, 0 for a tie, -1 otherwise",
        ),
        (
            "preference",
            [1, -1, 2],
            "table: 1 of 3 verdicts cannot be read ('2' in row 3); allowed: model_a, model_b, tie, both_bad, A, "
            "B, C, 1, 2, left, right, the name of a system (full list: documentation, data), or empty; that is "
            "33.3 % of the file, but invalid='drop' allows at most 5 % per file and rater; correct these "
            "verdicts, or drop all of them with --invalid force (in Python invalid='force')",
        ),
        (
            "winner",
            [1, 2, 3],
            "table: 1 of 3 verdicts cannot be read ('3' in row 3); allowed: model_a, model_b, tie, both_bad, A, "
            "B, C, 1, 2, left, right, the name of a system (full list: documentation, data), or empty; that is "
            "33.3 % of the file, but invalid='drop' allows at most 5 % per file and rater; correct these "
            "verdicts, or drop all of them with --invalid force (in Python invalid='force')",
        ),
    ],
)
def test_numbers_of_two_meanings_are_one_line(column: str, numbers: list[int], message: str) -> None:
    frame = pl.DataFrame([ROW | {"item": k, column: number} for k, number in enumerate(numbers)])
    assert reading_error(frame) == message


def test_a_study_that_was_written_holds_ties_though_nobody_lost(tmp_path: Path) -> None:
    frame = pl.DataFrame([ROW | {"item": k, "winner": "tie" if k % 2 else "Llama 2"} for k in range(4)])
    study = read(frame)
    path = tmp_path / "written.csv"
    long_tables(study)["battles"].write_csv(path)
    assert read(path).preferences.frame["preference"].to_list() == [1, 0, 1, 0]


def test_a_name_that_is_the_word_for_the_other_is_one_line() -> None:
    frame = pl.DataFrame([{"item": 1, "model_a": "B", "model_b": "A", "winner": "A"}])
    assert reading_error(frame) == (
        "table: winner 'A' in row 1 is ambiguous: the code for one system is the name of the other system ('B', "
        "'A'); write model_a, model_b or tie"
    )
    assert read(frame.select("item", "winner", model_a="model_b", model_b="model_a")).preferences.frame.height == 1


@pytest.mark.parametrize("systems", ["model", "system"])
@pytest.mark.parametrize("column", ["winner", "preference"])
@pytest.mark.parametrize("rater", ["rater", "judge"])
def test_any_combination_of_columns(systems: str, column: str, rater: str) -> None:
    row = {"item": 1, f"{systems}_a": "x", f"{systems}_b": "y", column: "A", rater: "j"}
    study = read(pl.DataFrame([row]))
    assert study.preferences.frame.row(0)[:8] == ("1", "x", "y", "j", "", "0", "", 1)


def test_two_columns_that_say_the_same_are_one_line() -> None:
    with pytest.raises(InputError, match="columns 'winner' and 'preference' have the same meaning; remove one"):
        read(pl.DataFrame([ROW | {"winner": "A", "preference": 1}]))


def documented(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading of the documentation on data."""
    page = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8").split(heading, 1)[1]
    rows = [line.strip().strip("|").split("|") for line in page.splitlines() if line.strip().startswith("|")]
    return list(takewhile(lambda row: len(row) == len(rows[0]), rows))[2:]


def test_every_documented_word_and_order_is_read() -> None:
    row = {"item": 1, "model_a": "Aster", "model_b": "Birch", "winner": "tie"}
    cases: list[tuple[str, str, object]] = []
    for (_, cells), sign in zip(documented("## Words of verdicts"), [1, -1, None, 0], strict=False):
        for word in re.findall(r"`([^`]+)`", cells):
            place = 1 if word in ("left", "first", "1st") else -1
            if word not in ("response", "output", "answer"):
                cases.append(("winner", word, place if sign is None else sign))
    for row_of_orders in documented("### Both presentation orders")[:2]:
        for cells, order in zip(row_of_orders, ("ab", "ba", ""), strict=True):
            cases += [("order", word, order) for word in re.findall(r"`([^`]+)`", cells)]
    assert [name for name, *_ in cases].count("winner") == 43
    assert len(cases) == 43 + 31
    for name, word, expected in cases:
        read_frame = read(pl.DataFrame([row | {name: word}])).preferences.frame
        assert read_frame[{"winner": "preference"}.get(name, name)].to_list() == [expected], word


def test_names_of_systems_in_our_own_format() -> None:
    first, second = pl.Series(["Aster", "1"]), pl.Series(["Birch", "2"])
    by_name = interpret_cells(pl.Series("winner", ["Birch", "1"]), first, second, where="file", is_own_format=True)
    assert by_name["preference"].to_list() == [-1.0, 1.0]
    signs = interpret_cells(pl.Series("winner", ["1", "-1"]), second, first, where="file", is_own_format=True)
    assert signs["preference"].to_list() == [1.0, -1.0]
