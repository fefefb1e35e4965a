"""BERTScore compared with its definition in loops, and invariances."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.errors import InputError, OptionError
from custodes.scoring.encoder.encoder import TextEmbeddings, open_encoder
from custodes.scoring.metric import Place, Scorer
from custodes.scoring.metrics import bertscore
from custodes.scoring.metrics.bertscore import BERTSCORE, NO_MEAN, NO_REFERENCE, NO_VECTOR, NO_WEIGHT
from tests.scoring.encoders import WORDS, onnx_model, scorer, sentences, tokenizer
from tests.scoring.made import texts

MEASURES = ("precision", "recall", "f")


def by_definition(
    output: TextEmbeddings, reference: TextEmbeddings, weights: dict[int, float] | None = None
) -> list[float]:
    """Precision, recall and F of Zhang et al. (2020), one token at a time."""

    def mean(first: TextEmbeddings, second: TextEmbeddings) -> float:
        above = below = 0.0
        for at, vector in enumerate(first.vectors):
            number = int(first.tokens.ids[at])
            weight = weights[number] if weights else float(number not in (2, 3))
            cosines = [
                vector @ vector_ / np.linalg.norm(vector) / np.linalg.norm(vector_) for vector_ in second.vectors
            ]
            above, below = above + weight * max(cosines), below + weight
        return above / below

    p, r = mean(output, reference), mean(reference, output)
    return [p, r, 2 * p * r / (p + r)]


def vectors(encoder: Path, some: list[str]) -> dict[str, TextEmbeddings]:
    return open_encoder(Place(), model=str(encoder), layer=-1, backend="auto", revision="", half=False)(some)


def test_it_is_as_defined(encoder: Path) -> None:
    outputs, references = sentences(12), [sentences(2 + at % 3, seed=at + 1) for at in range(4)]
    item = [at % 4 for at in range(12)]
    encoded = vectors(encoder, [*outputs, *(text for reference in references for text in reference)])
    for column, measure in enumerate(MEASURES):
        result = scorer(BERTSCORE, encoder, measure=measure).score(texts(outputs, references, item=item))
        assert result.values.shape == (12, 4)
        for row, of in enumerate(item):
            expected = [by_definition(encoded[outputs[row]], encoded[text])[column] for text in references[of]]
            np.testing.assert_allclose(result.values[row, : len(expected)], expected, atol=1e-6)
            assert np.isnan(result.values[row, len(expected) :]).all()
        assert not result.why


def test_swapped_texts_swap_precision_and_recall(encoder: Path) -> None:
    outputs, references = sentences(10, seed=1), sentences(10, seed=2)
    inputs = texts(outputs, [[text] for text in references])
    back = texts(references, [[text] for text in outputs])
    for measure, swapped_measure in (("precision", "recall"), ("recall", "precision"), ("f", "f")):
        np.testing.assert_allclose(
            scorer(BERTSCORE, encoder, measure=measure).score(inputs).values,
            scorer(BERTSCORE, encoder, measure=swapped_measure).score(back).values,
            atol=1e-6,
        )


@pytest.fixture(scope="module")
def loaded(encoder: Path) -> list[Scorer]:
    """Scorers of each measure that share an encoder."""
    return [scorer(BERTSCORE, encoder, measure=measure) for measure in MEASURES]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=22))
def test_identical_texts_have_one(loaded: list[Scorer], words: list[str]) -> None:
    text = " ".join(words)
    for held in loaded:
        values = held.score(texts([text, f" {text}\n"], [[text]] * 2)).values
        np.testing.assert_allclose(values, 1, atol=1e-6)
        assert (values <= 1).all()


def test_frequencies_are_of_the_references(encoder: Path) -> None:
    """log (N + 1) / (n + 1), counting each reference of an item once for any number of systems."""
    references = [["the cat sat", "a cat ran ."], ["the big dog", "the red fish ran"]]
    outputs = ["a dog sat on the mat", "the big river"]
    encoded = vectors(encoder, [*outputs, *(text for reference in references for text in reference)])
    seen = [set(encoded[text].tokens.ids.tolist()) for reference in references for text in reference]
    weights = {at: math.log(5 / (1 + sum(at in value for value in seen))) for at in range(100)}
    held = scorer(BERTSCORE, encoder, idf=True)
    assert held.traits.whole
    assert not BERTSCORE.traits.whole
    for item, rows in (([0, 1], [0, 1]), ([0, 1, 1, 0], [0, 1, 0, 1])):
        given_texts = texts([outputs[at] for at in rows], references, item=item)
        values = held.score(given_texts).values
        for row, (at, of) in enumerate(zip(rows, item, strict=True)):
            expected = [by_definition(encoded[outputs[at]], encoded[text], weights)[2] for text in references[of]]
            np.testing.assert_allclose(values[row], expected, atol=1e-6)


def test_where_no_token_has_a_weight(encoder: Path) -> None:
    result = scorer(BERTSCORE, encoder, idf=True).score(texts(["the cat", "dog"], [["the cat"]], item=[0, 0]))
    assert np.isnan(result.values).all()
    assert result.why == {0: NO_WEIGHT, 1: NO_WEIGHT}


def test_empty_texts(encoder: Path) -> None:
    given_texts = texts(["", " \n", "the cat", "the cat"], [["a cat", "dog"], ["a", ""]], item=[0, 0, 0, 1])
    for measure in MEASURES:
        result = scorer(BERTSCORE, encoder, measure=measure).score(given_texts)
        assert (result.values[:2] == 0).all()  # as in bert-score
        assert (result.values[2] > 0).all()
        assert np.isnan(result.values[3]).all()
        assert result.why == {3: NO_REFERENCE}


def test_it_tells_of_what_is_cut(encoder: Path) -> None:
    longer = "cat " * 40
    result = scorer(BERTSCORE, encoder).score(texts(["dog", longer, "dog"], [["a"], ["the"], ["a", longer]]))
    assert result.truncated is not None
    assert result.truncated.tolist() == [False, True, True]


@pytest.mark.parametrize("measure", MEASURES)
def test_baselines(encoder: Path, tmp_path: Path, measure: str) -> None:
    file = tmp_path / "baseline.tsv"
    file.write_text("LAYER,P,R,F\n0,.1,.2,.3\n1,.25,.5,.75\n")
    given_texts = texts(["the cat", ""], [["a cat ran"], ["dog"]])
    raw = scorer(BERTSCORE, encoder, measure=measure, layer=1)
    held = scorer(BERTSCORE, encoder, measure=measure, layer=1, baseline=str(file))
    base = {"precision": 0.25, "recall": 0.5, "f": 0.75}[measure]
    np.testing.assert_allclose(held.score(given_texts).values, (raw.score(given_texts).values - base) / (1 - base))
    assert (raw.traits.low, held.traits.low, held.traits.high) == (-1, None, 1)
    assert raw.signature != held.signature


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("LAYER,P,R,F\n0,1,1,1\n", "no row of layer 1"),
        ("LAYER,P,R,F\n1,1,1,1\n", "between -1 and 1"),
        ("LAYER,P,R\n1,.1,.1\n", "with the columns LAYER,P,R,F"),
        ("LAYER,P,R,F\n1,x,x,x\n", "no row of layer 1"),
        (b"\xff\xfe", "it is not a text table"),
        (None, "No such file"),
    ],
)
def test_baselines_that_cannot_be(encoder: Path, tmp_path: Path, content: str | bytes | None, message: str) -> None:
    file = tmp_path / "baseline.tsv"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=message):
        scorer(BERTSCORE, encoder, layer=1, baseline=str(file))
    with pytest.raises(OptionError, match="which selects the row"):
        scorer(BERTSCORE, encoder, baseline=str(file))


def test_what_changes_a_score_is_in_the_signature(encoder: Path, tmp_path: Path) -> None:
    tokenizer(tmp_path, limit=24)
    onnx_model(tmp_path / "model.onnx", seed=1)
    options = [{}, {"measure": "recall"}, {"idf": True}, {"layer": 1}]
    results = [scorer(BERTSCORE, encoder, **option).signature for option in options]
    results.append(scorer(BERTSCORE, tmp_path).signature)
    assert len(set(results)) == 5
    assert scorer(BERTSCORE, encoder, Place(batch=5)).signature == results[0]
    assert str(encoder) not in results[0]
    with pytest.raises(OptionError, match=r"measure='recal'; allowed: f, precision, recall \(did you"):
        scorer(BERTSCORE, encoder, measure="recal")


def test_numbers_that_are_none_are_named(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half-precision vectors may overflow; other texts keep their scores."""
    some = ["the cat", "dog", "a fish ran"]
    held = open_encoder(Place(batch=9), model=str(encoder), layer=-1, backend="auto", revision="", half=False)
    held([*some, "the"])
    held._kept["dog"].vectors[1] = np.inf
    result = scorer(BERTSCORE, encoder, Place(batch=9)).score(texts(some, [["the"]], item=[0] * 3))
    assert np.isfinite(result.values[[0, 2]]).all()
    assert np.isnan(result.values[1]).all()
    assert result.why == {1: NO_VECTOR}


def test_precision_and_recall_of_different_signs() -> None:
    p, r = np.array([[0.5, 0.0, -0.2, 0.4]]), np.array([[-0.4, 0.0, -0.2, 0.6]])
    np.testing.assert_allclose(bertscore._compute_measure(p, r, "f"), [[np.nan, 0, -0.2, 0.48]])
    weighted = bertscore.TokenVectors(np.ones((1, 1), dtype=np.float32), np.ones(1))
    assert bertscore._reason(weighted, [weighted]) == NO_MEAN
