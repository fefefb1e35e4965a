"""Cosine similarity between the embeddings of the output and of a reference or the source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from custodes.arguments import check_one_of
from custodes.scoring.encoder.encoder import PARAMETERS, TextEmbeddings, compare_items, open_encoder
from custodes.scoring.metric import Metric, MetricInputs, MetricResult, Need, Place, Scorer, Traits
from custodes.stats.arrays import Floats

POOLINGS = ("mean", "cls")

NOTHING = {"references": "a reference of the item is empty", "source": "the item has no source"}
NO_VECTOR = "the model returned no vector of finite numbers for one of the texts"


def load(
    place: Place, *, compared_input: Need, model: str, layer: int, pooling: str, backend: str, revision: str, half: bool
) -> Scorer:
    """Return cosine similarities by the encoder `model`, which is shared with other metrics that use this model."""
    check_one_of("pooling", pooling, POOLINGS)
    encoders = [open_encoder(place, model=model, layer=layer, backend=backend, revision=revision, half=half)]
    pool = _mean if pooling == "mean" else _first

    def compare(
        outputs: Sequence[TextEmbeddings], other_texts: Sequence[TextEmbeddings]
    ) -> tuple[Floats, dict[int, str]]:
        other_vectors = [None if text.tokens.empty else pool(text) for text in other_texts]
        vectors = [pool(text) for text in outputs]
        values = np.array(
            [
                [np.nan if other_vector is None else float(vector @ other_vector) for other_vector in other_vectors]
                for vector in vectors
            ]
        )
        undefined_rows = np.flatnonzero(np.isnan(values).any(axis=1)).tolist()
        values[undefined_rows] = np.nan
        reason = NOTHING[compared_input] if any(text.tokens.empty for text in other_texts) else NO_VECTOR
        return np.clip(values, -1, 1), dict.fromkeys(undefined_rows, reason)

    def score(texts: MetricInputs) -> MetricResult:
        other_texts = texts.references if compared_input == "references" else [[source] for source in texts.sources]
        return compare_items(encoders[0], texts, other_texts, compare)

    return Scorer(
        signature=f"cosine+of:{compared_input}+pooling:{pooling}+{encoders[0].signature}",
        traits=TRAITS[compared_input],
        score=score,
        close=encoders.clear,
    )


def _mean(encoded: TextEmbeddings) -> Floats:
    """Return the mean of all token embeddings, including special tokens, as in Sentence-Transformers."""
    return _unit(encoded.vectors.mean(axis=0, dtype=float)) if encoded.vectors.size else np.array([np.nan])


def _first(encoded: TextEmbeddings) -> Floats:
    """Return the embedding of the first token; some models were trained to represent a text by this token."""
    return _unit(encoded.vectors[0].astype(float)) if encoded.vectors.size else np.array([np.nan])


def _unit(vector: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return vector / np.linalg.norm(vector)


TRAITS = {
    "references": Traits(needs=("references",), rules=("best", "first", "mean"), low=-1.0, high=1.0),
    "source": Traits(needs=("source",), low=-1.0, high=1.0),
}

_KINDS: tuple[tuple[str, Need, str], ...] = (
    ("cosine", "references", "the reference"),
    ("cosine-source", "source", "the source"),
)

COSINES = tuple(
    Metric(
        name=name,
        gives=f"Cosine similarity between an encoder's embeddings of the output and {input_text}.",
        source="Reimers and Gurevych 2019, Sentence-BERT",
        load=partial(load, compared_input=compared_input),
        traits=TRAITS[compared_input],
        parameters={**PARAMETERS, "pooling": "mean"},
        extra="encode",
    )
    for name, compared_input, input_text in _KINDS
)
