"""CIDEr-D (Vedantam et al. 2015, section 5).

An n-gram has more weight if fewer items have references that contain the n-gram.
"""

from __future__ import annotations

from collections import Counter, defaultdict
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
    tokenizer = TOKENIZERS[check_one_of("tokenize", tokenize, TOKENIZERS)]
    return Scorer(
        signature=metric_signature("custodes", "cider", {"tokenize": tokenize}),
        traits=CIDER.traits,
        score=lambda texts: _score(texts, tokenizer),
    )


def _score(texts: MetricInputs, tokenizer: Callable[[str], list[str]]) -> MetricResult:
    score_matrix = np.full((len(texts.outputs), 1), np.nan)
    n_items = len(texts.references)
    if n_items == 1:
        return MetricResult(values=score_matrix, why=dict.fromkeys(range(len(texts.outputs)), ONE_ITEM))
    reference_counts_of_item = [
        [_counts(reference, tokenizer) for reference in item_references] for item_references in texts.references
    ]
    n_documents_of_gram: Counter[Gram] = Counter()
    for item_reference_counts in reference_counts_of_item:
        n_documents_of_gram.update(
            {gram for text_counts in item_reference_counts for order_counts in text_counts for gram in order_counts}
        )
    # An n-gram in no reference has the weight log(n_items), as if one item contained the n-gram.
    weight_of_gram = defaultdict(
        lambda: log(n_items), {gram: log(n_items / n_documents) for gram, n_documents in n_documents_of_gram.items()}
    )
    for item_index, output_indices in by_item(texts):
        score_matrix[output_indices, 0] = _similarity(
            [_counts(texts.outputs[output_index], tokenizer) for output_index in output_indices.tolist()],
            reference_counts_of_item[item_index],
            weight_of_gram,
        )
    return MetricResult(values=score_matrix)


def _counts(text: str, tokenizer: Callable[[str], list[str]]) -> Counts:
    tokens = tokenizer(text)
    return [ngrams(tokens, n) for n in ORDERS]


def _similarity(
    counts_of_outputs: list[Counts],
    counts_of_references: list[Counts],
    weight_of_gram: Mapping[Gram, float],
) -> Floats:
    """Return the similarity (outputs,): the mean of clipped cosines over references and orders, with a penalty for
    different lengths."""
    # As in the authors' code, the length of a text is its number of bigrams, which is its number of words minus one.
    output_lengths, reference_lengths = (
        np.array([text_counts[1].total() for text_counts in counts_of_texts], dtype=float)
        for counts_of_texts in (counts_of_outputs, counts_of_references)
    )
    length_penalties = np.exp(-((output_lengths[:, None] - reference_lengths) ** 2) / (2 * SIGMA**2))
    similarity_sums = np.zeros(length_penalties.shape)
    for order_index in range(len(ORDERS)):
        order_reference_counts, order_output_counts = (
            [text_counts[order_index] for text_counts in counts_of_texts]
            for counts_of_texts in (counts_of_references, counts_of_outputs)
        )
        distinct_grams = dict.fromkeys(gram for gram_counts in order_reference_counts for gram in gram_counts)
        column_of_gram = {gram: column_index for column_index, gram in enumerate(distinct_grams)}
        gram_weights = np.array([weight_of_gram[gram] for gram in distinct_grams])
        weighted_reference_counts, weighted_output_counts = (
            _vectors(text_gram_counts, column_of_gram) * gram_weights
            for text_gram_counts in (order_reference_counts, order_output_counts)
        )
        squared_output_norms = [
            sum((n_occurrences * weight_of_gram[gram]) ** 2 for gram, n_occurrences in gram_counts.items())
            for gram_counts in order_output_counts
        ]
        norm_products = np.sqrt(np.outer(squared_output_norms, (weighted_reference_counts**2).sum(axis=1)))
        clipped_products = np.stack(
            [
                np.minimum(weighted_output_counts, reference_row) @ reference_row
                for reference_row in weighted_reference_counts
            ],
            axis=1,
        )
        similarity_sums += np.divide(
            clipped_products, norm_products, out=np.zeros(length_penalties.shape), where=norm_products > 0
        )
    return np.asarray(SCALE * (similarity_sums * length_penalties).mean(axis=1) / len(ORDERS))


def _vectors(counts_of_texts: Sequence[Counter[Gram]], column_of_gram: Mapping[Gram, int]) -> Floats:
    """Return how often each text has each n-gram of `column_of_gram`, as an array (texts, n-grams)."""
    count_matrix = np.zeros((len(counts_of_texts), len(column_of_gram)))
    for text_index, gram_counts in enumerate(counts_of_texts):
        for gram in gram_counts.keys() & column_of_gram.keys():
            count_matrix[text_index, column_of_gram[gram]] = gram_counts[gram]
    return count_matrix


CIDER = Metric(
    name="cider",
    gives=(
        "CIDEr-D: similarity of the n-grams of output and references. N-grams that are rare among all items have "
        "more weight, so a score depends on all items."
    ),
    source="Vedantam et al. 2015",
    load=_load,
    traits=Traits(needs=("references",), rules=("all",), low=0.0, high=10.0, whole=True),
    parameters={"tokenize": "words"},
)
