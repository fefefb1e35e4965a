"""Metrics of sacrebleu: BLEU, chrF and chrF++; statistics of references are made once an item, not once an output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from custodes.arguments import at_least, one_of
from custodes.errors import InputError, MissingExtraError
from custodes.scoring.metric import Metric, Place, Scored, Scorer, Texts, Traits
from custodes.scoring.preparing import by_item, by_reference, signed
from custodes.stats.arrays import Floats

KNOWN = ("2.6",)
"""Versions of sacrebleu whose inner functions are called: others are asked through what is public, which is slower."""


def sacrebleu_metrics() -> Any:
    """The module of sacrebleu with its metrics, which is loaded on the first use."""
    try:
        from sacrebleu import metrics
    except ImportError:
        raise MissingExtraError("BLEU, chrF and TER need sacrebleu: pip install 'custodes[score]'") from None
    return metrics


def inner_known() -> bool:
    """Whether this version of sacrebleu is one whose inner functions are known."""
    return ".".join(version("sacrebleu").split(".")[:2]) in KNOWN


def _load_bleu(place: Place, *, tokenize: str, smooth: str, lowercase: bool, order: int) -> Scorer:
    # A sentence of fewer than four words has no 4-grams, which would make it 0, so the orders it has are counted.
    own = bleu_of(tokenize=tokenize, smooth=smooth, lowercase=lowercase, order=order, effective_order=True)
    # The signature of a tokenizer names the dictionary that it reads, with its version.
    parameters = {"tokenize": own.tokenizer_signature, "smooth": smooth, "lowercase": lowercase, "order": order}
    table = _bleu if inner_known() else _bleu_public

    def score(texts: Texts) -> Scored:
        values = np.full((len(texts.outputs), 1), np.nan)
        for item, rows in by_item(texts):
            outputs = [texts.outputs[row] for row in rows.tolist()]
            values[rows, 0] = table(own, outputs, texts.references[item])
        return Scored(values=values)

    return Scorer(signature=signed("sacrebleu", "bleu", parameters), traits=BLEU.traits, score=score)


def bleu_of(
    *, tokenize: str, smooth: str, lowercase: bool, order: int, effective_order: bool, references: Any = None
) -> Any:
    """The BLEU of sacrebleu with these options, checked; InputError where what its tokenizer needs is not there.

    `references` are streams of them, counted once for all that is scored by it.
    """
    sacrebleu = sacrebleu_metrics()
    one_of("tokenize", tokenize, tuple(sacrebleu.BLEU.TOKENIZERS))
    one_of("smooth", smooth, tuple(sacrebleu.BLEU.SMOOTH_DEFAULTS))
    at_least("order", order, 1)
    try:
        return sacrebleu.BLEU(
            tokenize=tokenize,
            smooth_method=smooth,
            lowercase=lowercase,
            max_ngram_order=order,
            effective_order=effective_order,
            force=True,  # no word on lines that end in a tokenized period
            references=references,
        )
    except (Exception, SystemExit) as error:  # whatever a tokenizer loads
        told = " ".join(str(error).split())
        raise InputError(f"tokenize={tokenize} cannot be loaded ({told}); tokenize=13a needs nothing") from None


def _bleu(own: Any, outputs: list[str], references: Sequence[str]) -> list[float]:
    prepared = own._extract_reference_info([own._preprocess_segment(reference) for reference in references])
    counts = [own._compute_segment_statistics(own._preprocess_segment(output), prepared) for output in outputs]
    return [own._compute_score_from_stats(count).score for count in counts]


def _bleu_public(own: Any, outputs: list[str], references: Sequence[str]) -> list[float]:
    return [own.sentence_score(output, references).score for output in outputs]


def _load_chrf(
    place: Place, *, char_order: int, word_order: int, beta: int, lowercase: bool, whitespace: bool
) -> Scorer:
    parameters: dict[str, Any] = {
        "char_order": char_order,
        "word_order": word_order,
        "beta": beta,
        "lowercase": lowercase,
        "whitespace": whitespace,
    }
    own = chrf_of(**parameters)
    table = _chrf if inner_known() else _chrf_public
    return Scorer(
        signature=signed("sacrebleu", "chrf", parameters),
        traits=CHRF.traits,
        score=lambda texts: by_reference(texts, lambda outputs, references: table(own, outputs, references)),
    )


def chrf_of(
    *, char_order: int, word_order: int, beta: int, lowercase: bool, whitespace: bool, references: Any = None
) -> Any:
    """The chrF of sacrebleu with these options, checked."""
    return sacrebleu_metrics().CHRF(
        char_order=at_least("char_order", char_order, 1),
        word_order=at_least("word_order", word_order, 0),
        beta=at_least("beta", beta, 1),
        lowercase=lowercase,
        whitespace=whitespace,
        references=references,
    )


def _chrf(own: Any, outputs: list[str], references: Sequence[str]) -> Floats:
    counted = [_ngrams(own, reference) for reference in references]
    values = np.empty((len(outputs), len(references)))
    for row, output in enumerate(outputs):
        hypothesis = _ngrams(own, output)
        for column, reference in enumerate(counted):
            matches: list[int] = []
            for (ours, n), (theirs, of) in zip(hypothesis, reference, strict=True):
                both = sum([min(ours[gram], theirs[gram]) for gram in ours.keys() & theirs.keys()])
                matches += [n if of else 0, of, both]  # an order that the reference lacks is not counted
            values[row, column] = own._compute_f_score(matches)
    return values


def _ngrams(own: Any, text: str) -> list[tuple[Counter[str], int]]:
    """Of each order how often every n-gram stands in a text, and how many there are."""
    orders = own._extract_reference_info([own._preprocess_segment(text)])["ref_ngrams"][0]
    return [(counts, counts.total()) for counts in orders]


def _chrf_public(own: Any, outputs: list[str], references: Sequence[str]) -> Floats:
    scores = [[own.sentence_score(output, [reference]).score for reference in references] for output in outputs]
    return np.array(scores, dtype=float)


BLEU = Metric(
    name="bleu",
    gives="Share of the output's word n-grams (1 to 4) that stand in any reference, with a penalty for shortness.",
    source="sacrebleu; Papineni et al. 2002, Post 2018",
    load=_load_bleu,
    traits=Traits(needs=("references",), rules=("all", "best", "first", "mean"), low=0.0, high=100.0),
    parameters={"tokenize": "13a", "smooth": "exp", "lowercase": False, "order": 4},
    extra="score",
)

CHRF = Metric(
    name="chrf",
    gives="F-score of character n-grams (1 to 6), where recall counts twice.",
    source="sacrebleu; Popović 2015",
    load=_load_chrf,
    traits=Traits(needs=("references",), rules=("best", "first", "mean"), low=0.0, high=100.0),
    parameters={"char_order": 6, "word_order": 0, "beta": 2, "lowercase": False, "whitespace": False},
    extra="score",
)

CHRF_WORDS = Metric(
    name="chrf++",
    gives="chrF with n-grams of one and two words beside those of characters.",
    source="sacrebleu; Popović 2017",
    load=_load_chrf,
    traits=CHRF.traits,
    parameters={**CHRF.parameters, "word_order": 2},
    extra="score",
)
