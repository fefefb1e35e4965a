"""What an output looks like by itself or beside its source: its length, and how much of it is new."""

from __future__ import annotations

import numpy as np

from custodes.arguments import at_least, one_of
from custodes.scoring.metric import Metric, Place, Scored, Scorer, Texts, Traits
from custodes.scoring.preparing import TOKENIZERS, by_item, ngrams, signed

UNITS = ("words", "characters")


def _load_length(place: Place, *, unit: str) -> Scorer:
    one_of("unit", unit, UNITS)

    def score(texts: Texts) -> Scored:
        counts = [len(text.split()) if unit == "words" else len(text) for text in texts.outputs]
        return Scored(values=np.array(counts, dtype=float).reshape(-1, 1))

    return Scorer(signature=signed("custodes", "length", {"unit": unit}), traits=LENGTH.traits, score=score)


def _load_novelty(place: Place, *, n: int, tokenize: str) -> Scorer:
    n = at_least("n", n, 1)
    split = TOKENIZERS[one_of("tokenize", tokenize, TOKENIZERS)]

    def score(texts: Texts) -> Scored:
        values = np.full((len(texts.outputs), 1), np.nan)
        why: dict[int, str] = {}
        for item, rows in by_item(texts):
            old = ngrams(split(texts.sources[item]), n).keys()
            for row in rows.tolist():
                own = ngrams(split(texts.outputs[row]), n).keys()
                if own:
                    values[row] = len(own - old) / len(own)
                else:
                    why[row] = f"the output has fewer than {n} words"
        return Scored(values=values, why=why)

    signature = signed("custodes", "novelty", {"n": n, "tokenize": tokenize})
    return Scorer(signature=signature, traits=NOVELTY.traits, score=score)


LENGTH = Metric(
    name="length",
    gives="Words of the output, or its characters: what a metric must beat that claims to see more.",
    source="words are what spaces part",
    load=_load_length,
    traits=Traits(low=0.0),
    parameters={"unit": "words"},
)

NOVELTY = Metric(
    name="novelty",
    gives="Share of the output's different n-grams of words that do not stand in the source.",
    source="Fabbri et al. 2021 (SummEval), See et al. 2017",
    load=_load_novelty,
    traits=Traits(needs=("source",), low=0.0, high=1.0),
    parameters={"n": 2, "tokenize": "words"},
)
