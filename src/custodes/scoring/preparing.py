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
    order = np.argsort(texts.item, kind="stable")
    items, first_positions = np.unique(texts.item[order], return_index=True)
    yield from zip(items.tolist(), np.split(order, first_positions[1:]), strict=True)


def compare_texts(
    texts: MetricInputs,
    others: Sequence[Sequence[str]],
    *,
    prepare: Callable[[str], T],
    compare: Callable[[T, T], float],
    undefined: str = "",
) -> MetricResult:
    """Compare each output with each text of its item in `others`; every text is prepared only once.

    Parameters
    ----------
    texts : MetricInputs
        Outputs and their items.
    others : sequence of sequences of str
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
    n_columns = max((len(others[item]) for item in np.unique(texts.item).tolist()), default=0)
    values = np.full((len(texts.outputs), max(1, n_columns)), np.nan)
    why: dict[int, str] = {}
    for item, rows in by_item(texts):
        prepared_texts = [prepare(text) for text in others[item]]
        for row in rows.tolist():
            output = prepare(texts.outputs[row])
            values[row, : len(prepared_texts)] = [compare(output, prepared_text) for prepared_text in prepared_texts]
            if np.isnan(values[row, : len(prepared_texts)]).any():
                values[row], why[row] = np.nan, undefined
    return MetricResult(values=values, why=why)


def by_system(texts: MetricInputs, score: Callable[[list[int]], float]) -> MetricResult:
    """Return the score of each system; `score` computes it from the positions of the system's outputs."""
    system_scores = [
        score(np.flatnonzero(texts.system == system).tolist()) for system in np.unique(texts.system).tolist()
    ]
    return MetricResult(values=np.zeros((len(texts.outputs), 0)), systems=np.array(system_scores))


def metric_signature(package: str, metric: str, parameters: Mapping[str, Any]) -> str:
    """Return a signature with everything that can change a score: package and version, metric, and parameters.

    >>> metric_signature("numpy", "mean", {"trimmed": True}).split()[::2]
    ['numpy', 'mean']
    """
    settings = " ".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in parameters.items()
    )
    return f"{package} {version(package)} {metric} {settings}".rstrip()
