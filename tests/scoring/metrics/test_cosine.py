"""Cosine similarity compared with its definition, and invariances."""

from pathlib import Path

import numpy as np
import pytest

from custodes.errors import OptionError
from custodes.scoring.encoder.encoder import open_encoder
from custodes.scoring.metric import Place
from custodes.scoring.metrics.cosine import COSINES, NO_VECTOR, NOTHING
from tests.scoring.encoders import scorer, sentences
from tests.scoring.made import texts

COSINE, OF_SOURCE = COSINES


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_it_is_as_defined(encoder: Path, pooling: str) -> None:
    outputs, references, sources = sentences(6), [sentences(2, seed=1), sentences(3, seed=2)], sentences(2, seed=3)
    item = [0, 0, 0, 1, 1, 1]
    held = open_encoder(Place(), model=str(encoder), layer=-1, backend="auto", revision="", half=False)
    every = held([*outputs, *sources, *(text for reference in references for text in reference)])
    pooled = {
        text: value.vectors.mean(axis=0) if pooling == "mean" else value.vectors[0] for text, value in every.items()
    }

    def cosine(first: str, second: str) -> float:
        return float(pooled[first] @ pooled[second] / np.linalg.norm(pooled[first]) / np.linalg.norm(pooled[second]))

    inputs = texts(outputs, references, item=item, sources=sources)
    result = scorer(COSINE, encoder, pooling=pooling).score(inputs)
    expected = np.full((6, 3), np.nan)
    for row, of in enumerate(item):
        expected[row, : len(references[of])] = [cosine(outputs[row], text) for text in references[of]]
    np.testing.assert_allclose(result.values, expected, atol=1e-6)
    result = scorer(OF_SOURCE, encoder, pooling=pooling).score(inputs)
    expected = np.array([[cosine(outputs[row], sources[of])] for row, of in enumerate(item)])
    np.testing.assert_allclose(result.values, expected, atol=1e-6)
    assert not result.why


def test_identical_texts_have_one_and_empty_ones_a_number(encoder: Path) -> None:
    result = scorer(COSINE, encoder).score(texts(["the cat", " the cat ", ""], [["the cat"]] * 3))
    np.testing.assert_allclose(result.values[:2], 1, atol=1e-6)
    assert (result.values <= 1).all()
    assert -1 <= result.values[2, 0] < 1  # the vector of an empty text


def test_without_something_to_compare_with(encoder: Path) -> None:
    inputs = texts(["the cat", "dog"], [["", "a"], ["x"]], sources=[" ", "dog"])
    result = scorer(COSINE, encoder).score(inputs)
    assert result.why == {0: NOTHING["references"]}
    assert np.isnan(result.values[0]).all()
    result = scorer(OF_SOURCE, encoder).score(inputs)
    assert result.why == {0: NOTHING["source"]}
    np.testing.assert_allclose(result.values[:, 0], [np.nan, 1], atol=1e-6)


def test_it_tells_of_what_is_cut_and_of_no_numbers(encoder: Path) -> None:
    longer = "cat " * 40
    result = scorer(OF_SOURCE, encoder).score(texts(["a", "b", longer], sources=["x", longer, "x"]))
    assert result.truncated is not None
    assert result.truncated.tolist() == [False, True, True]
    held = open_encoder(Place(batch=11), model=str(encoder), layer=-1, backend="auto", revision="", half=False)
    held(["the cat"])["the cat"].vectors[0] = np.nan
    result = scorer(OF_SOURCE, encoder, Place(batch=11)).score(texts(["the cat", "b"], sources=["x", "x"]))
    assert result.why == {0: NO_VECTOR}
    assert np.isfinite(result.values[1, 0])


def test_parameters(encoder: Path) -> None:
    assert len({scorer(metric, encoder, pooling=name).signature for metric in COSINES for name in ("mean", "cls")}) == 4
    with pytest.raises(OptionError, match="pooling='max'; allowed: mean, cls"):
        scorer(COSINE, encoder, pooling="max")
