"""Jensen-Shannon divergence between the word distributions of an output and of a reference or the source."""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import log2

from custodes.arguments import at_least, one_of
from custodes.scoring.metric import Metric, MetricInputs, Place, Scored, Scorer, Traits
from custodes.scoring.preparing import TOKENIZERS, compared, ngrams, signed

Counts = Counter[tuple[str, ...]]


def jensen_shannon(one: Counts, other: Counts) -> float:
    """Return the divergence of two distributions in bits: 0 if they are equal, 1 if they are disjoint.

    The result is NaN if one of the distributions has no counts.

    >>> jensen_shannon(Counter("ab"), Counter("ab")), jensen_shannon(Counter("ab"), Counter("cd"))
    (0.0, 1.0)
    """
    ours, theirs = one.total(), other.total()
    if not ours or not theirs:
        return float("nan")
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    shared = 0.0  # 1 - divergence; words that occur in only one text contribute nothing to it
    for gram in few.keys() & many.keys():
        p, q = one[gram] / ours, other[gram] / theirs
        middle = (p + q) / 2
        shared += middle - (p * log2(p / middle) + q * log2(q / middle)) / 2
    return min(1.0, max(0.0, 1.0 - shared))


def _load(place: Place, *, name: str, n: int, tokenize: str) -> Scorer:
    at_least("n", n, 1)
    split = TOKENIZERS[one_of("tokenize", tokenize, TOKENIZERS)]
    undefined = (
        f"the output or the {'reference' if name == 'js' else 'source'} has fewer than {n} word{'s' if n > 1 else ''}"
    )

    def score(texts: MetricInputs) -> Scored:
        others = texts.references if name == "js" else [[source] for source in texts.sources]
        return compared(
            texts, others, prepare=lambda text: ngrams(split(text), n), compare=jensen_shannon, undefined=undefined
        )

    traits = (JS if name == "js" else JS_SOURCE).traits
    return Scorer(signature=signed("custodes", name, {"n": n, "tokenize": tokenize}), traits=traits, score=score)


JS = Metric(
    name="js",
    gives=("Jensen–Shannon divergence between the word distributions of output and reference, in bits; 0 if equal."),
    source="Lin et al. 2006; Louis and Nenkova 2013",
    load=partial(_load, name="js"),
    traits=Traits(needs=("references",), rules=("best", "first", "mean"), higher_is_better=False, low=0.0, high=1.0),
    parameters={"n": 1, "tokenize": "words"},
)

JS_SOURCE = Metric(
    name="js-source",
    gives=("Jensen–Shannon divergence of the word distributions of output and source, in bits; needs no references."),
    source="Louis and Nenkova 2009",
    load=partial(_load, name="js-source"),
    traits=Traits(needs=("source",), higher_is_better=False, low=0.0, high=1.0),
    parameters={"n": 1, "tokenize": "words"},
)
