"""Translation edit rate of sacrebleu, which is for sentences: its time grows with the third power of the length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from custodes.arguments import at_least
from custodes.errors import OptionError
from custodes.scoring.metric import Metric, Place, Scored, Scorer, Texts, Traits
from custodes.scoring.metrics.corpora import corpus_scorer
from custodes.scoring.metrics.translations import sacrebleu_metrics
from custodes.scoring.preparing import signed

PAIR = 5e-7
"""CPU seconds of a pair of texts by the product of their words to the power of 1.5: measured on summaries and parts of
them, from 5 to 80 words, where it was 2e-7 to 6e-7. Good translations are more alike and take about a fifth."""


def _load(place: Place, *, budget: int, **options: bool) -> Scorer:
    own = sacrebleu_metrics().TER(**options)

    def score(texts: Texts) -> Scored:
        # Of several references: the fewest edits, divided by their average length.
        references = (texts.references[item] for item in texts.item.tolist())
        scores = [own.sentence_score(*pair).score for pair in zip(texts.outputs, references, strict=True)]
        return Scored(values=np.array(scores, dtype=float).reshape(-1, 1))

    return Scorer(
        signature=signed("sacrebleu", "ter", options), traits=TER.traits, score=score, ready=_within(budget, "ter")
    )


def _load_corpus(place: Place, *, budget: int, **options: bool) -> Scorer:
    made = partial(sacrebleu_metrics().TER, **options)
    return replace(corpus_scorer("corpus-ter", made, options, CORPUS_TER.traits), ready=_within(budget, "corpus-ter"))


def _within(budget: int, name: str) -> Callable[[Texts], None]:
    at_least("budget", budget, 1)

    def ready(texts: Texts) -> None:
        seconds = seconds_of(texts)
        if seconds > budget:
            fewer = f"take the first reference alone by {name}@first, " if max(map(len, texts.references)) > 1 else ""
            raise OptionError(
                f"{len(texts.outputs)} outputs would take up to about {_about(seconds)} CPU seconds, and the budget is"
                f" {budget}; allow as much by {name}:budget={_about(seconds)}, {fewer}or use another metric for long"
                " texts, such as chrf"
            )

    return ready


def seconds_of(texts: Texts) -> float:
    """About how many CPU seconds TER of outputs takes against references that have little in common with them."""
    theirs = np.array([sum(len(own.split()) ** 1.5 for own in several) for several in texts.references])
    ours = np.array([len(output.split()) ** 1.5 for output in texts.outputs])
    return float(PAIR * (ours * theirs[texts.item]).sum())


def _about(seconds: float) -> int:
    """Rounded up to two digits."""
    unit = 10 ** max(0, len(str(int(seconds))) - 2)
    return int(-(-seconds // unit) * unit)


TER = Metric(
    name="ter",
    gives="Words and blocks of words to change, as a share of the reference's words; for sentences, slow for more.",
    source="sacrebleu; Snover et al. 2006",
    load=_load,
    traits=Traits(needs=("references",), rules=("all", "best", "first", "mean"), higher_is_better=False, low=0.0),
    parameters={
        "normalized": False,
        "no_punct": False,
        "asian_support": False,
        "case_sensitive": False,
        "budget": 300,
    },
    extra="score",
)

CORPUS_TER = Metric(
    name="corpus-ter",
    gives="TER over all outputs of a system at once: edits are added before they are divided.",
    source=TER.source,
    load=_load_corpus,
    traits=Traits(needs=("references",), rules=("all", "first"), higher_is_better=False, low=0.0, systems=True),
    parameters=TER.parameters,
    extra="score",
)
