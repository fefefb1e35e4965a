"""What metrics without a model share: texts of one item together, words of a text, what a signature says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from custodes.scoring.metric import Scored, Texts
from custodes.stats.arrays import Floats, Ints

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


def by_item(texts: Texts) -> Iterator[tuple[int, Ints]]:
    """Each item with the positions of its outputs, so that what is made of its references is made once."""
    order = np.argsort(texts.item, kind="stable")
    items, starts = np.unique(texts.item[order], return_index=True)
    yield from zip(items.tolist(), np.split(order, starts[1:]), strict=True)


def by_reference(
    texts: Texts,
    table: Callable[[list[str], Sequence[str]], Floats],
    *,
    undefined: Callable[[str, Sequence[str]], str] = lambda output, references: "",
) -> Scored:
    """A column for each reference.

    `table(outputs, references)` of one item is of that shape; `undefined(output, references)` says why there is no
    score, '' where there is one.
    """
    widest = max((len(texts.references[item]) for item in np.unique(texts.item).tolist()), default=0)
    values = np.full((len(texts.outputs), max(1, widest)), np.nan)
    why: dict[int, str] = {}
    for item, rows in by_item(texts):
        references = texts.references[item]
        reasons = [undefined(texts.outputs[row], references) for row in rows.tolist()]
        why |= {row: reason for row, reason in zip(rows.tolist(), reasons, strict=True) if reason}
        kept = [row for row, reason in zip(rows.tolist(), reasons, strict=True) if not reason]
        if kept:
            values[kept, : len(references)] = table([texts.outputs[row] for row in kept], references)
    return Scored(values=values, why=why)


def by_system(texts: Texts, score: Callable[[list[int]], float]) -> Floats:
    """A score of each system, made of the positions of its outputs."""
    return np.array([score(np.flatnonzero(texts.system == own).tolist()) for own in np.unique(texts.system).tolist()])


def signed(package: str, what: str, parameters: Mapping[str, Any]) -> str:
    """What may change a score: the package that computes it with its version, the metric, the parameters.

    >>> signed("numpy", "mean", {"trimmed": True}).split()[::2]
    ['numpy', 'mean']
    """
    given = " ".join(f"{name}={_written(value)}" for name, value in parameters.items())
    return f"{package} {version(package)} {what} {given}".rstrip()


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
