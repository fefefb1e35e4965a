"""Length of an output, and its novelty relative to the source."""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from custodes.arguments import at_least, one_of
from custodes.scoring.metric import Metric, MetricInputs, Place, Scored, Scorer, Traits
from custodes.scoring.preparing import TOKENIZERS, compared, ngrams, signed

Gram = tuple[str, ...]
UNITS = ("words", "characters")


def _load_length(place: Place, *, unit: str) -> Scorer:
    one_of("unit", unit, UNITS)

    def score(texts: MetricInputs) -> Scored:
        counts = [len(text.split()) if unit == "words" else len(text) for text in texts.outputs]
        return Scored(values=np.array(counts, dtype=float).reshape(-1, 1))

    return Scorer(signature=signed("custodes", "length", {"unit": unit}), traits=LENGTH.traits, score=score)


def _load_novelty(place: Place, *, n: int, tokenize: str) -> Scorer:
    n = at_least("n", n, 1)
    split = TOKENIZERS[one_of("tokenize", tokenize, TOKENIZERS)]

    def share(output: Set[Gram], source: Set[Gram]) -> float:
        return len(output - source) / len(output) if output else np.nan

    def score(texts: MetricInputs) -> Scored:
        return compared(
            texts,
            [[source] for source in texts.sources],
            prepare=lambda text: ngrams(split(text), n).keys(),
            compare=share,
            undefined=f"the output has fewer than {n} words",
        )

    signature = signed("custodes", "novelty", {"n": n, "tokenize": tokenize})
    return Scorer(signature=signature, traits=NOVELTY.traits, score=score)


LENGTH = Metric(
    name="length",
    gives="Number of words or characters of the output: a baseline for metrics.",
    source="words are separated by spaces",
    load=_load_length,
    traits=Traits(low=0.0),
    parameters={"unit": "words"},
)

NOVELTY = Metric(
    name="novelty",
    gives="Proportion of the output's distinct word n-grams that do not occur in the source.",
    source="Fabbri et al. 2021 (SummEval), See et al. 2017",
    load=_load_novelty,
    traits=Traits(needs=("source",), low=0.0, high=1.0),
    parameters={"n": 2, "tokenize": "words"},
)
