"""BERTScore with any encoder: tokens of output and reference are matched by the cosine of contextual embeddings."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from math import log
from pathlib import Path
from typing import NamedTuple

import numpy as np

from custodes.arguments import check_one_of
from custodes.errors import InputError, OptionError, short_repr
from custodes.scoring.encoder.encoder import PARAMETERS, Encoder, TextEmbeddings, compare_items, open_encoder
from custodes.scoring.encoder.files import Vectors
from custodes.scoring.metric import Metric, MetricInputs, MetricResult, Place, Scorer, Traits
from custodes.stats.arrays import Floats, Ints

MEASURES = ("f", "precision", "recall")
COLUMNS = {"f": "F", "precision": "P", "recall": "R"}
"""Columns of a baseline file in the format of bert-score."""

NO_REFERENCE = "a reference of the item is empty"
NO_WEIGHT = "all tokens of a text have weight 0, because they occur in every reference"
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
    baseline_score, signature = _baseline(baseline, layer, measure) if baseline else (0.0, "no")
    encoders = [open_encoder(place, model=model, layer=layer, backend=backend, revision=revision, half=half)]

    def score(texts: MetricInputs) -> MetricResult:
        weigh = _frequencies(encoders[0], texts) if idf else _plain(encoders[0])
        result = compare_items(encoders[0], texts, texts.references, partial(_compare, measure=measure, weigh=weigh))
        return replace(result, values=(result.values - baseline_score) / (1 - baseline_score)) if baseline else result

    return Scorer(
        signature=(
            f"bertscore+measure:{measure}+idf:{'yes' if idf else 'no'}+baseline:{signature}+{encoders[0].signature}"
        ),
        traits=replace(TRAITS, whole=idf, low=None if baseline else TRAITS.low),
        score=score,
        close=encoders.clear,
    )


def _compare(
    outputs: Sequence[TextEmbeddings], references: Sequence[TextEmbeddings], *, measure: str, weigh: Weigh
) -> tuple[Floats, dict[int, str]]:
    """Return the scores (outputs, references) of an item, and the reasons of missing scores."""
    values = np.full((len(outputs), len(references)), np.nan)
    if any(text.tokens.empty for text in references):
        return values, dict.fromkeys(range(len(outputs)), NO_REFERENCE)
    values[:] = 0.0  # empty outputs score 0, as in bert-score
    weighted_texts = {row: _weight_tokens(text, weigh) for row, text in enumerate(outputs) if not text.tokens.empty}
    weighted_references = [_weight_tokens(text, weigh) for text in references]
    if weighted_texts:
        pairs = [
            [precision_recall(text, reference) for reference in weighted_references] for text in weighted_texts.values()
        ]
        precision, recall = np.moveaxis(np.clip(pairs, -1, 1), -1, 0)
        values[[*weighted_texts]] = _compute_measure(precision, recall, measure)
    undefined_rows = np.flatnonzero(np.isnan(values).any(axis=1)).tolist()
    return values, {row: _reason(weighted_texts[row], weighted_references) for row in undefined_rows}


def precision_recall(output: TokenVectors, reference: TokenVectors) -> tuple[float, float]:
    """Return the precision and recall of an output by greedy matching.

    For precision, each token of the output is matched with the token of the reference that has the largest cosine, and
    the cosines are averaged by the weights of the output's tokens. For recall, output and reference are swapped. The
    result is NaN if all tokens of a text have weight 0.
    """
    similarity = (output.units @ reference.units.T).astype(float)
    with np.errstate(invalid="ignore"):
        output_weights, reference_weights = (text.weights / text.weights.sum() for text in (output, reference))
    return float(similarity.max(axis=1) @ output_weights), float(similarity.max(axis=0) @ reference_weights)


def _reason(output: TokenVectors, references: Sequence[TokenVectors]) -> str:
    """Return the reason why an output has no score."""
    if not all(np.isfinite(text.units).all() for text in (output, *references)):
        return NO_VECTOR
    return NO_MEAN if output.weights.any() and all(text.weights.any() for text in references) else NO_WEIGHT


def _compute_measure(precision: Floats, recall: Floats, measure: str) -> Floats:
    if measure != "f":
        return precision if measure == "precision" else recall
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = 2 * precision * recall / (precision + recall)
    mean[(precision == 0) & (recall == 0)] = 0.0
    mean[precision * recall < 0] = np.nan
    return mean


def _weight_tokens(encoded: TextEmbeddings, weigh: Weigh) -> TokenVectors:
    vectors = encoded.vectors
    with np.errstate(divide="ignore", invalid="ignore"):
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return TokenVectors(units, weigh(encoded.tokens.ids))


def _plain(encoder: Encoder) -> Weigh:
    """Return a function that gives weight 0 to tokens that begin or separate texts, and weight 1 to others."""
    weightless = sorted(encoder.tokenizer.weightless)
    return lambda ids: (~np.isin(ids, weightless)).astype(float)


def _frequencies(encoder: Encoder, texts: MetricInputs) -> Weigh:
    """Return a function that weights tokens by their inverse document frequency.

    The weight is log((N + 1) / (n + 1)) for a token that occurs in n of the N references of all scored items.
    """
    references = [text for item in np.unique(texts.item).tolist() for text in texts.references[item]]
    n_references_with = Counter(token for tokens in encoder.tokenizer(references) for token in set(tokens.ids.tolist()))
    n_texts = len(references) + 1
    return lambda ids: np.array([log(n_texts / (n_references_with[token] + 1)) for token in ids.tolist()])


def _baseline(file: str, layer: int, measure: str) -> tuple[float, str]:
    """Return the baseline at a layer, which is the score of random pairs of texts, and a digest of the file.

    The file is a table LAYER,P,R,F as in bert-score.
    """
    try:
        content = Path(file).expanduser().read_bytes()
        rows = list(csv.DictReader(content.decode().splitlines()))
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not a text table"
        raise InputError(f"baseline={short_repr(file)}: {reason}") from None
    for row in rows:
        if row.get("LAYER") == str(layer):
            try:
                baseline_score = float(row[COLUMNS[measure]])
            except (KeyError, TypeError, ValueError):
                break
            if -1 < baseline_score < 1:
                return baseline_score, sha256(content).hexdigest()[:16]
    raise InputError(
        f"baseline={short_repr(file)}: no row of layer {layer} has a number between -1 and 1 in the column "
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
