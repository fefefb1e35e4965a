"""Token embeddings of texts. Each distinct text is encoded only once, in batches of texts of similar length and with
limited memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from custodes.errors import OptionError, short_repr
from custodes.scoring.encoder.files import Device, Vectors, find_model_files
from custodes.scoring.encoder.tokens import TextTokenizer, Tokens, tokenizer_of
from custodes.scoring.metric import MetricInputs, MetricResult, Place
from custodes.scoring.preparing import by_item
from custodes.stats.arrays import Floats, Ints

KEPT = 2**30
"""Maximum size of cached embeddings in bytes. The least recently used embeddings are removed first."""

PART = 500_000
"""Maximum number of characters of the texts that are encoded together before they are compared. The limit keeps the
memory small, but is large enough for batches of texts of similar length."""

LONG = 512
"""Maximum number of tokens per text for batches of the requested size. Batches of longer texts have fewer texts."""


class EncoderModel(Protocol):
    """A loaded model.

    `signature` names the library, its version, and options that change an embedding. `alone` is true if each text must
    be encoded alone, because in a batch its embedding would depend on the remaining texts.
    """

    signature: str
    alone: bool

    def __call__(self, token_ids: Ints, attention_mask: Ints, token_type_ids: Ints) -> Vectors:
        """Return the embeddings (texts, tokens, width) of token ids (texts, tokens); the mask is 0 for padding."""
        ...


class TextEmbeddings(NamedTuple):
    """A text with its embeddings (tokens, width), its tokens, and the CPU seconds of its encoding."""

    vectors: Vectors
    tokens: Tokens
    seconds: float


class Encoder:
    """A model with its tokenizer and a cache of embeddings.

    `lent` are the CPU seconds of reused embeddings. The CPU seconds of an embedding count as cost of every metric that
    uses the embedding. The cost of a metric therefore does not depend on the order of the metrics that share the model.

    """

    def __init__(self, model: EncoderModel, tokenizer: TextTokenizer, *, batch: int, signature: str) -> None:
        self._model = model
        self.tokenizer = tokenizer
        self._batch = 1 if model.alone else batch
        self.signature = signature
        self.lent = 0.0
        self._kept = OrderedDict[str, TextEmbeddings]()
        self._bytes = 0

    def __call__(self, texts: Iterable[str]) -> dict[str, TextEmbeddings]:
        """Return the embeddings of each distinct text."""
        embeddings_of_text: dict[str, TextEmbeddings] = {}
        new_texts = []
        for text in dict.fromkeys(texts):
            if text in self._kept:
                self._kept.move_to_end(text)
                embeddings_of_text[text] = self._kept[text]
                self.lent += embeddings_of_text[text].seconds
            else:
                new_texts.append(text)
        # The longest texts come first, so that a lack of memory shows early. The last digits of an embedding depend on
        # its batch; texts of equal length are sorted, so that the order of the file does not change these digits.
        remaining_texts_and_tokens = sorted(
            zip(new_texts, self.tokenizer(new_texts), strict=True), key=lambda pair: (-len(pair[1].ids), pair[0])
        )
        while remaining_texts_and_tokens:
            batch_size = max(1, self._batch * LONG**2 // max(LONG, len(remaining_texts_and_tokens[0][1].ids)) ** 2)
            batch_texts_and_tokens, remaining_texts_and_tokens = (
                remaining_texts_and_tokens[:batch_size],
                remaining_texts_and_tokens[batch_size:],
            )
            start_cpu_seconds = time.process_time()
            batch_vectors = self._vectors([tokens for _, tokens in batch_texts_and_tokens])
            seconds_per_text = (time.process_time() - start_cpu_seconds) / len(batch_texts_and_tokens)
            for (text, tokens), token_vectors in zip(batch_texts_and_tokens, batch_vectors, strict=True):
                embeddings_of_text[text] = self._kept[text] = TextEmbeddings(token_vectors, tokens, seconds_per_text)
                self._bytes += token_vectors.nbytes
                while self._bytes > KEPT and len(self._kept) > 1:
                    self._bytes -= self._kept.popitem(last=False)[1].vectors.nbytes
        return embeddings_of_text

    def _vectors(self, batch_tokens: list[Tokens]) -> list[Vectors]:
        """Return the embeddings of a batch, without the embeddings of padding."""
        n_tokens_of_text = np.array([len(tokens.ids) for tokens in batch_tokens])
        if not n_tokens_of_text.any():
            return [np.empty((0, 0), dtype=np.float32) for _ in batch_tokens]
        is_token = np.arange(n_tokens_of_text.max()) < n_tokens_of_text[:, None]
        token_ids, token_kinds = np.zeros((2, *is_token.shape), dtype=np.int64)
        token_ids[is_token] = np.concatenate([tokens.ids for tokens in batch_tokens])
        token_kinds[is_token] = np.concatenate([tokens.kinds for tokens in batch_tokens])
        return [
            vectors[:n_tokens].copy()
            for vectors, n_tokens in zip(
                self._model(token_ids, is_token.astype(np.int64), token_kinds), n_tokens_of_text, strict=True
            )
        ]


def iter_item_groups(texts: MetricInputs, texts_of_items: Sequence[Sequence[str]]) -> Iterator[dict[int, list[int]]]:
    """Yield the positions of outputs by item, in groups of items. A group has at most `PART` characters or a single
    item.

    `texts_of_items` (items,) are further texts of each item to encode.
    """
    output_indices_of_item: dict[int, list[int]] = {}
    n_characters = 0
    for item_index, output_indices in by_item(texts):
        n_item_characters = sum(
            map(
                len,
                (
                    {
                        *texts_of_items[item_index],
                        *(texts.outputs[output_index] for output_index in output_indices.tolist()),
                    }
                ),
            )
        )
        if output_indices_of_item and n_characters + n_item_characters > PART:
            yield output_indices_of_item
            output_indices_of_item, n_characters = {}, 0
        output_indices_of_item[item_index] = output_indices.tolist()
        n_characters += n_item_characters
    yield output_indices_of_item


def unit_vectors(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return vectors (..., width), scaled to length 1; a vector of zeros becomes NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


Compare = Callable[[Sequence[TextEmbeddings], Sequence[TextEmbeddings]], tuple[Floats, Mapping[int, str]]]
"""Function that gets the distinct outputs and the distinct further texts of an item. The function returns the scores
(outputs, texts), and the reasons of missing scores by position of the output."""


def compare_items(
    encoder: Encoder, texts: MetricInputs, texts_of_items: Sequence[Sequence[str]], compare: Compare
) -> MetricResult:
    """Compare each output with the texts of its item in `texts_of_items` (items,); the scores have one column per text.

    `compare` gets distinct texts in sorted order, because the last digits of sums may depend on the order.
    """
    lent_seconds_before = encoder.lent
    all_scores = np.full((len(texts.outputs), max(map(len, texts_of_items), default=0)), np.nan)
    reason_of_output, is_truncated = dict[int, str](), np.zeros(len(texts.outputs), dtype=bool)
    for output_indices_of_item in iter_item_groups(texts, texts_of_items):
        embeddings_of_text = encoder(
            text
            for item_index, output_indices in output_indices_of_item.items()
            for text in (*texts_of_items[item_index], *(texts.outputs[output_index] for output_index in output_indices))
        )
        for item_index, output_indices in output_indices_of_item.items():
            output_texts = [texts.outputs[output_index] for output_index in output_indices]
            index_of_output_text, index_of_compared_text = (
                {text: text_index for text_index, text in enumerate(sorted(set(compared_texts)))}
                for compared_texts in (output_texts, texts_of_items[item_index])
            )
            distinct_scores, reason_of_distinct_index = compare(
                [embeddings_of_text[text] for text in index_of_output_text],
                [embeddings_of_text[text] for text in index_of_compared_text],
            )
            distinct_text_indices = [index_of_output_text[text] for text in output_texts]
            all_scores[output_indices, : len(texts_of_items[item_index])] = distinct_scores[
                np.ix_(distinct_text_indices, [index_of_compared_text[text] for text in texts_of_items[item_index]])
            ]
            reason_of_output |= {
                output_index: reason_of_distinct_index[distinct_text_index]
                for output_index, distinct_text_index in zip(output_indices, distinct_text_indices, strict=True)
                if distinct_text_index in reason_of_distinct_index
            }
            has_cut_text = any(embeddings_of_text[text].tokens.cut for text in index_of_compared_text)
            is_truncated[output_indices] = [
                has_cut_text or embeddings_of_text[text].tokens.cut for text in output_texts
            ]
    return MetricResult(
        values=all_scores, why=reason_of_output, truncated=is_truncated, seconds=encoder.lent - lent_seconds_before
    )


_OPEN = WeakValueDictionary[tuple[object, ...], Encoder]()
"""Encoders that are in use, so that metrics with the same model share its embeddings."""


def open_encoder(place: Place, *, model: str, layer: int, backend: str, revision: str, half: bool) -> Encoder:
    """Return the encoder with the parameters of a metric; it is shared with other open metrics."""
    device = Device.from_name(place.device.partition(",")[0])  # several devices are only for workers
    if layer < -1:
        raise OptionError(
            f"layer={short_repr(layer)} is not allowed; give 0 for the embeddings, 1 for the first layer, and so on, "
            "or -1 for the last layer"
        )
    model_files = find_model_files(model, backend, revision)
    encoder_key = (model_files.digest, model_files.onnx is None, device, place.batch, layer, half)
    if encoder_key in _OPEN:
        return _OPEN[encoder_key]
    backend_model: EncoderModel
    if model_files.onnx is None:
        from custodes.scoring.encoder.with_transformers import TransformersModel, tokenizer_by_transformers

        backend_model = TransformersModel(model_files, device, layer, half=half)
        tokenizer = tokenizer_by_transformers(model_files)
    else:
        from custodes.scoring.encoder.with_onnx import OnnxModel

        if half:
            raise OptionError("half=true: an ONNX model has a fixed precision; use backend=transformers")
        tokenizer = tokenizer_of(model_files)
        backend_model = OnnxModel(model_files.onnx, model_files.name, device, layer)
    encoder = _OPEN[encoder_key] = Encoder(
        backend_model,
        tokenizer,
        batch=place.batch,
        signature=f"model:{model_files.digest[:16]}+layer:{'last' if layer < 0 else layer}"
        f"+{backend_model.signature}+{tokenizer.signature}",
    )
    return encoder


PARAMETERS: dict[str, Any] = {"model": "", "layer": -1, "backend": "auto", "revision": "", "half": False}
"""Parameters of every metric that uses an encoder, with their defaults."""
