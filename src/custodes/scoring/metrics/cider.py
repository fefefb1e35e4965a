"""CIDEr-D (Vedantam et al. 2015, section 5).

An n-gram has more weight if fewer items have references that contain the n-gram.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import log

import numpy as np

from custodes.arguments import check_one_of
from custodes.scoring.metric import Metric, MetricInputs, MetricResult, Place, Scorer, Traits
from custodes.scoring.preparing import TOKENIZERS, by_item, metric_signature, ngrams
from custodes.stats.arrays import Floats

ORDERS = (1, 2, 3, 4)
SIGMA = 6.0
SCALE = 10.0
ONE_ITEM = "the references of a single item give every word the weight 0; CIDEr needs several items"

Gram = tuple[str, ...]
Counts = list[Counter[Gram]]
"""Counts of the n-grams of one text, for each order n."""


def _load(place: Place, *, tokenize: str) -> Scorer:
    split = TOKENIZERS[check_one_of("tokenize", tokenize, TOKENIZERS)]
    return Scorer(
        signature=metric_signature("custodes", "cider", {"tokenize": tokenize}),
        traits=CIDER.traits,
        score=lambda texts: _score(texts, split),
    )


def _score(texts: MetricInputs, split: Callable[[str], list[str]]) -> MetricResult:
    values = np.full((len(texts.outputs), 1), np.nan)
    n_items = len(texts.references)
    if n_items == 1:
        return MetricResult(values=values, why=dict.fromkeys(range(len(texts.outputs)), ONE_ITEM))
    references = [[_counts(reference, split) for reference in item_references] for item_references in texts.references]
    document_counts: Counter[Gram] = Counter()
    for item_references in references:
        document_counts.update({gram for counts in item_references for order_counts in counts for gram in order_counts})
    weights = {gram: log(n_items / count) for gram, count in document_counts.items()}
    default_weight = log(n_items)  # weight of an n-gram in no reference, as if one item contained the n-gram
    for item, rows in by_item(texts):
        outputs = [_counts(texts.outputs[row], split) for row in rows.tolist()]
        values[rows, 0] = _similarity(outputs, references[item], weights, default_weight)
    return MetricResult(values=values)


def _counts(text: str, split: Callable[[str], list[str]]) -> Counts:
    tokens = split(text)
    return [ngrams(tokens, n) for n in ORDERS]


def _similarity(
    outputs: list[Counts], references: list[Counts], weights: Mapping[Gram, float], default_weight: float
) -> Floats:
    """Return the similarity (outputs,): the mean of clipped cosines over references and orders, with a penalty for
    different lengths."""
    # As in the authors' code, the length of a text is its number of bigrams, which is its number of words minus one.
    output_lengths, reference_lengths = (
        np.array([counts[1].total() for counts in texts], dtype=float) for texts in (outputs, references)
    )
    penalty = np.exp(-((output_lengths[:, None] - reference_lengths) ** 2) / (2 * SIGMA**2))
    similarity_sum = np.zeros(penalty.shape)
    for order in range(len(ORDERS)):
        reference_counts, output_counts = ([counts[order] for counts in texts] for texts in (references, outputs))
        column_of_gram = {
            gram: column
            for column, gram in enumerate(dict.fromkeys(gram for counts in reference_counts for gram in counts))
        }
        gram_weights = np.array([weights[gram] for gram in column_of_gram])
        weighted_references, weighted_outputs = (
            _vectors(reference_counts, column_of_gram) * gram_weights,
            _vectors(output_counts, column_of_gram) * gram_weights,
        )
        squared_norms = [
            sum((count * weights.get(gram, default_weight)) ** 2 for gram, count in counts.items())
            for counts in output_counts
        ]
        norms = np.sqrt(np.outer(squared_norms, (weighted_references**2).sum(axis=1)))
        products = np.stack(
            [np.minimum(weighted_outputs, reference) @ reference for reference in weighted_references], axis=1
        )
        similarity_sum += np.divide(products, norms, out=np.zeros(penalty.shape), where=norms > 0)
    return np.asarray(SCALE * (similarity_sum * penalty).mean(axis=1) / len(ORDERS))


def _vectors(texts: Sequence[Counter[Gram]], columns: Mapping[Gram, int]) -> Floats:
    """Return how often each text has each n-gram of `columns`, as an array (texts, n-grams)."""
    counts = np.zeros((len(texts), len(columns)))
    for row, text in enumerate(texts):
        for gram in text.keys() & columns.keys():
            counts[row, columns[gram]] = text[gram]
    return counts


CIDER = Metric(
    name="cider",
    gives=(
        "CIDEr-D: similarity of the n-grams of output and references; n-grams that are rare among all items have more "
        "weight, so a score depends on all items."
    ),
    source="Vedantam et al. 2015",
    load=_load,
    traits=Traits(needs=("references",), rules=("all",), low=0.0, high=10.0, whole=True),
    parameters={"tokenize": "words"},
)
