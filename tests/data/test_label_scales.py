"""Words of labels, scales and codes."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from custodes.data.labels import (
    LabelScale,
    binary_words,
    encode_raters,
    infer_scale,
    is_binary,
    label_words,
    unify_scales,
)
from custodes.errors import InputError
from tests.messages import exactly

ELEVEN = [str(k) for k in range(11)]
TWENTY = [f"w{k:02d}" for k in range(20)]
ADVICE = "give labels that are words or at most 11 whole numbers"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([" Pass ", "NOT-ok", "thumbs  down\t-x"], ["pass", "not_ok", "thumbs_down_x"]),
        (["", "N/A", "unlabelled", "Unlabeled", None], [None] * 5),
        (["1.0", "02.00", "-1", "1.50", "1.0x"], ["1", "02", "-1", "1.50", "1.0x"]),
        ([1.0, 3.0, None], ["1", "3", None]),
        ([-1.5, 2.0], ["-1.5", "2"]),
        ([True, None], ["true", None]),
        ([], []),
    ],
)
def test_cells_as_words(cells: list[Any], words: list[str | None]) -> None:
    assert label_words(pl.Series("x", cells)).to_list() == words


def test_known_pairs() -> None:
    assert [binary_words([word]) for word in ("pass", "faithful", "no")] == [
        ("fail", "pass"),
        ("unfaithful", "faithful"),
        ("no", "yes"),
    ]
    assert binary_words(["true", "pass", "fail", "bad"]) == ("bad", "pass")  # the first of several in the alphabet
    assert [is_binary(words) for words in (["false", "pass"], ["pass", "x"], [])] == [True, False, False]


@pytest.mark.parametrize(
    ("labels", "human", "words", "ordered", "scores"),
    [
        ({"h": ["fail"], "j": ["0.2", "0.9"], "k": ["1", "0"]}, "h", ["fail", "pass"], False, "j"),
        ({"h": ["0", "1"], "j": ["0", "2"], "k": ["yes"]}, "h", ["0", "1"], False, "j"),
        ({"h": ["true"], "j": ["no", "maybe"]}, "h", ["false", "true"], False, ""),
        # abstentions beside both words of a known pair
        ({"h": ["pass", "unsure", "fail"], "j": ["skip"]}, "h", ["fail", "pass"], False, ""),
        ({"j": ["pass", "not_sure", "fail"]}, "", ["fail", "pass"], False, ""),
        ({"h": ["pass", "unsure"]}, "h", ["pass", "unsure"], False, ""),
        ({"h": ["bug", "unsure"]}, "h", ["bug", "unsure"], False, ""),
        # ordinal labels
        ({"h": ["1", "10", "3"], "j": ["3", "1"], "k": ["2"], "l": ["0.5"]}, "h", ["1", "3", "10"], True, "kl"),
        ({"h": ELEVEN}, "h", ELEVEN, True, ""),
        # nominal labels
        ({"h": ["a", "c", "b"], "j": ["a", "d"], "k": ["7"]}, "h", ["a", "b", "c", "d"], False, ""),
        ({"h": ["mies", "prima"], "j": ["0.2", "0.9"]}, "h", ["mies", "prima"], False, "j"),
        ({"h": ["mies", "prima"], "j": ["so"]}, "h", ["mies", "prima", "so"], False, ""),
        ({"h": TWENTY}, "h", TWENTY, False, ""),
        # without annotators, or without their labels
        ({"j": ["a", "b"], "k": ["0.5"]}, "", ["a", "b"], False, "k"),
        ({"j": ["0.5"], "k": ["0", "1"]}, "", ["0", "1"], False, "j"),
        ({"h": [None], "j": ["no"]}, "h", ["no", "yes"], False, ""),
    ],
)
def test_the_scale_of_several_raters(
    labels: dict[str, list[str]], human: str, words: list[str], *, ordered: bool, scores: str
) -> None:
    columns = {name: pl.Series(cells, dtype=pl.String) for name, cells in labels.items()}
    expected = LabelScale(words=tuple(words), ordered=ordered, scores=frozenset(scores))
    assert infer_scale(columns, human_raters=list(human), where="x") == expected


def encode(rows: list[tuple[str, str | None]], human: str = "h") -> tuple[list[float | None], LabelScale]:
    table = pl.DataFrame(rows, schema={"rater": pl.String, "word": pl.String}, orient="row")
    codes, scale = encode_raters(table, human_raters=list(human), where="x.csv")
    return codes.to_list(), scale


def test_codes_of_labels() -> None:
    codes, scale = encode([("h", "fail"), ("j", "true"), ("j", "maybe"), ("h", None), ("k", "0.3"), ("k", "2")])
    assert codes == [0, 1, None, None, 0.3, 2]
    assert scale == LabelScale(words=("fail", "pass"), scores=frozenset("k"))
    assert scale.binary
    assert encode([("h", "b"), ("h", "a"), ("h", "c"), ("j", "d")])[0] == [1, 0, 2, 3]
    assert encode([("h", "mies"), ("h", "prima"), ("j", "0.5")])[0] == [0, 1, 0.5]
    assert encode([("h", "10"), ("h", "2"), ("j", "2")])[0] == [1, 0, 0]
    assert encode([("j", "a"), ("j", "b")], human="")[0] == [0, 1]
    assert encode([("h", "pass"), ("j", None)])[0] == [1, None]


@pytest.mark.parametrize(
    ("labels", "human", "message"),
    [
        ({"h": [*ELEVEN, "11"]}, "h", f"human labels are scores (0, 1, 10, 11 and 8 more); {ADVICE}"),
        ({"h": ["1", "1.5"]}, "h", f"human labels are scores (1, 1.5); {ADVICE}"),
        ({"j": ["0.5", "0.7"]}, "", f"labels are scores (0.5, 0.7); {ADVICE}"),
        ({"h": [*TWENTY, "z"]}, "h", "21 different labels (w00, w01, w02, w03 and 17 more); at most 20 are allowed"),
        (
            {"h": ["fail", "pass"], "k": ["z"], "j": ["e", "d", "c", "b", "a"]},
            "h",
            "the labels of k (z) are not among the human labels (fail, pass), so they cannot be compared; use the same "
            "labels for both",
        ),
        (
            {"h": list("654321"), "j": ["e", "d", "c", "b", "a", None]},
            "h",
            "the labels of j (a, b, c, d and 1 more) are not among the human labels (1, 2, 3, 4, 5 and 1 more), so "
            "they cannot be compared; use the same labels for both, such as 'e' for human labels of at least 5",
        ),
    ],
)  # fmt: skip
def test_labels_that_are_refused(labels: dict[str, list[str]], human: str, message: str) -> None:
    with pytest.raises(InputError, match=exactly(f"x.csv: {message}")):
        encode([(name, cell) for name, cells in labels.items() for cell in cells], human)


def ratings(*rows: tuple[str, str, float]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["rater", "aspect", "score"], orient="row")


def test_scales_of_two_inputs() -> None:
    first = ratings(("h", "", 1), ("h", "tone", 0), ("h", "", 0), ("s", "", 0.5))
    pair, words = LabelScale(words=("fail", "pass"), scores=frozenset("s")), LabelScale(words=("a", "b"))
    kinds = {"h": "human", "j": "metric", "k": "metric", "s": "metric"}
    second = ratings(("j", "", 4), ("j", "depth", 4), ("k", "", 1), ("k", "", 0))
    (one, two), scales = unify_scales((first, second), ({"": pair, "tone": words}, {}), kind_of_rater=kinds)
    assert one.equals(first)
    assert two.equals(second)
    assert scales == {"": LabelScale(words=pair.words, scores=frozenset("js")), "tone": words}
    # other codes of the same words, and a word that the annotators do not use
    other = LabelScale(words=("no", "pass", "x"))
    frames = (ratings(("j", "", 2), ("j", "", 1), ("j", "depth", 3), ("j", "", 0)), first)
    (one, two), scales = unify_scales(frames, ({"": other}, {"": pair}), kind_of_rater=kinds)
    assert one.rows() == [("j", "", 1), ("j", "depth", 3), ("j", "", 0)]
    assert two.equals(first)
    assert scales == {"": pair}
    same = unify_scales((first, first), ({"": other}, {"": other}), kind_of_rater=kinds)
    assert same == ((first, first), {"": other})
    for aspect, where in (("", "labels of two inputs"), ("tone", "tone")):
        frames = (ratings(("h", aspect, 0)), ratings(("j", aspect, 0)))
        with pytest.raises(InputError, match=rf"\A{where}: the labels of j \(a\) are not among the human labels"):
            unify_scales(frames, ({aspect: pair}, {aspect: words}), kind_of_rater=kinds)
