"""Jensen-Shannon divergence of the words of an output from those of its references, or of its source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import log2
from typing import Any

import numpy as np

from custodes.arguments import at_least, one_of
from custodes.scoring.metric import Metric, Place, Scored, Scorer, Texts, Traits
from custodes.scoring.preparing import TOKENIZERS, by_item, by_reference, ngrams, signed
from custodes.stats.arrays import Floats

Counts = Counter[tuple[str, ...]]


def jensen_shannon(one: Counts, other: Counts) -> float:
    """The divergence of two distributions in bits: 0 of equals, 1 where nothing is shared; NaN without counts.

    >>> jensen_shannon(Counter("ab"), Counter("ab")), jensen_shannon(Counter("ab"), Counter("cd"))
    (0.0, 1.0)
    """
    ours, theirs = one.total(), other.total()
    if not ours or not theirs:
        return float("nan")
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    shared = 0.0  # what stands in one text alone adds half its share, and all shares add up to 2
    for gram in few.keys() & many.keys():
        p, q = one[gram] / ours, other[gram] / theirs
        middle = (p + q) / 2
        shared += middle - (p * log2(p / middle) + q * log2(q / middle)) / 2
    return min(1.0, max(0.0, 1.0 - shared))


def _counting(n: int, tokenize: str) -> Callable[[str], Counts]:
    at_least("n", n, 1)
    split = TOKENIZERS[one_of("tokenize", tokenize, TOKENIZERS)]
    return lambda text: ngrams(split(text), n)


def _too_short(n: int) -> str:
    return f"the output, or what it is compared with, has fewer than {n} word{'s' if n > 1 else ''}"


def _load_references(place: Place, *, n: int, tokenize: str) -> Scorer:
    counted = _counting(n, tokenize)

    def table(outputs: list[str], references: Sequence[str]) -> Floats:
        right, given = ([counted(own) for own in texts] for texts in (references, outputs))
        return np.array([[jensen_shannon(output, own) for own in right] for output in given])

    def score(texts: Texts) -> Scored:
        made = by_reference(texts, table)
        widths = np.array([len(texts.references[item]) for item in texts.item.tolist()])
        undefined = (np.isnan(made.values) & (np.arange(made.values.shape[1]) < widths[:, None])).any(axis=1)
        return Scored(values=made.values, why=dict.fromkeys(np.flatnonzero(undefined).tolist(), _too_short(n)))

    return _scorer("js", JS, score, {"n": n, "tokenize": tokenize})


def _load_source(place: Place, *, n: int, tokenize: str) -> Scorer:
    counted = _counting(n, tokenize)

    def score(texts: Texts) -> Scored:
        values = np.full((len(texts.outputs), 1), np.nan)
        for item, rows in by_item(texts):
            source = counted(texts.sources[item])
            values[rows, 0] = [jensen_shannon(counted(texts.outputs[row]), source) for row in rows.tolist()]
        return Scored(values=values, why=dict.fromkeys(np.flatnonzero(np.isnan(values)).tolist(), _too_short(n)))

    return _scorer("js-source", JS_SOURCE, score, {"n": n, "tokenize": tokenize})


def _scorer(name: str, metric: Metric, score: Callable[[Texts], Scored], parameters: dict[str, Any]) -> Scorer:
    return Scorer(signature=signed("custodes", name, parameters), traits=metric.traits, score=score)


JS = Metric(
    name="js",
    gives="How far the distribution of the output's words is from the reference's, in bits: 0 if they are the same.",
    source="Lin et al. 2006; Louis and Nenkova 2013",
    load=_load_references,
    traits=Traits(needs=("references",), rules=("best", "first", "mean"), higher_is_better=False, low=0.0, high=1.0),
    parameters={"n": 1, "tokenize": "words"},
)

JS_SOURCE = Metric(
    name="js-source",
    gives="How far the distribution of the output's words is from the source's, in bits: no references are needed.",
    source="Louis and Nenkova 2009",
    load=_load_source,
    traits=Traits(needs=("source",), higher_is_better=False, low=0.0, high=1.0),
    parameters={"n": 1, "tokenize": "words"},
)
