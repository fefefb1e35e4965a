"""Word error rate and normalised edit distance, by rapidfuzz."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from custodes.arguments import check_one_of
from custodes.errors import requires_extra
from custodes.scoring.metric import Metric, MetricInputs, Place, Scorer, Traits
from custodes.scoring.preparing import TOKENIZERS, by_system, compare_texts, metric_signature

NO_WORDS = "a reference has no words, so the error rate is undefined"

Distance = Callable[[Sequence[Any], Sequence[Any]], float]


def _levenshtein() -> Any:
    with requires_extra("wer and edit need rapidfuzz", "score"):
        from rapidfuzz.distance import Levenshtein
    return Levenshtein


def _word_splitter(tokenize: str, lowercase: bool) -> Callable[[str], list[str]]:
    tokenizer = TOKENIZERS[check_one_of("tokenize", tokenize, TOKENIZERS)]
    return lambda text: tokenizer(text.lower() if lowercase else text)


def _load_wer(place: Place, *, tokenize: str, lowercase: bool) -> Scorer:
    edit_distance: Distance = _levenshtein().distance
    split_words = _word_splitter(tokenize, lowercase)

    def rate(output_words: list[str], reference_words: list[str]) -> float:
        return edit_distance(reference_words, output_words) / len(reference_words) if reference_words else np.nan

    return Scorer(
        signature=metric_signature("rapidfuzz", "wer", {"tokenize": tokenize, "lowercase": lowercase}),
        traits=WER.traits,
        score=lambda texts: compare_texts(
            texts, texts.references, prepare=split_words, compare=rate, undefined=NO_WORDS
        ),
    )


def _load_corpus_wer(place: Place, *, tokenize: str, lowercase: bool) -> Scorer:
    edit_distance: Distance = _levenshtein().distance
    split_words = _word_splitter(tokenize, lowercase)

    def rate(texts: MetricInputs, output_indices: Sequence[int]) -> float:
        """Return the error rate with the reference of each output that has the fewest errors.

        If several references have equally few errors, the longest reference is used.
        """
        errors_and_lengths = []
        for output_index in output_indices:
            output_words = split_words(texts.outputs[output_index])
            errors_and_lengths.append(
                min(
                    (
                        (edit_distance(reference_words, output_words), len(reference_words))
                        for reference_words in map(split_words, texts.references[texts.item[output_index]])
                    ),
                    key=lambda errors_and_length: (errors_and_length[0], -errors_and_length[1]),
                )
            )
        n_errors, n_words = np.sum(errors_and_lengths, axis=0)
        return float(n_errors / n_words) if n_words else np.nan

    return Scorer(
        signature=metric_signature("rapidfuzz", "corpus-wer", {"tokenize": tokenize, "lowercase": lowercase}),
        traits=CORPUS_WER.traits,
        score=lambda texts: by_system(texts, partial(rate, texts)),
    )


def _load_edit(place: Place, *, lowercase: bool) -> Scorer:
    normalised_distance: Distance = _levenshtein().normalized_distance
    return Scorer(
        signature=metric_signature("rapidfuzz", "edit", {"lowercase": lowercase}),
        traits=EDIT.traits,
        score=lambda texts: compare_texts(
            texts,
            texts.references,
            prepare=str.lower if lowercase else str,
            compare=lambda output, reference: normalised_distance(reference, output),
        ),
    )


WER = Metric(
    name="wer",
    gives=("Number of word insertions, deletions and substitutions per word of the reference; may exceed 1."),
    source="rapidfuzz; the definition of jiwer",
    load=_load_wer,
    traits=Traits(needs=("references",), rules=("best", "first", "mean"), higher_is_better=False, low=0.0),
    parameters={"tokenize": "space", "lowercase": False},
    extra="score",
)

CORPUS_WER = Metric(
    name="corpus-wer",
    gives="WER over all outputs of a system; each output is compared with the reference that gives the fewest errors.",
    source=WER.source,
    load=_load_corpus_wer,
    traits=Traits(needs=("references",), rules=("all", "first"), higher_is_better=False, low=0.0, systems=True),
    parameters=WER.parameters,
    extra="score",
)

EDIT = Metric(
    name="edit",
    gives=("Number of character insertions, deletions and substitutions per character of the longer text."),
    source="rapidfuzz; Levenshtein 1966",
    load=_load_edit,
    traits=Traits(needs=("references",), rules=("best", "first", "mean"), higher_is_better=False, low=0.0, high=1.0),
    parameters={"lowercase": False},
    extra="score",
)
