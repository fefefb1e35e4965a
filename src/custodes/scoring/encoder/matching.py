"""Greedy matching of tokens: BERTScore of Zhang et al. 2020, for all outputs and references of an item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from custodes.scoring.encoder.backend import Vectors
from custodes.stats.arrays import Floats

TILE = 2**22
"""Maximum number of token similarities in memory."""


class Weighted(NamedTuple):
    """A text: embeddings (tokens, width) of length 1, and token weights."""

    units: Vectors
    weights: Floats


def matched(outputs: Sequence[Weighted], references: Sequence[Weighted]) -> tuple[Floats, Floats]:
    """Precision and recall (outputs, references); NaN if all tokens of the output, or of the reference, have weight 0.

    Precision is the weighted mean over the tokens of the output of the largest cosine with a token of the reference;
    recall is the same with the roles exchanged.
    """
    precision = np.full((len(outputs), len(references)), np.nan)
    recall = precision.copy()
    for rows in _runs(outputs, TILE // max(1, max(len(text.units) for text in references))):
        for columns in _runs(references, TILE // sum(len(text.units) for text in outputs[rows])):
            precision[rows, columns], recall[rows, columns] = _tile(outputs[rows], references[columns])
    return np.clip(precision, -1, 1), np.clip(recall, -1, 1)


def _tile(outputs: Sequence[Weighted], references: Sequence[Weighted]) -> tuple[Floats, Floats]:
    of_outputs, of_references = _weights(outputs), _weights(references)
    starts, columns = _starts(outputs), _starts(references)
    similarity = (
        np.concatenate([text.units for text in outputs]) @ np.concatenate([text.units for text in references]).T
    )
    best = np.maximum.reduceat(similarity, columns, axis=1).astype(float)  # (tokens of outputs, references)
    precision = np.add.reduceat(best * of_outputs[:, None], starts, axis=0)
    best = np.maximum.reduceat(similarity, starts, axis=0).astype(float)  # (outputs, tokens of references)
    recall = np.add.reduceat(best * of_references, columns, axis=1)
    return precision, recall


def _weights(texts: Sequence[Weighted]) -> Floats:
    """Weights of all tokens, normalised to sum 1 in each text; NaN if all are 0."""
    with np.errstate(invalid="ignore"):
        return np.concatenate([text.weights / text.weights.sum() for text in texts])


def _starts(texts: Sequence[Weighted]) -> list[int]:
    return [0, *np.cumsum([len(text.units) for text in texts[:-1]], dtype=int).tolist()]


def _runs(texts: Sequence[Weighted], tokens: int) -> Iterator[slice]:
    """Slices of consecutive texts with at most this number of tokens, at least one text each."""
    start, held = 0, 0
    for at, text in enumerate(texts):
        if at > start and held + len(text.units) > tokens:
            yield slice(start, at)
            start, held = at, 0
        held += len(text.units)
    if texts:
        yield slice(start, len(texts))
