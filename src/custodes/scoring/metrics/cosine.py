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
    pool = _mean_token_vector if pooling == "mean" else _first_token_vector

    def compare(
        outputs: Sequence[TextEmbeddings], compared_embeddings: Sequence[TextEmbeddings]
    ) -> tuple[Floats, dict[int, str]]:
        compared_vectors = [None if embeddings.tokens.empty else pool(embeddings) for embeddings in compared_embeddings]
        vectors = [pool(embeddings) for embeddings in outputs]
        cosines = np.array(
            [
                [
                    np.nan if compared_vector is None else float(vector @ compared_vector)
                    for compared_vector in compared_vectors
                ]
                for vector in vectors
            ]
        )
        unscored_outputs = np.flatnonzero(np.isnan(cosines).any(axis=1)).tolist()
        cosines[unscored_outputs] = np.nan
        reason = (
            NOTHING[compared_input] if any(embeddings.tokens.empty for embeddings in compared_embeddings) else NO_VECTOR
        )
        return np.clip(cosines, -1, 1), dict.fromkeys(unscored_outputs, reason)

    def score(texts: MetricInputs) -> MetricResult:
        texts_of_items = texts.references if compared_input == "references" else [[source] for source in texts.sources]
        return compare_items(encoders[0], texts, texts_of_items, compare)

    return Scorer(
        signature=f"cosine+of:{compared_input}+pooling:{pooling}+{encoders[0].signature}",
        traits=TRAITS[compared_input],
        score=score,
        close=encoders.clear,
    )


def _mean_token_vector(embeddings: TextEmbeddings) -> Floats:
    """Return the mean of all token embeddings, including special tokens, as in Sentence-Transformers."""
    return _unit_vector(embeddings.vectors.mean(axis=0, dtype=float)) if embeddings.vectors.size else np.array([np.nan])


def _first_token_vector(embeddings: TextEmbeddings) -> Floats:
    """Return the embedding of the first token; some models were trained to represent a text by this token."""
    return _unit_vector(embeddings.vectors[0].astype(float)) if embeddings.vectors.size else np.array([np.nan])


def _unit_vector(vector: Floats) -> Floats:
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
