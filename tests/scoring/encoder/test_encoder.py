"""Text vectors: each text is encoded once, independent of its batch, in bounded memory."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from custodes.errors import InputError, OptionError
from custodes.scoring.encoder import encoder as module
from custodes.scoring.encoder.encoder import Encoder, iter_item_groups, open_encoder
from custodes.scoring.encoder.with_onnx import OnnxModel, threads
from custodes.scoring.metric import Place
from custodes.scoring.metrics.bertscore import BERTSCORE
from tests.scoring.encoders import WIDTH, onnx_model, scorer, sentences, tokenizer
from tests.scoring.made import texts


def encoder_of(folder: Path, *, batch: int = 32, layer: int = -1, backend: str = "auto") -> Encoder:
    return open_encoder(Place(batch=batch), model=str(folder), layer=layer, backend=backend, revision="", half=False)


def test_a_vector_depends_on_no_other_text(encoder: Path) -> None:
    some = sentences(48)
    alone = [encoder_of(encoder, batch=1)([text])[text].vectors for text in some]
    for batch in (1, 2, 7, 48):
        result = encoder_of(encoder, batch=batch)(some)
        for text, vectors in zip(some, alone, strict=True):
            assert result[text].vectors.shape == (len(result[text].tokens.ids), WIDTH)
            np.testing.assert_allclose(result[text].vectors, vectors, atol=1e-6)


def test_scales_of_a_batch_are_those_of_a_text(tmp_path: Path) -> None:
    """Dynamically quantised models compute one scale per batch, so each text has a separate batch."""
    tokenizer(tmp_path, limit=24)
    onnx_model(tmp_path / "model.onnx", scaled=True)
    some = sentences(20)
    together = encoder_of(tmp_path, batch=20)
    alone = {text: encoder_of(tmp_path, batch=1)([text])[text].vectors for text in some}
    for text, encoded in together(some).items():
        np.testing.assert_array_equal(encoded.vectors, alone[text])
    together._batch, together._kept = 20, type(together._kept)()  # as for a model that is not quantised
    assert max(np.abs(value.vectors - alone[text]).max() for text, value in together(some).items()) > 1e-3


def test_each_text_is_encoded_once(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    run = OnnxModel.__call__
    monkeypatch.setattr(OnnxModel, "__call__", lambda model, *rows: (seen.append(len(rows[0])), run(model, *rows))[1])
    held = encoder_of(encoder, batch=8)
    some = list(dict.fromkeys(sentences(30)))
    first = held([*some, *some])
    again = held(some[::-1])
    assert sum(seen) == len(some)
    assert all(again[text] is first[text] for text in some)
    assert encoder_of(encoder, batch=8) is held  # shared with other metrics of this model


def test_a_metric_costs_what_it_takes_alone(encoder: Path) -> None:
    """The second metric of a shared model reports the full cost, including the first one's encoding."""
    some = texts(sentences(30), [sentences(2, seed=1)], item=[0] * 30)
    first, second = (scorer(BERTSCORE, encoder, Place(batch=13), measure=name) for name in ("f", "recall"))
    assert first.score(some).seconds == 0
    held = encoder_of(encoder, batch=13)
    paid = sum(held._kept[text].seconds for text in {*some.outputs, *some.references[0]})
    assert paid > 0
    assert second.score(some).seconds == pytest.approx(paid)


def test_an_encoder_that_nobody_uses_is_gone(encoder: Path) -> None:
    held = encoder_of(encoder, batch=3)
    assert len(module._OPEN) >= 1
    before = len(module._OPEN)
    del held
    assert len(module._OPEN) == before - 1


def test_memory_is_bounded(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 40 * WIDTH * 4)  # bytes for 40 tokens
    held = encoder_of(encoder, batch=4)
    some = list(dict.fromkeys(sentences(40)))
    result = held(some)
    assert set(result) == set(some)
    size = sum(value.vectors.nbytes for value in held._kept.values())
    assert size == held._bytes <= module.KEPT
    for text, entry in held(some[:5]).items():
        np.testing.assert_allclose(entry.vectors, result[text].vectors, atol=1e-6)


def test_a_batch_of_long_texts_is_smaller(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, ...]] = []
    run = OnnxModel.__call__
    monkeypatch.setattr(
        OnnxModel, "__call__", lambda model, *rows: (shapes.append(rows[0].shape), run(model, *rows))[1]
    )
    monkeypatch.setattr(module, "LONG", 6)
    held = encoder_of(encoder, batch=5)
    held(f"{'the ' * length}{word}" for length in (1, 16) for word in "abcdefghi")
    assert {rows for rows, length in shapes if length > 6} == {1}
    assert max(rows for rows, length in shapes if length <= 6) == 5


def test_outputs_come_in_parts_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART", 8)
    inputs = texts(["aaaa", "bb", "aaaa", "cccccccccc", "d"], item=[1, 0, 1, 2, 0])
    results = list(iter_item_groups(inputs, [["xx"], ["yy"], ["zz"]]))
    assert results == [{0: [1, 4]}, {1: [0, 2]}, {2: [3]}]


def test_long_texts_are_cut_and_counted(encoder: Path) -> None:
    held = encoder_of(encoder)
    fits, longer = "cat " * 22, "cat " * 23
    result = held([fits, longer])
    assert [result[text].tokens.cut for text in (fits, longer)] == [False, True]
    assert [len(result[text].tokens.ids) for text in (fits, longer)] == [24, 24]
    assert result[longer].tokens.ids[-1] == 3  # [SEP] is the last token


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"max_position_embeddings": 20}, 20),
        ({"max_position_embeddings": 20, "model_type": "roberta", "pad_token_id": 1}, 18),
        ({"n_positions": 12}, 12),
    ],
)
def test_the_limit_is_that_of_the_model(encoder: Path, tmp_path: Path, config: dict[str, object], limit: int) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).write_bytes((encoder / name).read_bytes())
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(config))
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 1e30, "cls_token": "[CLS]"}')
    assert encoder_of(tmp_path).tokenizer.limit == limit


def test_without_a_limit_too_long_a_text_is_one_line(tmp_path: Path) -> None:
    tokenizer(tmp_path, limit=None)
    onnx_model(tmp_path / "model.onnx", limit=10)
    held = encoder_of(tmp_path)
    assert held.tokenizer.limit is None
    assert held.tokenizer.weightless == {2, 3}  # their names are in no file
    with pytest.raises(InputError, match=r"onnxruntime cannot run the model on 1 texts of 52 tokens"):
        held(["cat " * 50])


def test_a_first_word_is_one_like_others_for_roberta(tmp_path: Path) -> None:
    """The tokenizer adds a space before the text, as in the training of the models and in bert-score."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    from custodes.scoring.encoder.files import find_model_files
    from custodes.scoring.encoder.tokens import tokenizer_of

    onnx_model(tmp_path / "model.onnx")
    letters = models.BPE({name: at for at, name in enumerate(["a", "b", "Ġ"])}, [])
    byte_pairs = Tokenizer(letters)
    byte_pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_pairs.save(str(tmp_path / "tokenizer.json"))
    for kind, ids in (("roberta", [2, 0, 2, 1]), ("modernbert", [0, 2, 1])):
        (tmp_path / "config.json").write_text(f'{{"model_type": "{kind}"}}')
        (encoding,) = tokenizer_of(find_model_files(str(tmp_path), "auto", ""))([" a b\n"])
        assert encoding.ids.tolist() == ids


def test_layers(encoder: Path) -> None:
    some = sentences(4)
    last, first = (encoder_of(encoder, layer=layer)(some) for layer in (-1, 1))
    assert np.abs(last[some[0]].vectors - first[some[0]].vectors).max() > 0.1
    with pytest.raises(InputError, match=r"no output with one vector per token for layer=2 .* backend=transformers"):
        encoder_of(encoder, layer=2)
    with pytest.raises(
        OptionError, match=r"layer=-2 is not allowed; give 0 for the embeddings, 1 for the first layer, and so on"
    ):
        encoder_of(encoder, layer=-2)


def test_threads_are_those_of_products() -> None:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        assert threads() == 1
    assert threads() >= 1
