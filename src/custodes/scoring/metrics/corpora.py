"""BLEU and chrF of systems over all their outputs at once, which are not the mean over outputs, by sacrebleu."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from custodes.scoring.metric import Metric, Place, Scored, Scorer, Texts, Traits
from custodes.scoring.metrics.translations import BLEU, CHRF, CHRF_WORDS, bleu_of, chrf_of
from custodes.scoring.preparing import by_system, signed

Streams = list[list[str | None]]


def _load_bleu(place: Place, **parameters: Any) -> Scorer:
    # Over a corpus all orders are counted, as everywhere: only a single sentence may have no 4-grams.
    made = partial(bleu_of, **parameters, effective_order=False)
    return corpus_scorer("corpus-bleu", made, {**parameters, "tokenize": made().tokenizer_signature}, TRAITS)


def _load_chrf(place: Place, **parameters: Any) -> Scorer:
    return corpus_scorer("corpus-chrf", partial(chrf_of, **parameters), parameters, TRAITS)


def corpus_scorer(name: str, made: Callable[..., Any], parameters: Mapping[str, Any], traits: Traits) -> Scorer:
    """What a metric of sacrebleu says of each system, over all its outputs.

    `made(references=...)` is the metric that has counted what is in these references; `made()` checks the options.
    Systems mostly have the same items, so these are counted once.
    """
    made()
    last: list[tuple[Streams, Any]] = []

    def of(texts: Texts, rows: Sequence[int]) -> float:
        streams = _streams([texts.references[item] for item in texts.item[rows].tolist()])
        if not last or last[0][0] != streams:
            last[:] = [(streams, made(references=streams))]
        return float(last[0][1].corpus_score([texts.outputs[row] for row in rows], None).score)

    def score(texts: Texts) -> Scored:
        systems = by_system(texts, lambda rows: of(texts, rows))
        return Scored(values=np.zeros((len(texts.outputs), 0)), systems=systems)

    return Scorer(signature=signed("sacrebleu", name, parameters), traits=traits, score=score, close=last.clear)


def _streams(references: Sequence[Sequence[str]]) -> Streams:
    """The first reference of every item, the second, and so on; None for an item that has no so many."""
    most = max(map(len, references))
    return [[own[place] if place < len(own) else None for own in references] for place in range(most)]


TRAITS = Traits(needs=("references",), rules=("all", "first"), low=0.0, high=100.0, systems=True)

CORPORA = tuple(
    Metric(
        name=f"corpus-{own.name}",
        gives=f"{said} over all outputs of a system at once: counts are added before they are divided.",
        source=own.source,
        load=load,
        traits=TRAITS,
        parameters=own.parameters,
        extra="score",
    )
    for own, said, load in ((BLEU, "BLEU", _load_bleu), (CHRF, "chrF", _load_chrf), (CHRF_WORDS, "chrF++", _load_chrf))
)
