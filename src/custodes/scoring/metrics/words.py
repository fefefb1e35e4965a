"""Metrics of words without a library: length, novelty, divergence of word distributions, exact match and F1 (SQuAD)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import fsum, log2
from typing import Any

import numpy as np

from custodes.answers.wording import plural
from custodes.arguments import check_at_least, check_one_of
from custodes.scoring.metric import Metric, MetricInputs, MetricResult, Place, Scorer, Traits
from custodes.scoring.preparing import TOKENIZERS, compare_texts, metric_signature, ngrams

Gram = tuple[str, ...]
UNITS = ("words", "characters")
ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def _load_length(place: Place, *, unit: str) -> Scorer:
    check_one_of("unit", unit, UNITS)

    def score(texts: MetricInputs) -> MetricResult:
        return MetricResult(
            values=np.array(
                [[len(output.split()) if unit == "words" else len(output)] for output in texts.outputs], dtype=float
            ).reshape(-1, 1)
        )

    return Scorer(signature=metric_signature("custodes", "length", {"unit": unit}), traits=LENGTH.traits, score=score)


def _load_ngrams(
    place: Place,
    *,
    name: str,
    traits: Traits,
    compare: Callable[[Counter[Gram], Counter[Gram]], float],
    short_text_name: str,
    n: int,
    tokenize: str,
) -> Scorer:
    """Return a metric that compares the n-grams of an output with the n-grams of its source or of each reference."""
    check_at_least("n", n, 1)
    tokenizer = TOKENIZERS[check_one_of("tokenize", tokenize, TOKENIZERS)]
    return Scorer(
        signature=metric_signature("custodes", name, {"n": n, "tokenize": tokenize}),
        traits=traits,
        score=lambda texts: compare_texts(
            texts,
            texts.texts_to_compare(traits.needs[0]),
            prepare=lambda text: ngrams(tokenizer(text), n),
            compare=compare,
            undefined=f"{short_text_name} has fewer than {plural(n, 'word')}",
        ),
    )


def novel_ngram_share(output_counts: Counter[Gram], source_counts: Counter[Gram]) -> float:
    """Return the proportion of the output's distinct n-grams that are not in the source; NaN without n-grams."""
    return len(output_counts.keys() - source_counts.keys()) / len(output_counts) if output_counts else np.nan


def jensen_shannon(counts_a: Counter[Gram], counts_b: Counter[Gram]) -> float:
    """Return the divergence of two distributions in bits: 0 if they are equal, 1 if they are disjoint.

    The result is NaN if one of the distributions has no counts.

    >>> jensen_shannon(Counter("ab"), Counter("ab")), jensen_shannon(Counter("ab"), Counter("cd"))
    (0.0, 1.0)
    """
    total_a, total_b = counts_a.total(), counts_b.total()
    if not total_a or not total_b:
        return float("nan")
    overlap_terms = []  # their sum is 1 - divergence; words that occur in only one text contribute nothing
    for gram in counts_a.keys() & counts_b.keys():
        probability_a, probability_b = counts_a[gram] / total_a, counts_b[gram] / total_b
        mean_probability = (probability_a + probability_b) / 2
        overlap_terms.append(
            mean_probability
            - (
                probability_a * log2(probability_a / mean_probability)
                + probability_b * log2(probability_b / mean_probability)
            )
            / 2
        )
    return min(1.0, max(0.0, 1.0 - fsum(overlap_terms)))  # fsum: the order of a set differs between processes


def normalise_answer(text: str, *, articles: bool) -> list[str]:
    """Return the words of an answer in lower case, without ASCII punctuation.

    English articles are removed as well, unless `articles` is true.

    >>> normalise_answer("The U.S. of A", articles=False)
    ['us', 'of']
    """
    plain_text = text.lower().translate(PUNCTUATION)
    return (plain_text if articles else ARTICLES.sub(" ", plain_text)).split()


def exact_match(answer_words: Sequence[str], reference_words: Sequence[str]) -> float:
    """Return 1 if the words are equal, otherwise 0."""
    return float(answer_words == reference_words)


def token_f1(answer_words: Sequence[str], reference_words: Sequence[str]) -> float:
    """Return the F-score of the words, counted with repetition.

    If at least one text has no words, the score is 1 if both texts have no words, otherwise 0.
    """
    if not answer_words or not reference_words:
        return float(answer_words == reference_words)
    return 2 * (Counter(answer_words) & Counter(reference_words)).total() / (len(answer_words) + len(reference_words))


def _load_answer(
    place: Place, *, name: str, compare: Callable[[Sequence[str], Sequence[str]], float], articles: bool
) -> Scorer:
    return Scorer(
        signature=metric_signature("custodes", name, {"articles": articles}),
        traits=ANSWER,
        score=lambda texts: compare_texts(
            texts, texts.references, prepare=partial(normalise_answer, articles=articles), compare=compare
        ),
    )


LENGTH = Metric(
    name="length",
    gives="Number of words or characters of the output: a baseline for metrics.",
    source="words are separated by spaces",
    load=_load_length,
    traits=Traits(low=0.0),
    parameters={"unit": "words"},
)


def _ngram_metric(name: str, n: int, traits: Traits, gives: str, source: str, **options: Any) -> Metric:
    return Metric(
        name=name,
        gives=gives,
        source=source,
        load=partial(_load_ngrams, name=name, traits=traits, **options),
        traits=traits,
        parameters={"n": n, "tokenize": "words"},
    )


NOVELTY = _ngram_metric(
    "novelty",
    2,
    Traits(needs=("source",), low=0.0, high=1.0),
    "Proportion of the output's distinct word n-grams that do not occur in the source.",
    "Fabbri et al. 2021 (SummEval), See et al. 2017",
    compare=novel_ngram_share,
    short_text_name="the output",
)

JS = _ngram_metric(
    "js",
    1,
    Traits(needs=("references",), rules=("best", "first", "mean"), higher_is_better=False, low=0.0, high=1.0),
    "Jensen–Shannon divergence between the word distributions of output and reference, in bits; 0 if equal.",
    "Lin et al. 2006; Louis and Nenkova 2013",
    compare=jensen_shannon,
    short_text_name="the output or the reference",
)

JS_SOURCE = _ngram_metric(
    "js-source",
    1,
    Traits(needs=("source",), higher_is_better=False, low=0.0, high=1.0),
    "Jensen–Shannon divergence of the word distributions of output and source, in bits; needs no references.",
    "Louis and Nenkova 2009",
    compare=jensen_shannon,
    short_text_name="the output or the source",
)

ANSWER = Traits(needs=("references",), rules=("best", "first", "mean"), low=0.0, high=1.0)


def _answer_metric(name: str, gives: str, compare: Callable[[Sequence[str], Sequence[str]], float]) -> Metric:
    return Metric(
        name=name,
        gives=gives,
        source="Rajpurkar et al. 2016 (SQuAD)",
        load=partial(_load_answer, name=name, compare=compare),
        traits=ANSWER,
        parameters={"articles": False},
    )


EXACT = _answer_metric(
    "exact", "Whether the answer equals a correct answer, ignoring case, punctuation and English articles.", exact_match
)
F1 = _answer_metric(
    "f1",
    "F-score of the words that the answer shares with a correct answer; texts are prepared as for `exact`.",
    token_f1,
)
