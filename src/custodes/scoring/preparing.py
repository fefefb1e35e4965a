"""What metrics without a model share: texts of one item together, words of a text, what a signature says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np

from custodes.scoring.metric import MetricInputs, Scored
from custodes.stats.arrays import Ints

T = TypeVar("T")
WORD = re.compile(r"\w+")

TOKENIZERS: Mapping[str, Callable[[str], list[str]]] = {
    "words": lambda text: WORD.findall(text.casefold()),
    "space": str.split,
    "characters": lambda text: [letter for letter in text if not letter.isspace()],
}
"""How a text is taken apart: runs of letters and digits in lower case; what spaces part, as it is; every character."""


def ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    """How often each run of n tokens stands in a text.

    >>> ngrams(["a", "b", "a", "b"], 2)[("a", "b")]
    2
    """
    return Counter(zip(*(tokens[place:] for place in range(n)), strict=False))


def by_item(texts: MetricInputs) -> Iterator[tuple[int, Ints]]:
    """Each item with the positions of its outputs, so that what is made of its references is made once."""
    order = np.argsort(texts.item, kind="stable")
    items, starts = np.unique(texts.item[order], return_index=True)
    yield from zip(items.tolist(), np.split(order, starts[1:]), strict=True)


def compared(
    texts: MetricInputs,
    others: Sequence[Sequence[str]],
    *,
    prepare: Callable[[str], T],
    compare: Callable[[T, T], float],
    undefined: str = "",
) -> Scored:
    """Compare each output with the texts `others` (items,) of its item, a column for each; every text is prepared once.

    Parameters
    ----------
    texts : MetricInputs
        Outputs and their items.
    others : sequence of sequences of str
        Texts of each item, such as its references.
    prepare : callable
        What is compared of a text.
    compare : callable
        The value of a prepared output and a prepared text of its item; NaN where it is undefined.
    undefined : str
        Why an output with an undefined value has no score.

    Returns
    -------
    Scored
        Values (outputs, texts of an item).
    """
    widest = max((len(others[item]) for item in np.unique(texts.item).tolist()), default=0)
    values = np.full((len(texts.outputs), max(1, widest)), np.nan)
    why: dict[int, str] = {}
    for item, rows in by_item(texts):
        prepared = [prepare(text) for text in others[item]]
        for row in rows.tolist():
            output = prepare(texts.outputs[row])
            values[row, : len(prepared)] = [compare(output, other) for other in prepared]
            if np.isnan(values[row, : len(prepared)]).any():
                values[row], why[row] = np.nan, undefined
    return Scored(values=values, why=why)


def by_system(texts: MetricInputs, score: Callable[[list[int]], float]) -> Scored:
    """A score of each system, made of the positions of its outputs."""
    systems = [score(np.flatnonzero(texts.system == system).tolist()) for system in np.unique(texts.system).tolist()]
    return Scored(values=np.zeros((len(texts.outputs), 0)), systems=np.array(systems))


def signed(package: str, what: str, parameters: Mapping[str, Any]) -> str:
    """What may change a score: the package that computes it with its version, the metric, the parameters.

    >>> signed("numpy", "mean", {"trimmed": True}).split()[::2]
    ['numpy', 'mean']
    """
    settings = " ".join(f"{name}={_written(value)}" for name, value in parameters.items())
    return f"{package} {version(package)} {what} {settings}".rstrip()


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
