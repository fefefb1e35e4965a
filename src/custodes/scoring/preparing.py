"""Helper functions for metrics without a model: grouping of texts by item, tokenizers, and signatures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np

from custodes.scoring.metric import MetricInputs, MetricResult
from custodes.stats.arrays import Ints

T = TypeVar("T")
WORD = re.compile(r"\w+")

TOKENIZERS: Mapping[str, Callable[[str], list[str]]] = {
    "words": lambda text: WORD.findall(text.casefold()),
    "space": str.split,
    "characters": lambda text: [letter for letter in text if not letter.isspace()],
}
"""Tokenizers by name. The tokens are runs of letters and digits in lower case, strings between spaces, or characters
that are not spaces."""


def ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    """Return the count of each n-gram in a text.

    >>> ngrams(["a", "b", "a", "b"], 2)[("a", "b")]
    2
    """
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))


def by_item(texts: MetricInputs) -> Iterator[tuple[int, Ints]]:
    """Yield each item with the positions of its outputs, so that the references of an item are prepared only once."""
    sorted_output_indices = np.argsort(texts.item, kind="stable")
    item_indices, first_positions = np.unique(texts.item[sorted_output_indices], return_index=True)
    yield from zip(item_indices.tolist(), np.split(sorted_output_indices, first_positions[1:]), strict=True)


def compare_texts(
    texts: MetricInputs,
    texts_of_items: Sequence[Sequence[str]],
    *,
    prepare: Callable[[str], T],
    compare: Callable[[T, T], float],
    undefined: str = "",
) -> MetricResult:
    """Compare each output with each text of its item in `texts_of_items`; every text is prepared only once.

    Parameters
    ----------
    texts : MetricInputs
        Outputs and their items.
    texts_of_items : sequence of sequences of str
        Texts of each item, such as its references.
    prepare : callable
        Function that converts a text to the form that is compared.
    compare : callable
        Function that returns the score of a prepared output and a prepared text of its item; NaN if it is undefined.
    undefined : str
        Reason that is given for an undefined score.

    Returns
    -------
    MetricResult
        Scores (outputs, texts of an item), with one column for each text of an item.
    """
    score_matrix = np.full((len(texts.outputs), max([1, *map(len, texts_of_items)])), np.nan)
    reason_of_output: dict[int, str] = {}
    for item_index, output_indices in by_item(texts):
        prepared_texts = [prepare(text) for text in texts_of_items[item_index]]
        for output_index in output_indices.tolist():
            prepared_output = prepare(texts.outputs[output_index])
            output_scores = [compare(prepared_output, prepared_text) for prepared_text in prepared_texts]
            if np.isnan(output_scores).any():
                reason_of_output[output_index] = undefined
            else:
                score_matrix[output_index, : len(output_scores)] = output_scores
    return MetricResult(values=score_matrix, why=reason_of_output)


def by_system(texts: MetricInputs, score: Callable[[list[int]], float]) -> MetricResult:
    """Return the score of each system; `score` computes the score of a system from the positions of the system's
    outputs."""
    return MetricResult(
        values=np.zeros((len(texts.outputs), 0)),
        systems=np.array(
            [score(np.flatnonzero(texts.system == system_index).tolist()) for system_index in np.unique(texts.system)]
        ),
    )


def metric_signature(package: str, metric: str, parameters: Mapping[str, Any]) -> str:
    """Return a signature with everything that can change a score: package and version, metric, and parameters.

    >>> metric_signature("numpy", "mean", {"trimmed": True}).split()[::2]
    ['numpy', 'mean']
    """
    parameters_text = " ".join(
        f"{parameter_name}={str(parameter_value).lower() if isinstance(parameter_value, bool) else parameter_value}"
        for parameter_name, parameter_value in parameters.items()
    )
    return f"{package} {version(package)} {metric} {parameters_text}".rstrip()
