"""BERTScore with any encoder: tokens of output and reference are matched by the cosine of contextual embeddings."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from math import log
from pathlib import Path
from typing import NamedTuple

import numpy as np

from custodes.arguments import check_one_of
from custodes.errors import InputError, OptionError, short_repr
from custodes.scoring.encoder.encoder import (
    PARAMETERS,
    Encoder,
    TextEmbeddings,
    compare_items,
    open_encoder,
    unit_vectors,
)
from custodes.scoring.encoder.files import Vectors
from custodes.scoring.metric import Metric, MetricInputs, MetricResult, Place, Scorer, Traits
from custodes.stats.arrays import Floats, Ints

MEASURES = ("f", "precision", "recall")
COLUMNS = {"f": "F", "precision": "P", "recall": "R"}
"""Columns of a baseline file in the format of bert-score."""

NO_REFERENCE = "a reference of the item is empty"
NO_WEIGHT = "all tokens of the output or of a reference have weight 0, because they occur in every reference"
NO_VECTOR = "the model returned no vector of finite numbers for the output or a reference"
NO_MEAN = "precision and recall have different signs, so there is no harmonic mean"

TRAITS = Traits(needs=("references",), rules=("best", "first", "mean"), low=-1.0, high=1.0)

Weigh = Callable[[Ints], Floats]


class TokenVectors(NamedTuple):
    """A text: `units` (tokens, width) are embeddings scaled to length 1, `weights` (tokens,) the weights of tokens."""

    units: Vectors
    weights: Floats


def load(
    place: Place,
    *,
    model: str,
    layer: int,
    measure: str,
    idf: bool,
    baseline: str,
    backend: str,
    revision: str,
    half: bool,
) -> Scorer:
    """Return BERTScore by the encoder `model`, which is shared with other metrics that use this model."""
    check_one_of("measure", measure, MEASURES)
    if baseline and layer < 0:
        raise OptionError("baseline needs layer=N, which selects the row of the baseline file")
    baseline_score, baseline_digest = _baseline(baseline, layer, measure) if baseline else (0.0, "no")
    encoders = [open_encoder(place, model=model, layer=layer, backend=backend, revision=revision, half=half)]

    def score(texts: MetricInputs) -> MetricResult:
        unscaled_result = compare_items(
            encoders[0],
            texts,
            texts.references,
            partial(
                _compare,
                measure=measure,
                weigh=_inverse_document_frequencies(encoders[0], texts) if idf else _uniform_weights(encoders[0]),
            ),
        )
        return replace(unscaled_result, values=(unscaled_result.values - baseline_score) / (1 - baseline_score))

    return Scorer(
        signature=(
            f"bertscore+measure:{measure}+idf:{'yes' if idf else 'no'}"
            f"+baseline:{baseline_digest}+{encoders[0].signature}"
        ),
        traits=replace(TRAITS, whole=idf, low=None if baseline else TRAITS.low),
        score=score,
        close=encoders.clear,
    )


def _compare(
    outputs: Sequence[TextEmbeddings], references: Sequence[TextEmbeddings], *, measure: str, weigh: Weigh
) -> tuple[Floats, dict[int, str]]:
    """Return the scores (outputs, references) of an item, and the reasons of missing scores."""
    score_matrix = np.full((len(outputs), len(references)), np.nan)
    if any(text_embeddings.tokens.empty for text_embeddings in references):
        return score_matrix, dict.fromkeys(range(len(outputs)), NO_REFERENCE)
    score_matrix[:] = 0.0  # empty outputs score 0, as in bert-score
    reference_token_vectors = [_weight_tokens(text_embeddings, weigh) for text_embeddings in references]
    reason_of_output = {}
    for output_index, text_embeddings in enumerate(outputs):
        if not text_embeddings.tokens.empty:
            output_token_vectors = _weight_tokens(text_embeddings, weigh)
            precisions, recalls = np.clip(
                [precision_recall(output_token_vectors, token_vectors) for token_vectors in reference_token_vectors],
                -1,
                1,
            ).T
            score_matrix[output_index] = _compute_measure(precisions, recalls, measure)
            if np.isnan(score_matrix[output_index]).any():
                reason_of_output[output_index] = _reason(output_token_vectors, reference_token_vectors)
    return score_matrix, reason_of_output


def precision_recall(output: TokenVectors, reference: TokenVectors) -> tuple[float, float]:
    """Return the precision and recall of an output by greedy matching.

    For precision, each token of the output is matched with the token of the reference that has the largest cosine, and
    the cosines are averaged by the weights of the output's tokens. For recall, output and reference are swapped. The
    result is NaN if all tokens of a text have weight 0.
    """
    similarity_matrix = (output.units @ reference.units.T).astype(float)
    with np.errstate(invalid="ignore"):
        output_weights, reference_weights = (
            token_vectors.weights / token_vectors.weights.sum() for token_vectors in (output, reference)
        )
    return float(similarity_matrix.max(axis=1) @ output_weights), float(
        similarity_matrix.max(axis=0) @ reference_weights
    )


def _reason(output: TokenVectors, references: Sequence[TokenVectors]) -> str:
    """Return the reason why an output has no score."""
    if not all(np.isfinite(token_vectors.units).all() for token_vectors in (output, *references)):
        return NO_VECTOR
    return NO_MEAN if all(token_vectors.weights.any() for token_vectors in (output, *references)) else NO_WEIGHT


def _compute_measure(precisions: Floats, recalls: Floats, measure: str) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        f_scores = 2 * precisions * recalls / (precisions + recalls)
    f_scores[(precisions == 0) & (recalls == 0)] = 0.0
    f_scores[precisions * recalls < 0] = np.nan
    return {"f": f_scores, "precision": precisions, "recall": recalls}[measure]


def _weight_tokens(embeddings: TextEmbeddings, weigh: Weigh) -> TokenVectors:
    return TokenVectors(unit_vectors(embeddings.vectors), weigh(embeddings.tokens.ids))


def _uniform_weights(encoder: Encoder) -> Weigh:
    """Return a function that gives weight 0 to tokens that begin or separate texts, and weight 1 to all other
    tokens."""
    weightless_token_ids = sorted(encoder.tokenizer.weightless)
    return lambda ids: (~np.isin(ids, weightless_token_ids)).astype(float)


def _inverse_document_frequencies(encoder: Encoder, texts: MetricInputs) -> Weigh:
    """Return a function that weights tokens by their inverse document frequency.

    The weight is log((N + 1) / (n + 1)) for a token that occurs in n of the N references of all scored items.
    """
    reference_texts = [
        reference for item_index in np.unique(texts.item).tolist() for reference in texts.references[item_index]
    ]
    n_references_with_token = Counter(
        token_id for tokens in encoder.tokenizer(reference_texts) for token_id in set(tokens.ids.tolist())
    )
    return lambda ids: np.array(
        [log((len(reference_texts) + 1) / (n_references_with_token[token_id] + 1)) for token_id in ids.tolist()]
    )


def _baseline(path_text: str, layer: int, measure: str) -> tuple[float, str]:
    """Return the baseline at a layer (the score of random pairs of texts), and a digest of the file.

    The file is a table LAYER,P,R,F as in bert-score.
    """
    try:
        file_bytes = Path(path_text).expanduser().read_bytes()
        baseline_rows = list(csv.DictReader(file_bytes.decode().splitlines()))
    except (OSError, ValueError) as problem:
        problem_text = getattr(problem, "strerror", None) or "it is not a text table"
        raise InputError(f"baseline={short_repr(path_text)}: {problem_text}") from None
    with suppress(KeyError, TypeError, ValueError):
        for baseline_row in baseline_rows:
            if baseline_row.get("LAYER") == str(layer) and -1 < float(baseline_row[COLUMNS[measure]]) < 1:
                return float(baseline_row[COLUMNS[measure]]), sha256(file_bytes).hexdigest()[:16]
    raise InputError(
        f"baseline={short_repr(path_text)}: no row of layer {layer} has a number between -1 and 1 in the column "
        f"{COLUMNS[measure]}; give a file with the columns LAYER,P,R,F"
    )


BERTSCORE = Metric(
    name="bertscore",
    gives=("Similarity of the tokens of output and reference, computed from contextual embeddings of an encoder."),
    source="Zhang et al. 2020, BERTScore; as bert-score 0.3.13",
    load=load,
    traits=TRAITS,
    parameters={**PARAMETERS, "measure": "f", "idf": False, "baseline": ""},
    extra="encode",
)
