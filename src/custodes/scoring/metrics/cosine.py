"""Cosine similarity between the embeddings of the output and of a reference or the source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from custodes.arguments import check_one_of
from custodes.scoring.encoder.encoder import PARAMETERS, TextEmbeddings, compare_items, open_encoder, unit_vectors
from custodes.scoring.metric import Metric, Need, Place, Scorer, Traits
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

    def pool(embeddings: TextEmbeddings) -> Floats:
        """Return the mean of all token embeddings, as in Sentence-Transformers, or the embedding of the first token,
        which represents the text in some models."""
        if not embeddings.vectors.size:
            return np.array([np.nan])
        return unit_vectors(
            (embeddings.vectors if pooling == "mean" else embeddings.vectors[:1]).mean(axis=0, dtype=float)
        )

    def compare(
        outputs: Sequence[TextEmbeddings], compared_embeddings: Sequence[TextEmbeddings]
    ) -> tuple[Floats, dict[int, str]]:
        cosines = np.full((len(outputs), len(compared_embeddings)), np.nan)
        if any(embeddings.tokens.empty for embeddings in compared_embeddings):
            return cosines, dict.fromkeys(range(len(outputs)), NOTHING[compared_input])
        compared_vectors = list(map(pool, compared_embeddings))
        for output_index, output_vector in enumerate(map(pool, outputs)):
            cosines[output_index] = [output_vector @ compared_vector for compared_vector in compared_vectors]
        unscored_output_indices = np.flatnonzero(np.isnan(cosines).any(axis=1)).tolist()
        cosines[unscored_output_indices] = np.nan
        return np.clip(cosines, -1, 1), dict.fromkeys(unscored_output_indices, NO_VECTOR)

    return Scorer(
        signature=f"cosine+of:{compared_input}+pooling:{pooling}+{encoders[0].signature}",
        traits=TRAITS[compared_input],
        score=lambda texts: compare_items(encoders[0], texts, texts.texts_to_compare(compared_input), compare),
        close=encoders.clear,
    )


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
