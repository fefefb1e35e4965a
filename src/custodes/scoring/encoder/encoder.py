"""Token embeddings of texts. Each distinct text is encoded only once, in batches of texts of similar length and with
limited memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

import numpy as np

from custodes.errors import OptionError, short_repr
from custodes.scoring.encoder.files import Device, Vectors, find_model_files
from custodes.scoring.encoder.tokens import TextTokenizer, Tokens, tokenizer_of
from custodes.scoring.metric import MetricInputs, MetricResult, Place
from custodes.stats.arrays import Floats, Ints

KEPT = 2**30
"""Maximum size of cached embeddings in bytes. The least recently used embeddings are removed first."""

PART = 500_000
"""Maximum number of characters of texts that are encoded before the texts are compared. This limits memory, but still
allows batches of texts of similar length."""

LONG = 512
"""Maximum number of tokens of the texts in a batch of the requested size. Batches of longer texts have fewer texts."""


class EncoderModel(Protocol):
    """A loaded model.

    `signature` names the library, its version, and options that change an embedding. `alone` is true if each text must
    be encoded alone, because in a batch its embedding would depend on the remaining texts.
    """

    signature: str
    alone: bool

    def __call__(self, ids: Ints, mask: Ints, kinds: Ints) -> Vectors:
        """Return the embeddings (texts, tokens, width) of token ids (texts, tokens); `mask` is 0 for padding."""
        ...


class TextEmbeddings(NamedTuple):
    """A text with its embeddings (tokens, width), its tokens, and the CPU seconds of its encoding."""

    vectors: Vectors
    tokens: Tokens
    seconds: float


class Encoder:
    """A model with its tokenizer and a cache of embeddings.

    `lent` are the CPU seconds of reused embeddings. They count as cost of the metric that reuses them, so that the cost
    of a metric does not depend on the order of the metrics that share the model.

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
        encoded: dict[str, TextEmbeddings] = {}
        new_texts = []
        for text in dict.fromkeys(texts):
            if text in self._kept:
                self._kept.move_to_end(text)
                encoded[text] = self._kept[text]
                self.lent += encoded[text].seconds
            else:
                new_texts.append(text)
        tokens = self.tokenizer(new_texts)
        # The longest texts come first, so that a lack of memory shows early. The last digits of an embedding depend on
        # its batch; texts of equal length are sorted, so that the order of the file does not change these digits.
        order = sorted(range(len(new_texts)), key=lambda position: (-len(tokens[position].ids), new_texts[position]))
        position = 0
        while position < len(order):
            length = len(tokens[order[position]].ids)
            batch = order[position : position + max(1, self._batch * LONG**2 // max(LONG, length) ** 2)]
            start = time.process_time()
            batch_vectors = self._vectors([tokens[index] for index in batch])
            seconds_per_text = (time.process_time() - start) / len(batch)
            for index, vectors in zip(batch, batch_vectors, strict=True):
                encoded[new_texts[index]] = TextEmbeddings(vectors, tokens[index], seconds_per_text)
                self._keep(new_texts[index], encoded[new_texts[index]])
            position += len(batch)
        return encoded

    def _vectors(self, batch_tokens: list[Tokens]) -> list[Vectors]:
        """Return the embeddings of a batch, without the embeddings of padding."""
        lengths = [len(tokens.ids) for tokens in batch_tokens]
        if max(lengths) == 0:
            return [np.empty((0, 0), dtype=np.float32) for _ in batch_tokens]
        mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
        padded_vectors = self._model(
            _rows([tokens.ids for tokens in batch_tokens], mask),
            mask,
            _rows([tokens.kinds for tokens in batch_tokens], mask),
        )
        return [row[:length].copy() for row, length in zip(padded_vectors, lengths, strict=True)]

    def _keep(self, text: str, encoded: TextEmbeddings) -> None:
        self._kept[text] = encoded
        self._bytes += encoded.vectors.nbytes
        while self._bytes > KEPT and len(self._kept) > 1:
            _, removed_text = self._kept.popitem(last=False)
            self._bytes -= removed_text.vectors.nbytes


def _rows(values: list[Ints], mask: Ints) -> Ints:
    rows = np.zeros_like(mask)
    rows[mask.astype(bool)] = np.concatenate(values)
    return rows


def iter_item_groups(texts: MetricInputs, texts_of_items: Sequence[Sequence[str]]) -> Iterator[dict[int, list[int]]]:
    """Yield the positions of outputs by item, in groups of items with at most `PART` characters, or of a single item.

    `texts_of_items` (items,) are further texts of each item to encode.
    """
    positions_of_item: dict[int, list[int]] = {}
    for position, item in enumerate(texts.item.tolist()):
        positions_of_item.setdefault(item, []).append(position)
    positions_in_group: dict[int, list[int]] = {}
    n_characters = 0
    for item, positions in positions_of_item.items():
        n_item_characters = sum(
            len(text) for text in {*texts_of_items[item], *(texts.outputs[position] for position in positions)}
        )
        if positions_in_group and n_characters + n_item_characters > PART:
            yield positions_in_group
            positions_in_group, n_characters = {}, 0
        positions_in_group[item] = positions
        n_characters += n_item_characters
    if positions_in_group:
        yield positions_in_group


Compare = Callable[[Sequence[TextEmbeddings], Sequence[TextEmbeddings]], tuple[Floats, Mapping[int, str]]]
"""Function that gets the distinct outputs and the distinct further texts of an item. It returns the scores (outputs,
texts), and the reasons of missing scores by position of the output."""


def compare_items(
    encoder: Encoder, texts: MetricInputs, texts_of_items: Sequence[Sequence[str]], compare: Compare
) -> MetricResult:
    """Compare each output with the texts of its item in `texts_of_items` (items,); the scores have one column per text.

    `compare` gets distinct texts in sorted order, because the last digits of sums may depend on the order.
    """
    lent_before = encoder.lent
    values = np.full((len(texts.outputs), max(map(len, texts_of_items), default=0)), np.nan)
    why, is_truncated = dict[int, str](), np.zeros(len(texts.outputs), dtype=bool)
    for item_group in iter_item_groups(texts, texts_of_items):
        encoded = encoder(
            text
            for item, positions in item_group.items()
            for text in (*texts_of_items[item], *(texts.outputs[i] for i in positions))
        )
        for item, positions in item_group.items():
            outputs = [texts.outputs[position] for position in positions]
            index_of_output, index_of_text = (
                {text: n for n, text in enumerate(sorted(set(compared_texts)))}
                for compared_texts in (outputs, texts_of_items[item])
            )
            scores, reasons = compare(
                [encoded[text] for text in index_of_output], [encoded[text] for text in index_of_text]
            )
            output_indices = [index_of_output[text] for text in outputs]
            values[positions, : len(texts_of_items[item])] = scores[
                np.ix_(output_indices, [index_of_text[text] for text in texts_of_items[item]])
            ]
            why |= {
                position: reasons[output_index]
                for position, output_index in zip(positions, output_indices, strict=True)
                if output_index in reasons
            }
            has_cut_text = any(encoded[text].tokens.cut for text in index_of_text)
            is_truncated[positions] = [has_cut_text or encoded[text].tokens.cut for text in outputs]
    return MetricResult(values=values, why=why, truncated=is_truncated, seconds=encoder.lent - lent_before)


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
    files = find_model_files(model, backend, revision)
    key = (files.digest, files.onnx is None, device, place.batch, layer, half)
    if key in _OPEN:
        return _OPEN[key]
    backend_model: EncoderModel
    if files.onnx is None:
        from custodes.scoring.encoder.with_transformers import TransformersModel, tokenizer_by_transformers

        backend_model = TransformersModel(files, device, layer, half=half)
        tokenizer = tokenizer_by_transformers(files)
    else:
        from custodes.scoring.encoder.with_onnx import OnnxModel

        if half:
            raise OptionError("half=true: an ONNX model has a fixed precision; use backend=transformers")
        tokenizer = tokenizer_of(files)
        backend_model = OnnxModel(files.onnx, files.name, device, layer)
    layer_name = "last" if layer < 0 else layer
    signature = f"model:{files.digest[:16]}+layer:{layer_name}+{backend_model.signature}+{tokenizer.signature}"
    encoder = Encoder(backend_model, tokenizer, batch=place.batch, signature=signature)
    _OPEN[key] = encoder
    return encoder


PARAMETERS: dict[str, Any] = {"model": "", "layer": -1, "backend": "auto", "revision": "", "half": False}
"""Parameters of every metric that uses an encoder, with their defaults."""
